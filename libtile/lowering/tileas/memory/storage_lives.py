# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What lies in shared memory, and how long each byte of it lives: what may share bytes, and what may not.

Ops are numbered in the order of a function's text. A life goes from one op to another, both included, for the agent
that runs them; what agents of one switch run, they run at the same time. An op makes one storage or several:

    a buffer                 from the op that makes it to the last one that uses it; one that TMA stores from, to the
                             wait for these stores
    the stages of a ring     each stage from the first turn that may fill it, to the last op that uses the ring. A turn
                             is of a known stage in front of loops, and may be of any stage within one
    its barrier objects      from the op that makes them to the end, if it has any: they are storage of their own, and
                             so is the counter by which agents draw turns
    an exchange              as long as its op runs

Loops that use as a whole what is made outside of them do so from their begin to their end. The stages of a ring with
barrier objects are filled by another agent at any time; but one that has waited for all that is copied to them
(`drained`), or for the products that read them, is past them behind its last turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from libtile.codegen import mbarrier
from libtile.codegen.exchange import Exchange
from libtile.dialects import scf
from libtile.dialects.nv_tileas.attributes import ExchangesAttr
from libtile.dialects.nv_tileas.pipeline import (
    ConsumerWaitOp,
    CreateIteratorOp,
    CreatePipelineOp,
    IncIterOp,
    PipelineYieldOp,
    ProducerAcquireOp,
)
from libtile.dialects.nv_tileas.tiles import AllocTensorOp
from libtile.dialects.nv_tileas.tma import CreateMBarrierOp
from libtile.dialects.nv_tileas.types import (
    AsyncTokenType,
    BufferType,
    ConsumerTokenType,
    MBarrierType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.classes import is_subclass
from libtile.ir.places import op_of, ops_in
from libtile.lowering.agents import agent_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.memory.free_stages import DRAINED, Waits, agents_past, room_within, stages_bytes
from libtile.lowering.tileas.memory.shared_memory import (
    STAGE_BARRIER_BYTES,
    alignment_of,
    drawing_bytes,
    drawn_sides,
    tile_bytes,
)
from libtile.support.records import dataclass, field

OFFSET, BARRIERS, DRAWING, EXCHANGES = "shared_offset", "barriers_offset", "drawing_offset", "exchanges"
"""Where in shared memory lies what an op makes: buffers or stages; barrier objects of stages; the counter of turns that
agents draw; and each exchange of an op."""

BYTES, BYTES_ALIGNMENT = "shared_bytes", "shared_alignment"
"""On a function: how much shared memory it takes, and the alignment of its begin."""

MAKERS = (CreatePipelineOp, AllocTensorOp, CreateMBarrierOp)
"""Ops that make storage in shared memory."""

TENSOR_ADDRESS_BYTES = 16
"""Where tensor memory is allocated, its address is written to shared memory."""

Agents = tuple[tuple[Operation, int], ...]
"""The agents within each other that run an op, outermost first: the op at which they part, and the number."""


@dataclass(frozen=True)
class Life:
    """From op number `start` to `end`, both included, of what these agents run; `over` says for an agent behind which
    op it is past."""

    start: int
    end: int
    agents: Agents = ()
    over: tuple[tuple[Agents, int], ...] = ()

    def meets(self, other: Life) -> bool:
        """Whether both may be at the same time."""
        if at_once(self.agents, other.agents):
            return True
        if self._is_over_for(other) or other._is_over_for(self):
            return False
        return self.start <= other.end and other.start <= self.end

    def _is_over_for(self, other: Life) -> bool:
        return any(other.agents[: len(agents)] == agents and number < other.start for agents, number in self.over)


def at_once(first: Agents, second: Agents) -> bool:
    """Whether two agents run at the same time: at one op, they are of different numbers."""
    return any(a[0] is b[0] and a[1] != b[1] for a, b in zip(first, second))


@dataclass(frozen=True)
class Piece:
    """Bytes of a storage with a life of their own."""

    start: int
    end: int
    life: Life


@dataclass
class Storage:
    """Bytes that lie together, of an op that says in an attribute where they are."""

    op: Operation
    attribute: str
    alignment: int
    pieces: tuple[Piece, ...]
    offset: int = -1

    @cached_property
    def size(self) -> int:
        return max(piece.end for piece in self.pieces)

    @property
    def limit(self) -> int:
        return self.offset + self.size

    @cached_property
    def start(self) -> int:
        """The number of the first op at which any of it lives."""
        return min(piece.life.start for piece in self.pieces)

    @cached_property
    def end(self) -> int:
        return max(piece.life.end for piece in self.pieces)

    def taken(self, life: Life) -> Iterator[tuple[int, int]]:
        """The bytes of shared memory that live at the same time as something else."""
        for piece in self.pieces:
            if piece.life.meets(life):
                yield self.offset + piece.start, self.offset + piece.end


@dataclass
class Lives:
    """The ops of a function by their numbers, `first` and the last one in their regions, and what lies in shared
    memory."""

    function: Operation
    first: dict[Operation, int] = field(default_factory=dict)
    last: dict[Operation, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._number(self.function)
        self._makers = [op for op in self.first if is_subclass(type(op), MAKERS)]
        has_results = any(isinstance(op, CreatePipelineOp) and op.storage for op in self._makers)
        self._waits: Waits | None = {} if has_results else None

    def _number(self, op: Operation) -> None:
        first, last = self.first, self.last
        first[op] = number = len(first)
        last[op] = number
        if op.regions:
            for region in op.regions:
                for block in region.blocks:
                    for inner in ops_in(block):
                        if inner.regions:
                            self._number(inner)
                        else:
                            first[inner] = last[inner] = len(first)
            last[op] = len(first) - 1

    @property
    def all_the_time(self) -> int:
        """The number of the last op."""
        return len(self.first) - 1

    def of_exchange(self, op: Operation) -> Life:
        """How long the exchanges of an op live."""
        return Life(self.first[op], self.last[op], agents_around(op))

    def storages(self) -> list[Storage]:
        """What lies in shared memory at a place of its own, in the order in which it is made."""
        made = [op for op in self._makers if makes_shared(op) and around(op) is None]
        return [storage for op in made for storage in self._storages(op)]

    def within(self) -> list[tuple[Storage, Operation]]:
        """What lies within the stages of a pipeline, at offsets from the pipeline's first byte, and that pipeline.
        LoweringError where it does not fit."""
        found, ends = [], dict[Operation, int]()
        for op in self._makers:
            if not makes_shared(op) or (pipeline := around(op)) is None:
                continue
            size, agents = storage_bytes(op), agents_around(op)
            life = Life(self.first[op], self.last[agents[-1][0]] if agents else self.all_the_time, agents)
            storage = Storage(op, OFFSET, alignment_of(op), (Piece(0, size, life),), ends.get(pipeline, 0))
            ends[pipeline] = storage.offset + room_within(pipeline, size)
            if storage.limit > stages_bytes(pipeline) or storage.alignment > alignment_of(pipeline):
                problem = f"takes bytes {storage.offset} to {storage.limit} of a pipeline's stages, which have "
                raise unsupported(op, f"{problem}{stages_bytes(pipeline)} aligned to {alignment_of(pipeline)}")
            found.append((storage, pipeline))
        return found

    # -- the lives of one op's storages -------------------------------------------------------------------------------

    def _storages(self, op: Operation) -> Iterator[Storage]:
        type_, size, alignment = op.results[0].type, storage_bytes(op), alignment_of(op)
        to_the_end = Life(self.first[op], self.all_the_time)
        if isinstance(type_, PipelineType) and type_.has_barriers:
            # Copies come from elsewhere than the threads that meet at a barrier.
            stages = Life(self.first[op], self.all_the_time, over=tuple(self._drained(op)))
            if size:
                yield Storage(op, OFFSET, alignment, (Piece(0, size, stages),))
            objects = Piece(0, type_.stages * STAGE_BARRIER_BYTES, to_the_end)
            yield Storage(op, BARRIERS, mbarrier.BYTES, (objects,))
            if drawn_sides(op):
                yield Storage(op, DRAWING, mbarrier.BYTES, (Piece(0, drawing_bytes(type_), to_the_end),))
        elif isinstance(type_, PipelineType):
            yield Storage(op, OFFSET, alignment, tuple(self._stages(op, size // type_.stages)))
        elif isinstance(type_, MBarrierType) or (isinstance(type_, BufferType) and type_.space == "tmem"):
            yield Storage(op, OFFSET, alignment, (Piece(0, size, to_the_end),))
        else:
            yield Storage(op, OFFSET, alignment, (Piece(0, size, self._used(op)),))

    def _used(self, op: Operation) -> Life:
        """From an op to the last one that uses what it makes; or all of a loop around it, where copies are waited for
        in another turn or behind it."""
        start, end = op, self.first[op]
        for use in users(op.results[0]):
            while (block := start.parent) is not None and not _is_below(use, block):
                parent = start.parent_op()
                assert parent is not None  # both are in one function
                start = parent
            assert block is not None
            end = max(end, self.last[_within(use, block)])
        return Life(self.first[start], end, agents_around(start))

    def _stages(self, op: Operation, each: int) -> Iterator[Piece]:
        """The stages of a ring without barrier objects."""
        type_, whole, block = op.results[0].type, self._used(op), op.parent
        assert isinstance(type_, PipelineType) and block is not None
        starts = [whole.end] * type_.stages
        turns = [use for use in users(op.results[0]) if isinstance(use, ProducerAcquireOp | ConsumerWaitOp)]
        for turn in turns:
            stage, at = known_stage(turn.iterator), self.first[_within(turn, block)]
            for number in range(type_.stages) if stage is None else (stage,):
                starts[number] = min(starts[number], at)
        if not turns:
            starts = [whole.start] * type_.stages
        first = 0
        for number, start in enumerate(starts):
            if number + 1 == type_.stages or starts[number + 1] != start:
                yield Piece(first * each, (number + 1) * each, Life(start, whole.end, whole.agents))
                first = number + 1

    def _drained(self, op: Operation) -> Iterator[tuple[Agents, int]]:
        """The agents that are past a ring's stages, and behind which op each is."""
        if DRAINED not in op.attributes:
            return
        for switch, number, waits in agents_past(op, self._waits):
            block = switch.regions[number].block
            ends = [self.last[_within(use, block)] for use in waits]
            ends += [
                self.last[_within(use, block)] for use in users(op.results[0]) if agent_of(use) == (switch, number)
            ]
            yield (*agents_around(switch), (switch, number)), max(ends)


# -- what there is ----------------------------------------------------------------------------------------------------


def agents_around(op: Operation) -> Agents:
    """The agents that run an op."""
    found: list[tuple[Operation, int]] = []
    switch, number = agent_of(op)
    while switch is not None:
        found.append((switch, number))
        switch, number = agent_of(switch)
    return tuple(reversed(found))


def makes_shared(op: Operation) -> bool:
    """Whether an op makes storage in shared memory."""
    if not is_subclass(type(op), MAKERS):
        return False
    type_ = op.results[0].type
    if isinstance(type_, BufferType):
        if type_.space == "tmem":
            from libtile.lowering.tileas.memory.allocate_tensor_memory import allocates

            return allocates(op)
        return type_.space == "shared"
    return isinstance(type_, PipelineType | MBarrierType)


def storage_bytes(op: Operation) -> int:
    """The bytes of the buffer, the barrier object or the stages that an op makes. LoweringError for a pipeline of other
    things than buffers."""
    type_ = op.results[0].type
    if isinstance(type_, PipelineType):
        if not all(isinstance(element, BufferType) for element in type_.element_types):
            raise unsupported(op, "cannot lie in shared memory: a stage holds buffers there, and nothing else")
        return stages_bytes(op)
    if isinstance(type_, MBarrierType):
        return mbarrier.BYTES
    assert isinstance(type_, BufferType)
    return TENSOR_ADDRESS_BYTES if type_.space == "tmem" else tile_bytes(type_)


def around(op: Operation) -> Operation | None:
    """The pipeline in whose stages a buffer lies; None where it has storage of its own."""
    return op_of(op.pipeline) if isinstance(op, AllocTensorOp) and op.pipeline is not None else None


def known_stage(iterator: SSAValue) -> int | None:
    """The stage that an iterator is at, where it is so many behind the first one; None where a loop carries it."""
    steps = 0
    while isinstance(iterator.owner, IncIterOp):
        iterator, steps = iterator.owner.iterator, steps + 1
    made, type_ = iterator.owner, iterator.type
    if not isinstance(made, CreateIteratorOp) or made.drawn is not None or not isinstance(type_, PipelineIteratorType):
        return None
    assert isinstance(type_.pipeline, PipelineType)
    return steps % type_.pipeline.stages


_HANDED_ON = (PipelineIteratorType, ProducerTokenType, ConsumerTokenType, BufferType, AsyncTokenType)
"""Types of values through which storage is used: by itself, or by copies that are under way."""


def users(value: SSAValue) -> Iterator[Operation]:
    """The ops that use storage, by itself or by what is derived from it."""
    seen: set[Operation] = set()
    work = [value]
    while work:
        for use in work.pop().uses:
            user = use.operation
            if user in seen:
                continue
            seen.add(user)
            yield user
            parent = user.parent_op()
            if parent is not None and isinstance(user, scf.YieldOp | PipelineYieldOp):
                work += [r for r in parent.results if isinstance(r.type, _HANDED_ON)]
            work += [r for r in user.results if isinstance(r.type, _HANDED_ON)]


def _is_below(op: Operation, block: Block) -> bool:
    """Whether an op is in a block, or in a region below."""
    at: Operation | None = op
    while at is not None and at.parent is not block:
        at = at.parent_op()
    return at is not None


def _within(op: Operation, block: Block) -> Operation:
    """The op of a block in which, or in whose regions, an op is."""
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None  # uses are below the block of what is used
        op = parent
    return op


# -- places -----------------------------------------------------------------------------------------------------------


def free_rooms(taken: Iterable[tuple[int, int]], limit: int, alignment: int) -> list[tuple[int, int]]:
    """What lies between bytes that are taken, from aligned places on, and up to a limit."""
    found, end = [], 0
    for start, stop in sorted(taken):
        if end < start:
            found.append((end, start))
        end = max(end, -(-stop // alignment) * alignment)
    if end < limit:
        found.append((end, limit))
    return found


def integer_attribute(op: Operation, name: str, default: int = 0) -> int:
    """An integer among the attributes of an op; the default without it."""
    given = op.attributes.get(name)
    return given.value.data if isinstance(given, IntegerAttr) else default


def places_of(op: Operation) -> Iterator[Exchange]:
    """The places of an op's exchanges."""
    given = op.attributes.get(EXCHANGES)
    if isinstance(given, ExchangesAttr):
        for offset, size, meet in given.places:
            yield Exchange(offset, size, meet)
