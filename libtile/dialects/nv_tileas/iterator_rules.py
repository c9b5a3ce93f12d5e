# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An iterator counts the turns of one pipeline: whose turns it takes is that pipeline, whatever way it came."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from libtile.dialects import scf

CREATE, STEP = "nv_tileas.async.pipeline.create_iterator", "nv_tileas.async.pipeline.inc_iter"
REGIONS = (
    "nv_tileas.async.pipeline.produce_one",
    "nv_tileas.async.pipeline.consume_one",
    "nv_tileas.async.pipeline.producer_write",
    "nv_tileas.async.pipeline.consumer_read",
)
"""Ops whose last results are what their regions yield."""


def check_own_iterator(pipeline: SSAValue, iterator: SSAValue) -> None:
    """Every iterator that may come here was made for the pipeline, as far as is known; VerifyException."""
    own = set(roots(pipeline))
    for root in roots(iterator):
        owner = root.owner
        if isinstance(owner, Operation) and owner.name == CREATE and own.isdisjoint(roots(owner.operands[0])):
            raise VerifyException("expects an iterator of the pipeline whose turn it takes, but got another one's")


def roots(value: SSAValue) -> Iterator[SSAValue]:
    """The values that a value may be, through loops, branches, regions of turns and steps of an iterator."""
    seen, work = set[SSAValue](), [value]
    while work:
        at = work.pop()
        if at in seen:
            continue
        seen.add(at)
        before = _before(at)
        if before:
            work += before
        else:
            yield at


def _before(value: SSAValue) -> list[SSAValue]:
    """What a value is elsewhere, one step back; nothing for one that is made where it stands."""
    if isinstance(value, BlockArgument):
        return _of_argument(value)
    assert isinstance(value, OpResult)
    op, index = value.op, value.index
    if op.name == STEP:
        return [op.operands[0]]
    if isinstance(op, scf.ForOp):
        return [op.iter_args[index], *_ended(op.body, index)]
    if isinstance(op, scf.IfOp):
        return [*_ended(op.true_region, index), *_ended(op.false_region, index)]
    if isinstance(op, scf.WhileOp):
        return _ended(op.before_region, index + 1)
    if op.name in REGIONS:
        return _ended(op.regions[0], index - len(op.results))
    return []


def _of_argument(value: BlockArgument) -> list[SSAValue]:
    parent, index = value.block.parent_op(), value.index
    if isinstance(parent, scf.ForOp) and index:
        return [parent.iter_args[index - 1], *_ended(parent.body, index - 1)]
    if isinstance(parent, scf.WhileOp):
        if value.block.parent is parent.before_region:
            return [parent.arguments[index], *_ended(parent.after_region, index)]
        return _ended(parent.before_region, index + 1)
    return []


def _ended(region: Region, index: int) -> list[SSAValue]:
    """What the end of a region hands on at an index (one from the end where it is negative)."""
    last = region.last_block.last_op if region.last_block is not None else None
    if last is None or not -len(last.operands) <= index < len(last.operands):
        return []
    return [last.operands[index]]
