# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions and scans of a tile along a dimension, as steps on its layout: which bits of a place are combined when.

The bits of the index along the dimension are taken one after the other. Taking them from the lowest up combines
neighbours only, which an associative body needs, and which is the tree that the interpreter builds; the order of a
reduction whose body commutes is free. The steps of a reduction:

    registers [r, ...]   a thread combines the halves of its registers that differ by a bit of their number
    lanes [l, ...]       lanes that differ by a bit of their number combine what they hold
    redux [0, 1, ...]    all lanes of a warp at once, by an instruction that combines in any order
    exchange [l] with r  as `lanes`, where each lane of a pair keeps the half of its registers that bit r tells apart
    warps [w, ...]       every warp gets what all warps along the dimension have, as further register bits

and those of a scan, which join 2**n blocks of neighbours in one step of n bits:

    registers, lanes     within a thread, or a warp
    warps                from a table of all warps' totals

Bits of registers are numbered as in the layout that the tile has; those that `warps` adds to a reduction follow, in the
order in which it lists them. A place's bit must move the index by one bit or not at all (`is_unit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

from libtile.layouts import f2
from libtile.layouts.builders import dim_names
from libtile.layouts.linear import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.renaming import without_register_copies
from libtile.layouts.shared_access import SharedWay
from libtile.support.records import dataclass, replace

REGISTERS, LANES, REDUX, EXCHANGE, WARPS = "registers", "lanes", "redux", "exchange", "warps"
_KINDS = {REGISTER: REGISTERS, LANE: LANES, WARP: WARPS}


@dataclass(frozen=True)
class SharedTrip:
    """One trip through shared memory: the way of each tile that takes it, in one exchange; or, of a single tile, that
    of each of its `pieces`, one exchange each."""

    ways: tuple[SharedWay, ...]
    pieces: int = 1


@dataclass(frozen=True)
class Step:
    """One step of a reduction or a scan; `trips` are how the tiles, in order, come to other warps."""

    kind: str
    bits: tuple[int, ...]
    register: int | None = None
    trips: tuple[SharedTrip, ...] = ()


# -- layouts --------------------------------------------------------------------------------------------------------


def is_unit(layout: LinearLayout) -> bool:
    """Whether every bit of a place moves the index by one bit or not at all, no two by the same one."""
    columns = [c for c in layout.columns() if c]
    return all(c & (c - 1) == 0 for c in columns) and len(set(columns)) == len(columns)


def unit_layout(layout: LinearLayout) -> LinearLayout:
    """A layout near this one for which `is_unit` holds: of the vectors that are no units, or repeat one, the threads'
    become copies, and registers hold what is then missing."""
    seen: set[int] = set()
    bases: dict[str, list[int]] = {}
    for name in (LANE, WARP, REGISTER):
        bases[name] = []
        for column in layout.columns([name]):
            keep = column and column & (column - 1) == 0 and column not in seen
            if keep:
                seen.add(column)
            if keep or name != REGISTER:
                bases[name].append(column if keep else 0)
    bases[REGISTER] += f2.complement(sorted(seen), layout.out_bits)
    frame = LinearLayout.of({}, {n: 1 << bits for n, bits in layout.outs})
    vectors = {n: [frame._unpack(c) for c in bases[n]] for n in (REGISTER, LANE, WARP)}
    return LinearLayout.of(vectors, {n: 1 << bits for n, bits in layout.outs})


def reduced_layout(layout: LinearLayout, dim: int) -> LinearLayout:
    """The layout of a reduction's result: without a dimension; the threads along it hold copies."""
    bases = {
        n: [v[:dim] + v[dim + 1 :] for v in vs if n != REGISTER or any(v[:dim] + v[dim + 1 :])]
        for n, vs in layout.bases
    }
    sizes = [s for d, s in enumerate(layout.shape) if d != dim]
    return LinearLayout.of(bases, dict(zip(dim_names(len(sizes)), sizes)))


def index_bits(layout: LinearLayout, dim: int) -> list[tuple[str, int]]:
    """For each bit of the index along a dimension of a unit layout the bit of the place that moves it."""
    found: dict[int, tuple[str, int]] = {}
    for name in (REGISTER, LANE, WARP):
        for position, vector in enumerate(layout.basis(name)):
            if vector[dim]:
                found[vector[dim].bit_length() - 1] = name, position
    return [found[i] for i in range(layout.shape[dim].bit_length() - 1)]


def _with(layout: LinearLayout, name: str, vectors: Sequence[tuple[int, ...]]) -> LinearLayout:
    return LinearLayout(tuple((n, tuple(vectors) if n == name else vs) for n, vs in layout.bases), layout.outs)


def _check(layout: LinearLayout, dim: int) -> None:
    if not is_unit(layout):
        raise ValueError("a layout in which each bit of a place moves one bit of an index, and no two the same one")
    if not layout.is_surjective:
        raise ValueError("a layout that holds all of the tile")
    if not 0 <= dim < len(layout.outs):
        raise ValueError(f"a dimension in range 0 to {len(layout.outs) - 1}")


# -- reductions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fold:
    """A step of one bit, from a layout without copies in registers to another: `registers` or `lanes` fold bit
    `position` of their number, `exchange` lanes fold it and take what bit `register` of the registers held, `warps`
    hand out what all have: as `handed` says, without the bits of the index that are folded, and by `trips`. One of
    `redux` folds all bits of the lanes."""

    kind: str
    before: LinearLayout
    after: LinearLayout
    position: int = 0
    register: int = 0
    handed: tuple[LinearLayout, LinearLayout] | None = None
    trips: tuple[SharedTrip, ...] = ()


class _Reduction:
    """What is left to fold: the layout, and the numbers of its register bits."""

    def __init__(self, layout: LinearLayout, dim: int):
        _check(layout, dim)
        self.dim = dim
        self.numbers = [i for i, v in enumerate(layout.basis(REGISTER)) if any(v)]
        self.next = len(layout.basis(REGISTER))
        self.layout = without_register_copies(layout)
        self.folds: list[Fold] = []

    def left(self) -> list[int]:
        """The bits of the index that are not folded yet, in order, as numbers with that bit."""
        return sorted(v[self.dim] for name in self.layout.in_dims for v in self.layout.basis(name) if v[self.dim])

    def vector(self, name: str, position: int) -> tuple[int, ...]:
        basis = self.layout.basis(name)
        if not 0 <= position < len(basis):
            raise ValueError(f"bits of {_KINDS[name]} below {len(basis)}")
        return basis[position]

    def position(self, register: int | None) -> int:
        """Where a register bit of a number is now."""
        if register not in self.numbers:
            raise ValueError(f"register bits among {self.numbers}")
        return self.numbers.index(register)

    def _add(self, kind: str, after: LinearLayout, position: int, register: int = 0) -> None:
        self.folds.append(Fold(kind, self.layout, after, position, register))
        self.layout = after

    def registers(self, number: int) -> None:
        position = self.position(number)
        self.numbers.remove(number)
        kept = [v for i, v in enumerate(self.layout.basis(REGISTER)) if i != position]
        self._add(REGISTERS, _with(self.layout, REGISTER, kept), position)

    def lanes(self, position: int) -> None:
        zero = (0,) * len(self.layout.outs)
        lanes = [zero if i == position else v for i, v in enumerate(self.layout.basis(LANE))]
        self._add(LANES, _with(self.layout, LANE, lanes), position)

    def redux(self) -> None:
        zero = (0,) * len(self.layout.outs)
        self._add(REDUX, _with(self.layout, LANE, [zero for _ in self.layout.basis(LANE)]), 0)

    def exchange(self, position: int, number: int | None) -> None:
        register = self.position(number)
        registers, lanes = list(self.layout.basis(REGISTER)), list(self.layout.basis(LANE))
        lanes[position] = registers.pop(register)
        del self.numbers[register]
        self._add(EXCHANGE, _with(_with(self.layout, REGISTER, registers), LANE, lanes), position, register)

    def along_warps(self) -> tuple[int, ...]:
        """The bits of warps that move the index along the dimension."""
        return tuple(i for i, v in enumerate(self.layout.basis(WARP)) if v[self.dim])

    def warps(self, trips: tuple[SharedTrip, ...] = ()) -> None:
        before, bits = self.layout, self.along_warps()
        zero = (0,) * len(before.outs)
        warps = before.basis(WARP)
        self.numbers += range(self.next, self.next + len(bits))
        self.next += len(bits)
        target = _with(before, WARP, [zero if i in bits else v for i, v in enumerate(warps)])
        after = _with(target, REGISTER, [*before.basis(REGISTER), *(warps[i] for i in bits)])
        handed = _without_folded_bits(before, self.dim), _without_folded_bits(after, self.dim)
        self.folds.append(Fold(WARPS, before, after, handed=handed, trips=trips))
        self.layout = after


def _without_folded_bits(layout: LinearLayout, dim: int) -> LinearLayout:
    """The layout of the tile whose index along the dimension has only the bits that some place moves."""
    kept = sorted(v[dim] for name in layout.in_dims for v in layout.basis(name) if v[dim])
    rank = {bit: 1 << i for i, bit in enumerate(kept)} | {0: 0}
    bases = {n: [(*v[:dim], rank[v[dim]], *v[dim + 1 :]) for v in layout.basis(n)] for n in layout.in_dims}
    sizes = [1 << len(kept) if d == dim else s for d, s in enumerate(layout.shape)]
    return LinearLayout.of(bases, dict(zip(layout.out_dims, sizes)))


@lru_cache(maxsize=512)
def reduction_steps(layout: LinearLayout, dim: int, commutative: bool) -> tuple[Step, ...]:
    """The steps that reduce a unit layout along a dimension, without trips: registers first, then lanes, then warps,
    if the order is free. ValueError for a layout that is none."""
    state = _Reduction(layout, dim)
    order = index_bits(layout, dim)
    if commutative:
        order.sort(key=lambda step: (REGISTER, LANE, WARP).index(step[0]))
    steps: list[Step] = []
    # Bits are known by the index bit that they move, since their places change as others are folded.
    for vector in [layout.basis(name)[position] for name, position in order]:
        if vector in state.layout.basis(WARP):
            steps.append(Step(WARPS, state.along_warps()))
            state.warps()
        registers, lanes = state.layout.basis(REGISTER), state.layout.basis(LANE)
        if vector in registers:
            number = state.numbers[registers.index(vector)]
            steps.append(Step(REGISTERS, (number,)))
            state.registers(number)
        elif along := [v for v in registers if v[dim]]:
            number = state.numbers[registers.index(max(along, key=lambda v: v[dim]))]
            steps.append(Step(EXCHANGE, (lanes.index(vector),), number))
            state.exchange(lanes.index(vector), number)
        else:
            steps.append(Step(LANES, (lanes.index(vector),)))
            state.lanes(lanes.index(vector))
    return tuple(_joined(steps))


def _joined(steps: Sequence[Step]) -> list[Step]:
    """Steps of one kind that follow each other as one."""
    made: list[Step] = []
    for kind, group in groupby(steps, key=lambda step: step.kind):
        same = list(group)
        if kind in (REGISTERS, LANES):
            same = [Step(kind, tuple(bit for step in same for bit in step.bits))]
        made += same
    return made


@lru_cache(maxsize=512)
def folds(layout: LinearLayout, dim: int, steps: tuple[Step, ...], commutative: bool) -> tuple[Fold, ...]:
    """The steps of a reduction, bit by bit. ValueError, which says what is expected, where they do not reduce the
    dimension, or, unless it is `commutative`, combine others than neighbours."""
    state = _Reduction(layout, dim)

    def folded(what: str, vector: tuple[int, ...]) -> None:
        left = state.left()
        if not vector[dim]:
            raise ValueError(f"bits along dimension {dim}, which {what} is not")
        if not commutative and vector[dim] != left[0]:
            raise ValueError(
                f"steps from the lowest bit of the index up, but {what} moves it by {vector[dim]} before {left[0]} "
                "is folded"
            )

    for step in steps:
        if step.kind == WARPS:
            if not step.bits or step.bits != state.along_warps():
                raise ValueError(f"warp bits {list(state.along_warps())} in one step, but got {list(step.bits)}")
            state.warps(step.trips)
            continue
        if step.kind == REDUX:
            lanes = range(len(state.layout.basis(LANE)))
            if not commutative:
                raise ValueError("steps that keep an order where arguments are not exchanged, but got redux")
            if step.bits != tuple(lanes):
                raise ValueError(f"redux of lane bits {list(lanes)}, but got {list(step.bits)}")
            for bit in lanes:
                folded(f"lane bit {bit}", state.vector(LANE, bit))
            state.redux()
            continue
        if step.kind == EXCHANGE and len(step.bits) != 1:
            raise ValueError(f"an exchange of one lane bit, but got {list(step.bits)}")
        for bit in step.bits:
            if step.kind == REGISTERS:
                folded(f"register bit {bit}", state.vector(REGISTER, state.position(bit)))
                state.registers(bit)
                continue
            folded(f"lane bit {bit}", state.vector(LANE, bit))
            if step.kind == EXCHANGE:
                state.exchange(bit, step.register)
            else:
                state.lanes(bit)
    if state.left():
        raise ValueError(f"steps for all of dimension {dim}, but bits {state.left()} of its index are left")
    return tuple(state.folds)


def result_layout(layout: LinearLayout, dim: int, steps: tuple[Step, ...], commutative: bool) -> LinearLayout:
    """The layout of what a reduction by these steps gives. ValueError as for `folds`."""
    found = folds(layout, dim, steps, commutative)
    return reduced_layout(found[-1].after if found else without_register_copies(layout), dim)


# -- scans ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A step of a scan on a layout without copies in registers: bits of one kind that follow each other in the index,
    by their positions, lowest index bit first. Those of warps hand out blocks' totals as `handed` says, by `trips`."""

    kind: str
    positions: tuple[int, ...]
    handed: tuple[LinearLayout, LinearLayout] | None = None
    trips: tuple[SharedTrip, ...] = ()

    @property
    def count(self) -> int:
        return 1 << len(self.positions)

    @property
    def mask(self) -> int:
        return sum(1 << p for p in self.positions)

    def spread(self, number: int) -> int:
        """The bits of a block's number at their positions."""
        return sum((number >> k & 1) << p for k, p in enumerate(self.positions))


@lru_cache(maxsize=512)
def scan_steps(layout: LinearLayout, dim: int) -> tuple[Step, ...]:
    """The steps that scan a unit layout along a dimension, without trips. ValueError for a layout that is none."""
    _check(layout, dim)
    grouped = groupby(index_bits(layout, dim), key=lambda step: step[0])
    return tuple(Step(_KINDS[name], tuple(position for _, position in group)) for name, group in grouped)


@lru_cache(maxsize=512)
def runs(layout: LinearLayout, dim: int, steps: tuple[Step, ...]) -> tuple[Run, ...]:
    """The steps of a scan on the layout without copies in registers. ValueError, which says what is expected, where
    they do not take the bits of the dimension from the lowest up."""
    wanted = [(step.kind, bit) for step in scan_steps(layout, dim) for bit in step.bits]
    given = [(step.kind, bit) for step in steps for bit in step.bits]
    for (kind, bit), (other, found) in zip(wanted, given):
        if (kind, bit) != (other, found):
            raise ValueError(f"{kind} [{bit}] as the next bit of the index, but got {other} [{found}]")
    if len(wanted) != len(given) or not all(step.bits for step in steps):
        raise ValueError(f"steps of {len(wanted)} bits, as dimension {dim} has, but got {len(given)}")
    numbers = [i for i, v in enumerate(layout.basis(REGISTER)) if any(v)]
    ready = without_register_copies(layout)
    made: list[Run] = []
    bits = registers = 0
    for step in steps:
        positions = tuple(numbers.index(b) for b in step.bits) if step.kind == REGISTERS else step.bits
        run = Run(step.kind, positions)
        if step.kind == WARPS:
            run = replace(run, handed=_totals_layouts(ready, dim, run, bits, registers), trips=step.trips)
        if step.kind == REGISTERS:
            registers |= run.mask
        bits += len(positions)
        made.append(run)
    return tuple(made)


def _totals_layouts(
    layout: LinearLayout, dim: int, run: Run, done_bits: int, done_registers: int
) -> tuple[LinearLayout, LinearLayout]:
    """Where the totals of blocks are before a run of warps, with the index's finished bits left out, and where they
    are when every warp has them all: those of its own, and in further registers."""

    def vector(v: Sequence[int]) -> tuple[int, ...]:
        return tuple(c >> done_bits if d == dim else c for d, c in enumerate(v))

    held = [vector(v) for i, v in enumerate(layout.basis(REGISTER)) if not done_registers >> i & 1]
    lanes = [vector(v) for v in layout.basis(LANE)]
    warps = [vector(v) for v in layout.basis(WARP)]
    shape = [s >> done_bits if d == dim else s for d, s in enumerate(layout.shape)]
    outs = dict(zip(dim_names(len(shape)), shape))
    source = LinearLayout.of({REGISTER: held, LANE: lanes, WARP: warps}, outs)
    moved = [warps[p] for p in run.positions]
    zero = (0,) * len(shape)
    left = [zero if i in run.positions else v for i, v in enumerate(warps)]
    return source, LinearLayout.of({REGISTER: [*held, *moved], LANE: lanes, WARP: left}, outs)
