# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The spelling of attributes: builtin ones, the dialect's, constants' elements, debug information and locations.

`attribute_text` prints any attribute. A caller with aliases passes `alias`, which gives an attribute's name or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from enum import Enum
from functools import partial
from typing import Any

from libtile.dialects.cuda_tile.forms import (
    CudaTileAttribute,
    DebugAttr,
    DenseElementsAttr,
    DIFileAttr,
    DILocAttr,
    EnumAttr,
    FileLineColRange,
    OptimizationHintsAttr,
)
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES, is_number, type_text
from libtile.dialects.cuda_tile.type_forms import function_type_text as function_type_text
from libtile.dialects.cuda_tile.type_forms import generic_type_text as generic_type_text
from libtile.ir.forms import (
    ArrayAttr,
    Attribute,
    CallSiteLoc,
    DenseArrayBase,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    FunctionType,
    FusedLoc,
    IntegerAttr,
    IntegerType,
    NameLoc,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttribute,
    UnitAttr,
    UnknownLoc,
    UnregisteredAttr,
)
from libtile.ir.strings import is_bare_identifier, quote, symbol_text
from libtile.numerics.text import float_bits, float_text, integer_text

Alias = Callable[[Attribute], str | None]

HEX_ELEMENTS = 100
"""Constants with more elements than this are written as one hexadecimal string."""


class TypeElision(Enum):
    """Whether a number's type is left out: never, where the default type says it (i64, f64), or always."""

    NEVER = 0
    MAY = 1
    MUST = 2


LOCATIONS = (FileLineColLoc, FileLineColRange, NameLoc, FusedLoc, CallSiteLoc, UnknownLoc, DILocAttr)


def no_alias(attr: Attribute) -> str | None:
    return None


def attribute_text(attr: Attribute, elision: TypeElision = TypeElision.MUST, alias: Alias = no_alias) -> str:
    """The spelling of an attribute (by default, as in hints: without the type of a number)."""
    name = alias(attr)
    if name is not None:
        return name
    match attr:
        case IntegerAttr():
            return _integer(attr, elision)
        case FloatAttr():
            return _float(attr, elision)
        case StringAttr():
            return quote(attr.data)
        case UnitAttr():
            return "unit"
        case EnumAttr():
            return enum_text(attr)
        case SymbolRefAttr():
            return "::".join(symbol_text(s.data) for s in (attr.root_reference, *attr.nested_references))
        case ArrayAttr():
            return f"[{', '.join(attribute_text(a, TypeElision.MAY, alias) for a in attr.data)}]"
        case DictionaryAttr():
            return f"{{{dictionary_text(attr.data, alias)}}}"
        case DenseArrayBase():
            return dense_array_text(attr)
        case DenseElementsAttr():
            text = f"dense<{elements_text(attr)}>"
            return text if elision is TypeElision.MUST else f"{text} : {type_text(attr.type, short=False)}"
        case DILocAttr():
            return "#cuda_tile.di_loc" + debug_text(attr, alias)
        case DebugAttr():
            return f"#cuda_tile.{attr.mnemonic}{debug_text(attr, alias)}"
        case FileLineColLoc() | FileLineColRange() | NameLoc() | FusedLoc() | CallSiteLoc() | UnknownLoc():
            return f"loc({location_text(attr, alias)})"
        case OptimizationHintsAttr():
            return "#cuda_tile." + attr.text()
        case UnregisteredAttr():
            return foreign_text(attr)
        case FunctionType():
            return function_type_text(attr)
        case TypeAttribute():
            return type_text(attr, short=False)
        case _:
            return foreign_text(attr)


def foreign_text(attr: Attribute) -> str:
    """What xDSL prints for an attribute or type of another dialect."""
    return str(attr)


def body_text(attr: CudaTileAttribute) -> str:
    """The body of an attribute that holds others, or numbers, brackets included."""
    match attr:
        case OptimizationHintsAttr():
            archs = (
                f"{key_text(a)} = {{{', '.join(f'{key_text(key)} = {attribute_text(value)}' for key, value in keys)}}}"
                for a, keys in attr.data
            )
            return f"<{', '.join(archs)}>"
        case DenseElementsAttr():
            return f"<{elements_text(attr)}>"
        case DebugAttr():
            return debug_text(attr)
    raise TypeError(f"{type(attr).__name__} has no textual body")  # all others have their own


def enum_text(attr: EnumAttr) -> str:
    """`#cuda_tile.rounding<zero>`, or the number of a plain enum: `3 : i32`."""
    return f"{attr.value} : i32" if attr.spec.plain else f"#cuda_tile.{attr.text()}"


def _integer(attr: IntegerAttr[Any], elision: TypeElision) -> str:
    type_ = attr.type
    if is_number(type_, "i1"):
        return "true" if attr.value.data else "false"
    text = str(attr.value.data)
    if elision is TypeElision.MUST or (elision is TypeElision.MAY and is_number(type_, "i64")):
        return text
    return f"{text} : {type_text(type_)}"


def _float(attr: FloatAttr[Any], elision: TypeElision) -> str:
    name = NUMBER_NAMES.get(attr.type)
    if name is None:
        return foreign_text(attr)
    text = float_text(float_bits(attr.value.data, name), name)
    if elision is TypeElision.MUST or (elision is TypeElision.MAY and name == "f64" and not text.startswith("0x")):
        return text
    return f"{text} : {name}"


def key_text(name: str) -> str:
    """A key of a dictionary or of hints."""
    return name if is_bare_identifier(name) else quote(name)


def named_attribute_text(name: str, attr: Attribute, alias: Alias = no_alias) -> str:
    key = key_text(name)
    return key if isinstance(attr, UnitAttr) else f"{key} = {attribute_text(attr, TypeElision.NEVER, alias)}"


def dictionary_text(attributes: Mapping[str, Attribute], alias: Alias = no_alias) -> str:
    """The entries of a dictionary, sorted by name, without the braces."""
    return ", ".join(named_attribute_text(name, attributes[name], alias) for name in sorted(attributes))


def dense_array_values(attr: DenseArrayBase[Any]) -> str:
    """The elements alone: `1, 2`."""
    name = NUMBER_NAMES.get(attr.elt_type)
    if is_number(attr.elt_type, "i1"):
        return ", ".join("true" if v else "false" for v in attr.get_values())
    if isinstance(attr.elt_type, IntegerType):
        return ", ".join(map(str, attr.get_values()))
    if name is not None:
        return ", ".join(float_text(float_bits(v, name), name) for v in attr.get_values())
    return ", ".join(map(str, attr.get_values()))


def dense_array_text(attr: DenseArrayBase[Any]) -> str:
    values = dense_array_values(attr)
    return f"array<{type_text(attr.elt_type)}{': ' if values else ''}{values}>"


elided_above: ContextVar[int | None] = ContextVar("libtile-elided-above", default=None)
"""The most elements that constants are written with; one with more different ones is written as `__elided__`."""


def elements_text(attr: DenseElementsAttr) -> str:
    """What stands between the brackets of `dense<...>`: one value for a splat, nested lists, or a string."""
    most = elided_above.get()
    if most is not None and not attr.is_splat and attr.type.num_elements > most:
        return "__elided__"
    element_type = attr.type.element_type
    name = NUMBER_NAMES[element_type]
    if isinstance(element_type, IntegerType):
        print_element = partial(integer_text, width=element_type.width.data)
    else:
        print_element = partial(float_text, name=name)
    if not attr.is_splat and attr.type.num_elements > HEX_ELEMENTS:
        return f'"0x{attr.raw.hex().upper()}"'
    texts = [print_element(bits) for bits in attr.elements()]
    if attr.is_splat:
        return texts[0]
    for size in reversed(attr.type.shape):
        texts = [f"[{', '.join(texts[i : i + size])}]" for i in range(0, len(texts), size)]
    return texts[0] if texts else ""


# -- locations and debug information ----------------------------------------------------------------------------------


def location_text(location: Attribute, alias: Alias = no_alias, top: bool = True) -> str:
    """A location without the surrounding `loc(...)`; inner locations by their alias where they have one."""
    if not top:
        name = alias(location)
        if name is not None:
            return name
    match location:
        case UnknownLoc():
            return "unknown"
        case FileLineColLoc():
            return f"{quote(location.filename.data)}:{location.line.data}:{location.column.data}"
        case FileLineColRange():
            last_line = "" if location.last_line == location.line else location.last_line
            place = f"{quote(location.filename)}:{location.line}:{location.column}"
            return f"{place} to {last_line}:{location.last_column}"
        case NameLoc():
            inner = location.location
            if isinstance(inner, UnknownLoc | NoneAttr):
                return quote(location.desc.data)
            return f"{quote(location.desc.data)}({location_text(inner, alias, top=False)})"
        case CallSiteLoc():
            callee, caller = (location_text(x, alias, top=False) for x in (location.callee, location.caller))
            return f"callsite({callee} at {caller})"
        case FusedLoc(locations=ArrayAttr() as parts):
            inner_texts = ", ".join(location_text(x, alias, top=False) for x in parts)
            metadata = location.metadata
            extra = "" if isinstance(metadata, NoneAttr) else f"<{attribute_text(metadata, TypeElision.NEVER, alias)}>"
            return f"fused{extra}[{inner_texts}]"
        case _:
            return attribute_text(location, TypeElision.NEVER)


_DEBUG_FIELDS: dict[str, tuple[tuple[str, str, bool], ...]] = {
    "di_compile_unit": (("file", "file", False),),
    "di_lexical_block": (
        ("scope", "scope", False),
        ("file", "file", False),
        ("line", "line", False),
        ("column", "column", True),
    ),
    "di_subprogram": (
        ("file", "file", False),
        ("line", "line", False),
        ("name", "subprogram_name", False),
        ("linkageName", "linkage_name", False),
        ("compileUnit", "compile_unit", False),
        ("scopeLine", "scope_line", True),
        ("flags", "flags", True),
    ),
}
"""Fields of the records written as `name = value`: their name in text, in the record, and whether zero is left out."""


def debug_fields(cls: type[DebugAttr]) -> tuple[tuple[str, str, bool], ...]:
    return _DEBUG_FIELDS[cls.mnemonic]


def debug_text(attr: DebugAttr, alias: Alias = no_alias) -> str:
    """The body of a debug-information attribute, brackets included."""
    if isinstance(attr, DIFileAttr):
        return f"<{quote(attr.file_name)} in {quote(attr.directory)}>"
    if isinstance(attr, DILocAttr):
        source = attr.position()
        position = alias(source) or f"loc({location_text(source)})"
        return f"<{position} in {attribute_text(attr.scope, TypeElision.NEVER, alias)}>"
    parts = []
    for text_name, field, optional in _DEBUG_FIELDS[attr.mnemonic]:
        value = getattr(attr, field)
        if optional and not value:
            continue
        if isinstance(value, Attribute):
            value = attribute_text(value, TypeElision.NEVER, alias)
        elif isinstance(value, str):
            value = quote(value)
        parts.append(f"{text_name} = {value}")
    return f"<{', '.join(parts)}>"
