# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""In which layout a tile is made when nobody asks for another: that of the load, product or reduction behind it.

Ops that compute element by element or rename elements keep the layout of what they are given. Constants, ranges and
broadcasts are made in any layout, so they have none here.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.collectives import DotOp, ReduceOp, ScanOp
from libtile.dialects.nv_tileaa.pointers import FpToFpOp
from libtile.dialects.nv_tileaa.shapes import ExpandDimsOp, PermuteOp, ViewOp, integers_of
from libtile.ir.operands import sources_of
from libtile.layouts import LinearLayout
from libtile.lowering.to_tileas import shape_layouts as layouts
from libtile.lowering.to_tileas.accesses import ACCESSES, AccessLayouts
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.lowering.to_tileas.products import Products
from libtile.lowering.to_tileas.stages import IN_PLACE, yielded
from libtile.lowering.to_tileas.types import tile_shape


class Origins:
    """The layouts of a function's tiles by origin. `of(value)` is None where any layout will do."""

    def __init__(self, accesses: AccessLayouts, products: Products):
        self._accesses = accesses
        self._products = products
        self._known: dict[SSAValue, LinearLayout | None] = {}
        self._without_products: set[SSAValue] = set()
        """Tiles that were found to come of no product."""

    def of(self, value: SSAValue) -> LinearLayout | None:
        if value not in self._known:
            self._known[value] = None  # for loops that lead back here
            self._known[value] = self._compute(value) if tile_shape(value) else None
        return self._known[value]

    def of_branches(self, op: scf.IfOp, position: int) -> LinearLayout | None:
        """Of a result of a branch that is computed of a product in it: it stays as that is made, be it stored otherwise
        behind more that is computed of it. None for others, and for what is an operand of products as it is."""
        if _is_operand(op.results[position]):
            return None
        return next((self.of(end) for end in _left(op, position) if self._comes_of_product(end)), None)

    def _comes_of_product(self, value: SSAValue) -> bool:
        """Whether a tile is a sum of products, or computed of one, in the block of what makes it or in a loop there."""
        if value in self._without_products:
            return False
        work, seen = [value], {value}
        while work:
            of = work.pop()
            op = of.owner
            if isinstance(op, DotOp):
                return True
            if isinstance(op, (Block, *ACCESSES)):
                continue
            if isinstance(op, scf.ForOp | scf.IfOp):
                given: Sequence[SSAValue] = _left(op, op.results.index(of))
            else:
                given = op._operands if is_elementwise(op) else sources_of(op)
            for v in given:
                if v not in seen and v not in self._without_products and tile_shape(v):
                    work.append(v)
                    seen.add(v)
        self._without_products |= seen
        return False

    def _compute(self, value: SSAValue) -> LinearLayout | None:
        op = value.owner
        if isinstance(op, Block):
            return self._carried(value, op)
        if isinstance(op, ACCESSES):
            return self._accesses.of(op)
        if is_elementwise(op):
            found = (self.of(v) for v in op.operands if tile_shape(v) == tile_shape(value))
            return next((layout for layout in found if layout is not None), None)
        position = op.results.index(value)
        if isinstance(op, IN_PLACE):
            given = yielded(op, position)
            return None if given is None else self.of(given)
        match op:
            case scf.ForOp():
                return self._given(op.body.block, position)
            case scf.IfOp():
                ends = (self._given(r.block, position) for r in op.regions if r.blocks)
                return next((layout for layout in ends if layout is not None), None)
        return self._moved(op, value)

    def _moved(self, op: Operation, value: SSAValue) -> LinearLayout | None:
        if isinstance(op, DotOp):
            return self._products.operand_layouts(op)[2]
        source = next((self.of(value) for value in sources_of(op)), None)
        shape = tile_shape(value)
        if source is None or shape is None:
            return None
        match op:
            case ReduceOp():
                return layouts.sliced(source, op.dim.value.data)
            case ScanOp():
                return source
            case PermuteOp():
                return layouts.permuted(source, integers_of(op.permutation))
            case ViewOp() | ExpandDimsOp():
                return layouts.reshaped(source, shape)
        return None

    def _carried(self, value: SSAValue, block: Block) -> LinearLayout | None:
        """Of a value that a `for` carries: where its body leaves it."""
        if not isinstance(block.parent_op(), scf.ForOp) or value is block.args[0]:
            return None
        return self._given(block, block.args.index(value) - 1)

    def _given(self, block: Block, position: int) -> LinearLayout | None:
        last = block.last_op
        return self.of(last.operands[position]) if isinstance(last, scf.YieldOp) else None


def _left(op: scf.ForOp | scf.IfOp, position: int) -> list[SSAValue]:
    """What the blocks of a loop or a branch leave for a result."""
    return [last.operands[position] for r in op.regions if r.blocks and (last := r.block.last_op) is not None]


def _is_operand(value: SSAValue) -> bool:
    """Whether nothing but products uses a tile, or one of which its elements are rounded or renamed."""
    users = [use.operation for use in value.uses]
    return all(
        _is_operand(user.results[0]) if isinstance(user, FpToFpOp | PermuteOp | ViewOp) else isinstance(user, DotOp)
        for user in users
    )
