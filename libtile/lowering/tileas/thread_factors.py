# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scale factors that do not lie in pieces as copies to tensor memory take them: threads rearrange them.

Where the factors of a row or column lie side by side, the kernel's warps, which else only wait for the result, go
through the loop as well: they load the factors of a step, some steps ahead, and store them in pieces to the stage into
which TMA copies the step's tiles. A stage is full when both have come.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.atoms import tcgen05_factors
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.pipeline import (
    CreateIteratorOp,
    IncIterOp,
    PipelineYieldOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, CopyOp
from libtile.dialects.nv_tileas.tma import FenceProxyOp
from libtile.dialects.nv_tileas.types import BufferType, PipelineIteratorType, ProducerTokenType
from libtile.ir.tile_form import shape_of, stored_element
from libtile.layouts import LinearLayout
from libtile.layouts.renaming import permuted
from libtile.lowering.tileas.ahead import computed_ahead
from libtile.lowering.tileas.counted_loops import number_type
from libtile.lowering.tileas.materialize import Inserter
from libtile.lowering.tileas.tma_operands import Unfit
from libtile.support.records import dataclass

AHEAD = 4
"""Steps whose factors are in registers on their way from memory."""


@dataclass(frozen=True)
class ThreadFactors:
    """The factors of A and B, which threads load in a loop."""

    loop: scf.ForOp
    loads: tuple[TiledLoadOp, ...]
    ops: tuple[Operation, ...]
    """What they need of the loop's body, in order, and the loads."""
    values: tuple[SSAValue, ...]
    """The factors, by line and block, and the other way round, in the layouts in which they are loaded."""

    @staticmethod
    def of(loop: scf.ForOp, found: Sequence[tuple[str, TiledLoadOp, Sequence[Operation]]]) -> ThreadFactors:
        """Of factors by their names, their loads, and the ops behind these; Unfit where addresses are carried from step
        to step, or something else is converted than what is multiplied."""
        body, loads = loop.body.block, tuple(load for _, load, _ in found)
        ahead = computed_ahead(loads, body)
        if ahead is None or ahead.carried:
            raise Unfit("an address of factors depends on what the loop computes")
        wanted, values = {*ahead.ops, *loads}, []
        for name, load, ops in found:
            if any(v.owner in body.ops for v in load.group("token")):
                raise Unfit(f"{name} is ordered behind another access by a token")
            before = [op for op in ops if not isinstance(op, ConvertLayoutOp)]
            if any(isinstance(op, ConvertLayoutOp) for op in ops[: len(before)]):
                raise Unfit(f"{name} is converted before it is renamed")
            wanted |= set(before)
            values.append(before[-1].results[0] if before else load.value)
        return ThreadFactors(loop, loads, tuple(op for op in body.ops if op in wanted), tuple(values))

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

    def bring(self, at: Inserter, pipe: SSAValue, types: Sequence[BufferType], count: SSAValue) -> None:
        """The loop of the kernel's warps; factors are the last of what a stage holds (`types`)."""
        zero = at.value(arith.ConstantOp(IntegerAttr(0, number_type(self.loop))))
        some, block = at.value(arith.CmpiOp(count, zero, "ne")), Block()
        inside = Inserter(block, None, at.location)
        self._steps(inside, pipe, types, count)
        inside.add(scf.YieldOp())
        at.add(scf.IfOp(some, [], [block]))

    def _steps(self, at: Inserter, pipe: SSAValue, types: Sequence[BufferType], count: SSAValue) -> None:
        number, place = number_type(self.loop), PipelineIteratorType(pipe.type)
        numbers = [at.value(arith.ConstantOp(IntegerAttr(n, number))) for n in range(AHEAD + 1)]
        last = at.value(arith.SubiOp(count, numbers[1]))
        given = [v for n in range(AHEAD) for v in self._load(at, numbers[n], last)]
        start = at.value(CreateIteratorOp.make(pipe, results=[place]))
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
        made = scf.ForOp(numbers[0], count, numbers[1], [start, *given], body)
        at.add(made)

    def _load(self, at: Inserter, step: SSAValue, last: SSAValue) -> list[SSAValue]:
        """The factors of a step, or of the last one where there is none."""
        there = at.value(arith.MinUIOp(step, last))
        moved = at.value(arith.MuliOp(there, self.loop.step))
        values: dict[SSAValue, SSAValue] = {}
        values[self.loop.body.block.args[0]] = at.value(arith.AddiOp(self.loop.lb, moved))
        at.clone(self.ops, values)
        return [values[v] for v in self.values]
