# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `lower-tileaa-queues` does first: each turn names the queue that the function has made, and agents part once.

operands of execute                       are what its agents take from around them
queues that a loop makes in each turn     are one queue, if each turn takes out of it what it puts into it
queues that loops and branches hand on    are one queue each, which turns then take itself

Then `part_agents` has agents part once, at the function's end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.interfaces import bounds_of
from libtile.dialects.nv_tileaa.functions import ExecuteOp, FuncOp
from libtile.dialects.nv_tileaa.queues import CreateQueueOp, QueueGetOp, QueuePutOp
from libtile.dialects.nv_tileaa.types import QueueType
from libtile.dialects.nv_tileas.turn_rules import handed_on
from libtile.ir.classes import is_subclass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase, integer_of
from libtile.lowering.errors import unsupported
from libtile.lowering.to_tileas.part_agents import go_on_with_one_agent, part_once

_CARRYING = (scf.ForOp, scf.WhileOp, scf.IfOp)


def settle_queues(function: FuncOp, target: str) -> None:
    """Settle the queues and agents of one function. LoweringError, with the place, for queues that are exchanged for
    each other, and for agents that cannot be parted once."""
    for execute in ops_of(function, ExecuteOp):
        _take_from_around(execute)
    for execute in ops_of(function, ExecuteOp):
        if isinstance(execute.parent_op(), FuncOp | ExecuteOp):
            go_on_with_one_agent(execute)
    for made in ops_of(function, CreateQueueOp):
        _make_outside(made, target)
    queues = ops_of(function, CreateQueueOp)
    _follow(queues, target)
    for op in [op for op in ops_of(function) if is_subclass(type(op), _CARRYING)]:
        if any(isinstance(v.type, QueueType) for v in (*op.operands, *op.results)):
            _carry_no_queues(op)
    for execute in ops_of(function, ExecuteOp):
        part_once(execute, function, target)


def _make_outside(made: CreateQueueOp, target: str) -> None:
    """What an agent makes, or each turn of a loop, the function makes once. LoweringError for a queue in a loop that
    may hold something at the turn's end, which would be there in the next one."""
    is_left_empty = _is_left_empty(made)
    while isinstance(around := made.parent_op(), ExecuteOp | scf.ForOp | scf.IfOp | scf.WhileOp):
        if isinstance(around, scf.ForOp | scf.WhileOp) and not is_left_empty:
            problem = "makes a queue in each turn of a loop, where not as much is certain to be got from it as is put"
            raise unsupported(made, problem, target)
        assert around.parent is not None
        made.detach()
        around.parent.insert_op_before(made, around)


_Often = tuple[SSAValue, ...]
"""How often a turn is taken: the bounds of the loops around it."""


def _is_left_empty(made: CreateQueueOp) -> bool:
    """Whether as much is put into a queue as each consumer gets from it, between where it is made and the end of its
    block, by turns in no branch, and in counted loops of the same bounds on both sides."""
    sides: dict[int | None, list[_Often]] = {}
    for use in made.queue.uses:
        turn = use.operation
        if not isinstance(turn, QueuePutOp | QueueGetOp):
            return False
        often = _how_often(turn, made)
        if often is None:
            return False
        side = None if isinstance(turn, QueuePutOp) else integer_of(turn.consumer_idx)
        sides.setdefault(side, []).append(often)
    wanted = {None, *range(integer_of(made.num_consumers, 1))}
    counts = [Counter(often) for often in sides.values()]
    return not counts or (sides.keys() == wanted and all(count == counts[0] for count in counts))


def _how_often(turn: Operation, made: CreateQueueOp) -> _Often | None:
    bounds: list[SSAValue] = []
    around = turn.parent_op()
    while around is not made.parent_op():
        if isinstance(around, scf.ForOp):
            bounds += bounds_of(around)
        elif not isinstance(around, ExecuteOp | QueuePutOp | QueueGetOp):
            return None
        around = around.parent_op()
    return tuple(bounds)


def _take_from_around(execute: ExecuteOp) -> None:
    """Agents that name operands by themselves, and no arguments of theirs."""
    for region in execute.regions:
        for argument, given in zip(list(region.block.args), execute.operands, strict=True):
            argument.replace_all_uses_with(given)
            region.block.erase_arg(argument)
    execute.operands = []


# -- queues that control flow hands on --------------------------------------------------------------------------------


def _follow(queues: Sequence[CreateQueueOp], target: str) -> None:
    """Put the queue itself in the place of what control flow makes of it."""
    origins: dict[SSAValue, SSAValue] = {made.queue: made.queue for made in queues}
    work = list(origins)
    while work:
        value = work.pop(0)
        for use in value.uses:
            for other in handed_on(use.operation, use.index):
                if other not in origins:
                    origins[other] = origins[value]
                    work.append(other)
                elif origins[other] is not origins[value]:
                    problem = "hands on one queue where another path hands on another one"
                    raise unsupported(use.operation, problem, target)
    for value, queue in origins.items():
        if value is not queue:
            value.replace_all_uses_with(queue)


def _carry_no_queues(op: Operation) -> None:
    """An op of scf again, without the queues that it carries, which nobody uses."""
    for region in op.regions:
        block = region.first_block
        if block is None:
            continue
        for argument in reversed(block.args):
            if isinstance(argument.type, QueueType):
                block.erase_arg(argument)
        if block.last_op is not None:
            block.last_op.operands = _no_queues(block.last_op.operands)
    kept = [r for r in op.results if not isinstance(r.type, QueueType)]
    regions = list(op.regions)
    for region in regions:
        op.detach_region(region)
    made = type(op).create(
        operands=_no_queues(op.operands), result_types=[r.type for r in kept], properties=dict(op.properties),
        attributes=dict(op.attributes), regions=regions,
    )  # fmt: skip
    made.location = op.location
    assert op.parent is not None
    op.parent.insert_op_before(made, op)
    for old, new in zip(kept, made.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    erase(op)


def _no_queues(values: Sequence[SSAValue]) -> list[SSAValue]:
    return [v for v in values if not isinstance(v.type, QueueType)]
