# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types as the interpreter holds them: what numpy type stands for each, and how it lies in memory.

A value of type `tile<SHAPExELEMENT>` is a numpy array of that shape (or a numpy scalar for rank 0) whose dtype is
the element's `dtype`:

    i1                  bool                    one byte in memory: 0 or 1
    i4                  int8, -8 .. 7           half a byte in a tensor view
    i8 .. i64           int8 .. int64           unsigned operations reinterpret the bits
    f16 f32 f64         numpy's
    bf16 f8* f4         ml_dtypes'              f4: half a byte in a tensor view
    other floats        float32, rounded        what ml_dtypes lacks: fnv8E5M3FNU
    tf32                float32, rounded        the low 13 bits are zero; four bytes in memory
    ptr                 int64, the address
    index               int64                   of the inner dialects: what addresses are counted in
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Attribute

from libtile.dialects.cuda_tile.types import NUMBER_NAMES, PointerType, TileType
from libtile.numerics import elements, float_bits
from libtile.numerics.elements import ElementType, FloatFormat
from libtile.support.records import dataclass

Array = Any
"""A numpy array or numpy scalar: rules take and return either for tiles of rank 0."""


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


def _number(held: ElementType) -> Element:
    return Element(held.name, held.bits, held.storage_bits, np.dtype(_dtype(held)), held.float)


def _dtype(held: ElementType) -> Any:
    """The numpy type of numbers, as ml_dtypes' `float8_e4m3fn` of f8E4M3FN; what neither library has is held as f32."""
    if held.float is None:
        return np.bool_ if held.bits == 1 else f"i{held.storage_bytes}"
    if held.name.lower() == f"f{held.bits}":
        return f"f{held.storage_bytes}"
    if held.name == "bf16":
        return ml_dtypes.bfloat16
    return getattr(ml_dtypes, f"float{held.bits}_{held.name.removeprefix(f'f{held.bits}').lower()}", np.float32)


ELEMENTS: dict[str, Element] = {
    name: _number(held) for name, held in elements.ELEMENTS.items() if name != elements.POINTER
}
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

    Elements of less than a byte are in its low bits; tf32 is the pattern of the f32 of the same value.
    """
    array = np.asarray(value)
    if elem.name == "i1":
        return array.astype(np.uint8)
    if elem.float is not None and elem.dtype.itemsize != elem.storage_bytes:
        return _encode(array, elem.float).astype(elem.unsigned_dtype)
    if elem.width < 8:
        return array.view(np.uint8) & np.uint8((1 << elem.width) - 1)
    return np.ascontiguousarray(array).view(elem.unsigned_dtype).reshape(array.shape)


def from_bits(bits: np.ndarray, elem: Element) -> np.ndarray:
    """The values of stored bit patterns: the inverse of `to_bits`. Any non-zero byte is a true i1."""
    if elem.name == "i1":
        return bits != 0
    if elem.name == "i4":
        return ((bits.astype(np.int8) << 4).astype(np.int8) >> 4).astype(np.int8)
    if elem.float is not None and elem.dtype.itemsize != elem.storage_bytes:
        return _decoded(elem.float)[bits & np.uint8((1 << elem.width) - 1)]
    if elem.width < 8:
        return (bits & np.uint8((1 << elem.width) - 1)).astype(np.uint8).view(elem.dtype)
    if elem.name == "tf32":
        return (bits & np.uint32(0xFFFFE000)).view(np.float32)
    return np.ascontiguousarray(bits).view(elem.dtype).reshape(bits.shape)


def _encode(values: np.ndarray, form: FloatFormat) -> np.ndarray:
    """The codes of numbers of a format."""
    x = values.astype(np.float64)
    magnitude = np.abs(x)
    _, exponent = np.frexp(magnitude)
    exponent = np.maximum(exponent - 1, form.emin)
    with np.errstate(invalid="ignore"):
        scaled = np.ldexp(magnitude, form.mantissa - exponent)
        hidden = 1 << form.mantissa
        code = np.where(scaled < hidden, scaled, scaled - hidden + (exponent + form.bias) * hidden).astype(np.int64)
    code = np.where(np.isinf(x), form.overflow_code, code)
    code = np.where(np.isnan(x), form.nan_code if form.has_nan else form.largest_code, code)
    return code | np.where(np.signbit(x), form.sign_mask, 0)


@lru_cache
def _decoded(form: FloatFormat) -> np.ndarray:
    """The numbers of all codes of a format."""
    return np.array([float_bits.decode(code, form.name) for code in range(1 << form.bits)], np.float32)


def constant_values(raw: bytes, elem: Element) -> np.ndarray:
    """The elements of a tile constant's bytes, in order (tf32 is its 19-bit pattern in four bytes)."""
    bits = np.frombuffer(raw, elem.unsigned_dtype)
    if elem.name == "tf32":
        bits = bits << np.uint32(13)
    return from_bits(bits, elem)
