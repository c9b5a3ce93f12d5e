# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constant tiles whose elements differ; bit patterns are as in `constants`, in numpy arrays."""

from __future__ import annotations

import numpy as np

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.constants import TF32_SHIFT, from_bits, resized
from libtile.codegen.llvm_types import ELEMENT_TYPES, I1, I8, I32
from libtile.codegen.symbols import own_name
from libtile.codegen.tile import Tile, index, scalar
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout

MOST_SELECTS = 3
"""A register that takes at most this many selects to make from the thread's bits is not loaded from a table."""

Patterns = np.ndarray


def pattern_dtype(element: str) -> np.dtype:
    """The unsigned type of an element's bit patterns. ValueError for pointers, which have no constants."""
    if element == "ptr":
        raise ValueError("there are no pointer constants but null")
    return np.dtype(f"u{ELEMENT_TYPES[element].storage_bytes}")


def patterns_of_bytes(raw: bytes, element: str) -> Patterns:
    """The flat bit patterns of a tile constant's bytes as Tile IR keeps them (tf32: 19 bits in four bytes)."""
    bits = np.frombuffer(raw, pattern_dtype(element))
    return bits << np.uint32(TF32_SHIFT) if element == "tf32" else bits


def dense(b: KernelBuilder, layout: LinearLayout, element: str, patterns: Patterns) -> Tile:
    """A constant tile in a layout. `patterns` has the tile's shape, or one element for a splat.

    A register that is the same in all threads is a constant, one of few values a choice by thread bits, tiles that
    count linearly are computed, and the others are read from a read-only array in global memory.
    """
    values = np.asarray(patterns, pattern_dtype(element))
    if values.size == 1 or (values == values.flat[0]).all():
        return scalar(from_bits(element, int(values.flat[0])), element, layout)
    if values.shape != layout.shape:
        raise ValueError(f"a constant of shape {values.shape} does not fit a layout of shape {layout.shape}")
    slopes = _linear_form(values) if element in ("i8", "i16", "i32", "i64") else None
    if slopes is not None:
        return _counted(b, layout, element, int(values.flat[0]), slopes)
    registers = [_from_thread_bits(b, layout, element, values, r) for r in range(layout.in_size(REGISTER))]
    if any(r is None for r in registers):
        table = _table(b, element, values)
        registers = [r or _read(b, layout, element, table, n) for n, r in enumerate(registers)]
    return Tile(layout, element, tuple(r for r in registers if r is not None))


def _linear_form(values: Patterns) -> list[int] | None:
    """The step along each dimension of patterns that are `first + sum of step * index` modulo 2^N, else None."""
    steps = []
    expected = np.full(values.shape, values.flat[0], values.dtype)
    for dim, size in enumerate(values.shape):
        second = [0] * values.ndim
        second[dim] = 1 if size > 1 else 0
        step = (int(values[tuple(second)]) - int(values.flat[0])) % (1 << 8 * values.dtype.itemsize)
        steps.append(step)
        shape = [1] * values.ndim
        shape[dim] = size
        expected = expected + (np.arange(size).astype(values.dtype) * values.dtype.type(step)).reshape(shape)
    return steps if np.array_equal(expected, values) else None


def _counted(b: KernelBuilder, layout: LinearLayout, element: str, first: int, steps: list[int]) -> Tile:
    type_ = ELEMENT_TYPES[element]
    registers = []
    for register in range(layout.in_size(REGISTER)):
        value = integer(type_, first)
        for dim, step in enumerate(steps):
            if step:
                place = resized(b, index(b, layout, register, dim), type_)
                value = b.add(value, b.mul(place, integer(type_, step)))
        registers.append(value)
    return Tile(layout, element, tuple(registers))


def _from_thread_bits(
    b: KernelBuilder, layout: LinearLayout, element: str, values: Patterns, register: int
) -> Value | None:
    """A register's value by selects on lane and warp bits, or None when that takes too many."""
    bits = [(LANE, i) for i in range(len(layout.basis(LANE)))] + [(WARP, i) for i in range(len(layout.basis(WARP)))]
    outs = layout.out_dims
    base = np.array([layout(register=register)[d] for d in outs])
    held = values[tuple(base)].reshape(1)
    # Axis k of `held` is thread bit k; indices of set bits are combined by xor.
    places = base.reshape(1, -1)
    for dim, i in bits:
        vector = np.array(layout.basis(dim)[i])
        places = np.concatenate([places, places ^ vector])
    held = values[tuple(places.T)].reshape((2,) * len(bits)) if bits else held
    # reshape puts the last bit first.
    needed = [k for k in range(len(bits)) if _depends(held, len(bits) - 1 - k)]
    if (1 << len(needed)) - 1 > MOST_SELECTS:
        return None

    def choose(chosen: dict[int, int], rest: list[int]) -> Value:
        if not rest:
            place = tuple(chosen.get(len(bits) - 1 - axis, 0) for axis in range(len(bits)))
            return from_bits(element, int(held[place] if bits else held[0]))
        k, *others = rest
        low, high = choose({**chosen, k: 0}, others), choose({**chosen, k: 1}, others)
        return low if low == high else b.select(_thread_bit(b, *bits[k]), high, low)

    return choose({}, needed)


def _depends(held: Patterns, axis: int) -> bool:
    return not np.array_equal(np.take(held, 0, axis), np.take(held, 1, axis))


def _thread_bit(b: KernelBuilder, dim: str, bit: int) -> Value:
    def make() -> Value:
        source = b.lane() if dim == LANE else b.warp()
        return b.compare("ne", b.and_(source, integer(I32, 1 << bit)), integer(I32, 0))

    return b.special(f"thread bit {dim} {bit}", make)


def _table(b: KernelBuilder, element: str, values: Patterns) -> Value:
    """A read-only array of the patterns, in row-major order, shared between equal constants."""
    import hashlib  # it loads OpenSSL, for a kernel with a table

    size = values.dtype.itemsize
    data = np.ascontiguousarray(values).tobytes()
    name = own_name("constant", size, hashlib.sha256(data).hexdigest()[:16])
    items = ", ".join(f"i{8 * size} {int(v)}" for v in values.reshape(-1))
    return b.add_global(name, f"[{values.size} x i{8 * size}] [{items}]", 16, constant=True)


def _read(b: KernelBuilder, layout: LinearLayout, element: str, table: Value, register: int) -> Value:
    place = integer(I32, 0)
    for dim, size in enumerate(layout.shape):
        place = b.add(b.mul(place, integer(I32, size)), index(b, layout, register, dim))
    type_ = ELEMENT_TYPES[element]
    stored = I8 if type_ is I1 else type_
    where = b.offset(table, place, stored)
    size_ = type_.storage_bytes
    value = b.emit(stored, f"load {stored}, {where.typed}, align {size_}, !invariant.load !{{}}")
    return b.cast("trunc", value, I1) if type_ is I1 else value
