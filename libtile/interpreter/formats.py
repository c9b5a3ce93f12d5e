# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types as the interpreter holds them: what numpy type stands for each, and how it lies in memory.

A value of type `tile<SHAPExELEMENT>` is a numpy array of that shape (or a numpy scalar for rank 0) whose dtype is
the element's `dtype`:

    i1                  bool                    one byte in memory: 0 or 1
    i4                  int8, -8 .. 7           half a byte in a tensor view
    i8 .. i64           int8 .. int64           unsigned operations reinterpret the bits
    f16 f32 f64         numpy's
    bf16 f8* f4         ml_dtypes'              f4: half a byte in a tensor view
    tf32                float32, rounded        the low 13 bits are zero; four bytes in memory
    fnv8E5M3FNU         float32, rounded        one byte in memory
    ptr                 int64, the address
    index               int64                   of the inner dialects: what addresses are counted in
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Attribute

from libtile.dialects.cuda_tile.types import NUMBER_NAMES, PointerType, TileType
from libtile.numerics import elements
from libtile.numerics.elements import FloatFormat

Array = Any
"""A numpy array or numpy scalar: rules take and return either for tiles of rank 0."""


_DTYPES: dict[str, Any] = {
    "i1": np.bool_,
    "i4": np.int8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "tf32": np.float32,
    "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "fnv8E5M3FNU": np.float32,
}


@dataclass(frozen=True, slots=True)
class Element:
    """An element type. `width` is its width in bits, `storage_bits` what one element takes in memory."""

    name: str
    width: int
    storage_bits: int
    dtype: np.dtype
    float: FloatFormat | None = None
    pointee: Element | None = None

    @property
    def is_float(self) -> bool:
        return self.float is not None

    @property
    def is_pointer(self) -> bool:
        return self.pointee is not None

    @property
    def is_integer(self) -> bool:
        return self.float is None and self.pointee is None

    @property
    def storage_bytes(self) -> int:
        """Bytes that one element takes where it is not packed with others: 4-bit ones take a whole byte."""
        return max(self.storage_bits // 8, 1)

    @property
    def unsigned_dtype(self) -> np.dtype:
        """The unsigned integer type of the same storage size."""
        return np.dtype(f"u{self.storage_bytes}")

    @property
    def smallest(self) -> int:
        """The smallest value of an integer type, read as signed."""
        return -(1 << (self.width - 1))

    @property
    def largest(self) -> int:
        """The largest value of an integer type, read as signed."""
        return (1 << (self.width - 1)) - 1


_INNER_POINTER = "nv_tileaa.ptr"
"""The inner dialects' pointer type, known by its name: programs of Tile IR do not load those dialects."""


def _number(name: str) -> Element:
    held = elements.ELEMENTS[name]
    return Element(name, held.bits, held.storage_bits, np.dtype(_DTYPES[name]), held.float)


ELEMENTS: dict[str, Element] = {name: _number(name) for name in _DTYPES}
"""Element types by keyword, pointers excepted."""

INDEX = Element("index", 64, 64, np.dtype(np.int64))


def element(type_: Attribute) -> Element:
    """The element of a tile type, or of a number or pointer type itself, of Tile IR or of the inner dialects. TypeError
    for any other type."""
    if isinstance(type_, TileType | TensorType):
        return element(type_.element_type)
    if isinstance(type_, IndexType):
        return INDEX
    if isinstance(type_, PointerType) or type_.name == _INNER_POINTER:
        # Both classes have the field; only one of them is imported.
        pointee, bits = element(type_.pointee), elements.POINTER_BITS  # type: ignore[attr-defined]
        return Element(elements.POINTER, bits, bits, np.dtype(np.int64), None, pointee)
    if type_ in NUMBER_NAMES:
        return ELEMENTS[NUMBER_NAMES[type_]]
    raise TypeError(f"{type_} is not a tile, number or pointer type")


# -- bits -----------------------------------------------------------------------------------------------------------


def to_bits(value: Array, elem: Element) -> np.ndarray:
    """The bit pattern of each element as it is stored, in the unsigned type of its storage size.

    4-bit elements are in the low half of a byte; tf32 is the pattern of the f32 of the same value.
    """
    array = np.asarray(value)
    if elem.name == "i1":
        return array.astype(np.uint8)
    if elem.name in ("i4", "f4E2M1FN"):
        return array.view(np.uint8) & np.uint8(0xF)
    if elem.name == "fnv8E5M3FNU":
        return _encode_ue5m3(array)
    return np.ascontiguousarray(array).view(elem.unsigned_dtype).reshape(array.shape)


def from_bits(bits: np.ndarray, elem: Element) -> np.ndarray:
    """The values of stored bit patterns: the inverse of `to_bits`. Any non-zero byte is a true i1."""
    if elem.name == "i1":
        return bits != 0
    if elem.name == "i4":
        return ((bits.astype(np.int8) << 4).astype(np.int8) >> 4).astype(np.int8)
    if elem.name == "f4E2M1FN":
        return (bits & np.uint8(0xF)).astype(np.uint8).view(elem.dtype)
    if elem.name == "fnv8E5M3FNU":
        return _decode_ue5m3(bits)
    if elem.name == "tf32":
        return (bits & np.uint32(0xFFFFE000)).view(np.float32)
    return np.ascontiguousarray(bits).view(elem.dtype).reshape(bits.shape)


def _encode_ue5m3(values: np.ndarray) -> np.ndarray:
    _, exponent = np.frexp(values.astype(np.float64))
    exponent = np.maximum(exponent - 1, -14)
    scaled = np.ldexp(values.astype(np.float64), 3 - exponent)
    with np.errstate(invalid="ignore"):
        code = np.where(scaled < 8, scaled, scaled - 8 + (exponent + 15) * 8).astype(np.int64)
    return np.where(np.isnan(values), 0xFF, code).astype(np.uint8)


def _decode_ue5m3(bits: np.ndarray) -> np.ndarray:
    code = bits.astype(np.int64)
    exponent, fraction = code >> 3, code & 7
    value = np.where(exponent == 0, np.ldexp(fraction / 8.0, -14), np.ldexp(1 + fraction / 8.0, exponent - 15))
    return np.where(code == 0xFF, np.nan, value).astype(np.float32)


def constant_values(raw: bytes, elem: Element) -> np.ndarray:
    """The elements of a tile constant's bytes, in order (tf32 is its 19-bit pattern in four bytes)."""
    bits = np.frombuffer(raw, elem.unsigned_dtype)
    if elem.name == "tf32":
        bits = bits << np.uint32(13)
    return from_bits(bits, elem)
