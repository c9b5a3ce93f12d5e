# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-allocate-shared-memory`: a place in the block's shared memory for everything that lies there.

    shared_offset     on what makes storage that lives for a while: buffers, the stages of pipelines, barrier objects
    barriers_offset   on a pipeline: where the barrier objects of its stages are, if it has any
    drawing_offset    on a pipeline whose turns agents draw: where these are counted
    exchanges         on an op whose threads exchange elements: where each of its exchanges lies
    shared_bytes      on the function: how much shared memory it takes in all; and `shared_alignment` of its begin

What lives at the same time lies apart (`storage_lives`). Storages come first, the lowest place that is free for each.
An exchange lies behind those that live and those that come, where it waits for nobody, unless the kernel takes less
memory when it lies where nobody else is just then: in a stage that is filled later, or in the stages of a ring that its
agent is past. That is done if it takes no more barriers, or if there is no room otherwise.

Exchanges that follow each other take turns between two places while there is room for that (`ALTERNATING_BYTES`): the
barrier in the middle of the one then ends the reads of the one before. Which of them need a barrier in front is
`tileas-insert-shared-barriers`' question.

Exchanges that have places already, in a module that was printed behind this pass or written by hand, keep them where
they are of the bytes that are needed and nothing else lies there at the same time: the barriers of later passes are in
such a module, with which other places would be as good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import Block, Operation

from libtile.codegen.exchange import Exchange
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.attributes import ExchangesAttr
from libtile.dialects.nv_tileas.memory import TiledLoadOp, TiledStoreOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.dialects.nv_tileas.tiles import BarrierOp
from libtile.dialects.nv_tileas.tma import CreateMBarrierOp, InvalidateMBarrierOp
from libtile.ir.classes import is_subclass
from libtile.ir.module_pass import ModulePass
from libtile.ir.numbers import integer
from libtile.ir.places import ops_of
from libtile.layouts.shared_access import ALIGNMENT
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.exchanges.exchange_sizes import Kernel, exchanges, may_exchange
from libtile.lowering.tileas.memory.shared_barriers import barriers_needed
from libtile.lowering.tileas.memory.shared_memory import STAGE_ALIGNMENT
from libtile.lowering.tileas.memory.storage_lives import (
    BYTES,
    BYTES_ALIGNMENT,
    EXCHANGES,
    OFFSET,
    Agents,
    Life,
    Lives,
    Storage,
    agents_around,
    at_once,
    free_rooms,
    integer_attribute,
)
from libtile.support.diagnostics import LoweringError
from libtile.support.records import dataclass, field
from libtile.targets import Target, target

ALTERNATING_BYTES = 8192
"""Exchanges take more than one place to spare barriers up to this size, and beyond it only where one needs more."""

TILED = (TiledLoadOp, TiledStoreOp)
"""Accesses that may be made twice, for a condition at run time: behind those that are weak, exchanges do not take more
memory to spare a barrier."""


@dataclass(frozen=True)
class AllocateSharedMemoryPass(ModulePass):
    """Place storages and exchanges in shared memory, where what lives at the same time lies apart."""

    name = "tileas-allocate-shared-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                end_barrier_objects(inner)
                allocate(inner, target(inner.kernel_spec.target))


def allocate(function: FuncOp, gpu: Target) -> None:
    """Place what lies in shared memory in one function. LoweringError where there is too much of it."""
    storages = PlacedStorages(function, gpu)
    total = _place_exchanges(storages)
    if total:
        alignment = max((s.alignment for s in storages.placed), default=STAGE_ALIGNMENT)
        function.attributes[BYTES] = integer(total, i64)
        function.attributes[BYTES_ALIGNMENT] = integer(max(alignment, STAGE_ALIGNMENT), i64)


def end_barrier_objects(function: FuncOp) -> None:
    """Barrier objects that are made again and again, or in one arm of a condition, end with the block that makes them:
    in the place of one, none may be initialised (PTX ISA, "mbarrier.init")."""
    for op in ops_of(function, CreateMBarrierOp):
        if op.parent is not None:
            last, parent = op.parent.last_op, op.parent_op()
            ended = any(isinstance(use.operation, InvalidateMBarrierOp) for use in op.results[0].uses)
            if last is None or ended or isinstance(parent, FuncOp | AgentSwitchOp):
                continue
            op.parent.insert_op_before(InvalidateMBarrierOp.make(op.results[0], location=op.location), last)


def exchange_rooms(function: FuncOp, gpu: Target, asks: Callable[[Operation], bool]) -> dict[Operation, int]:
    """How many bytes of shared memory exchanges of each op that `asks` may take, beside what lives just then, and which
    this places."""
    asking = set(filter(asks, ops_of(function)))
    if not asking:
        return {}
    storages = PlacedStorages(function, gpu)
    rooms = {}
    for op, floor in storages.floors():
        if op not in asking:
            continue
        free = storages.free(storages.lives.of_exchange(op)) if storages.placed else ()
        rooms[op] = max(storages.limit - floor, 0, *(room.size for room in free))
    return rooms


# -- storages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Room:
    """Bytes of shared memory that exchanges of an op may take."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return max(self.end - self.start, 0)


class PlacedStorages:
    """What lies in a function's shared memory but for exchanges, which its ops say; and the room that is left at each
    op. LoweringError for what does not fit."""

    def __init__(self, function: FuncOp, gpu: Target):
        self.function, self.gpu, self.limit = function, gpu, gpu.shared_per_block
        self.lives = Lives(function)
        self.placed, self.total = _placed(self.lives)
        for storage in self.placed:
            if storage.limit > self.limit:
                where = f"needs {storage.size} bytes of shared memory from {storage.offset} on"
                raise unsupported(storage.op, f"{where}, and {gpu.name} has {self.limit}", gpu.name)
            storage.op.attributes[storage.attribute] = integer(storage.offset, i64)
        for storage, pipeline in self.lives.within():
            storage.offset += integer_attribute(pipeline, OFFSET)
            storage.op.attributes[OFFSET] = integer(storage.offset, i64)
            self.placed.append(storage)
        self.placed.sort(key=lambda s: s.start)

    @cached_property
    def exchanging(self) -> list[tuple[Operation, int]]:
        """The ops that exchanges, or their places, have to do with, each with its floor."""
        kinds = (BarrierOp, *TILED)
        return [
            (op, floor)
            for op, floor in self.floors()
            if is_subclass(type(op), kinds) or EXCHANGES in op.attributes or may_exchange(op)
        ]

    def floors(self) -> Iterator[tuple[Operation, int]]:
        """Each op, and behind which byte its exchanges wait for nobody: what lives ends there, and what is made later
        where nothing was before."""
        made = dead = floor = 0
        alive: list[tuple[int, int]] = []
        """The number of the last op and the last byte of each."""
        first_end = -1
        """The least of these numbers: nothing changes until then, or until something is made."""
        # What is made from each storage on, at most.
        later = [0]
        for storage in reversed(self.placed):
            later.append(max(later[-1], storage.limit))
        starts = [storage.start for storage in self.placed]
        for op, number in self.lives.first.items():
            before = made
            while made < len(starts) and starts[made] <= number:
                alive.append((self.placed[made].end, self.placed[made].limit))
                made += 1
            if made > before or first_end < number:
                dead = max((limit for end, limit in alive if end < number), default=dead)
                alive = [(end, limit) for end, limit in alive if end >= number]
                first_end = min((end for end, _ in alive), default=len(self.lives.first))
                coming = later[len(starts) - made]
                highest = max([coming if coming > dead else 0, *(limit for _, limit in alive)])
                floor = -(-highest // STAGE_ALIGNMENT) * STAGE_ALIGNMENT
            yield op, floor

    def room(self, op: Operation, floor: int) -> Room:
        """The room for an op's exchanges behind a floor, or before it where its agent is past what is there, if that
        is more."""
        beside = Room(floor, self.limit)
        agents = agents_around(op)
        if not agents:
            return beside
        past = [room for room in self.free(self.lives.of_exchange(op)) if room.end <= floor]
        return max(beside, *past, key=lambda room: room.size) if past else beside

    def free(self, life: Life, others: Sequence[tuple[int, int]] = ()) -> list[Room]:
        """Where nothing lives at the same time as something else, and no others lie, lowest first."""
        taken = [of for storage in self.placed for of in storage.taken(life)]
        return [Room(*room) for room in free_rooms([*taken, *others], self.limit, STAGE_ALIGNMENT)]


def storages_bytes(function: FuncOp) -> int:
    """The bytes of shared memory that all but the exchanges of a function takes."""
    return _placed(Lives(function))[1]


def _placed(lives: Lives) -> tuple[list[Storage], int]:
    """The storages of a function with their places, and the bytes that all take."""
    # What must be aligned leaves gaps behind smaller things: it comes first where that takes less.
    by_time = lives.storages()
    by_alignment = sorted(by_time, key=lambda s: -s.alignment)
    total = _place(by_time)
    if (other := _place(by_alignment)) <= total:
        return by_alignment, other
    return by_time, _place(by_time)


def _place(storages: Sequence[Storage]) -> int:
    """Place storages one after the other, each at the lowest offset where nothing is that lives at the same time;
    returns the bytes that all take."""
    placed: list[Storage] = []
    for storage in storages:
        storage.offset = 0
        ends = [other.offset + piece.end for other in placed for piece in other.pieces]
        for offset in sorted({0, *(-(-end // storage.alignment) * storage.alignment for end in ends)}):
            storage.offset = offset
            if not any(share_bytes(storage, other) for other in placed):
                break
        placed.append(storage)
    return max((s.limit for s in storages), default=0)


def share_bytes(one: Storage, other: Storage) -> bool:
    """Whether two storages have bytes in common at the same time."""
    if one.limit <= other.offset or other.limit <= one.offset:
        return False
    return any(
        start < one.offset + piece.end and one.offset + piece.start < end
        for piece in one.pieces
        for start, end in other.taken(piece.life)
    )


# -- exchanges --------------------------------------------------------------------------------------------------------


def _place_exchanges(storages: PlacedStorages) -> int:
    """Place the exchanges of a function's ops; returns the bytes of shared memory that it takes then."""
    function = storages.function
    stated = {
        op: attr for op in storages.lives.first if isinstance(attr := op.attributes.get(EXCHANGES), ExchangesAttr)
    }
    try:
        plain = _Exchanges(storages, stated)
        plain.run()
    except LoweringError:
        shared = _Exchanges(storages, stated, goal=storages.limit)
        shared.run()
        return shared.total
    goal = _least(storages)
    if plain.total <= goal:
        return plain.total
    barriers, given = barriers_needed(function), {op: op.attributes.get(EXCHANGES) for op in storages.lives.first}
    for last in (True, False):
        try:
            shared = _Exchanges(storages, stated, goal, last=last)
            shared.run()
            if shared.total < plain.total and barriers_needed(function).no_more_than(barriers):
                return shared.total
        except LoweringError:  # two of them at once, where each fits alone
            continue
    for op, places in given.items():
        if places is not None:
            op.attributes[EXCHANGES] = places
    return plain.total


def _least(storages: PlacedStorages) -> int:
    """Up to where the exchanges of all ops can do, each by itself."""
    kernel, least = _kernel(storages), storages.total
    for op, floor in storages.exchanging:
        wanted = exchanges(op, kernel, storages.limit) if may_exchange(op) else ()
        if wanted:
            size = max(exchange.size for exchange in wanted)
            rooms = (storages.room(op, floor), *storages.free(storages.lives.of_exchange(op)))
            least = max(least, min((r.start + size for r in rooms if size <= r.size), default=storages.limit))
    return least


def _kernel(storages: PlacedStorages) -> Kernel:
    spec = storages.function.kernel_spec
    assert spec is not None
    return Kernel(storages.gpu, spec.num_warps)


@dataclass
class _Exchanges:
    """The places of the exchanges of a function's ops: each in the room that waits for nobody, or, with a goal, in one
    where it ends before that: at its end, where stages are filled last, or at its begin."""

    storages: PlacedStorages
    stated: Mapping[Operation, ExchangesAttr]
    """The places that the module gives."""
    goal: int | None = None
    last: bool = False
    total: int = 0
    reading: Exchange | None = None
    """The exchange that has not been read to its end for sure; None behind a barrier."""
    reading_in: Block | None = None
    agents: Agents = ()
    """Who runs the op whose exchanges were placed last."""
    placed: list[tuple[Agents, Exchange]] = field(default_factory=list)
    """What agents exchange."""

    def run(self) -> None:
        self.kernel = _kernel(self.storages)
        self.total = self.storages.total
        # Once more: there may be more room to take turns in, if a later one takes it anyway.
        for _ in range(2):
            self.reading = self.reading_in = None
            self.agents = ()
            self.placed.clear()
            for op, floor in self.storages.exchanging:
                self._look(op, floor)

    def _look(self, op: Operation, floor: int) -> None:
        """Place the exchanges of an op, if it has any."""
        op.attributes.pop(EXCHANGES, None)
        kind = type(op)
        if is_subclass(kind, (BarrierOp,)):
            self.reading = None
        elif is_subclass(kind, TILED) and op.properties.get("mem_scope") is None:
            self.reading_in = None
        if not may_exchange(op):
            return
        room = self.storages.room(op, floor)
        if wanted := exchanges(op, self.kernel, room.size):
            self._place(op, wanted, room)

    def _place(self, op: Operation, wanted: Sequence[Exchange], room: Room) -> None:
        agents = agents_around(op)
        if agents != self.agents:
            self.agents = agents
            self.reading = self.reading_in = None
        places = self._stated(op, wanted) or self._best(op, wanted, room)
        if places is None:
            needed = f"needs {max(exchange.size for exchange in wanted)} bytes of shared memory to exchange elements"
            left = f"{room.size} bytes left beside the {room.start} of the kernel's pipelines"
            raise unsupported(op, f"{needed} between threads, but {self.storages.gpu.name} has {left}")
        for place in places:
            self.total = max(self.total, place.end)
            if agents:
                self.placed.append((agents, place))
        self.reading, self.reading_in = places[-1], op.parent
        op.attributes[EXCHANGES] = ExchangesAttr([(p.offset, p.size, p.meet) for p in places])

    def _others(self) -> list[tuple[int, int]]:
        """Where agents exchange elements that run at the same time."""
        return [(e.offset, e.end) for by, e in self.placed if at_once(by, self.agents)]

    def _stated(self, op: Operation, wanted: Sequence[Exchange]) -> list[Exchange] | None:
        """The places that the module gives the exchanges of an op; None where there are none, or others are needed."""
        stated = self.stated.get(op)
        if stated is None or [size for _, size, _ in stated.places] != [exchange.size for exchange in wanted]:
            return None
        places = [Exchange(offset, e.size, e.meet) for e, (offset, _, _) in zip(wanted, stated.places)]
        free = self.storages.free(self.storages.lives.of_exchange(op), self._others())
        fit = all(
            p.offset % ALIGNMENT == 0 and any(r.start <= p.offset and p.end <= r.end for r in free) for p in places
        )
        return places if fit else None

    def _best(self, op: Operation, wanted: Sequence[Exchange], room: Room) -> list[Exchange] | None:
        """The places of the exchanges of an op: the first ones that end before the goal, or where they end first."""
        others = self._others()
        # Agents run at the same time: the exchanges of each lie behind those of the agents before.
        floor = max((end for start, end in others if start < room.end and room.start < end), default=room.start)
        rooms = [Room(-(-floor // STAGE_ALIGNMENT) * STAGE_ALIGNMENT, room.end)]
        if self.goal is not None:
            free = self.storages.free(self.storages.lives.of_exchange(op), others)
            rooms += self._ends(free, wanted) if self.last else free
        fit = [places for room in rooms if (places := self._in(room, wanted, op)) is not None]
        if not fit:
            return None
        ends = [max(place.end for place in places) for places in fit]
        most = ends[0] if self.goal is None else max(self.goal, min(ends))
        return next(places for places, end in zip(fit, ends) if end <= most)

    def _ends(self, rooms: Sequence[Room], wanted: Sequence[Exchange]) -> list[Room]:
        """The parts at the ends of rooms, before the goal, that the largest exchange takes."""
        size, goal = max(exchange.size for exchange in wanted), self.goal or 0
        ends = [Room((min(room.end, goal) - size) // STAGE_ALIGNMENT * STAGE_ALIGNMENT, room.end) for room in rooms]
        return [max(room, end, key=lambda r: r.start) for room, end in zip(rooms, ends)]

    def _in(self, room: Room, wanted: Sequence[Exchange], op: Operation) -> list[Exchange] | None:
        """The places of exchanges in a room; None where they do not fit."""
        reading, reading_in, places = self.reading, self.reading_in, list[Exchange]()
        for exchange in wanted:
            place = self._turn(room, exchange, reading, together=reading_in is op.parent)
            if place.end > room.end:
                return None
            places.append(place)
            reading, reading_in = place, op.parent
        return places

    def _turn(self, room: Room, exchange: Exchange, reading: Exchange | None, *, together: bool) -> Exchange:
        """At the start of a room, or behind what the exchange before is still read from, if there is room for that
        before the end."""
        offset = room.start
        if reading is not None and reading.offset < offset + exchange.size and reading.end > offset:
            behind = max(reading.end, offset)
            more = min(offset + ALTERNATING_BYTES, room.end) if together else 0
            # What other agents have is not there for this one.
            most = more if self.agents else max(self.total, more)
            if self.goal is not None:
                most = min(most, self.goal)
            if behind + exchange.size <= most:
                offset = behind
        return Exchange(offset, exchange.size, exchange.meet)


assert STAGE_ALIGNMENT % ALIGNMENT == 0
