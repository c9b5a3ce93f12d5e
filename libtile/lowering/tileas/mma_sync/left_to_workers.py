# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the kernel's warps compute where others copy the tiles of some loads: not what nothing but these takes, as their
places, which whoever copies computes again in layouts of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.ir.places import ops_of
from libtile.lowering.tileas.cleanup import is_pure


def not_left(function: FuncOp, loads: Collection[Operation]) -> tuple[set[Operation], set[SSAValue]]:
    """The ops of a function that only compute, and the tiles that its loops carry, whose results nobody needs but some
    loads, or nobody at all."""
    needed, work = set[SSAValue](), list[SSAValue]()
    ops = [op for op in ops_of(function) if op not in loads]
    for op in ops:
        if isinstance(op, scf.ForOp):
            work += [op.lb, op.ub, op.step]
        elif not is_pure(op) and not (isinstance(op, scf.YieldOp) and isinstance(op.parent_op(), scf.ForOp)):
            work += op.operands
    while work:
        value = work.pop()
        if value not in needed:
            needed.add(value)
            work += _comes_from(value)
    unneeded = {op for op in ops if is_pure(op) and op.results and needed.isdisjoint(op.results)}
    carried: set[SSAValue] = {a for op in ops if isinstance(op, scf.ForOp) for a in op.body.block.args}
    return unneeded, carried - needed


def _comes_from(value: SSAValue) -> Iterator[SSAValue]:
    """What is taken directly for a value that is needed."""
    owner = value.owner
    loop = owner.parent_op() if isinstance(owner, Block) else owner
    if not isinstance(loop, scf.ForOp):
        if isinstance(owner, Operation) and is_pure(owner):
            yield from owner.operands
        return
    assert isinstance(value, BlockArgument | OpResult)
    number = value.index - (1 if isinstance(owner, Block) else 0)
    last = loop.body.block.last_op
    if number >= 0 and last is not None:  # not the loop's counter
        yield loop.iter_args[number]
        yield last.operands[number]
        yield loop.body.block.args[1 + number]
