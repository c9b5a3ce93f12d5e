# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes of declared kinds as custom forms write them. See `attribute_kinds` for how they are read."""

from __future__ import annotations

from libtile.dialects.cuda_tile.attribute_text import (
    Alias,
    TypeElision,
    attribute_text,
    dense_array_values,
    no_alias,
)
from libtile.dialects.cuda_tile.forms import EnumAttr, OptimizationHintsAttr, TestValueAttr
from libtile.ir.forms import Attribute, DenseArrayBase, StringAttr
from libtile.ir.strings import quote, symbol_text


def attribute_value_text(attr: Attribute, alias: Alias = no_alias) -> str:
    """What a custom form writes for an attribute of a declared kind: without dialect prefix, mnemonic and type."""
    match attr:
        case EnumAttr():
            return attr.keyword if attr.spec.plain else f"<{attr.keyword}>"
        case StringAttr():
            return quote(attr.data)
        case OptimizationHintsAttr() | TestValueAttr():
            return attr.body()
        case DenseArrayBase():
            return f"[{dense_array_values(attr)}]"
        case _:
            return attribute_text(attr, TypeElision.MUST, alias)


def symbol_name_text(attr: Attribute) -> str:
    return symbol_text(attr.data) if isinstance(attr, StringAttr) else attribute_value_text(attr)
