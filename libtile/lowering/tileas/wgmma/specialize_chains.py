# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parting of a loop with several products into a producer that copies, and consumers that multiply and compute.

Each tile that TMA can copy for a product has a pipeline of its own: of some stages where the loop loads it, of one
where it is loaded in front of the loop. The consumers run the rest of the loop. Where its products form a chain whose
ends can be told apart (`product_turns`), and registers suffice, turns of the loop overlap iterations (`chain_turns`).
Otherwise each product is waited for where it stands, and the warpgroups overlap with each other only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.atoms import wgmma
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.terminators import ReturnOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.async_products import AsyncDotOp, WaitDotOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
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
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.types import (
    MBARRIER,
    BufferType,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.places import uses_of
from libtile.ir.tile_form import erase, shape_of
from libtile.layouts.shared_access import PIECE_BYTES
from libtile.lowering.tileas.agents.cluster_pipelines import ALIGNMENT, end_agents, make_pipelines
from libtile.lowering.tileas.agents.consumers import (
    OTHER_REGISTERS,
    PRODUCER_WARPS,
    check_accumulator,
    check_warps,
    consumer_registers,
    instruction,
    tile_registers,
)
from libtile.lowering.tileas.agents.fed_steps import NotSpecialized
from libtile.lowering.tileas.agents.product_turns import Parts, held_pins, parts_of, readers
from libtile.lowering.tileas.agents.promoted import MOST_DEPTH
from libtile.lowering.tileas.ahead import computed_ahead
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.copies.tma_operands import TmaOperand, Unfit, check_token, tma_operand
from libtile.lowering.tileas.counted_loops import known_trips, trips
from libtile.lowering.tileas.inserter import Inserter, array_of
from libtile.lowering.tileas.memory.shared_memory import block_bytes, rings_bytes
from libtile.lowering.tileas.pipelines.operand_paths import operand_path
from libtile.lowering.tileas.pipelines.schedule import is_zero, stages_wanted
from libtile.lowering.tileas.wgmma.chain_turns import ChainTurns
from libtile.lowering.tileas.wgmma.turns_ahead import TurnsAhead
from libtile.lowering.to_tileas.types import layout_of
from libtile.support.records import dataclass, replace
from libtile.targets import Target

MOST_REGISTERS, PRODUCER_REGISTERS = 240, 24
BUDGETS = {8: (MOST_REGISTERS, PRODUCER_REGISTERS)}
"""Registers of a consumer's and a producer's thread, by the number of consumer warps, where they share unequally."""

Values = dict[SSAValue, SSAValue]


def budget_of(spec: KernelSpecAttr, gpu: Target) -> tuple[int, int] | None:
    """As `BUDGETS`, and for one warpgroup where several blocks leave a thread few registers: the producer gives away
    what it has. None where agents share alike."""
    if spec.num_warps != PRODUCER_WARPS:
        return BUDGETS.get(spec.num_warps)
    each = consumer_registers(spec, gpu, None)
    consumer = min(2 * each - PRODUCER_REGISTERS, MOST_REGISTERS)
    return (consumer, PRODUCER_REGISTERS) if consumer > each else None


def consumers_and_producer(
    spec: KernelSpecAttr, consumer: Block, producer: Block, budget: tuple[int, int] | None
) -> AgentSwitchOp:
    """The agents of a kernel whose warps consume what one thread of another warpgroup produces."""
    return AgentSwitchOp.make(
        regions=[Region(consumer), Region(producer)],
        agent_warps=array_of(spec.num_warps, PRODUCER_WARPS),
        agent_registers=None if budget is None else array_of(*budget),
        agent_elected=array_of(0, 1),
    )


def _is_matrix(value: SSAValue) -> bool:
    """Whether it is a tile of several rows and columns, for which `OTHER_REGISTERS` leave no room."""
    return isinstance(value.type, TensorType) and sum(n > 1 for n in value.type.get_shape()) > 1


@dataclass(eq=False)
class Ring:
    """An operand that TMA copies: the ops that bring it to its product in the loop as it was, and its pipeline.

    The producer fills a stage for each iteration, or one for all of them (`once`).
    """

    operand: TmaOperand
    path: list[Operation]
    once: bool
    type: PipelineType
    pipe: SSAValue | None = None
    descriptor: SSAValue | None = None

    @property
    def types(self) -> list[Attribute]:
        return [self.operand.type]

    @property
    def place(self) -> PipelineIteratorType:
        return PipelineIteratorType(self.type)

    def acquire(self, at: Inserter, place: SSAValue, number: int, values: Values) -> None:
        """The producer's turn: a copy to a stage."""
        ready = ProducerTokenType(self.types)
        token = at.value(ProducerAcquireOp.make(self.pipe, place, results=[ready]))
        stage = Block(arg_types=self.types)
        copies = Inserter(stage, None, at.location)
        assert self.descriptor is not None
        self.operand.copy(copies, number, self.descriptor, stage.args[0], values)
        copies.add(PipelineYieldOp.make())
        token = at.value(ProducerWriteOp.make(token, place, results=[ready, []], regions=[Region(stage)]))
        at.add(ProducerCommitOp.make(token))

    def wait(self, at: Inserter, place: SSAValue) -> SSAValue:
        return at.value(ConsumerWaitOp.make(self.pipe, place, results=[ConsumerTokenType(self.types)]))

    def next(self, at: Inserter, place: SSAValue) -> SSAValue:
        return at.value(IncIterOp.make(place, results=[self.place]))


@dataclass(frozen=True)
class ChainProduct:
    """A product, its instruction, and the rings of its operands; A is in registers where it has none."""

    op: DotOp
    atom: MmaAtomAttr
    a: Ring | None
    b: Ring

    @property
    def rings(self) -> list[Ring]:
        return [r for r in (self.a, self.b) if r is not None]

    @property
    def moving(self) -> list[Ring]:
        """The rings that are filled anew for each iteration."""
        return [r for r in self.rings if not r.once]


class Chain:
    """One kernel, and its loop with several products. Unfit where it stays as it is."""

    in_a_row = False
    """Whether products that come first may add to each other's results."""
    two_stages = True
    """Whether a loop whose operands have a stage each is left as it is, unless other blocks of its multiprocessor
    compute while it waits: nothing would be copied under its products."""

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp], most: int):
        spec = function.kernel_spec
        assert spec is not None
        self.function, self.gpu, self.spec = function, gpu, spec
        self.take_turns = self.run_ahead = True
        loop = products[0].parent_op()
        assert isinstance(loop, scf.ForOp)
        self.loop, self.body = loop, loop.body.block
        if any(p.parent_op() is not loop for p in products):
            raise Unfit("the kernel has products in several loops")
        if loop.parent is not function.body.block:
            raise Unfit("its loop is within another op")
        if (turns := known_trips(loop)) is not None and turns < 2:
            raise Unfit("its loop has fewer than two turns")
        check_warps(spec)
        self.products: list[ChainProduct] = []
        for product in products:
            try:
                self.products.append(self._product(product))
            except Unfit as reason:
                raise NotSpecialized(str(reason), product) from None
        self.rings = [r for p in self.products for r in p.rings]
        loads = [r.operand.load for r in self.rings if not r.once]
        ahead = computed_ahead(loads, self.body, loads=True)
        if ahead is None:
            raise Unfit("an address depends on what the loop computes")
        self.ahead = ahead
        for ring in self.rings:
            check_token(ring.operand.load)
        gone = {op for r in self.rings for op in r.path}
        self.ops = [op for op in self.body.ops if op not in gone and op is not self.body.last_op]
        left = {p.op.a for p in self.products if p.a is None}
        parts = parts_of(self.body, self.ops, left, in_a_row=self.in_a_row)
        self.unturned = parts if isinstance(parts, str) else ""
        """Why iterations cannot be turned."""
        self.parts = None if isinstance(parts, str) else self._fitting(parts)
        if self.parts is None and (wanted := self._registers(None)) > (limit := self._limit()):
            raise Unfit(f"a thread has {limit} registers, and the loop's products take {wanted}")
        self._set_stages(most)

    # -- what fits --------------------------------------------------------------------------------------------------

    def _product(self, product: DotOp) -> ChainProduct:
        atom = self._instruction(product)
        b = self._ring(product, atom, "b", product.b)
        try:
            a = self._ring(product, atom, "a", product.a)
        except Unfit:
            self._check_left(product, atom)
            a = None
        return ChainProduct(product, atom, a, b)

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        """The instruction of a product, whose accumulator has to lie as that wants it."""
        few = is_zero(product.c) and shape_of(product.a.type)[-1] <= MOST_DEPTH  # which the loop then adds up itself
        atom = instruction(product, self.gpu, consumer_registers(self.spec, self.gpu, None), promotes=few)
        check_accumulator(product, self.spec.num_warps)
        return atom

    def _ring(self, product: DotOp, atom: MmaAtomAttr, side: str, value: SSAValue) -> Ring:
        """The ring of an operand; Unfit where it is not one that TMA copies."""
        what = f"#{side.upper()} "
        path = operand_path(value, (self.body, self.function.body.block), what)
        operand = tma_operand(
            self.function, self.gpu, atom.instruction, side, path.load, path.order, element=path.element
        )
        once = path.load.parent is not self.body
        return Ring(operand, list(path.ops), once, PipelineType(1, [operand.type], 1, MBARRIER))

    def _check_left(self, product: DotOp, atom: MmaAtomAttr) -> None:
        """Unfit for a left operand that is not in registers as wgmma reads it."""
        a = layout_of(product.a)
        type_ = product.a.type
        assert isinstance(type_, TensorType)
        bits = 256 // atom.instruction.k
        if a != wgmma.a_layout(shape_of(type_), self.spec.num_warps, bits):
            raise Unfit("#A is computed, and does not lie in registers as wgmma reads it")

    def _registers(self, parts: Parts | None) -> int:
        """Of a consumer's thread: for products that are under way together, their left operands, what is carried beside
        their sums, and the rest."""
        threads = self.spec.num_warps * self.gpu.warp_size
        summed = sum(tile_registers(p.op.result) for p in self.products if not is_zero(p.op.c))
        beside = sum(tile_registers(v) for v in self.body.args if _is_matrix(v)) - summed
        found = OTHER_REGISTERS + max(beside, 0)
        found += sum(tile_registers(v) for op in (parts.early if parts is not None else ()) for v in op.results)
        carried = [p for p in self.products if p.op.c.owner is self.body]
        together = self.products if parts is not None else [*carried, *self.products[:1]]
        for product in dict.fromkeys(together):
            m, n = shape_of(product.op.result.type)
            found += wgmma.accumulator_registers(product.atom.instruction) * (
                m * n * 32 // threads // (product.atom.instruction.n * 16)
            )
            if product.a is None:
                m, k = shape_of(product.op.a.type)
                found += m * k * (256 // product.atom.instruction.k) // 32 // threads
        return found

    def _fitting(self, parts: Parts) -> Parts | None:
        """The parts of turns whose products fit the registers of a thread, loads before them if these fit, too."""
        late = replace(parts, early=(), between=tuple(op for op in self.ops if op in (*parts.early, *parts.between)))
        return next((p for p in (parts, late) if self._registers(p) <= self._limit()), None)

    def _runs_ahead(self, parts: Parts) -> bool:
        """Whether the leading products of the next iteration are issued in front of what is between (`TurnsAhead`):
        warpgroups have a block's registers to themselves, what it takes of their results fits beside them, and what
        else it makes, some of it is left to compute behind them, and there are stages for trailing products that are an
        iteration late."""
        if not self.run_ahead or not parts.between or self.spec.num_warps not in BUDGETS:
            return False
        if any(r.type.stages < 2 for p in self.products for r in p.moving):
            return False
        taken = {v for op in (*parts.after, *parts.late, *parts.trailing) for v in uses_of(op)}
        if any(p.result in taken for p in parts.leading):
            return False
        found = readers(parts)
        if not any(_is_matrix(v) for op in parts.between if op not in found.ops for v in op.results):
            return False
        kept = sum(tile_registers(v) for v in (*found.given, *found.beside) if _is_matrix(v))
        return self._registers(parts) + kept <= self._limit()

    def _limit(self) -> int:
        return consumer_registers(self.spec, self.gpu, budget_of(self.spec, self.gpu))

    def _budget(self) -> tuple[int, int] | None:
        """Registers of the agents' threads; None where they share alike, as one warpgroup does that has enough so."""
        if self.spec.num_warps in BUDGETS or self._registers(self.parts) > consumer_registers(
            self.spec, self.gpu, None
        ):
            return budget_of(self.spec, self.gpu)
        return None

    def _computed_in_shared_memory(self) -> list[BufferType]:
        """The buffers of operands that the loop computes, and products read from shared memory."""
        return []

    def _set_stages(self, most: int) -> None:
        """As many stages for each ring as there is room for, and as hints of the loads' latency ask for. Where there is
        none for two of each, the last product's operands have one: they come in under the next one's first product, and
        where several blocks share a multiprocessor, all have one."""
        computed = [PipelineType(1, [buffer], 1, MBARRIER) for buffer in self._computed_in_shared_memory()]
        free = block_bytes(self.gpu, self.spec) - PIECE_BYTES - rings_bytes(computed, ALIGNMENT)

        lone = [r for r in self.rings if r.once]
        plans = [(count, lone) for count in range(most, 1, -1)]
        if len(self.products) > 1 and most > 1:
            plans.append((2, [*lone, *self.products[-1].moving]))
            if not self.two_stages or (self.spec.occupancy or 1) > 1:
                plans.append((1, lone))
        for count, lone in plans:
            wanted = [1 if r in lone else min(count, stages_wanted(r.operand.load, most)) for r in self.rings]
            types = [PipelineType(n, r.types, 1, MBARRIER) for n, r in zip(wanted, self.rings)]
            if rings_bytes(types, ALIGNMENT) <= free:
                for ring, type_ in zip(self.rings, types):
                    ring.type = type_
                return
        raise Unfit(f"two stages of each operand do not fit the {free} bytes of shared memory that are free")

    # -- the new code -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        loop, block = self.loop, self.function.body.block
        at = Inserter(block, loop, loop.location)
        for number, ring in enumerate(self.rings):
            ring.descriptor = ring.operand.descriptor(at, number)
        kinds = [(ring.type, ring.operand.ctas) for ring in self.rings]
        for ring, pipe in zip(self.rings, make_pipelines(at, kinds)):
            ring.pipe = pipe
        count = trips(at, loop)
        consumer, producer = Block(), Block()
        self._produce(Inserter(producer, None, loop.location))
        self._consume(Inserter(consumer, None, loop.location), count)
        end_agents(at, consumers_and_producer(self.spec, consumer, producer, self._budget()), kinds)
        self._leave_out_the_loop()

    def _leave_out_the_loop(self) -> None:
        block = self.function.body.block
        self.loop.detach()
        self.loop.erase()
        for ring in self.rings:
            for op in ring.path:
                if ring.once and op.parent is not None and op.parent is block:
                    erase(op)
        drop_unused(block)

    def _produce(self, at: Inserter) -> None:
        """What is loaded once, and the loop again with copies in place of everything else."""
        loop = self.loop
        moving = [r for r in self.rings if not r.once]
        starts = {r: at.value(CreateIteratorOp.make(r.pipe, results=[r.place])) for r in self.rings}
        for number, ring in enumerate(self.rings):
            if ring.once:
                ring.acquire(at, starts[ring], number, {})
        carried = [loop.iter_args[n] for n in self.ahead.carried]
        types = [self.body.args[0].type, *(r.place for r in moving), *(v.type for v in carried)]
        body = Block(arg_types=types)
        inner = Inserter(body, None, loop.location)
        values: Values = {self.body.args[0]: body.args[0]}
        values |= {self.body.args[1 + n]: a for n, a in zip(self.ahead.carried, body.args[1 + len(moving) :])}
        inner.clone(self.ahead.ops, values)
        following = []
        for ring, place in zip(moving, body.args[1:]):
            ring.acquire(inner, place, self.rings.index(ring), values)
            following.append(ring.next(inner, place))
        inner.clone([op for op in self.ahead.updates if op not in self.ahead.ops], values)
        last = self.body.last_op
        assert last is not None
        given = [values.get(last.operands[n], last.operands[n]) for n in self.ahead.carried]
        inner.add(scf.YieldOp(*following, *given))
        made = scf.ForOp(loop.lb, loop.ub, loop.step, [*(starts[r] for r in moving), *carried], body)
        made.attributes.update(loop.attributes)
        at.add(made)
        at.add(PipelineYieldOp.make())

    def _consume(self, at: Inserter, count: SSAValue) -> None:
        """The loop without copies, and then what is behind it."""
        loop = self.loop
        starts = {r: at.value(CreateIteratorOp.make(r.pipe, results=[r.place])) for r in self.rings}
        self.held = {r: (r.wait(at, starts[r]), starts[r]) for r in self.rings if r.once}
        # Copies have ended before their products do: what their tokens order is ordered.
        self.tokens: Values = {}
        for ring in self.rings:
            if (token := ring.operand.load.result_token) is not None and not ring.once:
                self.tokens[token] = at.value(CreateMemTokenOp.make(results=[MemTokenType()]))
        if self.parts is None:
            results = self._serial(at, starts)
        else:
            turns = TurnsAhead if self._runs_ahead(self.parts) else ChainTurns
            results = turns(self, self.parts, count, starts).make(at)
        for ring in self.rings:
            if ring.once:
                at.add(ConsumerReleaseOp.make(self.held[ring][0]))
        for old, new in zip(loop.results, results):
            old.replace_all_uses_with(new)
        behind = loop.next_op
        while behind is not None and not isinstance(behind, ReturnOp):
            op, behind = behind, behind.next_op
            op.detach()
            at.block.add_op(op)
        at.add(PipelineYieldOp.make())

    def _serial(self, at: Inserter, starts: dict[Ring, SSAValue]) -> Sequence[SSAValue]:
        """The loop as it was, with a wait behind each product."""
        loop, moving = self.loop, [r for r in self.rings if not r.once]
        body = Block(arg_types=[*(a.type for a in self.body.args), *(r.place for r in moving)])
        inner = Inserter(body, None, loop.location)
        values: Values = {**self.tokens, **dict(zip(self.body.args, body.args))}
        places: dict[Ring, SSAValue] = dict(zip(moving, body.args[len(self.body.args) :]))
        by_op = {p.op: p for p in self.products}
        for op in self.ops:
            if isinstance(op, DotOp) and op in by_op:
                self.multiply(inner, [by_op[op]], values, places)
            else:
                inner.clone([op], values)
        following = [r.next(inner, places[r]) for r in moving]
        inner.add(scf.YieldOp(*self.carried_on(values), *following))
        made = scf.ForOp(loop.lb, loop.ub, loop.step, [*loop.iter_args, *(starts[r] for r in moving)], body)
        made.attributes.update(loop.attributes)
        at.add(made)
        return made.results[: len(loop.results)]

    def carried_on(self, values: Values) -> list[SSAValue]:
        last = self.body.last_op
        assert last is not None
        return [values.get(v, v) for v in last.operands]

    # -- products ---------------------------------------------------------------------------------------------------

    def multiply(
        self, at: Inserter, products: Sequence[ChainProduct], values: Values, places: dict[Ring, SSAValue]
    ) -> None:
        """Issue products, and wait for them."""
        self.wait(at, products, values, self.issue(at, products, values, places), 0)

    @staticmethod
    def registers_of(products: Sequence[ChainProduct], values: Values) -> list[SSAValue]:
        """What products read from registers."""
        found = [v for p in products for v in (*([p.op.a] if p.a is None else []), p.op.c)]
        return list(dict.fromkeys(values.get(v, v) for v in found))

    def issue(
        self, at: Inserter, products: Sequence[ChainProduct], values: Values, places: dict[Ring, SSAValue],
        ahead: Sequence[SSAValue] = (), fenced: bool = False, waited: Mapping[Ring, SSAValue] = MappingProxyType({}),
    ) -> dict[Ring, SSAValue]:  # fmt: skip
        """Wait for stages, but for those that are `waited` for, and issue products, whose results are in flight; the
        tokens for the release of stages.

        The first product fences its own registers and those `ahead` that `fenced` products read."""
        tokens: dict[Ring, SSAValue] = {}
        for product in products:
            granted = {
                r: self.held[r] if r.once else (waited.get(r) or r.wait(at, places[r]), places[r])
                for r in product.rings
            }
            inner, buffers, around = at, dict[Ring, SSAValue](), []
            # Stages that are released stand around those that stay, so that their tokens are not within another region.
            for ring in sorted(product.rings, key=lambda r: r.once):
                stage = Block(arg_types=ring.types)
                buffers[ring] = stage.args[0]
                around.append((inner, ring, stage))
                inner = Inserter(stage, None, at.location)
            op = product.op
            a = values.get(op.a, op.a) if product.a is None else buffers[product.a]
            c = values.get(op.c, op.c)
            result = inner.value(
                AsyncDotOp.make(
                    a, buffers[product.b], c, list(ahead), results=[c.type], atom=product.atom, fenced=fenced,
                    signedness_a=op.signedness_a, signedness_b=op.signedness_b, fast_acc=op.fast_acc is not None,
                ),
                op.location,
            )  # fmt: skip
            ahead = ()
            for outer, ring, stage in reversed(around):
                Inserter(stage, None, at.location).add(PipelineYieldOp.make([result]))
                token, place = granted[ring]
                done = outer.add(
                    ConsumerReadOp.make(
                        token, place, results=[ConsumerTokenType(ring.types), [c.type]], regions=[Region(stage)]
                    )
                )
                if not ring.once:
                    tokens[ring] = done.results[0] if outer is at else token
                result = done.results[1]
            values[op.result] = result
        return tokens

    def wait(
        self, at: Inserter, products: Sequence[ChainProduct], values: Values, tokens: dict[Ring, SSAValue],
        pending: int, pins: Sequence[SSAValue] = (), pinned_in: Values | None = None, held: bool = False,
    ) -> None:  # fmt: skip
        """Wait for products and release their stages; `pins`, which `pinned_in` has, are computed before."""
        results = [values[p.op.result] for p in products]
        reads = [values.get(p.op.a, p.op.a) for p in products if p.a is None]
        env = values if pinned_in is None else pinned_in
        given = [env[v] for v in pins]
        waited = at.add(
            WaitDotOp.make(
                results,
                reads,
                given,
                results=[[v.type for v in (*results, *given)]],
                pending=pending,
                held=held,
                held_pins=held_pins(given) or None,
            )
        )
        for product, value in zip(products, waited.results):
            values[product.op.result] = value
        env.update(zip(pins, waited.results[len(results) :]))
        for token in tokens.values():
            at.add(ConsumerReleaseOp.make(token))
