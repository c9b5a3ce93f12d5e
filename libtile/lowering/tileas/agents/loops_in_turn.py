# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels with products in several loops, one after the other: what is the same for them wherever their sums lie.

    kernel's warps   the program as it is, with something in place of each loop
    producer         one thread copies the tiles of one loop after the other
    makers           a warpgroup, where a loop computes operands of tiles that it loads (`made_operands`)

Loops whose steps have tiles of the same shapes share a ring: the tiles of the second one come in while the sums of the
first one are read. Others have rings of their own. A loop over tiles may be around all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Generic, TypeVar

from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.dialects.arith import DIVISIONS
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    CreateIteratorOp,
    IncIterOp,
    PipelineYieldOp,
)
from libtile.dialects.nv_tileas.products import DotOp
from libtile.dialects.nv_tileas.types import (
    MBARRIER,
    PipelineIteratorType,
    PipelineType,
)
from libtile.ir.places import ops_of
from libtile.layouts.shared_access import PIECE_BYTES
from libtile.lowering.tileas.agents import nests, persistent
from libtile.lowering.tileas.agents.cluster_pipelines import ALIGNMENT, make_pipelines
from libtile.lowering.tileas.agents.consumers import check_warps
from libtile.lowering.tileas.agents.fed_steps import FedProducts
from libtile.lowering.tileas.agents.feeds import MOST_RAW, Feed, Feeds
from libtile.lowering.tileas.agents.nests import Needed
from libtile.lowering.tileas.cleanup import drop_unused, is_pure
from libtile.lowering.tileas.copies.tma_operands import Unfit
from libtile.lowering.tileas.counted_loops import trips
from libtile.lowering.tileas.inserter import Inserter, array_of
from libtile.lowering.tileas.memory import staging
from libtile.lowering.tileas.memory.shared_memory import block_bytes, rings_bytes
from libtile.lowering.tileas.products.product_forms import by_loop
from libtile.support.records import dataclass
from libtile.targets import Target

Values = dict[SSAValue, SSAValue]
Places = dict[SSAValue, SSAValue]
"""Where an agent is in each of its pipelines."""
Turn = Callable[[Inserter, int, Places, Values], None]
"""What an agent does for the loop of a number, from places on, which it moves on; with values for some."""
Counts = Sequence[SSAValue | None]
"""Of steps of each loop; None where it is another number for each tile of a loop over tiles."""
AgentBlock = tuple[Inserter, int, int]
"""An agent's region, its warps, and whether one thread of them runs it."""


@dataclass(eq=False)
class _Ring:
    """The pipeline of the tiles of steps, of several loops, if these are alike, and how many stages it is to have."""

    feed: Feed
    fewest: int
    most: int
    shared: bool = True
    """Whether loops alike share it."""


class LoopInTurn(FedProducts, ABC):
    """A loop of the kernel."""

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp]):
        super().__init__(function, gpu, products)
        self.descriptors: list[SSAValue] = []
        self.first_descriptor = 0
        self.feed: Feed | None = None
        """Of the tiles of steps."""

    @abstractmethod
    def consume(self, at: Inserter, places: Places, count: SSAValue) -> None:
        """What the kernel's warps do in place of the loop, for so many steps."""


Each = TypeVar("Each", bound=LoopInTurn)


class LoopsInTurn(ABC, Generic[Each]):
    """One kernel, and its loops with products. Unfit where it stays as it is."""

    def __init__(self, function: FuncOp, gpu: Target, products: Sequence[DotOp], most: int):
        spec = function.kernel_spec
        assert spec is not None
        self.function, self.gpu, self.spec = function, gpu, spec
        check_warps(spec)
        self.phases = [self._phase(dots) for dots in by_loop(products)]
        self.outer = self.phases[0].outer
        if any(phase.loop.parent is not self.phases[0].loop.parent for phase in self.phases):
            raise Unfit("the kernel's loops with products are not all in one loop over tiles")
        self._check()
        self.moved = [] if self.outer is not None else self._needed_by_all()
        self._set_stages(most)

    @abstractmethod
    def _phase(self, products: Sequence[DotOp]) -> Each:
        """The loop of some products; Unfit where it stays as it is."""

    @abstractmethod
    def _check(self) -> None:
        """Unfit where the loops' sums do not fit."""

    # -- what fits --------------------------------------------------------------------------------------------------

    def _needed_by_all(self) -> list[Operation]:
        """The ops between the loops that bounds of later ones, and addresses and views in them, come from."""
        block, first = self.function.body.block, self.phases[0].loop
        found: set[Operation] = set()
        work = [v for phase in self.phases for v in phase.outside()]
        while work:
            op = work.pop().owner
            if not isinstance(op, Operation) or op.parent is not block or op in found or op.is_before_in_block(first):
                continue
            if not is_pure(op) and not isinstance(op, DIVISIONS):
                raise Unfit(f"its copies need what '{op.name}' gives")
            found.add(op)
            work += op.operands
        return [op for op in block.ops if op in found]

    def _set_stages(self, most: int) -> None:
        """As many stages for each ring as there is room for beside what is brought, and as hints of the loads' latency
        ask for."""
        self.rings: list[_Ring] = []
        self.ring_of: dict[Each, _Ring] = {}
        self.feeds_of: dict[Each, Feeds] = {}
        for phase in self.phases:
            once = phase.turns == 1
            wanted = 1 if once else phase.wanted(most)
            ring = next((r for r in self.rings if r.shared and r.feed.types == tuple(phase.types)), None)
            if phase.made:
                ring = None
            if ring is None:
                ring = self._new_ring(phase, 1 if once else 2, wanted)
            else:
                ring.fewest, ring.most = max(ring.fewest, 1 if once else 2), min(ring.most + wanted, most)
            self.ring_of[phase] = ring
        brought = [PipelineType(1, [tile.type], 1, MBARRIER) for phase in self.phases for tile in phase.brought]
        limit = block_bytes(self.gpu, self.spec) - rings_bytes(brought, ALIGNMENT)

        free = [limit - n for n in self._kept()]
        fewest = [ring.fewest for ring in self.rings]
        if (bytes_ := self._taken(fewest)) > max(free):
            raise Unfit(f"stages of {bytes_} bytes do not fit the {max(free)} bytes of shared memory that are free")
        found = [self._grown(fewest, n) for n in free if bytes_ <= n]
        enough = min(staging.ENOUGH_STAGES, max(map(min, found)))
        for ring, stages in zip(self.rings, next(f for f in found if min(f) >= enough)):
            ring.feed.stages = stages

    def _new_ring(self, phase: Each, fewest: int, wanted: int) -> _Ring:
        """The ring of a loop's tiles, and the one of what makers read, if they make operands of it."""
        feeds = self.feeds_of[phase] = Feeds.of(phase.held, phase.types)
        ring = _Ring(feeds.read, fewest, wanted, shared=not phase.made)
        self.rings.append(ring)
        if feeds.raw is not None:
            self.rings.append(_Ring(feeds.raw, 1, min(wanted, MOST_RAW), shared=False))
        return ring

    def _taken(self, stages: Sequence[int]) -> int:
        """Bytes of so many stages of each ring."""
        return rings_bytes((ring.feed.staged(n) for ring, n in zip(self.rings, stages)), ALIGNMENT)

    def _grown(self, stages: Sequence[int], free: int) -> list[int]:
        """So many stages of each ring, and more where these have few, up to what is free."""
        found, growing = list(stages), set(range(len(stages)))
        while growing:
            least = min(growing, key=lambda n: (found[n], n))
            more = [n + (place == least) for place, n in enumerate(found)]
            if more[least] > self.rings[least].most or self._taken(more) > free:
                growing.remove(least)
            else:
                found = more
        return found

    def _kept(self) -> list[int]:
        """Bytes of shared memory that pipelines may leave for what is behind or between the loops."""
        if self.outer is None:
            return [PIECE_BYTES]
        loops = [op for phase in self.phases for op in ops_of(phase.loop)]
        rows = self.phases[0].products[0].atom.instruction.m
        block = self.phases[0].loop.parent
        assert block is not None
        return staging.kept_beside(self.function, block, loops, rows)

    # -- the new code -----------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Part the kernel."""
        outer, block = self.outer, self.function.body.block
        start: Operation = self.phases[0].loop if outer is None else outer
        for op in self.moved:
            op.detach()
            block.insert_op_before(op, start)
        at = Inserter(block, start, start.location)
        self._make_pipelines(at)
        counts = [None if outer is not None else trips(at, phase.loop) for phase in self.phases]
        consumer = Inserter(Block(), None, start.location)
        agents: list[AgentBlock] = [(consumer, self.spec.num_warps, 0), *self._others(start, counts)]
        self._consume(consumer, start, counts)
        registers = self._registers()
        switch = AgentSwitchOp.make(
            regions=[Region(at.block) for at, _, _ in agents],
            agent_warps=array_of(*(warps for _, warps, _ in agents)),
            agent_registers=array_of(*registers) if registers else None,
            agent_elected=array_of(*(elected for _, _, elected in agents)),
        )
        if outer is not None:
            outer.detach()
            outer.erase()
        end = Inserter(block, block.last_op, at.location)  # in front of the return, which alone is left
        end.add(switch)
        self._end(end)
        drop_unused(block)

    @abstractmethod
    def _others(self, start: Operation, counts: Counts) -> list[AgentBlock]:
        """The agents beside the kernel's warps."""

    @abstractmethod
    def _consumed(self) -> list[SSAValue]:
        """The pipelines that the kernel's warps go through."""

    def _registers(self) -> Sequence[int]:
        """Registers of a thread of each agent, where they do not share alike."""
        return ()

    def _end(self, at: Inserter) -> None:
        """What is done behind the agents."""

    def _make_pipelines(self, at: Inserter) -> None:
        """Descriptors and rings."""
        number = 0
        for phase in self.phases:
            phase.first_descriptor = number
            phase.descriptors = [o.descriptor(at, number + n) for n, o in enumerate(phase.operands)]
            number += len(phase.operands)
        made = make_pipelines(at, [(ring.feed.type, 1) for ring in self.rings])
        for ring, pipe in zip(self.rings, made):
            ring.feed.pipe = pipe
        for phase in self.phases:
            phase.feed = self.ring_of[phase].feed

    def _copying(self, start: Operation) -> Inserter:
        """The agent that copies."""
        at = Inserter(Block(), None, start.location)
        self._agent(at, self._filled(), [p.tiles for p in self.phases], self._copy)
        return at

    def _filled(self) -> list[SSAValue]:
        """The rings."""
        return [ring.feed.pipe for ring in self.rings if ring.feed.pipe is not None]

    def _agent(self, at: Inserter, pipes: Sequence[SSAValue], wanted: Iterable[Needed], turn: Turn) -> None:
        """An agent that does its part for one loop after the other, in each iteration of a loop over tiles, if there is
        one; of that it needs what some ops give."""

        def turns(at: Inserter, given: Sequence[SSAValue], values: Values) -> list[SSAValue]:
            places = dict(zip(pipes, given))
            for number in range(len(self.phases)):
                turn(at, number, places, values)
            return [places[pipe] for pipe in pipes]

        starts = [start_of(at, pipe) for pipe in pipes]
        if self.outer is None:
            turns(at, starts, {})
        else:
            together = reduce(or_, wanted, Needed())
            nests.repeat(at, self.outer, self.phases[0].loop, together, starts, turns)
        at.add(PipelineYieldOp.make())

    def _copy(self, at: Inserter, number: int, places: Places, values: Values) -> None:
        phase = self.phases[number]
        feeds = self.feeds_of.get(phase)
        filled = [self.ring_of[phase].feed] if feeds is None else feeds.filled
        pipes = [feed.pipe for feed in filled if feed.pipe is not None]
        behind = phase.copies(
            at, filled, phase.descriptors, [places[pipe] for pipe in pipes], values, phase.first_descriptor
        )
        places.update(zip(pipes, behind))

    def _make(self, at: Inserter, number: int, places: Places, values: Values) -> None:
        phase = self.phases[number]
        if not phase.made:
            return
        feeds = self.feeds_of[phase]
        pipes = [feed.pipe for feed in feeds.of_makers if feed.pipe is not None]
        places.update(zip(pipes, phase.makes(at, feeds, [places[pipe] for pipe in pipes], values)))

    def _consume(self, at: Inserter, start: Operation, counts: Counts) -> None:
        """The kernel's warps: the program from the first loop, or the one over tiles, on."""
        pipes = self._consumed()
        starts = [start_of(at, pipe) for pipe in pipes]

        def of_all(given: Sequence[SSAValue]) -> list[SSAValue]:
            places = dict(zip(pipes, given))
            for phase, count in zip(self.phases, counts):
                assert phase.loop.parent is not None
                here = Inserter(phase.loop.parent, phase.loop, phase.loop.location)
                phase.consume(here, places, trips(here, phase.loop) if count is None else count)
            return [places[pipe] for pipe in pipes]

        if self.outer is not None:
            nests.carry(at, self.outer, self.phases[0].loop, starts, of_all)
            persistent.move_behind(start, at.block)
            return
        begin = start.next_op
        start.detach()
        at.block.add_op(start)
        persistent.move_on(begin, at.block, start.location)
        of_all(starts)


def start_of(at: Inserter, pipe: SSAValue) -> SSAValue:
    """The place where an agent begins in a pipeline."""
    return at.value(CreateIteratorOp.make(pipe, results=[PipelineIteratorType(pipe.type)]))


def following(at: Inserter, place: SSAValue) -> SSAValue:
    """The place behind another one."""
    return at.value(IncIterOp.make(place, results=[place.type]))
