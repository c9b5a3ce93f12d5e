# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`licm`: what a loop computes anew in every iteration, from values that do not change, is computed once before it.

An op moves when it has no effects and either is defined for all operands, so that it may also run for a loop that runs
no iteration, or is one that the first iteration runs for certain: the loop has one, and no op before it can end the
iteration or stop the program. A weak load that the first iteration runs for certain moves as well, where its token is
the same in all iterations and nothing in the loop may write what it reads: by the ops' effects, by alias scopes, and in
cuda_tile by `analysis.aliasing`. What was moved out of another loop to the same place before is not computed again.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.traits import IsTerminator

from libtile.analysis.memory import Disjointness
from libtile.dialects.effect_traits import only_loads
from libtile.dialects.interfaces import ControlFlow, control_flow
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass, field
from libtile.transforms import reporting
from libtile.transforms.canonical_values import replace_op
from libtile.transforms.cse import Key, key_of
from libtile.transforms.effects import has_no_effects, is_mergeable, is_speculatable, returns_for_certain
from libtile.transforms.greedy import functions_in, inner_functions_in


@dataclass(frozen=True)
class LicmPass(ModulePass):
    """Move loop-invariant computations in front of `for` and `loop`, and of scf's loops in the inner dialects."""

    name = "licm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        move_loop_invariant_code(op)


def move_loop_invariant_code(root: Operation) -> bool:
    """Move invariant ops out of every loop in `root`, as far out as they can go; returns whether any moved."""
    changed = False
    for function in (*functions_in(root), *inner_functions_in(root)):
        # Outer loops first: what an inner one uses is then where it stays, and every op moves once, however far.
        loops = {op: flow for op in ops_of(function) if (flow := control_flow(op)) is not None and flow.is_loop}
        changed |= _Function(loops, Disjointness(function)).hoist()
    return changed


@dataclass
class _Function:
    """The loops of a function, outer ones first."""

    loops: Mapping[Operation, ControlFlow]
    memory: Disjointness
    reached: set[Operation] = field(default_factory=set)
    """Loops that the first iteration of the loop around them runs for certain."""
    moved: dict[tuple[Block, Key], Operation] = field(default_factory=dict)
    """The ops without effects that were moved, by where they are now."""

    def hoist(self) -> bool:
        changed = False
        for loop, flow in self.loops.items():
            for number, region in enumerate(loop.regions):
                changed |= self._hoist_out_of(region, loop, number == 0 and flow.runs(loop))
        return changed

    def _hoist_out_of(self, region: Region, loop: Operation, certain: bool) -> bool:
        """Move what can leave a region of a loop; `certain` says that the region runs."""
        changed = False
        for op in [op for block in region.blocks for op in block.ops]:
            target = self._outermost(op, loop, certain)
            if target is not None:
                reporting.done(op, "LoopInvariant", "Computation moved out of its loop")
                block = target.parent_block()
                assert block is not None
                before = self.moved.setdefault((block, key_of(op)), op) if is_mergeable(op) else op
                if before is op:
                    op.detach()
                    block.insert_op_before(op, target)
                else:
                    replace_op(op, before.results)
                statistics.count("ops moved")
                changed = True
                continue
            if certain and op in self.loops:
                self.reached.add(op)
            if certain and not returns_for_certain(op):
                certain = False
        return changed

    def _outermost(self, op: Operation, loop: Operation | None, certain: bool) -> Operation | None:
        """The outermost loop in front of which an op of a loop's body can go; None where it stays."""
        target, movable, speculatable = None, _is_movable(op), is_speculatable(op)
        loads = only_loads(op)
        while loop is not None and loop.parent_block() is not None:
            if not (movable or loads) or not _is_invariant(op, loop):
                break
            if loads and (not certain or self.memory.may_write_what_is_read(loop, op)):
                break
            if not certain and not speculatable:
                if not op.regions:
                    reason = (
                        "it may be undefined where the loop does not run it, and no iteration is certain to reach it"
                    )
                    reporting.missed(op, "LoopInvariant", "Computation that does not change stays in its loop", reason)
                break
            target, certain = loop, loop in self.reached
            parent = loop.parent_op()
            loop = parent if parent in self.loops else None
        return target


def _is_movable(op: Operation) -> bool:
    """Whether the op only computes: where its operands are the same, so is what it gives."""
    if op.regions:
        return is_speculatable(op)
    return not op.has_trait(IsTerminator) and has_no_effects(op)


def _is_invariant(op: Operation, loop: Operation) -> bool:
    """Whether an op right in a loop's body, or in that of a loop right in it, uses nothing that the body makes.

    What it uses is made before it in the same body, around the loop, or inside of the op itself.
    """
    return all(operand.owner.parent_op() is not loop for inner in ops_of(op) for operand in inner.operands)
