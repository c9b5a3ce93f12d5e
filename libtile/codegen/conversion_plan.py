# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How tiles go from layouts to others: the steps that `convert_layout` takes, from layouts alone.

Each conversion goes the cheapest way (`libtile.layouts.convert`). Those that must go through shared memory go together,
as many as one exchange holds; a tile that is larger than that goes in pieces. The steps say how many bytes each
exchange takes, in order: what the pass places and what code makes are both from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from libtile.codegen.exchange import padded, piece_bytes
from libtile.codegen.shared_tiles import MAX_BYTES, normalized
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout, f2
from libtile.layouts.convert import Conversion, Plan, plan
from libtile.layouts.renaming import without_register_copies


@dataclass(frozen=True)
class Directly:
    """One tile is converted within its warps."""

    tile: int
    plan: Plan

    @property
    def exchanges(self) -> tuple[int, ...]:
        return ()


@dataclass(frozen=True)
class Together:
    """Tiles go through shared memory in one exchange, each from its place in that on."""

    tiles: tuple[int, ...]
    starts: tuple[int, ...]
    bytes: int

    @property
    def exchanges(self) -> tuple[int, ...]:
        return (self.bytes,)


@dataclass(frozen=True)
class Trip:
    """A tile goes to a layout in pieces of so many bytes, one exchange each."""

    target: LinearLayout
    pieces: Pieces
    bytes: int


@dataclass(frozen=True)
class InPieces:
    """A tile goes through shared memory in pieces, in one trip or by layouts on the way."""

    tile: int
    trips: tuple[Trip, ...]

    @property
    def exchanges(self) -> tuple[int, ...]:
        return tuple(trip.bytes for trip in self.trips for _ in trip.pieces.registers)


Step = Directly | Together | InPieces


def reduced(layout: LinearLayout, warp_bits: int) -> LinearLayout:
    """A layout without copies in registers, with all lanes and warps."""
    return normalized(without_register_copies(layout), warp_bits)


def conversion_steps(
    sources: Sequence[LinearLayout],
    targets: Sequence[LinearLayout],
    element_bytes: Sequence[int],
    warp_bits: int,
    room: int,
) -> tuple[Step, ...]:
    """The steps by which tiles of elements of so many bytes go from their layouts to others, where exchanges have
    `room` bytes. Nothing stands for a tile that is in its layout already. ValueError when a target describes another
    tile or does not hold all of it."""
    return _steps(tuple(sources), tuple(targets), tuple(element_bytes), warp_bits, room)


def exchange_sizes(
    sources: Sequence[LinearLayout],
    targets: Sequence[LinearLayout],
    element_bytes: Sequence[int],
    warp_bits: int,
    room: int,
) -> tuple[int, ...]:
    """The bytes of each exchange of `conversion_steps`, in order."""
    steps = conversion_steps(sources, targets, element_bytes, warp_bits, room)
    return tuple(size for step in steps for size in step.exchanges)


@lru_cache(maxsize=1024)
def _plan(source: LinearLayout, target: LinearLayout, size: int) -> Plan:
    return plan(source, target, size)


@lru_cache(maxsize=1024)
def _steps(
    sources: tuple[LinearLayout, ...],
    targets: tuple[LinearLayout, ...],
    element_bytes: tuple[int, ...],
    warp_bits: int,
    room: int,
) -> tuple[Step, ...]:
    steps: list[Step] = []
    through: list[tuple[int, int]] = []
    most = piece_bytes(room)
    for i, (source, target, size) in enumerate(zip(sources, targets, element_bytes, strict=True)):
        target = target.transpose_outs(source.out_dims)
        if target == source:
            continue
        found = _plan(reduced(source, warp_bits), reduced(target, warp_bits), size)
        total = size << source.out_bits
        if found.kind is not Conversion.SHARED:
            steps.append(Directly(i, found))
        elif total > most:
            steps.append(InPieces(i, _trips(source, target, size, warp_bits, room)))
        else:
            through.append((i, -(-total // MAX_BYTES) * MAX_BYTES))
    return (*steps, *_together(through, most))


def _together(sizes: Sequence[tuple[int, int]], most: int) -> list[Together]:
    """Tiles with their bytes in groups that fit one exchange of up to `most` bytes together."""
    groups: list[list[tuple[int, int]]] = []
    total = most
    for number, size in sizes:
        total += size
        if total > most:
            groups.append([])
            total = size
        groups[-1].append((number, size))
    made = []
    for group in groups:
        starts = [sum(size for _, size in group[:n]) for n in range(len(group))]
        made.append(Together(tuple(n for n, _ in group), tuple(starts), sum(size for _, size in group)))
    return made


def shared_bytes(source: LinearLayout, target: LinearLayout, size: int, warp_bits: int, most: int) -> int:
    """Shared memory that a conversion of elements of `size` bytes takes, in pieces of up to `most` bytes as far as its
    layouts can be cut."""
    before, after = reduced(source, warp_bits), reduced(target, warp_bits)
    total = size << before.out_bits
    if _plan(before, after, size).kind is not Conversion.SHARED:
        return 0
    if total <= most:
        return total
    return total // len(cut(before, after, total // most).registers)


# -- in pieces ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pieces:
    """A conversion cut into equal ones: their common layouts, and the registers of each piece on both sides."""

    source: LinearLayout
    target: LinearLayout
    registers: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


@lru_cache(maxsize=256)
def cut(source: LinearLayout, target: LinearLayout, wanted: int) -> Pieces:
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
    return Pieces(layouts[0], layouts[1], tuple(registers))


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
    # From each side its highest registers, as `cut` prefers them; then what is left of the source's.
    for vectors, most in ((sides[0][::-1], cuts), (sides[1][::-1], 2 * cuts), (sides[0], len(sides[0]))):
        for vector in vectors:
            if len(registers) < most and basis.insert(vector):
                registers.append(vector)
    threads = f2.complement(registers, bits)
    lanes = len(source.columns([LANE]))
    flat = {REGISTER: registers[::-1], LANE: threads[:lanes], WARP: threads[lanes:]}
    made = LinearLayout.of(flat, {"dim0": 1 << bits}).reshape_outs({d: source.out_size(d) for d in source.out_dims})
    if any(len(cut(*trip, wanted).registers) < wanted for trip in ((source, made), (made, target))):
        return None
    return made


def _trips(source: LinearLayout, target: LinearLayout, size: int, warp_bits: int, room: int) -> tuple[Trip, ...]:
    """The trips of a tile in pieces: one, where its layouts can be cut into pieces that there is room for."""
    before, after = reduced(source, warp_bits), reduced(target, warp_bits)
    total = size << source.out_bits
    wanted, needed = total // piece_bytes(room), total // piece_bytes(room, total)
    pieces = cut(before, after, wanted)
    while len(pieces.registers) < needed <= wanted:
        middle = _between(before, after, wanted)
        if middle is not None:
            there = _trips(source, middle, size, warp_bits, room)
            return (*there, *_trips(middle, target, size, warp_bits, room))
        wanted //= 2
    inner = prod(pieces.source.shape)
    return (Trip(target, pieces, padded(size * inner)),)
