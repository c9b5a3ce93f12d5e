# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops whose products read registers (mma.sync), fed by a producer that copies: what `fed_kernels` parts kernels by.

Products of registers are waited for by nobody, so that the loop may be of any kind; only what its products are loaded
for them changes:

    descriptors, pipelines with barrier objects
    agent_switch
      the kernel's warps   what is before the loop, the loop, and what is behind it; where it loaded the tiles of a
                           product, it waits for a stage and reads them from there (by ldmatrix, where that fits), and
                           releases the stage behind the product
      producer             one thread goes through the loop again, and copies the tiles of each step by TMA; without
                           TMA, warps that copy with cp.async (`thread_tiles`)

Tiles that one product is the first to use share the stages of a pipeline. Where too few stages of whole tiles fit, a
product that is cut along k (`depth_slices`) takes its step's tiles in parts, each from a stage of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.pipeline import (
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
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, CopyOp
from libtile.dialects.nv_tileas.types import (
    MBARRIER,
    BufferType,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.places import ops_in, ops_of
from libtile.ir.tile_form import element_of, erase, shape_of
from libtile.layouts import LinearLayout
from libtile.layouts.parts import part_layout
from libtile.lowering.tileas.agents import nests
from libtile.lowering.tileas.agents.made_operands import carried_from
from libtile.lowering.tileas.agents.nests import Needed
from libtile.lowering.tileas.agents.remade import Carried, Remade, whole
from libtile.lowering.tileas.agents.step_reads import check_read
from libtile.lowering.tileas.agents.thread_tiles import ThreadTile, given_by, thread_tile
from libtile.lowering.tileas.ahead import is_inside, values_ahead
from libtile.lowering.tileas.cleanup import is_pure
from libtile.lowering.tileas.copies.tma_operands import TmaOperand, check_token, tma_tile
from libtile.lowering.tileas.copies.tma_tiles import Parted, Unfit
from libtile.lowering.tileas.counted_loops import known_trips
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.depth_slices import Slices, loaded_operands, slices_of
from libtile.lowering.tileas.pipelines.loop_pipelines import carry_more, read_types, take_over
from libtile.lowering.tileas.pipelines.schedule import (
    RENAMING,
    Load,
)
from libtile.lowering.to_tileas.demands import source_layout
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.lowering.to_tileas.types import layout_of
from libtile.support.records import dataclass, replace
from libtile.targets import Target

PRODUCTS = (DotOp, ScaledDotOp)

Values = dict[SSAValue, SSAValue]
Wanted = tuple[Load, Attribute]
"""A load, and a type in which what it gives is used."""


@dataclass(eq=False)
class Stages:
    """A pipeline, which loops of a kernel share whose steps have tiles of the same shapes."""

    types: list[Attribute]
    loads: list[Load]
    turns: int | None = 0
    """Of all loops that share it, if that is known: more stages have no use."""
    parts: int = 1
    """Stages that the tiles of a step take."""
    stages: int = 1
    pipe: SSAValue | None = None

    def staged(self, stages: int) -> PipelineType:
        return PipelineType(stages, self.types, 1, MBARRIER)

    @property
    def place(self) -> PipelineIteratorType:
        return PipelineIteratorType(self.staged(self.stages))

    def start(self, at: Inserter) -> SSAValue:
        return at.value(CreateIteratorOp.make(self.pipe, results=[self.place]))

    def next(self, at: Inserter, place: SSAValue) -> SSAValue:
        return at.value(IncIterOp.make(place, results=[self.place]))


@dataclass(eq=False)
class Ring:
    """The tiles of a loop that are copied to the stages of one pipeline, in one part or several."""

    loads: list[Load]
    slices: Slices | None
    """How their only product is cut, if it is."""
    tiles: list[TmaOperand | ThreadTile]
    stages: Stages
    place: SSAValue | None = None
    """Where the next stage is read in a step, while that is made."""

    @property
    def parts(self) -> int:
        return self.stages.parts

    @property
    def types(self) -> list[Attribute]:
        return [t.type for t in self.tiles]


Places = dict[Stages, SSAValue]
"""Where an agent is in each of its pipelines."""


class FedLoop:
    """A loop of a kernel, in loops and branches (of which `outer` is the outermost) or in none, that a producer feeds
    with the tiles of some loads: by TMA, or by so many warps that copy. Unfit where it stays as it is."""

    def __init__(
        self, function: FuncOp, gpu: Target, loop: scf.ForOp, outer: Operation | None, loads: Sequence[Load],
        copiers: int = 0,
    ):  # fmt: skip
        self.function, self.gpu, self.loop, self.outer = function, gpu, loop, outer
        self.body, self.copiers = loop.body.block, copiers
        self.turns = known_trips(loop)
        rings = self._by_product(loads)
        self.given = [v for load in loads for v in self._given(load)]
        ahead = values_ahead(self.given, self.body, loads=True)
        if ahead is None:
            raise Unfit("an address depends on what the loop computes")
        self.ahead = ahead
        self.each = self._for_each_tile()
        self.rings = [self._ring(held, slices, 1) for held, slices in rings]

    # -- what fits --------------------------------------------------------------------------------------------------

    def _given(self, load: Load) -> Sequence[SSAValue]:
        """What it takes to find the tile of a load."""
        if self.copiers:
            return given_by(name(load), load, self.body)
        return [v for v in load.operands if not isinstance(v.type, MemTokenType)]

    def _for_each_tile(self) -> Needed:
        """What a producer computes for each tile of a loop over tiles; nothing without one."""
        if self.outer is None:
            return Needed()
        initial = [self.loop.iter_args[n] for n in self.ahead.carried]
        initial += [v for v in self.given if not is_inside(v, self.body)]
        return nests.needed(self.outer, self.loop, [*self.ahead.ops, *self.ahead.updates], initial)

    def part(self, parts: int) -> None:
        """Have the tiles of a step in so many parts, where their product is cut and they can be."""
        for number, ring in enumerate(self.rings):
            slices = ring.slices
            count = parts if slices is not None and slices.whole_depth % (parts * slices.depth) == 0 else 1
            try:
                self.rings[number] = self._ring(ring.loads, slices, count)
            except Unfit:
                self.rings[number] = self._ring(ring.loads, slices, 1)

    def _ring(self, loads: list[Load], slices: Slices | None, parts: int) -> Ring:
        tiles = [self._tile(load, slices, parts) for load in loads]
        return Ring(loads, slices, tiles, Stages([t.type for t in tiles], [], parts=parts))

    def _tile(self, load: Load, slices: Slices | None, parts: int) -> TmaOperand | ThreadTile:
        what = name(load)
        parted = Parted(slices.depth_dim(load.value), parts) if slices is not None and parts > 1 else None
        if self.copiers:
            wanted = _wanted(load.value)
            if slices is not None:
                dim, shape = slices.depth_dim(load.value), shape_of(load.value.type)
                slice_shape = [slices.depth if d == dim else n for d, n in enumerate(shape)]
                wanted = [part_layout(layout, slice_shape) for layout in wanted]
            return thread_tile(self.gpu, what, load, self.body, self.copiers, wanted, parted)
        if not isinstance(load, TiledLoadOp):
            raise Unfit(what + "is not loaded by a view")
        tile = tma_tile(self.function, what, load, parted=parted)
        check_token(load)
        if slices is not None:
            element = element_of(slices.operand(load.value).type)  # which TMA rounds f32 to, if it is tf32
            tile = replace(tile, type=BufferType(tile.type.shape, element, tile.type.space, tile.type.layout))
        for layout in _wanted(load.value):
            check_read(self.gpu, what, tile.type, part_layout(layout, tile.type.shape))
        return tile

    def _by_product(self, loads: Sequence[Load]) -> list[tuple[list[Load], Slices | None]]:
        """Loads by the first product that uses them, in the order of these, and how that is cut if it is the only
        one."""
        places = {op: number for number, op in enumerate(self.body.ops)}
        found: dict[Operation, list[Load]] = {}
        for load in loads:
            users = list(self._users(load.value))
            if not users:
                raise Unfit(name(load) + "is used by no product of its loop")
            found.setdefault(min(users, key=lambda op: places[op]), []).append(load)
        return [each for op in sorted(found, key=lambda op: places[op]) for each in self._by_use(op, found[op])]

    def _by_use(self, product: Operation, loads: list[Load]) -> Iterator[tuple[list[Load], Slices | None]]:
        """The loads of a product, and how it is cut. Tiles that an operand is computed of come through a pipeline of
        their own where the other operand can be read slice by slice behind that, which takes no registers before."""
        values = [load.value for load in loads]
        slices = self._slices(values)
        direct = loaded_operands(product, values) if slices is None else []
        cut = self._slices(direct) if 0 < len(direct) < len(values) else None
        if cut is None:
            yield loads, slices
            return
        yield [load for load in loads if load.value not in direct], None
        yield [load for load in loads if load.value in direct], cut

    def _slices(self, values: Sequence[SSAValue]) -> Slices | None:
        """How the product of loaded tiles is cut; None where it is not, or there are several."""
        products = {op for value in values for op in self._users(value)}
        return slices_of(products.pop(), values, rounded=not self.copiers) if len(products) == 1 else None

    def _users(self, value: SSAValue) -> Iterator[Operation]:
        """The ops of the body in which the products are that use a tile, or what it only becomes on its way there."""
        for use in value.uses:
            op = use.operation
            if isinstance(op, PRODUCTS):
                yield self._of_body(op)
            elif not isinstance(op, scf.YieldOp) and is_pure(op):
                for result in op.results:
                    yield from self._users(result)

    def _of_body(self, op: Operation) -> Operation:
        while op.parent is not self.body:
            parent = op.parent_op()
            assert parent is not None
            op = parent
        return op

    def outside(self) -> list[SSAValue]:
        """What the producer takes from in front of the loop."""
        loop = self.loop
        work: list[SSAValue] = [loop.lb, loop.ub, loop.step]
        work += [loop.iter_args[n] for n in self.ahead.carried]
        work += [v for op in (*self.ahead.ops, *self.ahead.updates) for v in op.operands]
        if self.outer is not None:
            work += nests.taken(self.outer, loop, self.each)
        for tile in self.tiles:
            if isinstance(tile, TmaOperand):
                work += [*tile.memref.results, *tile.load.group("indices")]
        return work if not self.copiers else [*work, *self.given]

    @property
    def _carried_tiles(self) -> list[tuple[SSAValue, LinearLayout]]:
        """The tiles that a producer's threads carry through the loop, and their layouts."""
        found = (carried for tile in self.tiles if isinstance(tile, ThreadTile) for carried in tile.carried)
        return list(dict.fromkeys(found))

    @property
    def tiles(self) -> list[TmaOperand | ThreadTile]:
        return [t for r in self.rings for t in r.tiles]

    # -- the new code -----------------------------------------------------------------------------------------------

    def copies(self, at: Inserter, first: int, descriptors: Sequence[SSAValue], places: Places, given: Values) -> None:
        """The loop again, with copies in place of everything else, from places on, which it moves on, with values for
        some from outside of the loop. Descriptors, of tiles that have any, are numbered from `first` on."""
        loop, starts = self.loop, [places[ring.stages] for ring in self.rings]
        bounds = [given.get(v, v) for v in (loop.lb, loop.ub, loop.step)]
        carried = [given.get(v, v) for v in (loop.iter_args[n] for n in self.ahead.carried)]
        tiles = self._carried_tiles
        before = Remade(self.body, at, at, {}, dict(given))
        first_tiles = [before.tile(carried_from(tile)[0], layout, whole(tile)) for tile, layout in tiles]
        body = Block(arg_types=[self.body.args[0].type, *(v.type for v in (*starts, *carried, *first_tiles))])
        inner = Inserter(body, None, loop.location)
        values: Values = {**given, self.body.args[0]: body.args[0]}
        values |= {self.body.args[1 + n]: a for n, a in zip(self.ahead.carried, body.args[1 + len(starts) :])}
        own: Carried = dict(zip(tiles, body.args[1 + len(starts) + len(carried) :]))
        inner.clone(self.ahead.ops, values)
        number, following = 0, list[SSAValue]()
        for ring, place in zip(self.rings, body.args[1:]):
            reached: SSAValue = place
            ready = ProducerTokenType(ring.types)
            for part in range(ring.parts):
                token = inner.value(ProducerAcquireOp.make(ring.stages.pipe, reached, results=[ready]))
                stage = Block(arg_types=ring.types)
                copies = Inserter(stage, None, loop.location)
                for n, (tile, buffer) in enumerate(zip(ring.tiles, stage.args), number):
                    if isinstance(tile, ThreadTile):
                        tile.copy(copies, at, self.body, buffer, values, own, part)
                    else:
                        tile.copy(copies, first + n, descriptors[n], buffer, values, part)
                copies.add(PipelineYieldOp.make())
                written = ProducerWriteOp.make(token, reached, results=[ready, []], regions=[Region(stage)])
                inner.add(ProducerCommitOp.make(inner.value(written)))
                reached = ring.stages.next(inner, reached)
            number += len(ring.tiles)
            following.append(reached)
        inner.clone([op for op in self.ahead.updates if op not in self.ahead.ops], values)
        last = self.body.last_op
        assert last is not None
        ends = [values.get(last.operands[n], last.operands[n]) for n in self.ahead.carried]
        behind = Remade(self.body, inner, at, {}, values, own)
        ends += [behind.tile(carried_from(tile)[1], layout, whole(tile)) for tile, layout in tiles]
        inner.add(scf.YieldOp(*following, *ends))
        made = scf.ForOp(bounds[0], bounds[1], bounds[2], [*starts, *carried, *first_tiles], body)
        made.attributes.update(loop.attributes)
        at.add(made)
        places.update(zip([ring.stages for ring in self.rings], made.results))

    def read_stages(self) -> None:
        """Turns of the kernel's warps in place of the loads: what these give is read where it is used first."""
        for ring in self.rings:
            values = [load.value for load in ring.loads]
            for value in values:
                self._put_off(value)
            users = {self._of_body(u.operation): None for value in values for u in value.uses}
            products = {op: None for value in values for op in self._users(value)}
            last = [op for op in self.body.ops if op in products][-1]
            first = last if ring.slices is not None else next(op for op in self.body.ops if op in users)
            ring.place = self.body.insert_arg(ring.stages.place, len(self.body.args))
            at = Inserter(self.body, first, ring.loads[0].location)
            for load in ring.loads:
                if (given := load.result_token) is not None:
                    # The copy has ended before its product does: what is ordered behind it is.
                    given.replace_all_uses_with(at.value(CreateMemTokenOp.make(results=[given.type])))
            if ring.slices is None:
                self._read_whole(ring, at, last)
            else:
                self._read_slices(ring, ring.slices, at)
            for load in ring.loads:
                erase(load)

    def _put_off(self, value: SSAValue) -> None:
        """Let what only renames or converts a tile stand in front of what uses it first, where a product is between:
        beside that, what is read needs registers."""
        for op in {use.operation: None for use in value.uses}:
            if op.parent is not self.body or not isinstance(op, (ConvertLayoutOp, *RENAMING)):
                continue
            self._put_off(op.results[0])
            users = {self._of_body(use.operation) for use in op.results[0].uses}
            behind, multiplies = op.next_op, False
            while users and behind is not None and behind not in users:
                multiplies = multiplies or bool(ops_of(behind, *PRODUCTS))
                behind = behind.next_op
            if multiplies and behind is not None:
                op.detach()
                self.body.insert_op_before(op, behind)

    def _places(self) -> dict[Operation, tuple[int, int]]:
        """The number of each op of the body as it stands now, and how many in front of it are or hold products."""
        found, products = dict[Operation, tuple[int, int]](), 0
        for op in ops_in(self.body):
            found[op] = len(found), products
            products += bool(ops_of(op, *PRODUCTS))
        return found

    def _read_whole(self, ring: Ring, at: Inserter, last: Operation) -> None:
        """A turn that reads the tiles of a ring as a whole, in each layout together with what is first used between the
        same products, and releases the stage behind the last product of them."""
        location = last.location if isinstance(last, PRODUCTS) else self.loop.location
        token, given = self._wait(ring, at), dict[tuple[Load, Attribute], SSAValue]()
        for number, (first, wanted) in enumerate(self._first_uses(ring, last)):

            def read(inside: Inserter, buffers: Values, wanted: Sequence[Wanted] = wanted) -> list[SSAValue]:
                return [
                    inside.value(CopyOp.make(buffers[load.value], results=[type_]), load.location)
                    for load, type_ in wanted
                ]

            here = at if number == 0 else Inserter(self.body, first, at.location)
            done = self._read(ring, here, token, [type_ for _, type_ in wanted], read)
            token = done.results[0]
            given |= dict(zip(wanted, done.results[1:]))
        self._release(ring, Inserter(self.body, last.next_op, location), token)
        for load in ring.loads:
            take_over(load, {t: v for (of, t), v in given.items() if of is load})

    def _first_uses(self, ring: Ring, last: Operation) -> list[tuple[Operation, list[Wanted]]]:
        """What is read of the stages of a ring, by the products that it is first used between, and the first op that
        uses some of it, in the order of these."""
        places, found = self._places(), dict[int, tuple[Operation, list[Wanted]]]()
        uses: list[tuple[Operation, Wanted]] = []
        for load in ring.loads:
            for type_ in read_types(load):
                users = [
                    self._of_body(use.operation) for use in load.value.uses if _read_as(use.operation, load) == type_
                ]
                uses.append((min((*users, last), key=lambda op: places[op]), (load, type_)))
        for op, wanted in sorted(uses, key=lambda use: places[use[0]]):
            found.setdefault(places[op][1], (op, []))[1].append(wanted)
        order = {wanted: number for number, (_, wanted) in enumerate(uses)}
        return [(op, sorted(held, key=lambda wanted: order[wanted])) for op, held in found.values()]

    def _read_slices(self, ring: Ring, slices: Slices, at: Inserter) -> None:
        """A turn for each part of a product, in place of that."""
        product, result = slices.product, slices.product.c
        behind = Inserter(self.body, product.next_op, product.location)
        for part in range(ring.parts):

            def read(inside: Inserter, buffers: Values, part: int = part, given: SSAValue = result) -> list[SSAValue]:
                return [slices.make(inside, buffers, given, part, ring.parts)]

            (result,) = self._turn(ring, at, behind, [product.result.type], read)
            at = behind
        product.result.replace_all_uses_with(result)
        slices.erase()

    def _turn(
        self, ring: Ring, at: Inserter, behind: Inserter, types: Sequence[Attribute],
        read: Callable[[Inserter, Values], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:  # fmt: skip
        """Wait for a stage, what `read` makes of the buffers that stand for loads' tiles, and release it behind that;
        what was made."""
        done = self._read(ring, at, self._wait(ring, at), types, read)
        self._release(ring, behind, done.results[0])
        return done.results[1:]

    @staticmethod
    def _wait(ring: Ring, at: Inserter) -> SSAValue:
        return at.value(ConsumerWaitOp.make(ring.stages.pipe, ring.place, results=[ConsumerTokenType(ring.types)]))

    @staticmethod
    def _read(
        ring: Ring, at: Inserter, token: SSAValue, types: Sequence[Attribute],
        read: Callable[[Inserter, Values], Sequence[SSAValue]],
    ) -> Operation:  # fmt: skip
        """What `read` makes of the buffers of a stage that was waited for; the first result is a token for what is
        behind."""
        stage = Block(arg_types=ring.types)
        inside = Inserter(stage, None, at.location)
        inside.add(PipelineYieldOp.make(read(inside, dict(zip((load.value for load in ring.loads), stage.args)))))
        return at.add(ConsumerReadOp.make(token, ring.place, results=[token.type, types], regions=[Region(stage)]))

    @staticmethod
    def _release(ring: Ring, behind: Inserter, token: SSAValue) -> None:
        assert ring.place is not None
        behind.add(ConsumerReleaseOp.make(token))
        ring.place = ring.stages.next(behind, ring.place)

    def rebuild(self, places: Places) -> None:
        """The loop again, which carries where it reads as well, from places on, which it moves on."""
        stages = [ring.stages for ring in self.rings]
        following = [ring.place for ring in self.rings if ring.place is not None]
        made = carry_more(self.loop, [places[of] for of in stages], following)
        places.update(zip(stages, made.results[len(made.results) - len(stages) :]))


def _read_as(op: Operation, load: Load) -> Attribute:
    """The type in which an op that uses a loaded tile wants it."""
    return op.result.type if isinstance(op, ConvertLayoutOp) else load.value.type


def name(load: Load) -> str:
    """What a load is called in reasons."""
    side = next((s for s, value in (("#A ", 0), ("#B ", 1)) for u in ends(load.value) if u == value), None)
    return side or "an operand "


def ends(value: SSAValue) -> Iterator[int]:
    """The numbers of the operands that a tile becomes."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, PRODUCTS):
            yield use.index
        elif is_pure(op):
            for result in op.results:
                yield from ends(result)


def _wanted(value: SSAValue) -> list[LinearLayout]:
    """The layouts in which a loaded tile is read when conversions are in front of what only renames or computes its
    elements (`raise_conversions`)."""
    found: dict[LinearLayout, None] = {}
    for use in value.uses:
        op = use.operation
        if isinstance(op, ConvertLayoutOp):
            found[layout_of(op.result)] = None
        elif len(op.operands) == 1 and len(op.results) == 1 and is_pure(op):
            renames = isinstance(op, RENAMING)
            if renames or is_elementwise(op):
                for layout in _wanted(op.results[0]):
                    before = source_layout(op, layout) if renames else layout
                    if before is not None:
                        found[before] = None
            else:
                found[layout_of(value)] = None
        else:
            found[layout_of(value)] = None
    return list(found)


def conversions(value: SSAValue) -> Iterator[Operation]:
    """The conversions of a loaded tile, which is read from a stage as they make it."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, ConvertLayoutOp):
            yield op
        elif len(op.operands) == 1 and len(op.results) == 1 and is_pure(op):
            yield from conversions(op.results[0])
