# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`loop-unguard`: a loop that an `if` keeps from running becomes one that has no iteration then.

    r = if c { for i in lb to ub, x = init { ... } } else { init }
    r = for i in lb to (c ? ub : lb), x = init { ... }

Kernels of decoding ask whether there are keys at all for their part of them. Agents work on loops of the function
itself.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from libtile.analysis import Facts
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.interfaces import bounds_of
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import set_operand
from libtile.ir.places import ops_in, ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.targets import target
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op, replace_op, select_before
from libtile.transforms.effects import is_speculatable
from libtile.transforms.greedy import functions_in
from libtile.transforms.loop_copies import counts_up
from libtile.transforms.products import multiplies


@dataclass(frozen=True)
class LoopUnguardPass(ModulePass):
    """Take loops with products out of an `if` that has nothing else, for targets whose agents work on such loops."""

    name = "loop-unguard"

    gpu_name: str = "sm_90"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        gpu = target(self.gpu_name)
        if gpu.has("wgmma") or gpu.has("tcgen05"):
            unguard_loops(op)


def unguard_loops(root: Operation) -> bool:
    """Take every loop out of its `if` that can be, in each function in `root`; returns whether any was."""
    changed = False
    for function in functions_in(root):
        for op in reversed(ops_of(function)):
            loop = _guarded(op)
            if loop is None:
                continue
            assert isinstance(op, CudaTileOp)
            reason = _reason_against(op, loop)
            if reason is None and not counts_up(loop, Facts(function)):
                reason = "its step may be no positive number where the condition does not hold"
            if reason is not None:
                reporting.missed(op, "LoopUnguard", "Loop stays under its condition", reason)
                continue
            reporting.done(op, "LoopUnguard", "Loop runs no iteration where its condition does not hold")
            _take_out(op, loop)
            statistics.count("loops taken out of conditions")
            changed = True
    return changed


def _guarded(op: Operation) -> CudaTileOp | None:
    """The only loop right in an `if`'s first branch, if it multiplies tiles; None for other ops."""
    if not isinstance(op, CudaTileOp) or not is_op(op, "if"):
        return None
    loops = [inner for inner in op.regions[0].blocks[0].ops if isinstance(inner, CudaTileOp) and is_op(inner, "for")]
    return loops[0] if len(loops) == 1 and multiplies(loops[0]) else None


def _reason_against(op: CudaTileOp, loop: CudaTileOp) -> str | None:
    """Why a loop stays in its `if`; None where it can be taken out."""
    blocks = [block for region in op.regions for block in region.blocks]
    if len(blocks) != 2 or not all(is_op(block.last_op, "yield") for block in blocks):
        return "the other branch is missing, or a branch leaves a loop or the kernel"
    inner = [other for block in blocks for other in block.ops if other is not block.last_op and other is not loop]
    if not all(map(is_speculatable, inner)):
        return "an op of a branch has effects, or may be undefined where the branch is not taken"
    given, instead = (list(block.last_op.operands) for block in blocks if block.last_op is not None)
    initial = dict(zip(loop.results, loop.operand_group("initValues")))
    if any(initial.get(one) is not other for one, other in zip(given, instead)):
        return "it gives something else where its condition does not hold than what the loop begins with"
    return None


def _take_out(op: CudaTileOp, loop: CudaTileOp) -> None:
    parent, last = op.parent_block(), op.regions[0].blocks[0].last_op
    assert parent is not None and last is not None
    results = list(last.operands)
    for region in op.regions:
        for inner in ops_in(region.blocks[0]):
            if inner is not region.blocks[0].last_op:
                inner.detach()
                parent.insert_op_before(inner, op)
    lower, upper, _ = bounds_of(loop)
    set_operand(loop, "upperBound", select_before(loop, op.operand("condition"), upper, lower))
    replace_op(op, results)
