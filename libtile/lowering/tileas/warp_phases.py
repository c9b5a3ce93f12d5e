# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels whose products are in loops one after the other, and whose sums lie in registers: the kernel's warps multiply
the tiles of one loop after the other by wgmma, each as a loop of its own does (`warp_steps`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import Operation, SSAValue

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.products import DotOp
from libtile.lowering.tileas import persistent
from libtile.lowering.tileas.consumers import (
    OTHER_REGISTERS,
    PRODUCER_WARPS,
    consumer_registers,
    instruction,
    tile_registers,
)
from libtile.lowering.tileas.feeds import Feeds
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.loops_in_turn import AgentBlock, Counts, LoopInTurn, LoopsInTurn, Places
from libtile.lowering.tileas.tma_operands import Unfit
from libtile.lowering.tileas.warp_steps import BUDGETS, WarpSteps
from libtile.lowering.tileas.warp_sums import check_sums, issue, sum_registers
from libtile.targets import Target


class WarpPhase(LoopInTurn):
    """A loop of the kernel, whose sums lie in registers."""

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp], warps: int):
        super().__init__(function, gpu, products)
        self.warps = warps
        check_sums(self, warps)
        feeds = Feeds.of(self.held, self.types)
        if feeds.raw is not None or feeds.made:
            raise Unfit("tiles are transposed or computed on their way to one of several loops")
        self.feeds = feeds

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        return instruction(product, self.gpu)

    @property
    def registers(self) -> int:
        """Of a thread, for the loop's sums, and for tiles that are there before it and used behind it."""
        sums = sum(sum_registers(self, number, self.warps) for number in self.sums)
        return sums + sum(map(tile_registers, self._beside()))

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
        steps = WarpSteps(loop, self.sums, Feeds(self.feed), len(self.products))
        ends, behind = steps.overlapped(at, count, partial(issue, self), places[pipe])
        assert behind is not None  # of steps that begin at a place
        places[pipe] = behind
        persistent.hand_on(loop, dict(zip(self.sums, ends)))
        loop.detach()
        loop.erase()


class WarpPhases(LoopsInTurn[WarpPhase]):
    """One kernel, and its loops with products, whose sums lie in registers. Unfit where it stays as it is."""

    def _phase(self, products: Sequence[DotOp]) -> WarpPhase:
        return WarpPhase(self.function, self.gpu, products, self.spec.num_warps)

    def _check(self) -> None:
        limit = consumer_registers(self.spec, self.gpu, BUDGETS.get(self.spec.num_warps))
        taken = OTHER_REGISTERS + max(phase.registers + phase.around for phase in self.phases)
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
