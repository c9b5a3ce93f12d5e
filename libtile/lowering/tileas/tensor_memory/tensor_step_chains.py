# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops whose products feed each other in any order, on targets with tensor memory: what `step_chains` is for wgmma.

    the kernel's warps   the loop without copies and products: they load results from tensor memory where something is
                         computed of them, and write what products read of that to shared memory (bridges)
    producer             one thread copies tiles, each to a ring of its own
    products             one thread issues the products of each step, as soon as what they take is there

A result that begins with zeros in each step is a stage that is handed on once a step. A sum that the loop carries
stays in tensor memory, and goes to and fro: it is handed on in front of the first step, in which the warps store there
what it begins with, and behind the products of each step; the warps give it back when they have loaded it, if something
is computed of it. What else a product adds to the warps store there, and the sum is in their registers from step to
step. Where there are no columns for all of them, results that begin with zeros take turns at a stage: products add to
one when the warps have taken the one before.

The order of a step is one list (`_order`), of which each agent does its part: it is an order in which one after the
other could do all, so that neither waits for what the other one does later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod

from xdsl.dialects.builtin import IntegerAttr, TensorType, i1
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from libtile.atoms import tcgen05, tensor_columns
from libtile.dialects import arith, scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.pipeline import (
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    IncIterOp,
    PipelineYieldOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ProducerWriteOp,
)
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tensor_memory import DeallocTensorOp
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.types import ConsumerTokenType, ProducerTokenType
from libtile.ir.places import uses_of
from libtile.ir.tile_form import shape_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.agents import nests
from libtile.lowering.tileas.agents.cluster_pipelines import make_pipelines
from libtile.lowering.tileas.agents.consumers import OTHER_REGISTERS, check_lies, consumer_registers
from libtile.lowering.tileas.agents.feeds import Feed
from libtile.lowering.tileas.agents.step_chains import StepChain, StepProduct
from libtile.lowering.tileas.agents.tile_turns import TileLife, share_stages
from libtile.lowering.tileas.cleanup import drop_unused, is_pure
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.counted_loops import number_type, trips
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.schedule import is_zero
from libtile.lowering.tileas.tensor_memory import tensor_products
from libtile.lowering.tileas.tensor_memory.tensor_products import Results
from libtile.support.records import dataclass
from libtile.targets import Target

Values = dict[SSAValue, SSAValue]
Fill = Callable[[Inserter, SSAValue], None]
"""What is done with a stage."""


@dataclass(eq=False)
class Sum:
    """A result in tensor memory: the products that add to it in a step, in order, and the number of what the loop
    carries that it is (None: it begins with zeros in each step)."""

    products: list[StepProduct]
    carried: int | None
    given: SSAValue | None = None
    """What the warps store there for the products to add to, in each step."""
    results: Results | None = None

    @property
    def last(self) -> DotOp:
        return self.products[-1].op

    @property
    def is_given_back(self) -> bool:
        """Whether the storage goes to and fro, and is handed on in front of the first step."""
        return self.carried is not None or self.given is not None

    @property
    def place(self) -> Results:
        assert self.results is not None
        return self.results


@dataclass(frozen=True, eq=False)
class _Event:
    """What is done next in a step: an op by the warps, a tile that they read from its stage as well, a bridge (by its
    number) that they fill, a sum that they take, or for which they store what products add to, or a product that is
    issued."""

    compute: Operation | None = None
    read: TiledLoadOp | None = None
    fill: int | None = None
    take: Sum | None = None
    give: Sum | None = None
    issue: StepProduct | None = None


class TensorStepChain(StepChain):
    """One kernel, and its loop with products, or one of which it computes something. Unfit where it stays as it is."""

    issues_apart = True

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp], most: int):
        super().__init__(function, gpu, products, most)
        self.sums: list[Sum] = []
        for product in self.products:
            self._add(product)
        for sum_ in self.sums:
            self._check_sum(sum_)
        if len(self.products) == 1 and self.sums[0].carried is not None and not self.reads:
            # A sum that the warps take each time for nothing: products would wait for them.
            raise Unfit("the loop computes nothing of its product, nor of what that reads")
        self.places_of_sums = self._stages_of_sums()
        """The sums that have a stage in tensor memory together, in the order of their turns."""
        count = tensor_products.results_at_a_time(
            [shape_of(turns[0].last.result.type) for turns in self.places_of_sums], self.spec
        )
        self.at_a_time = 1 if len(self.products) > 1 or self.sums[0].is_given_back else count
        """Results of a lone product, of which the next one is computed while warps work on one."""
        self.order = list(self._order())

    # -- what fits --------------------------------------------------------------------------------------------------

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        check_lies(product, tcgen05.register_layout, self.spec.num_warps, "as warps load it from tensor memory")
        return tensor_products.instruction(product, self.gpu)

    def _lies_in_registers(self, product: DotOp, atom: MmaAtomAttr) -> bool:
        return False

    def _check_registers(self) -> None:
        """Sums lie in tensor memory. Unfit where that of a lone product, which is loaded in each step, has no registers
        beside what the loop carries."""
        shape = shape_of(self.products[0].op.result.type)
        loaded = prod(shape) // (self.spec.num_warps * self.gpu.warp_size)
        budgets = tensor_products.has_budgets(self.spec)
        limit = tensor_products.BUDGETS[1][0] if budgets else consumer_registers(self.spec, self.gpu, None)
        if len(self.products) == 1 and loaded + self._carried + OTHER_REGISTERS > limit:
            named = "x".join(map(str, shape))
            raise Unfit(f"results of {named} and what the loop carries do not fit the registers of a thread")

    def _add(self, product: StepProduct) -> None:
        """Have a product add to its sum."""
        before = product.op.c
        found = next((s for s in self.sums if s.last.result is before), None)
        if found is not None and before.has_one_use():
            found.products.append(product)
        elif isinstance(before, BlockArgument) and before.block is self.body and before.index > 0:
            self.sums.append(Sum([product], before.index - 1))
        elif is_zero(before):
            self.sums.append(Sum([product], None))
        else:
            self.sums.append(Sum([product], None, before))

    def _check_sum(self, sum_: Sum) -> None:
        """A sum stays in tensor memory that is used by the next step alone."""
        last = self.body.last_op
        assert last is not None
        if sum_.carried is None:
            return
        users = [use.operation for use in sum_.last.result.uses]
        if users != [last] or last.operands[sum_.carried] is not sum_.last.result:
            sum_.given, sum_.carried = self.body.args[1 + sum_.carried], None

    def _stages_of_sums(self) -> list[list[Sum]]:
        """As many sums with a stage of their own as there are columns for."""
        place, lives = {p: n for n, p in enumerate(self.products)}, []
        for number, sum_ in enumerate(self.sums):
            size = tcgen05.result_columns(shape_of(sum_.last.result.type))
            span = place[sum_.products[0]], place[sum_.products[-1]]
            lives.append(TileLife(number, size, sum_.last.result.type, *span, held=sum_.is_given_back))
        free = tcgen05.COLUMNS // (self.spec.occupancy or 1)
        missing = tensor_columns.together(shape_of(sum_.last.result.type) for sum_ in self.sums) - free
        return [[self.sums[n] for n in turns] for turns in share_stages(lives, missing)]

    def _stage_of(self, sum_: Sum) -> int:
        """The number of the stage where a sum lies."""
        return next(n for n, turns in enumerate(self.places_of_sums) if sum_ in turns)

    def _sums_before(self, sum_: Sum) -> list[Sum]:
        """The sums that have turns at a stage before another one."""
        turns = self.places_of_sums[self._stage_of(sum_)]
        return turns[: turns.index(sum_)]

    def _order(self) -> list[_Event]:
        """What is done in a step, one after the other. Products come as early as they can, and results are taken when
        nothing else is left."""
        found = [_Event(take=s) for s in self.sums if s.carried is not None]
        todo, filled = list(self.ops), set(self.once)
        there = {s.last.result for s in self.sums if s.carried is not None}
        issued: list[StepProduct] = []
        by_op = {p.op: p for p in self.products}
        bridges = dict(zip(self.bridged, self.bridges.values()))

        def is_there(value: SSAValue) -> bool:
            owner = value.owner
            if not isinstance(owner, Operation) or owner.parent is not self.body:
                return True
            return value in there if owner in by_op else owner not in todo

        given = set[Sum]()

        def begun(number: int) -> bool:
            """Whether a product that reads an operand has been issued, or the warps have read it."""
            read = any(number == n and load not in todo for load, (n, _) in self.reads.items())
            return read or any(number in (p.a, p.b) for p in issued)

        def can_issue(product: StepProduct) -> bool:
            numbers = {n for n in (product.a, product.b) if n is not None}
            if any(n in bridges and n not in filled for n in numbers):
                return False
            if any(m not in numbers and not begun(m) for n in numbers for m in self.before(n)):
                return False
            group = next(s for s in self.sums if product in s.products)
            if group.given is not None and group not in given:
                return False
            if any(s.last.result not in there for s in self._sums_before(group)):
                return False
            return all(p in issued for p in group.products[: group.products.index(product)])

        def is_over(number: int) -> bool:
            """Whether everything has been done that reads an operand."""
            products = all(p in issued for p in self.products if number in (p.a, p.b))
            return products and all(load not in todo for load, (n, _) in self.reads.items() if n == number)

        while todo:
            acts = False
            before = len(found)
            for op in [op for op in todo if op not in by_op and op not in self.reads]:
                pure = is_pure(op)
                if (pure or not acts) and all(map(is_there, uses_of(op))):
                    found.append(_Event(compute=op))
                    todo.remove(op)
                else:
                    acts = acts or not pure
            for number, bridge in bridges.items():
                if number not in filled and all(map(is_over, self.before(number))) and is_there(bridge.value):
                    found.append(_Event(fill=number))
                    filled.add(number)
            for sum_ in self.sums:
                if sum_.given is not None and sum_ not in given and is_there(sum_.given):
                    found.append(_Event(give=sum_))
                    given.add(sum_)
            ready = next((by_op[op] for op in todo if isinstance(op, DotOp) and can_issue(by_op[op])), None)
            if ready is not None:
                found.append(_Event(issue=ready))
                issued.append(ready)
                todo.remove(ready.op)
            if len(found) > before:
                continue
            free = (load for load, (n, _) in self.reads.items() if load in todo and all(map(begun, self.before(n))))
            if (load := next(free, None)) is not None:
                found.append(_Event(read=load))
                todo.remove(load)
                continue
            whole = [s for s in self.sums if s.carried is None and s.last.result not in there]
            taken = next((s for s in whole if all(p in issued for p in s.products)), None)
            if taken is None:
                raise unsupported(todo[0], "comes behind nothing that is left in its loop", self.gpu.name)
            there.add(taken.last.result)
            found.append(_Event(take=taken))
        left = [s for s in self.sums if s.last.result not in there]
        return [*found, *(_Event(take=s) for s in left)]

    # -- the new code -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        loop, block = self.loop, self.function.body.block
        start = loop if self.outer is None else self.outer
        at = Inserter(block, start, loop.location)
        descriptors = [o.descriptor(at, number) for number, o in enumerate(self.operands)]
        kinds = [(feed.type, feed.ctas) for feed in self.feeds]
        for feed, pipe in zip(self.feeds, make_pipelines(at, kinds)):
            feed.pipe = pipe
        for turns in self.places_of_sums:
            tile = turns[0].last.result.type
            assert isinstance(tile, TensorType)
            made = Results.make(at, tile, self.at_a_time)
            for sum_ in turns:
                sum_.results = made
        count = trips(at, loop) if self.outer is None else None
        consumer, producer, issuer = (Inserter(Block(), None, loop.location) for _ in range(3))
        self.produce(producer, self.copied, descriptors)
        self._multiply(issuer, count)
        self._compute(consumer, count)
        blocks = consumer.block, producer.block, issuer.block
        at.add(tensor_products.agents(self.spec.num_warps, *blocks, budgets=self._has_budgets()))
        for first, *_ in self.places_of_sums:
            at.add(DeallocTensorOp.make(first.place.storage))
        start.detach()
        start.erase()
        drop_unused(block)

    def _has_budgets(self) -> bool:
        """Whether the warps need registers of the other agents: for sums that stay with them, beside a result, where
        an equal share does not hold these."""

        def each(sum_: Sum) -> int:
            return prod(shape_of(sum_.last.result.type)) // (self.spec.num_warps * self.gpu.warp_size)

        kept = sum(each(s) for s in self.sums if s.given is not None)
        if len(self.products) == 1:
            kept = self._carried
        taken = max((each(s) for s in self.sums if s.given is None), default=0)
        share = consumer_registers(self.spec, self.gpu, None)
        return tensor_products.has_budgets(self.spec) and kept + taken + OTHER_REGISTERS > share

    # -- the thread that issues products ----------------------------------------------------------------------------

    def _multiply(self, at: Inserter, count: SSAValue | None) -> None:
        """It is made before `_compute`, which takes over the loop over tiles."""
        starts: list[SSAValue] = [feed.start(at) for feed in self.multiplied]
        starts += [first.place.start(at) for first, *_ in self.places_of_sums]
        if count is not None:
            self._issue_steps(at, count, starts)
        else:
            assert self.outer is not None
            nests.repeat(
                at, self.outer, self.loop, nests.needed(self.outer, self.loop, (), ()), starts,
                lambda at, places, values: self._issue_steps(at, trips(at, self.loop, values), places),
            )  # fmt: skip
        at.add(PipelineYieldOp.make())

    def _issue_steps(self, at: Inserter, count: SSAValue, given_places: Sequence[SSAValue]) -> list[SSAValue]:
        """The products of so many steps, from places of the feeds and of the sums on; the places behind
        them, in a loop over tiles."""
        number = number_type(self.loop)
        zero, one = (at.value(arith.ConstantOp(IntegerAttr(n, number))) for n in (0, 1))
        starts = list(given_places)
        held = {n: (self.wait(at, n, place), place) for n in self.once for place in [starts[self._feed(n)]]}
        stay = {self._feed(n) for n in held}
        for n, (sum_, *_) in enumerate(self.places_of_sums, len(self.multiplied)):
            if sum_.is_given_back:
                token = self._acquire(at, sum_, starts[n])
                written = self._write(at, sum_, token, starts[n], lambda inside, stage: None)
                at.add(ProducerCommitOp.make(written, after_products=True))
                starts[n] = self._next(at, starts[n])
        moving = [n for n in range(len(starts)) if n not in stay]
        given = [starts[n] for n in moving]
        body = Block(arg_types=[number, *(place.type for place in given)])
        each = Inserter(body, None, at.location)
        places = [*starts]
        for n, argument in zip(moving, body.args[1:]):
            places[n] = argument
        self._issue_step(each, places, held)
        each.add(scf.YieldOp(*(self._next(each, places[n]) for n in moving)))
        ends = dict(zip(moving, at.add(scf.ForOp(zero, count, one, given, body)).results))
        if self.outer is None:
            return []
        for token, _ in held.values():
            # Who fills the stage again has taken all sums before: the products that read it have ended.
            at.add(ConsumerReleaseOp.make(token))
        return [ends[n] if n in ends else self._next(at, place) for n, place in enumerate(starts)]

    @staticmethod
    def _next(at: Inserter, place: SSAValue) -> SSAValue:
        return at.value(IncIterOp.make(place, results=[place.type]))

    @staticmethod
    def _acquire(at: Inserter, sum_: Sum, place: SSAValue) -> SSAValue:
        result = sum_.place
        return at.value(ProducerAcquireOp.make(result.pipe, place, results=[ProducerTokenType([result.type])]))

    @staticmethod
    def _write(at: Inserter, sum_: Sum, token: SSAValue, place: SSAValue, fill: Fill) -> SSAValue:
        stage = Block(arg_types=[sum_.place.type])
        inside = Inserter(stage, None, at.location)
        fill(inside, stage.args[0])
        inside.add(PipelineYieldOp.make())
        return at.value(ProducerWriteOp.make(token, place, results=[token.type, []], regions=[Region(stage)]))

    def _feed(self, number: int) -> int:
        """The place of an operand's pipeline among those that products read."""
        return self.multiplied.index(self.feed_of(number))

    @property
    def multiplied(self) -> list[Feed]:
        """The pipelines that products read; warps alone read the others."""
        read = {self.feed_of(n) for product in self.products for n in (product.a, product.b) if n is not None}
        return [feed for feed in self.feeds if feed in read]

    def _issue_step(self, at: Inserter, places: list[SSAValue], once: Mapping[int, tuple[SSAValue, SSAValue]]) -> None:
        """The products of a step, from places of the feeds and of the sums on, which become those of the last turns;
        `once` are the tokens and places of stages that are held through all steps."""
        where = {n: place for n, (_, place) in once.items()}
        left = {n: sum((n == p.a) + (n == p.b) for p in self.products) for n in range(self.bridged.stop)}
        tokens: dict[int, SSAValue] = {}
        held: dict[Sum, SSAValue] = {}
        for product in [event.issue for event in self.order if event.issue is not None]:
            sum_ = next(s for s in self.sums if product in s.products)
            stage = len(self.multiplied) + self._stage_of(sum_)
            if sum_ not in held:
                if self._sums_before(sum_):
                    places[stage] = self._next(at, places[stage])
                held[sum_] = self._acquire(at, sum_, places[stage])
            for n in sorted({n for n in (product.a, product.b) if n is not None}):
                if n not in tokens and n not in once:
                    feed = self._feed(n)
                    if self.before(n):
                        places[feed] = at.value(IncIterOp.make(places[feed], results=[places[feed].type]))
                    where[n] = places[feed]
                    tokens[n] = self.wait(at, n, where[n])
            granted = {**{n: token for n, (token, _) in once.items()}, **tokens}
            issue = partial(self._issue_one, product=product, tokens=granted, places=where)
            held[sum_] = self._write(at, sum_, held[sum_], places[stage], issue)
            for number in (product.a, product.b):
                if number is not None:
                    left[number] -= 1
            for n in [n for n in tokens if not left[n]]:
                at.add(ConsumerReleaseOp.make(tokens.pop(n), after_products=True))
            if product is sum_.products[-1]:
                at.add(ProducerCommitOp.make(held[sum_], after_products=True))

    def _issue_one(
        self, at: Inserter, result: SSAValue, *, product: StepProduct, tokens: Mapping[int, SSAValue],
        places: Mapping[int, SSAValue],
    ) -> None:  # fmt: skip
        """A product within the turns of the stages that it reads."""
        sum_ = next(s for s in self.sums if product in s.products)
        adds = sum_.is_given_back or product is not sum_.products[0]
        numbers = [n for n in dict.fromkeys((product.a, product.b)) if n is not None]
        blocks = {n: Block(arg_types=self.feed_of(n).types) for n in numbers}
        inner, around = at, []
        for n, block in blocks.items():
            around.append((inner, n, block))
            inner = Inserter(block, None, at.location)
        assert product.a is not None
        tiles = [self.seen(inner, n, blocks[n].args[0]) for n in (product.a, product.b)]
        more = inner.value(arith.ConstantOp(IntegerAttr(int(adds), i1)))
        tensor_products.issue_one(inner, product.op, product.atom, (tiles[0], tiles[1]), result, more)
        for outer, n, block in reversed(around):
            Inserter(block, None, at.location).add(PipelineYieldOp.make())
            held = ConsumerTokenType(self.feed_of(n).types)
            outer.add(ConsumerReadOp.make(tokens[n], places[n], results=[held, []], regions=[Region(block)]))

    # -- the warps that compute -------------------------------------------------------------------------------------

    def _compute(self, at: Inserter, count: SSAValue | None) -> None:
        once = self.once
        used = [n for n in self.bridged if n not in once] + [n for n, _ in self.reads.values()]
        moving = list(dict.fromkeys(map(self.feed_of, used)))
        starts: list[SSAValue] = [feed.start(at) for feed in (*map(self.feed_of, once), *moving)]
        starts += [first.place.start(at) for first, *_ in self.places_of_sums]
        self.consume_from(at, starts, lambda at, places: self._steps(at, places, count, moving))

    def _steps(
        self, at: Inserter, given_places: Sequence[SSAValue], whole_count: SSAValue | None, moving: Sequence[Feed]
    ) -> tuple[dict[int, SSAValue], list[SSAValue]]:
        """All steps of the warps from places on: of tiles that are brought once, of others and those that are read from
        stages, whose pipelines are `moving`, and of sums. What the loop gives, by number, and the places behind, in a
        loop over tiles."""
        loop = self.loop
        count = trips(at, loop) if whole_count is None else whole_count
        held, starts = list(given_places[: len(self.once)]), list(given_places[len(self.once) :])
        for n, place in zip(self.once, held):
            self.bring(at, n, place, {})
        kept_tokens: list[SSAValue] = []
        for n, (sum_, *_) in enumerate(self.places_of_sums, len(moving)):
            if sum_.given is not None:
                kept_tokens.append(self._wait_for(at, sum_, starts[n]))
                starts[n] = self._next(at, starts[n])
        kept = {s.carried for s in self.sums if s.carried is not None}
        others = [n for n in range(len(loop.results)) if n not in kept]
        carried = [loop.iter_args[n] for n in others]
        body = Block(arg_types=[self.body.args[0].type, *(v.type for v in (*carried, *starts, *kept_tokens))])
        each = Inserter(body, None, loop.location)
        values: Values = {self.body.args[0]: body.args[0]}
        values |= {self.body.args[1 + n]: a for n, a in zip(others, body.args[1:])}
        places = body.args[1 + len(others) : 1 + len(others) + len(starts)]
        tokens: dict[Sum, SSAValue] = dict(zip(self._given, body.args[1 + len(others) + len(starts) :]))
        of_feeds: dict[Feed, SSAValue] = dict(zip(moving, places))
        of_stages: list[SSAValue] = list(places[len(moving) :])
        for operand in self.operands:
            if (token := operand.load.result_token) is not None:
                # Copies have ended before their products do: what their tokens order is ordered.
                values[token] = each.value(CreateMemTokenOp.make(results=[MemTokenType()]))
        for event in self.order:
            if event.compute is not None:
                each.clone([event.compute], values)
            elif event.read is not None:
                values[event.read.value] = self._read(
                    each, event.read, self._turn(each, self.reads[event.read][0], of_feeds)
                )
            elif event.fill is not None:
                self.bring(each, event.fill, self._turn(each, event.fill, of_feeds), values)
            elif event.give is not None:
                self._give(each, event.give, of_stages[self._stage_of(event.give)], tokens[event.give], values)
            elif event.take is not None:
                sum_, n = event.take, self._stage_of(event.take)
                if self._sums_before(sum_):
                    of_stages[n] = self._next(each, of_stages[n])
                tokens[sum_] = self._take(each, sum_, of_stages[n], values)
                if sum_.given is None:
                    each.add(ConsumerReleaseOp.make(tokens[sum_]))
        last = self.body.last_op
        assert last is not None
        given = [values.get(last.operands[n], last.operands[n]) for n in others]
        following = [self._next(each, place) for place in (*of_feeds.values(), *of_stages)]
        each.add(scf.YieldOp(*given, *following, *(tokens[s] for s in self._given)))
        made = scf.ForOp(loop.lb, loop.ub, loop.step, [*carried, *starts, *kept_tokens], body)
        made.attributes.update(loop.attributes)
        at.add(made)
        for token in made.results[len(others) + len(starts) :]:
            at.add(ConsumerReleaseOp.make(token))
        behind: list[SSAValue] = list(made.results[len(others) : len(others) + len(starts)])
        for place_of, (sum_, *_) in enumerate(self.places_of_sums, len(moving)):
            if sum_.carried is not None:
                n = sum_.carried
                sum_.place.read(at, count, loop.iter_args[n], loop.results[n], behind[place_of])
        ends: dict[int, SSAValue] = dict(zip(others, made.results))
        if self.outer is None:
            return ends, []
        for place_of, (sum_, *_) in enumerate(self.places_of_sums, len(moving)):
            if sum_.carried is not None:
                behind[place_of] = self._next(at, behind[place_of])
        return ends, [*(self._next(at, place) for place in held), *behind]

    def _turn(self, at: Inserter, number: int, places: dict[Feed, SSAValue]) -> SSAValue:
        """The place of an operand in its pipeline, which becomes that of the pipeline's last turn."""
        feed = self.feed_of(number)
        if self.before(number):
            places[feed] = self._next(at, places[feed])
        return places[feed]

    def _read(self, at: Inserter, load: TiledLoadOp, place: SSAValue) -> SSAValue:
        """A tile that the warps read from its stage, which they release."""
        number, read = self.reads[load]
        token, (tile,) = self.feed_of(number).read(
            at, place, lambda inside, stage: [read.read(inside, self.seen(inside, number, stage[0]))]
        )
        at.add(ConsumerReleaseOp.make(token))
        return tile

    @property
    def _given(self) -> list[Sum]:
        return [s for s in self.sums if s.given is not None]

    @staticmethod
    def _wait_for(at: Inserter, sum_: Sum, place: SSAValue) -> SSAValue:
        result = sum_.place
        wait = ConsumerWaitOp.make(result.pipe, place, results=[ConsumerTokenType([result.type])])
        return at.value(wait, sum_.last.location)

    def _give(self, at: Inserter, sum_: Sum, place: SSAValue, token: SSAValue, values: Values) -> None:
        """Store what products add to, and give the storage, the only stage, which the warps have held since the step
        before."""
        result, given = sum_.place, sum_.given
        assert given is not None
        stage = Block(arg_types=[result.type])
        inside = Inserter(stage, None, at.location)
        inside.add(CopyOp.make(values.get(given, given), stage.args[0]))
        inside.add(PipelineYieldOp.make())
        held = ConsumerTokenType([result.type])
        done = at.add(ConsumerReadOp.make(token, place, results=[held, []], regions=[Region(stage)]))
        at.add(ConsumerReleaseOp.make(done.results[0]))

    def _take(self, at: Inserter, sum_: Sum, place: SSAValue, values: Values) -> SSAValue:
        """Wait for a sum, and load it if something is computed of it: the token by which its storage is given back. In
        front of the first step what it begins with is stored there."""
        result = sum_.place
        held = ConsumerTokenType([result.type])
        token = self._wait_for(at, sum_, place)
        stage = Block(arg_types=[result.type])
        inside = Inserter(stage, None, at.location)
        value: SSAValue = sum_.last.result
        if sum_.carried is not None:
            value, initial = self.body.args[1 + sum_.carried], self.loop.iter_args[sum_.carried]
            index = values[self.body.args[0]]
            first = inside.value(arith.CmpiOp(index, self.loop.lb, "eq"))
            nothing = Block()
            instead = Inserter(nothing, None, at.location)
            instead.add(CopyOp.make(initial, stage.args[0]))
            instead.add(scf.YieldOp())
            inside.add(scf.IfOp(first, [], [nothing]))
            loads = any(use.operation is not sum_.products[0].op for use in value.uses)
        else:
            loads = value.first_use is not None
        types = [value.type] if loads else []
        made = [inside.value(CopyOp.make(stage.args[0], results=[value.type]))] if loads else []
        inside.add(PipelineYieldOp.make(made))
        done = at.add(ConsumerReadOp.make(token, place, results=[held, types], regions=[Region(stage)]))
        if loads:
            values[value] = done.results[1]
        return done.results[0]
