# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where values and ops stand among each other."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar, overload

from libtile.ir.forms import Block, Operation, Region, SSAValue

T = TypeVar("T")
U = TypeVar("U")


def op_of(value: SSAValue) -> Operation | None:
    """The op whose result a value is; None for an argument of a block. Whether an owner is an op takes five times as
    long to ask, as xDSL's class of ops is abstract."""
    found: Operation | None = getattr(value, "op", None)
    return found


def is_within(value: SSAValue, op: Operation) -> bool:
    """Whether a value is made within an op: by an op in its regions, at any depth, or as an argument."""
    parent = value.owner.parent_op()
    return parent is not None and op.is_ancestor(parent)


def is_of_block(value: SSAValue, block: Block) -> bool:
    """Whether a value is an argument of a block, or the result of an op that stands right in it."""
    owner = value.owner
    return owner is block or owner.parent is block  # a block's parent is a region


def ops_around(op: Operation) -> Iterator[Operation]:
    """The ops in whose regions an op stands, the innermost one first."""
    around = op.parent_op()
    while around is not None:
        yield around
        around = around.parent_op()


def inner_ops(op: Operation) -> list[Operation]:
    """The ops that stand right in an op's regions."""
    return [inner for region in op.regions for block in region.blocks for inner in ops_in(block)]


def ops_in(block: Block) -> list[Operation]:
    """The ops of a block as they stand now, for whoever changes it on the way.

    xDSL's `list(block.ops)` goes through them twice, once to count them, and calls two functions at each step.
    """
    found: list[Operation] = []
    op = block.first_op
    while op is not None:
        found.append(op)
        op = op._next_op
    return found


@overload
def ops_of(root: Operation | Region | Block) -> list[Operation]: ...


@overload
def ops_of(root: Operation | Region | Block, one: type[T], /) -> list[T]: ...


@overload
def ops_of(root: Operation | Region | Block, one: type[T], other: type[U], /) -> list[T | U]: ...


@overload
def ops_of(root: Operation | Region | Block, *classes: type[T]) -> list[T]: ...


def ops_of(root: Operation | Region | Block, *classes: type[Any]) -> list[Any]:
    """The ops of some classes in `root`, itself among them where it is one, each before those in its regions, as they
    stand now; without classes, all.

    What xDSL's `walk` gives, but that one resumes a generator for each level of nesting at every op; this one does not
    know how deep it is, and asks once of a class of ops whether it is one of those.
    """
    wanted = _answers(classes)
    found: list[Any] = []
    at: Any = root
    op: Any = None
    block: Any = None
    if hasattr(at, "regions"):
        if wanted[type(at)]:
            found.append(at)
        if not at.regions:
            return found
        regions = iter(at.regions)
    elif isinstance(at, Block):
        op, regions = at.first_op, iter(())
    else:
        regions = iter((at,))
    above: list[Any] = []
    while True:
        while op is not None:
            if wanted[type(op)]:
                found.append(op)
            inner = op.regions
            op = op._next_op
            if inner:
                above.append((op, block, regions))
                op, block, regions = None, None, iter(inner)
        while block is None:
            region = next(regions, None)
            if region is None:
                break
            block = region.first_block
        if block is not None:
            op, block = block.first_op, block._next_block
        elif above:
            op, block, regions = above.pop()
        else:
            return found


class _Answers(dict[type, bool]):
    """Whether ops of a class are of one of some others, once that has been asked."""

    def __init__(self, classes: tuple[type, ...]):
        super().__init__()
        self.classes = classes

    def __missing__(self, cls: type) -> bool:
        found = self[cls] = not self.classes or issubclass(cls, self.classes)
        return found


@cache
def _answers(classes: tuple[type, ...]) -> _Answers:
    return _Answers(classes)


def uses_of(op: Operation) -> Iterator[SSAValue]:
    """What an op takes, and what those in its regions do."""
    for inner in ops_of(op):
        yield from inner._operands
