# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The driver of rewrite patterns: sweeps over a function until nothing changes.

A pattern takes an op and tells whether it changed the IR. It may erase or replace its op and what follows it in the
block, and make ops in front of it; it leaves the rest of the block before it alone.

One sweep shares equal constants at the top of the function, visits every op from first to last and from the outside
in, and erases what is dead, last first, so that whole chains go at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import UNKNOWN_LOC
from xdsl.ir import Block, Operation

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.ir.places import ops_in, ops_of
from libtile.support import statistics
from libtile.transforms import reporting
from libtile.transforms.canonical_values import replace_op
from libtile.transforms.effects import has_no_effects, is_unused

Pattern = Callable[[CudaTileOp], bool]
Patterns = Mapping[str, Sequence[Pattern]]
"""Patterns by the mnemonic of the op that they take, in the order in which they are tried."""

DEFAULT_ITERATIONS = 10


def functions_in(root: Operation) -> list[CudaTileOp]:
    """The functions (entries) in `root`, or `root` itself when it is one."""
    return [op for op in _all_functions(root) if isinstance(op, CudaTileOp)]


def inner_functions_in(root: Operation) -> list[FuncOp]:
    """The functions of the inner dialects in `root`, or `root` itself when it is one."""
    return [op for op in _all_functions(root) if isinstance(op, FuncOp)]


def _all_functions(root: Operation) -> Iterator[Operation]:
    """The functions of all dialects in `root`; there are none inside of another, which is not looked into."""
    if isinstance(root, FuncOp) or (isinstance(root, CudaTileOp) and root.spec.has_trait("function")):
        yield root
        return
    for region in root.regions:
        for block in region.blocks:
            for op in ops_in(block):
                if op.regions or isinstance(op, FuncOp):
                    yield from _all_functions(op)


def rewrite_greedily(function: CudaTileOp, patterns: Patterns, max_iterations: int = DEFAULT_ITERATIONS) -> bool:
    """Apply patterns to everything in a function until none applies; returns whether anything changed.

    Gives up, with valid IR, after `max_iterations` sweeps; -1 stands for no limit.
    """
    changed = False
    iteration = 0
    while max_iterations < 0 or iteration < max_iterations:
        iteration += 1
        now = share_constants(function)
        for region in function.regions:
            for block in region.blocks:
                now |= _sweep(block, patterns)
        now |= erase_dead(function, is_dead_computation)
        if not now:
            return changed
        changed = True
    if changed:
        reason = f"the bound of {max_iterations} sweeps is reached, of which the last one still changed something"
        reporting.missed(function, "Canonicalize", "Function may not be in canonical form", reason)
    return changed


def _sweep(block: Block, patterns: Patterns) -> bool:
    changed = False
    op = block.first_op
    while op is not None:
        before = op.prev_op
        if isinstance(op, CudaTileOp) and _rewrite(op, patterns.get(op.spec.name, ())):
            changed = True
            # What the pattern left behind, from its first op on, gets its turn as well.
            op = before.next_op if before is not None else block.first_op
            continue
        for region in op.regions:
            for inner in list(region.blocks):
                changed |= _sweep(inner, patterns)
        op = op.next_op
    return changed


def _rewrite(op: CudaTileOp, patterns: Sequence[Pattern]) -> bool:
    """Apply the first pattern that takes the op."""
    name, place = op.name, reporting.place_of(op) if patterns else None
    for pattern in patterns:
        if pattern(op):
            form = pattern.__name__.strip("_").replace("_", "-")
            reporting.done(place, "Canonicalize", "Op brought into canonical form", Op=name, Pattern=form)
            statistics.count("patterns applied")
            return True
    return False


def is_dead_computation(op: Operation) -> bool:
    """Whether the op computes what nobody uses, and does nothing else."""
    return is_unused(op) and has_no_effects(op)


def erase_dead(root: Operation, is_dead: Callable[[Operation], bool]) -> bool:
    """Erase the ops inside of `root` of which `is_dead` says so, users before what they use."""
    changed = False
    for op in reversed(ops_of(root)):
        if op is not root and op.parent is not None and is_dead(op):
            op.detach()
            op.erase()
            statistics.count("ops erased")
            changed = True
    return changed


def share_constants(function: CudaTileOp) -> bool:
    """One op per constant, at the top of the function: those already there first, the others moved in front.

    A constant that stands for several, or that left its block, has no location of its own any more.
    """
    if not function.regions or not function.regions[0].blocks:
        return False
    entry = function.regions[0].blocks[0]
    known: dict[DenseElementsAttr, Operation] = {}
    settled: set[Operation] = set()
    changed = False
    for op in ops_of(function, OPS["constant"]):
        value = op.properties.get("value")
        if not isinstance(value, DenseElementsAttr):
            continue
        same = known.get(value)
        if same is not None:
            if same.location != op.location:
                same.location = UNKNOWN_LOC
            replace_op(op, [same.results[0]])
            statistics.count("constants shared")
            changed = True
            continue
        known[value] = op
        if not (op.parent is entry and (op.prev_op is None or op.prev_op in settled)):
            if op.parent is not entry:
                op.location = UNKNOWN_LOC
            _move_to_top(op, entry)
            changed = True
        settled.add(op)
    return changed


def _move_to_top(op: Operation, block: Block) -> None:
    op.detach()
    first = block.first_op
    if first is None:
        block.add_op(op)
    else:
        block.insert_op_before(op, first)
