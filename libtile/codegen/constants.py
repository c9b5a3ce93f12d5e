# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constants: of one value, of a tile whose elements are equal, and counting tiles; `dense_constants` has the others.

Constants are given by bit patterns, in unsigned integers of the size of an element's register: a tf32 is its f32's
pattern, 4-bit elements are in the low half of a byte, an i1 is 0 or 1.
"""

from __future__ import annotations

import struct

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import BFLOAT, DOUBLE, ELEMENT_TYPES, FLOAT, HALF, LlvmType
from libtile.codegen.tile import Tile, index, scalar
from libtile.layouts import REGISTER, LinearLayout

TF32_SHIFT = 13
"""Tile IR keeps the 19 bits of a tf32 at the low end of four bytes; a register holds them where an f32 has them."""


def from_bits(element: str, bits: int) -> Value:
    """A constant of an element type by its bit pattern (a null pointer by 0)."""
    type_ = ELEMENT_TYPES[element]
    if element == "ptr":
        if bits:
            raise ValueError("there are no pointer constants but null")
        return Value(type_, "null")
    if type_ is HALF:
        return Value(type_, f"0xH{bits:04X}")
    if type_ is BFLOAT:
        return Value(type_, f"0xR{bits:04X}")
    if type_ is DOUBLE:
        return Value(type_, f"0x{bits:016X}")
    if type_ is FLOAT:
        return Value(type_, f"0x{_double_bits_of_float(bits):016X}")
    return integer(type_, bits)


def _double_bits_of_float(bits: int) -> int:
    """The pattern of the double that LLVM writes a float as; NaN payloads are kept."""
    sign, exponent, fraction = bits >> 31, bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        return sign << 63 | 0x7FF << 52 | fraction << 29
    (number,) = struct.unpack("<f", struct.pack("<I", bits))
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])


def number(element: str, bits: int) -> Value:
    """A constant of an element type by the bits that Tile IR keeps (see `TF32_SHIFT`)."""
    return from_bits(element, bits << (TF32_SHIFT if element == "tf32" else 0))


def splat(layout: LinearLayout, element: str, raw: bytes) -> Tile:
    """A tile whose elements are all the one whose bytes Tile IR keeps as `raw` (see `TF32_SHIFT`)."""
    return scalar(number(element, int.from_bytes(raw, "little")), element, layout)


def iota(b: KernelBuilder, layout: LinearLayout, element: str) -> Tile:
    """0, 1, 2, ... along the one dimension of a layout, modulo 2^N of the integer element type."""
    if len(layout.out_dims) != 1:
        raise ValueError(f"iota needs one dimension, not {len(layout.out_dims)}")
    type_ = ELEMENT_TYPES[element]
    return Tile(
        layout,
        element,
        tuple(resized(b, index(b, layout, r, 0), type_) for r in range(layout.in_size(REGISTER))),
    )


def resized(b: KernelBuilder, value: Value, type_: LlvmType) -> Value:
    """An index (an i32, not negative) in another integer type."""
    return b.cast("zext" if type_.bits > 32 else "trunc", value, type_)
