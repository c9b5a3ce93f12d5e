# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Handing out values from the thread that owns an element to the threads that hold copies of it.

Atomics and strong loads are done once per element, by its owner; what they gave must then be the same in every holder,
because scalars steer control flow.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from libtile.codegen import scratch
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.lanes import shuffle
from libtile.codegen.llvm_types import I32, I64, IntType, PointerType
from libtile.codegen.tile import Tile, index, representatives, unique_registers
from libtile.layouts import LANE, WARP, LinearLayout
from libtile.layouts.builders import row_major


def _warps_holding_copies(b: KernelBuilder, layout: LinearLayout) -> int:
    """The bits of the warp number that do not tell elements apart."""
    known = layout.free_bits().get(WARP, 0)
    return known | (-1 << len(layout.basis(WARP)) & (b.threads // b.target.warp_size - 1))


def share_from_owner(b: KernelBuilder, tile: Tile) -> Tile:
    """The tile with every copy replaced by the owner's value: by a shuffle within the warp, through shared memory
    where other warps hold copies. All threads of the block must come here."""
    lanes = tile.layout.free_bits().get(LANE, 0)
    warps = _warps_holding_copies(b, tile.layout)
    if not lanes and not warps:
        return tile
    copied = [v for i, v in enumerate(tile.layout.basis(LANE)) if lanes >> i & 1]
    if warps or any(map(any, copied)):  # a free bit that moves the index: the owner has the element elsewhere
        return _through_shared(b, tile)
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
    from libtile.numerics.elements import STORAGE_BYTES

    region = scratch.begin(b, STORAGE_BYTES[tile.element] * prod(tile.shape))
    base, shared = scratch.pointer(b, region), row_major(tile.shape)
    store_shared(b, base, shared, tile)
    b.barrier()
    result = load_shared(b, base, shared, tile.layout, tile.element)
    scratch.end(b, region)
    return result


def flat_index(b: KernelBuilder, layout: LinearLayout, register: int) -> Value:
    """The row-major position of a register's element in its tile, an i32."""
    position = integer(I32, 0)
    for dim, extent in enumerate(layout.shape):
        position = b.add(b.mul(position, integer(I32, extent)), index(b, layout, register, dim))
    return position
