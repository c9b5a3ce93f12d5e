# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `lower-tileaa-queues` does first: each turn names the queue that the function has made, and agents part once.

operands of execute                       are what its agents take from around them
what follows execute, and its results     the agent with the most warps goes on with it, when the others have ended:
                                          each puts what it yields into a queue of its own then
queues that loops and branches hand on    are one queue each, which turns then take itself
execute within an agent                   its agents are agents beside that one's, which is no more
execute in a loop or under a condition    each agent has the loop, or the condition: agents hand nothing on but by
                                          queues, so that one may be an iteration ahead of another one
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue, Use

from libtile.dialects import arith, scf
from libtile.dialects.nv_tileaa.functions import ExecuteOp, FuncOp
from libtile.dialects.nv_tileaa.queues import CreateQueueOp, QueueGetOp, QueuePutOp, QueueYieldOp
from libtile.dialects.nv_tileaa.terminators import YieldOp
from libtile.dialects.nv_tileaa.types import QueueType
from libtile.dialects.nv_tileas.pipeline import entries
from libtile.dialects.nv_tileas.turn_rules import handed_on
from libtile.ir.classes import is_subclass
from libtile.ir.locations import set_location
from libtile.ir.places import walk
from libtile.ir.tile_form import erase
from libtile.lowering.errors import unsupported
from libtile.transforms.effects import has_no_effects

_CARRYING = (scf.ForOp, scf.WhileOp, scf.IfOp)


def settle_queues(function: FuncOp, target: str) -> None:
    """Settle the queues and agents of one function. LoweringError, with the place, for queues that are exchanged for
    each other, and for agents that cannot be parted once."""
    for execute in [op for op in walk(function) if isinstance(op, ExecuteOp)]:
        _take_from_around(execute)
    for execute in [op for op in walk(function) if isinstance(op, ExecuteOp)]:
        if isinstance(execute.parent_op(), FuncOp | ExecuteOp):
            _go_on_with_one_agent(execute)
    for made in [op for op in walk(function) if isinstance(op, CreateQueueOp)]:
        _make_outside_of_agents(made)
    queues = [op for op in walk(function) if isinstance(op, CreateQueueOp)]
    _follow(queues, target)
    for op in [op for op in walk(function) if is_subclass(type(op), _CARRYING)]:
        if any(isinstance(v.type, QueueType) for v in (*op.operands, *op.results)):
            _carry_no_queues(op)
    for execute in [op for op in walk(function) if isinstance(op, ExecuteOp)]:
        while (around := execute.parent_op()) is not None and around is not function:
            if isinstance(around, ExecuteOp):
                execute = _join(execute, around, target)
            else:
                execute = _part_outside(execute, around, target)


def _make_outside_of_agents(made: CreateQueueOp) -> None:
    """What an agent makes at its begin or later, once, the function makes."""
    while isinstance(agents := made.parent_op(), ExecuteOp):
        assert agents.parent is not None
        made.detach()
        agents.parent.insert_op_before(made, agents)


def _take_from_around(execute: ExecuteOp) -> None:
    """Agents that name operands by themselves, and no arguments of theirs."""
    for region in execute.regions:
        for argument, given in zip(list(region.block.args), execute.operands, strict=True):
            argument.replace_all_uses_with(given)
            region.block.erase_arg(argument)
    execute.operands = []


# -- what comes behind agents -----------------------------------------------------------------------------------------


def _go_on_with_one_agent(execute: ExecuteOp) -> None:
    """Agents do not come together again: one of them does what follows, if anything does."""
    block = execute.parent
    assert block is not None
    following = list(block.ops)
    following = following[following.index(execute) + 1 : -1]
    if not following and not execute.results:
        return
    warps = entries(execute.agent_warps) or [0] * len(execute.regions)
    chosen = warps.index(max(warps))
    ends = [region.block.last_op for region in execute.regions]
    given = [list(end.operands) if end is not None else [] for end in ends]
    for region in execute.regions:
        last = region.block.last_op
        assert last is not None
        erase(last)
    on = execute.regions[chosen].block
    for number, region in enumerate(execute.regions):
        if number != chosen:
            given[number] = _handed_over(execute, region.block, on, given[number]) if following else []
            region.block.add_op(YieldOp.make(location=execute.location))
    if following:
        for old, new in zip(execute.results, [value for values in given for value in values], strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
    for op in following:
        op.detach()
        on.add_op(op)
    on.add_op(YieldOp.make(location=execute.location))
    if execute.results:
        made = ExecuteOp.create(
            operands=[], result_types=[], properties=dict(execute.properties), attributes=dict(execute.attributes),
            regions=[execute.detach_region(region) for region in list(execute.regions)],
        )  # fmt: skip
        made.location = execute.location
        block.insert_op_before(made, execute)
        erase(execute)


def _handed_over(execute: ExecuteOp, from_: Block, to: Block, values: Sequence[SSAValue]) -> list[SSAValue]:
    """Values that one agent has at its end, in another one at its end: by a queue, which also says that it is there."""
    at, block = execute.location, execute.parent
    assert block is not None
    if not values:
        zero = arith.ConstantOp(IntegerAttr(0, i32))
        set_location(zero, at)
        from_.add_op(zero)
    kept = list(values) or [zero.result]
    types = [value.type for value in kept]
    queue = CreateQueueOp.make(results=[QueueType(types)], depth=1, location=at)
    block.insert_op_before(queue, execute)
    put, got = Block([QueueYieldOp.make(kept, location=at)]), Block(arg_types=types)
    from_.add_op(QueuePutOp.make(queue.queue, regions=[Region(put)], location=at))
    got.add_op(QueueYieldOp.make(list(got.args), location=at))
    get = QueueGetOp.make(queue.queue, results=[types], regions=[Region(got)], location=at)
    to.add_op(get)
    return list(get.results) if values else []


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


# -- agents within control flow ---------------------------------------------------------------------------------------


def _part_outside(execute: ExecuteOp, around: Operation, target: str) -> ExecuteOp:
    """Agents of which each has the op that was around all of them. LoweringError where they cannot have it."""
    _check_parts(execute, around, target)
    block = execute.parent
    assert block is not None and around.parent is not None
    regions = []
    for region in list(execute.regions):
        own = around.clone_without_regions()
        body = _surrounded(execute, region)
        for place, given in zip(own.regions, around.regions, strict=True):
            if given.first_block is not None:
                place.add_block(body if given.first_block is block else Block([scf.YieldOp()]))
        own.location = around.location
        regions.append(Region(Block([own, YieldOp.make(location=execute.location)])))
    made = ExecuteOp.create(
        operands=[], result_types=[], properties=dict(execute.properties), attributes=dict(execute.attributes),
        regions=regions,
    )  # fmt: skip
    made.location = execute.location
    around.parent.insert_op_before(made, around)
    erase(around)
    return made


def _surrounded(execute: ExecuteOp, region: Region) -> Block:
    """What one agent does, in a copy of the block in which all of them are."""
    block, values = execute.parent, dict[SSAValue, SSAValue]()
    assert block is not None
    body = Block(arg_types=[a.type for a in block.args])
    values.update(zip(block.args, body.args))
    for op in block.ops:
        if op is not execute:
            copy = op.clone(values)
            copy.location = op.location
            body.add_op(copy)
            continue
        last = region.block.last_op
        assert last is not None
        for inner in list(region.block.ops):
            inner.detach()
            if inner is not last:
                body.add_op(inner)
    for old, new in values.items():
        old.replace_uses_with_if(new, partial(_is_used_within, body))
    return body


def _join(execute: ExecuteOp, around: ExecuteOp, target: str) -> ExecuteOp:
    """Agents of an agent beside the others, in its place. LoweringError where nobody says how many warps each has."""
    _check_parts(execute, around, target)
    place = next(n for n, region in enumerate(around.regions) if region.first_block is execute.parent)
    numbers = {}
    for name in ("agent_warps", "agent_registers"):
        outer, inner = (op.properties.get(name) for op in (around, execute))
        if name == "agent_registers" and outer is None and inner is None:
            continue
        if not isinstance(outer, ArrayAttr) or not isinstance(inner, ArrayAttr):
            raise unsupported(execute, f"runs agents within an agent, and not all of them have '{name}'", target)
        numbers[name] = ArrayAttr([*outer.data[:place], *inner.data, *outer.data[place + 1 :]])
    own = [Region(_surrounded(execute, region)) for region in list(execute.regions)]
    regions = list(around.regions)
    for region in regions:
        around.detach_region(region)
    made = ExecuteOp.create(
        operands=[], result_types=[], properties=dict(around.properties) | numbers, attributes=dict(around.attributes),
        regions=[*regions[:place], *own, *regions[place + 1 :]],
    )  # fmt: skip
    made.location = around.location
    assert around.parent is not None
    around.parent.insert_op_before(made, around)
    erase(around)
    return made


def _is_used_within(block: Block, use: Use) -> bool:
    """Whether a use is in a block or in regions of its ops."""
    at: Block | None = use.operation.parent
    while at is not None and at is not block:
        parent = at.parent_op()
        at = parent.parent if parent is not None else None
    return at is block


def _check_parts(execute: ExecuteOp, around: Operation, target: str) -> None:
    """LoweringError where agents cannot each have what is around all of them."""
    name = around.name
    if execute.results:
        raise unsupported(execute, "has results, which agents within another op hand on by queues only", target)
    if not isinstance(around, scf.ForOp | scf.IfOp | ExecuteOp):
        raise unsupported(execute, f"runs agents within a '{name}' op, which they cannot each have", target)
    if around.results:
        problem = f"runs agents within a '{name}' op with results, and agents hand nothing on but by queues"
        raise unsupported(execute, problem, target)
    blocks = [region.first_block for region in around.regions if region.first_block is not None]
    if not isinstance(around, ExecuteOp) and any(
        block is not execute.parent and len(block.ops) > 1 for block in blocks
    ):
        raise unsupported(execute, f"runs agents in one arm of a '{name}' op whose other one does something", target)
    for op in execute.parent.ops if execute.parent is not None else ():
        if op is not execute and op.next_op is not None and (op.regions or not has_no_effects(op)):
            problem = f"runs agents within a '{name}' op beside a '{op.name}' op, which each of them would do"
            raise unsupported(execute, problem, target)
