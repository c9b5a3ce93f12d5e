# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels whose products are in loops one after the other, or in no loop, and whose sums lie in tensor memory.

    kernel's warps   the program as it is; in place of each loop they wait for its sums. What products of a later loop
                     read of what the program has computed, they bring to shared memory in front of that loop
    producer         one thread copies the tiles of one loop after the other
    makers           a warpgroup, where a loop computes operands of tiles that it loads (`made_operands`)
    products         one thread issues the products of one loop after the other

What they have in common with others is in `loops_in_turn`.

Several products of a step are issued one behind the other, between one wait for the step's tiles and the commit that
releases them; a tile that two products share is copied once, and waited for once. Each sum has storage and a pipeline
of its own, by which it is handed on behind the last step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects.builtin import IntegerAttr, TensorType, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.dialects import arith
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.pipeline import (
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreatePipelineOp,
    PipelineYieldOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tensor_memory import DeallocTensorOp
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.tma import FenceProxyOp
from libtile.dialects.nv_tileas.types import (
    MBARRIER,
    ConsumerTokenType,
    PipelineType,
    ProducerTokenType,
)
from libtile.lowering.tileas.agents import nests, persistent
from libtile.lowering.tileas.agents.cluster_pipelines import ALIGNMENT
from libtile.lowering.tileas.agents.loops_in_turn import (
    AgentBlock,
    Counts,
    LoopInTurn,
    LoopsInTurn,
    Places,
    Values,
    following,
)
from libtile.lowering.tileas.agents.maker_layouts import MAKERS
from libtile.lowering.tileas.counted_loops import trips
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.tensor_memory import tensor_products
from libtile.lowering.tileas.tensor_memory.tensor_products import AGENT_WARPS, Results, Steps
from libtile.targets import Target


class Phase(LoopInTurn):
    """A loop of the kernel, whose sums lie in tensor memory."""

    brings = True

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp]):
        super().__init__(function, gpu, products)
        self.pipes: list[SSAValue] = []
        """Of the tiles that are brought."""
        self.results: list[Results] = []

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        return tensor_products.instruction(product, self.gpu)

    def issue(self, at: Inserter, tiles: Sequence[SSAValue], results: Sequence[SSAValue], more: SSAValue) -> None:
        """The products of a step, in order. The first that adds to a sum leaves out what was there before the loop."""
        assert self.feed is not None
        self.feed.fence(at)
        for product in self.products:
            given = tiles[product.a], tiles[product.b]
            adds = more if product.first else at.value(arith.ConstantOp(IntegerAttr(1, i1)))
            result = results[self.sums.index(product.sum)]
            tensor_products.issue_one(at, product.op, product.atom, given, result, adds)

    def multiply(self, at: Inserter, places: Places, count: SSAValue) -> None:
        """What the thread does that issues products, for so many steps; it waits for what is brought first."""
        pipes = [result.pipe for result in self.results]
        steps = self.feed.pipe if self.feed is not None else None
        assert steps is not None
        behind = tensor_products.hand_over(
            at, self.results, [places[p] for p in pipes],
            lambda inside, stages: self._multiply(inside, stages, places, count, []),
        )  # fmt: skip
        places.update(zip([*pipes, steps], behind))
        for pipe in self.pipes:
            places[pipe] = following(at, places[pipe])

    def _multiply(
        self, at: Inserter, results: Sequence[SSAValue], places: Places, count: SSAValue, brought: list[SSAValue]
    ) -> SSAValue:
        """The steps, within what reads the tiles that are brought, all within the results' stages: what signals that
        the tiles are read is committed in front of what hands the results on, for which somebody waits at the end."""
        assert self.feed is not None and self.feed.pipe is not None
        first = places[self.feed.pipe]
        if len(brought) == len(self.pipes):

            def issue(at: Inserter, tiles: Sequence[SSAValue], results: Sequence[SSAValue], more: SSAValue) -> None:
                self.issue(at, [*tiles, *brought], results, more)

            return tensor_products.multiply_steps(at, results, Steps(self.feed.pipe, self.types, issue), count, first)
        pipe, type_ = self.pipes[len(brought)], self.brought[len(brought)].type
        held = ConsumerTokenType([type_])
        token = at.value(ConsumerWaitOp.make(pipe, places[pipe], results=[held]))
        stage = Block(arg_types=[type_])
        inside = Inserter(stage, None, at.location)
        behind = self._multiply(inside, results, places, count, [*brought, stage.args[0]])
        inside.add(PipelineYieldOp.make([behind]))
        read = at.add(ConsumerReadOp.make(token, places[pipe], results=[held, [behind.type]], regions=[Region(stage)]))
        at.add(ConsumerReleaseOp.make(read.results[0], after_products=True))
        return read.results[1]

    def consume(self, at: Inserter, places: Places, count: SSAValue) -> None:
        """What the kernel's warps do in place of the loop: they bring tiles, and get the sums."""
        loop = self.loop
        for tile, pipe in zip(self.brought, self.pipes):
            ready, stage = ProducerTokenType([tile.type]), Block(arg_types=[tile.type])
            token = at.value(ProducerAcquireOp.make(pipe, places[pipe], results=[ready]))
            inside = Inserter(stage, None, at.location)
            inside.add(CopyOp.make(tile.value, stage.args[0]))
            inside.add(FenceProxyOp.make(proxy="async.shared"))
            inside.add(PipelineYieldOp.make())
            write = ProducerWriteOp.make(token, places[pipe], results=[ready, []], regions=[Region(stage)])
            at.add(ProducerCommitOp.make(at.value(write)))
            places[pipe] = following(at, places[pipe])
        for number, result in zip(self.sums, self.results):
            result.read(at, count, loop.iter_args[number], loop.results[number], places[result.pipe])
            places[result.pipe] = following(at, places[result.pipe])
        persistent.hand_on(loop, {})
        loop.detach()
        loop.erase()


class Phases(LoopsInTurn[Phase]):
    """One kernel, and its loops with products, whose sums lie in tensor memory. Unfit where it stays as it is."""

    def _phase(self, products: Sequence[DotOp]) -> Phase:
        return Phase(self.function, self.gpu, products)

    def _check(self) -> None:
        self.results = tensor_products.results_at_a_time([p.shape(n) for p in self.phases for n in p.sums], self.spec)
        self.budgets = False
        for phase in self.phases:
            firsts = [phase.product_of(number).op for number in phase.sums]
            initial, wholes = ([v[n] for n in phase.sums] for v in (phase.loop.iter_args, phase.loop.results))
            loaded = tensor_products.check_sums(firsts, initial, wholes, self.gpu, self.spec, phase.around)
            self.budgets |= tensor_products.needs_budgets(self.spec, self.gpu, loaded, phase.around)
        if any(phase.made or not phase.operands for phase in self.phases):
            self.budgets = False

    # -- the new code -----------------------------------------------------------------------------------------------

    def _others(self, start: Operation, counts: Counts) -> list[AgentBlock]:
        issuer, outer, agents = Inserter(Block(), None, start.location), self.outer, list[AgentBlock]()
        if any(phase.operands for phase in self.phases):
            agents.append((self._copying(start), AGENT_WARPS, 1))
        bounds = [] if outer is None else [nests.needed(outer, p.loop, (), ()) for p in self.phases]
        self._agent(issuer, [*self._filled(), *self._consumed()], bounds, partial(self._multiply, counts))
        agents.append((issuer, tensor_products.BUDGETS[0][-1] if self.budgets else AGENT_WARPS, 1))
        if any(phase.made for phase in self.phases):
            makers = Inserter(Block(), None, start.location)
            self._agent(makers, self._filled(), [p.given_tiles for p in self.phases], self._make)
            agents.append((makers, MAKERS, 0))
        return agents

    def _registers(self) -> Sequence[int]:
        return tensor_products.BUDGETS[1] if self.budgets else ()

    def _end(self, at: Inserter) -> None:
        for phase in self.phases:
            for result in phase.results:
                at.add(DeallocTensorOp.make(result.storage))

    def _make_pipelines(self, at: Inserter) -> None:
        """Storage of the sums, and pipelines of these and of what is brought, as well."""
        super()._make_pipelines(at)
        for phase in self.phases:
            for tile in phase.brought:
                type_ = PipelineType(1, [tile.type], 1, MBARRIER)
                phase.pipes.append(at.value(CreatePipelineOp.make(results=[type_], alignment=ALIGNMENT)))
            for n in phase.sums:
                sum_ = phase.loop.iter_args[n].type
                assert isinstance(sum_, TensorType)
                phase.results.append(Results.make(at, sum_, 1 if self.outer is None else self.results))

    def _consumed(self) -> list[SSAValue]:
        """Those between the kernel's warps and the thread that issues products."""
        return [p for phase in self.phases for p in (*(r.pipe for r in phase.results), *phase.pipes)]

    def _multiply(self, counts: Counts, at: Inserter, number: int, places: Places, values: Values) -> None:
        phase, count = self.phases[number], counts[number]
        phase.multiply(at, places, trips(at, phase.loop, values) if count is None else count)
