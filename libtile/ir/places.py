# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where values and ops stand among each other."""

from __future__ import annotations

from collections.abc import Iterator

from libtile.ir.forms import Block, Operation, Region, SSAValue


def is_within(value: SSAValue, op: Operation) -> bool:
    """Whether a value is made within an op: by an op in its regions, at any depth, or as an argument."""
    parent = value.owner.parent_op()
    return parent is not None and op.is_ancestor(parent)


def is_of_block(value: SSAValue, block: Block) -> bool:
    """Whether a value is an argument of a block, or the result of an op that stands right in it."""
    owner = value.owner
    return owner is block or owner.parent is block  # a block's parent is a region


def inner_ops(op: Operation) -> list[Operation]:
    """The ops that stand right in an op's regions."""
    return [inner for region in op.regions for block in region.blocks for inner in block.ops]


def walk(root: Operation | Region | Block) -> Iterator[Operation]:
    """The ops of `root`, itself among them where it is one, each before those in its regions.

    What xDSL's `walk` gives, also while the IR changes; but that one resumes a generator for each level of nesting at
    every op, and this one does not know how deep it is.
    """
    if isinstance(root, Operation):
        yield root
        blocks = _blocks_of(root)
    else:
        blocks = iter((root,)) if isinstance(root, Block) else iter(root.blocks)
    above: list[tuple[Operation | None, Iterator[Block]]] = []
    following: Operation | None = None
    while True:
        while following is not None:  # each is asked for the next one before it is given away, as it may be erased
            op, following = following, following.next_op
            yield op
            if op.regions:
                above.append((following, blocks))
                blocks, following = _blocks_of(op), None
        block = next(blocks, None)
        if block is not None:
            following = block.first_op
        elif above:
            following, blocks = above.pop()
        else:
            return


def uses_of(op: Operation) -> Iterator[SSAValue]:
    """What an op takes, and what those in its regions do."""
    for inner in walk(op):
        yield from inner.operands


def _blocks_of(op: Operation) -> Iterator[Block]:
    for region in op.regions:
        yield from region.blocks
