# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Handing out values from the thread that owns an element to the threads that hold copies of it.

Atomics and strong loads are done once per element, by its owner; what they gave must then be the same in every holder,
because scalars steer control flow.
"""

from __future__ import annotations

from collections.abc import Callable

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I32, I64, IntType, PointerType
from libtile.codegen.tile import Tile, index, warp_bits_of
from libtile.layouts import LANE, WARP, LinearLayout
from libtile.layouts.convert import Conversion
from libtile.layouts.registers import representatives, unique_registers
from libtile.layouts.shared_access import SharedWay, padded
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError

Handed = Conversion | SharedWay
"""How the owners' values reach holders of copies: by shuffles, through shared memory, or not at all (`REGISTERS`)."""


def hand_out_way(layout: LinearLayout, warp_bits: int) -> Conversion:
    """What handing out takes where a tile is in a layout, in a kernel of 2**warp_bits warps."""
    free = layout.free_bits()
    lanes = free.get(LANE, 0)
    warps = free.get(WARP, 0) | (-1 << len(layout.basis(WARP)) & (1 << warp_bits) - 1)
    if not lanes and not warps:
        return Conversion.REGISTERS
    copied = [v for i, v in enumerate(layout.basis(LANE)) if lanes >> i & 1]
    # A free bit that moves the index: the owner has the element elsewhere.
    return Conversion.SHARED if warps or any(map(any, copied)) else Conversion.SHUFFLE


def share_from_owner(b: KernelBuilder, tile: Tile, way: Handed) -> Tile:
    """The tile with every copy replaced by the owner's value. All threads of the block must come here. LoweringError
    for a way that does not reach all copies."""
    if isinstance(way, SharedWay):
        return _through_shared(b, tile, way)
    if way is not hand_out_way(tile.layout, warp_bits_of(b)):
        raise LoweringError(f"cannot hand out what owners of elements got by {way.value}")
    if way is Conversion.REGISTERS:
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
    from libtile.codegen.lanes import shuffle

    type_ = value.type
    if isinstance(type_, PointerType):
        return b.cast("inttoptr", shuffle(b, b.cast("ptrtoint", value, I64), source), type_)
    bits = value if isinstance(type_, IntType) else b.cast("bitcast", value, IntType(type_.bits))
    return b.cast("bitcast", shuffle(b, bits, source), type_)


def _through_shared(b: KernelBuilder, tile: Tile, way: SharedWay) -> Tile:
    from libtile.codegen.shared_tiles import load_shared, store_shared

    base = b.exchange_pointer(b.exchange(padded(STORAGE_BYTES[tile.element] << way.layout.out_bits)))
    store_shared(b, base, way.layout, tile, way.store)
    b.barrier()
    return load_shared(b, base, way.layout, tile.layout, tile.element, way.load)


def flat_index(b: KernelBuilder, layout: LinearLayout, register: int) -> Value:
    """The row-major position of a register's element in its tile, an i32."""
    position = integer(I32, 0)
    for dim, extent in enumerate(layout.shape):
        position = b.add(b.mul(position, integer(I32, extent)), index(b, layout, register, dim))
    return position
