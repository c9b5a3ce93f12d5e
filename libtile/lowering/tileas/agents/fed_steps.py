# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A loop that does nothing but multiply tiles that TMA copies: what is common to such loops, whoever multiplies.

The tiles of a step are one stage of a pipeline. A tile that several products read, be it as a left or a right operand,
is copied once, and lies in the stage once. Products may add to sums of their own, or one behind the other to the same.

    for ... iter_args(x = 0, y = 0)       stage: a, b, c
      x' = dot a, b, x                    products: (a, b) -> x, (a, c) -> y
      y' = dot a, c, y

`FedSteps` has what a producer does. Who multiplies looks at the products (`FedProduct`): warpgroups by wgmma, or one
thread by tcgen05 (`specialize_product`, `tensor_phases`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from libtile.atoms.cp_async import operand_shared_layout
from libtile.dialects import scf
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.async_products import AsyncDotOp
from libtile.dialects.nv_tileas.attributes import MmaAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.pipeline import PipelineYieldOp
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.dialects.nv_tileas.tensor_memory import AsyncDotIntoOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, ReinterpretOp
from libtile.dialects.nv_tileas.types import (
    MBARRIER,
    BufferType,
    PipelineType,
)
from libtile.ir.places import ops_of
from libtile.ir.tile_form import shape_of, stored_element
from libtile.layouts.row_swizzles import CHUNK
from libtile.layouts.shared_access import PIECE_BYTES
from libtile.lowering.product_reasons import STEP_PARTS
from libtile.lowering.tileas.agents import nests, persistent
from libtile.lowering.tileas.agents.cluster_pipelines import ALIGNMENT
from libtile.lowering.tileas.agents.consumers import tile_registers
from libtile.lowering.tileas.agents.feeds import TRANSPOSERS, Feed, Feeds, copied_tiles, filled_in_order
from libtile.lowering.tileas.agents.made_operands import MadeOperand, made_operand
from libtile.lowering.tileas.agents.nests import Needed
from libtile.lowering.tileas.agents.remade import Remade
from libtile.lowering.tileas.ahead import Ahead, computed_ahead, is_inside, values_ahead
from libtile.lowering.tileas.cleanup import is_pure
from libtile.lowering.tileas.copies.tma_operands import TmaOperand, Unfit, read_operand, tma_operand, transposed_atoms
from libtile.lowering.tileas.counted_loops import known_trips
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.memory import staging
from libtile.lowering.tileas.memory.shared_memory import block_bytes, pipeline_bytes, tile_bytes
from libtile.lowering.tileas.pipelines.operand_paths import OperandPath, operand_path
from libtile.lowering.tileas.pipelines.schedule import stages_wanted
from libtile.support.records import dataclass
from libtile.targets import Target

PARTS = (2, 4)
"""Into how many parts, one behind the other along k, the tiles of a step may be cut."""
WHOLE_STAGES, TENSOR_STAGES = 3, 2
"""Stages of whole steps that are enough, and where one thread issues products into tensor memory. Measured on an H100,
products of tf32 of 8192x8192x8192: by tiles of 128x256x64, of which two stages fit, 4,378 us, and 2,735 in halves; of
128x128x64, of which three fit, 3,608 and 3,862."""

Values = dict[SSAValue, SSAValue]
Turn = Callable[[Inserter, Sequence[SSAValue], Values], Sequence[SSAValue]]
"""What an agent does in a step, from places on, with values for some: the places behind."""


class NotSpecialized(Unfit):
    """Why a loop stays as it is, for the product that it is about."""

    def __init__(self, reason: str, product: Operation):
        super().__init__(reason)
        self.product = product


@dataclass(frozen=True)
class FedProduct:
    """A product of tiles of a stage, or of brought ones: its instruction, the numbers of the tiles that it multiplies,
    that of what the loop carries that it adds to, and whether it is the first of a step to do so."""

    op: DotOp
    atom: MmaAtomAttr
    a: int
    b: int
    sum: int
    first: bool


class FedSteps:
    """The steps of a loop, whose tiles are copied by a producer. What looks at the loop says which tiles these are, and
    then calls `_look_ahead` and `_check_rest`."""

    def __init__(self, function: FuncOp, gpu: Target, loop: scf.ForOp):
        self.function, self.gpu, self.loop, self.body = function, gpu, loop, loop.body.block
        self.outer = nests.outermost(function, loop)
        self.around = sum(map(tile_registers, nests.tiles_around(self.outer, loop)))
        """Registers of a thread of the kernel's warps for tiles that are carried around the loop."""
        self.turns = known_trips(loop)
        if self.turns == 0:
            raise Unfit("its loop has no turn")
        self.held: list[TmaOperand | MadeOperand] = []
        """What a stage that products read holds."""
        self.operands: list[TmaOperand] = []
        """What TMA copies."""
        self.renamed: set[Operation] = set()
        """The ops that bring loaded tiles to products, which copies take over."""

    # -- what fits --------------------------------------------------------------------------------------------------

    def _path(
        self, side: str, value: SSAValue, products: Collection[Operation] = (), *, shared: bool = False
    ) -> OperandPath:
        """Where an operand comes from, in the loop; for several `products`, if there are any, and for others too where
        it is `shared`."""
        path = operand_path(value, (self.body,), f"#{side.upper()} ", ", in the loop", products, shared=shared)
        self.renamed |= set(path.ops)
        return path

    def _made(self, atom: MmaAtomAttr, side: str, value: SSAValue) -> MadeOperand:
        """How makers compute an operand; Unfit where they do not."""
        made = made_operand(self.function, self.gpu, atom.instruction, side, value, self.body)
        self.renamed |= made.ops
        return made

    def _made_instead(self, atom: MmaAtomAttr, side: str, value: SSAValue, reason: Unfit) -> MadeOperand:
        """As `_made`, of an operand that TMA does not copy for a reason, which is Unfit where makers do not compute it
        either."""
        try:
            return self._made(atom, side, value)
        except Unfit:
            raise reason from None

    def _hold(self, held: Sequence[TmaOperand | MadeOperand]) -> None:
        """Have stages hold such tiles. Unfit where TMA copies none of them, nor makers all of them asynchronously."""
        self.held, self.operands = list(held), copied_tiles(held)
        if not self.operands and not (self.made and all(operand.copied for operand in self.made)):
            raise Unfit("TMA copies nothing to its loop")

    @property
    def made(self) -> list[MadeOperand]:
        return [operand for operand in self.held if isinstance(operand, MadeOperand)]

    def _look_ahead(self) -> Ahead:
        """How the producer gets the places of the tiles of a step, and of those of each tile of a loop over tiles; and
        makers what operands are computed of beside tiles."""
        given = [v for operand in self.made for v in operand.given]
        ahead = values_ahead(given, self.body, loads=True)
        if ahead is None:
            raise Unfit("an operand depends on what the loop computes")
        self.given_ahead = ahead
        self.given_tiles = Needed()
        if self.outer is not None and self.made:
            initial = [self.loop.iter_args[n] for n in ahead.carried]
            users = [*ahead.ops, *ahead.updates]
            self.given_tiles = nests.needed(self.outer, self.loop, users, [*initial, *self._outside(given)])
        found = computed_ahead([o.load for o in self.operands], self.body, loads=True)
        if found is None:
            raise Unfit("an address depends on what the loop computes")
        self.ahead = found
        self.tiles = Needed()
        if self.outer is not None:
            users = [*found.ops, *found.updates, *(o.load for o in self.operands)]
            initial = [self.loop.iter_args[n] for n in found.carried]
            self.tiles = nests.needed(self.outer, self.loop, users, initial)
        return found

    def _outside(self, values: Iterable[SSAValue]) -> list[SSAValue]:
        return [v for v in values if not is_inside(v, self.body)]

    def _check_rest(self, products: Collection[Operation], sums: Collection[int], more: Collection[Operation]) -> None:
        """Nothing else goes on in the loop, but for ops in `more`: sums, what addresses are computed from, and tokens
        of the loads are all that it carries."""
        last = self.body.last_op
        assert last is not None
        known = {*self.ahead.carried, *self.given_ahead.carried}
        for number, result in enumerate(self.loop.results):
            is_token = isinstance(result.type, MemTokenType)
            if number not in sums and not is_token and (number not in known or result.first_use):
                raise Unfit("the loop computes more than the product")
        loads = (o.load for o in self.operands)
        given = (*self.given_ahead.ops, *self.given_ahead.updates)
        done = {*self.ahead.ops, *self.ahead.updates, *given, *products, last, *loads, *self.renamed, *more}
        for op in self.body.ops:
            if op not in done and not (is_pure(op) and _goes_with_the_loads(op)):
                raise Unfit(f"the loop holds '{op.name}' as well")

    def wanted(self, most: int) -> int:
        """How many stages hints of the loads' latency ask for, at most so many."""
        return max((stages_wanted(o.load, most) for o in self.operands), default=most)

    def stages(self, types: Sequence[BufferType], most: int, kept: Sequence[int]) -> int:
        """As many stages of tiles of these types as there is room for, at most so many; `kept` are the bytes of shared
        memory that they may leave for what is behind the loop."""
        each = pipeline_bytes(PipelineType(1, types, 1, MBARRIER), ALIGNMENT)
        found = [min((block_bytes(self.gpu, self.function.kernel_spec) - n) // each, most) for n in kept]
        return next(n for n in found if n >= min(staging.ENOUGH_STAGES, max(found)))

    def feeds_of(self, types: Sequence[BufferType], most: int, kept: Sequence[int]) -> Feeds:
        """The pipelines of tiles of these types, with as many stages as `stages` says, and as hints of the loads'
        latency ask for, at most so many: of the tiles of a step, or of parts of them where too few of these fit. Where
        buffers for what is stored leave no room for those either, threads store it."""
        feeds, free = Feeds.of(self.held, types), block_bytes(self.gpu, self.function.kernel_spec) - min(kept)
        if feeds.raw is not None:
            feeds.set_stages(free, self.wanted(most))
            return feeds
        most = 1 if self.turns == 1 else self.wanted(most)
        used = most if self.turns is None else min(most, self.turns)  # by whole steps
        held: Sequence[TmaOperand | MadeOperand] = self.held
        parts, stages = 1, self.stages(types, most, kept)
        # One thread issues for tcgen05, which waits more often for parts: those are for what would not fit otherwise.
        enough = TENSOR_STAGES if self.gpu.has("tcgen05") else WHOLE_STAGES
        for more in PARTS:
            if stages >= min(enough, used * parts):
                break
            try:
                cut = self._cut(more)
            except Unfit:
                break
            held, parts, stages = cut, more, self.stages([o.type for o in cut], used * more, kept)
        if stages < (fewest := 1 if self.turns == parts == 1 else 2):
            if self.outer is not None and (threads := self.kept_for_threads()) < min(kept):
                return self.feeds_of(types, most, [threads])
            size, count = sum(map(tile_bytes, types)), "a stage" if fewest == 1 else "two stages"
            raise Unfit(f"{count} of {size} bytes do not fit the {free} bytes of shared memory that are free")
        if parts > 1:
            self._hold(held)
            feeds = Feeds.of(held, self.types)
        feeds.read.stages, feeds.read.parts = stages, parts
        return feeds

    def say_parts(self, feeds: Feeds) -> None:
        """Write on the products that were made in how many parts the tiles of a step come, if these are several."""
        for op in ops_of(self.function) if feeds.read.parts > 1 else ():
            if isinstance(op, AsyncDotOp | AsyncDotIntoOp):
                op.attributes[STEP_PARTS] = IntegerAttr(feeds.read.parts, i64)

    def _cut(self, parts: int) -> Sequence[TmaOperand]:
        """What a stage holds of which each tile is copied in so many parts along k; Unfit where they are not."""
        raise Unfit("the tiles of its steps are copied as a whole")

    def kept(self, rows: int) -> list[int]:
        """Bytes of shared memory that the pipeline may leave for what is behind the loop, whose results lie in so many
        rows of an instruction."""
        if self.outer is None:
            return [PIECE_BYTES]
        assert self.loop.parent is not None
        return staging.kept_beside(self.function, self.loop.parent, ops_of(self.loop), rows)

    def kept_for_threads(self) -> int:
        """Bytes of shared memory that the pipeline leaves where threads are to store what is behind the loop."""
        return staging.exchange_bytes(self.function, ops_of(self.loop))

    # -- the producer -----------------------------------------------------------------------------------------------

    @property
    def types(self) -> list[BufferType]:
        """Of what a stage holds."""
        return [o.type for o in self.held]

    def copies(
        self, at: Inserter, feeds: Sequence[Feed], descriptors: Sequence[SSAValue], starts: Sequence[SSAValue],
        given_values: Mapping[SSAValue, SSAValue], first: int = 0,
    ) -> Sequence[SSAValue]:  # fmt: skip
        """The loop again, with copies in place of everything else: those of all steps from places on, with values for
        some from outside of the loop; the places behind. Descriptors are numbered from `first` on."""

        def copy(
            values: Values, copied: Mapping[int, int], part: int, stage: Inserter, buffers: Sequence[SSAValue]
        ) -> None:
            for number, place in copied.items():
                operand = self.operands[number]
                buffer = seen_as(stage, buffers[place], operand.type)
                operand.copy(stage, first + number, descriptors[number], buffer, values, part)

        def turn(inner: Inserter, places: Sequence[SSAValue], values: Values) -> list[SSAValue]:
            here = dict(zip(feeds, places))
            for feed, copied in filled_in_order(feeds):
                for part in range(feed.parts):
                    feed.fill(inner, here[feed], partial(copy, values, copied, part))
                    here[feed] = feed.next(inner, here[feed], part)
            return [here[feed] for feed in feeds]

        return self._again(at, self.ahead, starts, given_values, turn)

    def makes(
        self, at: Inserter, feeds: Feeds, starts: Sequence[SSAValue], given_values: Mapping[SSAValue, SSAValue]
    ) -> Sequence[SSAValue]:
        """The loop again, of the makers: from places in the pipelines that they go through on; the places behind."""
        loads = [] if feeds.raw is None else [self.operands[number].load for number in feeds.raw.copied]

        def turn(inner: Inserter, places: Sequence[SSAValue], values: Values) -> list[SSAValue]:
            def make(stage: Inserter, tiles: Sequence[SSAValue], to: Sequence[SSAValue]) -> None:
                remade = Remade(self.body, stage, at, dict(zip(loads, tiles)), values)
                for operand, buffer in zip(self.made, to, strict=True):
                    operand.make(remade, buffer)

            return feeds.make(inner, places, make)

        return self._again(at, self.given_ahead, starts, given_values, turn)

    def maker(self, at: Inserter, feeds: Feeds) -> Block:
        """The makers' agent, for a loop of the function or for one in a loop over tiles."""
        starts = [feed.start(at) for feed in feeds.of_makers]
        if self.outer is None:
            self.makes(at, feeds, starts, {})
        else:
            nests.repeat(
                at, self.outer, self.loop, self.given_tiles, starts,
                lambda inner, places, values: self.makes(inner, feeds, places, values),
            )  # fmt: skip
        at.add(PipelineYieldOp.make())
        return at.block

    def consume_from(self, at: Inserter, starts: Sequence[SSAValue], steps: persistent.Steps) -> None:
        """The loop without copies from places on, made by `steps`, for each tile of a loop over tiles if there is one;
        and what is behind it."""
        if self.outer is None:
            ends, _ = steps(at, starts)
            persistent.hand_on(self.loop, ends)
        else:
            persistent.consume(at, self.outer, self.loop, starts, steps)
        persistent.move_behind(self.outer or self.loop, at.block)

    def _again(
        self, at: Inserter, ahead: Ahead, starts: Sequence[SSAValue], given_values: Mapping[SSAValue, SSAValue],
        turn: Turn,
    ) -> Sequence[SSAValue]:  # fmt: skip
        """The loop again, for an agent that computes ahead what it needs, and does a turn of its own in each step: from
        places on, with values for some from outside of the loop; the places behind."""
        loop, places = self.loop, len(starts)

        def outside(value: SSAValue) -> SSAValue:
            return given_values.get(value, value)

        carried = [outside(loop.iter_args[n]) for n in ahead.carried]
        body = Block(arg_types=[self.body.args[0].type, *(v.type for v in (*starts, *carried))])
        inner = Inserter(body, None, loop.location)
        values: Values = {**given_values, self.body.args[0]: body.args[0]}
        values |= {self.body.args[1 + n]: a for n, a in zip(ahead.carried, body.args[1 + places :])}
        inner.clone(ahead.ops, values)
        following = turn(inner, body.args[1 : 1 + places], values)
        inner.clone([op for op in ahead.updates if op not in ahead.ops], values)
        last = self.body.last_op
        assert last is not None
        given = [values.get(last.operands[n], last.operands[n]) for n in ahead.carried]
        inner.add(scf.YieldOp(*following, *given))
        bounds = [outside(v) for v in (loop.lb, loop.ub, loop.step)]
        made = scf.ForOp(bounds[0], bounds[1], bounds[2], [*starts, *carried], body)
        made.attributes.update(loop.attributes)
        at.add(made)
        return made.results[:places]

    def produce(self, at: Inserter, feeds: Sequence[Feed], descriptors: Sequence[SSAValue]) -> None:
        """The producer's agent, for a loop of the function or for one in a loop over tiles."""
        starts = [feed.start(at) for feed in feeds]
        if self.outer is None:
            self.copies(at, feeds, descriptors, starts, {})
        else:
            nests.repeat(
                at, self.outer, self.loop, self.tiles, starts,
                lambda inner, places, values: self.copies(inner, feeds, descriptors, places, values),
            )  # fmt: skip
        at.add(PipelineYieldOp.make())


def seen_as(at: Inserter, buffer: SSAValue, type_: BufferType) -> SSAValue:
    """The buffer of a stage as that of one of the tiles that take turns there."""
    return buffer if buffer.type == type_ else at.value(ReinterpretOp.make(buffer, results=[type_]))


def _goes_with_the_loads(op: Operation) -> bool:
    """Whether an op gives tokens, or converts what a product reads."""
    return isinstance(op, ConvertLayoutOp) or all(isinstance(r.type, MemTokenType) for r in op.results)


def sums_of(body: Block, products: Sequence[DotOp | ScaledDotOp]) -> list[tuple[int, bool]]:
    """For each product of a loop's body, in order, the number of the carried value that it adds to, and whether it is
    the first one to do so. NotSpecialized where one adds to something else, or its result is used for more than
    that."""
    last, found = body.last_op, dict[Operation, int]()
    assert last is not None
    given = []
    for product in products:
        before, result = product.c, product.result
        if isinstance(before, BlockArgument) and before.block is body and before.index > 0:
            number = before.index - 1
        elif isinstance(before.owner, Operation) and before.owner in found:
            number = found[before.owner]
        else:
            raise NotSpecialized("its accumulator is not carried by the loop", product)
        users = [use.operation for use in result.uses]
        goes_on = users == [last] and last.operands[number] is result
        if not goes_on and not (len(users) == 1 and users[0] in products and _adds_to(users[0], result)):
            raise NotSpecialized("its result is used in the loop", product)
        if not before.has_one_use():
            raise NotSpecialized("its accumulator is used by more than the product", product)
        found[product] = number
        given.append((number, isinstance(before, BlockArgument)))
    return given


def _adds_to(op: Operation, value: SSAValue) -> bool:
    return isinstance(op, DotOp | ScaledDotOp) and op.c is value and value not in (op.a, op.b)


@dataclass(frozen=True)
class InRegisters:
    """A left operand that is computed in front of a loop, and that products of all steps read from registers."""

    value: SSAValue
    """In the layout in which products read it; the conversion to that may be in the loop."""


@dataclass(frozen=True)
class Brought:
    """A tile that is computed, or loaded, in front of a loop, and that products of all steps read from shared memory:
    the value, in the layout in which threads have it, and its buffer."""

    value: SSAValue
    type: BufferType


AnyOperand = TmaOperand | MadeOperand | Brought | InRegisters


class FedProducts(FedSteps):
    """A loop with products of tiles that TMA copies, or of such tiles and others that are there before the loop.
    NotSpecialized, or Unfit, where it stays as it is.

    `_instruction` gives that of a product, or raises Unfit. Subclasses multiply; what they need of the accumulators'
    layouts, registers and shared memory they check themselves."""

    brings = False
    """Whether tiles may be brought to shared memory in front of the loop."""
    reads_registers = False
    """Whether products may read a left operand from registers that is there in front of the loop."""

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp]):
        loop = products[0].parent_op()
        assert isinstance(loop, scf.ForOp)
        if any(op.parent_op() is not loop for op in products):
            raise Unfit("the kernel has products in several loops")
        super().__init__(function, gpu, loop)
        sums = self._sums(products)
        read: dict[object, AnyOperand] = {}
        found: list[tuple[MmaAtomAttr, list[object]]] = []
        for product in products:
            try:
                atom = self._instruction(product)
                sides = (("a", product.a), ("b", product.b))
                found.append((atom, [self._key(read, atom, *side, products) for side in sides]))
            except Unfit as reason:
                raise NotSpecialized(str(reason), product) from None
        copied = {key: tile for key, tile in read.items() if isinstance(tile, TmaOperand | MadeOperand)}
        brought = {key: tile for key, tile in read.items() if isinstance(tile, Brought)}
        there = {key: tile for key, tile in read.items() if isinstance(tile, InRegisters)}
        self._hold(list(copied.values()))
        self.brought, self.in_registers = list(brought.values()), [tile.value for tile in there.values()]
        places = {key: number for number, key in enumerate([*copied, *brought, *there])}
        self.products = [
            FedProduct(product, atom, places[keys[0]], places[keys[1]], *sum_)
            for product, (atom, keys), sum_ in zip(products, found, sums)
        ]
        self.sums = list(dict.fromkeys(number for number, _ in sums))
        """The numbers of the carried values that products add to."""
        self._look_ahead()
        self._check_rest(products, self.sums, ())

    def _instruction(self, product: DotOp) -> MmaAtomAttr:
        raise Unfit(f"{self.gpu.name} multiplies by no instruction that reads what several products share")

    def _sums(self, products: Sequence[DotOp]) -> list[tuple[int, bool]]:
        """For each product the number of its sum, and whether it is the first of a step to add to it."""
        return sums_of(self.body, products)

    def _key(
        self,
        read: dict[object, AnyOperand],
        atom: MmaAtomAttr,
        side: str,
        value: SSAValue,
        products: Sequence[DotOp],
    ) -> object:
        """What tells an operand from others that products read, among which it is from now on."""
        before = source_before(value, self.loop) if self.brings else None
        if before is not None:
            read.setdefault((before, side), self._brought(atom, side, before))
            return before, side
        if self.reads_registers and side == "a" and self._lies_in_registers(atom, value):
            read.setdefault((value, side), InRegisters(value))
            return value, side
        try:
            path = self._path(side, value, products)
            operand = tma_operand(
                self.function, self.gpu, atom.instruction, side, path.load, path.order, element=path.element,
                warps=TRANSPOSERS,
            )  # fmt: skip
        except Unfit as reason:
            made = self._made_instead(atom, side, value, reason)
            read.setdefault((made.value, made.type), made)
            return made.value, made.type
        key = path.load, path.order, path.element, operand.shadow
        read.setdefault(key, operand)
        return key

    def _lies_in_registers(self, atom: MmaAtomAttr, value: SSAValue) -> bool:
        """Whether a left operand is there before the loop, and in registers as the instruction reads it."""
        return False

    def _brought(self, atom: MmaAtomAttr, side: str, value: SSAValue) -> Brought:
        """How an operand is brought to shared memory."""
        return Brought(value, operand_buffer(self.gpu, atom, side, value))

    def product_of(self, number: int) -> FedProduct:
        """The first product that adds to a sum, which has the sum's shape and layout."""
        return next(p for p in self.products if p.sum == number)

    def shape(self, number: int) -> tuple[int, ...]:
        """The shape of a sum."""
        return shape_of(self.product_of(number).op.result.type)

    def outside(self) -> list[SSAValue]:
        """What the producer and the thread that issues products take from in front of the loop."""
        loop, body = self.loop, self.body
        given = [loop.lb, loop.ub, loop.step, *(loop.iter_args[n] for n in self.ahead.carried)]
        users = [*self.ahead.ops, *self.ahead.updates, *(o.load for o in self.operands)]
        given += [v for op in users for v in op.operands if not is_inside(v, body)]
        given += [v for o in self.operands for v in o.memref.results]
        return [v for v in given if not isinstance(v.type, MemTokenType)]


def operand_buffer(gpu: Target, atom: MmaAtomAttr, side: str, value: SSAValue) -> BufferType:
    """The buffer of an operand that threads write: contiguous along k, or along n where products read what threads
    write so. Unfit where they do not read it."""
    shape, element = shape_of(value.type), stored_element(value.type)
    along = 1 if side == "a" or CHUNK in transposed_atoms(gpu, atom.instruction) else 0
    made = BufferType(shape, element, "shared", LayoutAttr(operand_shared_layout(shape, NUMBER_NAMES[element], along)))
    found = read_operand(gpu, atom.instruction, side, made)
    if isinstance(found, str):
        raise Unfit(f"#{side.upper()} cannot be read from shared memory: {found}")
    return made


def source_before(value: SSAValue, loop: scf.ForOp) -> SSAValue | None:
    """The tile that a value is in another layout, if it is there before a loop; None otherwise."""
    while isinstance(value.owner, ConvertLayoutOp):
        value = value.owner.source
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    return None if block is loop.body.block else value
