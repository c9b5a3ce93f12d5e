# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`licm`: what a loop computes anew in every iteration, from values that do not change, is computed once before it.

An op moves when it has no effects and either is defined for all operands, so that it may also run for a loop that runs
no iteration, or is one that the first iteration runs for certain: the loop has one, and no op before it can end the
iteration or stop the program.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.support import statistics
from libtile.transforms import reporting
from libtile.transforms.canonical_values import constant_elements, is_op
from libtile.transforms.effects import has_no_effects, is_speculatable, leaves_region
from libtile.transforms.greedy import functions_in, inner_functions_in


@dataclass(frozen=True)
class LicmPass(ModulePass):
    """Move loop-invariant computations in front of `for` and `loop`, and of scf's loops in the inner dialects."""

    name = "licm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        move_loop_invariant_code(op)


def move_loop_invariant_code(root: Operation) -> bool:
    """Move invariant ops out of every loop in `root` (inner loops first); returns whether any moved."""
    changed = False
    for function in functions_in(root):
        for op in reversed(list(function.walk())):
            if isinstance(op, CudaTileOp) and is_op(op, "for", "loop"):
                changed |= _hoist(op)
    for inner in inner_functions_in(root):
        for loop in reversed(list(inner.walk())):
            if isinstance(loop, scf.ForOp | scf.WhileOp):
                changed |= _hoist_speculatable(loop)
    return changed


def _hoist_speculatable(loop: Operation) -> bool:
    """Move what may run whether or not the loop has an iteration in front of it."""
    block = loop.parent_block()
    changed = False
    for region in loop.regions:
        for op in [op for inner in region.blocks for op in inner.ops]:
            if block is not None and _is_invariant(op, loop) and is_speculatable(op):
                op.detach()
                block.insert_op_before(op, loop)
                statistics.count("ops moved")
                changed = True
    return changed


def _hoist(loop: CudaTileOp) -> bool:
    block = loop.parent_block()
    if block is None:
        return False
    changed = False
    certain = _runs_at_least_once(loop)
    for op in list(loop.regions[0].blocks[0].ops):
        if _is_invariant(op, loop) and (is_speculatable(op) or (certain and _is_movable(op))):
            reporting.done(op, "LoopInvariant", "Computation moved out of its loop")
            op.detach()
            block.insert_op_before(op, loop)
            statistics.count("ops moved")
            changed = True
            continue
        if _is_movable(op) and _is_invariant(op, loop):
            reason = "it may be undefined where the loop does not run it, and no iteration is certain to reach it"
            reporting.missed(op, "LoopInvariant", "Computation that does not change stays in its loop", reason)
        if certain and not _returns_for_certain(op):
            certain = False
    return changed


def _returns_for_certain(op: Operation) -> bool:
    """Whether what follows the op runs: it cannot leave the iteration, stop the program, or go on for ever."""
    inside = all(isinstance(o, CudaTileOp) and not is_op(o, "assert", "loop", "preview$call") for o in op.walk())
    return inside and not leaves_region(op)


def _is_movable(op: Operation) -> bool:
    return not op.regions and not op.has_trait(IsTerminator) and has_no_effects(op)


def _is_invariant(op: Operation, loop: Operation) -> bool:
    """Whether everything that the op uses is defined outside of the loop, or inside of the op itself."""
    return all(
        not _is_inside(operand, loop) or _is_inside(operand, op) for inner in op.walk() for operand in inner.operands
    )


def _is_inside(value: SSAValue, op: Operation) -> bool:
    parent = value.owner.parent_op()
    return parent is not None and op.is_ancestor(parent)


def _runs_at_least_once(loop: CudaTileOp) -> bool:
    """A `loop` does; a `for` does when its bounds are constants that say so."""
    if is_op(loop, "loop"):
        return True
    bounds = [constant_elements(bound) for bound in loop.operands[:2]]
    if None in bounds:
        return False
    (lower,), (upper,) = (tuple(bound or ()) for bound in bounds)
    if loop.attribute_value("unsignedCmp"):
        return 0 <= lower < upper or upper < 0 <= lower or lower < upper < 0
    return lower < upper
