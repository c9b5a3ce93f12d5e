# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where values and ops stand among each other."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue


def is_within(value: SSAValue, op: Operation) -> bool:
    """Whether a value is made within an op: by an op in its regions, at any depth, or as an argument."""
    parent = value.owner.parent_op()
    return parent is not None and op.is_ancestor(parent)


def is_of_block(value: SSAValue, block: Block) -> bool:
    """Whether a value is an argument of a block, or the result of an op that stands right in it."""
    owner = value.owner
    return owner is block or (isinstance(owner, Operation) and owner.parent is block)


def inner_ops(op: Operation) -> list[Operation]:
    """The ops that stand right in an op's regions."""
    return [inner for region in op.regions for block in region.blocks for inner in block.ops]
