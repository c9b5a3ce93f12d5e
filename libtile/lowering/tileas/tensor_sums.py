# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sums of a loop in tensor memory: the agents that read them and add to them, and loops with several sums.

Several products of a step are issued by one thread, one behind the other, between one wait for the step's tiles and
the commit that releases them; a tile that two products share is copied once, and waited for once. Each sum has storage
and a pipeline of its own, by which it is handed on behind the last step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, TensorType, i1
from xdsl.ir import Block, Region, SSAValue

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp, IncIterOp, PipelineYieldOp
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tensor_memory import DeallocTensorOp
from libtile.lowering.tileas import persistent, tensor_products
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.cluster_pipelines import make_pipelines
from libtile.lowering.tileas.consumers import check_warps
from libtile.lowering.tileas.counted_loops import trips
from libtile.lowering.tileas.fed_steps import FedProducts, FedSteps
from libtile.lowering.tileas.materialize import Inserter, array_of
from libtile.lowering.tileas.tensor_products import AGENT_WARPS, Results, Steps
from libtile.support.records import dataclass
from libtile.targets import Target

Fill = Callable[[Inserter], None]


@dataclass(frozen=True)
class Sums:
    """The sums of a loop, by the numbers of what it carries, where they lie in tensor memory, and the steps that add to
    them."""

    fed: FedSteps
    numbers: Sequence[int]
    results: Sequence[Results]
    steps: Steps

    def consume(self, at: Inserter, count: SSAValue | None, before: Fill | None = None) -> None:
        """What the kernel's warps do: they read the sums, behind so many steps (None: those of each tile of a loop over
        tiles), and go on behind the loop. They begin with `before`."""
        loop, outer = self.fed.loop, self.fed.outer
        if outer is None:
            assert count is not None
            if before is not None:
                before(at)
            for number, result in zip(self.numbers, self.results):
                result.read(at, count, loop.iter_args[number], loop.results[number])
            persistent.hand_on(loop, {})
            persistent.move_behind(loop, at.block)
            return

        def read(at: Inserter, places: persistent.Places) -> tuple[dict[int, SSAValue], persistent.Places]:
            count = trips(at, loop)
            for number, result, place in zip(self.numbers, self.results, places):
                result.read(at, count, loop.iter_args[number], loop.results[number], place)
            return {}, [at.value(IncIterOp.make(p, results=[r.place])) for p, r in zip(places, self.results)]

        persistent.consume(at, outer, loop, [result.start(at) for result in self.results], read)
        persistent.move_behind(outer, at.block)

    def multiply(self, at: Inserter, count: SSAValue | None) -> None:
        """What the thread does that issues products, for so many steps. It is made before `consume`, which takes over
        the loop over tiles."""
        loop, outer = self.fed.loop, self.fed.outer
        starts = [*(result.start(at) for result in self.results), self.steps.start(at)]
        if outer is None:
            assert count is not None
            tensor_products.multiply(at, self.results, self.steps, count, starts)
            return
        persistent.repeat(
            at, outer, persistent.needed(outer, loop, (), ()), starts,
            lambda at, places, values: tensor_products.multiply(
                at, self.results, self.steps, trips(at, loop, values), places
            ),
        )  # fmt: skip


class SeveralSums(FedProducts):
    """One kernel, and the loop with several products, whose sums lie in tensor memory."""

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp], most: int):
        spec = function.kernel_spec
        assert spec is not None
        self.spec = spec
        check_warps(spec)
        super().__init__(function, gpu, products)
        self.results = tensor_products.results_at_a_time([self.shape(n) for n in self.sums], spec)
        firsts = [self.product_of(number).op for number in self.sums]
        initial, wholes = ([v[number] for number in self.sums] for v in (self.loop.iter_args, self.loop.results))
        tensor_products.check_sums(firsts, initial, wholes, gpu, spec)
        kept = self.kept(self.products[0].atom.instruction.m)
        self.feeds = self.feeds_of(self.types, most, kept)

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        return tensor_products.instruction(product, self.gpu)

    def make(self) -> None:
        loop, outer, block = self.loop, self.outer, self.function.body.block
        at = Inserter(block, loop if outer is None else outer, loop.location)
        descriptors = [o.descriptor(at, number) for number, o in enumerate(self.operands)]
        feed = self.feeds.read
        (feed.pipe,) = make_pipelines(at, [(feed.type, 1)])
        consumer, producer, issuer = (Inserter(Block(), None, loop.location) for _ in range(3))
        self.produce(producer, self.feeds.filled, descriptors)
        results = []
        for number in self.sums:
            tile = loop.iter_args[number].type
            assert isinstance(tile, TensorType)
            results.append(Results.make(at, tile, 1 if outer is None else self.results))
        sums = Sums(self, self.sums, results, Steps(feed.pipe, self.types, self._issue))
        count = trips(at, loop) if outer is None else None
        sums.multiply(issuer, count)
        issuer.add(PipelineYieldOp.make())
        sums.consume(consumer, count)
        at.add(
            AgentSwitchOp.make(
                regions=[Region(agent.block) for agent in (consumer, producer, issuer)],
                agent_warps=array_of(self.spec.num_warps, AGENT_WARPS, AGENT_WARPS),
                agent_elected=array_of(0, 1, 1),
            )
        )
        for result in results:
            at.add(DeallocTensorOp.make(result.storage))
        done: scf.ForOp = loop if outer is None else outer
        done.detach()
        done.erase()
        drop_unused(block)

    def _issue(self, at: Inserter, tiles: Sequence[SSAValue], results: Sequence[SSAValue], more: SSAValue) -> None:
        """The products of a step, in order. The first that adds to a sum leaves out what was there before the loop."""
        for product in self.products:
            given = tiles[product.a], tiles[product.b]
            adds = more if product.first else at.value(arith.ConstantOp(IntegerAttr(1, i1)))
            result = results[self.sums.index(product.sum)]
            tensor_products.issue_one(at, product.op, product.atom, given, result, adds)
