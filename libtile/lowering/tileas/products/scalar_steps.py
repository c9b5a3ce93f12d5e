# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles that a loop with products carries, and moves on by one number for all elements, are what they begin with and a
number that the loop carries, before layouts are chosen.

    for ... iter_args(%p = %first)                   for ... iter_args(%d = 0)
      a = load %p                              ->      a = load (addptr %first, splat %d)
      %q = addptr %p, splat %step                      %e = addi %d, %step
      yield %q                                         yield %e

Who makes operands in a loop of its own (`agents.made_operands`) then has the tile in a layout of its own: it is there
before the loop. A kernel without agents carries pointers as it is written, which takes an addition less.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType, i64
from xdsl.ir import BlockArgument, SSAValue

from libtile.dialects import arith, scf, tensor
from libtile.dialects.arith import like
from libtile.dialects.constant_ops import constant_op
from libtile.dialects.constants import constant_elements
from libtile.dialects.nv_tileaa.collectives import DotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import AddPtrOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, ExpandDimsOp, SplatOp, ViewOp
from libtile.ir.places import ops_of
from libtile.ir.tile_form import element_of
from libtile.lowering.tileas.ahead import is_inside
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.pipelines.loop_pipelines import carry_more
from libtile.lowering.to_tileas.types import tile_shape
from libtile.transforms.handed_on import carry_less

Number = Callable[[Inserter], SSAValue]
"""Makes the number that all elements of a tile are, at a place behind the tile."""


def with_scalar_steps(function: FuncOp) -> FuncOp:
    """A copy of the function whose loops with products carry numbers in place of such tiles; the function where there
    are none."""
    if not any(_steps(loop) for loop in _loops(function)):
        return function
    copy = function.clone()
    for loop in _loops(copy):
        _carry_numbers(loop, _steps(loop))
    return copy


def _loops(function: FuncOp) -> list[scf.ForOp]:
    """The loops right around products."""
    parents = [op.parent_op() for op in ops_of(function, DotOp)]
    return list(dict.fromkeys(loop for loop in parents if isinstance(loop, scf.ForOp)))


def _steps(loop: scf.ForOp) -> dict[int, Number]:
    """The numbers of the tiles that a loop carries and moves on by one number, and those numbers."""
    body, last = loop.body.block, loop.body.block.last_op
    assert last is not None
    found = {}
    for n, (given, value) in enumerate(zip(body.args[1:], last.operands)):
        step = _step(given, value) if tile_shape(given) else None
        number = None if step is None or is_inside(step, body) else _number(step)
        if number is not None:
            found[n] = number
    return found


def _step(given: BlockArgument, value: SSAValue) -> SSAValue | None:
    """The tile by which one is moved on to a value."""
    op = value.owner
    if isinstance(op, AddPtrOp):
        return op.offset if op.base is given else None
    if isinstance(op, arith.AddiOp) and given in (op.lhs, op.rhs):
        return op.rhs if op.lhs is given else op.lhs
    return None


def _number(tile: SSAValue) -> Number | None:
    """What makes the number that all elements of a tile are; None where it is not known that there is one."""
    element = element_of(tile.type)
    constant = constant_elements(tile)
    if constant is not None and len(constant) == 1:
        (op,) = constant_op(constant[:1], element)
        return lambda at: at.value(op)
    while isinstance(tile.owner, BroadcastOp | ViewOp | ExpandDimsOp):
        tile = tile.owner.source
    if isinstance(tile.owner, SplatOp):
        scalar = tile.owner.source
        return lambda at: scalar
    if any(n != 1 for n in tile_shape(tile) or ()):
        return None
    return partial(_only_element, tile)


def _only_element(tile: SSAValue, at: Inserter) -> SSAValue:
    if tile_shape(tile):
        tile = at.value(ViewOp.make(tile, results=[TensorType(element_of(tile.type), ())]))
    return at.value(tensor.ExtractOp(tile, [], element_of(tile.type)))


def _carry_numbers(loop: scf.ForOp, steps: dict[int, Number]) -> None:
    """Have a loop carry sums of steps in place of tiles."""
    block, body = loop.parent, loop.body.block
    assert block is not None
    front = Inserter(block, loop, loop.location)
    last = body.last_op
    assert last is not None
    inside, end = Inserter(body, body.first_op, loop.location), Inserter(body, last, loop.location)
    starts, ends = [], []
    for n, number in steps.items():
        first, step = loop.iter_args[n], number(front)
        is_pointer = not isinstance(element_of(first.type), IntegerType)
        if is_pointer and step.type != i64:  # offsets are signed, and their sum may need more bits
            step = front.value(arith.ExtSIOp(step, i64))
        starts.append(front.value(arith.ConstantOp(IntegerAttr(0, step.type), step.type)))
        moved = body.insert_arg(step.type, len(body.args))
        body.args[1 + n].replace_all_uses_with(_moved(inside, first, moved))
        ends.append(end.value(arith.AddiOp(moved, step)))
    count = len(loop.results)
    more = carry_more(loop, starts, ends)
    behind = Inserter(block, more.next_op, more.location)
    for k, n in enumerate(steps):
        if more.results[n].first_use is not None:
            moved_on = _moved(behind, more.iter_args[n], more.results[count + k])
            more.results[n].replace_all_uses_with(moved_on)
    less = carry_less(more, steps)
    drop_unused(less.body.block)


def _moved(at: Inserter, tile: SSAValue, by: SSAValue) -> SSAValue:
    """A tile whose elements are moved on by a number."""
    spread = at.value(SplatOp.make(by, results=[like(tile.type, by.type)]))
    if isinstance(element_of(tile.type), IntegerType):
        return at.value(arith.AddiOp(tile, spread))
    return at.value(AddPtrOp.make(tile, spread, results=[tile.type]))
