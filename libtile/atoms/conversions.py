# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How tiles go from layouts to others, from layouts alone: within threads or warps, or through shared memory.

Each conversion goes the cheapest way (`libtile.layouts.convert`). A tile that is larger than one exchange goes through
shared memory in pieces, in one trip or, where its layouts cannot be cut into small enough ones, by layouts on the way.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from libtile.atoms.shared_accesses import reduced
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout, f2
from libtile.layouts.convert import Conversion, Plan, plan
from libtile.layouts.shared_access import padded, piece_bytes
from libtile.support.records import dataclass


@dataclass(frozen=True)
class AsWhole:
    """A tile goes through shared memory in one exchange."""


@dataclass(frozen=True)
class Trip:
    """A tile goes to a layout in pieces of so many bytes, one exchange each."""

    target: LinearLayout
    pieces: Pieces
    bytes: int


@dataclass(frozen=True)
class InPieces:
    """A tile goes through shared memory in pieces, in one trip or by layouts on the way."""

    trips: tuple[Trip, ...]


def within_warps(source: LinearLayout, target: LinearLayout, size: int, warp_bits: int) -> Plan | None:
    """How a tile of elements of `size` bytes goes to a layout by registers or shuffles; None where it leaves a warp.
    ValueError when the target describes another tile or does not hold all of it."""
    target = target.transpose_outs(source.out_dims)
    found = _plan(reduced(source, warp_bits), reduced(target, warp_bits), size)
    return None if found.kind is Conversion.SHARED else found


def is_kept(source: LinearLayout, target: LinearLayout, warp_bits: int) -> bool:
    """Whether every thread has what it is to have in a layout, in whichever registers."""
    found = within_warps(source, target, 1, warp_bits)
    return found is not None and found.kind in (Conversion.NONE, Conversion.REGISTERS)


def conversion(
    source: LinearLayout, target: LinearLayout, size: int, warp_bits: int, room: int
) -> Plan | AsWhole | InPieces:
    """The way of a tile of elements of `size` bytes to another layout, where exchanges have `room` bytes. ValueError
    when the target describes another tile or does not hold all of it."""
    target = target.transpose_outs(source.out_dims)
    found = within_warps(source, target, size, warp_bits)
    if found is not None:
        return found
    if size << source.out_bits > piece_bytes(room):
        return InPieces(_trips(source, target, size, warp_bits, room))
    return AsWhole()


@lru_cache(maxsize=1024)
def _plan(source: LinearLayout, target: LinearLayout, size: int) -> Plan:
    return plan(source, target, size)


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
    if not cuts:
        before, after = (tuple(range(layout.in_size(REGISTER))) for layout in (source, target))
        return Pieces(source, target, ((before, after),))
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
