# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels whose products are in loops one after the other, and whose sums lie in registers: the kernel's warps multiply
the tiles of one loop after the other by wgmma, each as a loop of its own does (`warp_steps`)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.lowering.tileas.agents import persistent
from libtile.lowering.tileas.agents.consumers import (
    OTHER_REGISTERS,
    PRODUCER_WARPS,
    consumer_registers,
    instruction,
    lies_as_left,
    tile_registers,
)
from libtile.lowering.tileas.agents.fed_steps import source_before
from libtile.lowering.tileas.agents.feeds import Feeds
from libtile.lowering.tileas.agents.loops_in_turn import AgentBlock, Counts, LoopInTurn, LoopsInTurn, Places
from libtile.lowering.tileas.agents.nests import tiles_around
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.wgmma.warp_steps import BUDGETS, WarpSteps
from libtile.lowering.tileas.wgmma.warp_sums import check_sums, issue, sum_registers
from libtile.targets import Target


class WarpPhase(LoopInTurn):
    """A loop of the kernel, whose sums lie in registers."""

    reads_registers = True

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp], warps: int):
        self.warps = warps
        super().__init__(function, gpu, products)
        check_sums(self, warps)
        feeds = Feeds.of(self.held, self.types)
        if feeds.raw is not None or feeds.made:
            raise Unfit("tiles are transposed or computed on their way to one of several loops")
        self.feeds = feeds

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        spec = self.function.kernel_spec
        assert spec is not None
        return instruction(product, self.gpu, consumer_registers(spec, self.gpu, None))

    def _lies_in_registers(self, atom: MmaAtomAttr, value: SSAValue) -> bool:
        there = source_before(value, self.loop) is not None
        return there and lies_as_left(value, atom, self.warps)

    @property
    def registers(self) -> int:
        """Of a thread, for the loop's sums and what it reads from registers, for tiles that are there before it and
        used behind it, and for those that are carried around it, unless it goes on with their sums."""
        sums = sum(sum_registers(self, number, self.warps) for number in self.sums)
        others = {*self._beside(), *self.in_registers, *tiles_around(self.outer, self.loop)}
        begun = (self.loop.iter_args[number] for number in self.sums)
        return sums + sum(map(tile_registers, others - {v for v in begun if v.has_one_use()}))

    def _beside(self) -> list[SSAValue]:
        block, begin = self.loop.parent, self.loop.next_op
        assert block is not None
        behind: set[Operation] = set()
        while begin is not None:
            behind.add(begin)
            begin = begin.next_op
        before = [*block.args]
        for op in block.ops:
            if op is self.loop:
                break
            before += op.results
        return [v for v in before if any(_in_block(use.operation, self.loop) in behind for use in v.uses)]

    def consume(self, at: Inserter, places: Places, count: SSAValue) -> None:
        assert self.feed is not None and self.feed.pipe is not None
        pipe, loop = self.feed.pipe, self.loop
        left = self._converted(at)
        steps = WarpSteps(loop, self.sums, Feeds(self.feed), len(self.products), left)

        def issue_step(at: Inserter, tiles: Sequence[SSAValue], sums: Sequence[SSAValue]) -> list[SSAValue]:
            return issue(self, at, [*tiles, *left], sums)

        ends, behind = steps.overlapped(at, count, issue_step, places[pipe])
        assert behind is not None  # of steps that begin at a place
        places[pipe] = behind
        persistent.hand_on(loop, dict(zip(self.sums, ends)))
        loop.detach()
        loop.erase()

    def _converted(self, at: Inserter) -> list[SSAValue]:
        """What products read from registers, in front of the loop."""
        values: dict[SSAValue, SSAValue] = {}
        for value in self.in_registers:
            path = list[Operation]()
            while isinstance(value.owner, ConvertLayoutOp) and value.owner.parent is self.body:
                path.insert(0, value.owner)
                value = value.owner.source
            at.clone(path, values)
        return [values.get(value, value) for value in self.in_registers]


class WarpPhases(LoopsInTurn[WarpPhase]):
    """One kernel, and its loops with products, whose sums lie in registers. Unfit where it stays as it is."""

    def _phase(self, products: Sequence[DotOp]) -> WarpPhase:
        return WarpPhase(self.function, self.gpu, products, self.spec.num_warps)

    def _check(self) -> None:
        limit = consumer_registers(self.spec, self.gpu, BUDGETS.get(self.spec.num_warps))
        taken = OTHER_REGISTERS + max(phase.registers for phase in self.phases)
        if taken > limit:
            raise Unfit(f"a thread has {limit} registers, and the sums of loops take {taken}")

    def _others(self, start: Operation, counts: Counts) -> list[AgentBlock]:
        return [(self._copying(start), PRODUCER_WARPS, 1)]

    def _consumed(self) -> list[SSAValue]:
        return self._filled()

    def _registers(self) -> Sequence[int]:
        return BUDGETS.get(self.spec.num_warps, ())


def _in_block(op: Operation, of: Operation) -> Operation | None:
    """The op of the block of another one in which an op is, itself maybe."""
    found: Operation | None = op
    while found is not None and found.parent is not of.parent:
        found = found.parent_op()
    return found
