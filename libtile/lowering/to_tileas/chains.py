# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chained products: those whose result becomes, element by element, the left operand of another product, or is reduced
along its rows.

A fragment of an accumulator of 8 columns is half a fragment of a left operand of 16 (`llvm/mma_layouts.py`), so what a
thread computed it can feed to the next product, when the warps lie along the rows in both. A reduction along rows needs
no other warp then; it counts where it runs as often as the product, which is within the same loop. Products that add to
one accumulator should lie alike as well, or it would change its layout between them. A tile that goes through a
conditional (a mask that only some iterations need) or that a loop carries is at the same place behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.collectives import DotOp, ReduceOp
from libtile.dialects.nv_tileaa.shapes import ViewOp
from libtile.ir.places import ops_around, ops_of
from libtile.ir.tile_form import shape_of
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.lowering.to_tileas.stages import IN_PLACE, yielded
from libtile.lowering.to_tileas.types import tile_shape


def chained_products(function: Operation | Region) -> frozenset[Operation]:
    """The products of a function, or of an agent, that should keep whole rows of their result in one warp."""
    feeds, adds, chained = set(), set(), set()
    for op in ops_of(function, ReduceOp, DotOp):
        if isinstance(op, ReduceOp) and _is_along_rows(op):
            chained |= {source for source in _products_behind(op.inputs[0]) if _loop_of(source) is _loop_of(op)}
        if isinstance(op, DotOp):
            feeds |= {(source, op) for source in _products_behind(op.a)}
            adds |= {(source, op) for source in _products_behind(op.c) if source is not op}
    chained |= {op for pair in feeds for op in pair}
    while grown := {op for pair in adds if chained.intersection(pair) for op in pair} - chained:
        chained |= grown
    return frozenset(chained)


def products_fed_right(products: Iterable[DotOp]) -> frozenset[DotOp]:
    """The products whose right operand is what others give, element by element."""
    return frozenset(op for op in products if any(True for _ in _products_behind(op.b)))


def _is_along_rows(reduction: ReduceOp) -> bool:
    return reduction.dim.value.data == len(shape_of(reduction.inputs[0].type)) - 1 > 0


def _loop_of(op: Operation) -> Operation | None:
    """The innermost loop that an op runs in, or the function."""
    return next((around for around in ops_around(op) if not isinstance(around, (scf.IfOp, *IN_PLACE))), None)


def _products_behind(value: SSAValue) -> Iterator[Operation]:
    """The products that a tile is computed from without moving elements to other places."""
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        current = work.pop()
        if current in seen:
            continue
        seen.add(current)
        if isinstance(current.owner, DotOp):
            yield current.owner
        else:
            work += [v for v in _same_place(current) if _matrix(v) == _matrix(value)]


def _same_place(value: SSAValue) -> Iterable[SSAValue]:
    """The values whose elements a value's elements are computed from, where those are at the same place."""
    owner = value.owner
    if isinstance(owner, Block):
        return _entering(value, owner)
    position = owner.results.index(value)
    if isinstance(owner, IN_PLACE):
        given = yielded(owner, position)
        return () if given is None else (given,)
    match owner:
        case scf.ForOp():
            return (_leaving(owner.body.block, position),)
        case scf.IfOp():
            return [_leaving(region.block, position) for region in owner.regions if region.blocks]
        case scf.WhileOp():
            return (_leaving(owner.before_region.block, position + 1),)
    if is_elementwise(owner) or isinstance(owner, ViewOp):
        return owner.operands
    return ()


def _entering(argument: SSAValue, block: Block) -> Iterable[SSAValue]:
    """What an argument of a loop's block is in the first iteration, and in the others."""
    position = block.args.index(argument)
    match block.parent_op():
        case scf.ForOp() as loop if position:
            return loop.iter_args[position - 1], _leaving(block, position - 1)
        case scf.WhileOp() as loop if block is loop.before_region.block:
            return loop.arguments[position], _leaving(loop.after_region.block, position)
        case scf.WhileOp() as loop:
            return (_leaving(loop.before_region.block, position + 1),)
    return ()


def _leaving(block: Block, position: int) -> SSAValue:
    """An operand of a block's terminator; the first one of a while's condition is the condition itself."""
    assert block.last_op is not None
    return block.last_op.operands[position]


def _matrix(value: SSAValue) -> tuple[int, ...] | None:
    """The shape of a tile without leading ones; None for other values."""
    shape = tile_shape(value)
    while shape is not None and len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    return shape
