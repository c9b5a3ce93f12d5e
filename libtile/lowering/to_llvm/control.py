# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""scf and messages. Tokens flow along but are nothing at run time."""

from __future__ import annotations

from xdsl.ir import Block, Operation

from libtile.codegen import control, globals
from libtile.codegen.builder import Value
from libtile.codegen.control import Carried
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.terminators import ReturnIfOp, ReturnOp
from libtile.dialects.nv_tileas.async_products import AsyncDotOp
from libtile.dialects.nv_tileas.products import DotOp, ScaledDotOp
from libtile.ir.places import ops_of
from libtile.lowering.discardable import ROTATED
from libtile.lowering.errors import unsupported
from libtile.lowering.to_llvm.emitter import Emitter, rule
from libtile.lowering.to_llvm.flow import bind_carried, carried_values, emit_arm
from libtile.lowering.to_llvm.grid import end_programs


@rule(scf.ForOp)
def _for(e: Emitter, op: scf.ForOp) -> None:
    from libtile.lowering.to_llvm import rings

    lower, upper, step = (e.scalar(v) for v in (op.lb, op.ub, op.step))
    block = op.body.block
    # A loop around others has few accesses of its own, and that of one thread none but copies by TMA.
    is_inner = not e.one_thread and not ops_of(op.body, scf.ForOp, scf.WhileOp)
    known = not is_inner or control.has_few_turns(lower, upper, step)

    def body(counter: Value, carried: list[Carried]) -> list[Carried]:
        e.bind(block.args[0], counter)
        bind_carried(e, block.args[1:], carried, op.iter_args)
        for argument in () if known else block.args:  # places of stages, which are no one number, stay known
            if isinstance(number := e.held.get(argument), Value):
                e.bind(argument, control.as_it_is(e.b, number))
        if block.last_op is not None:
            rings.bind_equal(e, block.args[1:], op.iter_args, block.last_op.operands)
        rings.show_uniform(e, op)
        return _turn(e, block)

    initial = carried_values(e, op.iter_args)
    unsigned, rotated = "unsignedCmp" in op.attributes, ROTATED in op.attributes
    results = control.for_loop(e.b, lower, upper, step, initial, body, unsigned=unsigned, rotated=rotated)
    bind_carried(e, op.res, results, op.iter_args)


def _turn(e: Emitter, block: Block) -> list[Carried]:
    """Emit a turn of a loop. Where one around products has warps of its own, these hold nothing else through them."""
    if e.b.agent is None or e.one_thread or not any(map(_multiplies, ops_of(block))):
        return emit_arm(e, block)
    with e.b.each_turn():
        return emit_arm(e, block, own=True)


def _multiplies(op: Operation) -> bool:
    """Whether an op is a loop with products."""
    loop = isinstance(op, scf.ForOp | scf.WhileOp)
    return loop and bool(ops_of(op, DotOp, ScaledDotOp, AsyncDotOp))


@rule(scf.WhileOp)
def _while(e: Emitter, op: scf.WhileOp) -> None:
    first, second = op.before_region.block, op.after_region.block
    condition = first.last_op
    assert isinstance(condition, scf.ConditionOp)
    handed_on = condition.args

    def before(carried: list[Carried]) -> tuple[Value, list[Carried]]:
        bind_carried(e, first.args, carried, op.operands)
        condition, *given = emit_arm(e, first)
        assert isinstance(condition, Value)
        return condition, given

    def after(carried: list[Carried]) -> list[Carried]:
        bind_carried(e, second.args, carried, handed_on)
        return _turn(e, second)

    results = control.while_loop(e.b, carried_values(e, op.arguments), before, after)
    bind_carried(e, op.res, results, handed_on)


@rule(scf.IfOp)
def _if(e: Emitter, op: scf.IfOp) -> None:
    then = op.true_region.block
    otherwise = op.false_region.block if op.false_region.blocks else None
    results = control.if_else(
        e.b,
        e.scalar(op.cond),
        lambda: emit_arm(e, then),
        None if otherwise is None else lambda: emit_arm(e, otherwise),
    )
    bind_carried(e, op.output, results, then.last_op.operands if then.last_op is not None else ())


@rule(ReturnIfOp)
def _return_if(e: Emitter, op: ReturnIfOp) -> None:
    if e.b.agent is not None:
        raise unsupported(op, "stands in an agent, and the others would go on", e.b.target.name)
    b, end, rest = e.b, e.b.new_block("end"), e.b.new_block("rest")
    b.conditional_branch(e.scalar(op.condition), end, rest)
    b.start(end)
    _end(e)
    b.start(rest)


@rule(ReturnOp)
def _return(e: Emitter, op: ReturnOp) -> None:
    _end(e)


def _end(e: Emitter) -> None:
    for allocation in reversed(e.allocations):
        globals.free(e.b, allocation)
    end_programs(e)
    e.b.return_()
