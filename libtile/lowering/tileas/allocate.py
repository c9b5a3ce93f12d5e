# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-allocate-shared-memory`: a place in the block's shared memory for everything that lies there.

    shared_offset     on what makes storage that lives for a while: pipelines
    exchanges         on an op whose threads exchange elements: where each of its exchanges lies
    shared_bytes      on the function: how much shared memory it takes in all; and `shared_alignment` of its begin

Storage lives from the op that makes it to the last one that uses it, through loops that use it as a whole; what lives
at the same time lies apart. A pipeline with barrier objects lives on, but where it is `drained` (its consumer waits for
all that is copied to it) exchanges of its consumer take its stages' place behind the last turn. An exchange lives as
long as its op. It may lie where a pipeline was, since it has to wait for somebody's reads wherever it lies behind a
loop; it does not lie where a first pipeline will be, which would have to wait for it.

Exchanges that follow each other take turns between two places while there is room for that (`ALTERNATING_BYTES`): the
barrier in the middle of the one then ends the reads of the one before. Which of them need a barrier in front is
`tileas-insert-barriers`' question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from libtile.codegen import mbarrier
from libtile.codegen.exchange import Exchange
from libtile.dialects.nv_tileaa.functions import ExecuteOp, FuncOp
from libtile.dialects.nv_tileas.attributes import ExchangesAttr
from libtile.dialects.nv_tileas.memory import TiledLoadOp, TiledStoreOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp, ConsumerWaitOp, CreatePipelineOp
from libtile.dialects.nv_tileas.tiles import AllocTensorOp, BarrierOp
from libtile.dialects.nv_tileas.tma import CreateMBarrierOp, InvalidateMBarrierOp
from libtile.dialects.nv_tileas.types import (
    BufferType,
    ConsumerTokenType,
    MBarrierType,
    PipelineIteratorType,
    PipelineType,
    ProducerTokenType,
)
from libtile.ir.classes import is_subclass
from libtile.layouts.shared_access import ALIGNMENT
from libtile.lowering.agents import agent_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas import allocate_tensor_memory
from libtile.lowering.tileas.exchange_sizes import Kernel, exchanges
from libtile.lowering.tileas.free_stages import DRAINED, room_within, stages_bytes
from libtile.lowering.tileas.shared_memory import (
    DRAWING_BYTES,
    STAGE_ALIGNMENT,
    STAGE_BARRIER_BYTES,
    alignment_of,
    draws,
    pipeline_bytes,
    tile_bytes,
)
from libtile.targets import Target, target

OFFSET, EXCHANGES, BYTES, BYTES_ALIGNMENT = "shared_offset", "exchanges", "shared_bytes", "shared_alignment"

ALTERNATING_BYTES = 8192
"""Exchanges take more than one place to spare barriers up to this size, and beyond it only where one needs more."""

TILED = (TiledLoadOp, TiledStoreOp)
"""Accesses that may be made twice, for a condition at run time: behind those that are weak, exchanges do not take more
memory to spare a barrier."""

MAKERS = (CreatePipelineOp, AllocTensorOp, CreateMBarrierOp)
"""Ops that make storage in shared memory."""

TENSOR_ADDRESS_BYTES = 16
"""Where tensor memory is allocated, its address is written to shared memory."""


@dataclass(frozen=True)
class AllocateSharedMemoryPass(ModulePass):
    """Place pipelines and exchanges in shared memory, where what lives at the same time lies apart."""

    name = "tileas-allocate-shared-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                end_barrier_objects(inner)
                allocate(inner, target(inner.kernel_spec.target))


@dataclass
class Storage:
    """What lives in shared memory from op number `start` to `end`, both included."""

    op: Operation
    size: int
    alignment: int
    start: int
    end: int
    offset: int = -1
    drained: int | None = None
    """The op behind which its consumer has waited for all that is copied to its stages."""

    @property
    def limit(self) -> int:
        return self.offset + self.size

    @property
    def stages_end(self) -> int:
        """Where the stages of a pipeline end, and its barrier objects begin."""
        return self.limit - _barriers_bytes(self.op)

    def is_drained(self, op: Operation, number: int) -> bool:
        """Whether an op with a number stands behind the last turn of the consumer that runs it as well."""
        return self.drained is not None and self.drained < number and _drains(self.op, op)


@dataclass(frozen=True)
class Room:
    """Bytes of shared memory that exchanges of an op may take; `own` where no other agent has part of it."""

    start: int
    end: int
    own: bool = False

    @property
    def size(self) -> int:
        return max(self.end - self.start, 0)


class Numbering:
    """The ops of a function in the order of its text, and where the regions of each end."""

    def __init__(self, function: Operation):
        self.first: dict[Operation, int] = {}
        self.last: dict[Operation, int] = {}
        self._number(function)

    def _number(self, op: Operation) -> None:
        self.first[op] = len(self.first)
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    self._number(inner)
        self.last[op] = len(self.first) - 1

    def storages(self) -> list[Storage]:
        """What lies in shared memory, in the order in which it is made."""
        made = (op for op in self.first if makes_shared(op) and _around(op) is None)
        return sorted((self._storage(op) for op in made), key=lambda s: s.start)

    def taken(self) -> dict[Operation, int]:
        """By pipeline, the bytes of its stages in which buffers lie behind its last turn."""
        found: dict[Operation, int] = {}
        for storage in self.within():
            pipeline = _around(storage.op)
            assert pipeline is not None
            found[pipeline] = storage.offset + room_within(pipeline, storage.size)
        return found

    def within(self) -> list[Storage]:
        """What lies within the stages of a pipeline, by its op, from the pipeline's first byte on."""
        found, ends = [], dict[Operation, int]()
        for op in self.first:
            if not makes_shared(op) or (pipeline := _around(op)) is None:
                continue
            storage = Storage(op, storage_bytes(op), alignment_of(op), self.first[op], len(self.first) - 1)
            storage.offset = ends.get(pipeline, 0)
            ends[pipeline] = storage.offset + room_within(pipeline, storage.size)
            if storage.limit > stages_bytes(pipeline) or storage.alignment > alignment_of(pipeline):
                problem = f"takes bytes {storage.offset} to {storage.limit} of a pipeline's stages, which have "
                raise unsupported(op, f"{problem}{stages_bytes(pipeline)} aligned to {alignment_of(pipeline)}")
            found.append(storage)
        return found

    def _storage(self, op: Operation) -> Storage:
        """What an op makes that lies in shared memory, with its life."""
        made, block = op.results[0], op.parent
        assert block is not None
        if isinstance(made.type, PipelineType) and made.type.has_barriers:
            # Barrier objects stay, and copies come from elsewhere than the threads that meet at a barrier.
            drained = self._drained(op) if DRAINED in op.attributes else None
            size, alignment = storage_bytes(op), alignment_of(op)
            return Storage(op, size, alignment, self.first[op], len(self.first) - 1, drained=drained)
        if isinstance(made.type, MBarrierType) or (isinstance(made.type, BufferType) and made.type.space == "tmem"):
            return Storage(op, storage_bytes(op), alignment_of(op), self.first[op], len(self.first) - 1)
        switch, _ = agent_of(op)
        if switch is not None:
            # What other agents make lives at the same time.
            return Storage(op, storage_bytes(op), alignment_of(op), self.first[switch], self.last[switch])
        end = max((self.last[_within(use, block)] for use in _users(made)), default=self.first[op])
        return Storage(op, storage_bytes(op), alignment_of(op), self.first[op], max(end, self.first[op]))

    def _drained(self, op: Operation) -> int:
        """The last op that has to do with the consumer's turns at a pipeline, with the loops around them."""
        switch, number = _consumer_of(op)
        if switch is None:
            return self.last[op]
        uses = (use for use in _users(op.results[0]) if agent_of(use) == (switch, number))
        return max(self.last[_within(use, switch.regions[number].block)] for use in uses)


def _drains(pipeline: Operation, op: Operation) -> bool:
    """Whether an op is run by the agent that waits for a pipeline's stages."""
    agent = agent_of(op)
    return agent[0] is not None and agent == _consumer_of(pipeline)


def _consumer_of(pipeline: Operation) -> tuple[AgentSwitchOp | ExecuteOp | None, int]:
    """The agent that waits for a pipeline's stages, as `agent_of` says it."""
    waits = [use.operation for use in pipeline.results[0].uses if isinstance(use.operation, ConsumerWaitOp)]
    return agent_of(waits[0]) if waits else (None, 0)


def _barriers_bytes(op: Operation) -> int:
    type_ = op.results[0].type
    if not isinstance(type_, PipelineType) or not type_.has_barriers:
        return 0
    return type_.stages * STAGE_BARRIER_BYTES + DRAWING_BYTES * draws(op)


def _around(op: Operation) -> Operation | None:
    """The pipeline in whose stages a buffer lies; None where it has storage of its own."""
    owner = op.pipeline.owner if isinstance(op, AllocTensorOp) and op.pipeline is not None else None
    return owner if isinstance(owner, Operation) else None


def storage_bytes(op: Operation) -> int:
    """The bytes of what an op makes. LoweringError for a pipeline of other things than buffers."""
    type_ = op.results[0].type
    if isinstance(type_, PipelineType):
        if not all(isinstance(element, BufferType) for element in type_.element_types):
            raise unsupported(op, "cannot lie in shared memory: a stage holds buffers there, and nothing else")
        return pipeline_bytes(type_, alignment_of(op)) + DRAWING_BYTES * draws(op)
    if isinstance(type_, MBarrierType):
        return mbarrier.BYTES
    assert isinstance(type_, BufferType)
    return TENSOR_ADDRESS_BYTES if type_.space == "tmem" else tile_bytes(type_)


def makes_shared(op: Operation) -> bool:
    """Whether an op makes storage in shared memory."""
    if not is_subclass(type(op), MAKERS):
        return False
    type_ = op.results[0].type
    if isinstance(type_, BufferType):
        return type_.space == "shared" or (type_.space == "tmem" and allocate_tensor_memory.allocates(op))
    return isinstance(type_, PipelineType | MBarrierType)


_HANDED_ON = (PipelineIteratorType, ProducerTokenType, ConsumerTokenType, BufferType)
"""Types of values through which storage is used."""


def _users(value: SSAValue) -> Iterator[Operation]:
    """The ops that use storage, by itself or by what is derived from it."""
    seen: set[Operation] = set()
    work = [value]
    while work:
        for use in work.pop().uses:
            if use.operation in seen:
                continue
            seen.add(use.operation)
            yield use.operation
            work += [r for r in use.operation.results if isinstance(r.type, _HANDED_ON)]


def _within(op: Operation, block: Block) -> Operation:
    """The op of a block in which, or in whose regions, an op is."""
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None  # uses are below the block of what is used
        op = parent
    return op


def allocate(function: FuncOp, gpu: Target) -> None:
    """Place what lies in shared memory in one function. LoweringError where there is too much of it."""
    _Allocation(function, gpu).run()


def end_barrier_objects(function: FuncOp) -> None:
    """Barrier objects that are made again and again, or in one arm of a condition, end with the block that makes them:
    in the place of one, none may be initialised (PTX ISA, "mbarrier.init")."""
    for op in function.walk():
        if is_subclass(type(op), (CreateMBarrierOp,)) and op.parent is not None:
            last, parent = op.parent.last_op, op.parent_op()
            ended = any(isinstance(use.operation, InvalidateMBarrierOp) for use in op.results[0].uses)
            if last is None or ended or isinstance(parent, FuncOp | AgentSwitchOp):
                continue
            op.parent.insert_op_before(InvalidateMBarrierOp.make(op.results[0], location=op.location), last)


def exchange_rooms(function: FuncOp, gpu: Target) -> dict[Operation, int]:
    """How many bytes of shared memory exchanges of each op have beside pipelines, which this places."""
    allocation = _Allocation(function, gpu)
    allocation.place_storages()
    return {op: room.size for op, room in allocation.rooms()}


class _Allocation:
    def __init__(self, function: FuncOp, gpu: Target):
        spec = function.kernel_spec
        assert spec is not None
        self.function, self.gpu = function, gpu
        self.kernel = Kernel(gpu, spec.num_warps)
        self.numbering = Numbering(function)
        self.storages = self.numbering.storages()
        self.limit = gpu.shared_per_block
        self.total = 0
        self.reading: Exchange | None = None
        """The exchange that has not been read to its end for sure; None behind a barrier."""
        self.reading_in: Block | None = None
        self._floor = 0
        self.agent: Region | None = None
        """What the agent runs whose exchanges are being placed."""
        self.floors: dict[Operation, int] = {}
        """By the op at which agents part, where the exchanges end of those that have been looked at."""

    def run(self) -> None:
        self.place_storages()
        self._all_exchanges()
        # Once more: there may be more room to take turns in, if a later one takes it anyway.
        self._all_exchanges()
        if self.total:
            alignment = max((s.alignment for s in self.storages), default=STAGE_ALIGNMENT)
            self.function.attributes[BYTES] = IntegerAttr(self.total, i64)
            self.function.attributes[BYTES_ALIGNMENT] = IntegerAttr(max(alignment, STAGE_ALIGNMENT), i64)

    # -- storage ----------------------------------------------------------------------------------------------------

    def place_storages(self) -> None:
        alive: list[Storage] = []
        for storage in self.storages:
            alive = [s for s in alive if s.end >= storage.start]
            self._place(storage, alive)
            alive.append(storage)
        for storage in self.numbering.within():
            pipeline = _around(storage.op)
            assert pipeline is not None
            storage.op.attributes[OFFSET] = IntegerAttr(integer_attribute(pipeline, OFFSET) + storage.offset, i64)

    def _place(self, storage: Storage, alive: Sequence[Storage]) -> None:
        """At the lowest offset that nothing has that lives at the same time."""
        beside = sorted(alive, key=lambda s: s.offset)
        offset = 0
        for other in beside:
            if offset + storage.size > other.offset:
                offset = max(offset, -(-other.limit // storage.alignment) * storage.alignment)
        storage.offset = offset
        if storage.limit > self.limit:
            raise unsupported(
                storage.op,
                f"needs {storage.size} bytes of shared memory from {offset} on, and {self.gpu.name} has {self.limit}",
                self.gpu.name,
            )
        self.total = max(self.total, storage.limit)
        storage.op.attributes[OFFSET] = IntegerAttr(offset, i64)

    # -- exchanges --------------------------------------------------------------------------------------------------

    def rooms(self) -> Iterator[tuple[Operation, Room]]:
        """Each op, and the room for its exchanges: behind storage that lives, and that which is made later where
        nothing was before; or the stages of a pipeline that its agent has drained, if these are more."""
        made = dead = 0
        alive: list[Storage] = []
        taken = self.numbering.taken()
        # What is made from each storage on, at most.
        later = [0]
        for storage in reversed(self.storages):
            later.append(max(later[-1], storage.limit))
        for op, number in self.numbering.first.items():
            while made < len(self.storages) and self.storages[made].start <= number:
                alive.append(self.storages[made])
                made += 1
            dead = max((s.limit for s in alive if s.end < number), default=dead)
            alive = [s for s in alive if s.end >= number]
            coming = later[len(self.storages) - made]
            floor = max([coming if coming > dead else 0, *(s.limit for s in alive)])
            room = Room(-(-floor // STAGE_ALIGNMENT) * STAGE_ALIGNMENT, self.limit)
            for storage in alive:
                if storage.is_drained(op, number):
                    start = storage.offset + taken.get(storage.op, 0)
                    room = max(room, Room(start, storage.stages_end, own=True), key=lambda r: r.size)
            yield op, room

    def _all_exchanges(self) -> None:
        self.reading = self.reading_in = self.agent = None
        self.floors.clear()
        for op, room in self.rooms():
            self._exchange(op, room)

    def _exchange(self, op: Operation, given: Room) -> None:
        """Place the exchanges of an op in the room that it has."""
        op.attributes.pop(EXCHANGES, None)
        kind = type(op)
        if is_subclass(kind, (BarrierOp,)):
            self.reading = None
            return
        if is_subclass(kind, TILED) and op.properties.get("mem_scope") is None:
            self.reading_in = None
        switch, number = agent_of(op)
        if switch is not None:
            self._enter(switch.regions[number])
        start = given.start if given.own else max(given.start, self._floor if switch is not None else 0)
        room = max(given.end - start, 0)
        wanted = exchanges(op, self.kernel, room)
        if not wanted:
            return
        places = []
        for exchange in wanted:
            place = self._turn(start, given.end, exchange, op)
            if place.end > given.end:
                raise unsupported(
                    op,
                    f"needs {exchange.size} bytes of shared memory to exchange elements between threads, but "
                    f"{self.gpu.name} has {room} bytes left beside the {start} of the kernel's pipelines",
                )
            places.append((place.offset, place.size, place.meet))
            self.total = max(self.total, place.end)
            if switch is not None and not given.own:
                self.floors[switch] = max(self.floors.get(switch, 0), place.end)
            self.reading, self.reading_in = place, op.parent
        op.attributes[EXCHANGES] = ExchangesAttr(places)

    def _enter(self, agent: Region) -> None:
        """Agents run at the same time: the exchanges of each lie behind those of the agents before."""
        if agent is self.agent:
            return
        self.agent = agent
        self.reading = self.reading_in = None
        parent = agent.parent_op()
        floor = 0 if parent is None else self.floors.get(parent, 0)
        self._floor = -(-floor // STAGE_ALIGNMENT) * STAGE_ALIGNMENT

    def _turn(self, start: int, end: int, exchange: Exchange, op: Operation) -> Exchange:
        """At the start, or behind what the exchange before is still read from, if there is room for that before the
        end."""
        offset, reading = start, self.reading
        if reading is not None and reading.offset < start + exchange.size and reading.end > start:
            behind = max(reading.end, start)
            more = min(start + ALTERNATING_BYTES, end) if self.reading_in is op.parent else 0
            # What other agents have is not there for this one.
            most = more if self.agent is not None else max(self.total, more)
            if behind + exchange.size <= most:
                offset = behind
        return Exchange(offset, exchange.size, exchange.meet)


assert STAGE_ALIGNMENT % ALIGNMENT == 0


def integer_attribute(op: Operation, name: str, default: int = 0) -> int:
    """An integer among the attributes of an op; the default without it."""
    given = op.attributes.get(name)
    return given.value.data if isinstance(given, IntegerAttr) else default


def may_take_stages(storage: Storage, op: Operation, number: int, exchange: Exchange) -> bool:
    """Whether an exchange of an op with a number may lie where a storage that lives does."""
    return storage.is_drained(op, number) and exchange.end <= storage.stages_end


def places_of(op: Operation) -> Iterator[Exchange]:
    """The places of an op's exchanges."""
    given = op.attributes.get(EXCHANGES)
    if isinstance(given, ExchangesAttr):
        for offset, size, meet in given.places:
            yield Exchange(offset, size, meet)
