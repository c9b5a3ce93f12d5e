# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops that compute something of each product, on targets with tensor memory: a sum of products with factors of their
own, as of 8-bit floats in blocks along k.

    storage in tensor memory for results, twice where there are columns for it
    agent_switch
      the kernel's warps   the loop without copies: where a product stood they wait for its result, load it to
                           registers, and give its storage back; then what is behind the loop
      producer             one thread copies the tiles of each step
      products             one thread issues the products of each step, one step ahead of the warps

No product adds to another one, so that each begins with zeros. A loop over tiles may be around the loop. What the warps
load themselves in a step (factors) they load some steps ahead, where it takes few registers and nothing orders it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.atoms import tcgen05
from libtile.dialects import arith, scf
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.memory import LoadOp, TiledLoadOp
from libtile.dialects.nv_tileas.pipeline import (
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    IncIterOp,
    PipelineYieldOp,
)
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tensor_memory import DeallocTensorOp
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.types import ConsumerTokenType
from libtile.ir.tile_form import shape_of
from libtile.layouts import REGISTER
from libtile.lowering.tileas.agents import nests
from libtile.lowering.tileas.agents.cluster_pipelines import make_pipelines
from libtile.lowering.tileas.agents.consumers import OTHER_REGISTERS, check_lies, check_warps
from libtile.lowering.tileas.agents.fed_steps import FedProducts, NotSpecialized, Values
from libtile.lowering.tileas.agents.made_operands import MadeOperand
from libtile.lowering.tileas.ahead import closure
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.copies.tma_operands import Unfit, check_token
from libtile.lowering.tileas.counted_loops import number_type, trips
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.schedule import is_zero
from libtile.lowering.tileas.tensor_memory import tensor_products
from libtile.lowering.tileas.tensor_memory.tensor_products import AGENT_WARPS, Results, Steps
from libtile.lowering.tileas.wgmma.warp_steps import counted
from libtile.lowering.to_tileas.types import layout_of
from libtile.support.records import dataclass
from libtile.targets import Target

AHEAD = 4
"""Steps for which what warps load themselves is on its way from memory."""
MOST_AHEAD = 4
"""Registers of a thread for what is loaded ahead for each of them."""


def warps_of_results(shapes: Sequence[Sequence[int]], spec: KernelSpecAttr, gpu: Target, around: int = 0) -> int | None:
    """How many warps a kernel needs in whose loop so many results (rows, columns) are in registers, beside a sum for
    each and so many registers for tiles `around` the loop: those that it has, if these suffice, or two groups; None
    where these do not either."""
    for warps in dict.fromkeys((spec.num_warps, 2 * tcgen05.GROUP_WARPS)):
        held = 2 * sum(m * n for m, n in shapes) // (warps * gpu.warp_size)
        if all(tcgen05.are_loaded_by(s, warps) for s in shapes) and held + OTHER_REGISTERS + around <= _registers(
            warps, spec, gpu
        ):
            return warps
    return None


def _registers(warps: int, spec: KernelSpecAttr, gpu: Target) -> int:
    """Of each thread of a kernel with so many warps beside the two that copy and issue products."""
    threads = (warps + 2 * AGENT_WARPS) * gpu.warp_size
    return min(gpu.registers_per_sm // (spec.occupancy or 1) // threads, gpu.registers_per_thread)


class TensorSteps(FedProducts):
    """One kernel, and its loop that computes something of each product. Unfit where it stays as it is."""

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp], most: int):
        super().__init__(function, gpu, products)
        spec = function.kernel_spec
        assert spec is not None
        self.spec = spec
        check_warps(spec)
        shapes = [shape_of(product.result.type) for product in products]
        if warps_of_results(shapes, spec, gpu, self.around) != spec.num_warps:
            named = " and ".join("x".join(map(str, shape)) for shape in shapes)
            raise Unfit(f"results of {named} and their sums do not fit the registers of {spec.num_warps} warps")
        for product in products:
            check_lies(product, tcgen05.register_layout, spec.num_warps, "as warps load it from tensor memory")
        self.at_a_time = tensor_products.results_at_a_time(shapes, spec)
        self.feeds = self.feeds_of(self.types, most, self.kept(self.products[0].atom.instruction.m))

    # -- what fits --------------------------------------------------------------------------------------------------

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        return tensor_products.instruction(product, self.gpu)

    def _made_instead(self, atom: MmaAtomAttr, side: str, value: SSAValue, reason: Unfit) -> MadeOperand:
        raise reason

    def _sums(self, products: Sequence[DotOp]) -> list[tuple[int, bool]]:
        for product in products:
            if not is_zero(product.c):
                raise NotSpecialized("its accumulator is neither carried by the loop nor zeros", product)
        return [(number, True) for number in range(len(products))]

    def _check_rest(self, products: Collection[Operation], sums: Collection[int], more: Collection[Operation]) -> None:
        """The kernel's warps do what else there is; copies by TMA order nothing for them."""
        for operand in self.operands:
            check_token(operand.load)
        self.ops = [op for op in self.body.ops if op not in self.renamed and op is not self.body.last_op]
        self.early = _early(self.ops, self.body)

    # -- the new code -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        loop, outer, block = self.loop, self.outer, self.function.body.block
        start = loop if outer is None else outer
        at = Inserter(block, start, loop.location)
        descriptors = [operand.descriptor(at, number) for number, operand in enumerate(self.operands)]
        (self.feeds.read.pipe,) = make_pipelines(at, [(self.feeds.read.type, self.feeds.read.ctas)])
        self.results = [self._storage(at, product.op) for product in self.products]
        count = trips(at, loop) if outer is None else None
        consumer, producer, issuer = (Inserter(Block(), None, loop.location) for _ in range(3))
        self.produce(producer, self.feeds.filled, descriptors)
        self._multiply(issuer, count)
        self._consume(consumer)
        at.add(tensor_products.agents(self.spec.num_warps, consumer.block, producer.block, issuer.block))
        for result in self.results:
            at.add(DeallocTensorOp.make(result.storage))
        start.detach()
        start.erase()
        drop_unused(block)

    def _storage(self, at: Inserter, product: DotOp) -> Results:
        tile = product.result.type
        assert isinstance(tile, TensorType)
        return Results.make(at, tile, self.at_a_time)

    # -- the thread that issues products ----------------------------------------------------------------------------

    def _multiply(self, at: Inserter, count: SSAValue | None) -> None:
        """It is made before `_consume`, which takes over the loop over tiles."""
        pipe = self.feeds.read.pipe
        assert pipe is not None
        steps = Steps(pipe, self.types, self._issue)
        starts = [*(result.start(at) for result in self.results), steps.start(at)]
        if count is not None:
            self._all_steps(at, steps, count, starts)
        else:
            assert self.outer is not None
            nests.repeat(
                at, self.outer, self.loop, nests.needed(self.outer, self.loop, (), ()), starts,
                lambda at, places, values: self._all_steps(at, steps, trips(at, self.loop, values), places),
            )  # fmt: skip
        at.add(PipelineYieldOp.make())

    def _issue(self, at: Inserter, tiles: Sequence[SSAValue], results: Sequence[SSAValue], more: SSAValue) -> None:
        for product, result in zip(self.products, results, strict=True):
            given = tiles[product.a], tiles[product.b]
            tensor_products.issue_one(at, product.op, product.atom, given, result, more)

    def _all_steps(self, at: Inserter, steps: Steps, count: SSAValue, places: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """So many steps, each with results of its own; the places behind them."""
        number = number_type(self.loop)
        zero, one = (at.value(arith.ConstantOp(IntegerAttr(n, number))) for n in (0, 1))
        body = Block(arg_types=[number, *(place.type for place in places)])
        each = Inserter(body, None, at.location)
        *of_results, place = body.args[1:]

        def fill(inside: Inserter, stages: Sequence[SSAValue]) -> SSAValue:
            never = inside.value(arith.ConstantOp(IntegerAttr(0, i1)))
            return tensor_products.multiply_step(inside, steps, place, stages, never)

        each.add(scf.YieldOp(*tensor_products.hand_over(each, self.results, of_results, fill)))
        return at.add(scf.ForOp(zero, count, one, places, body)).results

    # -- the warps that compute -------------------------------------------------------------------------------------

    def _consume(self, at: Inserter) -> None:
        self.consume_from(at, [result.start(at) for result in self.results], self._steps)

    def _steps(self, at: Inserter, places: Sequence[SSAValue]) -> tuple[dict[int, SSAValue], Sequence[SSAValue]]:
        """The loop without copies, from places of results on: what it gives, by number, and the places behind."""
        loop, number = self.loop, number_type(self.loop)
        count = trips(at, loop)
        given = [*loop.iter_args, *places]
        if not self.early.loads:
            ends = counted(at, loop, 0, count, given, lambda each, values: self._turn(each, values, None))
        else:
            steps, nothing = Block(), Block(ops=[scf.YieldOp(*given)])
            inside = Inserter(steps, None, loop.location)
            last = inside.value(arith.SubiOp(count, inside.value(arith.ConstantOp(IntegerAttr(1, number)))))
            first = (inside.value(arith.ConstantOp(IntegerAttr(n, number))) for n in range(AHEAD))
            held = [v for step in first for v in self._load(inside, step, last)]
            made = counted(inside, loop, 0, count, [*given, *held], lambda each, values: self._turn(each, values, last))
            inside.add(scf.YieldOp(*made[: len(given)]))
            some = at.value(arith.CmpiOp(count, at.value(arith.ConstantOp(IntegerAttr(0, number))), "ne"))
            ends = at.add(scf.IfOp(some, [v.type for v in given], [steps], [nothing])).results
        return dict(enumerate(ends[: len(loop.results)])), ends[len(loop.results) :]

    def _turn(self, each: Inserter, given: Sequence[SSAValue], last: SSAValue | None) -> list[SSAValue]:
        """A step: of what is carried, places, and what was loaded ahead, if steps up to the `last` one do that."""
        loop, number = self.loop, number_type(self.loop)
        step, carried = each.block.args[0], len(loop.iter_args)
        here, held = given[carried : carried + len(self.results)], given[carried + len(self.results) :]
        values: Values = dict(zip(self.body.args[1:], given))
        values[self.body.args[0]] = self._index(each, step)
        for operand in self.operands:
            # Copies have ended before their products do: what their tokens order is ordered.
            if (token := operand.load.result_token) is not None:
                values[token] = each.value(CreateMemTokenOp.make(results=[MemTokenType()]))
        loads = self.early.loads
        values |= {load.value: value for load, value in zip(loads, held)}
        following: list[SSAValue] = []
        if last is not None:
            later = each.value(arith.AddiOp(step, each.value(arith.ConstantOp(IntegerAttr(AHEAD, number)))))
            following = [*held[len(loads) :], *self._load(each, later, last)]
        by_op = {product.op: n for n, product in enumerate(self.products)}
        for op in self.ops:
            if isinstance(op, DotOp) and op in by_op:
                n = by_op[op]
                values[op.result] = self._loaded(each, self.results[n], here[n], op)
            elif op not in loads:
                each.clone([op], values)
        end = self.body.last_op
        assert end is not None
        behind = [each.value(IncIterOp.make(p, results=[p.type])) for p in here]
        return [*(values.get(v, v) for v in end.operands), *behind, *following]

    def _index(self, at: Inserter, step: SSAValue) -> SSAValue:
        """The loop's counter in the step of a number."""
        return at.value(arith.AddiOp(self.loop.lb, at.value(arith.MuliOp(step, self.loop.step))))

    def _load(self, at: Inserter, step: SSAValue, last: SSAValue) -> list[SSAValue]:
        """What is loaded ahead for a step, or for the last one where there is none of its number."""
        values: Values = {self.body.args[0]: self._index(at, at.value(arith.MinUIOp(step, last)))}
        at.clone(self.early.ops, values)
        return [values[load.value] for load in self.early.loads]

    @staticmethod
    def _loaded(at: Inserter, result: Results, place: SSAValue, product: DotOp) -> SSAValue:
        """Wait for a product's result, load it to registers, and give its storage back."""
        held, tile = ConsumerTokenType([result.type]), product.result.type
        token = at.value(ConsumerWaitOp.make(result.pipe, place, results=[held]), product.location)
        stage = Block(arg_types=[result.type])
        inside = Inserter(stage, None, at.location)
        inside.add(PipelineYieldOp.make([inside.value(CopyOp.make(stage.args[0], results=[tile]))]))
        done = at.add(ConsumerReadOp.make(token, place, results=[held, [tile]], regions=[Region(stage)]))
        at.add(ConsumerReleaseOp.make(done.results[0]))
        return done.results[1]


@dataclass(frozen=True)
class _Early:
    """What warps load some steps ahead, and the ops of the loop's body that it takes, in order."""

    loads: tuple[TiledLoadOp | LoadOp, ...]
    ops: tuple[Operation, ...]


def _early(ops: Sequence[Operation], body: Block) -> _Early:
    """The loads of a loop's body whose addresses depend on nothing but its counter, and that no token orders, where
    what they give takes few registers."""
    loads, wanted, words = list[TiledLoadOp | LoadOp](), set[Operation](), 0
    for op in ops:
        if not isinstance(op, TiledLoadOp | LoadOp) or op.mem_scope is not None:
            continue
        token = op.result_token
        if (token is not None and token.first_use is not None) or any(v.owner in ops for v in op.group("token")):
            continue
        found = closure([v for v in op.operands if not isinstance(v.type, MemTokenType)], body)
        each = layout_of(op.value).in_size(REGISTER)
        if found is None or found[1] or words + each > MOST_AHEAD:
            continue
        words += each
        loads.append(op)
        wanted |= {op, *found[0]}
    return _Early(tuple(loads), tuple(op for op in ops if op in wanted))
