# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Slices of tiles at any place and with any stride, and histograms: through shared memory, element by element.

What lies at multiples of its own shape is `shapes.extract` and `shapes.insert`, which move whole registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import ELEMENT_TYPES, I1, I32, IntType
from libtile.codegen.shared_tiles import store_shared
from libtile.codegen.stored_bits import from_storage
from libtile.codegen.tile import Tile, index, owner_predicate
from libtile.layouts import LinearLayout
from libtile.layouts.builders import row_major
from libtile.layouts.registers import representatives, unique_registers
from libtile.layouts.shared_access import SharedWay, padded
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError

_COUNTER_BYTES = 4


def histogram_bytes(bins: int) -> int:
    """Bytes of the exchange of a histogram."""
    return padded(_COUNTER_BYTES * bins)


def _distances(shape: Sequence[int]) -> list[int]:
    """How far apart neighbours lie along each dimension, in elements."""
    return [prod(shape[d + 1 :]) for d in range(len(shape))]


def _put(b: KernelBuilder, tile: Tile, way: SharedWay) -> Value:
    """Store a tile for all threads; where it begins. LoweringError for a way that is not row by row."""
    if way.layout != row_major(tile.shape):
        raise LoweringError("takes elements from a tile that does not lie row by row")
    base = b.exchange_pointer(b.exchange(padded(STORAGE_BYTES[tile.element] << way.layout.out_bits)))
    store_shared(b, base, way.layout, tile, way.store)
    b.barrier()
    return base


def _address(b: KernelBuilder, base: Value, number: Value, size: int) -> Value:
    offset = b.mul(number, integer(I32, size))
    return b.offset(base, offset)


def _element(b: KernelBuilder, base: Value, number: Value, element: str, count: int) -> Value:
    """The element with a number, of `count`, beyond which nothing is read."""
    size = STORAGE_BYTES[element]
    address = _address(b, base, b.and_(number, integer(I32, count - 1)), size)
    bits = IntType(8 * size)
    value = b.emit(bits, f"load {bits}, {address.typed}, align {size}")
    return from_storage(b, value, element)


def _spread(layout: LinearLayout, values: dict[int, Value], element: str) -> Tile:
    return Tile(layout, element, tuple(values[r] for r in representatives(layout)))


def extract_slice(
    b: KernelBuilder,
    tile: Tile,
    starts: Sequence[Value],
    strides: Sequence[int],
    target: LinearLayout,
    way: SharedWay,
) -> Tile:
    """The part of a tile, in a layout, from `starts` (i32, in elements) on with `strides`; its dimensions are the last
    ones. The tile lies in shared memory row by row. What lies outside of the tile is undefined."""
    base, count = _put(b, tile, way), prod(tile.shape)
    skipped = len(tile.shape) - len(target.shape)
    values = {}
    for r in unique_registers(target):
        number = integer(I32, 0)
        for d, distance in enumerate(_distances(tile.shape)):
            place = starts[d]
            if d >= skipped and target.shape[d - skipped] > 1:
                place = b.add(place, b.mul(index(b, target, r, d - skipped), integer(I32, strides[d])))
            number = b.add(number, b.mul(place, integer(I32, distance)))
        values[r] = _element(b, base, number, tile.element, count)
    return _spread(target, values, tile.element)


def insert_slice(
    b: KernelBuilder, tile: Tile, part: Tile, starts: Sequence[Value], strides: Sequence[int], way: SharedWay
) -> Tile:
    """A tile with the elements from `starts` (i32, in elements) on, `strides` apart, replaced by those of a part, whose
    dimensions are the last ones, and which lies in shared memory row by row."""
    base, count = _put(b, part, way), prod(part.shape)
    skipped = len(tile.shape) - len(part.shape)
    distances = [0] * skipped + _distances(part.shape)
    values = {}
    for r in unique_registers(tile.layout):
        inside, number = integer(I1, 1), integer(I32, 0)
        for d, distance in enumerate(distances):
            extent = part.shape[d - skipped] if d >= skipped else 1
            moved = b.binary("sub", index(b, tile.layout, r, d), starts[d])
            if strides[d] > 1:
                rest = b.binary("urem", moved, integer(I32, strides[d]))
                inside = b.and_(inside, b.compare("eq", rest, integer(I32, 0)))
                moved = b.binary("udiv", moved, integer(I32, strides[d]))
            # A place in front of the part is a large number, as it is unsigned.
            inside = b.and_(inside, b.compare("ult", moved, integer(I32, extent)))
            number = b.add(number, b.mul(moved, integer(I32, distance)))
        new = _element(b, base, number, tile.element, count)
        values[r] = b.select(inside, new, tile.registers[r])
    return _spread(tile.layout, values, tile.element)


def histogram(b: KernelBuilder, tile: Tile, target: LinearLayout, element: str) -> Tile:
    """How often each number from 0 on occurs in a tile of (signed) integers, in a layout of as many elements as are
    counted. Counts are made in 32 bits, by atomics in shared memory."""
    (bins,) = target.shape
    base = b.exchange_pointer(b.exchange(histogram_bytes(bins)))
    for first in range(0, bins, b.threads):
        number = b.add(b.thread_id(), integer(I32, first))
        left = bins - first
        with b.when(b.compare("ult", number, integer(I32, bins)) if left < b.threads else None):
            address = _address(b, base, number, _COUNTER_BYTES)
            b.line(f"store i32 0, {address.typed}, align {_COUNTER_BYTES}")
    b.barrier()
    with b.when(owner_predicate(b, tile.layout)):
        for r in unique_registers(tile.layout):
            value = tile.registers[r]
            if value.type.bits < I32.bits:
                value = b.cast("sext", value, I32)
            counted = b.compare("ult", value, integer(value.type, bins))
            with b.when(counted):
                address = _address(b, base, b.cast("trunc", value, I32), _COUNTER_BYTES)
                b.emit(I32, f"atomicrmw add {address.typed}, i32 1 monotonic, align {_COUNTER_BYTES}")
    b.barrier()
    values = {}
    wanted = ELEMENT_TYPES[element]
    for r in unique_registers(target):
        count = _element(b, base, index(b, target, r, 0), "i32", bins)
        values[r] = b.cast("zext" if wanted.bits > I32.bits else "trunc", count, wanted)
    return _spread(target, values, element)
