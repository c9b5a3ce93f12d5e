# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parting of a loop whose products read registers (mma.sync) into a producer that copies, and the kernel's warps.

Products of registers are waited for by nobody, so that the loop may be of any kind; only what its products are loaded
for them changes:

    descriptors, pipelines with barrier objects
    agent_switch
      the kernel's warps   what is before the loop, the loop, and what is behind it; where it loaded the tiles of a
                           product, it waits for a stage and reads them from there (by ldmatrix, where that fits), and
                           releases the stage behind the product
      producer             one thread goes through the loop again, and copies the tiles of each step by TMA

Tiles that one product is the first to use share the stages of a pipeline. What the producer needs is computed in front
of the agents, by all of their threads. Both agents go through a loop over tiles around that loop (`persistent`), from
one iteration of which to the next they carry where they are in the pipelines: the first tiles of the next one come in
while this one is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.atoms.shared_accesses import accesses, reduced
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.foreign_ops import DIVISIONS
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import MakeMemRefOp
from libtile.dialects.nv_tileaa.terminators import ReturnOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp, JoinMemTokenOp
from libtile.dialects.nv_tileas.memory import TiledLoadOp
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
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp, CopyOp
from libtile.dialects.nv_tileas.types import (
    MBARRIER,
    ConsumerTokenType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.places import walk
from libtile.ir.tile_form import erase
from libtile.layouts import REGISTER, WARP, LinearLayout
from libtile.layouts.shared_access import PIECE_BYTES
from libtile.lowering.tileas import persistent, staging
from libtile.lowering.tileas.ahead import computed_ahead
from libtile.lowering.tileas.cleanup import drop_unused, is_pure
from libtile.lowering.tileas.consumers import PRODUCER_WARPS, consumer_registers
from libtile.lowering.tileas.counted_loops import known_trips
from libtile.lowering.tileas.depth_slices import slices_of
from libtile.lowering.tileas.free_stages import DRAINED
from libtile.lowering.tileas.materialize import Inserter, array_of, carry_more, read_types, take_over
from libtile.lowering.tileas.schedule import (
    ACCUMULATOR,
    LOADS,
    RENAMING,
    Load,
    is_worth_it,
    raise_conversions,
    stages_wanted,
)
from libtile.lowering.tileas.shared_memory import Exchanges, block_bytes, rings_bytes
from libtile.lowering.tileas.tma_operands import TmaOperand, Unfit, tma_tile
from libtile.lowering.to_tileas.accesses import element_bytes
from libtile.lowering.to_tileas.demands import source_layout
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.lowering.to_tileas.types import layout_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass
from libtile.targets import Target
from libtile.targets.tensor_map import MAX_BOX

WARPS = (4, 8)
"""How many warps a kernel has whose loop is parted."""
BUDGETS = {8: (240, 24)}
"""Registers of a consumer's and a producer's thread, by the number of consumer warps, where they share unequally."""
LONE_PRODUCER = 1
"""Warps of a producer that gives no registers away."""
OTHER_REGISTERS = 64
"""Of a thread, beside the tiles that live through an iteration: fragments that are read, and addresses."""
ENOUGH_STAGES = 2
"""Stages that are worth more than exchanges in few large pieces."""
ALIGNMENT = 1024
"""Of tiles in shared memory: where the pattern of a swizzle begins again."""
PRODUCTS = (DotOp, ScaledDotOp)

Values = dict[SSAValue, SSAValue]


@dataclass(eq=False)
class _Ring:
    """A pipeline, and the tiles that TMA copies to its stages."""

    tiles: list[TmaOperand]
    stages: int = 1
    pipe: SSAValue | None = None

    @property
    def loads(self) -> list[TiledLoadOp]:
        return [t.load for t in self.tiles]

    @property
    def types(self) -> list[Attribute]:
        return [t.type for t in self.tiles]

    def staged(self, stages: int) -> PipelineType:
        return PipelineType(stages, [t.type for t in self.tiles], 1, MBARRIER)

    @property
    def place(self) -> PipelineIteratorType:
        return PipelineIteratorType(self.staged(self.stages))

    def start(self, at: Inserter) -> SSAValue:
        return at.value(CreateIteratorOp.make(self.pipe, results=[self.place]))

    def next(self, at: Inserter, place: SSAValue) -> SSAValue:
        return at.value(IncIterOp.make(place, results=[self.place]))


class FedLoop:
    """One kernel, and the loop that a producer feeds. Unfit where it stays as it is."""

    def __init__(self, function: FuncOp, gpu: Target, most: int):
        spec = function.kernel_spec
        assert spec is not None
        self.function, self.gpu, self.spec = function, gpu, spec
        if spec.num_warps not in WARPS:
            raise Unfit(f"{spec.num_warps} warps are not {' or '.join(map(str, WARPS))}")
        wanted = [
            op for op in walk(function)
            if isinstance(op, LOADS) and _is_repeated(op) and is_worth_it(op) and not _is_of_factors(op)
        ]  # fmt: skip
        self.loop, loads = self._loop(wanted)
        self.body = self.loop.body.block
        if (turns := known_trips(self.loop)) is not None and turns < 2:
            raise Unfit("its loop has fewer than two turns")
        tiles = [self._tile(load) for load in loads]
        ahead = computed_ahead(loads, self.body)
        if ahead is None:
            raise Unfit("an address depends on what the loop computes")
        self.ahead = ahead
        self.each = self._for_each_tile(loads)
        self.rings = self._rings(tiles)
        self.shared = self._needed_by_all()
        self.budget = self._budget()
        self._set_stages(most)

    # -- what fits --------------------------------------------------------------------------------------------------

    def _loop(self, loads: Sequence[Load]) -> tuple[scf.ForOp, list[TiledLoadOp]]:
        """The loop with all loads that are worth to run ahead of one, and these."""
        found: list[TiledLoadOp] = []
        loops: dict[Operation, None] = {}
        for load in loads:
            loop = load.parent_op()
            if not isinstance(load, TiledLoadOp):
                raise Unfit(_name(load) + "is not loaded by a view")
            if not isinstance(loop, scf.ForOp):
                raise Unfit(_name(load) + "is loaded under a condition, or in a loop that does not count")
            loops[loop] = None
            found.append(load)
        if not loops:
            raise Unfit("no operand is loaded by a view in a loop")
        if len(loops) > 1:
            raise Unfit("the kernel loads operands in several loops")
        (loop,) = loops
        assert isinstance(loop, scf.ForOp)
        outer = loop.parent_op() if loop.parent is not self.function.body.block else None
        if outer is not None and (not isinstance(outer, scf.ForOp) or outer.parent is not self.function.body.block):
            raise Unfit("its loop is within another op")
        self.outer = outer
        return loop, found

    def _for_each_tile(self, loads: Sequence[TiledLoadOp]) -> list[Operation]:
        """What a producer computes for each tile of a loop over tiles; nothing without one."""
        if self.outer is None:
            return []
        users = [*self.ahead.ops, *self.ahead.updates, *loads]
        return persistent.needed(self.outer, self.loop, users, [self.loop.iter_args[n] for n in self.ahead.carried])

    def _tile(self, load: TiledLoadOp) -> TmaOperand:
        what = _name(load)
        tile = tma_tile(self.function, what, load)
        work = [] if load.result_token is None else [load.result_token]
        while work:
            for use in work.pop().uses:
                op = use.operation
                if isinstance(op, JoinMemTokenOp):
                    work.append(op.results[0])
                elif not (isinstance(op, scf.YieldOp) and op.parent is self.body):
                    raise Unfit("a token orders another access behind one that is a copy by TMA")
        assert tile.type.layout is not None
        size = STORAGE_BYTES[NUMBER_NAMES[tile.type.element_type]]
        for layout in _wanted(load.value):
            warp_bits = len(layout.basis(WARP))
            found = accesses(
                reduced(layout, warp_bits), tile.type.layout.layout, size, self.gpu.has("ldmatrix"), storing=False
            )
            if found.conflicts:
                raise Unfit(what + "would be read with bank conflicts from shared memory as TMA writes it")
        return tile

    def _rings(self, tiles: Sequence[TmaOperand]) -> list[_Ring]:
        """Tiles by the first product that uses them, in the order of these."""
        places = {op: number for number, op in enumerate(self.body.ops)}
        found: dict[Operation, list[TmaOperand]] = {}
        for tile in tiles:
            users = list(self._users(tile.load.value))
            if not users:
                raise Unfit(_name(tile.load) + "is used by no product of its loop")
            found.setdefault(min(users, key=lambda op: places[op]), []).append(tile)
        return [_Ring(found[op]) for op in sorted(found, key=lambda op: places[op])]

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

    def _needed_by_all(self) -> set[Operation]:
        """The ops in front of the loop that the producer and the descriptors need."""
        loop, block = self.loop, self.function.body.block
        work: list[SSAValue] = [loop.lb, loop.ub, loop.step]
        work += [loop.iter_args[n] for n in self.ahead.carried]
        work += [v for op in (*self.ahead.ops, *self.ahead.updates, *self.each) for v in op.operands]
        if self.outer is not None:
            work += [self.outer.lb, self.outer.ub, self.outer.step]
        for tile in (t for r in self.rings for t in r.tiles):
            work += [*tile.memref.results, *tile.load.group("indices")]
        found = self._closure(work)
        for op in found:
            if not is_pure(op) and not isinstance(op, DIVISIONS):
                raise Unfit(f"its copies need what '{op.name}' gives")
        # The host makes tensor maps of tensors, by which results may be stored, from what stands here.
        for op in block.ops:
            more = self._closure(op.results) if isinstance(op, MakeMemRefOp) else set()
            if all(map(is_pure, more)):
                found |= more
        return found

    def _closure(self, values: Iterable[SSAValue]) -> set[Operation]:
        """The ops of the function itself that values come from."""
        found: set[Operation] = set()
        work = list(values)
        while work:
            op = work.pop().owner
            if isinstance(op, Operation) and op.parent is self.function.body.block and op not in found:
                found.add(op)
                work += op.operands
        return found

    def _budget(self) -> tuple[int, int] | None:
        """Registers of a thread of each agent where they do not share alike. Unfit where that is too many."""
        budget, wanted = BUDGETS.get(self.spec.num_warps), self._registers()
        threads = (self.spec.num_warps + LONE_PRODUCER + 3) // 4 * 4 * self.gpu.warp_size
        blocks = self.spec.occupancy or 1
        if budget is None or wanted <= self.gpu.registers_per_sm // blocks // threads:
            return None
        consumer_registers(self.spec, self.gpu, budget)
        return budget

    def _registers(self) -> int:
        """Of a thread, about, in an iteration: for what the loop carries, for what it takes from before it, for the
        results of its products, and the rest."""
        held: dict[SSAValue, None] = dict.fromkeys(self.body.args)
        for op in walk(self.body):
            held.update(dict.fromkeys(v for v in op.operands if self._is_before(v)))
            if isinstance(op, PRODUCTS) and op.c.owner is not self.body:
                held[op.result] = None
            if isinstance(op, ScaledDotOp):  # which reads its operands as a whole
                held.update(dict.fromkeys(op.operands))
        return OTHER_REGISTERS + sum(_registers(v) for v in held)

    def _is_before(self, value: SSAValue) -> bool:
        blocks = [self.function.body.block, *([] if self.outer is None else [self.outer.body.block])]
        return isinstance(value.owner, Operation) and value.owner.parent in blocks

    def _set_stages(self, most: int) -> None:
        """As many stages for each ring as there is room for, and as hints of the loads' latency ask for."""
        limit, stages, piece = block_bytes(self.gpu, self.spec), 0, PIECE_BYTES
        if self.outer is not None:
            stages = self._stages_beside(limit, most)
            for ring in self.rings:
                ring.stages = self._wanted(ring, stages, most)
            return
        while stages < ENOUGH_STAGES and piece >= PIECE_BYTES // 16:
            stages = max(stages, self._stages_in(limit - self._exchanged(piece), most))
            piece //= 2
        if not stages:
            each = rings_bytes((r.staged(1) for r in self.rings), ALIGNMENT)
            raise Unfit(f"a stage of {each} bytes does not fit the shared memory that is free")
        for ring in self.rings:
            ring.stages = self._wanted(ring, stages, most)

    def _stages_beside(self, limit: int, most: int) -> int:
        """Stages that there are room for beside what a loop over tiles stores or exchanges, which never drains them.
        Unfit where there are too few."""
        assert self.outer is not None
        loads = {load for ring in self.rings for load in ring.loads}
        gone = {op for load in loads for op in _conversions(load.value)}
        kept = staging.kept_beside(self.function, self.outer, gone, MAX_BOX)
        exchanges = Exchanges(self.function)
        kept += [exchanges.bytes(loads, (), PIECE_BYTES // n) for n in (1, 2, 4, 8, 16)]
        found = (self._stages_in(limit - n, most) for n in kept)
        stages = next((n for n in found if n >= ENOUGH_STAGES), 0)
        if not stages:
            each = rings_bytes((r.staged(1) for r in self.rings), ALIGNMENT)
            what = f"{ENOUGH_STAGES} stages of {each} bytes"
            raise Unfit(f"{what} do not fit shared memory beside what the loop around its loop stores")
        return stages

    def _wanted(self, ring: _Ring, stages: int, most: int) -> int:
        return min(stages, max(stages_wanted(load, most) for load in ring.loads))

    def _stages_in(self, free: int, most: int) -> int:
        for stages in range(most, 0, -1):
            types = [r.staged(self._wanted(r, stages, most)) for r in self.rings]
            if rings_bytes(types, ALIGNMENT) <= free:
                return stages
        return 0

    def _exchanged(self, most: int) -> int:
        """Bytes for exchanges between the kernel's warps while copies come in: those behind the loop take the place of
        the stages."""
        behind = {op for later in _behind(self.loop) for op in walk(later)}
        loads = {load for ring in self.rings for load in ring.loads}
        return Exchanges(self.function, behind).bytes(loads, (), most)

    # -- the new code -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        loop, block = self.loop, self.function.body.block
        for ring in self.rings:
            for load in ring.loads:
                raise_conversions(load.value)
        at = Inserter(block, loop if self.outer is None else self.outer, loop.location)
        descriptors = [t.descriptor(at, n) for n, t in enumerate(t for r in self.rings for t in r.tiles)]
        for ring in self.rings:
            made = CreatePipelineOp.make(results=[ring.staged(ring.stages)], alignment=ALIGNMENT)
            if self.outer is None:
                made.attributes[DRAINED] = UnitAttr()
            ring.pipe = at.value(made)
        consumer, producer = Block(), Block()
        self._produce(Inserter(producer, None, loop.location), descriptors)
        warps = self.spec.num_warps, LONE_PRODUCER if self.budget is None else PRODUCER_WARPS
        switch = AgentSwitchOp.make(
            regions=[Region(consumer), Region(producer)],
            agent_warps=array_of(*warps),
            agent_registers=None if self.budget is None else array_of(*self.budget),
            agent_elected=array_of(0, 1),
        )
        at.add(switch)
        self._consume(Inserter(consumer, None, loop.location), switch)
        drop_unused(block)

    def _produce(self, at: Inserter, descriptors: Sequence[SSAValue]) -> None:
        """The loop again, with copies in place of everything else, for each tile."""
        starts = [ring.start(at) for ring in self.rings]
        if self.outer is None:
            self._copies(at, descriptors, starts, {})
        else:
            persistent.repeat(
                at, self.outer, self.each, starts,
                lambda inner, places, values: self._copies(inner, descriptors, places, values),
            )  # fmt: skip
        at.add(PipelineYieldOp.make())

    def _copies(
        self, at: Inserter, descriptors: Sequence[SSAValue], starts: Sequence[SSAValue], given: Values
    ) -> Sequence[SSAValue]:
        """The copies of all steps from places on, with values for some from outside of the loop; the places behind."""
        loop = self.loop
        bounds = [given.get(v, v) for v in (loop.lb, loop.ub, loop.step)]
        carried = [given.get(v, v) for v in (loop.iter_args[n] for n in self.ahead.carried)]
        body = Block(arg_types=[self.body.args[0].type, *(v.type for v in (*starts, *carried))])
        inner = Inserter(body, None, loop.location)
        values: Values = {**given, self.body.args[0]: body.args[0]}
        values |= {self.body.args[1 + n]: a for n, a in zip(self.ahead.carried, body.args[1 + len(starts) :])}
        inner.clone(self.ahead.ops, values)
        number, following = 0, []
        for ring, place in zip(self.rings, body.args[1:]):
            ready = ProducerTokenType(ring.types)
            token = inner.value(ProducerAcquireOp.make(ring.pipe, place, results=[ready]))
            stage = Block(arg_types=ring.types)
            copies = Inserter(stage, None, loop.location)
            for tile, buffer in zip(ring.tiles, stage.args):
                tile.copy(copies, number, descriptors[number], buffer, values)
                number += 1
            copies.add(PipelineYieldOp.make())
            token = inner.value(ProducerWriteOp.make(token, place, results=[ready, []], regions=[Region(stage)]))
            inner.add(ProducerCommitOp.make(token))
            following.append(ring.next(inner, place))
        inner.clone([op for op in self.ahead.updates if op not in self.ahead.ops], values)
        last = self.body.last_op
        assert last is not None
        ends = [values.get(last.operands[n], last.operands[n]) for n in self.ahead.carried]
        inner.add(scf.YieldOp(*following, *ends))
        made = scf.ForOp(bounds[0], bounds[1], bounds[2], [*starts, *carried], body)
        made.attributes.update(loop.attributes)
        at.add(made)
        return made.results[: len(starts)]

    def _consume(self, at: Inserter, switch: Operation) -> None:
        """Everything that only the kernel's warps need."""
        block, agents = self.function.body.block, {switch}
        agents |= {r.pipe.owner for r in self.rings if r.pipe is not None and isinstance(r.pipe.owner, Operation)}
        agents |= {use.operation for t in self._tiles() for use in t.memref.results[0].uses}
        starts: list[SSAValue] = []
        for op in list(block.ops):
            if op in self.shared and switch.is_before_in_block(op):  # a tensor that is named behind the loop only
                op.detach()
                block.insert_op_before(op, switch)
            if op in self.shared or isinstance(op, ReturnOp) or op in agents:
                continue
            if op is (self.loop if self.outer is None else self.outer):
                starts = [ring.start(at) for ring in self.rings]
            op.detach()
            at.block.add_op(op)
        self._read_stages()
        self._rebuild(starts)
        at.add(PipelineYieldOp.make())

    def _tiles(self) -> Iterable[TmaOperand]:
        return (t for r in self.rings for t in r.tiles)

    def _read_stages(self) -> None:
        """Turns of the kernel's warps in place of the loads, at the first op that uses one of them."""
        for ring in self.rings:
            values = [load.value for load in ring.loads]
            users = {self._of_body(u.operation): None for value in values for u in value.uses}
            products = {op: None for value in values for op in self._users(value)}
            last = [op for op in self.body.ops if op in products][-1]
            slices = slices_of(last, values) if len(products) == 1 else None
            first = last if slices is not None else next(op for op in self.body.ops if op in users)
            place = self.body.insert_arg(ring.place, len(self.body.args))
            at = Inserter(self.body, first, ring.loads[0].location)
            for load in ring.loads:
                if (given := load.result_token) is not None:
                    # The copy has ended before its product does: what is ordered behind it is.
                    given.replace_all_uses_with(at.value(CreateMemTokenOp.make(results=[given.type])))
            held = ConsumerTokenType(ring.types)
            token = at.value(ConsumerWaitOp.make(ring.pipe, place, results=[held]))
            stage = Block(arg_types=ring.types)
            inside = Inserter(stage, None, at.location)
            buffers: Values = dict(zip(values, stage.args))
            if slices is not None:
                read, types = [slices.make(inside, buffers)], [slices.product.result.type]
            else:
                wanted = [(load, type_) for load in ring.loads for type_ in read_types(load)]
                types = [type_ for _, type_ in wanted]
                read = [
                    inside.value(CopyOp.make(buffers[load.value], results=[type_]), load.location)
                    for load, type_ in wanted
                ]
            inside.add(PipelineYieldOp.make(read))
            done = at.add(ConsumerReadOp.make(token, place, results=[held, types], regions=[Region(stage)]))
            location = last.location if isinstance(last, PRODUCTS) else self.loop.location
            Inserter(self.body, last.next_op, location).add(ConsumerReleaseOp.make(done.results[0]))
            if slices is not None:
                slices.product.result.replace_all_uses_with(done.results[1])
                slices.erase()
            else:
                for load in ring.loads:
                    take_over(load, {t: v for (of, t), v in zip(wanted, done.results[1:]) if of is load})
            for load in ring.loads:
                erase(load)

    def _rebuild(self, starts: Sequence[SSAValue]) -> None:
        """The loop again, which carries where it reads as well, and so does one over tiles around it."""
        old, body, outer = self.loop, self.body, self.outer
        last = body.last_op
        assert last is not None
        ends = Inserter(body, last, old.location)
        places = body.args[len(body.args) - len(starts) :]
        following = [ring.next(ends, place) for ring, place in zip(self.rings, places)]
        if outer is None:
            carry_more(old, starts, following)
            return
        around = [outer.body.block.insert_arg(v.type, len(outer.body.block.args)) for v in starts]
        made = carry_more(old, around, following)
        carry_more(outer, starts, made.results[len(made.results) - len(starts) :])


def _name(load: Load) -> str:
    """What a load is called in reasons."""
    side = next((s for s, value in (("#A ", 0), ("#B ", 1)) for u in _ends(load.value) if u == value), None)
    return side or "an operand "


def _ends(value: SSAValue) -> Iterator[int]:
    """The numbers of the operands that a tile becomes."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, PRODUCTS):
            yield use.index
        elif is_pure(op):
            for result in op.results:
                yield from _ends(result)


def _is_of_factors(load: Load) -> bool:
    """Whether a tile is nothing but scale factors of products, which the warps that multiply load themselves."""
    numbers = list(_ends(load.value))
    return bool(numbers) and min(numbers) > ACCUMULATOR


def _is_repeated(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp | scf.WhileOp):
            return True
        parent = parent.parent_op()
    return False


def _behind(op: Operation) -> Iterator[Operation]:
    later = op.next_op
    while later is not None:
        yield later
        later = later.next_op


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


def _conversions(value: SSAValue) -> Iterator[Operation]:
    """The conversions of a loaded tile, which is read from a stage as they make it."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, ConvertLayoutOp):
            yield op
        elif len(op.operands) == 1 and len(op.results) == 1 and is_pure(op):
            yield from _conversions(op.results[0])


def _registers(value: SSAValue) -> int:
    """32-bit registers of a thread that a tile takes."""
    if not isinstance(value.type, TensorType) or not value.type.get_shape():
        return 0
    return layout_of(value).in_size(REGISTER) * element_bytes(value.type.element_type) // 4
