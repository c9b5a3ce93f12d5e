# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Registers and what is stored of them: an element's register as an integer of its storage size, and back."""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import ELEMENT_TYPES, I8, I32, I64, IntType, LlvmType, PointerType
from libtile.numerics.elements import PACKED


def as_integer(b: KernelBuilder, value: Value) -> Value:
    """The bits of a register as an integer of its size."""
    if isinstance(value.type, IntType):
        return value
    if isinstance(value.type, PointerType):
        return b.cast("ptrtoint", value, I64)
    return b.cast("bitcast", value, IntType(value.type.bits))


def from_integer(b: KernelBuilder, value: Value, type_: LlvmType) -> Value:
    """The inverse of `as_integer`."""
    return b.cast("inttoptr" if isinstance(type_, PointerType) else "bitcast", value, type_)


def to_storage(b: KernelBuilder, value: Value, element: str) -> Value:
    """An element's register as it is stored: an integer of the storage size."""
    if element == "i1":
        return b.cast("zext", value, I8)
    bits = as_integer(b, value)
    if element in PACKED:
        return b.and_(bits, integer(I8, 15))
    if element == "tf32":
        return b.and_(bits, integer(I32, 0xFFFFE000))
    return bits


def from_storage(b: KernelBuilder, bits: Value, element: str) -> Value:
    """A register from what is stored."""
    if element == "i1":
        return b.compare("ne", bits, integer(I8, 0))
    return from_integer(b, bits, ELEMENT_TYPES[element])


# -- several side by side --------------------------------------------------------------------------------------------


def join(b: KernelBuilder, values: Sequence[Value], bits: int) -> Value:
    """Integers of which the low `bits` count, side by side in one integer, the first lowest."""
    if values[0].type.bits == bits and (word := b.as_word(values)) is not None:
        return word
    type_ = IntType(bits * len(values))
    result = integer(type_, 0)
    for position, value in enumerate(values):
        has = value.type.bits
        part = b.cast("zext" if has < bits * len(values) else "trunc", value, type_)
        if has > bits and position < len(values) - 1:
            part = b.and_(part, integer(type_, (1 << bits) - 1))
        if position:
            part = b.binary("shl", part, integer(type_, bits * position))
        result = b.or_(result, part)
    return result


def split(b: KernelBuilder, value: Value, bits: int, count: int) -> list[Value]:
    """The inverse of `join`: integers of `bits` bits (an i8 whose low half counts for 4)."""
    type_ = I8 if bits == 4 else IntType(bits)
    parts = []
    for position in range(count):
        part = b.binary("lshr", value, integer(value.type, bits * position)) if position else value
        parts.append(b.cast("trunc", part, type_))
    return parts
