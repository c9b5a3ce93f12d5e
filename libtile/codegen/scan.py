# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inclusive scans along one dimension with any associative body (Tile IR specification, "scan").

The bits of the index along the dimension are taken from the lowest up, in runs of one kind (register, lane, warp).
After a run every block of neighbours that its bits span is scanned by itself, and every thread has the block's total.
The next run joins 2**n such blocks: the totals are scanned (in a thread, by shuffles over the lanes, or from a table of
all warps' totals), and each block's elements are combined with what the blocks before it give.

A reverse scan is the same with the bits of the index complemented, that is with registers, lanes and warps along the
dimension renumbered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.convert_layout import hand_out
from libtile.codegen.llvm_types import I32
from libtile.codegen.reduce import Body, prepared, shuffle_value
from libtile.codegen.tile import Tile, linear_of_bits
from libtile.layouts.collectives import LANES, REGISTERS, WARPS, Run, Step, runs
from libtile.layouts.registers import representatives, unique_registers

Values = list[Value]


def scan(
    b: KernelBuilder, tiles: Sequence[Tile], dim: int, steps: tuple[Step, ...], body: Body, *, reverse: bool = False
) -> list[Tile]:
    """Scan tiles of one unit layout along a dimension by steps, from the low index or, in reverse, from the high one;
    the results have the same layout. All threads of the block must come here.

    The body gets (accumulated, next); the first element of every line stays as it is. ValueError for steps that do not
    scan the tiles.
    """
    layout = tiles[0].layout
    made = _Scan(b, prepared(tiles), runs(layout, dim, steps), body, reverse).run()
    position = {r: i for i, r in enumerate(unique_registers(layout))}
    return [Tile(layout, t.element, tuple(t.registers[position[r]] for r in representatives(layout))) for t in made]


class _Scan:
    """One scan: `values[r]` and `totals[r]` (for registers r whose bits of finished runs are 0) list the operands'."""

    def __init__(self, b: KernelBuilder, tiles: Sequence[Tile], steps: Sequence[Run], body: Body, reverse: bool):
        self.b, self.tiles, self.body, self.reverse = b, tiles, body, reverse
        self.values: list[Values] = [list(v) for v in zip(*(t.registers for t in tiles))]
        self.totals: dict[int, Values] = dict(enumerate(self.values))
        self.runs = steps
        self.done_registers = 0
        self.done_bits = 0

    def run(self) -> list[Tile]:
        steps = {REGISTERS: self._registers, LANES: self._lanes, WARPS: self._warps}
        for run in self.runs:
            steps[run.kind](run)
            self.done_bits += len(run.positions)
        return [t.with_registers([v[i] for v in self.values]) for i, t in enumerate(self.tiles)]

    # -- helpers ------------------------------------------------------------------------------------------------

    def _block(self, base: int) -> Iterator[int]:
        """The registers of a block: `base` with all settings of the finished register bits."""
        for r in range(len(self.values)):
            if r & ~self.done_registers == base:
                yield r

    def _choose(self, condition: Value, first: Values, second: Values) -> Values:
        return [self.b.select(condition, x, y) for x, y in zip(first, second)]

    def _apply(self, base: int, prefix: Values, condition: Value | None = None) -> None:
        """Combine a block's elements with what comes before it, where the condition holds."""
        for r in self._block(base):
            made = self.body(prefix, self.values[r])
            self.values[r] = made if condition is None else self._choose(condition, made, self.values[r])

    @property
    def _single(self) -> bool:
        """Whether blocks are still single elements."""
        return self.done_bits == 0

    # -- runs of each kind --------------------------------------------------------------------------------------

    def _registers(self, run: Run) -> None:
        flip = run.mask if self.reverse else 0
        totals = {}
        for base in [r for r in self.totals if not r & run.mask]:
            running = self.totals[base | flip]
            for number in range(1, run.count):
                block = base | (run.spread(number) ^ flip)
                total = self.totals[block]
                self._apply(block, running)
                running = self.values[block] if self._single else self.body(running, total)
            totals[base] = running
        self.totals = totals
        self.done_registers |= run.mask

    def _lanes(self, run: Run) -> None:
        b = self.b
        flip = integer(I32, run.mask if self.reverse else 0)
        lane = b.xor(b.lane(), flip)
        number = linear_of_bits(b, lane, _columns({p: 1 << k for k, p in enumerate(run.positions)}))
        not_first = b.compare("ne", number, integer(I32, 0))
        for base, total in self.totals.items():
            inclusive = total
            for k, position in enumerate(run.positions):
                lower = sum(1 << p for p in run.positions[:k])
                source = b.and_(b.or_(lane, integer(I32, lower)), integer(I32, ~(1 << position) & 31))
                before = self._from_lane(inclusive, b.xor(source, flip))
                upper = b.compare("ne", b.and_(lane, integer(I32, 1 << position)), integer(I32, 0))
                inclusive = self._choose(upper, self.body(before, inclusive), inclusive)
            if self._single:
                self.values[base] = inclusive
            else:
                previous = b.binary("sub", number, integer(I32, 1))
                place = linear_of_bits(b, previous, [1 << p for p in run.positions])
                others = b.and_(lane, integer(I32, ~run.mask & 31))
                prefix = self._from_lane(inclusive, b.xor(b.or_(others, place), flip))
                self._apply(base, prefix, not_first)
            last = b.xor(b.or_(lane, integer(I32, run.mask)), flip)
            self.totals[base] = self._from_lane(inclusive, last)

    def _from_lane(self, values: Values, source: Value) -> Values:
        return [shuffle_value(self.b, v, source) for v in values]

    def _warps(self, run: Run) -> None:
        b = self.b
        flip = run.mask if self.reverse else 0
        warp = b.xor(b.warp(), integer(I32, flip))
        number = linear_of_bits(b, warp, _columns({p: 1 << k for k, p in enumerate(run.positions)}))
        bases = sorted(self.totals)
        table = self._everyones_totals(run, bases)
        for i, base in enumerate(bases):
            # Appended registers count the warps' blocks in the order of the index.
            blocks = [table[i + len(bases) * (n ^ (run.count - 1 if flip else 0))] for n in range(run.count)]
            prefix = running = blocks[0]
            for n in range(1, run.count):
                if n > 1:
                    here = b.compare("eq", number, integer(I32, n))
                    prefix = self._choose(here, running, prefix)
                running = self.body(running, blocks[n])
            self._apply(base, prefix, b.compare("ne", number, integer(I32, 0)))
            self.totals[base] = running

    def _everyones_totals(self, run: Run, bases: Sequence[int]) -> list[Values]:
        """The totals of all warps of a run in every warp: register i + len(bases) * block."""
        assert run.handed is not None  # warps hand something out
        source, target = run.handed
        tiles = [
            Tile(source, t.element, tuple(self.totals[base][i] for base in bases)) for i, t in enumerate(self.tiles)
        ]
        made = hand_out(self.b, tiles, target, run.trips)
        return [list(v) for v in zip(*(t.registers for t in made))]


def _columns(values: dict[int, int]) -> list[int]:
    """Values at the bits of a number, 0 where none is given."""
    return [values.get(i, 0) for i in range(max(values) + 1)]
