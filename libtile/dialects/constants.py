# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What constants of all three dialects hold, in one form: the bit patterns of their elements.

`Elements` has one number for each element in row-major order, or a single one that all elements equal. Numbers are bit
patterns: without sign, below two to the width of the element. A scalar has one.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.traits import ConstantLike

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.types import TileType
from libtile.ir.places import op_of

Elements = tuple[int, ...]

MAX_ELEMENTS = 256
"""A constant with more elements, which are not all equal, is not looked at."""

INDEX_BITS = 64
"""The width of `index` on every target."""


def integer_bits(type_: Attribute) -> int | None:
    """The width of an integer, an index, or of the elements of a tile of them; None for another type."""
    if isinstance(type_, TileType):
        return integer_bits(type_.element_type)
    # xDSL's classes have no others below them, and take long to ask whether they have.
    if type(type_) is TensorType:
        return integer_bits(type_.element_type)
    if type(type_) is IntegerType:
        return type_.width.data
    return INDEX_BITS if type(type_) is IndexType else None


def as_signed(number: int, bits: int) -> int:
    """The number that a bit pattern stands for in two's complement; a true i1 is -1."""
    return number - (1 << bits) if number >> (bits - 1) & 1 else number


def constant_elements(value: SSAValue) -> Elements | None:
    """The elements of a constant of integers or floats; None for what is no constant, or has too many elements."""
    owner = op_of(value)
    if owner is None or not owner.has_trait(ConstantLike):
        return None
    attr = owner.properties.get("value")
    bits = integer_bits(value.type)
    if isinstance(attr, DenseElementsAttr):
        if not attr.is_splat and len(attr.raw) > MAX_ELEMENTS * attr.element_bytes:
            return None
        mask = -1 if bits is None else (1 << bits) - 1
        return shortened(tuple(element & mask for element in attr.elements()))
    if bits is None:
        return None
    mask = (1 << bits) - 1
    if isinstance(attr, IntegerAttr):
        return (attr.value.data & mask,)
    if isinstance(attr, DenseIntOrFPElementsAttr) and (attr.is_splat() or len(attr) <= MAX_ELEMENTS):
        return shortened(tuple(int(number) & mask for number in attr.get_values()))
    return None


def shortened(elements: Elements) -> Elements:
    """Equal elements as one."""
    return elements[:1] if len(set(elements)) == 1 else elements
