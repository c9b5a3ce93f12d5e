# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Agents for a loop with products that feed another one, on targets with tensor memory: attention.

    storage in tensor memory: scores, twice where there are columns for it, left operands of the second product, or in
    shared memory where there are none for them, its sums
    agent_switch
      four warps       a row to a thread, or to two; in each iteration they load the scores, compute what the second
                       product reads, store that to tensor memory, and hand on what the sums are rescaled with. Of 256
                       rows eight warps have one in each thread, and rescale the sums themselves
      four more        in each iteration they wait for the sums of the one before and rescale them in place, part by
                       part; behind the loop they load the sums, and go on (`chain_corrections` says when these are the
                       same warps)
      producer         one thread copies the tiles of each iteration, each operand's to a ring of its own
      products         one thread issues the first product of an iteration ahead of the second one of the iteration
                       before, so that scores are there when the warps come for them. Scores may be the sum of several
                       products, which are issued one behind the other

The sums are a stage of a pipeline that goes to and fro: the products' thread hands them on when its products have
ended, and gets them back rescaled. It hands them on once before the first iteration, in which they are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, TensorType, UnitAttr, f32, i1, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.atoms import tcgen05
from libtile.dialects import arith, scf
from libtile.dialects.nv_tileaa.element_types import bit_width
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.terminators import ReturnOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    IncIterOp,
    PipelineYieldOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tensor_memory import AsyncDotIntoOp, DeallocTensorOp
from libtile.dialects.nv_tileas.tiles import AllocTensorOp, CopyOp, ExtractSliceOp, ReinterpretOp
from libtile.dialects.nv_tileas.tma import FenceProxyOp
from libtile.dialects.nv_tileas.types import (
    MBARRIER,
    BufferType,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.places import ops_of, uses_of
from libtile.ir.tile_form import shape_of
from libtile.layouts import REGISTER
from libtile.layouts.parts import part_layout
from libtile.lowering.pairs import IN_PAIRS, IN_THREES, takes_pairs, takes_threes
from libtile.lowering.tileas.agents.cluster_pipelines import ALIGNMENT
from libtile.lowering.tileas.agents.consumers import check_lies
from libtile.lowering.tileas.agents.fed_steps import operand_buffer
from libtile.lowering.tileas.agents.product_turns import Parts
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.counted_loops import number_type, trips
from libtile.lowering.tileas.inserter import Inserter, array_of
from libtile.lowering.tileas.pipelines.schedule import is_zero
from libtile.lowering.tileas.tensor_memory import chain_corrections, tensor_products
from libtile.lowering.tileas.tensor_memory.tensor_products import AGENT_WARPS
from libtile.lowering.tileas.wgmma.specialize_chains import Chain, ChainProduct, Ring
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.lowering.to_tileas.types import layout_of, with_layout
from libtile.support.records import dataclass
from libtile.targets import Target

SCORES = 2
"""Results of the first product in tensor memory, where there are columns for them: one is read while the next one is
made. Of a single one the next is made when it has been read."""
MOST_SCORES = 128
"""Of a thread, all in registers at a time."""
LEFTS = 2
"""Left operands of the second product there, at most."""

Values = dict[SSAValue, SSAValue]


@dataclass(frozen=True)
class _Stages:
    """A pipeline between agents, whose stages hold one buffer."""

    type: BufferType
    pipe: SSAValue

    @property
    def storage(self) -> SSAValue:
        assert isinstance(self.pipe.owner, CreatePipelineOp)
        return self.pipe.owner.storage[0]

    @property
    def place(self) -> PipelineIteratorType:
        assert isinstance(self.pipe.type, PipelineType)
        return PipelineIteratorType(self.pipe.type)

    def start(self, at: Inserter) -> SSAValue:
        return at.value(CreateIteratorOp.make(self.pipe, results=[self.place]))

    def next(self, at: Inserter, place: SSAValue) -> SSAValue:
        return at.value(IncIterOp.make(place, results=[self.place]))

    def fill(self, at: Inserter, place: SSAValue, *, products: bool) -> tuple[Inserter, SSAValue]:
        """A producer's turn: the place in its region, to be ended by `handed_on`, and the stage."""
        token = at.value(ProducerAcquireOp.make(self.pipe, place, results=[ProducerTokenType([self.type])]))
        stage = Block(arg_types=[self.type])
        written = at.value(ProducerWriteOp.make(token, place, results=[token.type, []], regions=[Region(stage)]))
        at.add(ProducerCommitOp.make(written, after_products=products))
        return Inserter(stage, None, at.location), stage.args[0]

    def take(
        self, at: Inserter, place: SSAValue, results: Sequence[Attribute] = (), *, products: bool = False
    ) -> tuple[Inserter, SSAValue, Sequence[SSAValue]]:
        """A consumer's turn: the place in its region, to be ended by a yield of the results, the stage, and these."""
        held = ConsumerTokenType([self.type])
        token = at.value(ConsumerWaitOp.make(self.pipe, place, results=[held]))
        stage = Block(arg_types=[self.type])
        done = at.add(ConsumerReadOp.make(token, place, results=[held, list(results)], regions=[Region(stage)]))
        at.add(ConsumerReleaseOp.make(done.results[0], after_products=products))
        return Inserter(stage, None, at.location), stage.args[0], done.results[1:]


@dataclass(frozen=True)
class _Apart:
    """What warps that rescale the sums get, and the pipelines by which they do: for each tile of an iteration, and for
    results of the loop by number."""

    needed: chain_corrections.Needed
    factors: list[_Stages]
    finals: dict[int, _Stages]


class TensorChain(Chain):
    """One kernel, and its loop with products of scores, and one that these feed. Unfit where it stays as it is."""

    in_a_row = True
    two_stages = False  # tiles come in under what is between the products

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp], most: int):
        super().__init__(function, gpu, products, most)
        if self.parts is None:
            raise Unfit(self.unturned)
        leading = self.parts.leading
        if len(self.parts.trailing) != 1 or any(p.c is not q.result for p, q in zip(leading[1:], leading)):
            raise Unfit("its loop has more products than those of one sum that feeds another product")
        by_op = {p.op: p for p in self.products}
        self.firsts, self.second = [by_op[p] for p in leading], by_op[self.parts.trailing[0]]
        if any(p.a is None for p in self.firsts) or self.second.a is not None:
            raise Unfit("its loop has no product whose result is the left operand of another one")
        self.carried = self.parts.accumulators[0]
        if not is_zero(leading[0].c) or not is_zero(self.loop.iter_args[self.carried]):
            raise Unfit("its accumulators do not start with zeros")
        self._check_rescaling(self.parts)
        scores, sums = (tcgen05.result_columns(shape_of(p.op.result.type)) for p in (self.firsts[-1], self.second))
        self.left_columns = 0 if self._computed_in_shared_memory() else self._left_columns(self.second.op)
        left = tcgen05.COLUMNS - scores - sums - self.left_columns
        each = 1 << len(layout_of(self.firsts[-1].op.result).basis(REGISTER))
        if left < 0 or each > MOST_SCORES:
            raise Unfit(f"scores of {scores} columns and sums of {sums} do not fit tensor memory together")
        self.stages = min(1 + left // scores, SCORES)
        left -= (self.stages - 1) * scores
        self.lefts = min(1 + left // self.left_columns, LEFTS) if self.left_columns else 1
        self._check_layouts()

    # -- what fits --------------------------------------------------------------------------------------------------

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        return tensor_products.instruction(product, self.gpu)

    def _check_left(self, product: DotOp, atom: MmaAtomAttr) -> None:
        if bit_width(self._element(product.a)) != 16:
            raise Unfit("#A is computed, and its elements have not 16 bits")

    def _left_columns(self, product: DotOp) -> int:
        """Columns of tensor memory that the left operand of a product takes."""
        words = tcgen05.result_columns(shape_of(product.a.type))
        return words * bit_width(self._element(product.a)) // tcgen05.COLUMN_BITS

    def _computed_in_shared_memory(self) -> list[BufferType]:
        """That of the left operand that is computed, where scores and sums leave no columns of tensor memory to it."""
        product = next((p for p in self.products if p.a is None), None)
        if product is None:
            return []
        scores, sums = (tcgen05.result_columns(shape_of(v.type)) for v in (product.op.a, product.op.result))
        if scores + sums + self._left_columns(product.op) <= tcgen05.COLUMNS:
            return []
        return [operand_buffer(self.gpu, product.atom, "a", product.op.a)]

    def _check_layouts(self) -> None:
        """Products, and the left operand that is computed, lie as threads load and store them."""
        warps = self.spec.num_warps
        for product in (p.op for p in (*self.firsts, self.second)):
            check_lies(product, tcgen05.row_layout, warps, "a row in each thread")
        left = self.second.op.a
        if layout_of(left) != tcgen05.row_layout(shape_of(left.type), warps):
            raise Unfit("#A is computed, and threads do not have a row of it each")

    def _registers(self, parts: Parts | None) -> int:
        """Sums lie in tensor memory."""
        return 0

    def _limit(self) -> int:
        return self.gpu.registers_per_thread

    def _check_rescaling(self, parts: Parts) -> None:
        """What is between the sums of an iteration and the second product of the next one goes element by element."""
        product, sums = self.second.op, self.body.args[1 + self.carried]
        for value in (sums, *(r for op in parts.after for r in op.results)):
            for use in value.uses:
                if use.operation not in parts.after and not (use.operation is product and product.c is value):
                    raise Unfit("the sums of an iteration are used by more than the next one's")
        for op in parts.after:
            same = [v for v in (*op.operands, *op.results) if isinstance(v.type, TensorType) and shape_of(v.type)]
            if not is_elementwise(op) or len(op.results) != 1 or any(layout_of(v) != layout_of(sums) for v in same):
                raise Unfit("the sums of an iteration are not rescaled element by element")

    # -- the new code -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        loop, block = self.loop, self.function.body.block
        at = Inserter(block, loop, loop.location)
        for number, ring in enumerate(self.rings):
            ring.descriptor = ring.operand.descriptor(at, number)
        for ring in self.rings:
            ring.pipe = at.value(CreatePipelineOp.make(results=[ring.type], alignment=ALIGNMENT, drained=UnitAttr()))
        count = trips(at, loop)
        self._allocate(at)
        self.apart = self._hand_over(at)
        consumer, corrector, producer, issuer = (Inserter(Block(), None, loop.location) for _ in range(4))
        self._produce(producer)
        self._multiply(issuer, count)
        self._compute(consumer, corrector, count)
        agents, registers = [consumer, producer, issuer], None
        warps = array_of(self.spec.num_warps, AGENT_WARPS, AGENT_WARPS)
        if tensor_products.has_budgets(self.spec):
            warps, registers = (array_of(*numbers) for numbers in tensor_products.BUDGETS)
        if self.apart is not None:
            agents.insert(1, corrector)
            warps, registers = (array_of(*n) for n in (chain_corrections.AGENTS, chain_corrections.REGISTERS))
        at.add(
            AgentSwitchOp.make(
                regions=[Region(agent.block) for agent in agents],
                agent_warps=warps,
                agent_registers=registers,
                agent_elected=array_of(*(int(agent in (producer, issuer)) for agent in agents)),
            )
        )
        at.add(DeallocTensorOp.make(self.sums.storage))
        self._leave_out_the_loop()

    def _allocate(self, at: Inserter) -> None:
        """Storage and pipelines of what lies in tensor memory."""

        def staged(columns: int, stages: int, stage: BufferType) -> _Stages:
            seen = BufferType((stages, *stage.shape), stage.element_type, "tmem")
            type_ = (
                seen
                if tcgen05.result_columns(stage.shape) == columns
                else BufferType((1, min(stage.shape[0], tcgen05.LANES), stages * columns), f32, "tmem")
            )
            made = at.value(AllocTensorOp.make(results=[type_]))
            if type_ != seen:
                made = at.value(ReinterpretOp.make(made, results=[seen]))
            return _Stages(
                stage, at.value(CreatePipelineOp.make([made], results=[PipelineType(stages, [stage], 1, MBARRIER)]))
            )

        def result(product: DotOp) -> BufferType:
            shape = shape_of(product.result.type)
            return BufferType(shape, self._element(product.c), "tmem", LayoutAttr(tcgen05.memory_layout(shape)))

        self.scores, self.sums = (
            staged(tcgen05.result_columns(shape_of(p.op.result.type)), stages, result(p.op))
            for p, stages in ((self.firsts[-1], self.stages), (self.second, 1))
        )
        computed = self._computed_in_shared_memory()
        if computed:
            pipe = CreatePipelineOp.make(results=[PipelineType(1, computed, 1, MBARRIER)], alignment=ALIGNMENT)
            self.operands = _Stages(computed[0], at.value(pipe))
            return
        left, element = shape_of(self.second.op.a.type), self._element(self.second.op.a)
        packed = LayoutAttr(tcgen05.left_layout(left, bit_width(element)))
        self.operands = staged(self.left_columns, self.lefts, BufferType(left, element, "tmem", packed))

    @staticmethod
    def _element(value: SSAValue) -> Attribute:
        assert isinstance(value.type, TensorType)
        return value.type.element_type

    # -- the thread that issues products ----------------------------------------------------------------------------

    def _multiply(self, at: Inserter, count: SSAValue) -> None:
        number = number_type(self.loop)
        zero, one = (at.value(arith.ConstantOp(IntegerAttr(n, number))) for n in (0, 1))
        held = {r: (r.wait(at, place), place) for r in self.rings if r.once for place in [self._start(at, r)]}
        first, second = [r for p in self.firsts for r in p.moving], self.second.moving
        starts = {r: self._start(at, r) for r in (*first, *second)}
        scores, sums, operands = (s.start(at) for s in (self.scores, self.sums, self.operands))
        inside, _ = self.sums.fill(at, sums, products=True)
        inside.add(PipelineYieldOp.make())
        sums = self.sums.next(at, sums)
        self._if(
            at,
            at.value(arith.CmpiOp(count, zero, "ne")),
            lambda inner: self._issue_first(inner, held, starts, scores),
        )
        ahead = {r: r.next(at, starts[r]) for r in first}
        # Those of the first product are one ahead of those of the second one, which come before them.
        given = [*(starts[r] for r in second), operands, sums, *(ahead[r] for r in first), self.scores.next(at, scores)]
        body = Block(arg_types=[number, *(v.type for v in given)])
        each = Inserter(body, None, at.location)
        step, *places = body.args
        of_second = dict(zip(second, places))
        operands, sums, *places = places[len(second) :]
        of_first = dict(zip(first, places))
        (scores,) = places[len(first) :]
        more = each.value(arith.CmpiOp(each.value(arith.AddiOp(step, one)), count, "ult"))
        self._if(each, more, lambda inner: self._issue_first(inner, held, of_first, scores))
        adds = each.value(arith.CmpiOp(step, zero, "ne"))
        self._issue_second(each, held, of_second, operands, sums, adds)
        following = [
            *(r.next(each, of_second[r]) for r in second),
            self.operands.next(each, operands),
            self.sums.next(each, sums),
            *(r.next(each, of_first[r]) for r in first),
            self.scores.next(each, scores),
        ]
        each.add(scf.YieldOp(*following))
        at.add(scf.ForOp(zero, count, one, given, body))
        at.add(PipelineYieldOp.make())

    @staticmethod
    def _start(at: Inserter, ring: Ring) -> SSAValue:
        return at.value(CreateIteratorOp.make(ring.pipe, results=[ring.place]))

    @staticmethod
    def _if(at: Inserter, condition: SSAValue, fill: Callable[[Inserter], None]) -> None:
        block = Block()
        inner = Inserter(block, None, at.location)
        fill(inner)
        inner.add(scf.YieldOp())
        at.add(scf.IfOp(condition, [], [block]))

    def _issue_first(
        self,
        at: Inserter,
        held: Mapping[Ring, tuple[SSAValue, SSAValue]],
        places: Mapping[Ring, SSAValue],
        place: SSAValue,
    ) -> None:
        inside, result = self.scores.fill(at, place, products=True)
        for number, product in enumerate(self.firsts):
            adds = inside.value(arith.ConstantOp(IntegerAttr(int(number > 0), i1)))
            self._read(inside, product, held, places, result, adds)
        inside.add(PipelineYieldOp.make())

    def _issue_second(
        self,
        at: Inserter,
        held: Mapping[Ring, tuple[SSAValue, SSAValue]],
        places: Mapping[Ring, SSAValue],
        operand: SSAValue,
        sums: SSAValue,
        adds: SSAValue,
    ) -> None:
        inside, result = self.sums.fill(at, sums, products=True)
        within, left, _ = self.operands.take(inside, operand, products=True)
        self._read(within, self.second, held, places, result, adds, left)
        within.add(PipelineYieldOp.make())
        inside.add(PipelineYieldOp.make())

    def _read(
        self,
        at: Inserter,
        product: ChainProduct,
        held: Mapping[Ring, tuple[SSAValue, SSAValue]],
        places: Mapping[Ring, SSAValue],
        result: SSAValue,
        adds: SSAValue,
        *left: SSAValue,
    ) -> None:
        """Wait for the stages of a product's rings, issue it within them, and release those that are filled anew."""
        inner, buffers, around = at, dict[Ring, SSAValue](), []
        for ring in product.rings:
            token, place = held[ring] if ring.once else (ring.wait(inner, places[ring]), places[ring])
            stage = Block(arg_types=ring.types)
            buffers[ring] = stage.args[0]
            around.append((inner, ring, token, place, stage))
            inner = Inserter(stage, None, at.location)
        op = product.op
        given = *left, *(buffers[r] for r in product.rings), result, adds
        inner.add(
            AsyncDotIntoOp.make(*given, atom=product.atom, signedness_a=op.signedness_a, signedness_b=op.signedness_b),
            op.location,
        )
        for outer, ring, token, place, stage in reversed(around):
            Inserter(stage, None, at.location).add(PipelineYieldOp.make())
            token = outer.value(ConsumerReadOp.make(token, place, results=[token.type, []], regions=[Region(stage)]))
            if not ring.once:
                outer.add(ConsumerReleaseOp.make(token, after_products=True))

    # -- the warps that compute -------------------------------------------------------------------------------------

    def _hand_over(self, at: Inserter) -> _Apart | None:
        """The pipelines by which warps of their own get what they rescale the sums with, if they can."""
        parts = self.parts
        assert parts is not None
        found = chain_corrections.needed(self.loop, parts.after, self.carried) if parts.after else None
        if found is None or self.spec.num_warps != chain_corrections.AGENTS[0] or (self.spec.occupancy or 1) > 1:
            return None

        def staged(value: SSAValue, stages: int) -> _Stages:
            type_ = PipelineType(stages, [chain_corrections.row_buffer(value)], 1, MBARRIER)
            return _Stages(chain_corrections.row_buffer(value), at.value(CreatePipelineOp.make(results=[type_])))

        factors = [staged(value, chain_corrections.FACTORS) for value in found.tiles]
        return _Apart(found, factors, {n: staged(self.loop.results[n], 1) for n in found.finals})

    def _compute(self, at: Inserter, corrector: Inserter, count: SSAValue) -> None:
        """The warps with the scores, and those that rescale the sums where these are others."""
        loop, parts, number, apart = self.loop, self.parts, number_type(self.loop), self.apart
        assert parts is not None
        tokens: Values = {}
        for ring in self.rings:
            # Copies have ended before their products do: what their tokens order is ordered.
            if (token := ring.operand.load.result_token) is not None and not ring.once:
                tokens[token] = at.value(CreateMemTokenOp.make(results=[MemTokenType()]))
        others = [n for n in range(len(loop.results)) if n != self.carried]
        stages = [self.scores, self.operands, *([self.sums] if apart is None else apart.factors)]
        given = [*(s.start(at) for s in stages), *(loop.iter_args[n] for n in others)]
        body = Block(arg_types=[number, *(v.type for v in given)])
        each = Inserter(body, None, loop.location)
        index, *rest = body.args
        places, carried = rest[: len(stages)], rest[len(stages) :]
        scores, operands, *last_places = places
        values: Values = {**tokens, self.body.args[0]: index}
        values |= {self.body.args[1 + n]: a for n, a in zip(others, carried)}
        each.clone((*parts.early, *parts.before), values)
        result = self.firsts[-1].op.result
        inside, stage, (loaded,) = self.scores.take(each, scores, [result.type])
        inside.add(PipelineYieldOp.make([inside.value(CopyOp.make(stage, results=[result.type]))]))
        values[result] = loaded
        waiting: list[tuple[SSAValue, _Stages, SSAValue]] = []
        if apart is not None:
            waiting += zip(apart.needed.tiles, apart.factors, last_places)
        for op in self._factors_first(parts.between):
            waiting = self._give(each, waiting, values)
            each.clone([op], values)
        self._give(each, waiting, values)
        each.clone(parts.late, values)
        left = self.second.op.a
        inside, stage = self.operands.fill(each, operands, products=False)
        inside.add(CopyOp.make(values.get(left, left), stage))
        if self.operands.type.space == "shared":
            inside.add(FenceProxyOp.make(proxy="async.shared"))
        inside.add(PipelineYieldOp.make())
        if apart is None:
            self._take_sums(each, last_places[0], loop.lb, index, values)
        last = self.body.last_op
        assert last is not None
        following = [s.next(each, place) for s, place in zip(stages, places)]
        each.add(scf.YieldOp(*following, *(values.get(last.operands[n], last.operands[n]) for n in others)))
        made = scf.ForOp(loop.lb, loop.ub, loop.step, given, body)
        made.attributes.update(loop.attributes)
        at.add(made)
        behind = at if apart is None else corrector
        if apart is None:
            place: SSAValue = made.results[len(stages) - 1]
            for n, value in zip(others, made.results[len(stages) :]):
                loop.results[n].replace_all_uses_with(value)
        else:
            for n, value in zip(others, made.results[len(stages) :]):
                if n in apart.finals:
                    pipe = apart.finals[n]
                    inside, stage = pipe.fill(at, pipe.start(at), products=False)
                    inside.add(CopyOp.make(value, stage))
                    inside.add(PipelineYieldOp.make())
            place = self._correct(corrector, count, apart)
        results = tensor_products.Results(self.sums.type, self.sums.storage, self.sums.pipe)
        whole = loop.results[self.carried]
        results.read(behind, count, loop.iter_args[self.carried], whole, place)
        later = loop.next_op
        while later is not None and not isinstance(later, ReturnOp):
            op, later = later, later.next_op
            op.detach()
            behind.block.add_op(op)
        for agent in (at, corrector):
            agent.add(PipelineYieldOp.make())
            for op in ops_of(agent.block):
                if takes_pairs(op, self.gpu):
                    op.attributes[IN_PAIRS] = UnitAttr()
                if takes_threes(op, self.gpu):
                    op.attributes[IN_THREES] = UnitAttr()

    def _factors_first(self, ops: Sequence[Operation]) -> list[Operation]:
        """The ops between products, those in front that what other warps wait for comes from."""
        wanted = set[Operation]()
        work = list(self.apart.needed.tiles) if self.apart is not None else []
        while work:
            op = work.pop().owner
            if isinstance(op, Operation) and op in ops and op not in wanted:
                wanted.add(op)
                work += uses_of(op)
        return [*(op for op in ops if op in wanted), *(op for op in ops if op not in wanted)]

    @staticmethod
    def _give(
        at: Inserter, waiting: Sequence[tuple[SSAValue, _Stages, SSAValue]], values: Values
    ) -> list[tuple[SSAValue, _Stages, SSAValue]]:
        """Hand on those of the tiles that are there; the others."""
        rest = []
        for value, pipe, place in waiting:
            if value not in values:
                rest.append((value, pipe, place))
                continue
            inside, stage = pipe.fill(at, place, products=False)
            inside.add(CopyOp.make(values[value], stage))
            inside.add(PipelineYieldOp.make())
        return rest

    def _take_sums(self, at: Inserter, place: SSAValue, first: SSAValue, index: SSAValue, values: Values) -> None:
        """A turn with the sums: they are rescaled, but not in front of the first products."""
        parts = self.parts
        assert parts is not None
        inside, stage, _ = self.sums.take(at, place)
        if parts.after:
            again = inside.value(arith.CmpiOp(index, first, "ne"))
            self._if(inside, again, lambda inner: self._rescale(inner, stage, parts.after, values))
        inside.add(PipelineYieldOp.make())

    def _correct(self, at: Inserter, count: SSAValue, apart: _Apart) -> SSAValue:
        """The loop of the warps that rescale, and what they get behind it: the place of the last sums."""
        loop, number = self.loop, number_type(self.loop)
        zero, one = (at.value(arith.ConstantOp(IntegerAttr(n, number))) for n in (0, 1))
        stages = [*apart.factors, self.sums]
        given = [s.start(at) for s in stages]
        body = Block(arg_types=[number, *(v.type for v in given)])
        each = Inserter(body, None, loop.location)
        step, *places = body.args
        values: Values = {}
        for value, pipe, place in zip(apart.needed.tiles, apart.factors, places):
            values[value] = self._row(each, pipe, place, value)
        each.clone(apart.needed.ops, values)
        self._take_sums(each, places[-1], zero, step, values)
        each.add(scf.YieldOp(*(s.next(each, place) for s, place in zip(stages, places))))
        made = scf.ForOp(zero, count, one, given, body)
        at.add(made)
        for n, result in enumerate(loop.results):
            if n in apart.finals:
                result.replace_all_uses_with(self._row(at, apart.finals[n], apart.finals[n].start(at), result))
            elif isinstance(result.type, MemTokenType) and result.first_use is not None:
                result.replace_all_uses_with(at.value(CreateMemTokenOp.make(results=[MemTokenType()])))
        return made.results[len(stages) - 1]

    @staticmethod
    def _row(at: Inserter, pipe: _Stages, place: SSAValue, value: SSAValue) -> SSAValue:
        """A tile that other warps have handed on."""
        inside, stage, (made,) = pipe.take(at, place, [value.type])
        inside.add(PipelineYieldOp.make([inside.value(CopyOp.make(stage, results=[value.type]))]))
        return made

    def _rescale(self, at: Inserter, stage: SSAValue, ops: Sequence[Operation], values: Values) -> None:
        """What an iteration does to the sums of the one before, in place, part by part."""
        sums, type_ = self.body.args[1 + self.carried], self.sums.type
        layout, (rows, columns) = layout_of(sums), type_.shape
        shape = tcgen05.row_part_shape((rows, columns))
        lies = LayoutAttr(tcgen05.memory_layout(shape, columns))
        for first in range(0, columns, shape[1]):
            offsets = DenseArrayBase.from_list(i64, [0, first])
            box = BufferType(shape, type_.element_type, "tmem", lies)
            place = at.value(ExtractSliceOp.make(stage, (), results=[box], offsets=offsets))
            part = with_layout(TensorType(type_.element_type, shape), part_layout(layout, shape))
            made: Values = {sums: at.value(CopyOp.make(place, results=[part]))}
            for op in ops:
                given = [self._part(at, v, made, values, shape, offsets) for v in op.operands]
                result = op.results[0].type
                assert isinstance(result, TensorType)
                again = type(op).create(
                    operands=given,
                    result_types=[with_layout(TensorType(result.element_type, shape), part_layout(layout, shape))],
                    properties=dict(op.properties),
                    attributes=dict(op.attributes),
                )
                made[op.results[0]] = at.value(again, op.location)
            added = self.second.op.c
            at.add(CopyOp.make(made[added], place))

    @staticmethod
    def _part(
        at: Inserter, value: SSAValue, made: Values, values: Values, shape: Sequence[int], offsets: DenseArrayBase
    ) -> SSAValue:
        if value in made:
            return made[value]
        value = values.get(value, value)
        if not isinstance(value.type, TensorType) or not shape_of(value.type):
            return value
        part = with_layout(TensorType(value.type.element_type, shape), part_layout(layout_of(value), shape))
        return at.value(ExtractSliceOp.make(value, (), results=[part], offsets=offsets))
