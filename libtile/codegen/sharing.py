# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Handing out values from the thread that owns an element to the threads that hold copies of it.

Atomics and strong loads are done once per element, by its owner; what they gave must then be the same in every holder,
because scalars steer control flow.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from math import prod

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.exchange import padded
from libtile.codegen.lanes import shuffle
from libtile.codegen.llvm_types import I32, I64, IntType, PointerType
from libtile.codegen.tile import Tile, index, representatives, unique_registers, warp_bits_of
from libtile.layouts import LANE, WARP, LinearLayout
from libtile.layouts.builders import row_major
from libtile.numerics.elements import STORAGE_BYTES


class Way(Enum):
    """How the owners' values reach those who hold copies."""

    NONE = "none"
    SHUFFLE = "shuffle"
    SHARED = "shared"


def sharing_way(layout: LinearLayout, warp_bits: int) -> Way:
    """How `share_from_owner` hands out a tile in a layout, in a kernel of 2**warp_bits warps."""
    free = layout.free_bits()
    lanes = free.get(LANE, 0)
    warps = free.get(WARP, 0) | (-1 << len(layout.basis(WARP)) & (1 << warp_bits) - 1)
    if not lanes and not warps:
        return Way.NONE
    copied = [v for i, v in enumerate(layout.basis(LANE)) if lanes >> i & 1]
    # A free bit that moves the index: the owner has the element elsewhere.
    return Way.SHARED if warps or any(map(any, copied)) else Way.SHUFFLE


def exchange_sizes(layout: LinearLayout, element_bytes: int, warp_bits: int) -> tuple[int, ...]:
    """The bytes of each exchange of `share_from_owner`."""
    return (padded(element_bytes * prod(layout.shape)),) if sharing_way(layout, warp_bits) is Way.SHARED else ()


def share_from_owner(b: KernelBuilder, tile: Tile) -> Tile:
    """The tile with every copy replaced by the owner's value: by a shuffle within the warp, through shared memory
    where other warps hold copies. All threads of the block must come here."""
    way = sharing_way(tile.layout, warp_bits_of(b))
    if way is Way.SHARED:
        return _through_shared(b, tile)
    if way is Way.NONE:
        return tile
    lanes = tile.layout.free_bits()[LANE]
    source = b.and_(b.lane(), integer(I32, (b.target.warp_size - 1) & ~lanes))
    return _per_unique(tile, lambda r: _from_lane(b, tile.registers[r], source))


def _per_unique(tile: Tile, make: Callable[[int], Value]) -> Tile:
    """A tile made register by register, where copies in a thread share the value."""
    made = {r: make(r) for r in unique_registers(tile.layout)}
    return tile.with_registers([made[r] for r in representatives(tile.layout)])


def _from_lane(b: KernelBuilder, value: Value, source: Value) -> Value:
    """The value in lane `source`, for a register of any type."""
    type_ = value.type
    if isinstance(type_, PointerType):
        return b.cast("inttoptr", shuffle(b, b.cast("ptrtoint", value, I64), source), type_)
    bits = value if isinstance(type_, IntType) else b.cast("bitcast", value, IntType(type_.bits))
    return b.cast("bitcast", shuffle(b, bits, source), type_)


def _through_shared(b: KernelBuilder, tile: Tile) -> Tile:
    from libtile.codegen.shared_tiles import load_shared, store_shared

    (size,) = exchange_sizes(tile.layout, STORAGE_BYTES[tile.element], warp_bits_of(b))
    base, shared = b.exchange_pointer(b.exchange(size)), row_major(tile.shape)
    store_shared(b, base, shared, tile)
    b.barrier()
    return load_shared(b, base, shared, tile.layout, tile.element)


def flat_index(b: KernelBuilder, layout: LinearLayout, register: int) -> Value:
    """The row-major position of a register's element in its tile, an i32."""
    position = integer(I32, 0)
    for dim, extent in enumerate(layout.shape):
        position = b.add(b.mul(position, integer(I32, extent)), index(b, layout, register, dim))
    return position
