# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversion of tiles between register layouts, by the cheapest plan of `libtile.layouts.convert`.

A round trip through shared memory stores with the widest accesses of the source layout and loads with those of the
target layout; the layout in between is chosen among the one that vectors of both sides share and those that suit
ldmatrix and stmatrix on one side. A tile that would take too much shared memory goes through it in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

from libtile.codegen import scratch
from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.lanes import shuffle_registers
from libtile.codegen.memory import as_integer, from_integer
from libtile.codegen.shared_tiles import (
    MAX_BYTES,
    WORD_BYTES,
    accesses,
    load_shared,
    normalized,
    store_shared,
    warp_bits_of,
    without_register_copies,
)
from libtile.codegen.tile import Tile, representatives, unique_registers
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout, f2
from libtile.layouts.convert import Conversion, Plan, conflict_free_shared, plan, shared_for
from libtile.numerics.elements import STORAGE_BYTES


def convert_layout(b: KernelBuilder, tile: Tile, target: LinearLayout) -> Tile:
    """The tile in another layout. All threads of the block must come here.

    ValueError when the target describes another tile or does not hold all of it.
    """
    return convert_all(b, [tile], [target])[0]


def convert_all(b: KernelBuilder, tiles: Sequence[Tile], targets: Sequence[LinearLayout]) -> list[Tile]:
    """`convert_layout` of several tiles, which share barriers where they go through shared memory."""
    results: list[Tile | None] = [None] * len(tiles)
    through: list[int] = []
    for i, (tile, target) in enumerate(zip(tiles, targets)):
        target = target.transpose_outs(tile.layout.out_dims)
        if target == tile.layout:
            results[i] = tile
        elif (found := _directly(b, tile, target)) is not None:
            results[i] = found
        elif _size(tile) > scratch.piece_bytes(b):
            results[i] = _in_pieces(b, tile, target)
        else:
            through.append(i)
    for group in _groups([_size(t) for t in tiles], through, scratch.piece_bytes(b)):
        moved = _through_shared(b, [tiles[i] for i in group], [targets[i] for i in group])
        for i, tile in zip(group, moved):
            results[i] = tile
    return [r for r in results if r is not None]


def _groups(sizes: Sequence[int], chosen: Sequence[int], most: int) -> list[list[int]]:
    """The chosen tiles in groups that fit one region of up to `most` bytes together."""
    groups: list[list[int]] = []
    total = most
    for i in chosen:
        total += sizes[i]
        if total > most:
            groups.append([])
            total = sizes[i]
        groups[-1].append(i)
    return groups


def _size(tile: Tile) -> int:
    return STORAGE_BYTES[tile.element] << tile.layout.out_bits


def _unique(tile: Tile) -> list[Value]:
    return [tile.registers[r] for r in unique_registers(tile.layout)]


def _expanded(target: LinearLayout, element: str, values: Sequence[Value]) -> Tile:
    """The tile in a layout with copies in registers from the values of the others."""
    by_register = dict(zip(unique_registers(target), values))
    return Tile(target, element, tuple(by_register[r] for r in representatives(target)))


@lru_cache(maxsize=1024)
def _plan(source: LinearLayout, target: LinearLayout, size: int) -> Plan:
    return plan(source, target, size)


def _reduced(b: KernelBuilder, layout: LinearLayout) -> LinearLayout:
    return normalized(without_register_copies(layout), warp_bits_of(b))


def _directly(b: KernelBuilder, tile: Tile, target: LinearLayout) -> Tile | None:
    """The tile converted within the warp, or None when that cannot be done."""
    found = _plan(_reduced(b, tile.layout), _reduced(b, target), STORAGE_BYTES[tile.element])
    values = _unique(tile)
    if found.kind is Conversion.SHARED:
        return None
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
    starts, total = [], 0
    for tile in tiles:
        starts.append(total)
        total += -(-_size(tile) // MAX_BYTES) * MAX_BYTES
    region = scratch.begin(b, total)
    layouts = []
    for tile, target, start in zip(tiles, targets, starts):
        size = STORAGE_BYTES[tile.element]
        features = b.target.has("stmatrix"), b.target.has("ldmatrix")
        shared = shared_between(_reduced(b, tile.layout), _reduced(b, target), size, *features)
        store_shared(b, scratch.pointer(b, region, start), shared, tile)
        layouts.append(shared)
    b.barrier()
    results = [
        load_shared(b, scratch.pointer(b, region, start), shared, target, tile.element)
        for tile, target, start, shared in zip(tiles, targets, starts, layouts)
    ]
    scratch.end(b, region)
    return results


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


def shared_bytes(source: LinearLayout, target: LinearLayout, size: int, warp_bits: int, most: int) -> int:
    """Shared memory that a conversion of elements of `size` bytes takes, in pieces of up to `most` bytes as far as its
    layouts can be cut."""
    before, after = (normalized(without_register_copies(x), warp_bits) for x in (source, target))
    total = size << before.out_bits
    if _plan(before, after, size).kind is not Conversion.SHARED:
        return 0
    if total <= most:
        return total
    return total // len(_pieces(before, after, total // most).registers)


# -- in pieces ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pieces:
    """A conversion cut into equal ones: their common layouts, and the registers of each piece on both sides."""

    source: LinearLayout
    target: LinearLayout
    registers: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


@lru_cache(maxsize=256)
def _pieces(source: LinearLayout, target: LinearLayout, wanted: int) -> _Pieces:
    """Cut into up to `wanted` pieces, by index vectors that registers alone move on both sides."""
    bits = source.out_bits
    sides = source.columns([REGISTER]), target.columns([REGISTER])
    held = f2.independent([*source.columns([LANE, WARP]), *target.columns([LANE, WARP])])
    threads = f2.Basis(held)
    cuts: list[int] = []
    # Prefer the highest of the common vectors: the lowest are what the accesses' vectors are made of.
    for vector in reversed(f2.intersection(*sides)):
        if 1 << len(cuts) < wanted and threads.insert(vector):
            cuts.append(vector)
    # Coordinates in which the cuts are the last unit vectors, and everything that threads move is before them.
    front = [*held, *f2.complement([*held, *cuts], bits)]
    frame = [*front, *cuts]

    def coordinates(vector: int) -> int:
        found = f2.solve(frame, vector)
        assert found is not None  # the frame spans the whole tile
        return found

    inner = 1 << len(front)
    layouts, kernels = [], []
    for layout in (source, target):
        columns = [coordinates(c) for c in layout.columns([REGISTER])]
        inside = f2.kernel([c >> len(front) for c in columns])
        kernels.append((inside, columns))
        bases = {
            REGISTER: [f2.apply(columns, r) for r in inside],
            LANE: [coordinates(c) for c in layout.columns([LANE])],
            WARP: [coordinates(c) for c in layout.columns([WARP])],
        }
        layouts.append(LinearLayout.of(bases, {"dim0": inner}))
    registers = []
    for piece in range(1 << len(cuts)):
        chosen = []
        for inside, columns in kernels:
            first = f2.solve(columns, piece << len(front))
            assert first is not None  # registers reach every cut
            chosen.append(tuple(first ^ f2.apply(inside, r) for r in range(1 << len(inside))))
        registers.append((chosen[0], chosen[1]))
    return _Pieces(layouts[0], layouts[1], tuple(registers))


@lru_cache(maxsize=256)
def _between(source: LinearLayout, target: LinearLayout, wanted: int) -> LinearLayout | None:
    """A layout on the way: it has registers in common with both, so that two trips can be cut where one cannot.

    None where there is no such layout, as where threads hold few elements or several hold the same ones.
    """
    bits, cuts = source.out_bits, wanted.bit_length() - 1
    sides = source.columns([REGISTER]), target.columns([REGISTER])
    if not source.is_invertible or not target.is_invertible or len(sides[0]) != len(sides[1]):
        return None
    basis = f2.Basis()
    registers: list[int] = []
    # From each side its highest registers, as `_pieces` prefers them; then what is left of the source's.
    for vectors, most in ((sides[0][::-1], cuts), (sides[1][::-1], 2 * cuts), (sides[0], len(sides[0]))):
        for vector in vectors:
            if len(registers) < most and basis.insert(vector):
                registers.append(vector)
    threads = f2.complement(registers, bits)
    lanes = len(source.columns([LANE]))
    flat = {REGISTER: registers[::-1], LANE: threads[:lanes], WARP: threads[lanes:]}
    made = LinearLayout.of(flat, {"dim0": 1 << bits}).reshape_outs({d: source.out_size(d) for d in source.out_dims})
    if any(len(_pieces(*trip, wanted).registers) < wanted for trip in ((source, made), (made, target))):
        return None
    return made


def _in_pieces(b: KernelBuilder, tile: Tile, target: LinearLayout) -> Tile:
    wanted = _size(tile) // scratch.piece_bytes(b)
    before, after = _reduced(b, tile.layout), _reduced(b, target)
    pieces = _pieces(before, after, wanted)
    needed = _size(tile) // scratch.piece_bytes(b, _size(tile))
    if len(pieces.registers) < needed:
        while wanted >= needed:
            middle = _between(before, after, wanted)
            if middle is not None:
                return _in_pieces(b, _in_pieces(b, tile, middle), target)
            wanted //= 2
    values = _unique(tile)
    result: dict[int, Value] = {}
    for sources, targets in pieces.registers:
        part = Tile(pieces.source, tile.element, tuple(values[r] for r in sources))
        (moved,) = _through_shared(b, [part], [pieces.target])
        result.update(zip(targets, moved.registers))
    return _expanded(target, tile.element, [result[r] for r in range(len(result))])
