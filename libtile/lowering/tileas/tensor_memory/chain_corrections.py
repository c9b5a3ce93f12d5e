# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which of the sums of a loop with two products warps of their own rescale, and what these need for it.

What an iteration does to the sums of the one before takes a factor for each row, and not the scores: four more warps do
it while those with the scores go on, and do what is behind the loop as well. They get what they need of a row, a factor
or a sum of its own, by way of shared memory:

    factors    pipelines of two stages, what each iteration's rescaling takes
    finals     pipelines of one stage, what the loop gives besides the sums

Whatever else they use is made of constants, and the same for all threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, ConstantOp, ExpandDimsOp, PermuteOp, SplatOp, ViewOp
from libtile.dialects.nv_tileaa.terminators import ReturnOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.places import ops_of
from libtile.ir.tile_form import shape_of
from libtile.layouts.builders import row_major
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.support.records import dataclass

AGENTS = (4, 4, 1, 3)
"""Warps of the agents: those with the scores, those that rescale, the producer's, and those of which one thread issues
products, so many that warpgroups are full."""
REGISTERS = (256, 152, 96, 96)
"""Of a thread of each agent."""
FACTORS = 2
"""Stages of the factors: those of an iteration are read while the next ones are computed."""

_RENAMING = (BroadcastOp, ViewOp, ExpandDimsOp, PermuteOp, ConvertLayoutOp)


@dataclass(frozen=True)
class Needed:
    """What the warps that rescale get: the tiles of an iteration, with the ops that make what is used of them, and the
    numbers of the loop's results."""

    tiles: tuple[SSAValue, ...]
    ops: tuple[Operation, ...]
    finals: tuple[int, ...]


def needed(loop: scf.ForOp, after: Sequence[Operation], carried: int) -> Needed | None:
    """What warps need that rescale the sums (the loop's result of number `carried`) by the ops `after`, and do what is
    behind the loop; None where that is more than a row has a value of."""
    body, sums = loop.body.block, loop.body.block.args[1 + carried]
    rows = shape_of(sums.type)[0]
    made = {sums, *(r for op in after for r in op.results)}
    tiles: dict[SSAValue, None] = {}
    ops: dict[Operation, None] = {}
    for value in (v for op in after for v in op.operands if v not in made):
        inside: list[Operation] = []
        while isinstance(op := value.owner, _RENAMING) and op.parent is body:
            inside.insert(0, op)
            value = op.source
        ops |= dict.fromkeys(inside)
        if value.owner is body or (isinstance(value.owner, Operation) and value.owner.parent is body):
            if not _is_of_rows(value, rows):
                return None
            tiles[value] = None
        elif not _is_everywhere(value):
            return None
    finals = _finals(loop, carried, rows)
    if finals is None or not tiles:
        return None
    return Needed(tuple(tiles), tuple(op for op in body.ops if op in ops), finals)


def _finals(loop: scf.ForOp, carried: int, rows: int) -> tuple[int, ...] | None:
    """The loop's results that are used behind it, but for the sums and tokens; None where warps do not get them, or
    something else that is used there."""
    found = []
    for number, result in enumerate(loop.results):
        if number == carried or result.first_use is None or isinstance(result.type, MemTokenType):
            continue
        if not _is_of_rows(result, rows):
            return None
        found.append(number)
    behind = set(_behind(loop))
    for op in behind:
        for inner in ops_of(op):
            for value in inner.operands:
                outer = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
                if outer is loop or (outer is not None and _is_within(outer, behind)):
                    continue
                if not _is_everywhere(value):
                    return None
    return tuple(found)


def _behind(loop: Operation) -> Iterator[Operation]:
    op = loop.next_op
    while op is not None and not isinstance(op, ReturnOp):
        yield op
        op = op.next_op


def _is_within(op: Operation, ops: set[Operation]) -> bool:
    at: Operation | None = op
    while at is not None:
        if at in ops:
            return True
        at = at.parent_op()
    return False


def _is_of_rows(value: SSAValue, rows: int) -> bool:
    """Whether a value is a tile with one element a row."""
    shape = shape_of(value.type) if isinstance(value.type, TensorType) else ()
    return bool(shape) and shape[0] == rows and all(n == 1 for n in shape[1:])


def _is_everywhere(value: SSAValue) -> bool:
    """Whether all threads have the same of a value: one that is no tile, or a tile of nothing but constants."""
    if not isinstance(value.type, TensorType) or not shape_of(value.type):
        return True
    op = value.owner
    if isinstance(op, ConstantOp | SplatOp):
        return True
    if not isinstance(op, Operation) or not (isinstance(op, _RENAMING) or is_elementwise(op)):
        return False
    return all(_is_everywhere(v) for v in op.operands)


def row_buffer(value: SSAValue) -> BufferType:
    """A buffer in shared memory for a tile."""
    assert isinstance(value.type, TensorType)
    shape = shape_of(value.type)
    layout = row_major(shape, list(reversed(range(len(shape)))))
    return BufferType(shape, value.type.element_type, "shared", LayoutAttr(layout))
