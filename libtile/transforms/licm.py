# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`licm`: what a loop computes anew in every iteration, from values that do not change, is computed once before it.

An op moves when it has no effects and either is defined for all operands, so that it may also run for a loop that runs
no iteration, or is one that the first iteration runs for certain: the loop has one, and no op before it can end the
iteration or stop the program. A weak load of the inner dialects that the first iteration runs for certain moves as
well, where nothing in the loop may write what it reads: all that is written has another alias scope.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from libtile.analysis.alias_scopes import is_weak_access, may_write_what_is_read
from libtile.dialects.interfaces import ControlFlow, control_flow
from libtile.dialects.nv_tileaa.memory import Load
from libtile.ir.places import is_within
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.effects import has_no_effects, is_speculatable, returns_for_certain
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
    for function in (*functions_in(root), *inner_functions_in(root)):
        for op in reversed(list(function.walk())):
            flow = control_flow(op)
            if flow is not None and flow.is_loop:
                changed |= _hoist(op, flow)
    return changed


def _hoist(loop: Operation, flow: ControlFlow) -> bool:
    block = loop.parent_block()
    if block is None:
        return False
    changed = False
    for number, region in enumerate(loop.regions):
        certain = number == 0 and flow.runs(loop)
        for op in [op for inner in region.blocks for op in inner.ops]:
            movable = (_is_movable(op) or is_constant_load(op, loop)) and _is_invariant(op, loop)
            if movable and (certain or is_speculatable(op)):
                reporting.done(op, "LoopInvariant", "Computation moved out of its loop")
                op.detach()
                block.insert_op_before(op, loop)
                statistics.count("ops moved")
                changed = True
                continue
            if movable and not op.regions:
                reason = "it may be undefined where the loop does not run it, and no iteration is certain to reach it"
                reporting.missed(op, "LoopInvariant", "Computation that does not change stays in its loop", reason)
            if certain and not returns_for_certain(op):
                certain = False
    return changed


def _is_movable(op: Operation) -> bool:
    """Whether the op only computes: where its operands are the same, so is what it gives."""
    return not op.has_trait(IsTerminator) and has_no_effects(op) and (not op.regions or is_speculatable(op))


def is_constant_load(op: Operation, loop: Operation) -> bool:
    """Whether an op is a weak load of nv_tileaa, or of nv_tileas, of what nothing in a loop may write."""
    return isinstance(op, Load) and is_weak_access(op) and not may_write_what_is_read(loop, op)


def _is_invariant(op: Operation, loop: Operation) -> bool:
    """Whether everything that the op uses is defined outside of the loop, or inside of the op itself."""
    return all(
        not is_within(operand, loop) or is_within(operand, op) for inner in op.walk() for operand in inner.operands
    )
