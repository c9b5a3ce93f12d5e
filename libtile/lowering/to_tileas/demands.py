# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which layout the users of a tile would like it to have, found by walking a function backwards.

A store wants its value where it writes it, a product its operands in fragments; elementwise ops hand the wish for
their result on to their operands, and ops that rename elements translate it. The first wish for a value stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.collectives import DotOp, ScaledDotOp, ScanOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, ExpandDimsOp, PermuteOp, Unary, ViewOp, integers_of
from libtile.ir.classes import is_subclass
from libtile.ir.places import op_of, ops_in
from libtile.layouts import LinearLayout
from libtile.lowering.rules import Rules
from libtile.lowering.to_tileas import shape_layouts as layouts
from libtile.lowering.to_tileas.accesses import ACCESSES, AccessLayouts
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.lowering.to_tileas.origins import Origins
from libtile.lowering.to_tileas.products import Product, Products
from libtile.lowering.to_tileas.stages import IN_PLACE, yielded
from libtile.lowering.to_tileas.types import tile_shape

RIGHT = 1
"""Which operand of a product is the right one."""


def source_layout(op: Unary, result: LinearLayout, source: tuple[int, ...] | None = None) -> LinearLayout | None:
    """The layout of an op's source that gives its result this layout without moving anything; of a part of the source
    of this shape, where the layout is one of a part of the result."""
    source = tile_shape(op.source) if source is None else source
    if not source:
        return None
    match op:
        case BroadcastOp():
            return layouts.shrunk(result, source)
        case ViewOp() | ExpandDimsOp():
            return layouts.reshaped(result, source)
        case PermuteOp():
            return layouts.permuted(result, layouts.inverse_permutation(integers_of(op.permutation)))
    return None


class _Waiting:
    """The ops of a block that are to be visited: at first all of them."""

    def __init__(self, block: Block):
        self._ops = ops_in(block)
        self._places = {op: place for place, op in enumerate(self._ops)}
        self._heap = [-place for place in reversed(range(len(self._ops)))]
        self._waiting = set(self._ops)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, op: Operation) -> None:
        if op not in self._waiting:
            self._waiting.add(op)
            heappush(self._heap, -self._places[op])

    def discard(self, op: Operation) -> None:
        self._waiting.discard(op)

    def backwards(self) -> Iterator[Operation]:
        """Those that wait, last first, with those that are added before their turn; they no longer wait then. An op
        that is added behind the place that has been reached waits for the next time."""
        reached, passed = len(self._ops), []
        while self._heap:
            place = -heappop(self._heap)
            op = self._ops[place]
            if op not in self._waiting:
                continue
            if place >= reached:
                passed.append(-place)
                continue
            reached = place
            self._waiting.discard(op)
            yield op
        for place in passed:
            heappush(self._heap, place)


class Demands:
    """The wishes of the body of a function or an agent. `of(value)` is the layout that a value should have, or None."""

    def __init__(self, body: Block, accesses: AccessLayouts, products: Products, origins: Origins):
        self._wants: dict[SSAValue, LinearLayout] = {}
        self._accesses = accesses
        self._products = products
        self._origins = origins
        self._waiting: dict[Block, _Waiting] = {}
        self._changed: set[Operation] = set()
        self.visits = 0
        """How often an op was visited: a few times each, however deep loops are nested."""
        self._visit_block(body)

    def of(self, value: SSAValue) -> LinearLayout | None:
        return self._wants.get(value)

    def _want(self, value: SSAValue, layout: LinearLayout | None) -> None:
        if layout is None or value in self._wants or not (shape := tile_shape(value)) or shape != layout.shape:
            return
        self._wants[value] = layout
        op = op_of(value) or value.owner.parent_op()
        if op is not None:
            self._changed.add(op)
        while op is not None and op.parent in self._waiting:  # ops around it have to be visited to come to it
            self._waiting[op.parent].add(op)
            op = op.parent.parent_op()

    def _visit_block(self, block: Block) -> None:
        """Visit the ops of a block from its end to its begin: all the first time, later those that a new wish concerns,
        or that hold such an op. Visiting others again would find nothing, and take 2^depth visits in nested loops."""
        waiting = self._waiting.get(block)
        if waiting is None:
            waiting = self._waiting[block] = _Waiting(block)
        for op in waiting.backwards():
            self.visits += 1
            self._changed.discard(op)
            self._visit(op)
            if op not in self._changed and not any(self._waits(b) for region in op.regions for b in region.blocks):
                waiting.discard(op)

    def _waits(self, block: Block) -> bool:
        return block in self._waiting and bool(self._waiting[block])

    def _visit(self, op: Operation) -> None:
        visit = _VISITS.of(op)
        if visit is not None:
            visit(self, op)
        elif is_subclass(type(op), ACCESSES):
            assert isinstance(op, ACCESSES)
            layout = self._accesses.of(op)
            for operand in op._operands:
                self._want(operand, layout)
        elif is_elementwise(op) and op.results:
            wanted = self.of(op.results[0])
            if wanted is not None:
                for operand in op._operands:
                    self._want(operand, wanted)
        elif isinstance(op, BroadcastOp | ViewOp | ExpandDimsOp | PermuteOp):
            wanted = self.of(op.result)
            if wanted is not None:
                self._want(op.source, source_layout(op, wanted))

    def _visit_dot(self, op: Product) -> None:
        for number, (operand, layout) in enumerate(zip(op.operands, self._products.operand_layouts(op))):
            # What goes to shared memory stays as what it is computed of, of which each warp has a part.
            if number != RIGHT or op not in self._products.bridged:
                self._want(operand, layout)

    def _visit_scan(self, op: ScanOp) -> None:
        for operand, result in zip(op.inputs, op.outputs):
            self._want(operand, self.of(result))

    def _visit_for(self, op: scf.ForOp) -> None:
        """The wish of the body for a carried value goes first, where it leaves it second; where it starts goes last."""
        block = op.body.block
        self._visit_block(block)
        last = block.last_op
        assert last is not None
        for before, inside, result, after in zip(op.iter_args, block.args[1:], op.res, last.operands):
            wanted = self.of(inside) or self._origins.of(after) or self.of(result) or self._origins.of(before)
            if wanted is None:
                continue
            for value in (inside, result, before, after):
                self._want(value, wanted)
        self._visit_block(block)

    def _visit_while(self, op: scf.WhileOp) -> None:
        before, after = op.before_region.block, op.after_region.block
        condition = before.last_op
        assert isinstance(condition, scf.ConditionOp) and after.last_op is not None
        for result, inside, given in zip(op.res, after.args, condition.args):
            wanted = self.of(result)
            self._want(inside, wanted)
            self._want(given, wanted)
        self._visit_block(after)
        self._visit_block(before)
        for start, inside, given in zip(op.arguments, before.args, after.last_op.operands):
            wanted = self.of(inside)
            self._want(start, wanted)
            self._want(given, wanted)

    def _visit_if(self, op: scf.IfOp) -> None:
        for region in op.regions:
            last = region.block.last_op if region.blocks else None
            if last is not None and isinstance(last, scf.YieldOp):
                for position, (result, given) in enumerate(zip(op.output, last.operands)):
                    self._want(given, self._origins.of_branches(op, position) or self.of(result))
            if region.blocks:
                self._visit_block(region.block)

    def _visit_in_place(self, op: Operation) -> None:
        for position, result in enumerate(op.results):
            if (given := yielded(op, position)) is not None:
                self._want(given, self.of(result))
        self._visit_block(op.regions[0].block)


_VISITS: Rules[Demands] = Rules()
_VISITS.on(DotOp)(Demands._visit_dot)
_VISITS.on(ScaledDotOp)(Demands._visit_dot)
_VISITS.on(ScanOp)(Demands._visit_scan)
_VISITS.on(scf.ForOp)(Demands._visit_for)
_VISITS.on(scf.WhileOp)(Demands._visit_while)
_VISITS.on(scf.IfOp)(Demands._visit_if)
_VISITS.on(*IN_PLACE)(Demands._visit_in_place)
