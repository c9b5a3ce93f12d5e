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
that is there before the loop is brought once, and its stage is held through all steps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.atoms import wgmma
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.async_products import MAX_GROUPS, AsyncDotOp, WaitDotOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.pipeline import (
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    PipelineYieldOp,
)
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, CopyOp
from libtile.dialects.nv_tileas.tma import FenceProxyOp
from libtile.dialects.nv_tileas.types import ConsumerTokenType
from libtile.ir.places import uses_of, walk
from libtile.ir.tile_form import shape_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas import staging
from libtile.lowering.tileas.ahead import is_inside
from libtile.lowering.tileas.cleanup import drop_unused, is_pure
from libtile.lowering.tileas.cluster_pipelines import ALIGNMENT, end_agents, make_pipelines
from libtile.lowering.tileas.consumers import (
    check_accumulator,
    check_warps,
    consumer_registers,
    instruction,
)
from libtile.lowering.tileas.fed_steps import FedSteps, NotSpecialized, operand_buffer
from libtile.lowering.tileas.feeds import Feed
from libtile.lowering.tileas.materialize import Inserter
from libtile.lowering.tileas.remade import without_conversions
from libtile.lowering.tileas.schedule import stages_wanted
from libtile.lowering.tileas.shared_memory import block_bytes, rings_bytes
from libtile.lowering.tileas.specialize_chains import BUDGETS, consumers_and_producer
from libtile.lowering.tileas.tma_operands import TmaOperand, Unfit, check_token, tma_operand
from libtile.lowering.to_tileas.types import layout_of
from libtile.support.records import dataclass
from libtile.targets import Target

Values = dict[SSAValue, SSAValue]
LEAST_REGISTERS = 32
"""Of a consumer's thread, beside the results of products, that a loop takes at least."""


@dataclass(frozen=True)
class Bridge:
    """An operand that consumers compute, and that products read from shared memory: the value, in the layout in which
    threads have it, the pipeline of its buffer, and whether it is filled `once`, in front of the loop."""

    value: SSAValue
    feed: Feed
    once: bool


@dataclass(frozen=True)
class StepProduct:
    """A product, its instruction, and where its operands are: in registers where there is no number of a feed."""

    op: DotOp
    atom: MmaAtomAttr
    a: int | None
    b: int


class StepChain(FedSteps):
    """One kernel, and its loop with several products. Unfit where it stays as it is."""

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp], most: int):
        spec, loop = function.kernel_spec, products[0].parent_op()
        assert spec is not None and isinstance(loop, scf.ForOp)
        self.spec = spec
        if any(p.parent_op() is not loop for p in products):
            raise Unfit("the kernel has products in several loops")
        super().__init__(function, gpu, loop)
        check_warps(spec)
        self.tiles_by_key: dict[object, TmaOperand] = {}
        self.bridges: dict[object, Bridge] = {}
        found: list[tuple[DotOp, MmaAtomAttr, object, object]] = []
        for product in products:
            try:
                atom = self._instruction(product)
                found.append((product, atom, *self._sides(product, atom, products)))
            except Unfit as reason:
                raise NotSpecialized(str(reason), product) from None
        if not self.tiles_by_key:
            raise Unfit("TMA copies nothing to its loop")
        self._hold(list(self.tiles_by_key.values()))
        self._look_ahead()
        for operand in self.operands:
            check_token(operand.load)
        keys = [*self.tiles_by_key, *self.bridges]
        self.copied = [Feed((tile.type,), {n: 0}, tile.ctas) for n, tile in enumerate(self.operands)]
        """The rings of tiles that TMA copies."""
        self.products = [
            StepProduct(op, atom, None if a is None else keys.index(a), keys.index(b)) for op, atom, a, b in found
        ]
        self.ops = [op for op in self.body.ops if op not in self._gone() and op is not self.body.last_op]
        self._check_registers()
        self._set_stages(most)

    # -- what fits --------------------------------------------------------------------------------------------------

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        """The instruction of a product, whose accumulator has to lie as that wants it."""
        check_accumulator(product, self.spec.num_warps)
        return instruction(product, self.gpu)

    def _lies_in_registers(self, product: DotOp, atom: MmaAtomAttr) -> bool:
        """Whether a left operand is in registers as the instruction reads it."""
        type_ = product.a.type
        assert isinstance(type_, TensorType)
        wanted = wgmma.a_layout(shape_of(type_), self.spec.num_warps, 256 // atom.instruction.k)
        return layout_of(product.a) == wanted

    def _sides(self, product: DotOp, atom: MmaAtomAttr, products: Sequence[DotOp]) -> tuple[object, object]:
        """Where the operands of a product are; None for a left one in registers."""
        found: list[object] = []
        for side, value in (("a", product.a), ("b", product.b)):
            try:
                found.append(self._copied(atom, side, value, products))
                continue
            except Unfit:
                given = without_conversions(value)
            inside = is_inside(given, self.body)
            in_registers = side == "a" and inside and self._lies_in_registers(product, atom)
            found.append(None if in_registers else self._bridged(atom, side, given, once=not inside))
        return found[0], found[1]

    def _copied(self, atom: MmaAtomAttr, side: str, value: SSAValue, products: Collection[Operation]) -> object:
        others = set(self.renamed)
        path = self._path(side, value, products)
        try:
            operand = tma_operand(
                self.function, self.gpu, atom.instruction, side, path.load, path.order, element=path.element
            )
        except Unfit:
            self.renamed = others  # consumers load it themselves
            raise
        key = path.load, path.order, path.element
        self.tiles_by_key.setdefault(key, operand)
        return key

    def _bridged(self, atom: MmaAtomAttr, side: str, value: SSAValue, *, once: bool) -> object:
        """An operand that consumers bring to shared memory in each step, or once."""
        type_ = operand_buffer(self.gpu, atom, side, value)
        key = value, type_
        self.bridges.setdefault(key, Bridge(value, Feed((type_,), {}), once))
        return key

    def _gone(self) -> set[Operation]:
        """The ops that copies take over: loads, and what renames them for products alone."""
        return {op for op in self.renamed if op.parent is self.body}

    def _check_registers(self) -> None:
        """Unfit where sums that are under way together take more registers than a consumer's thread has."""
        threads = self.spec.num_warps * self.gpu.warp_size
        found = LEAST_REGISTERS
        firsts = [p for p in self.products if not isinstance(p.op.c.owner, DotOp)]
        for product in firsts:
            m, n = shape_of(product.op.result.type)
            atom = product.atom.instruction
            found += wgmma.accumulator_registers(atom) * (m * n * 32 // threads // (atom.n * wgmma.WARP_ROWS))
        limit = consumer_registers(self.spec, self.gpu, BUDGETS.get(self.spec.num_warps))
        if found > limit:
            raise Unfit(f"a thread has {limit} registers, and the loop's products take {found}")

    def _set_stages(self, most: int) -> None:
        """As many stages for each ring as there is room for beside bridges and what is stored, first for those with the
        fewest. Where there is none for a stage of each, tiles that are alike share a ring."""
        gone = [op for op in walk(self.loop) if isinstance(op, ConvertLayoutOp) and _is_for_products(op)]
        kept = min(staging.kept_beside(self.function, self.loop, gone, self.products[0].atom.instruction.m))
        bridges = [bridge.feed.type for bridge in self.bridges.values()]
        free = block_bytes(self.gpu, self.spec) - kept

        def taken(stages: Sequence[int]) -> int:
            return rings_bytes([*(f.staged(n) for f, n in zip(self.copied, stages)), *bridges], ALIGNMENT)

        if (lone := taken([1] * len(self.copied))) > free:
            self.copied = self._shared_rings()
        wanted = [
            max(stages_wanted(self.operands[n].load, most) for turn in ring.turns for n in turn) for ring in self.copied
        ]
        stages, growing = [1] * len(self.copied), set(range(len(self.copied)))
        if taken(stages) > free:
            raise Unfit(f"{lone} bytes of tiles do not fit the {free} bytes of shared memory that are free")
        while growing:
            least = min(growing, key=lambda n: (stages[n], n))
            more = [n + (place == least) for place, n in enumerate(stages)]
            if more[least] > wanted[least] or taken(more) > free:
                growing.remove(least)
            else:
                stages = more
        for feed, count in zip(self.copied, stages):
            feed.stages = count

    def _shared_rings(self) -> list[Feed]:
        """Rings, each for all tiles of a type that one product reads: they take turns there in the products' order."""
        found: dict[object, tuple[TmaOperand, list[int]]] = {}
        for n, tile in enumerate(self.operands):
            lone = sum((n == p.a) + (n == p.b) for p in self.products) == 1
            found.setdefault((tile.type, tile.ctas) if lone else n, (tile, []))[1].append(n)
        made = []
        for tile, numbers in found.values():
            turns: list[dict[int, int]] = [{n: 0} for n in numbers]
            made.append(Feed((tile.type,), turns[0], tile.ctas, more=tuple(turns[1:])))
        return made

    # -- the new code -----------------------------------------------------------------------------------------------

    @property
    def feeds(self) -> list[Feed]:
        """Of tiles that TMA copies, and of bridges."""
        return [*self.copied, *(bridge.feed for bridge in self.bridges.values())]

    def feed_of(self, number: int) -> Feed:
        """The pipeline of an operand, by its number: tiles that TMA copies come first, and then bridges."""
        if number >= len(self.operands):
            return list(self.bridges.values())[number - len(self.operands)].feed
        return next(ring for ring in self.copied if any(number in turn for turn in ring.turns))

    def before(self, number: int) -> list[int]:
        """The operands that have a pipeline's turns before one in each step."""
        if number >= len(self.operands):
            return []
        return [n for turn in self.feed_of(number).turns for n in turn if n < number]

    @property
    def bridged(self) -> range:
        """The numbers of the bridges."""
        return range(len(self.operands), len(self.operands) + len(self.bridges))

    @property
    def once(self) -> list[int]:
        """The numbers of the bridges that are filled in front of the loop."""
        return [n for n, bridge in zip(self.bridged, self.bridges.values()) if bridge.once]

    def bring(self, at: Inserter, number: int, place: SSAValue, values: Values) -> None:
        """Fill a bridge, by its number."""
        bridge = list(self.bridges.values())[number - len(self.operands)]
        value = values.get(bridge.value, bridge.value)

        def fill(stage: Inserter, buffers: Sequence[SSAValue]) -> None:
            stage.add(CopyOp.make(value, buffers[0]))
            stage.add(FenceProxyOp.make(proxy="async.shared"))

        bridge.feed.fill(at, place, fill)

    def wait(self, at: Inserter, number: int, place: SSAValue) -> SSAValue:
        """Wait for the stage of an operand: the token by which it is released."""
        feed = self.feed_of(number)
        return at.value(ConsumerWaitOp.make(feed.pipe, place, results=[ConsumerTokenType(feed.types)]))

    def make(self) -> None:
        loop, outer, block = self.loop, self.outer, self.function.body.block
        start = loop if outer is None else outer
        at = Inserter(block, start, loop.location)
        descriptors = [o.descriptor(at, number) for number, o in enumerate(self.operands)]
        kinds = [(feed.type, feed.ctas) for feed in self.feeds]
        for feed, pipe in zip(self.feeds, make_pipelines(at, kinds)):
            feed.pipe = pipe
        consumer, producer = Block(), Block()
        self.produce(Inserter(producer, None, loop.location), self.copied, descriptors)
        self._consume(Inserter(consumer, None, loop.location))
        end_agents(at, consumers_and_producer(self.spec, consumer, producer), kinds)
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
        stay = {self.feed_of(n) for n in held}
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
        filling: Mapping[Feed, SSAValue], held: Mapping[int, tuple[SSAValue, SSAValue]],
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
        self.left = [self._reads(n) for n in range(chain.bridged.stop)]
        """Products that have not ended and read an operand."""
        for operand in chain.operands:
            if (token := operand.load.result_token) is not None:
                # Copies have ended before their products do: what their tokens order is ordered.
                values[token] = at.value(CreateMemTokenOp.make(results=[MemTokenType()]))

    def _reads(self, number: int) -> int:
        return sum((number == p.a) + (number == p.b) for p in self.chain.products)

    def run(self) -> None:
        """Make the step: products as soon as what they take is there, then what needs none that is under way."""
        while self.todo:
            # ptxas waits for all products where registers of a sum are read while one is under way.
            if self._compute_ready() or self._fill_ready() or self._issue_ready():
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
            if op in self.products:
                continue
            pure = is_pure(op)
            if (pure or not acts) and all(map(self._is_there, uses_of(op))):
                self.at.clone([op], self.values)
                self.todo.remove(op)
                found = True
            else:
                acts = acts or not pure
        return found

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
        last = [n for n, group in enumerate(self.groups) if group.product.op.result in used]
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
        a = left if product.a is None else blocks[product.a].args[0]
        assert a is not None
        c = self._sum(op.c)
        result = inner.value(
            AsyncDotOp.make(
                a, blocks[product.b].args[0], c, results=[c.type], atom=product.atom,
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
            self._wait(readers[-1] + 1)
        if before:
            self.reading[feed] = feed.next(self.at, self.reading[feed])
        self.places[number] = self.reading[feed]
        self.tokens[number] = self.chain.wait(self.at, number, self.places[number])

    def _fill_ready(self) -> bool:
        """Fill the bridges whose tiles are there."""
        found = False
        for number, bridge in zip(self.chain.bridged, self.chain.bridges.values()):
            if number not in self.filled and self._is_there(bridge.value):
                self.chain.bring(self.at, number, self.filling[bridge.feed], self.values)
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
        for number, token in list(self.tokens.items()):
            if not self.left[number]:
                self.at.add(ConsumerReleaseOp.make(token))
                del self.tokens[number]


def _is_for_products(op: ConvertLayoutOp) -> bool:
    """Whether a conversion brings operands to products only."""
    return all(isinstance(use.operation, DotOp) for use in op.result.uses)
