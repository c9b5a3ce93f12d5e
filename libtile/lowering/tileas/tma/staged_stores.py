# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stores by TMA in parts: in a loop over tiles, through buffers that lie beside the stages of its pipelines, or behind
loops through buffers in stages that are free.

    buffers
    for each tile    what is stored is computed
                     for each of its parts: wait until the group before that used the buffer has read it; barrier;
                     write the buffer; proxy fence; barrier; copy; commit
    wait until the last groups have read their buffers

The groups are carried from tile to tile, so that a buffer is waited for when it is written again, and a tile is copied
while the products of the next one are computed. Where a token says that a tile is stored behind the one before, its
first part waits until all of that has been written; where one says that anything else comes behind a store, all threads
wait for it there. A turn of the loop may have several stores, as those of the parts of one tile: one thread starts the
copies of all of them in turn, so that a group may have those of the other stores behind it, and the first store waits
for what a token says of all. Behind loops the first parts wait for nothing, and the last groups are those of a kernel's
end.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, IntegerType, TensorType, UnitAttr, i64
from xdsl.ir import Operation, SSAValue

from libtile.analysis.tokens import is_fresh
from libtile.dialects import arith, scf
from libtile.dialects.interfaces import JoinsTokens
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.memory import TiledStoreOp
from libtile.dialects.nv_tileas.pipeline import WaitOp
from libtile.dialects.nv_tileas.tiles import AllocTensorOp, BarrierOp, CopyOp, ExtractSliceOp
from libtile.dialects.nv_tileas.tma import CommitGroupOp, FenceProxyOp, TiledTmaStoreOp
from libtile.dialects.nv_tileas.types import AsyncTokenType
from libtile.layouts import parts
from libtile.lowering.tileas.copies.tma_tiles import TmaTile
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.memory.staging import Staging, staging_of
from libtile.lowering.tileas.pipelines.loop_pipelines import carry_more
from libtile.lowering.to_tileas.types import layout_of, with_layout
from libtile.support.records import dataclass


@dataclass(frozen=True)
class StoredInTurns:
    """A store in the body of a loop over tiles, among those of one turn."""

    tile: TmaTile
    staging: Staging
    others: int
    """Parts that the other stores of a turn have."""
    number: int | None
    """Of the token that the loop carries for nothing else than to store tiles behind those of the turn before; None
    where there is none."""
    waits: bool
    """Whether this store is the first of those behind that token, which waits until all of the turn before has been
    written."""
    is_behind_wait: bool
    """Whether one before it in its turn does so."""
    at_once: bool
    """Whether a token says that something else comes behind the store."""

    def is_ordered_by_threads(self, loop: scf.ForOp) -> bool:
        """Whether a token may order the store behind accesses by threads."""
        carried = None if self.number is None else loop.body.block.args[1 + self.number]
        tokens = self.tile.access.group("token")
        return any(
            not is_fresh(loop.iter_args[self.number] if self.number is not None and t is carried else t) for t in tokens
        )


def stored_in_turns(loop: scf.ForOp, tiles: Sequence[TmaTile]) -> dict[Operation, StoredInTurns]:
    """What is known of the stores of these tiles in a loop's own body, in this order, before any of them is lowered."""
    stagings = [staging_of(tile) for tile in tiles]
    parts_of_all = sum(len(staging.corners) for staging in stagings)
    orders = _carried_orders(loop, [tile.access for tile in tiles])
    found: dict[Operation, StoredInTurns] = {}
    seen: set[int] = set()
    for tile, staging in zip(tiles, stagings, strict=True):
        op, number = tile.access, orders.get(tile.access)
        others = parts_of_all - len(staging.corners)
        at_once = number is None and any(isinstance(r.type, MemTokenType) and r.first_use for r in op.results)
        waits = number is not None and number not in seen
        found[op] = StoredInTurns(tile, staging, others, number, waits, bool(seen), at_once)
        if number is not None:
            seen.add(number)
    return found


def _carried_orders(loop: scf.ForOp, stores: Sequence[Operation]) -> dict[Operation, int]:
    """For stores in a loop's body the number of the token that is carried for nothing else than to order such stores
    behind those of the turn before."""
    last = loop.body.block.last_op
    assert last is not None
    found: dict[Operation, int] = {}
    for number, handed_on in enumerate(last.operands):
        carried = loop.body.block.args[1 + number]
        if not isinstance(handed_on.type, MemTokenType) or loop.results[number].first_use is not None:
            continue
        joined, users, work = set[Operation](), {last}, [handed_on]
        while work:
            token = work.pop()
            maker = token.owner
            if token is carried:
                continue
            if not isinstance(maker, Operation) or any(use.operation not in users for use in token.uses):
                break  # it is made outside, or something else comes behind it
            if maker.has_trait(JoinsTokens):
                users.add(maker)
                work += maker.operands
            elif maker in stores:
                joined.add(maker)
            else:
                break
        else:
            if all(use.operation in joined or use.operation in users for use in carried.uses):
                found |= dict.fromkeys(joined, number)
    return found


def store_in_turns(
    store: StoredInTurns, loop: scf.ForOp, descriptor: SSAValue, index: int, *, delay: bool
) -> Sequence[SSAValue]:
    """Make the copies of a store in a loop, of which all threads wait at once until they have been written where
    something comes behind them; the last groups, which the loop hands on."""
    op, staging = store.tile.access, store.staging
    assert isinstance(op, TiledStoreOp) and loop.parent is not None
    before = Inserter(loop.parent, loop, op.location)
    buffers = [
        before.value(AllocTensorOp.make(results=[staging.type], alignment=staging.alignment))
        for _ in range(staging.buffers)
    ]
    none = before.value(CommitGroupOp.make(results=[AsyncTokenType()], stores=UnitAttr()))
    body = loop.body.block
    carried = [body.insert_arg(none.type, len(body.args)) for _ in buffers]
    proxy = "async" if store.is_ordered_by_threads(loop) else "async.shared"
    at = Inserter(body, op, op.location)
    corner = store.tile.corner(at, {})
    if store.waits:
        at.add(WaitOp.make(carried, pending=0))
        at.add(BarrierOp.make())
    in_use = () if store.waits or store.is_behind_wait else carried
    groups = _copies(
        at, store.tile, staging, buffers, in_use, (descriptor, index, corner), proxy, delay=delay, others=store.others
    )
    if store.at_once:
        at.add(WaitOp.make(groups, pending=0))
        at.add(BarrierOp.make())
    made = carry_more(loop, [none] * len(buffers), groups)
    return made.results[len(made.results) - len(buffers) :]


def store_in_parts(
    at: Inserter, tile: TmaTile, staging: Staging, within: SSAValue, descriptor: SSAValue, index: int, proxy: str,
    *, delay: bool,
) -> list[SSAValue]:  # fmt: skip
    """Make the copies of a store whose buffers lie in the stages of a pipeline; the last groups."""
    buffers = [
        at.value(AllocTensorOp.make(within, results=[staging.type], alignment=staging.alignment))
        for _ in range(staging.buffers)
    ]
    corner = tile.corner(at, {})
    return _copies(at, tile, staging, buffers, (), (descriptor, index, corner), proxy, delay=delay)


def _copies(
    at: Inserter, tile: TmaTile, staging: Staging, buffers: Sequence[SSAValue], carried: Sequence[SSAValue],
    described: tuple[SSAValue, int, Sequence[SSAValue]], proxy: str, *, delay: bool, others: int = 0,
) -> list[SSAValue]:  # fmt: skip
    """The copies of all parts, through buffers in turn, which those of carried groups may still read, with the groups
    of `others` behind them; their last groups. A tile is `described` by its descriptor, the number of that, and its
    corner."""
    op, groups = tile.access, dict(enumerate(carried))
    assert isinstance(op, TiledStoreOp)
    descriptor, index, corner = described
    for number, offsets in enumerate(staging.corners):
        turn = number % len(buffers)
        if turn in groups:
            # Groups end in the order in which they began: those behind this one may be under way.
            behind = len(buffers) - 1
            if number < len(buffers):
                behind = others + (len(staging.corners) - 1 - turn) % len(buffers) + number
            at.add(WaitOp.make([groups[turn]], pending=behind, read=UnitAttr()))
            at.add(BarrierOp.make())
        at.add(CopyOp.make(part_of(at, op.value, staging, offsets), buffers[turn]))
        at.add(FenceProxyOp.make(proxy=proxy))
        at.add(BarrierOp.make())
        token = at.value(
            TiledTmaStoreOp.make(
                descriptor,
                moved_corner(at, tile, corner, offsets),
                buffers[turn],
                results=[AsyncTokenType()],
                atom=tile.atom,
                tmaIdx=index,
                dim_map=tile.dim_map,
                delay_wait=delay,
            )
        )
        groups[turn] = at.value(CommitGroupOp.make(token, results=[AsyncTokenType()]))
    return [groups[turn] for turn in range(len(buffers))]


def part_of(at: Inserter, value: SSAValue, staging: Staging, offsets: Sequence[int]) -> SSAValue:
    """A part of what is stored, which stays in its registers."""
    assert isinstance(value.type, TensorType)
    shape = tuple(staging.type.shape)
    if shape == value.type.get_shape():
        return value
    type_ = with_layout(TensorType(value.type.element_type, shape), parts.part_layout(layout_of(value), shape))
    return at.value(
        ExtractSliceOp.make(value, (), results=[type_], offsets=DenseArrayBase.from_list(i64, list(offsets)))
    )


def moved_corner(at: Inserter, tile: TmaTile, corner: Sequence[SSAValue], offsets: Sequence[int]) -> list[SSAValue]:
    """The corner of a part, which begins at offsets in the tile."""
    found = list(corner)
    for dim, offset in zip(tile.dims, offsets, strict=True):
        if offset:
            type_ = found[dim].type
            assert isinstance(type_, IntegerType | IndexType)
            found[dim] = at.value(arith.AddiOp(found[dim], at.value(arith.ConstantOp(IntegerAttr(offset, type_)))))
    return found
