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
wait for it there. Behind loops the first parts wait for nothing, and the last groups are those of a kernel's end.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, IntegerType, TensorType, UnitAttr, i64
from xdsl.ir import SSAValue

from libtile.analysis.tokens import is_fresh
from libtile.dialects import arith, scf
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.memory import TiledStoreOp
from libtile.dialects.nv_tileas.pipeline import WaitOp
from libtile.dialects.nv_tileas.tiles import AllocTensorOp, BarrierOp, CopyOp, ExtractSliceOp
from libtile.dialects.nv_tileas.tma import CommitGroupOp, FenceProxyOp, TiledTmaStoreOp
from libtile.dialects.nv_tileas.types import AsyncTokenType
from libtile.layouts import parts
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.materialize import carry_more
from libtile.lowering.tileas.staging import Staging
from libtile.lowering.tileas.tma_tiles import TmaTile
from libtile.lowering.to_tileas.types import layout_of, with_layout


def carried_order(op: TiledStoreOp, loop: scf.ForOp) -> int | None:
    """The number of the token that a loop carries for nothing else than to store a tile behind the one before; None
    where there is none."""
    token = op.results[-1]
    last = loop.body.block.last_op
    uses = list(token.uses)
    if not isinstance(token.type, MemTokenType) or len(uses) != 1 or uses[0].operation is not last:
        return None
    number = uses[0].index
    alone = all(use.operation is op for use in loop.body.block.args[1 + number].uses)
    return number if alone and loop.results[number].first_use is None else None


def is_ordered_by_threads(op: TiledStoreOp, loop: scf.ForOp) -> bool:
    """Whether a token may order a store behind accesses by threads."""
    number = carried_order(op, loop)
    carried = None if number is None else loop.body.block.args[1 + number]
    given = [loop.iter_args[number] if number is not None and t is carried else t for t in op.group("token")]
    return any(not is_fresh(token) for token in given)


def store_in_turns(
    tile: TmaTile, staging: Staging, loop: scf.ForOp, descriptor: SSAValue, index: int, *, delay: bool, at_once: bool
) -> Sequence[SSAValue]:
    """Make the copies of a store in a loop, of which all threads wait `at_once` until they have been written; the last
    groups, which the loop hands on."""
    op = tile.access
    assert isinstance(op, TiledStoreOp) and loop.parent is not None
    before = Inserter(loop.parent, loop, op.location)
    buffers = [
        before.value(AllocTensorOp.make(results=[staging.type], alignment=staging.alignment))
        for _ in range(staging.buffers)
    ]
    none = before.value(CommitGroupOp.make(results=[AsyncTokenType()], stores=UnitAttr()))
    body = loop.body.block
    carried = [body.insert_arg(none.type, len(body.args)) for _ in buffers]
    in_order = carried_order(op, loop) is not None
    proxy = "async" if is_ordered_by_threads(op, loop) else "async.shared"
    at = Inserter(body, op, op.location)
    groups = _copies(at, tile, staging, buffers, carried, (descriptor, index), proxy, delay=delay, in_order=in_order)
    if at_once:
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
    return _copies(at, tile, staging, buffers, (), (descriptor, index), proxy, delay=delay)


def _copies(
    at: Inserter, tile: TmaTile, staging: Staging, buffers: Sequence[SSAValue], carried: Sequence[SSAValue],
    described: tuple[SSAValue, int], proxy: str, *, delay: bool, in_order: bool = False,
) -> list[SSAValue]:  # fmt: skip
    """The copies of all parts, through buffers in turn, which those of carried groups have read before; their last
    groups. The first part waits `in_order` until the groups before have been written."""
    op, groups = tile.access, dict(enumerate(carried))
    assert isinstance(op, TiledStoreOp)
    descriptor, index = described
    corner = tile.corner(at, {})
    for number, offsets in enumerate(staging.corners):
        turn = number % len(buffers)
        whole = in_order and number == 0
        if turn in groups:
            pending = 0 if whole else len(buffers) - 1
            at.add(WaitOp.make([groups[turn]], pending=pending, read=None if whole else UnitAttr()))
            at.add(BarrierOp.make())
        at.add(CopyOp.make(_part(at, op.value, staging, offsets), buffers[turn]))
        at.add(FenceProxyOp.make(proxy=proxy))
        at.add(BarrierOp.make())
        token = at.value(
            TiledTmaStoreOp.make(
                descriptor,
                _moved(at, tile, corner, offsets),
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


def _part(at: Inserter, value: SSAValue, staging: Staging, offsets: Sequence[int]) -> SSAValue:
    """A part of what is stored, which stays in its registers."""
    assert isinstance(value.type, TensorType)
    shape = tuple(staging.type.shape)
    if shape == value.type.get_shape():
        return value
    type_ = with_layout(TensorType(value.type.element_type, shape), parts.part_layout(layout_of(value), shape))
    return at.value(
        ExtractSliceOp.make(value, (), results=[type_], offsets=DenseArrayBase.from_list(i64, list(offsets)))
    )


def _moved(at: Inserter, tile: TmaTile, corner: Sequence[SSAValue], offsets: Sequence[int]) -> list[SSAValue]:
    """The corner of a part, which begins at offsets in the tile."""
    found = list(corner)
    for dim, offset in zip(tile.dims, offsets, strict=True):
        if offset:
            type_ = found[dim].type
            assert isinstance(type_, IntegerType | IndexType)
            found[dim] = at.value(arith.AddiOp(found[dim], at.value(arith.ConstantOp(IntegerAttr(offset, type_)))))
    return found
