# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops and conditionals become scf, whose regions have one way out.

A `cuda_tile.loop` is an `scf.while` whose first region holds the body: it tells whether to go on, and both the results
of a break and the values of the next iteration. An op that may leave a region early is an `if` (or a loop with a
return in it); what follows such an op moves into the branch that goes on, and every branch ends with the values that
its region has to give: the others are whatever is at hand, as nobody reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnitAttr, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.dialects import arith, scf
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.interfaces import bounds_of
from libtile.dialects.nv_tileaa.terminators import ReturnIfOp
from libtile.ir.operands import source_of
from libtile.ir.places import inner_ops, ops_in
from libtile.lowering.to_tileaa.context import Context, convert_type, rule
from libtile.lowering.to_tileaa.ways_out import BREAK, CONTINUE, LOOP, RETURN, YIELD
from libtile.support.records import dataclass

Values = list[SSAValue]


@dataclass
class Exits:
    """What a region gives on each way out: `types` are those of the values, the functions make these."""

    types: list[Attribute]
    break_: Callable[[Values], Values] | None = None
    continue_: Callable[[Values], Values] | None = None
    return_: Callable[[], Values] | None = None


def lower_ops(c: Context, ops: Sequence[Operation], exits: Exits, fall: Callable[[Values], Values]) -> Values:
    """Convert ops up to their terminator; returns the values that the region gives.

    `fall` makes these from the operands of a yield.
    """
    for position, op in enumerate(ops):
        c.location = op.location
        if isinstance(op, BREAK):
            assert exits.break_ is not None
            return exits.break_(c.all(op.operands))
        if isinstance(op, CONTINUE):
            assert exits.continue_ is not None
            return exits.continue_(c.all(op.operands))
        if isinstance(op, RETURN):
            assert exits.return_ is not None
            return exits.return_()
        if isinstance(op, YIELD):
            return fall(c.all(op.operands))
        if not c.ways_out.leaves(op):
            c.convert(op)
            continue
        rest = ops[position + 1 :]
        if op in c.early_returns and c.block is c.outermost:  # and in no branch of a way out before
            return _return_if(c, op, rest, exits, fall)
        if isinstance(op, LOOP):
            return _after_loop(c, op, rest, exits, fall)
        return _lower_if(c, op, rest, exits, fall)
    return fall([])


def _branch(
    c: Context, condition: SSAValue, types: Sequence[Attribute], then: Callable[[], Values], other: Callable[[], Values]
) -> Values:
    """An `scf.if` whose regions end with the values that the functions make."""
    regions = []
    for make in (then, other):
        block = Block()
        with c.inside(block):
            c.emit(scf.YieldOp(*make()))
        regions.append(Region(block))
    op = scf.IfOp.create(operands=[condition], result_types=list(types), regions=regions)
    return list(c.emit(op).results)


def _region_ops(region: Region) -> list[Operation]:
    return ops_in(region.block) if region.blocks else []


def _lower_if(
    c: Context, op: Operation, rest: Sequence[Operation], exits: Exits, fall: Callable[[Values], Values]
) -> Values:
    """An `if` with ways out of the region around it, and the ops behind it."""
    condition = c.scalar(c.get(source_of(op)))

    def go_on(values: Values) -> Values:
        c.bind_all(op, values)
        return lower_ops(c, rest, exits, fall)

    if c.ways_out.ways_on(op) <= 1:
        return _branch(
            c,
            condition,
            exits.types,
            lambda: lower_ops(c, _region_ops(op.regions[0]), exits, go_on),
            lambda: lower_ops(c, _region_ops(op.regions[1]), exits, go_on),
        )
    # Both branches may go on: they give the op's results, and whether they do, beside the values of a way out.
    own = [convert_type(r.type) for r in op.results]
    inner = Exits(
        [i1, *own, *exits.types],
        _left(c, own, exits.break_),
        _left(c, own, exits.continue_),
        None if (leave := exits.return_) is None else _returned(c, own, leave),
    )

    def fell(values: Values) -> Values:
        return [c.true(), *values, *map(c.zero, exits.types)]

    on, *results = _branch(
        c,
        condition,
        inner.types,
        lambda: lower_ops(c, _region_ops(op.regions[0]), inner, fell),
        lambda: lower_ops(c, _region_ops(op.regions[1]), inner, fell),
    )
    return _branch(c, on, exits.types, lambda: go_on(results[: len(own)]), lambda: results[len(own) :])


def _return_if(
    c: Context, op: Operation, rest: Sequence[Operation], exits: Exits, fall: Callable[[Values], Values]
) -> Values:
    """An `if` that returns from the kernel itself in one branch, and the ops behind it, which are in no branch then."""
    condition, number = c.scalar(c.get(source_of(op))), c.early_returns[op]
    returning, going_on = (_region_ops(op.regions[n]) for n in (number, 1 - number))
    if number:
        condition = c.emit(arith.XOrIOp(condition, c.true())).results[0]
    if len(returning) > 1:
        _branch(c, condition, [], lambda: lower_ops(c, returning[:-1], Exits([]), lambda _: []), list)
    c.make(ReturnIfOp, [condition])

    def go_on(values: Values) -> Values:
        c.bind_all(op, values)
        return lower_ops(c, rest, exits, fall)

    return lower_ops(c, going_on, exits, go_on)


def _returned(c: Context, own: Sequence[Attribute], leave: Callable[[], Values]) -> Callable[[], Values]:
    """How a branch returns that may also go on: it does not, and gives nothing of its own."""
    return lambda: [c.false(), *map(c.zero, own), *leave()]


def _left(
    c: Context, own: Sequence[Attribute], leave: Callable[[Values], Values] | None
) -> Callable[[Values], Values] | None:
    if leave is None:
        return None
    return lambda values: [c.false(), *map(c.zero, own), *leave(values)]


def _after_loop(
    c: Context, op: Operation, rest: Sequence[Operation], exits: Exits, fall: Callable[[Values], Values]
) -> Values:
    """A loop that may return from the kernel, and the ops behind it."""
    returned = _lower_loop(c, op)
    assert returned is not None and exits.return_ is not None

    return _branch(c, returned, exits.types, exits.return_, lambda: lower_ops(c, rest, exits, fall))


def _block_of(c: Context, region: Region, types: Sequence[Attribute]) -> Block:
    """A new block whose arguments stand for those of a region's block."""
    block = Block(arg_types=list(types))
    for old, new in zip(region.block.args, block.args, strict=True):
        c.bind(old, new)
    return block


def _lower_loop(c: Context, op: Operation) -> SSAValue | None:
    """Convert a loop; returns whether it returned from the kernel, for a loop that may."""
    carried = [convert_type(v.type) for v in op.operands]
    results = [convert_type(r.type) for r in op.results]
    may_return = c.ways_out.returns(op)
    flag: list[Attribute] = [i1] if may_return else []

    def left(returned: bool) -> Values:
        return ([c.true()] if returned else [c.false()]) if may_return else []

    block = _block_of(c, op.regions[0], carried)
    arguments = list(block.args)
    exits = Exits(
        [i1, *flag, *results, *carried],
        lambda values: [c.false(), *left(False), *values, *arguments],
        lambda values: [c.true(), *left(False), *map(c.zero, results), *values],
        lambda: [c.false(), *left(True), *map(c.zero, results), *arguments],
    )
    with c.inside(block):
        go_on, *given = lower_ops(c, inner_ops(op), exits, lambda _: [])
        c.emit(scf.ConditionOp(go_on, *given))
    after = Block(arg_types=[*flag, *results, *carried])
    after.add_op(scf.YieldOp(*after.args[len(flag) + len(results) :]))
    loop = scf.WhileOp.create(
        operands=c.all(op.operands), result_types=[*flag, *results, *carried], regions=[Region(block), Region(after)]
    )
    values = list(c.emit(loop).results)
    c.bind_all(op, values[len(flag) : len(flag) + len(results)])
    return values[0] if may_return else None


@rule("loop")
def _loop(c: Context, op: CudaTileOp) -> None:
    _lower_loop(c, op)


@rule("if")
def _if(c: Context, op: CudaTileOp) -> None:
    types = [convert_type(r.type) for r in op.results]
    exits = Exits(types)
    results = _branch(
        c,
        c.scalar(c.get(op.operand("condition"))),
        types,
        lambda: lower_ops(c, _region_ops(op.regions[0]), exits, lambda values: values),
        lambda: lower_ops(c, _region_ops(op.regions[1]), exits, lambda values: values),
    )
    c.bind_all(op, results)


@rule("for")
def _for(c: Context, op: CudaTileOp) -> None:
    lower, upper, step = (c.scalar(c.get(v)) for v in bounds_of(op))
    carried = [convert_type(v.type) for v in op.operand_group("initValues")]
    block = Block(arg_types=[lower.type, *carried])
    old_induction, *old_carried = op.regions[0].block.args
    for old, new in zip(old_carried, block.args[1:], strict=True):
        c.bind(old, new)
    initial = c.all(op.operand_group("initValues"))
    with c.inside(block):
        c.bind(old_induction, c.tile(block.args[0]))
        exits = Exits(carried, continue_=lambda values: values)
        c.emit(scf.YieldOp(*lower_ops(c, inner_ops(op), exits, lambda values: values)))
    loop = scf.ForOp.create(operands=[lower, upper, step, *initial], result_types=carried, regions=[Region(block)])
    if op.attribute_value("unsignedCmp"):
        loop.attributes["unsignedCmp"] = UnitAttr()
    c.bind_all(op, c.emit(loop).results)
