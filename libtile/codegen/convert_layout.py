# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversion of tiles between register layouts, by the steps of `libtile.codegen.conversion_plan`.

A round trip through shared memory stores with the widest accesses of the source layout and loads with those of the
target layout; the layout in between is chosen among the one that vectors of both sides share and those that suit
ldmatrix and stmatrix on one side. A tile that would take too much shared memory goes through it in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.conversion_plan import Directly, InPieces, Together, Trip, conversion_steps, cut, reduced
from libtile.codegen.exchange import padded
from libtile.codegen.lanes import shuffle_registers
from libtile.codegen.memory import as_integer, from_integer
from libtile.codegen.shared_tiles import (
    WORD_BYTES,
    SharedAccess,
    accesses,
    load_shared,
    store_shared,
)
from libtile.codegen.tile import Tile, representatives, unique_registers, warp_bits_of
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout, f2
from libtile.layouts.collectives import SharedTrip
from libtile.layouts.convert import Conversion, Plan, conflict_free_shared, shared_for
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError


def convert_layout(b: KernelBuilder, tile: Tile, target: LinearLayout) -> Tile:
    """The tile in another layout. All threads of the block must come here.

    ValueError when the target describes another tile or does not hold all of it.
    """
    return convert_all(b, [tile], [target])[0]


def convert_all(b: KernelBuilder, tiles: Sequence[Tile], targets: Sequence[LinearLayout]) -> list[Tile]:
    """`convert_layout` of several tiles, which share barriers where they go through shared memory."""
    results = list(tiles)
    wanted = [target.transpose_outs(tile.layout.out_dims) for tile, target in zip(tiles, targets)]
    sizes = [STORAGE_BYTES[tile.element] for tile in tiles]
    layouts = [tile.layout for tile in tiles]
    for step in conversion_steps(layouts, wanted, sizes, warp_bits_of(b), b.exchanges.room):
        match step:
            case Directly():
                results[step.tile] = _directly(b, tiles[step.tile], wanted[step.tile], step.plan)
            case Together():
                moved = _through_shared(b, [tiles[i] for i in step.tiles], [wanted[i] for i in step.tiles])
                for i, tile in zip(step.tiles, moved):
                    results[i] = tile
            case InPieces():
                for trip in step.trips:
                    results[step.tile] = _in_pieces(b, results[step.tile], trip)
    return results


def within_warps(b: KernelBuilder, tile: Tile, target: LinearLayout, kind: Conversion) -> Tile:
    """The tile in a layout that register moves, or shuffles, lead to. LoweringError where they do not."""
    target = target.transpose_outs(tile.layout.out_dims)
    (step,) = conversion_steps([tile.layout], [target], [STORAGE_BYTES[tile.element]], warp_bits_of(b), 0)
    moves = (Conversion.REGISTERS, Conversion.NONE) if kind is Conversion.REGISTERS else (kind,)
    if not isinstance(step, Directly) or step.plan.kind not in moves:
        raise LoweringError(f"cannot go by {kind.value} from its layout to that of its result")
    return _directly(b, tile, target, step.plan)


By = tuple[SharedAccess, SharedAccess]
"""The instructions by which a tile is stored to shared memory and loaded from there."""


def through_shared(
    b: KernelBuilder, tile: Tile, target: LinearLayout, shared: LinearLayout, count: int, by: By | None = None
) -> Tile:
    """The tile in another layout by way of shared memory, where each of so many pieces lies in the layout `shared`; by
    these instructions, or the best. LoweringError where it cannot be cut into these, or the instructions do not fit."""
    target = target.transpose_outs(tile.layout.out_dims)
    if count == 1:
        return _together(b, [tile], [target], [shared], by)[0]
    warp_bits = warp_bits_of(b)
    pieces = cut(reduced(tile.layout, warp_bits), reduced(target, warp_bits), count)
    if len(pieces.registers) != count:
        raise LoweringError(f"cannot go in {count} pieces: its layouts have {len(pieces.registers)} in common")
    values = _unique(tile)
    result: dict[int, Value] = {}
    for sources, targets in pieces.registers:
        part = Tile(pieces.source, tile.element, tuple(values[r] for r in sources))
        result.update(zip(targets, through_shared(b, part, pieces.target, shared, 1, by).registers))
    return _expanded(target, tile.element, [result[r] for r in range(len(result))])


def hand_out(b: KernelBuilder, tiles: Sequence[Tile], target: LinearLayout, trips: Sequence[SharedTrip]) -> list[Tile]:
    """Tiles of one layout in another, in which other warps have what they hold, by ways through shared memory: each the
    next of the tiles, together or one in pieces. LoweringError where a tile cannot be cut into these."""
    made: list[Tile] = []
    for trip in trips:
        own = tiles[len(made) : len(made) + len(trip.layouts)]
        if trip.pieces != 1:
            made.append(through_shared(b, own[0], target, trip.layouts[0], trip.pieces))
        else:
            made += _together(b, own, [target] * len(own), trip.layouts)
    return made


def trip_bytes(trip: SharedTrip, element_bytes: Sequence[int]) -> tuple[int, ...]:
    """The bytes of each exchange of a way through shared memory of tiles of elements of so many bytes."""
    sizes = [padded(size << layout.out_bits) for size, layout in zip(element_bytes, trip.layouts, strict=True)]
    return (sum(sizes),) * trip.pieces


def _together(
    b: KernelBuilder,
    tiles: Sequence[Tile],
    targets: Sequence[LinearLayout],
    layouts: Sequence[LinearLayout],
    by: By | None = None,
) -> list[Tile]:
    """Tiles in other layouts by one exchange, in which they lie in these layouts, one behind the other."""
    sizes = [padded(STORAGE_BYTES[t.element] << shared.out_bits) for t, shared in zip(tiles, layouts, strict=True)]
    place = b.exchange(sum(sizes))
    store, load = by if by is not None else (None, None)
    pointers = [b.exchange_pointer(place, sum(sizes[:n])) for n in range(len(sizes))]
    for tile, pointer, shared in zip(tiles, pointers, layouts):
        store_shared(b, pointer, shared, tile, store)
    b.barrier()
    return [
        load_shared(b, pointer, shared, target, tile.element, chosen=load)
        for tile, target, pointer, shared in zip(tiles, targets, pointers, layouts)
    ]


def _unique(tile: Tile) -> list[Value]:
    return [tile.registers[r] for r in unique_registers(tile.layout)]


def _expanded(target: LinearLayout, element: str, values: Sequence[Value]) -> Tile:
    """The tile in a layout with copies in registers from the values of the others."""
    by_register = dict(zip(unique_registers(target), values))
    return Tile(target, element, tuple(by_register[r] for r in representatives(target)))


def _directly(b: KernelBuilder, tile: Tile, target: LinearLayout, found: Plan) -> Tile:
    """The tile converted within the warp."""
    values = _unique(tile)
    if found.kind is Conversion.SHUFFLE:
        bits = [as_integer(b, v) for v in values]
        moved = shuffle_registers(b, bits, _within_warp(found.relation))
        values = [from_integer(b, v, tile.llvm_type) for v in moved]
    elif found.kind is Conversion.REGISTERS:
        values = [values[found.source_register(r)] for r in range(found.relation.in_size(REGISTER))]
    return _expanded(target, tile.element, values)


def _within_warp(relation: LinearLayout) -> LinearLayout:
    position = relation.out_dims.index(WARP)
    bases = {name: [v[:position] + v[position + 1 :] for v in relation.basis(name)] for name in (REGISTER, LANE)}
    return LinearLayout.of(bases, {n: 1 << bits for n, bits in relation.outs if n != WARP})


# -- through shared memory ------------------------------------------------------------------------------------------


def _through_shared(b: KernelBuilder, tiles: Sequence[Tile], targets: Sequence[LinearLayout]) -> list[Tile]:
    warp_bits, features = warp_bits_of(b), (b.target.has("stmatrix"), b.target.has("ldmatrix"))
    layouts = [
        shared_between(
            reduced(tile.layout, warp_bits), reduced(target, warp_bits), STORAGE_BYTES[tile.element], *features
        )
        for tile, target in zip(tiles, targets)
    ]
    return _together(b, tiles, targets, layouts)


@lru_cache(maxsize=1024)
def shared_between(
    source: LinearLayout, target: LinearLayout, size: int, stmatrix: bool, ldmatrix: bool
) -> LinearLayout:
    """The shared-memory layout for a round trip of elements of `size` bytes, between layouts without register copies
    that list the same dimensions, all lanes and all warps."""
    target = target.transpose_outs(source.out_dims)
    best, _ = conflict_free_shared(source, target, size)

    def cost(shared: LinearLayout) -> int:
        sides = ((source, stmatrix, True), (target, ldmatrix, False))
        found = [accesses(layout, shared, size, matrices, storing) for layout, matrices, storing in sides]
        return sum(access.instructions + access.wavefronts(size) for access in found)

    if size > WORD_BYTES:
        return best
    lowest = cost(best)
    for vector, rows in _matrix_vectors(source, target, size, stmatrix, ldmatrix):
        shared = shared_for(dict(zip(source.out_dims, source.shape)), vector, rows, size)
        found = cost(shared)
        if found < lowest:
            best, lowest = shared, found
    return best


Vectors = tuple[list[int], list[list[int]]]


def _matrix_vectors(
    source: LinearLayout, target: LinearLayout, size: int, stmatrix: bool, ldmatrix: bool
) -> list[Vectors]:
    """Candidates for the 16 bytes of a row, and the vectors by which the rows of one wavefront differ on both sides."""
    found: list[Vectors] = []
    for layout, other, usable in ((target, source, ldmatrix), (source, target, stmatrix)):
        if not usable:
            continue
        for vector, rows in _rows(layout, size):
            if f2.rank(vector) != len(vector):
                continue
            if all(v in f2.Basis(other.columns([REGISTER])) for v in vector):
                others = other.columns([LANE])[:3]
            else:
                matching = [r for v, r in _rows(other, size) if v == vector]
                if not (stmatrix and ldmatrix and matching):
                    continue
                others = matching[0]
            found.append((vector, [rows, others]))
    return found


def _rows(layout: LinearLayout, size: int) -> list[tuple[list[int], list[int]]]:
    """(vector, rows) of matrix accesses by a layout: as it is, for every choice of registers, and transposed."""
    lanes, registers = layout.columns([LANE]), layout.columns([REGISTER])
    words = (WORD_BYTES // size).bit_length() - 1
    found = [([*chosen, *lanes[:2]], lanes[2:]) for chosen in permutations(registers[:6], words)]
    if size == 2:
        found += [(lanes[2:], [r, *lanes[:2]]) for r in registers[:6]]
    return found


def _in_pieces(b: KernelBuilder, tile: Tile, trip: Trip) -> Tile:
    values = _unique(tile)
    result: dict[int, Value] = {}
    pieces = trip.pieces
    for sources, targets in pieces.registers:
        part = Tile(pieces.source, tile.element, tuple(values[r] for r in sources))
        (moved,) = _through_shared(b, [part], [pieces.target])
        result.update(zip(targets, moved.registers))
    return _expanded(trip.target, tile.element, [result[r] for r in range(len(result))])
