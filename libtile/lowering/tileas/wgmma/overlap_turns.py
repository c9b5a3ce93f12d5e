# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns of a queue's consumer whose products are under way across turns.

A consumer that waits for its products before it leaves a stage has the tensor cores idle from turn to turn. A loop
whose turns do nothing but multiply what their stages hold into what the loop carries goes on as `warp_steps` has it:
each turn issues its products, waits for those of the turn before, and releases that turn's stage. So two stages are
held at a time, and a queue of one place stays as it is. Nobody can tell the later release but who fills the stages, and
who fills the next one does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileas.async_products import AsyncDotOp, WaitDotOp
from libtile.dialects.nv_tileas.pipeline import (
    ConsumeOneOp,
    ConsumerReadOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    IncIterOp,
    PipelineYieldOp,
)
from libtile.dialects.nv_tileas.types import BufferType, PipelineType
from libtile.ir.places import ops_in
from libtile.ir.tile_form import erase, integer_of
from libtile.lowering.tileas.agents.feeds import Feed, Feeds
from libtile.lowering.tileas.cleanup import is_pure
from libtile.lowering.tileas.counted_loops import trips
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.wgmma.warp_steps import WarpSteps

STAGES = 2
"""That are held at a time."""


def overlap_turns(read: ConsumerReadOp) -> bool:
    """Leave the products of a read's turns under way across the turns of its loop; whether it is such a loop."""
    found = _products(read)
    turn = read.parent_op()
    if found is None or not isinstance(turn, ConsumeOneOp):
        return False
    products, loop = found
    body, last = loop.body.block, loop.body.block.last_op
    type_ = turn.pipeline.type
    assert last is not None and isinstance(type_, PipelineType)
    if type_.stages < STAGES or len(loop.iter_args) != len(products) + 1:
        return False
    if any(op not in (turn, last) and not is_pure(op) for op in body.ops):
        return False
    sums = _sums(products, read, turn, loop)
    if sums is None:
        return False
    place = next(n for n in range(len(loop.iter_args)) if n not in sums)
    if turn.iterator is not body.args[1 + place] or last.operands[place] is not turn.results[-1]:
        return False
    _make(read, turn, loop, products, sums, place)
    return True


def _products(read: ConsumerReadOp) -> tuple[list[AsyncDotOp], scf.ForOp] | None:
    """The products of a turn that issues and waits for them, and does nothing else, and the loop that it is in."""
    turn = read.parent_op()
    loop = turn.parent_op() if turn is not None else None
    if not isinstance(turn, ConsumeOneOp) or not isinstance(loop, scf.ForOp) or turn.parent is not loop.body.block:
        return None
    ops = ops_in(turn.body.block)
    if [type(op) for op in ops] != [ConsumerWaitOp, ConsumerReadOp, ConsumerReleaseOp, IncIterOp, PipelineYieldOp]:
        return None
    wait, _, release, following, end = ops
    assert isinstance(wait, ConsumerWaitOp) and isinstance(following, IncIterOp)
    assert isinstance(release, ConsumerReleaseOp)
    if release.token is not read.handed_on or list(end.operands) != [*read.outputs, following.result]:
        return None
    if {wait.iterator, read.iterator, following.iterator} != {turn.iterator}:
        return None
    inside = ops_in(read.body.block)
    products = [op for op in inside if isinstance(op, AsyncDotOp)]
    if not products or any(not isinstance(op, AsyncDotOp | WaitDotOp | PipelineYieldOp) for op in inside):
        return None
    own = all(isinstance(v, BlockArgument) and v.block is read.body.block for op in products for v in (op.a, op.b))
    return (products, loop) if own else None


def _sums(
    products: Sequence[AsyncDotOp], read: ConsumerReadOp, turn: ConsumeOneOp, loop: scf.ForOp
) -> list[int] | None:
    """By product, the number of the sum that the loop carries for it; None where it is not added to one, or the loop
    hands on something else."""
    end, last = read.body.block.last_op, loop.body.block.last_op
    assert end is not None and last is not None
    found: list[int] = []
    for product in products:
        before = product.c
        if not isinstance(before, BlockArgument) or before.block is not loop.body.block or not before.has_one_use():
            return None
        waited = [use.operation for use in product.results[0].uses]
        if len(waited) != 1 or not isinstance(waited[0], WaitDotOp) or not waited[0].results[0].has_one_use():
            return None
        use = next(iter(waited[0].results[0].uses))
        number = before.index - 1
        if use.operation is not end or last.operands[number] is not turn.results[use.index] or number in found:
            return None
        if not turn.results[use.index].has_one_use():
            return None
        found.append(number)
    return found if len(end.operands) == len(products) else None


def _make(
    read: ConsumerReadOp, turn: ConsumeOneOp, loop: scf.ForOp, products: Sequence[AsyncDotOp], sums: Sequence[int],
    place: int,
) -> None:  # fmt: skip
    type_, block = turn.pipeline.type, loop.parent
    assert isinstance(type_, PipelineType) and block is not None
    tiles = tuple(held for held in type_.element_types if isinstance(held, BufferType))
    feed = Feed(
        tiles, {}, stages=type_.stages, pipe=turn.pipeline, consumers=type_.consumers,
        consumer=integer_of(turn.consumer_idx),
    )  # fmt: skip
    arguments = read.body.block.args

    def issue(at: Inserter, given: Sequence[SSAValue], before: Sequence[SSAValue]) -> list[SSAValue]:
        made: list[SSAValue] = []
        for product, sum_ in zip(products, before, strict=True):
            values: dict[SSAValue, SSAValue] = {**dict(zip(arguments, given)), product.c: sum_}
            at.clone([product], values)
            made.append(values[product.results[0]])
        return made

    at = Inserter(block, loop, loop.location)
    steps = WarpSteps(loop, sums, Feeds(feed), groups=len(products))
    ends, behind = steps.overlapped(at, trips(at, loop), issue, loop.iter_args[place])
    assert behind is not None  # of steps that begin at a place
    for number, end in zip(sums, ends, strict=True):
        loop.results[number].replace_all_uses_with(end)
    loop.results[place].replace_all_uses_with(behind)
    erase(loop)
