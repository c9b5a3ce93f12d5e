# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-hand-over-stores`: an agent of its own stores the tiles that another one computes in a loop over tiles.

Who computes tiles then neither finds out where a tile lies nor starts copies, waits for them, or meets anybody: it goes
on to the next tile when it has written this one. The agent that stores is one thread of a warp that had nothing to do.

    computes                                  stores
    for each tile                             for each tile
      its products                              where it lies
      for each part of it                       for each part of it
        wait until a buffer has been read         wait until a buffer is full
        write it; proxy fence; arrive             copy it; close the group
                                                  wait until that, or the one before, has been read; arrive

The buffers are the stages of a pipeline for each store (`staging` says how many of which shape there are). Of two, one
is given back when the copy of the other has begun. Where a token orders a tile behind the one before, all of that has
been written before the first copy of this one.

Stores stay with who computes where something else comes behind one, where the place of a tile comes from what memory
holds, and where there is no warp for the agent, or no room for its barrier objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.attributes import KernelSpecAttr
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.memory import TiledStoreOp
from libtile.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    ConsumerReleaseOp,
    CreatePipelineOp,
    PipelineYieldOp,
    WaitOp,
)
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.tma import CommitGroupOp, FenceProxyOp, TiledTmaStoreOp
from libtile.dialects.nv_tileas.types import AsyncTokenType
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_in, ops_of
from libtile.ir.tile_form import erase
from libtile.lowering.tileas.agents import nests
from libtile.lowering.tileas.agents.feeds import Feed
from libtile.lowering.tileas.ahead import loads_a_number
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.copies.common import descriptors, index_of
from libtile.lowering.tileas.copies.tma_tiles import TmaTile, Unfit
from libtile.lowering.tileas.inserter import Inserter, array_of
from libtile.lowering.tileas.memory.shared_memory import STAGE_BARRIER_BYTES
from libtile.lowering.tileas.memory.staging import STAGING, loop_over_tiles, room_beside_pipelines, staging_of
from libtile.lowering.tileas.pipelines.loop_pipelines import carry_more
from libtile.lowering.tileas.tma.lower_async import finish_access, known_tile
from libtile.lowering.tileas.tma.staged_stores import StoredInTurns, moved_corner, part_of, stored_in_turns
from libtile.support.records import dataclass
from libtile.targets import Target, target

PARTITIONS = 4
"""Of a multiprocessor, which share a block's warps: one more costs nothing where they do not have as many each."""


@dataclass(frozen=True)
class HandOverStoresPass(ModulePass):
    """Give the stores of tiles in loops over tiles to an agent of their own."""

    name = "tileas-hand-over-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            spec = inner.kernel_spec if isinstance(inner, FuncOp) else None
            if spec is not None and spec.target is not None and (gpu := target(spec.target)).has("tma"):
                assert isinstance(inner, FuncOp)
                hand_over_stores(inner, spec, gpu)


def hand_over_stores(function: FuncOp, spec: KernelSpecAttr, gpu: Target) -> None:
    """Give the stores of a function to agents of their own."""
    for switch in ops_in(function.body.block):
        if isinstance(switch, AgentSwitchOp) and (warps := _with_one_more(switch, spec)) is not None:
            loops = list(_stored_loops(function, switch))
            agents = {loop.loop.parent for loop in loops}
            if len(agents) == 1 and _barrier_bytes(loops) <= _room(function, gpu):
                _StoringAgent(function, switch, loops).make(warps)


def _with_one_more(switch: AgentSwitchOp, spec: KernelSpecAttr) -> list[int] | None:
    """How many warps agents have with one more of them, whose one warp had nothing to do; None where all have."""
    warps = switch.warps
    if switch.agent_ids is not None or not any(switch.elected):
        return None
    if switch.elected[-1] and warps[-1] > 1:
        return [*warps[:-1], warps[-1] - 1, 1]
    # Registers are given to whole warpgroups, and the more warps the fewer each has beside further blocks.
    if not switch.registers and (spec.occupancy or 1) == 1 and sum(warps) % PARTITIONS:
        return [*warps, 1]
    return None


@dataclass(frozen=True)
class StoredLoop:
    """A loop over tiles in an agent's own block, its stores in their order, and what of the loop and of that block
    their places come from."""

    loop: scf.ForOp
    stores: tuple[StoredInTurns, ...]
    wanted: nests.Needed
    in_front: tuple[Operation, ...]

    @property
    def end(self) -> Operation:
        """The op by which a turn ends."""
        last = self.loop.body.block.last_op
        assert last is not None
        return last


def _stored_loops(function: FuncOp, switch: AgentSwitchOp) -> Iterator[StoredLoop]:
    """The loops over tiles whose stores by TMA can be done by another agent."""
    for region, one in zip(switch.regions, switch.elected):
        for loop in region.block.ops if not one else ():
            if not isinstance(loop, scf.ForOp):
                continue
            tiles = [tile for op in loop.body.block.ops if (tile := _stored(function, op)) is not None]
            stores = tuple(stored_in_turns(loop, tiles).values())
            if stores and not any(store.at_once for store in stores):
                with suppress(Unfit):  # its stores stay where they are
                    yield _needed(loop, stores)


def _stored(function: FuncOp, op: Operation) -> TmaTile | None:
    """The tile of a store by TMA in a loop over tiles; None for another op."""
    if not isinstance(op, TiledStoreOp) or STAGING not in op.attributes or loop_over_tiles(op) is None:
        return None
    return known_tile(function, op)


def _needed(loop: scf.ForOp, stores: Sequence[StoredInTurns]) -> StoredLoop:
    """A loop over tiles with these stores. Unfit where their places come from more than numbers."""
    end = loop.body.block.last_op
    assert end is not None and loop.parent is not None
    indices = [v for store in stores for v in store.tile.access.group("indices")]
    wanted = nests.needed(loop, end, (), indices)
    given = [*nests.taken(loop, end, wanted), *indices]
    in_front = _computed_in(loop.parent, given)
    for op in (*wanted.ops, *in_front):
        # When the agent comes to its turn, what was loaded may have been written again.
        if not nests.is_repeated(op) or any(loads_a_number(inner) for inner in ops_of(op)):
            raise Unfit("where a tile is stored comes from memory")
    return StoredLoop(loop, tuple(stores), wanted, in_front)


def _computed_in(block: Block, values: Iterable[SSAValue]) -> tuple[Operation, ...]:
    """The ops of a block that values come from, in their order."""
    found, work = set[Operation](), list(values)
    while work:
        owner = work.pop().owner
        if isinstance(owner, Operation) and owner.parent is block and owner not in found:
            found.add(owner)
            work += [v for inner in ops_of(owner) for v in inner.operands]
    return tuple(op for op in block.ops if op in found)


def _barrier_bytes(loops: Sequence[StoredLoop]) -> int:
    """Bytes of the barrier objects that stages have, which buffers have not."""
    stores = [store for loop in loops for store in loop.stores]
    return sum(store.staging.buffers * STAGE_BARRIER_BYTES for store in stores)


def _room(function: FuncOp, gpu: Target) -> int:
    """Bytes of shared memory that are left beside pipelines, exchanges, and the buffers of all stores in loops."""
    tiles = [tile for op in ops_of(function) if (tile := _stored(function, op)) is not None]
    return room_beside_pipelines(function, gpu, ()) - sum(staging_of(tile).bytes for tile in tiles)


class _StoringAgent:
    """The agent that stores, and what is left of the stores where tiles are computed."""

    def __init__(self, function: FuncOp, switch: AgentSwitchOp, loops: Sequence[StoredLoop]):
        self.function, self.switch, self.loops = function, switch, loops
        self.known: dict[tuple[SSAValue, object], tuple[SSAValue, int]] = {}
        """Descriptors by tensor and atom, and their numbers."""

    def make(self, warps: Sequence[int]) -> None:
        switch, block = self.switch, Block()
        at = Inserter(block, None, switch.location)
        (region,) = {loop.loop.parent: None for loop in self.loops}
        for loop in self.loops:
            feeds = [self._feed(store) for store in loop.stores]
            self._store(at, loop, feeds)
            self._hand_over(loop, feeds)
        at.add(PipelineYieldOp.make())
        assert region is not None
        drop_unused(region)
        elected = [*switch.elected, True]
        regions = [switch.detach_region(region) for region in list(switch.regions)]
        made = AgentSwitchOp.make(
            regions=[*regions, Region(block)],
            agent_warps=array_of(*warps),
            agent_registers=array_of(*switch.registers, switch.registers[-1]) if switch.registers else None,
            agent_elected=array_of(*map(int, elected)),
        )
        made.attributes.update(switch.attributes)
        Inserter(self.function.body.block, switch, switch.location).add(made)
        erase(switch)

    def _feed(self, store: StoredInTurns) -> Feed:
        """The pipeline of a store, whose stages are its buffers."""
        staging, op = store.staging, store.tile.access
        feed = Feed((staging.type,), {}, stages=staging.buffers)
        at = Inserter(self.function.body.block, self.switch, op.location)
        feed.pipe = at.value(CreatePipelineOp.make(results=[feed.type], alignment=staging.alignment))
        return feed

    def _descriptor(self, tile: TmaTile) -> tuple[SSAValue, int]:
        key = tile.memref.results[0], tile.atom
        if key not in self.known:
            number = 1 + max((index_of(op) or 0 for op in descriptors(self.function)), default=-1)
            at = Inserter(self.function.body.block, self.switch, tile.access.location)
            self.known[key] = tile.descriptor(at, number), number
        return self.known[key]

    # -- where tiles are computed -------------------------------------------------------------------------------------

    def _hand_over(self, loop: StoredLoop, feeds: Sequence[Feed]) -> None:
        """Write the tiles of a loop to buffers, for who stores them."""
        body, before = loop.loop.body.block, loop.loop
        assert before.parent is not None
        starts = [feed.start(Inserter(before.parent, before, before.location)) for feed in feeds]
        places = [body.insert_arg(start.type, len(body.args)) for start in starts]
        ends = [self._write(store, loop.loop, feed, place) for store, feed, place in zip(loop.stores, feeds, places)]
        for store in loop.stores:
            finish_access(store.tile.access)
        carry_more(loop.loop, starts, ends)

    def _write(self, store: StoredInTurns, loop: scf.ForOp, feed: Feed, place: SSAValue) -> SSAValue:
        """Write the parts of a tile, from a place on; the place behind."""
        op = store.tile.access
        assert isinstance(op, TiledStoreOp) and op.parent is not None
        at, value = Inserter(op.parent, op, op.location), op.value
        proxy = "async" if store.is_ordered_by_threads(loop) else "async.shared"
        for offsets in store.staging.corners:
            part = part_of(at, value, store.staging, offsets)

            def fill(inside: Inserter, buffers: Sequence[SSAValue], part: SSAValue = part) -> None:
                inside.add(CopyOp.make(part, buffers[0]))
                inside.add(FenceProxyOp.make(proxy=proxy))

            feed.fill(at, place, fill)
            place = feed.next(at, place)
        return place

    # -- where they are stored ----------------------------------------------------------------------------------------

    def _store(self, at: Inserter, loop: StoredLoop, feeds: Sequence[Feed]) -> None:
        """The loop again, which stores the tiles that the other agent computes."""
        values: nests.Values = {}
        at.clone(loop.in_front, values)
        starts = [feed.start(at) for feed in feeds]
        if any(store.waits for store in loop.stores):
            starts.append(at.value(CommitGroupOp.make(results=[AsyncTokenType()], stores=UnitAttr())))

        def turns(inner: Inserter, places: nests.Places, values: nests.Values) -> nests.Places:
            group, ends = places[-1], list[SSAValue]()
            for store, feed, place in zip(loop.stores, feeds, places, strict=False):
                if store.waits:
                    inner.add(WaitOp.make([group], pending=0))
                place, last = self._copies(inner, store, feed, place, values)
                ends.append(place)
            return [*ends, last][: len(places)]

        nests.repeat(at, loop.loop, loop.end, loop.wanted, starts, turns, values)

    def _copies(
        self, at: Inserter, store: StoredInTurns, feed: Feed, place: SSAValue, values: nests.Values
    ) -> tuple[SSAValue, SSAValue]:
        """Copy the parts of a tile, from a place on: the place behind, and the group of the last one."""
        at = Inserter(at.block, at.before, store.tile.access.location)
        tile, staging = store.tile, store.staging
        descriptor, number = self._descriptor(tile)
        corner = tile.corner(at, values)
        held: list[tuple[SSAValue, SSAValue]] = []
        group = place

        def give_back() -> None:
            """The buffer that is read first, behind which copies of all others have begun."""
            token, behind = held.pop(0)
            at.add(WaitOp.make([behind], pending=len(held), read=UnitAttr()))
            at.add(ConsumerReleaseOp.make(token))

        for offsets in staging.corners:
            moved = moved_corner(at, tile, corner, offsets)

            def copy(
                inside: Inserter, buffers: Sequence[SSAValue], moved: Sequence[SSAValue] = moved
            ) -> list[SSAValue]:
                copied = TiledTmaStoreOp.make(
                    descriptor, moved, buffers[0], results=[AsyncTokenType()], atom=tile.atom, tmaIdx=number,
                    dim_map=tile.dim_map,
                )  # fmt: skip
                return [inside.value(CommitGroupOp.make(inside.value(copied), results=[AsyncTokenType()]))]

            token, (group,) = feed.read(at, place, copy)
            held.append((token, group))
            place = feed.next(at, place)
            if len(held) == staging.buffers:
                give_back()
        while held:
            give_back()
        return place, group
