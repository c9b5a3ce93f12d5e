# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocks and regions: what MLIR checks of every op, whichever dialect it is from."""

from __future__ import annotations

from libtile.dialects.cuda_tile.forms import CudaTileOp
from libtile.dialects.cuda_tile.verify.report import Report, fail, fail_plain
from libtile.ir.forms import Block, ModuleOp, Operation, UnregisteredOp
from libtile.ir.light import is_stand_in


def is_isolated(op: Operation) -> bool:
    """Whether the op's regions use no value from outside."""
    return op.spec.has_trait("isolated") if isinstance(op, CudaTileOp) else _has(op, "IsolatedFromAbove")


def has_graph_region(op: Operation) -> bool:
    """Whether ops in the op's regions may use values that are defined behind them."""
    return op.spec.has_trait("graph_region") if isinstance(op, CudaTileOp) else isinstance(op, ModuleOp)


def needs_terminator(block: Block) -> bool:
    """Whether the block has to end with a terminator."""
    region = block.parent
    if region is None:
        return False
    if region.first_block is not region.last_block:
        return True
    parent = region.parent
    if parent is None or isinstance(parent, UnregisteredOp):
        return False
    if isinstance(parent, CudaTileOp):
        return not parent.spec.has_trait("no_terminator")
    return not _has(parent, "NoTerminator")


def is_symbol_table(op: Operation) -> bool:
    """Whether symbols are looked up in the op's region."""
    return op.spec.has_trait("symbol_table") if isinstance(op, CudaTileOp) else _has(op, "SymbolTable")


def is_terminator(op: Operation) -> bool:
    """Whether the op may end a block; an unregistered one may."""
    if isinstance(op, UnregisteredOp):
        return True
    return op.spec.has_trait("terminator") if isinstance(op, CudaTileOp) else _has(op, "IsTerminator")


def _has(op: Operation, trait: str) -> bool:
    """Whether an op of another dialect has one of xDSL's traits."""
    if is_stand_in(op):
        return False
    from xdsl import traits

    return op.has_trait(getattr(traits, trait))


def check_regions(op: Operation) -> None:
    """Rules about the op's regions that need no look at the ops inside."""
    graph = has_graph_region(op)
    for index, region in enumerate(op.regions):
        entry = region.first_block
        if graph and entry is not region.last_block:
            fail(op, f"expects graph region #{index} to have 0 or 1 blocks")
        if entry is not None and entry.predecessors():
            fail_plain(op, "entry block of region may not have predecessors")


def check_block_start(block: Block) -> None:
    """An empty block is right only where no terminator is needed."""
    parent = block.parent_op()
    if block.first_op is None and parent is not None and needs_terminator(block):
        fail_plain(parent, "empty block: expect at least a terminator")


def check_block_end(block: Block, report: Report) -> None:
    """The last op of a block is a terminator, and only it has successors."""
    last = block.last_op
    if last is None:
        return
    if needs_terminator(block) and not is_terminator(last):
        fail_plain(last, f"block with no terminator, has {report.text_of(last)}")
