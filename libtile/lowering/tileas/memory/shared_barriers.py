# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-insert-shared-barriers`: barriers between accesses of shared memory by different threads.

Places in shared memory are used again and again: by exchanges, by the stages of pipelines, by what lies where something
else was. A barrier stands between a read and a later write of the same bytes, and between a write and what comes after
it. It is an op, or, for the exchanges of an op, the mark `meet` on the exchange. What an op does, in order:

    an exchange         writes its place, meets, and reads it; the meeting ends whatever was open before
    producer_acquire    writes a stage: nobody may still read it, or what lay there; in a loop it may be any stage.
                        Stages of one ring tell its writes and the reads of other stages apart, because a consumer has
                        waited in between
    consumer_wait       what was copied to the ring is written, as far as the thread itself is concerned
    consumer_read       reads the ring
    copy                writes or reads a buffer
    wait                a buffer that a copy to global memory reads, which the thread has waited for that began it
    drawing a turn      writes what one thread has drawn, meets, and reads it
    a pipeline is made  writes its barrier objects, which all threads have to see before the first turn. Where there is
                        TMA, a fence in front of that barrier has copies see what threads have exchanged before
    barrier             ends everything

Agents wait for barrier objects at their turns, so that there is nothing to meet for; only where a pipeline is drained
its stages are read, as something else may be written there behind its last turn.

The analysis goes through the function with what is open, again and again while a loop begins with more than it did.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.interfaces import first_name
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.attributes import ExchangesAttr
from libtile.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    ConsumeOneOp,
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    ProduceOneOp,
    ProducerAcquireOp,
    ProducerWriteOp,
    WaitOp,
)
from libtile.dialects.nv_tileas.tiles import BarrierOp, ClusterBarrierOp, CopyOp
from libtile.dialects.nv_tileas.tma import (
    CreateMBarrierOp,
    FenceProxyOp,
    InvalidateMBarrierOp,
    MBarrierArriveOp,
    MBarrierWaitOp,
    TmaLoad,
    TmaStore,
)
from libtile.dialects.nv_tileas.types import BufferType, PipelineIteratorType, PipelineType
from libtile.ir.classes import is_subclass
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import sources_of
from libtile.ir.places import ops_in, ops_of
from libtile.lowering.agents import agent_of, is_elected
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.cleanup import LOOPS
from libtile.lowering.tileas.memory.free_stages import DRAINED
from libtile.lowering.tileas.memory.shared_check import check_shared_memory
from libtile.lowering.tileas.memory.shared_memory import STAGE_BARRIER_BYTES, drawing_bytes, drawn_sides
from libtile.lowering.tileas.memory.storage_lives import (
    BARRIERS,
    DRAWING,
    EXCHANGES,
    OFFSET,
    known_stage,
    makes_shared,
    storage_bytes,
    users,
)
from libtile.support.records import dataclass, replace
from libtile.targets import target

KNOWN = (
    *LOOPS, scf.IfOp, BarrierOp, AgentSwitchOp, CreatePipelineOp, ProducerAcquireOp, ConsumerWaitOp, ProducerWriteOp,
    ConsumerReadOp, ConsumerReleaseOp, TmaStore, TmaLoad, ProduceOneOp, ConsumeOneOp, CopyOp, CreateMBarrierOp,
    MBarrierArriveOp, MBarrierWaitOp, InvalidateMBarrierOp, CreateIteratorOp, WaitOp, ClusterBarrierOp, FenceProxyOp,
)  # fmt: skip
"""The classes of ops that `_known` tells apart."""


@dataclass(frozen=True)
class InsertSharedBarriersPass(ModulePass):
    """Put barriers between reads and writes of the same bytes of shared memory by different threads."""

    name = "tileas-insert-shared-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                check_shared_memory(inner, target(inner.kernel_spec.target))
                insert_shared_barriers(inner)


ASYNC_SHARED = "async.shared"
"""The proxy by which copies and products read and write shared memory."""


@dataclass(frozen=True)
class Span:
    """Bytes of shared memory, and the pipeline whose stages they are, if they are one's."""

    start: int
    end: int
    ring: Operation | None = None

    def meets(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class Open:
    """What was read and written since the last barrier, and whether pipelines are among what was made since the last
    fence between proxies."""

    reads: frozenset[Span] = frozenset()
    writes: frozenset[Span] = frozenset()
    made: bool = False

    def __or__(self, other: Open) -> Open:
        return Open(self.reads | other.reads, self.writes | other.writes, self.made or other.made)

    def read(self, span: Span) -> Open:
        return replace(self, reads=self.reads | {span})

    def written(self, span: Span) -> Open:
        return replace(self, writes=self.writes | {span})


_NOTHING = Open()

LOOP_TURNS = 16
"""Turns of a loop, where nobody knows how many it has."""


@dataclass(frozen=True)
class Needed:
    """How many barriers a function needs, and how often threads meet at them, about."""

    count: int
    meetings: int

    def no_more_than(self, other: Needed) -> bool:
        return self.count <= other.count and self.meetings <= other.meetings


def barriers_needed(function: FuncOp) -> Needed:
    """The barriers that `insert_shared_barriers` would insert. LoweringError where it is not known what lies where."""
    analysis = _Analysis(function)
    analysis.run()
    found = [*analysis.places, *(op for op, numbers in analysis.meets.items() for _ in numbers)]
    return Needed(len(found), sum(LOOP_TURNS ** _loops_around(op) for op in found))


def _loops_around(op: Operation) -> int:
    count, parent = 0, op.parent_op()
    while parent is not None:
        count, parent = count + is_subclass(type(parent), LOOPS), parent.parent_op()
    return count


def places_of_shared_barriers(function: FuncOp) -> list[Operation]:
    """The ops of a function in front of which, or of whose exchanges, a barrier is missing."""
    analysis = _Analysis(function)
    analysis.run()
    # In front of the end of a barrier object all threads meet in any case.
    places = (op for op in analysis.places if not (isinstance(op.prev_op, BarrierOp) and op.prev_op.num_warps is None))
    return [*places, *analysis.meets]


def insert_shared_barriers(function: FuncOp) -> int:
    """Insert the barriers of a function and mark its exchanges; returns how many there are more."""
    analysis = _Analysis(function)
    analysis.run()
    for op in {**analysis.places, **analysis.fences}:
        assert op.parent is not None
        if op in analysis.fences:
            op.parent.insert_op_before(FenceProxyOp.make(proxy=ASYNC_SHARED, location=op.location), op)
        if op in analysis.places:
            op.parent.insert_op_before(BarrierOp.make(location=op.location), op)
    for op, numbers in analysis.meets.items():
        given = op.attributes[EXCHANGES]
        assert isinstance(given, ExchangesAttr)
        places = [(o, size, meet or n in numbers) for n, (o, size, meet) in enumerate(given.places)]
        op.attributes[EXCHANGES] = ExchangesAttr(places)
    return len(analysis.places) + sum(map(len, analysis.meets.values()))


class _Analysis:
    """Which barriers there must be: `places`, before these ops, and `meets`, before these exchanges of ops; `fences`:
    before these ops, in front of the barrier that stands there or that they are."""

    def __init__(self, function: FuncOp):
        self.function = function
        spec = function.kernel_spec
        self.by_proxies = spec is not None and spec.target is not None and target(spec.target).has("tma")
        self.places: dict[Operation, None] = {}
        self.fences: dict[Operation, None] = {}
        self.meets: dict[Operation, set[int]] = {}
        self._begins: dict[Operation, Open] = {}
        self._grown = False
        self._reads_of: dict[Operation, list[SSAValue]] | None = None
        self._readers_of: list[tuple[Span, set[tuple[Operation | None, int]]]] | None = None
        """The drained pipelines, and the agents that read the stages of each."""
        self._asked: dict[Block, list[Operation]] = {}
        """The ops of a block that have to do with shared memory, barriers or order: a run changes none of them."""
        self.visits = 0
        """How often an op was looked at."""

    def run(self) -> None:
        # Barriers are found anew each time: one that a loop's end asks for may spare one further on in its body.
        self._grown = True
        while self._grown:
            self._grown = False
            self.places.clear()
            self.fences.clear()
            self.meets.clear()
            self._block(self.function.regions[0].block, _NOTHING)

    def _block(self, block: Block, now: Open) -> Open:
        asked = self._asked.get(block)
        if asked is None:
            asked = self._asked[block] = [
                op for op in ops_in(block) if is_subclass(type(op), KNOWN) or op.regions or EXCHANGES in op.attributes
            ]
        self.visits += len(asked)
        for op in asked:
            now = self._known(op, now) if is_subclass(type(op), KNOWN) else self._other(op, now)
        return now

    def _known(self, op: Operation, now: Open) -> Open:
        """An op of a class that has to do with shared memory or barriers, or with the order in which ops run."""
        match op:
            case scf.ForOp() | scf.WhileOp():
                return self._loop(op, now)
            case scf.IfOp():
                ends = [self._block(r.block, now) if r.blocks else now for r in op.regions]
                return ends[0] | ends[1]
            case BarrierOp() | ClusterBarrierOp():
                return now if isinstance(op, BarrierOp) and op.num_warps is not None else self._met(op, now)
            case FenceProxyOp():
                return replace(now, made=now.made and op.proxy.data not in (ASYNC_SHARED, "async"))
            case AgentSwitchOp():
                # Agents meet on their own, and what lies between two of them is up to barrier objects: what was open
                # before they part ends there, where all threads can still meet.
                now = self._before(op, now, bool(now.reads or now.writes))
                ends = [self._block(r.block, now) for r in op.regions]
                return Open(frozenset().union(*(e.reads for e in ends)), frozenset().union(*(e.writes for e in ends)))
            case CreatePipelineOp(pipeline=made) if _has_barriers(made.type):
                objects = _objects_of(op)
                now = self._before(op, now, any(s.meets(o) for o in objects for s in (*now.reads, *now.writes)))
                return Open(now.reads, now.writes.union(objects), made=self.by_proxies)
            case CreateIteratorOp() if op.drawn is not None:
                return self._draw(op, now)
            case ConsumerWaitOp() if _has_barriers(op.iterator.type):
                now, owner = self._begins_turn(op, now), op.pipeline.owner
                drained = isinstance(owner, CreatePipelineOp) and DRAINED in owner.attributes
                return now.read(span_of(op.pipeline)) if drained else now
            case ProducerAcquireOp() if _has_barriers(op.iterator.type):
                return self._begins_turn(op, now)
            case ConsumerReleaseOp():
                # Products may have read stages until here, behind a barrier that came behind the wait for a stage.
                return replace(now, reads=now.reads | self._drained_by(op))
            case ProducerWriteOp() | ConsumerReadOp() if _has_barriers(op.iterator.type):
                return self._block(op.body.block, now)
            case TmaStore():
                (buffer,) = op.group("buffer")
                if not _is_shared(buffer) or _in_turn(buffer):
                    return now
                span = span_of(buffer)
                return self._before(op, now, any(s.meets(span) for s in now.writes)).read(span)
            case TmaLoad():
                (buffer,) = op.group("buffer")
                if not _is_shared(buffer) or _in_turn(buffer):
                    return now
                # Whoever reads it waits at a barrier object, which says that the copy is done.
                span = span_of(buffer)
                return self._before(op, now, any(s.meets(span) for s in (*now.reads, *now.writes)))
            case CreateMBarrierOp(result=made):
                span = span_of(made)
                now = self._before(op, now, any(s.meets(span) for s in (*now.reads, *now.writes)))
                return self._met(op, now)  # behind it all that run it have met
            case MBarrierWaitOp():
                return now.read(_object(op))
            case MBarrierArriveOp():
                # One thread arrives, for all that come here: what they have done before is done.
                return self._before(op, now, bool(now.reads or now.writes))
            case InvalidateMBarrierOp():
                return self._before(op, now, True).written(_object(op))
            case WaitOp():
                # Only who began a copy waits for it, so that others meet behind that.
                return replace(now, reads=now.reads | frozenset(map(span_of, self._stored(op))))
            case ProducerAcquireOp():
                ring = _stage(op)
                others = (s for s in now.writes if s.ring is not ring.ring)
                return self._before(op, now, any(s.meets(ring) for s in (*now.reads, *others)))
            case ConsumerWaitOp():
                return now.written(span_of(op.pipeline))
            case ConsumerReadOp():
                ring = span_of(op.token)
                now = self._before(op, now, any(s.meets(ring) for s in now.writes)).read(ring)
                return self._block(op.body.block, now)
            case ProduceOneOp() | ConsumeOneOp() | ProducerWriteOp():
                return self._block(op.body.block, now)
            case CopyOp():
                return self._copy(op, now)
            case _:
                return self._other(op, now)

    def _drained_by(self, op: Operation) -> frozenset[Span]:
        """The drained pipelines whose stages the agent of an op reads."""
        if self._readers_of is None:
            self._readers_of = [
                (
                    span_of(made.pipeline),
                    {agent_of(u.operation) for u in made.pipeline.uses if isinstance(u.operation, ConsumerWaitOp)},
                )
                for made in ops_in(self.function.regions[0].block)
                if isinstance(made, CreatePipelineOp) and DRAINED in made.attributes
            ]
        agent = agent_of(op)
        return frozenset(span for span, readers in self._readers_of if agent in readers)

    def _stored(self, op: WaitOp) -> list[SSAValue]:
        """The buffers from which copies are under way that an op waits for."""
        if self._reads_of is None:
            self._reads_of = {}
            for store in ops_of(self.function, TmaStore):
                (buffer,) = store.group("buffer")
                for user in users(buffer) if _is_shared(buffer) and not _in_turn(buffer) else ():
                    if isinstance(user, WaitOp):
                        self._reads_of.setdefault(user, []).append(buffer)
        return self._reads_of.get(op, [])

    def _draw(self, op: CreateIteratorOp, now: Open) -> Open:
        """An agent draws its turn: one of its threads tells the others."""
        if is_elected(op):
            return now
        words = _words(op)
        now = self._before(op, now, any(s.meets(words) for s in (*now.reads, *now.writes)))
        return self._met(op, now).read(words)

    def _other(self, op: Operation, now: Open) -> Open:
        """Any other op, which may exchange elements."""
        given = op.attributes.get(EXCHANGES)
        if isinstance(given, ExchangesAttr):
            return self._exchanges(op, given, now)
        if op.regions and any(_touches(inner) for inner in ops_of(op) if inner is not op):
            raise unsupported(op, "uses shared memory in a region of which it is not known when it runs")
        return now

    def _before(self, op: Operation, now: Open, needed: bool) -> Open:
        if needed and not is_elected(op):
            self.places[op] = None
            return self._met(op, now)
        return now

    def _met(self, op: Operation, now: Open) -> Open:
        """All threads meet at an op, or in front of it."""
        if now.made:
            self.fences[op] = None
        return _NOTHING

    def _begins_turn(self, op: ProducerAcquireOp | ConsumerWaitOp, now: Open) -> Open:
        """The first turn of a pipeline comes behind the barrier that shows its barrier objects."""
        owner = op.pipeline.owner
        if not isinstance(owner, CreatePipelineOp):
            return now
        return self._before(op, now, any(s.meets(o) for o in _objects_of(owner) for s in now.writes))

    def _copy(self, op: CopyOp, now: Open) -> Open:
        if _is_shared(op.source) and not _in_turn(op.source):
            span = span_of(op.source)
            now = self._before(op, now, any(s.meets(span) for s in now.writes)).read(span)
        destination = op.destination
        if destination is not None and _is_shared(destination) and not _in_turn(destination):
            span = span_of(destination)
            now = self._before(op, now, any(s.meets(span) for s in (*now.reads, *now.writes))).written(span)
        return now

    def _exchanges(self, op: Operation, given: ExchangesAttr, now: Open) -> Open:
        for number, (offset, size, meet) in enumerate(given.places):
            span = Span(offset, offset + size)
            if not meet and any(s.meets(span) for s in (*now.reads, *now.writes)):
                self.meets.setdefault(op, set()).add(number)
            now = self._met(op, now).read(span)
        return now

    def _loop(self, op: scf.ForOp | scf.WhileOp, now: Open) -> Open:
        begin = now | self._begins.get(op, _NOTHING)
        if isinstance(op, scf.ForOp):
            end = self._block(op.body.block, begin)
            out = begin | end  # it may not run at all
        else:
            out = self._block(op.before_region.block, begin)
            end = self._block(op.after_region.block, out)
        kept = begin | end
        if kept != self._begins.get(op):
            self._grown = True
            self._begins[op] = kept
        return out


def _object(op: MBarrierWaitOp | InvalidateMBarrierOp) -> Span:
    """The bytes of the barrier object of an op. LoweringError for one that is not known by the op that makes it."""
    if not isinstance(op.mbarrier.owner, CreateMBarrierOp):
        raise unsupported(op, "has a barrier object that control flow hands on")
    return span_of(op.mbarrier)


def _has_barriers(type_: Attribute) -> bool:
    """Whether a type is of a pipeline with barrier objects, or of an iterator of one."""
    if isinstance(type_, PipelineIteratorType):
        type_ = type_.pipeline
    return isinstance(type_, PipelineType) and type_.has_barriers


def _touches(op: Operation) -> bool:
    return EXCHANGES in op.attributes or isinstance(op, CopyOp | ProducerAcquireOp | ConsumerWaitOp | ConsumerReadOp)


def _is_shared(value: SSAValue) -> bool:
    return isinstance(value.type, BufferType) and value.type.space == "shared"


def _in_turn(value: SSAValue) -> bool:
    """Whether a buffer is a stage's, or one seen as something else: the turn says when it is written and read."""
    return not isinstance(first_name(value).owner, Operation)


def span_of(value: SSAValue) -> Span:
    """The bytes of what a value stands for: the stages of a pipeline or of a token of one, a buffer, or a barrier
    object. LoweringError for one without a place."""
    owner = value.owner
    while isinstance(owner, Operation) and not makes_shared(owner) and (sources := sources_of(owner)):
        owner = sources[0].owner
    if not isinstance(owner, Operation) or not makes_shared(owner):
        if isinstance(owner, Operation):
            raise unsupported(owner, f"gives a {value.type} that has no place in shared memory")
        raise ValueError(f"a value of type {value.type} stands for nothing in shared memory")
    start = _place(owner, OFFSET)
    return Span(start, start + storage_bytes(owner), owner if isinstance(owner, CreatePipelineOp) else None)


def _place(op: Operation, attribute: str) -> int:
    place = op.attributes.get(attribute)
    if not isinstance(place, IntegerAttr):
        raise unsupported(op, f"has no '{attribute}': tileas-allocate-shared-memory gives it one")
    return place.value.data


def _stage(op: ProducerAcquireOp) -> Span:
    """The stage that a turn fills; all of them where a loop carries its number."""
    ring, stage, type_ = span_of(op.pipeline), known_stage(op.iterator), op.pipeline.type
    if stage is None:
        return ring
    assert isinstance(type_, PipelineType)
    each = (ring.end - ring.start) // type_.stages
    return Span(ring.start + stage * each, ring.start + (stage + 1) * each, ring.ring)


def _objects_of(op: CreatePipelineOp) -> list[Span]:
    """The barrier objects of a pipeline's stages, and the counter of turns that agents draw."""
    type_ = op.pipeline.type
    assert isinstance(type_, PipelineType)
    start = _place(op, BARRIERS)
    found = [Span(start, start + type_.stages * STAGE_BARRIER_BYTES)]
    if drawn_sides(op):
        start = _place(op, DRAWING)
        found.append(Span(start, start + drawing_bytes(type_)))
    return found


def _words(op: CreateIteratorOp) -> Span:
    """Where one thread of an agent tells the others which turn it has drawn."""
    made = op.pipeline.owner
    if not isinstance(made, CreatePipelineOp):
        raise unsupported(op, "draws a turn of a pipeline that control flow hands on")
    start, type_ = _place(made, DRAWING), made.pipeline.type
    assert isinstance(type_, PipelineType)
    return Span(start, start + drawing_bytes(type_))
