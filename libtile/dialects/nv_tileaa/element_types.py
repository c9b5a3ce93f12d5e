# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The finite table of element types that the dialects work with, and the families that rules speak of."""

from __future__ import annotations

from xdsl.dialects.builtin import Float4E2M1FNType, Float8E4M3FNType, Float8E8M0FNUType, IndexType, IntegerType
from xdsl.ir import Attribute

from libtile.dialects.cuda_tile.types import NUMBER_TYPES, Fnv8E5M3FNUType
from libtile.ir.tile_form import element_of, shape_of
from libtile.numerics.elements import ELEMENTS, FORMATS, POINTER_BITS

FLOATS: dict[type[Attribute], int] = {type(NUMBER_TYPES[name]): ELEMENTS[name].storage_bits for name in FORMATS}
"""Supported float element types and the bits that an element takes in memory (tf32 is stored as f32)."""

BLOCK_SCALED = (Float4E2M1FNType, Float8E8M0FNUType, Fnv8E5M3FNUType)
"""Formats that only block-scaled MMA works on: its 4-bit inputs and its scale factors."""

SCALES = (Float8E8M0FNUType, Fnv8E5M3FNUType, Float8E4M3FNType)
"""Element types of scale factors: MX formats have E8M0, NVFP4 has E4M3."""


def is_float(element: Attribute) -> bool:
    return type(element) in FLOATS


def is_integer(element: Attribute) -> bool:
    return isinstance(element, IntegerType | IndexType)


def is_index(element: Attribute) -> bool:
    """Whether it counts elements: an index, or an integer that is no truth value, which would be 1 or -1."""
    return isinstance(element, IndexType) or (isinstance(element, IntegerType) and element.width.data > 1)


def is_count(type_: Attribute) -> bool:
    """Whether a value of a type is one number that counts elements, and no tile of them."""
    return not shape_of(type_) and is_index(element_of(type_))


def bit_width(element: Attribute) -> int:
    """Bits that an element takes in memory; pointers and indices take 64. KeyError for what is no element type."""
    if isinstance(element, IntegerType):
        return element.width.data
    if isinstance(element, IndexType) or element.name == "nv_tileaa.ptr":
        return POINTER_BITS
    return FLOATS[type(element)]
