# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversion of tiles between register layouts, by the ways that were chosen for them."""

from __future__ import annotations

from collections.abc import Sequence

from libtile.atoms import conversions
from libtile.atoms.conversions import cut
from libtile.atoms.shared_accesses import reduced
from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.lanes import shuffle_registers
from libtile.codegen.shared_tiles import load_shared, store_shared
from libtile.codegen.stored_bits import as_integer, from_integer
from libtile.codegen.tile import Tile, warp_bits_of
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.collectives import SharedTrip
from libtile.layouts.convert import Conversion
from libtile.layouts.registers import representatives, unique_registers
from libtile.layouts.shared_access import SharedWay, padded
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError


def within_warps(b: KernelBuilder, tile: Tile, target: LinearLayout, kind: Conversion) -> Tile:
    """The tile in a layout that register moves, or shuffles, lead to. LoweringError where they do not."""
    target = target.transpose_outs(tile.layout.out_dims)
    found = conversions.within_warps(tile.layout, target, STORAGE_BYTES[tile.element], warp_bits_of(b))
    moves = (Conversion.REGISTERS, Conversion.NONE) if kind is Conversion.REGISTERS else (kind,)
    if found is None or found.kind not in moves:
        raise LoweringError(f"cannot go by {kind.value} from its layout to that of its result")
    values = _unique(tile)
    if found.kind is Conversion.SHUFFLE:
        bits = [as_integer(b, v) for v in values]
        moved = shuffle_registers(b, bits, _within_warp(found.relation))
        values = [from_integer(b, v, tile.llvm_type) for v in moved]
    elif found.kind is Conversion.REGISTERS:
        values = [values[found.source_register(r)] for r in range(found.relation.in_size(REGISTER))]
    return _expanded(target, tile.element, values)


def through_shared(b: KernelBuilder, tile: Tile, target: LinearLayout, way: SharedWay, count: int = 1) -> Tile:
    """The tile in another layout by way of shared memory, in so many pieces. All threads of the block must come here.
    LoweringError where it cannot be cut into these, or the instructions do not fit."""
    target = target.transpose_outs(tile.layout.out_dims)
    if count == 1:
        return _together(b, [tile], target, [way])[0]
    warp_bits = warp_bits_of(b)
    pieces = cut(reduced(tile.layout, warp_bits), reduced(target, warp_bits), count)
    if len(pieces.registers) != count:
        raise LoweringError(f"cannot go in {count} pieces: its layouts have {len(pieces.registers)} in common")
    values = _unique(tile)
    result: dict[int, Value] = {}
    for sources, targets in pieces.registers:
        part = Tile(pieces.source, tile.element, tuple(values[r] for r in sources))
        result.update(zip(targets, through_shared(b, part, pieces.target, way).registers))
    return _expanded(target, tile.element, [result[r] for r in range(len(result))])


def hand_out(b: KernelBuilder, tiles: Sequence[Tile], target: LinearLayout, trips: Sequence[SharedTrip]) -> list[Tile]:
    """Tiles of one layout in another, in which other warps have what they hold, by ways through shared memory: each the
    next of the tiles, together or one in pieces. LoweringError where a tile cannot be cut into these."""
    made: list[Tile] = []
    for trip in trips:
        own = tiles[len(made) : len(made) + len(trip.ways)]
        if trip.pieces != 1:
            made.append(through_shared(b, own[0], target, trip.ways[0], trip.pieces))
        else:
            made += _together(b, own, target, trip.ways)
    return made


def trip_bytes(trip: SharedTrip, element_bytes: Sequence[int]) -> tuple[int, ...]:
    """The bytes of each exchange of a way through shared memory of tiles of elements of so many bytes."""
    sizes = [padded(size << way.layout.out_bits) for size, way in zip(element_bytes, trip.ways, strict=True)]
    return (sum(sizes),) * trip.pieces


def _together(b: KernelBuilder, tiles: Sequence[Tile], target: LinearLayout, ways: Sequence[SharedWay]) -> list[Tile]:
    """Tiles in another layout by one exchange, in which they lie one behind the other."""
    sizes = [padded(STORAGE_BYTES[t.element] << way.layout.out_bits) for t, way in zip(tiles, ways, strict=True)]
    place = b.exchange(sum(sizes))
    pointers = [b.exchange_pointer(place, sum(sizes[:n])) for n in range(len(sizes))]
    for tile, pointer, way in zip(tiles, pointers, ways):
        store_shared(b, pointer, way.layout, tile, way.store)
    b.barrier()
    return [
        load_shared(b, pointer, way.layout, target, tile.element, way.load)
        for tile, pointer, way in zip(tiles, pointers, ways)
    ]


def _unique(tile: Tile) -> list[Value]:
    return [tile.registers[r] for r in unique_registers(tile.layout)]


def _expanded(target: LinearLayout, element: str, values: Sequence[Value]) -> Tile:
    """The tile in a layout with copies in registers from the values of the others."""
    by_register = dict(zip(unique_registers(target), values))
    return Tile(target, element, tuple(by_register[r] for r in representatives(target)))


def _within_warp(relation: LinearLayout) -> LinearLayout:
    position = relation.out_dims.index(WARP)
    bases = {name: [v[:position] + v[position + 1 :] for v in relation.basis(name)] for name in (REGISTER, LANE)}
    return LinearLayout.of(bases, {n: 1 << bits for n, bits in relation.outs if n != WARP})
