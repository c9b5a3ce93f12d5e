# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops with several products whose operands the loop computes of other products, and of what it carries, by wgmma.

    for ... iter_args(state)              stage: q, k, v
      s = dot q, k^T                      issued; its operands are tiles of the stage
      o = dot q, narrow(state)            the consumers write narrow(state) to shared memory (a bridge), and issue
      state' = dot k^T, v, state          issued
      o' = dot mask(s), v, o              s is waited for, and mask(s) is read from registers
      store o'

A product is issued as soon as what it takes is there, and waited for when something is left that needs it, so that as
much as can be is under way together. Each tile that TMA copies has a ring of its own, whose stage is released when the
last product that reads it has ended. An operand that consumers compute is read from registers where it lies so, else
from a bridge: a pipeline of one stage that consumers both fill and read, since each of them has a part of the tile. One
that is there before the loop is brought once, and its stage is held through all steps. A loop that loads nothing
(x' = 2 x - x a x) has no producer: the kernel's warps are the only agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.atoms import wgmma
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.async_products import MAX_GROUPS, AsyncDotOp, WaitDotOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp, ConsumerReadOp, ConsumerReleaseOp, PipelineYieldOp
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.types import ConsumerTokenType
from libtile.ir.places import uses_of
from libtile.ir.tile_form import shape_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.agents.cluster_pipelines import end_agents, make_pipelines
from libtile.lowering.tileas.agents.consumers import (
    OTHER_REGISTERS,
    check_lies,
    consumer_registers,
    instruction,
    lies_as_left,
    tile_registers,
)
from libtile.lowering.tileas.agents.feeds import Feed
from libtile.lowering.tileas.agents.step_chains import StepChain, StepProduct, Values
from libtile.lowering.tileas.ahead import is_inside
from libtile.lowering.tileas.cleanup import drop_unused, is_pure
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.inserter import Inserter, array_of
from libtile.lowering.tileas.wgmma.specialize_chains import BUDGETS, budget_of, consumers_and_producer
from libtile.lowering.tileas.wgmma.under_way import early_operands, registers_under_way
from libtile.support.records import dataclass

LEAST_REGISTERS = 32
"""Of a consumer's thread, beside the results of products, that a loop takes at least."""


class WgmmaStepChain(StepChain):
    """One kernel, and its loop with several products. Unfit where it stays as it is."""

    # -- what fits --------------------------------------------------------------------------------------------------

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        """The instruction of a product, whose accumulator has to lie as that wants it."""
        warps = self.spec.num_warps
        shares = wgmma.column_groups(shape_of(product.result.type)[0], warps)
        check_lies(product, wgmma.shared_layout, warps, "in whole rows of warps, or in columns of warpgroups")
        return instruction(product, self.gpu, consumer_registers(self.spec, self.gpu, None), shares=shares)

    def _lies_in_registers(self, product: DotOp, atom: MmaAtomAttr) -> bool:
        """Whether a left operand is in registers as the instruction reads it."""
        return lies_as_left(product.a, atom, self.spec.num_warps)

    def _check_registers(self) -> None:
        """Unfit where sums that are under way together take more registers than a consumer's thread has."""
        taken = self._carried + registers_under_way(self.body, self.products)
        found, produced = LEAST_REGISTERS + taken, bool(self.copied)
        self.budget = BUDGETS.get(self.spec.num_warps) if produced else None
        if produced and self.budget is None and OTHER_REGISTERS + taken > consumer_registers(self.spec, self.gpu, None):
            self.budget = budget_of(self.spec, self.gpu)
        limit = consumer_registers(self.spec, self.gpu, self.budget, produced=produced)
        if found > limit:
            raise Unfit(f"a thread has {limit} registers, and the loop's products take {found}")

    def _early(self) -> list[StepProduct]:
        """Left operands that wait for no product, where a thread has no registers for them beside results."""
        early = early_operands(self.body, self.products)
        taken = self._carried + registers_under_way(self.body, self.products) + LEAST_REGISTERS
        limit = consumer_registers(self.spec, self.gpu, self.budget, produced=bool(self.copied))
        return early if taken + sum(tile_registers(product.op.a) for product in early) > limit else []

    # -- the new code -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        loop, outer, block = self.loop, self.outer, self.function.body.block
        start = loop if outer is None else outer
        at = Inserter(block, start, loop.location)
        descriptors = [o.descriptor(at, number) for number, o in enumerate(self.operands)]
        kinds = [(feed.type, feed.ctas) for feed in self.feeds]
        for feed, pipe in zip(self.feeds, make_pipelines(at, kinds)):
            feed.pipe = pipe
        consumer, producer = Block(), Block()
        if self.copied:  # before consumers take over what is around the loop
            self.produce(Inserter(producer, None, loop.location), self.copied, descriptors)
        self._consume(Inserter(consumer, None, loop.location))
        if self.copied:
            agents = consumers_and_producer(self.spec, consumer, producer, self.budget)
        else:
            agents = AgentSwitchOp.make(regions=[Region(consumer)], agent_warps=array_of(self.spec.num_warps))
        end_agents(at, agents, kinds)
        start.detach()
        start.erase()
        drop_unused(block)

    def _consume(self, at: Inserter) -> None:
        # Consumers are at one place of a copied tile's ring, and at two of a bridge's: where they write, and read.
        starts = [feed.start(at) for feed in (*self.feeds, *self.feeds[len(self.copied) :])]
        self.consume_from(at, starts, self._steps)

    def _steps(self, at: Inserter, starts: Sequence[SSAValue]) -> tuple[dict[int, SSAValue], list[SSAValue]]:
        """All steps from places on: what the loop gives, by number, and the places behind them."""
        loop, bridges = self.loop, self.feeds[len(self.copied) :]
        reading = dict(zip(self.feeds, starts))
        filling = dict(zip(bridges, starts[len(self.feeds) :]))
        held = dict[int, tuple[SSAValue, SSAValue]]()
        for n in self.once:
            feed = self.feed_of(n)
            self.bring(at, n, filling[feed], {})
            held[n] = self.wait(at, n, reading[feed]), reading[feed]
        stay = list(dict.fromkeys(self.feed_of(n) for n in held))
        moving = [(places, feed) for places in (reading, filling) for feed in places if feed not in stay]
        given = [places[feed] for places, feed in moving]
        body = Block(arg_types=[*(a.type for a in self.body.args), *(v.type for v in given)])
        each = Inserter(body, None, loop.location)
        inside = dict(reading), dict(filling)
        for (places, feed), argument in zip(moving, body.args[len(self.body.args) :]):
            inside[places is filling][feed] = argument
        step = _Step(self, each, dict(zip(self.body.args, body.args)), *inside, held)
        step.run()
        last = self.body.last_op
        assert last is not None
        carried = [step.values.get(v, v) for v in last.operands]
        following = [feed.next(each, inside[places is filling][feed]) for places, feed in moving]
        each.add(scf.YieldOp(*carried, *following))
        made = scf.ForOp(loop.lb, loop.ub, loop.step, [*loop.iter_args, *given], body)
        made.attributes.update(loop.attributes)
        at.add(made)
        for token, _ in held.values():
            at.add(ConsumerReleaseOp.make(token))
        results: list[SSAValue] = list(made.results)
        for (places, feed), end in zip(moving, results[len(loop.results) :]):
            places[feed] = end
        for feed in stay:
            for places in (reading, filling):
                places[feed] = feed.next(at, places[feed])
        return dict(enumerate(results[: len(loop.results)])), [*reading.values(), *filling.values()]


@dataclass(eq=False)
class _Group:
    """A product that is under way."""

    product: StepProduct
    result: SSAValue
    left: SSAValue | None


class _Step:
    """A step of the consumers, as it is made: what stands for values of the loop's body, and what is under way."""

    def __init__(
        self, chain: StepChain, at: Inserter, values: Values, reading: dict[Feed, SSAValue],
        filling: dict[Feed, SSAValue], held: Mapping[int, tuple[SSAValue, SSAValue]],
    ):  # fmt: skip
        self.chain, self.at, self.values = chain, at, values
        self.reading, self.filling = reading, filling
        """Where consumers read next, and fill bridges."""
        self.held = held
        """The tokens and places of stages that are held through all steps, by the numbers of operands."""
        self.products = {product.op: product for product in chain.products}
        self.todo: list[Operation] = list(chain.ops)
        self.groups: list[_Group] = []
        self.tokens: dict[int, SSAValue] = {}
        """Of the other stages that are held, by the numbers of operands."""
        self.places: dict[int, SSAValue] = {}
        """Of these and of all that were."""
        self.filled = set(held)
        """Bridges that consumers have filled."""
        self.left = [chain.readers(n) for n in range(chain.bridged.stop)]
        """Products that have not ended and read an operand, and warps that have not read it."""
        for operand in chain.operands:
            if (token := operand.load.result_token) is not None:
                # Copies have ended before their products do: what their tokens order is ordered.
                values[token] = at.value(CreateMemTokenOp.make(results=[MemTokenType()]))

    def run(self) -> None:
        """Make the step: products as soon as what they take is there, then what needs none that is under way."""
        while self.todo:
            # ptxas waits for all products where registers of a sum are read while one is under way.
            if self._compute_ready() or self._fill_ready() or self._issue_ready() or self._read_ready():
                continue
            if self.groups:
                self._wait(self._needed(self.todo[0]))
            elif not self._issue_ready(copying=True):
                raise unsupported(self.todo[0], "comes behind nothing that is left in its loop", self.chain.gpu.name)
        if self.groups:
            self._wait(len(self.groups))

    def _issue_ready(self, *, copying: bool = False) -> bool:
        """Issue a product, if there is one that can be; `copying` also one of whose sum something else is computed."""
        for op in self.todo:
            product = self.products.get(op) if isinstance(op, DotOp) else None
            if product is not None and self._can_issue(product, copying=copying):
                self._issue(product)
                self.todo.remove(op)
                return True
        return False

    def _compute_ready(self) -> bool:
        found = False
        acts = False
        for op in list(self.todo):
            if op in self.products or op in self.chain.reads:
                continue
            pure = is_pure(op)
            if (pure or not acts) and all(map(self._is_there, uses_of(op))):
                self.at.clone([op], self.values)
                self.todo.remove(op)
                found = True
            else:
                acts = acts or not pure
        return found

    def _read_ready(self) -> bool:
        """Have the warps read a tile from its stage, when all products are issued that can be."""
        for load, (number, read) in self.chain.reads.items():
            if load not in self.todo or any(m not in self.places for m in self.chain.before(number)):
                continue
            self._hold(number)
            feed, token, place = self.chain.feed_of(number), self.tokens[number], self.places[number]
            stage = Block(arg_types=feed.types)
            inside = Inserter(stage, None, self.at.location)
            tile = read.read(inside, self.chain.seen(inside, number, stage.args[0]))
            inside.add(PipelineYieldOp.make([tile]))
            held = ConsumerTokenType(feed.types)
            done = self.at.add(ConsumerReadOp.make(token, place, results=[held, [tile.type]], regions=[Region(stage)]))
            self.tokens[number], self.values[load.value] = done.results
            self.left[number] -= 1
            self.todo.remove(load)
            self._release()
            return True
        return False

    def _can_issue(self, product: StepProduct, *, copying: bool) -> bool:
        """Whether what a product takes is there: sums may be under way, if nothing else is to use them. What is
        computed of a sum comes before another product adds to its registers, unless these are copied."""
        op = product.op
        numbers = {n for n in (product.a, product.b) if n is not None}
        if any(n in self.chain.bridged and n not in self.filled for n in numbers):
            return False
        if any(m not in self.places and m not in numbers for n in numbers for m in self.chain.before(n)):
            return False
        if product.a is None and not self._is_there(op.a):
            return False
        others = [use.operation for use in op.c.uses if use.operation is not op]
        waits = any(self._is_or_holds_todo(other) for other in others) and is_inside(op.c, self.chain.body)
        if self._is_there(op.c):
            return copying or not waits
        return not others and any(group.product.op.result is op.c for group in self.groups)

    def _is_or_holds_todo(self, op: Operation) -> bool:
        at: Operation | None = op
        while at is not None and at.parent is not self.chain.body:
            at = at.parent_op()
        return at in self.todo

    def _is_there(self, value: SSAValue) -> bool:
        """Whether a value is computed, and not under way."""
        owner = value.owner
        if not isinstance(owner, Operation) or owner.parent is not self.chain.body:
            return True
        return owner not in self.todo and all(group.product.op is not owner for group in self.groups)

    def _needed(self, op: Operation) -> int:
        """How many of the groups that are under way have to end before an op can be done."""
        wanted = [op]
        for _ in range(len(self.todo)):
            for value in [v for o in wanted for v in uses_of(o)]:
                owner = value.owner
                if isinstance(owner, Operation) and owner in self.todo and owner not in wanted:
                    wanted.append(owner)
        used = {v for o in wanted for v in uses_of(o)}
        products = [self.products[o] for o in wanted if isinstance(o, DotOp) and o in self.products]
        unfilled = {n for p in products for n in (p.a, p.b) if n in self.chain.bridged and n not in self.filled}
        given_back = {m for n in unfilled if n is not None for m in self.chain.before(n)}
        last = [
            n
            for n, group in enumerate(self.groups)
            if group.product.op.result in used or not given_back.isdisjoint((group.product.a, group.product.b))
        ]
        return min(last) + 1 if last else len(self.groups)

    # -- products ---------------------------------------------------------------------------------------------------

    def _issue(self, product: StepProduct) -> None:
        """Issue a product within the turns of the stages that it reads."""
        op, at, numbers = product.op, self.at, {n for n in (product.a, product.b) if n is not None}
        if len(self.groups) == MAX_GROUPS - 1:  # as many as a wait can leave under way
            self._wait(1)
        for number in sorted(numbers - set(self.held)):
            self._hold(number)
        # Stages that are released stand around those that stay, so that their tokens are not within another region.
        inwards = sorted(numbers, key=lambda n: (n in self.held, n))
        blocks = {number: Block(arg_types=self.chain.feed_of(number).types) for number in inwards}
        inner = at
        around = []
        for number, block in blocks.items():
            around.append((inner, number, block))
            inner = Inserter(block, None, at.location)
        left = self.values.get(op.a, op.a) if product.a is None else None
        a = left if product.a is None else self.chain.seen(inner, product.a, blocks[product.a].args[0])
        b = self.chain.seen(inner, product.b, blocks[product.b].args[0])
        assert a is not None
        c = self._sum(op.c)
        result = inner.value(
            AsyncDotOp.make(
                a, b, c, results=[c.type], atom=product.atom,
                signedness_a=op.signedness_a, signedness_b=op.signedness_b, fast_acc=op.fast_acc is not None,
            ),
            op.location,
        )  # fmt: skip
        for outer, number, block in reversed(around):
            feed = self.chain.feed_of(number)
            token, place = self.held.get(number) or (self.tokens[number], self.places[number])
            Inserter(block, None, at.location).add(PipelineYieldOp.make([result]))
            done = outer.add(
                ConsumerReadOp.make(
                    token, place, results=[ConsumerTokenType(feed.types), [c.type]],
                    regions=[Region(block)],
                )
            )  # fmt: skip
            if outer is at and number not in self.held:
                self.tokens[number] = done.results[0]
            result = done.results[1]
        self.values[op.result] = result
        self.groups.append(_Group(product, result, left))

    def _sum(self, value: SSAValue) -> SSAValue:
        return self.values.get(value, value)

    def _hold(self, number: int) -> None:
        """Wait for a stage, if it is not held already: one of a shared ring when so many of those before are released
        that the producer fills it."""
        if number in self.tokens:
            return
        feed, before = self.chain.feed_of(number), self.chain.before(number)
        while len(late := [n for n in before if n in self.tokens]) >= max(feed.stages - 1, 1):
            readers = [n for n, group in enumerate(self.groups) if late[0] in (group.product.a, group.product.b)]
            if not readers:  # of the same product, which has a stage for each of its tiles
                break
            self._wait(readers[-1] + 1)
        if before:
            self.reading[feed] = feed.next(self.at, self.reading[feed])
        self.places[number] = self.reading[feed]
        self.tokens[number] = self.chain.wait(self.at, number, self.places[number])

    def _fill_ready(self) -> bool:
        """Fill the bridges whose tiles are there, and which have the next turn at a stage that nothing reads."""
        found = False
        for number, bridge in zip(self.chain.bridged, self.chain.bridges.values()):
            before, feed = self.chain.before(number), self.chain.feed_of(number)
            free = all(m in self.filled and not self.left[m] for m in before)
            if number not in self.filled and free and self._is_there(bridge.value):
                if before:
                    self.filling[feed] = feed.next(self.at, self.filling[feed])
                self.chain.bring(self.at, number, self.filling[feed], self.values)
                self.filled.add(number)
                found = True
        return found

    def _wait(self, count: int) -> None:
        """Wait for the first groups that are under way, and release the stages that nothing reads any more."""
        ended, self.groups = self.groups[:count], self.groups[count:]
        later = {group.product.op.c for group in (*ended, *self.groups)}
        results = [group for group in ended if group.product.op.result not in later]
        reads = [group.left for group in ended if group.left is not None]
        given = [group.result for group in results]
        waited = self.at.add(WaitDotOp.make(given, reads, results=[[v.type for v in given]], pending=len(self.groups)))
        for group, value in zip(results, waited.results):
            self.values[group.product.op.result] = value
        for group in ended:
            for number in (group.product.a, group.product.b):
                if number is not None:
                    self.left[number] -= 1
        self._release()

    def _release(self) -> None:
        """Release the stages that nothing reads any more."""
        for number, token in list(self.tokens.items()):
            if not self.left[number]:
                self.at.add(ConsumerReleaseOp.make(token))
                del self.tokens[number]
