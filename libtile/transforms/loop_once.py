# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`loop-once`: a loop that runs once becomes its body.

    r = loop { A ; if c { B ; break x } ; D ; break y }
    A ; r = if c { B ; yield x } else { D ; yield y }

So C++ frontends write functions that return early, and kernels that do: behind those there is nothing, and they return
where they are.

    loop { A ; if c { break } ; D ; break } ; return
    A ; if c { return } ; D ; return

What a loop does with one iteration, by its constant bounds, is the same. A value, a token among them, is the one that
it was: nothing is computed that was not, and in the same order.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from libtile.analysis.tokens import iteration_ends, loop_ends
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.interfaces import body, bounds_of
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_in, ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op, replace_op
from libtile.transforms.greedy import functions_in
from libtile.transforms.loop_copies import Bounds


@dataclass(frozen=True)
class LoopOncePass(ModulePass):
    """Put the bodies of loops that run once in their place."""

    name = "loop-once"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        inline_single_iterations(op)


def inline_single_iterations(root: Operation) -> bool:
    """Put every such body in its place, in each function in `root`, inner ones first; returns whether any was."""
    changed = False
    for function in functions_in(root):
        for loop in reversed([op for op in ops_of(function, CudaTileOp) if is_op(op, "for", "loop")]):
            reason = _reason_against(loop)
            if reason is not None:
                reporting.missed(loop, "LoopOnce", "Loop stays one", reason)
                continue
            reporting.done(loop, "LoopOnce", "Loop runs once, and is its body")
            _inline(loop)
            statistics.count("loops that run once")
            changed = True
    return changed


def _reason_against(loop: CudaTileOp) -> str | None:
    """Why a loop stays one; None where its body can take its place."""
    if is_op(loop, "loop") and iteration_ends(loop):
        return "it may go on with another iteration"
    if is_op(loop, "for") and not _runs_once(loop):
        return "its bounds do not show that it runs once"
    ends = _ends(loop)
    if body(loop).last_op not in ends:
        return "its body ends with the kernel"
    if not _ends_kernel(loop) and not _can_be_nested(body(loop), ends):
        return "what stands behind a branch that leaves it is reached on several ways"
    return None


def _runs_once(loop: CudaTileOp) -> bool:
    bounds = Bounds(loop, loop)
    lower, upper, step = map(bounds.number, bounds_of(loop))
    return lower is not None and upper is not None and step is not None and 0 < upper - lower <= step


def _ends(loop: Operation) -> set[Operation]:
    """The ops that end the one iteration, and the loop with it."""
    return {*(loop_ends(loop) if is_op(loop, "loop") else iteration_ends(loop))}


def _ends_kernel(loop: Operation) -> bool:
    """Whether a kernel has nothing left to do behind a loop."""
    return (
        is_op(loop.parent_op(), "entry")
        and is_op(loop.next_op, "return")
        and all(result.first_use is None for result in loop.results)
    )


def _can_be_nested(block: Block, ends: set[Operation]) -> bool:
    """Whether each branch in a block that leaves the loop does so on all ways, and the other one on none."""
    return all(
        _leaving(op, ends) is not None
        for op in block.ops
        if op not in ends and any(inner in ends for inner in ops_of(op))
    )


def _leaving(op: Operation, ends: set[Operation]) -> int | None:
    """The number of the branch of an `if` that leaves the loop, where the other one goes on; None of other ops."""
    if not is_op(op, "if"):
        return None
    leave = [any(inner in ends for inner in ops_of(region)) for region in op.regions]
    if leave.count(True) != 1:
        return None
    number = leave.index(True)
    block, other = op.regions[number].blocks[0], op.regions[1 - number].blocks
    if block.last_op not in ends or not _can_be_nested(block, ends):
        return None
    return number if not other or is_op(other[0].last_op, "yield") else None


def _inline(loop: CudaTileOp) -> None:
    block, ends = body(loop), _ends(loop)
    last, place = block.last_op, loop.parent_block()
    assert last is not None and place is not None
    if _ends_kernel(loop):
        for end in [op for op in ops_of(loop) if op in ends and op is not last]:
            _replace_end(end, "return", [])
    else:
        _nest(block, ends)
    first = [bounds_of(loop)[0]] if is_op(loop, "for") else []
    for argument, value in zip(block.args, [*first, *loop.operand_group("initValues")], strict=True):
        argument.replace_all_uses_with(value)
    for op in ops_in(block):
        if op is not last:
            op.detach()
            place.insert_op_before(op, loop)
    replace_op(loop, list(last.operands))


def _nest(block: Block, ends: set[Operation]) -> None:
    """Have everything behind a branch that leaves the loop stand in the other branch, and the block end once."""
    last = block.last_op
    assert last is not None
    for op in reversed(ops_in(block)):
        if op is last or not any(inner in ends for inner in ops_of(op)):
            continue
        assert isinstance(op, CudaTileOp)
        number = _leaving(op, ends)
        assert number is not None
        leaving, going = op.regions[number], op.regions[1 - number]
        _nest(leaving.blocks[0], ends)
        if not going.blocks:
            going.add_block(Block([build("yield", {"operands": []})]))
        goes, yielded = going.blocks[0], going.blocks[0].last_op
        assert yielded is not None
        for result, value in zip(op.results, list(yielded.operands), strict=True):
            result.replace_all_uses_with(value)
        Rewriter.erase_op(yielded)
        while (behind := op.next_op) is not None and behind is not last:
            behind.detach()
            goes.add_op(behind)
        goes.add_op(_yield(last))
        left = leaving.blocks[0].last_op
        assert left is not None
        _replace_end(left, "yield", list(left.operands))
        last.operands = _again(op, [value.type for value in last.operands])


def _yield(end: Operation) -> CudaTileOp:
    made = build("yield", {"operands": list(end.operands)})
    made.location = end.location
    return made


def _again(op: CudaTileOp, types: list) -> list[SSAValue]:
    """An `if` like another one, with other results, in its place."""
    regions = [Region() for _ in op.regions]
    for old, new in zip(op.regions, regions):
        old.move_blocks(new)
    made = build("if", {"condition": op.operand("condition")}, types, regions=regions)
    made.attributes.update(op.attributes)
    made.location = op.location
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(made, op)
    Rewriter.erase_op(op)
    return list(made.results)


def _replace_end(end: Operation, name: str, operands: list[SSAValue]) -> None:
    made, block = build(name, {"operands": operands}), end.parent_block()
    assert block is not None
    made.location = end.location
    block.insert_op_before(made, end)
    Rewriter.erase_op(end)
