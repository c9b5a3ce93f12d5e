# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions along one dimension with any associative body (Tile IR specification, "reduce").

The bits of the index along the dimension are folded one after the other: those that registers hold within a thread,
those of lanes by butterflies, those of warps by handing all warps' partial results to every warp. Folding from the
lowest bit up combines neighbours only, which an associative body needs, and which is the tree that the interpreter
builds; a body that commutes is folded in the cheaper order of registers, lanes, warps. Where a lane's bit comes before
a register's, the two change places as the first is folded: each lane of a pair keeps one half of the registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from libtile.codegen import conversion_plan
from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.convert_layout import convert_all
from libtile.codegen.lanes import parity, shuffle
from libtile.codegen.memory import as_integer, check_layouts, from_integer
from libtile.codegen.shared_tiles import without_register_copies
from libtile.codegen.tile import Tile, unique_registers
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout, f2
from libtile.layouts.builders import dim_names

Body = Callable[[list[Value], list[Value]], list[Value]]
"""(what was accumulated, what follows it), one value for each operand, to what results."""


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


def prepared(b: KernelBuilder, tiles: Sequence[Tile]) -> list[Tile]:
    """The tiles in one unit layout without copies in registers."""
    check_layouts(tiles[0], *tiles[1:])
    layout = tiles[0].layout
    if not is_unit(layout):
        unit = unit_layout(layout)
        return convert_all(b, tiles, [unit] * len(tiles))
    kept = unique_registers(layout)
    smaller = without_register_copies(layout)
    return [Tile(smaller, t.element, tuple(t.registers[r] for r in kept)) for t in tiles]


def shuffle_value(b: KernelBuilder, value: Value, source: Value | int) -> Value:
    """`lanes.shuffle` of a register of any type."""
    return from_integer(b, shuffle(b, as_integer(b, value), source), value.type)


@dataclass(frozen=True)
class Fold:
    """One step of a reduction, from a layout to another: `registers` or `lanes` fold bit `position` of their number,
    `exchange` lanes fold it and take what bit `register` of the registers held, `warps` hand out what all have."""

    kind: str
    before: LinearLayout
    after: LinearLayout
    position: int = 0
    register: int = 0


@lru_cache(maxsize=512)
def folds(layout: LinearLayout, dim: int, commutative: bool) -> tuple[Fold, ...]:
    """The steps that reduce a unit layout without copies in registers along a dimension."""
    steps = index_bits(layout, dim)
    if commutative:
        steps.sort(key=lambda step: (REGISTER, LANE, WARP).index(step[0]))
    found: list[Fold] = []
    # Register bits are known by the index bit that they move, since their positions change as bits are folded.
    for vector in [layout.basis(name)[position] for name, position in steps]:
        if vector in layout.basis(WARP):
            found.append(Fold("warps", layout, _warps_moved(layout, dim)))
            layout = found[-1].after
        if vector in layout.basis(REGISTER):
            position = layout.basis(REGISTER).index(vector)
            kept = [v for i, v in enumerate(layout.basis(REGISTER)) if i != position]
            found.append(Fold("registers", layout, _with(layout, REGISTER, kept), position))
        elif left := [v for v in layout.basis(REGISTER) if v[dim]]:
            register = layout.basis(REGISTER).index(max(left, key=lambda v: v[dim]))
            position = layout.basis(LANE).index(vector)
            registers, lanes = list(layout.basis(REGISTER)), list(layout.basis(LANE))
            lanes[position] = registers.pop(register)
            after = _with(_with(layout, REGISTER, registers), LANE, lanes)
            found.append(Fold("exchange", layout, after, position, register))
        else:
            position = layout.basis(LANE).index(vector)
            zero = (0,) * len(vector)
            lanes = [zero if i == position else v for i, v in enumerate(layout.basis(LANE))]
            found.append(Fold("lanes", layout, _with(layout, LANE, lanes), position))
        layout = found[-1].after
    return tuple(found)


def prepared_layout(layout: LinearLayout) -> LinearLayout:
    """The layout of `prepared` tiles."""
    return without_register_copies(layout) if is_unit(layout) else unit_layout(layout)


def prepared_sizes(layout: LinearLayout, element_bytes: Sequence[int], warp_bits: int, room: int) -> tuple[int, ...]:
    """The bytes of each exchange by which tiles of elements of so many bytes come into a unit layout."""
    if is_unit(layout):
        return ()
    count = len(element_bytes)
    return conversion_plan.exchange_sizes(
        [layout] * count, [unit_layout(layout)] * count, element_bytes, warp_bits, room
    )


def exchange_sizes(
    layout: LinearLayout, dim: int, commutative: bool, element_bytes: Sequence[int], warp_bits: int, room: int
) -> tuple[int, ...]:
    """The bytes of each exchange of `reduce` on tiles of a layout, of elements of so many bytes."""
    sizes = list(prepared_sizes(layout, element_bytes, warp_bits, room))
    count = len(element_bytes)
    for fold in folds(prepared_layout(layout), dim, commutative):
        if fold.kind == "warps":
            source, target = (_without_folded_bits(x, dim) for x in (fold.before, fold.after))
            sizes += conversion_plan.exchange_sizes([source] * count, [target] * count, element_bytes, warp_bits, room)
    return tuple(sizes)


def result_layout(layout: LinearLayout, dim: int, commutative: bool) -> LinearLayout:
    """The layout of what `reduce` gives for tiles of a layout."""
    start = prepared_layout(layout)
    found = folds(start, dim, commutative)
    return reduced_layout(found[-1].after if found else start, dim)


def reduce(b: KernelBuilder, tiles: Sequence[Tile], dim: int, body: Body, *, commutative: bool = False) -> list[Tile]:
    """Reduce tiles of one layout along a dimension; the results have `result_layout` of it. All threads of the block
    must come here.

    The body gets what has the lower index as accumulated; with `commutative` its two arguments may be exchanged.
    """
    current = prepared(b, tiles)
    for fold in folds(current[0].layout, dim, commutative):
        match fold.kind:
            case "warps":
                current = _warps_to_registers(b, current, fold, dim)
            case "registers":
                current = _fold_registers(current, fold, body)
            case "exchange":
                current = _fold_lanes_into_registers(b, current, fold, body)
            case _:
                current = _fold_lanes(b, current, fold, body, commutative)
    result = reduced_layout(current[0].layout, dim)
    return [Tile(result, t.element, t.registers) for t in current]


def _fold_registers(tiles: Sequence[Tile], fold: Fold, body: Body) -> list[Tile]:
    bit = 1 << fold.position
    results = [
        body([t.registers[r] for t in tiles], [t.registers[r | bit] for t in tiles])
        for r in range(fold.before.in_size(REGISTER))
        if not r & bit
    ]
    return [Tile(fold.after, t.element, tuple(values)) for t, values in zip(tiles, zip(*results))]


def _fold_lanes(b: KernelBuilder, tiles: Sequence[Tile], fold: Fold, body: Body, commutative: bool) -> list[Tile]:
    bit = 1 << fold.position
    upper = parity(b, bit)
    results = []
    for own in zip(*(t.registers for t in tiles)):
        other = [shuffle_value(b, v, bit) for v in own]
        if commutative:
            results.append(body(list(own), other))
            continue
        first = [b.select(upper, o, v) for o, v in zip(other, own)]
        second = [b.select(upper, v, o) for o, v in zip(other, own)]
        results.append(body(first, second))
    return [Tile(fold.after, t.element, tuple(values)) for t, values in zip(tiles, zip(*results))]


def _fold_lanes_into_registers(b: KernelBuilder, tiles: Sequence[Tile], fold: Fold, body: Body) -> list[Tile]:
    """Fold a bit of the lanes, which then hold what a bit of the registers held: a lane gives its partner the half of
    its registers that the partner keeps."""
    bit = 1 << fold.register
    upper = parity(b, 1 << fold.position)
    results = []
    for r in range(fold.before.in_size(REGISTER)):
        if r & bit:
            continue
        first, second = [], []
        for t in tiles:
            kept = b.select(upper, t.registers[r | bit], t.registers[r])
            given = b.select(upper, t.registers[r], t.registers[r | bit])
            received = shuffle_value(b, given, 1 << fold.position)
            first.append(b.select(upper, received, kept))
            second.append(b.select(upper, kept, received))
        results.append(body(first, second))
    return [Tile(fold.after, t.element, tuple(values)) for t, values in zip(tiles, zip(*results))]


def _warps_moved(layout: LinearLayout, dim: int) -> LinearLayout:
    """The layout in which every warp has what the other warps along the dimension have, in further registers."""
    moved = [v for v in layout.basis(WARP) if v[dim]]
    zero = (0,) * len(layout.outs)
    target = _with(layout, WARP, [zero if v[dim] else v for v in layout.basis(WARP)])
    return _with(target, REGISTER, [*layout.basis(REGISTER), *moved])


def _warps_to_registers(b: KernelBuilder, tiles: Sequence[Tile], fold: Fold, dim: int) -> list[Tile]:
    # Folded index bits belong to no place any more: the tile that is converted goes without them.
    source, target = (_without_folded_bits(x, dim) for x in (fold.before, fold.after))
    compact = [Tile(source, t.element, t.registers) for t in tiles]
    made = convert_all(b, compact, [target] * len(tiles))
    return [Tile(fold.after, t.element, t.registers) for t in made]


def _without_folded_bits(layout: LinearLayout, dim: int) -> LinearLayout:
    """The layout of the tile whose index along the dimension has only the bits that some place moves."""
    kept = sorted(v[dim] for name in layout.in_dims for v in layout.basis(name) if v[dim])
    rank = {bit: 1 << i for i, bit in enumerate(kept)} | {0: 0}
    bases = {n: [(*v[:dim], rank[v[dim]], *v[dim + 1 :]) for v in layout.basis(n)] for n in layout.in_dims}
    sizes = [1 << len(kept) if d == dim else s for d, s in enumerate(layout.shape)]
    return LinearLayout.of(bases, dict(zip(layout.out_dims, sizes)))


def _with(layout: LinearLayout, name: str, vectors: Sequence[tuple[int, ...]]) -> LinearLayout:
    return LinearLayout(tuple((n, tuple(vectors) if n == name else vs) for n, vs in layout.bases), layout.outs)
