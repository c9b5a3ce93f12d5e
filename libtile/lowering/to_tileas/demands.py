# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which layout the users of a tile would like it to have, found by walking a function backwards.

A store wants its value where it writes it, a product its operands in fragments; elementwise ops hand the wish for
their result on to their operands, and ops that rename elements translate it. The first wish for a value stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from libtile.layouts import LinearLayout
from libtile.lowering.to_tileas import shape_layouts as layouts
from libtile.lowering.to_tileas.accesses import AccessLayouts, is_access, numbers
from libtile.lowering.to_tileas.elementwise import is_elementwise
from libtile.lowering.to_tileas.origins import Origins
from libtile.lowering.to_tileas.products import SCALED_DOT, Products
from libtile.lowering.to_tileas.types import tile_shape

SHAPE_OPS = ("broadcast", "view", "expand_dims", "permute", "splat")


def source_layout(op: Operation, result: LinearLayout) -> LinearLayout | None:
    """The layout of an op's first operand that gives its result this layout without moving anything."""
    source = tile_shape(op.operands[0])
    if not source:
        return None
    match op.name:
        case "nv_tileaa.broadcast":
            return layouts.shrunk(result, source)
        case "nv_tileaa.view" | "nv_tileaa.expand_dims":
            return layouts.reshaped(result, source)
        case "nv_tileaa.permute":
            order = numbers(op, "permutation")
            return layouts.permuted(result, layouts.inverse_permutation(order))
    return None


class _Waiting:
    """The ops of a block that are to be visited: at first all of them."""

    def __init__(self, block: Block):
        self._ops = list(block.ops)
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
    """The wishes of a function. `of(value)` is the layout that a value should have, or None."""

    def __init__(self, function: Operation, accesses: AccessLayouts, products: Products, origins: Origins):
        self._wants: dict[SSAValue, LinearLayout] = {}
        self._accesses = accesses
        self._products = products
        self._origins = origins
        self._waiting: dict[Block, _Waiting] = {}
        self._changed: set[Operation] = set()
        self.visits = 0
        """How often an op was visited: a few times each, however deep loops are nested."""
        self._visit_block(function.regions[0].block)

    def of(self, value: SSAValue) -> LinearLayout | None:
        return self._wants.get(value)

    def _want(self, value: SSAValue, layout: LinearLayout | None) -> None:
        if layout is None or value in self._wants or not (shape := tile_shape(value)) or shape != layout.shape:
            return
        self._wants[value] = layout
        owner = value.owner
        op = owner if isinstance(owner, Operation) else owner.parent_op()
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
        visit = _VISITS.get(op.name)
        if visit is not None:
            visit(self, op)
        elif is_access(op):
            layout = self._accesses.of(op)
            for operand in op.operands:
                self._want(operand, layout)
        elif is_elementwise(op) and op.results:
            wanted = self.of(op.results[0])
            for operand in op.operands:
                self._want(operand, wanted)
        elif op.name.removeprefix("nv_tileaa.") in SHAPE_OPS:
            wanted = self.of(op.results[0])
            if wanted is not None:
                self._want(op.operands[0], source_layout(op, wanted))

    def _visit_dot(self, op: Operation) -> None:
        for operand, layout in zip(op.operands, self._products.operand_layouts(op)):
            self._want(operand, layout)

    def _visit_scan(self, op: Operation) -> None:
        for operand, result in zip(op.operands, op.results):
            self._want(operand, self.of(result))

    def _visit_for(self, op: Operation) -> None:
        block = op.regions[0].block
        self._loop(op, block, list(op.operands[3:]), list(block.args[1:]), list(op.results))

    def _loop(
        self, op: Operation, block: Block, initial: list[SSAValue], carried: list[SSAValue], results: list[SSAValue]
    ) -> None:
        """The wish of the body for a carried value goes first, where it leaves it second; where it starts goes last."""
        self._visit_block(block)
        last = block.last_op
        assert last is not None
        for before, inside, result, after in zip(initial, carried, results, last.operands):
            wanted = self.of(inside) or self._origins.of(after) or self.of(result) or self._origins.of(before)
            if wanted is None:
                continue
            for value in (inside, result, before, after):
                self._want(value, wanted)
        self._visit_block(block)

    def _visit_while(self, op: Operation) -> None:
        before, after = (region.block for region in op.regions)
        condition = before.last_op
        assert condition is not None and after.last_op is not None
        for result, inside, given in zip(op.results, after.args, condition.operands[1:]):
            wanted = self.of(result)
            self._want(inside, wanted)
            self._want(given, wanted)
        self._visit_block(after)
        self._visit_block(before)
        for start, inside, given in zip(op.operands, before.args, after.last_op.operands):
            wanted = self.of(inside)
            self._want(start, wanted)
            self._want(given, wanted)

    def _visit_if(self, op: Operation) -> None:
        for region in op.regions:
            last = region.block.last_op if region.blocks else None
            if last is not None and isinstance(last, scf.YieldOp):
                for result, given in zip(op.results, last.operands):
                    self._want(given, self.of(result))
            if region.blocks:
                self._visit_block(region.block)


_VISITS: dict[str, Callable[[Demands, Operation], None]] = {
    "nv_tileaa.dot": Demands._visit_dot,
    SCALED_DOT: Demands._visit_dot,
    "nv_tileaa.scan": Demands._visit_scan,
    "scf.for": Demands._visit_for,
    "scf.while": Demands._visit_while,
    "scf.if": Demands._visit_if,
}
