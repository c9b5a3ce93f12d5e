# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`loop-peel`: the first or the last iterations of a `for` outside of it, by a hint.

    for i in lb to ub step s { A(i) }

becomes, with the first iteration peeled,

    if lb < ub { A(lb) ; for i in lb + s to ub step s { A(i) } }

and where constants show that there is an iteration, the same without the `if`. What differs in such an iteration from
the others (a mask, the first value of what is carried) is known there and in the loop.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.interfaces import control_flow
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op, replace_op
from libtile.transforms.greedy import functions_in
from libtile.transforms.loop_copies import Bounds, copy_iteration, hint, with_bounds

FRONT_ATTRIBUTE, BACK_ATTRIBUTE = "cuda_tile.loop_peel_front", "cuda_tile.loop_peel_back"
"""Discardable attributes of a `for`: how many iterations to peel. They are gone where they have been followed."""
_REMARK = "LoopPeel"


@dataclass(frozen=True)
class LoopPeelPass(ModulePass):
    """Take iterations out of loops, where a hint says how many.

    `front`, `back`: for loops without a hint. `max_ops`: the most ops that a loop's copies may have together.
    """

    name = "loop-peel"

    front: int = 0
    back: int = 0
    max_ops: int = 2048

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        peel_loops(op, self.front, self.back, self.max_ops)


def peel_loops(root: Operation, front: int = 0, back: int = 0, max_ops: int = 2048) -> bool:
    """Peel in every function in `root` (or in `root` itself, when it is one), inner loops first; whether any was."""
    changed = False
    for function in functions_in(root):
        for loop in reversed([op for op in ops_of(function, CudaTileOp) if is_op(op, "for", "loop")]):
            ends = hint(loop, FRONT_ATTRIBUTE, front), hint(loop, BACK_ATTRIBUTE, back)
            if max(ends) > 0:
                changed |= _peel(loop, *ends, max_ops)
    return changed


def _peel(loop: CudaTileOp, front: int, back: int, max_ops: int) -> bool:
    size = sum(1 for op in ops_of(loop)) - 1
    reason = ""
    if is_op(loop, "loop"):
        reason = "nobody knows how many iterations a 'loop' has, which may be left in each of them"
    elif size * (front + back + 1) > max_ops:
        reason = f"{front + back + 1} copies of {size} ops are more than {max_ops} ops"
    if reason:
        reporting.missed(loop, _REMARK, "Loop is not peeled", reason)
        return False
    reporting.done(loop, _REMARK, "Iterations peeled off a loop", Front=front, Back=back)
    loop.attributes.pop(FRONT_ATTRIBUTE, None)
    loop.attributes.pop(BACK_ATTRIBUTE, None)
    for number in range(front + back):
        loop = _peel_one(loop, number < front)
        statistics.count("iterations peeled")
    return True


def _peel_one(loop: CudaTileOp, first: bool) -> CudaTileOp:
    """Take the first or the last iteration out; returns the loop over the others."""
    flow = control_flow(loop)
    assert flow is not None  # a `for`
    if flow.runs(loop):
        rest, values = _parted(loop, loop, first)
        replace_op(loop, values)
        return rest
    then, otherwise = (Block([build("yield", {"operands": []})]) for _ in range(2))
    condition = Bounds(loop, loop).is_entered()
    guard = build("if", {"condition": condition}, [result.type for result in loop.results], regions=[then, otherwise])
    guard.location = loop.location
    block = loop.parent_block()
    assert block is not None and then.last_op is not None and otherwise.last_op is not None
    block.insert_op_before(guard, loop)
    rest, values = _parted(loop, then.last_op, first)
    then.last_op.operands = values
    otherwise.last_op.operands = loop.operand_group("initValues")
    for end in (then.last_op, otherwise.last_op):
        end.location = loop.location
    replace_op(loop, guard.results)
    return rest


def _parted(loop: CudaTileOp, place: Operation, first: bool) -> tuple[CudaTileOp, list[SSAValue]]:
    """Copies in front of `place` of the iteration and of the loop over the others, of which there is at least the one.

    Returns that loop, and what all of them end with.
    """
    bounds, block = Bounds(loop, place), place.parent_block()
    assert block is not None
    one = bounds.constant(1)
    span = bounds.subtract(bounds.upper, bounds.lower)
    values: list[SSAValue] = list(loop.operand_group("initValues"))
    lower, upper = bounds.lower, bounds.upper
    if first:
        values = copy_iteration(loop, place, [lower, *values])
        # The number behind the first one may not fit the type.
        lower = bounds.add(lower, bounds.smaller_span(bounds.step, span))
    else:
        upper = bounds.add(
            lower, bounds.multiply(bounds.quotient(bounds.subtract(span, one), bounds.step), bounds.step)
        )
    rest = with_bounds(loop, (lower, upper, bounds.step), values, loop.regions[0].clone())
    block.insert_op_before(rest, place)
    values = list(rest.results)
    if not first:
        values = copy_iteration(loop, place, [upper, *values])
    return rest, values
