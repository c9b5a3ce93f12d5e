# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which tiles of narrow floats can be made wide apart from where others make the same tile wide: see `widen_apart`."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, Operation

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.ir.operands import source_of
from libtile.numerics.elements import PACKED, STORAGE_BYTES

APART = "apart"
"""On an `fp_to_fp` to a wider format: LLVM does not see that others make the same tile wide."""
_WORD = 4
"""Bytes of a register."""


def fills_words(op: Operation) -> bool:
    """Whether the elements of an op's operand are narrow, and those of a thread fill whole registers."""
    type_ = source_of(op).type
    if not isinstance(type_, TensorType) or not isinstance(type_.encoding, LayoutAttr):
        return False
    name = NUMBER_NAMES.get(type_.element_type)
    if name is None or name in PACKED:
        return False
    size, layout = STORAGE_BYTES[name], type_.encoding.layout
    return size < _WORD and layout.in_size("register") * size % _WORD == 0


def is_apart(op: Operation, attr: Attribute) -> bool:
    """Whether an op may say that it is apart."""
    return isinstance(attr, UnitAttr) and fills_words(op)
