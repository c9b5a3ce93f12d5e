# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A loop with one product, parted into a producer that copies its operands and consumers that multiply them.

What fits is decided by looking at the loop (`ProductLoop`); then the agents are made: the consumers' steps, and the
loop once more for the producer, with copies in place of products. See `specialize`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i32
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from libtile.atoms import tcgen05, wgmma
from libtile.dialects.nv_tileaa.functions import FuncOp, GetCtaRankOp
from libtile.dialects.nv_tileaa.terminators import ReturnOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.async_products import AsyncDotOp, WaitDotOp
from libtile.dialects.nv_tileas.attributes import TCGEN05, MmaAtomAttr
from libtile.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    IncIterOp,
    PipelineYieldOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.dialects.nv_tileas.tensor_memory import DeallocTensorOp
from libtile.dialects.nv_tileas.tiles import ClusterBarrierOp, ConvertLayoutOp
from libtile.dialects.nv_tileas.types import (
    MBARRIER,
    BufferType,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.tile_form import shape_of
from libtile.layouts.shared_access import PIECE_BYTES
from libtile.lowering.hints import CLUSTER
from libtile.lowering.split_over_ctas import CTAS, is_same_in_cluster
from libtile.lowering.tileas import persistent, promoted, scaled_products, staging, tensor_products
from libtile.lowering.tileas.ahead import Ahead, computed_ahead
from libtile.lowering.tileas.cleanup import drop_unused, is_pure
from libtile.lowering.tileas.cluster_pipelines import ALIGNMENT, end_agents, make_pipelines
from libtile.lowering.tileas.consumers import (
    MAX_ACCUMULATORS,
    OTHER_REGISTERS,
    PRODUCER_WARPS,
    check_accumulator,
    check_warps,
    consumer_registers,
    instruction,
    is_promoted,
)
from libtile.lowering.tileas.counted_loops import known_trips, number_type, trips
from libtile.lowering.tileas.materialize import Inserter, array_of
from libtile.lowering.tileas.operand_paths import operand_path
from libtile.lowering.tileas.scaled_products import ScaledOperands
from libtile.lowering.tileas.schedule import stages_wanted
from libtile.lowering.tileas.shared_memory import block_bytes, pipeline_bytes, tile_bytes
from libtile.lowering.tileas.tma_operands import TmaOperand, Unfit, tma_operand
from libtile.lowering.to_tileas.types import element_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.targets import Target

BUDGETS = {8: (232, 40)}
"""Registers of a consumer's and a producer's thread, by the number of consumer warps, where they share unequally."""


class ProductLoop:
    """One kernel, and the loop with its product."""

    def __init__(self, function: FuncOp, gpu: Target, product: DotOp | ScaledDotOp, most: int):
        spec = function.kernel_spec
        assert spec is not None
        self.function, self.gpu, self.product, self.warps = function, gpu, product, spec.num_warps
        loop = product.parent_op()
        assert isinstance(loop, scf.ForOp)
        self.loop, self.body = loop, loop.body.block
        self.outer = persistent.outer_loop(function, loop)
        self.turns = known_trips(loop)
        # What one thread issues has nothing to overlap with in one turn, but is the wider instruction.
        if self.turns is not None and self.turns < (1 if gpu.has("tcgen05") else 2):
            raise Unfit("its loop has fewer than two turns" if self.turns else "its loop has no turn")
        check_warps(spec)
        self.scaled: ScaledOperands | None = None
        self.renamed: set[Operation] = set()
        self.pair = False
        if isinstance(product, ScaledDotOp):
            self.atom = scaled_products.instruction(product, gpu)
            self.scaled = ScaledOperands.of(function, gpu, product, self.atom, loop)
            self.operands = list(self.scaled.tiles)
            if self.scaled.by_threads is not None and self.outer is not None:
                raise Unfit("its loop is within another op, and threads bring its factors")
        else:
            self.atom = self._atom(product)
            self.pair = self.atom.kind == TCGEN05 and tcgen05.ctas_of(self.atom.instruction) > 1
            self.operands = [self._operand(side, value) for side, value in (("a", product.a), ("b", product.b))]
        self.ahead = self._ahead()
        self._check_rest()
        self.tiles = self._tiles()
        self.stages = self._stages(most)
        if self.atom.kind == TCGEN05:
            initial, result = loop.iter_args[self.carried], loop.results[self.carried]
            tensor_products.check_accumulator(product, initial, result, gpu, spec)
            self.results = tensor_products.results_at_a_time(shape_of(product.result.type), spec, self._factor_columns)
        else:
            assert isinstance(product, DotOp)
            check_accumulator(product, self.warps)
        self.type = PipelineType(self.stages, self._types, 1, MBARRIER)
        self.place = PipelineIteratorType(self.type)

    # -- what fits --------------------------------------------------------------------------------------------------

    def _atom(self, product: DotOp) -> MmaAtomAttr:
        assert self.function.kernel_spec is not None
        if self.gpu.has("tcgen05"):
            return self._tensor_atom(product)
        atom = instruction(product, self.gpu, promotes=True)
        m, n = shape_of(product.result.type)
        accumulators = m * n // (self.warps * self.gpu.warp_size) * STORAGE_BYTES[element_of(product.c)] // 4
        if accumulators > MAX_ACCUMULATORS:
            spec = self.function.kernel_spec
            halves = spec is not None and spec.num_ctas == 1 and accumulators <= MAX_ACCUMULATORS * CTAS
            advice = f": {CLUSTER} = {CTAS} halves them" if halves else ""
            raise Unfit(f"accumulators of {m}x{n} do not fit the registers of {self.warps} warps{advice}")
        most = consumer_registers(self.function.kernel_spec, self.gpu, BUDGETS.get(self.warps))
        if accumulators + OTHER_REGISTERS > most:
            raise Unfit(f"a thread has {most} registers, of which accumulators of {m}x{n} take {accumulators}")
        self.parts = self._parts(accumulators, most) if is_promoted(product) else 0
        if self.parts:
            a, b, d = atom.types
            found = wgmma.find(self.gpu, a, b, d, m, n // self.parts, atom.instruction.k)
            assert found is not None  # as fewer columns fit, too
            return MmaAtomAttr("wgmma", (found.m, found.n, found.k), a, b, d)
        return atom

    def _tensor_atom(self, product: DotOp) -> MmaAtomAttr:
        """The instruction of a pair of CTAs, where both have the same right operand, or that of one."""
        a, b = (operand_path(v, (self.body,), "").load for v in (product.a, product.b))
        shared = is_same_in_cluster(b) and not is_same_in_cluster(a)
        found = tensor_products.pair_instruction(product, self.gpu) if shared else None
        return found if found is not None else tensor_products.instruction(product, self.gpu)

    def _parts(self, accumulators: int, registers: int) -> int:
        """How many parts of its columns a step multiplies one after the other, to add each to the accumulators."""
        (_, columns), depth = shape_of(self.product.result.type), shape_of(self.product.a.type)[1]
        what = "wgmma sums products of 8-bit floats with fewer bits, which 'fast_acc' does not allow, "
        if element_of(self.product.c) != "f32":
            raise Unfit(what + "and its accumulator is no f32")
        if depth > promoted.MOST_DEPTH:
            raise Unfit(what + f"for more than {promoted.MOST_DEPTH} of them")
        free = registers - promoted.OTHER_REGISTERS - accumulators
        parts = promoted.parts_that_fit(accumulators, free, columns)
        # Of a lone warpgroup ptxas issues the next part before it adds the one before, and spills.
        if not parts or (parts > 1 and self.warps not in BUDGETS):
            raise Unfit(what + f"and {free} registers beside the accumulators do not hold sums of their own")
        return parts

    def _operand(self, side: str, value: SSAValue) -> TmaOperand:
        what = f"#{side.upper()} "
        path = operand_path(value, (self.body,), what, ", in the loop")
        self.renamed |= set(path.ops)
        halved = None
        if self.pair and side == "b":  # along its columns
            shape = shape_of(path.load.value.type)
            halved = max(n for n, d in enumerate(path.order or range(len(shape))) if shape[d] != 1)
        return tma_operand(self.function, self.gpu, self.atom.instruction, side, path.load, path.order, halved=halved,
                           element=path.element)  # fmt: skip

    def _ahead(self) -> Ahead:
        found = computed_ahead([o.load for o in self.operands], self.body)
        if found is None:
            raise Unfit("an address depends on what the loop computes")
        return found

    def _tiles(self) -> list[Operation]:
        """What a producer computes for each tile of a loop over tiles; nothing without one."""
        if self.outer is None:
            return []
        users = [*self.ahead.ops, *self.ahead.updates, *(o.load for o in self.operands)]
        return persistent.needed(self.outer, self.loop, users, [self.loop.iter_args[n] for n in self.ahead.carried])

    def _check_rest(self) -> None:
        """Nothing else goes on in the loop: the accumulator, what addresses are computed from, and tokens of the loads
        are all that it carries."""
        last = self.body.last_op
        assert last is not None
        accumulator = self.product.c
        if not isinstance(accumulator, BlockArgument) or accumulator.block is not self.body or accumulator.index == 0:
            raise Unfit("its accumulator is not carried by the loop")
        self.carried = accumulator.index - 1
        if last.operands[self.carried] is not self.product.result or not self.product.result.has_one_use():
            raise Unfit("its result is used in the loop")
        if not accumulator.has_one_use():
            raise Unfit("its accumulator is used by more than the product")
        for number, result in enumerate(self.loop.results):
            is_token = isinstance(result.type, MemTokenType)
            if number != self.carried and not is_token and (number not in self.ahead.carried or result.first_use):
                raise Unfit("the loop computes more than the product")
        loads = (o.load for o in self.operands)
        done = {*self.ahead.ops, *self.ahead.updates, self.product, last, *loads, *self.renamed}
        done |= {*self.scaled.between, *self.scaled.loads} if self.scaled is not None else set()
        for op in self.body.ops:
            if op not in done and not (is_pure(op) and self._goes_with_the_loads(op)):
                raise Unfit(f"the loop holds '{op.name}' as well")

    @staticmethod
    def _goes_with_the_loads(op: Operation) -> bool:
        """Whether an op gives tokens, or converts what the product reads."""
        return isinstance(op, ConvertLayoutOp) or all(isinstance(r.type, MemTokenType) for r in op.results)

    def _stages(self, most: int) -> int:
        # Not more than the loads' hints of their latency ask for.
        most = max(stages_wanted(o.load, most) for o in self.operands)
        most = 1 if self.turns == 1 else most
        each = PipelineType(1, self._types, 1, MBARRIER)
        free = [block_bytes(self.gpu, self.function.kernel_spec) - kept for kept in self._kept()]
        found = [min(n // pipeline_bytes(each, ALIGNMENT), most) for n in free]
        stages = next(n for n in found if n >= min(staging.ENOUGH_STAGES, max(found)))
        fewest = 1 if self.turns == 1 else 2
        if stages < fewest:
            size, count = sum(map(tile_bytes, self._types)), "a stage" if fewest == 1 else "two stages"
            raise Unfit(f"{count} of {size} bytes do not fit the {max(free)} bytes of shared memory that are free")
        return stages

    def _kept(self) -> list[int]:
        """Bytes of shared memory that the pipeline may leave for what is behind the loop."""
        if self.outer is None:
            return [PIECE_BYTES]
        return staging.kept_beside(self.function, self.outer, [*self.loop.walk()], self.atom.instruction.m)

    # -- the new code -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        loop, block = self.loop, self.function.body.block
        at = Inserter(block, loop if self.outer is None else self.outer, loop.location)
        descriptors = [o.descriptor(at, number) for number, o in enumerate(self.operands)]
        self.kinds = [(self.type, max(o.ctas for o in self.operands))]
        (pipe,) = make_pipelines(at, self.kinds, pair=self.pair)
        consumer, producer = Block(), Block()
        self._produce(Inserter(producer, None, loop.location), pipe, descriptors)
        if self.atom.kind == TCGEN05:
            self._multiply_in_tensor_memory(at, consumer, producer, pipe)
        else:
            self._multiply_by_warps(at, consumer, producer, pipe)
        for done in (loop,) if self.outer is None else (self.outer,):
            done.detach()
            done.erase()
        drop_unused(block)

    def _multiply_by_warps(self, at: Inserter, consumer: Block, producer: Block, pipe: SSAValue) -> None:
        """Two agents: the kernel's warps, and the one that copies."""
        inner = Inserter(consumer, None, self.loop.location)
        if self.outer is None:
            count = trips(at, self.loop)
            end, _ = (self._promoted if self.parts else self._overlapped)(inner, pipe, count)
            self._go_on(inner, end)
        else:
            start = inner.value(CreateIteratorOp.make(pipe, results=[self.place]))
            self._consume_tiles(inner, self.outer, start, lambda at, place: self._steps(at, pipe, place))
        end_agents(at, self._switch(consumer, producer), self.kinds)

    def _switch(self, consumer: Block, producer: Block) -> Operation:
        budget = BUDGETS.get(self.warps)
        return AgentSwitchOp.make(
            regions=[Region(consumer), Region(producer)],
            agent_warps=array_of(self.warps, PRODUCER_WARPS),
            agent_registers=None if budget is None else array_of(*budget),
            agent_elected=array_of(0, 1),
        )

    def _consume_tiles(self, at: Inserter, outer: scf.ForOp, start: SSAValue, steps: persistent.Steps) -> None:
        """The loop over tiles of the warps that compute them, and what is behind it."""
        persistent.consume(at, outer, self.loop, self.carried, start, steps)
        self._move_behind(outer, at.block)

    def _steps(self, at: Inserter, pipe: SSAValue, place: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The steps of one of several tiles."""
        end, following = (self._promoted if self.parts else self._overlapped)(at, pipe, trips(at, self.loop), place)
        assert following is not None  # of steps that begin at a place
        return end, following

    @staticmethod
    def _move_behind(loop: Operation, block: Block) -> None:
        """Move what is behind a loop to the end of an agent's block."""
        behind = loop.next_op
        while behind is not None and not isinstance(behind, ReturnOp):
            op, behind = behind, behind.next_op
            op.detach()
            block.add_op(op)
        Inserter(block, None, loop.location).add(PipelineYieldOp.make())

    @property
    def _types(self) -> list[BufferType]:
        """Of what a stage holds."""
        return [o.type for o in self.operands] if self.scaled is None else self.scaled.types

    @property
    def _factor_columns(self) -> int:
        """Columns of tensor memory for factors."""
        return 0 if self.scaled is None else self.scaled.columns

    def _multiply_in_tensor_memory(self, at: Inserter, consumer: Block, producer: Block, pipe: SSAValue) -> None:
        """Three agents: the kernel's warps, the one that copies, and the one that issues products."""
        tile, loop, outer = self.product.c.type, self.loop, self.outer
        assert isinstance(tile, TensorType)
        stages = 1 if outer is None else self.results
        scaled, product = self.scaled, self.product
        results = tensor_products.Results.make(at, tile, stages, pair=self.pair)
        if scaled is None:
            assert isinstance(product, DotOp)
            issue = tensor_products.issue_of(product, self.atom)
        else:
            issue = scaled.issue_into(scaled.allocate(at))
        steps = tensor_products.Steps(pipe, self._types, issue)
        inner, issuer = (Inserter(block, None, loop.location) for block in (consumer, Block()))
        initial, whole = loop.iter_args[self.carried], loop.results[self.carried]
        if outer is None:
            count = trips(at, loop)
            if scaled is not None and scaled.by_threads is not None:
                scaled.by_threads.bring(inner, pipe, self._types, count)
            results.read(inner, count, initial, whole)
            self._go_on(inner, None)
            tensor_products.multiply(issuer, results, steps, count, (results.start(issuer), steps.start(issuer)))
        else:

            def read(at: Inserter, place: SSAValue) -> tuple[None, SSAValue]:
                results.read(at, trips(at, loop), initial, whole, place)
                return None, at.value(IncIterOp.make(place, results=[results.place]))

            persistent.repeat(
                issuer, outer, persistent.needed(outer, loop, (), ()), (results.start(issuer), steps.start(issuer)),
                lambda at, places, values: tensor_products.multiply(
                    at, results, steps, trips(at, loop, values), places
                ),
            )  # fmt: skip
            self._consume_tiles(inner, outer, results.start(inner), read)
        if self.pair:
            at.add(ClusterBarrierOp.make())
        made = AgentSwitchOp.make(
            regions=[Region(consumer), Region(producer), Region(self._issuer(issuer))],
            agent_warps=array_of(self.warps, tensor_products.AGENT_WARPS, tensor_products.AGENT_WARPS),
            agent_elected=array_of(0, 1, 1),
        )
        at.add(made)
        if self.pair:
            at.add(ClusterBarrierOp.make())
        at.add(DeallocTensorOp.make(results.storage))

    def _issuer(self, at: Inserter) -> Block:
        """The region of the agent that issues products: in a pair of CTAs the leader's does."""
        if not self.pair:
            at.add(PipelineYieldOp.make())
            return at.block
        at.add(scf.YieldOp())
        outer = Inserter(Block(), None, at.location)
        rank = outer.value(GetCtaRankOp.make(results=[i32]))
        zero = outer.value(arith.ConstantOp(IntegerAttr(0, i32)))
        outer.add(scf.IfOp(outer.value(arith.CmpiOp(rank, zero, "eq")), [], [at.block]))
        outer.add(PipelineYieldOp.make())
        return outer.block

    def _produce(self, at: Inserter, pipe: SSAValue, descriptors: Sequence[SSAValue]) -> None:
        """The loop again, with copies in place of everything else."""
        start = at.value(CreateIteratorOp.make(pipe, results=[self.place]))
        if self.outer is None:
            self._copies(at, pipe, descriptors, start, {})
        else:
            persistent.repeat(
                at, self.outer, self.tiles, [start],
                lambda inner, places, values: [self._copies(inner, pipe, descriptors, places[0], values)],
            )  # fmt: skip
        at.add(PipelineYieldOp.make())

    def _copies(
        self, at: Inserter, pipe: SSAValue, descriptors: Sequence[SSAValue], start: SSAValue,
        given_values: dict[SSAValue, SSAValue],
    ) -> SSAValue:  # fmt: skip
        """The copies of all steps from a place on, with values for some from outside of the loop; the place behind."""
        loop, types = self.loop, self._types

        def outside(value: SSAValue) -> SSAValue:
            return given_values.get(value, value)

        carried = [outside(loop.iter_args[n]) for n in self.ahead.carried]
        body = Block(arg_types=[self.body.args[0].type, self.place, *(v.type for v in carried)])
        inner = Inserter(body, None, loop.location)
        values: dict[SSAValue, SSAValue] = {**given_values, self.body.args[0]: body.args[0]}
        values |= {self.body.args[1 + n]: a for n, a in zip(self.ahead.carried, body.args[2:])}
        inner.clone(self.ahead.ops, values)
        ready = ProducerTokenType(types)
        place = body.args[1]
        token = inner.value(ProducerAcquireOp.make(pipe, place, results=[ready]))
        stage = Block(arg_types=types)
        copies = Inserter(stage, None, loop.location)
        for number, (operand, descriptor) in enumerate(zip(self.operands, descriptors)):
            operand.copy(copies, number, descriptor, stage.args[number], values)
        copies.add(PipelineYieldOp.make())
        token = inner.value(ProducerWriteOp.make(token, place, results=[ready, []], regions=[Region(stage)]))
        inner.add(ProducerCommitOp.make(token))
        following = inner.value(IncIterOp.make(place, results=[self.place]))
        inner.clone([op for op in self.ahead.updates if op not in self.ahead.ops], values)
        last = self.body.last_op
        assert last is not None
        given = [values.get(last.operands[n], last.operands[n]) for n in self.ahead.carried]
        inner.add(scf.YieldOp(following, *given))
        bounds = [outside(v) for v in (loop.lb, loop.ub, loop.step)]
        made = scf.ForOp(bounds[0], bounds[1], bounds[2], [start, *carried], body)
        made.attributes.update(loop.attributes)
        at.add(made)
        return made.results[0]

    def _go_on(self, at: Inserter, end: SSAValue | None) -> None:
        """What is behind the loop, with the accumulator's last value, if anything uses that."""
        loop = self.loop
        if end is not None:
            end.name_hint = loop.results[self.carried].name_hint
        for n, result_ in enumerate(loop.results):
            # Loads have ended before their products do: what tokens ordered behind them is.
            if n != self.carried:
                result_.replace_all_uses_with(loop.iter_args[n])
            elif end is not None:
                result_.replace_all_uses_with(end)
        self._move_behind(loop, at.block)

    def _overlapped(
        self, at: Inserter, pipe: SSAValue, count: SSAValue, start: SSAValue | None = None
    ) -> tuple[SSAValue, SSAValue | None]:
        """The accumulator behind all steps, each of which waits for the products of the one before, and the place
        behind them; they begin at the first stage, or at `start`."""
        loop, number = self.loop, number_type(self.loop)
        initial = loop.iter_args[self.carried]
        one = at.value(arith.ConstantOp(IntegerAttr(1, number)))
        steps = Block()
        inner = Inserter(steps, None, loop.location)
        first = inner.value(CreateIteratorOp.make(pipe, results=[self.place])) if start is None else start
        token, product = self._step(inner, pipe, first, initial)
        second = inner.value(IncIterOp.make(first, results=[self.place]))
        body = Block(arg_types=[number, self.place, initial.type, token.type])
        each = Inserter(body, None, loop.location)
        _, place, accumulator, before = body.args
        own, made = self._step(each, pipe, place, accumulator)
        waited = each.value(WaitDotOp.make([made], results=[[initial.type]], pending=1))
        each.add(ConsumerReleaseOp.make(before))
        each.add(scf.YieldOp(each.value(IncIterOp.make(place, results=[self.place])), waited, own))
        rest = scf.ForOp(one, count, one, [second, product, token], body)
        rest.attributes["unsignedCmp"] = UnitAttr()
        inner.add(rest)
        result = inner.value(WaitDotOp.make([rest.results[1]], results=[[initial.type]], pending=0))
        inner.add(ConsumerReleaseOp.make(rest.results[2]))
        if start is None:
            inner.add(scf.YieldOp(result))
            (end,) = self._if_any(at, count, steps, [initial])
            return end, None
        inner.add(scf.YieldOp(result, rest.results[0]))
        end, following = self._if_any(at, count, steps, [initial, start])
        return end, following

    def _if_any(self, at: Inserter, count: SSAValue, steps: Block, initial: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """What a block yields where there are steps, and what there was before where there are none."""
        zero = at.value(arith.ConstantOp(IntegerAttr(0, number_type(self.loop))))
        some = at.value(arith.CmpiOp(count, zero, "ne"))
        nothing = Block()
        nothing.add_op(scf.YieldOp(*initial))
        return at.add(scf.IfOp(some, [v.type for v in initial], [steps], [nothing])).results

    def _promoted(
        self, at: Inserter, pipe: SSAValue, count: SSAValue, start: SSAValue | None = None
    ) -> tuple[SSAValue, SSAValue | None]:
        """The accumulator behind all steps, to whose parts each step adds its products, and the place behind them."""
        initial, number = self.loop.iter_args[self.carried], number_type(self.loop)
        zero, one = (at.value(arith.ConstantOp(IntegerAttr(n, number))) for n in (0, 1))
        nothing = promoted.zeros(at, initial, self.parts, self.warps)
        first = at.value(CreateIteratorOp.make(pipe, results=[self.place])) if start is None else start
        body = Block(arg_types=[number, self.place, *[nothing.type] * self.parts])
        inner = Inserter(body, None, self.loop.location)
        _, place, *sums = body.args
        types = [o.type for o in self.operands]
        held = ConsumerTokenType(types)
        token = inner.value(ConsumerWaitOp.make(pipe, place, results=[held]))
        stage = Block(arg_types=types)
        inside = Inserter(stage, None, self.loop.location)
        width = shape_of(nothing.type)[1]
        done, last = promoted.multiplied(
            inside, sums, lambda part: self._product(inside, stage, nothing, width * part if self.parts > 1 else None)
        )
        inside.add(PipelineYieldOp.make([*done, last]))
        given: list[Attribute] = [nothing.type] * self.parts
        read = inner.add(ConsumerReadOp.make(token, place, results=[held, given], regions=[Region(stage)]))
        inner.add(ConsumerReleaseOp.make(read.results[0]))
        following = inner.value(IncIterOp.make(place, results=[self.place]))
        *added, products = read.results[1:]
        inner.add(scf.YieldOp(following, *added, promoted.add(inner, sums[-1], products)))
        made = scf.ForOp(zero, count, one, [first, *[nothing] * self.parts], body)
        made.attributes["unsignedCmp"] = UnitAttr()
        at.add(made)
        return promoted.joined(at, made.results[1:], initial), made.results[0]

    def _product(self, at: Inserter, stage: Block, accumulator: SSAValue, first: int | None = None) -> SSAValue:
        """Issue the products of a stage, with the columns of B from the first one on."""
        product = self.product
        assert isinstance(product, DotOp)  # those with factors are no wgmma's
        return at.value(
            AsyncDotOp.make(
                *stage.args, accumulator, results=[accumulator.type], atom=self.atom,
                signedness_a=product.signedness_a, signedness_b=product.signedness_b,
                fast_acc=product.fast_acc is not None, first_column=first,
            ),
            product.location,
        )  # fmt: skip

    def _step(self, at: Inserter, pipe: SSAValue, place: SSAValue, accumulator: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Wait for a stage and issue its products: the token for its release, and what is in flight."""
        types = [o.type for o in self.operands]
        held = ConsumerTokenType(types)
        token = at.value(ConsumerWaitOp.make(pipe, place, results=[held]))
        stage = Block(arg_types=types)
        inside = Inserter(stage, None, at.location)
        inside.add(PipelineYieldOp.make([self._product(inside, stage, accumulator)]))
        done = at.add(ConsumerReadOp.make(token, place, results=[held, [accumulator.type]], regions=[Region(stage)]))
        return done.results[0], done.results[1]
