# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions along one dimension with any associative body (Tile IR specification, "reduce"), by the steps of
`libtile.layouts.collectives`: within threads, between lanes by butterflies, and between warps, all of which get what
the others have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.convert_layout import hand_out
from libtile.codegen.lanes import parity, redux, shuffle
from libtile.codegen.memory import check_layouts
from libtile.codegen.stored_bits import as_integer, from_integer
from libtile.codegen.tile import Tile
from libtile.layouts import REGISTER, collectives
from libtile.layouts.collectives import Fold, Step, folds, reduced_layout
from libtile.layouts.registers import unique_registers
from libtile.layouts.renaming import without_register_copies

Body = Callable[[list[Value], list[Value]], list[Value]]
PAIRED_BIT = 3
"""Of registers: values this far apart are folded two at a time. What is farther has to be alive at once, and what is
nearer is soon folded itself."""
"""(what was accumulated, what follows it), one value for each operand, to what results."""


def prepared(tiles: Sequence[Tile]) -> list[Tile]:
    """The tiles without copies in registers."""
    check_layouts(tiles[0], *tiles[1:])
    layout = tiles[0].layout
    kept = unique_registers(layout)
    smaller = without_register_copies(layout)
    return [Tile(smaller, t.element, tuple(t.registers[r] for r in kept)) for t in tiles]


def shuffle_value(b: KernelBuilder, value: Value, source: Value | int) -> Value:
    """`lanes.shuffle` of a register of any type."""
    return from_integer(b, shuffle(b, as_integer(b, value), source), value.type)


def reduce(
    b: KernelBuilder,
    tiles: Sequence[Tile],
    dim: int,
    steps: tuple[Step, ...],
    body: Body,
    *,
    commutative: bool = False,
    in_pairs: bool = False,
    in_threes: bool = False,
    by_warps: str | None = None,
) -> list[Tile]:
    """Reduce tiles of one unit layout along a dimension by steps; the results have `result_layout` of these. All
    threads of the block must come here.

    The body gets what has the lower index as accumulated; with `commutative` its two arguments may be exchanged, and
    with `in_pairs` it takes vectors of two values as well. With `in_threes` a thread's values are combined three at a
    time, two bodies one behind the other, for a target that does both at once. `by_warps` names the instruction by
    which steps of `redux` combine a register of all lanes.
    ValueError for steps that do not reduce the tiles.
    """
    current = prepared(tiles)
    bits = (len(current[0].registers) - 1).bit_length()
    # Values that are side by side stay so from fold to fold until their own bit is folded.
    beside = min(PAIRED_BIT, bits - 1) if in_pairs and bits > 1 else None
    planned = list(folds(tiles[0].layout, dim, steps, commutative))
    if in_threes and commutative:
        within = list(takewhile(lambda fold: fold.kind == collectives.REGISTERS, planned))
        current, planned = _fold_in_threes(current, within, body), planned[len(within) :]
    for fold in planned:
        match fold.kind:
            case collectives.WARPS:
                current = _warps_to_registers(b, current, fold)
            case collectives.REGISTERS:
                current = _fold_registers(b, current, fold, body, beside)
                if beside is not None:
                    beside = None if fold.position == beside else beside - (fold.position < beside)
            case collectives.REDUX:
                assert by_warps is not None  # who asks for such a step has seen to it
                current = [
                    Tile(fold.after, t.element, tuple(redux(b, r, by_warps) for r in t.registers)) for t in current
                ]
            case collectives.EXCHANGE:
                current = _fold_lanes_into_registers(b, current, fold, body)
            case _:
                current = _fold_lanes(b, current, fold, body, commutative)
    result = reduced_layout(current[0].layout, dim)
    return [Tile(result, t.element, t.registers) for t in current]


def _fold_registers(b: KernelBuilder, tiles: Sequence[Tile], fold: Fold, body: Body, beside: int | None) -> list[Tile]:
    """Fold a bit of the registers; with `beside` the results that another bit tells apart go two at a time."""
    bit, other = 1 << fold.position, 0 if beside is None else 1 << beside
    kept = [r for r in range(fold.before.in_size(REGISTER)) if not r & bit]
    made: dict[int, list[Value]] = {}
    for r in kept:
        if not other or other == bit:
            made[r] = body([t.registers[r] for t in tiles], [t.registers[r | bit] for t in tiles])
        elif not r & other:
            first, second = ([b.vector([t.registers[r | m | n] for n in (0, other)]) for t in tiles] for m in (0, bit))
            pairs = body(first, second)
            for i, n in enumerate((r, r | other)):
                made[n] = [b.extract(v, i, t.llvm_type) for v, t in zip(pairs, tiles)]
    results = [made[r] for r in kept]
    return [Tile(fold.after, t.element, tuple(values)) for t, values in zip(tiles, zip(*results))]


def _fold_in_threes(tiles: list[Tile], within: Sequence[Fold], body: Body) -> list[Tile]:
    """Fold bits of the registers all at once: of what comes together always three values, as long as there are."""
    if not within:
        return tiles
    groups = [[r] for r in range(within[0].before.in_size(REGISTER))]
    for fold in within:
        bit = 1 << fold.position
        groups = [[*groups[r], *groups[r | bit]] for r in range(len(groups)) if not r & bit]
    results = []
    for group in groups:
        values = [[t.registers[r] for t in tiles] for r in group]
        while len(values) > 1:
            first, *rest = values[:3]
            for other in rest:
                first = body(first, other)
            values = [*values[3:], first]
        results.append(values[0])
    return [Tile(within[-1].after, t.element, tuple(values)) for t, values in zip(tiles, zip(*results))]


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


def _warps_to_registers(b: KernelBuilder, tiles: Sequence[Tile], fold: Fold) -> list[Tile]:
    assert fold.handed is not None  # warps hand something out
    source, target = fold.handed
    made = hand_out(b, [Tile(source, t.element, t.registers) for t in tiles], target, fold.trips)
    return [Tile(fold.after, t.element, t.registers) for t in made]
