# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Agents part once, at the function's end, for `lower-tileaa-queues`: a kernel's warps do not come together again.

what follows execute, and its results     the agent with the most warps (the first agent) goes on with it, when the
                                          others have ended: each puts what it yields into a queue of its own then
execute within an agent                   its agents are agents beside that one's, which is no more
execute in a loop or under a condition    each agent has the loop, or the condition; what the loop carries, and what it
                                          gives, is the first agent's

What only computes around agents each of them has. What has effects there the first agent does: the others wait for it
at their begin, and get what they use of it, by a queue for each. Without such effects agents hand nothing on but by
their own queues, so that one may be an iteration ahead of another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue, Use
from xdsl.traits import IsTerminator

from libtile.dialects import arith, scf
from libtile.dialects.interfaces import is_token
from libtile.dialects.nv_tileaa.functions import ExecuteOp, FuncOp
from libtile.dialects.nv_tileaa.queues import CreateQueueOp, QueueGetOp, QueuePutOp, QueueYieldOp
from libtile.dialects.nv_tileaa.terminators import YieldOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import QueueType
from libtile.dialects.nv_tileas.pipeline import entries
from libtile.ir.locations import set_location
from libtile.ir.places import ops_in
from libtile.ir.tile_form import erase
from libtile.lowering.errors import unsupported
from libtile.support.records import dataclass
from libtile.transforms.effects import has_no_effects


def part_once(execute: ExecuteOp, function: FuncOp, target: str) -> None:
    """Take agents out of all that is around them in a function. LoweringError where they cannot have it."""
    while (around := execute.parent_op()) is not None and around is not function:
        _check(execute, around, target)
        if isinstance(around, ExecuteOp):
            execute = _join(execute, around, target)
            continue
        waits = _is_followed(execute, around)
        execute = go_on_with_one_agent(execute, effects_only=True)
        execute = _part_outside(execute, around, waits)
        if execute.results or isinstance(execute.parent_op(), FuncOp | ExecuteOp):
            execute = go_on_with_one_agent(execute)


def _is_followed(execute: ExecuteOp, around: Operation) -> bool:
    """Whether the first agent has to be through with something before the next turn of what is around agents."""
    block = execute.parent
    assert block is not None
    following = ops_in(block)
    following = following[following.index(execute) + 1 : -1]
    arms = [op for region in around.regions for b in region.blocks if b is not block for op in ops_in(b)[:-1]]
    return _does_something(following) or _does_something(arms)


def first_agent(execute: ExecuteOp) -> int:
    """The number of the agent that does what is beside all of them: the one with the most warps."""
    warps = entries(execute.agent_warps) or [0] * len(execute.regions)
    return warps.index(max(warps))


# -- what comes behind agents -----------------------------------------------------------------------------------------


def go_on_with_one_agent(execute: ExecuteOp, effects_only: bool = False) -> ExecuteOp:
    """The first agent does what follows, if anything does; with `effects_only`, if anything there does more than
    compute, or uses what agents give."""
    block = execute.parent
    assert block is not None
    following = ops_in(block)
    following = following[following.index(execute) + 1 : -1]
    used = any(result.first_use is not None for result in execute.results)
    if effects_only and not used and not _does_something(following):
        following = []
    if not following and not execute.results:
        return execute
    chosen = first_agent(execute)
    ends = [region.block.last_op for region in execute.regions]
    given = [list(end.operands) if end is not None else [] for end in ends]
    for region in execute.regions:
        last = region.block.last_op
        assert last is not None
        erase(last)
    on = execute.regions[chosen].block
    for number, region in enumerate(execute.regions):
        if number != chosen:
            given[number] = _handed_over(execute, region.block, on, given[number]) if following or used else []
            region.block.add_op(YieldOp.make(location=execute.location))
    if following or used:
        for old, new in zip(execute.results, [value for values in given for value in values], strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
    for op in following:
        op.detach()
        on.add_op(op)
    on.add_op(YieldOp.make(location=execute.location))
    if not execute.results:
        return execute
    made = ExecuteOp.create(
        operands=[], result_types=[], properties=dict(execute.properties), attributes=dict(execute.attributes),
        regions=[execute.detach_region(region) for region in list(execute.regions)],
    )  # fmt: skip
    made.location = execute.location
    block.insert_op_before(made, execute)
    erase(execute)
    return made


def _handed_over(execute: ExecuteOp, from_: Block, to: Block, values: Sequence[SSAValue]) -> list[SSAValue]:
    """Values that one agent has at its end, in another one at its end: by a queue, which also says that it is there."""
    put, get = _hand_over(execute, values)
    for op in put:
        from_.add_op(op)
    to.add_op(get)
    return list(get.results) if values else []


def _hand_over(execute: ExecuteOp, values: Sequence[SSAValue]) -> tuple[list[Operation], QueueGetOp]:
    """What puts values into a queue of their own, and what takes them out; of no values, a number."""
    at = execute.location
    made: list[Operation] = []
    if not values:
        zero = arith.ConstantOp(IntegerAttr(0, i32))
        set_location(zero, at)
        made.append(zero)
    kept = list(values) or [made[0].results[0]]
    types = [value.type for value in kept]
    queue = CreateQueueOp.make(results=[QueueType(types)], depth=1, location=at)
    _insert_at_function(queue, execute)
    put, got = Block([QueueYieldOp.make(kept, location=at)]), Block(arg_types=types)
    made.append(QueuePutOp.make(queue.queue, regions=[Region(put)], location=at))
    got.add_op(QueueYieldOp.make(list(got.args), location=at))
    return made, QueueGetOp.make(queue.queue, results=[types], regions=[Region(got)], location=at)


def _insert_at_function(op: Operation, place: Operation) -> None:
    """Insert an op into the function's body, in front of the op there in which the place is."""
    while not isinstance(place.parent_op(), FuncOp):
        around = place.parent_op()
        assert around is not None
        place = around
    assert place.parent is not None
    place.parent.insert_op_before(op, place)


# -- agents within others and within control flow ---------------------------------------------------------------------


def _part_outside(execute: ExecuteOp, around: Operation, waits: bool) -> ExecuteOp:
    """Agents of which each has the op that was around all of them."""
    block, beside = execute.parent, _Beside.of(execute, around, waits)
    assert block is not None and around.parent is not None
    regions = []
    for number, region in enumerate(list(execute.regions)):
        first = number == beside.first
        own = around.clone_without_regions() if first else _without_values(around)
        body = _surrounded(execute, region, number, beside)
        for place, given in zip(own.regions, around.regions, strict=True):
            if given.first_block is None:
                continue
            if given.first_block is block:
                place.add_block(body)
            else:  # another arm, which the first agent has
                place.add_block(given.detach_block(given.first_block) if first else Block([scf.YieldOp()]))
        own.location = around.location
        given_on = own.results if first else ()
        regions.append(Region(Block([own, YieldOp.make(list(given_on), location=execute.location)])))
    made = ExecuteOp.create(
        operands=[], result_types=[r.type for r in around.results], properties=dict(execute.properties),
        attributes=dict(execute.attributes), regions=regions,
    )  # fmt: skip
    made.location = execute.location
    around.parent.insert_op_before(made, around)
    for old, new in zip(around.results, made.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    erase(around)
    return made


def _without_values(around: Operation) -> Operation:
    """A loop that carries nothing, or a branch that gives nothing."""
    kept = around.operands[: len(around.operands) - len(around.results)] if isinstance(around, scf.ForOp) else None
    return type(around).create(
        operands=list(around.operands if kept is None else kept), result_types=[], properties=dict(around.properties),
        attributes=dict(around.attributes), regions=[Region() for _ in around.regions],
    )  # fmt: skip


@dataclass
class _Beside:
    """What is beside agents in a block: what the first agent does alone, and what the others get of it."""

    first: int
    own: frozenset[Operation]
    values: tuple[SSAValue, ...]
    """What others use of it, and of what a loop carries."""
    puts: list[Operation]
    gets: dict[int, QueueGetOp]

    @staticmethod
    def of(execute: ExecuteOp, around: Operation, waits: bool) -> _Beside:
        """With the queues by which others wait for the first agent, if it `waits` with something or others get it."""
        block, first = execute.parent, first_agent(execute)
        assert block is not None
        before = [op for op in block.ops if op is not execute and not op.has_trait(IsTerminator)]
        own = frozenset(op for op in before if _does_something([op]))
        carried = block.args[1:] if isinstance(around, scf.ForOp) else ()
        others = {region for number, region in enumerate(execute.regions) if number != first}
        values = (*carried, *(result for op in before if op in own for result in op.results))
        used = tuple(v for v in values if any(_is_for_others(use, block, own, others) for use in v.uses))
        beside = _Beside(first, own, used, [], {})
        for number in range(len(execute.regions)) if waits or own or used else ():
            if number != first:
                puts, beside.gets[number] = _hand_over(execute, [v for v in used if not is_token(v)])
                beside.puts += puts
        return beside

    def begin(self, number: int, values: dict[SSAValue, SSAValue]) -> list[Operation]:
        """How an agent but the first one begins: it gets the values. Tokens are new ones, as the turn orders memory."""
        if number not in self.gets:
            return []
        get = self.gets[number]
        made: list[Operation] = [get]
        values.update(zip((v for v in self.values if not is_token(v)), get.results))
        for token in filter(is_token, self.values):
            fresh = CreateMemTokenOp.make(results=[token.type], location=get.location)
            values[token] = fresh.result
            made.append(fresh)
        return made


def _is_for_others(use: Use, block: Block, own: frozenset[Operation], others: set[Region]) -> bool:
    """Whether a use is in a block by what agents but the first one have as well."""
    op, region = use.operation, None
    while op.parent is not block:
        region, above = op.parent_region(), op.parent_op()
        if above is None:
            return False
        op = above
    if isinstance(op, ExecuteOp) and region in others:
        return True
    return not op.regions and op not in own and not op.has_trait(IsTerminator)


def _surrounded(execute: ExecuteOp, region: Region, number: int, beside: _Beside) -> Block:
    """What one agent does, in a copy of the block in which all of them are."""
    block, values = execute.parent, dict[SSAValue, SSAValue]()
    assert block is not None
    first = number == beside.first
    kept = block.args if first else block.args[:1]
    body = Block(arg_types=[a.type for a in kept])
    values.update(zip(kept, body.args))
    body.add_ops([] if first else beside.begin(number, values))
    for op in block.ops:
        if op is execute:
            body.add_ops(beside.puts if first else [])
            last = region.block.last_op
            for inner in ops_in(region.block):
                inner.detach()
                if inner is not last:
                    body.add_op(inner)
        elif not first and isinstance(op, scf.YieldOp):
            body.add_op(scf.YieldOp())
        elif first or op not in beside.own:
            copy = op.clone(values)
            copy.location = op.location
            body.add_op(copy)
    for old, new in values.items():
        old.replace_uses_with_if(new, partial(_is_used_within, body))
    return body


def _is_used_within(block: Block, use: Use) -> bool:
    """Whether a use is in a block or in regions of its ops."""
    at: Block | None = use.operation.parent
    while at is not None and at is not block:
        parent = at.parent_op()
        at = parent.parent if parent is not None else None
    return at is block


def _join(execute: ExecuteOp, around: ExecuteOp, target: str) -> ExecuteOp:
    """Agents of an agent beside the others, in its place. LoweringError where nobody says how many warps each has."""
    place = next(n for n, region in enumerate(around.regions) if region.first_block is execute.parent)
    numbers = {}
    for name in ("agent_warps", "agent_registers"):
        outer, inner = (op.properties.get(name) for op in (around, execute))
        if name == "agent_registers" and outer is None and inner is None:
            continue
        if not isinstance(outer, ArrayAttr) or not isinstance(inner, ArrayAttr):
            raise unsupported(execute, f"runs agents within an agent, and not all of them have '{name}'", target)
        numbers[name] = ArrayAttr([*outer.data[:place], *inner.data, *outer.data[place + 1 :]])
    beside = _Beside.of(execute, around, waits=False)
    own = [Region(_surrounded(execute, region, n, beside)) for n, region in enumerate(list(execute.regions))]
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


def _check(execute: ExecuteOp, around: Operation, target: str) -> None:
    """LoweringError where agents cannot each have what is around all of them."""
    if not isinstance(around, scf.ForOp | scf.IfOp | ExecuteOp):
        raise unsupported(execute, f"runs agents within a '{around.name}' op, which they cannot each have", target)


def _does_something(ops: Sequence[Operation]) -> bool:
    """Whether ops do more than compute."""
    return any(op.regions or not has_no_effects(op) for op in ops)
