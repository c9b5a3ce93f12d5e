# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scale factors that do not lie in pieces as copies to tensor memory take them: threads rearrange them.

Where the factors of a row or column lie side by side, are loaded by pointers, or are computed, the kernel's warps,
which else only wait for the result, go through the loop as well: they load and compute the factors of a step, some
steps ahead, and store them in pieces to the stage into which TMA copies the step's tiles. A stage is full when both
have come. In a loop over tiles they do so for each tile, and then read its result.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.atoms import tcgen05_factors
from libtile.dialects import arith, scf
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import LoadOp, TiledLoadOp
from libtile.dialects.nv_tileas.pipeline import (
    IncIterOp,
    PipelineYieldOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, CopyOp
from libtile.dialects.nv_tileas.tma import FenceProxyOp
from libtile.dialects.nv_tileas.types import BufferType, ProducerTokenType
from libtile.ir.tile_form import shape_of, stored_element
from libtile.layouts import LinearLayout
from libtile.layouts.renaming import permuted
from libtile.lowering.tileas.ahead import closure
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.counted_loops import number_type
from libtile.lowering.tileas.inserter import Inserter
from libtile.support.records import dataclass

AHEAD = 4
"""Steps whose factors are in registers on their way from memory."""


@dataclass(frozen=True)
class ThreadFactors:
    """The factors of A and B, which threads load in a loop."""

    loop: scf.ForOp
    ops: tuple[Operation, ...]
    """What they need of the loop's body, in order."""
    values: tuple[SSAValue, ...]
    """The factors, by line and block, and the other way round, in the layouts in which they are loaded or computed."""

    @staticmethod
    def of(loop: scf.ForOp, factors: Sequence[tuple[str, SSAValue]]) -> ThreadFactors:
        """Of factors by their names. Unfit where they depend on what is carried from step to step, or on more than is
        loaded in any order."""
        body, values = loop.body.block, list[SSAValue]()
        for _, value in factors:
            while isinstance(value.owner, ConvertLayoutOp):
                value = value.owner.source  # threads store them in the layout in which they have them
            values.append(value)
        wanted = set[Operation]()
        for (name, _), value in zip(factors, values):
            found = closure([value], body, (TiledLoadOp, LoadOp))
            if found is None:
                raise Unfit(f"{name} is computed of more than what is loaded")
            ops, carried = found
            if carried:
                raise Unfit("an address of factors depends on what the loop computes")
            for load in ops:
                if not isinstance(load, TiledLoadOp | LoadOp):
                    continue
                if load.mem_scope is not None or any(v.owner in body.ops for v in load.group("token")):
                    raise Unfit(f"{name} is ordered behind another access by a token")
            wanted |= ops
        return ThreadFactors(loop, tuple(op for op in body.ops if op in wanted), tuple(values))

    @property
    def layouts(self) -> tuple[LinearLayout, LinearLayout]:
        """Of the factors in shared memory, by line and block."""
        sfa, sfb = (shape_of(v.type) for v in self.values)
        return tcgen05_factors.shared_layout(sfa), tcgen05_factors.shared_layout((sfb[1], sfb[0]))

    @property
    def types(self) -> list[BufferType]:
        """Of the factors in a stage."""
        sfa, sfb = self.layouts
        return [
            BufferType(shape_of(value.type), stored_element(value.type), "shared", LayoutAttr(layout))
            for value, layout in zip(self.values, (sfa, permuted(sfb, (1, 0))))
        ]

    def bring(
        self, at: Inserter, pipe: SSAValue, types: Sequence[BufferType], count: SSAValue, start: SSAValue
    ) -> SSAValue:
        """The loop of the kernel's warps, from a place in the pipeline on; the place behind. Factors are the last of
        what a stage holds (`types`)."""
        zero = at.value(arith.ConstantOp(IntegerAttr(0, number_type(self.loop))))
        some, steps, nothing = at.value(arith.CmpiOp(count, zero, "ne")), Block(), Block()
        inside = Inserter(steps, None, at.location)
        inside.add(scf.YieldOp(self._steps(inside, pipe, types, count, start)))
        nothing.add_op(scf.YieldOp(start))
        return at.add(scf.IfOp(some, [start.type], [steps], [nothing])).results[0]

    def _steps(
        self, at: Inserter, pipe: SSAValue, types: Sequence[BufferType], count: SSAValue, start: SSAValue
    ) -> SSAValue:
        number, place = number_type(self.loop), start.type
        numbers = [at.value(arith.ConstantOp(IntegerAttr(n, number))) for n in range(AHEAD + 1)]
        last = at.value(arith.SubiOp(count, numbers[1]))
        given = [v for n in range(AHEAD) for v in self._load(at, numbers[n], last)]
        body = Block(arg_types=[number, place, *(v.type for v in given)])
        each = Inserter(body, None, at.location)
        step, here, *held = body.args
        ready, stage = ProducerTokenType(list(types)), Block(arg_types=list(types))
        token = each.value(ProducerAcquireOp.make(pipe, here, results=[ready]))
        inside = Inserter(stage, None, at.location)
        for value, buffer in zip(held, stage.args[len(types) - len(self.values) :]):
            inside.add(CopyOp.make(value, buffer))
        inside.add(FenceProxyOp.make(proxy="async.shared"))
        inside.add(PipelineYieldOp.make())
        token = each.value(ProducerWriteOp.make(token, here, results=[ready, []], regions=[Region(stage)]))
        each.add(ProducerCommitOp.make(token))
        following = self._load(each, each.value(arith.AddiOp(step, numbers[AHEAD])), last)
        each.add(scf.YieldOp(each.value(IncIterOp.make(here, results=[place])), *held[len(self.values) :], *following))
        return at.add(scf.ForOp(numbers[0], count, numbers[1], [start, *given], body)).results[0]

    def _load(self, at: Inserter, step: SSAValue, last: SSAValue) -> list[SSAValue]:
        """The factors of a step, or of the last one where there is none."""
        there = at.value(arith.MinUIOp(step, last))
        moved = at.value(arith.MuliOp(there, self.loop.step))
        values: dict[SSAValue, SSAValue] = {}
        values[self.loop.body.block.args[0]] = at.value(arith.AddiOp(self.loop.lb, moved))
        at.clone(self.ops, values)
        return [values[v] for v in self.values]
