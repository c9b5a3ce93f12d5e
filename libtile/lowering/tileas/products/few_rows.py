# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A loop with products of few rows, which feed each other, as the loop of their transposes: decoding, whose queries are
few.

    for ... acc : 16x128, m : 16x1                       for ... acc : 128x16, m : 1x16
      s = dot q, (permute k)        : 16x64                s = dot k, (permute q)             : 64x16
      n = max m, (reduce s, dim 1)               ->        n = max m, (reduce s, dim 0)
      p = exp (s - broadcast n)                            p = exp (s - broadcast n)
      acc' = dot p, v, acc * f(m, n)                       acc' = dot (permute v), p, acc * f(m, n)

Asynchronous products have 64 rows at least, and any number of columns from 8 on. All that a loop computes of results,
element by element or along a dimension, goes as well the other way round; what it loads for products is renamed at no
cost, and what it gives is turned once, behind it. The rewriting is one of nv_tileaa, before layouts are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.collectives import DotOp, ReduceOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, ExpandDimsOp, PermuteOp, ViewOp, integers_of
from libtile.ir.operands import operands_of
from libtile.ir.places import ops_in, ops_of
from libtile.ir.tile_form import shape_of
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.inserter import Inserter
from libtile.lowering.tileas.products.product_forms import turned
from libtile.lowering.to_tileas.elementwise import is_elementwise

Values = dict[SSAValue, SSAValue]


def with_few_columns(function: FuncOp, rows: int) -> FuncOp | None:
    """A copy of the function whose loop with several products of fewer than so many rows is one of their transposes;
    None where it has no such loop, or this computes something that cannot be turned."""
    loop = _loop(function, rows)
    if loop is None or _Turned(loop).values is None:
        return None
    copy = function.clone()
    again = _loop(copy, rows)
    assert again is not None
    _Turned(again).make()
    return copy


def _loop(function: FuncOp, rows: int) -> scf.ForOp | None:
    """The only loop with products, where it has several, all of few rows and enough columns."""
    products = ops_of(function, DotOp)
    loop = products[0].parent_op() if len(products) > 1 else None
    if not isinstance(loop, scf.ForOp) or any(op.parent_op() is not loop for op in products):
        return None
    shapes = [shape_of(op.result.type) for op in products]
    fit = all(len(shape) == 2 and shape[0] < rows and shape[1] % rows == 0 for shape in shapes)
    return loop if fit else None


class _Turned:
    """A loop, and the tiles in it that are to be turned: None where one of them cannot be."""

    def __init__(self, loop: scf.ForOp):
        self.loop, self.body = loop, loop.body.block
        self.values: dict[SSAValue, None] | None = {}
        self.made: Values = {}
        self.old: list[Operation] = []
        """Ops that are made again."""
        work = [v for op in ops_of(self.body, DotOp) for v in (op.c, op.result)]
        while work:
            value = work.pop()
            if self.values is None or value in self.values or not self._is_inside(value):
                continue
            self.values[value] = None
            more = self._with(value)
            if more is None:
                self.values = None
                return
            work += more

    def _is_inside(self, value: SSAValue) -> bool:
        """Whether a value is made in the loop, or carried by it."""
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent
        while block is not None and block is not self.body:
            around = block.parent_op()
            block = None if around is None else around.parent
        return block is self.body

    def _with(self, value: SSAValue) -> list[SSAValue] | None:
        """What is to be turned together with a value; None where it cannot be."""
        if not isinstance(value.type, TensorType) or len(shape_of(value.type)) != 2:
            return None
        found: list[SSAValue] = []
        if isinstance(value, BlockArgument):
            if value.block is not self.body or not value.index:
                return None
            last = self.body.last_op
            assert last is not None
            found.append(operands_of(last, "arguments")[value.index - 1])
        for op in [*([value.op] if isinstance(value, OpResult) else []), *(use.operation for use in value.uses)]:
            more = self._by(op, value)
            if more is None:
                return None
            found += more
        return found

    def _by(self, op: Operation, value: SSAValue) -> list[SSAValue] | None:
        """What an op that makes or takes a turned value asks for."""
        if not self._is_reached(op):
            return None
        if isinstance(op, DotOp):
            return [op.c, op.result] if value in (op.c, op.result) else []
        if isinstance(op, ReduceOp):
            return list(op.inputs) if value in op.inputs else None
        if isinstance(op, BroadcastOp):
            return [op.source, op.result]
        if isinstance(op, PermuteOp):
            return [] if integers_of(op.permutation) == (1, 0) else None
        if isinstance(op, ViewOp | ExpandDimsOp):
            return [] if len([n for n in shape_of(value.type) if n != 1]) <= 1 else None
        if isinstance(op, scf.YieldOp):
            return self._yielded(op, value)
        if isinstance(op, scf.IfOp):
            number = op.results.index(value)
            return [region.block.last_op.operands[number] for region in op.regions if region.block.last_op is not None]
        if not is_elementwise(op) or len(op.results) != 1:
            return None
        return [v for v in (*op.operands, *op.results) if _is_matrix(v)]

    def _is_reached(self, op: Operation) -> bool:
        """Whether an op is one of the loop's, or of branches in it."""
        block = op.parent
        while block is not None and block is not self.body:
            around = block.parent_op()
            if not isinstance(around, scf.IfOp):
                return False
            block = around.parent
        return True

    def _yielded(self, op: Operation, value: SSAValue) -> list[SSAValue]:
        parent, numbers = op.parent_op(), [n for n, v in enumerate(op.operands) if v is value]
        if parent is self.loop:
            return [self.body.args[1 + n] for n in numbers]
        assert isinstance(parent, scf.IfOp)  # no other op of these has results
        return [parent.results[n] for n in numbers]

    # -- making -----------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Put the loop of transposes in place of the loop."""
        assert self.values is not None and self.loop.parent is not None
        loop, body = self.loop, self.body
        block = self.loop.parent
        before = Inserter(block, loop, loop.location)
        numbers = [n for n, arg in enumerate(body.args[1:]) if arg in self.values]
        initial = list(loop.iter_args)
        for n in numbers:
            initial[n] = turned(before, initial[n])
            self.made[body.args[1 + n]] = body.insert_arg(initial[n].type, len(body.args))
        for op in ops_in(body):
            self._again(op)
        last = body.last_op
        assert last is not None
        end = Inserter(body, last, last.location)
        given = [self._of(v, end) if n in numbers else v for n, v in enumerate(last.operands)]
        order = [n for n in range(len(initial)) if n not in numbers] + numbers
        last.detach()
        last.erase()
        body.add_op(scf.YieldOp(*(given[n] for n in order)))
        for op in reversed(self.old):
            op.detach()
            op.erase()
        for arg in [body.args[1 + n] for n in numbers]:
            body.erase_arg(arg)
        made = scf.ForOp(loop.lb, loop.ub, loop.step, [initial[n] for n in order], loop.detach_region(loop.body))
        made.attributes.update(loop.attributes)
        before.add(made, loop.location)
        for place, n in enumerate(order):
            result = made.results[place]
            loop.results[n].replace_all_uses_with(turned(before, result) if n in numbers else result)
        loop.detach()
        loop.erase()
        drop_unused(body)

    def _of(self, value: SSAValue, at: Inserter) -> SSAValue:
        """The transpose of a value."""
        assert self.values is not None
        if value not in self.made:
            if value in self.values:
                raise AssertionError("a turned value is taken before it is made")
            if isinstance(value.owner, PermuteOp):
                return value.owner.source
            if self._is_inside(value):
                return turned(at, value)
            assert self.loop.parent is not None
            self.made[value] = turned(Inserter(self.loop.parent, self.loop, at.location), value)
        return self.made[value]

    def _again(self, op: Operation) -> None:
        """An op again, where it makes or takes turned values."""
        assert self.values is not None and op.parent is not None
        for region in op.regions:
            if isinstance(op, scf.IfOp) and region.blocks:
                for inner in ops_in(region.block):
                    self._again(inner)
        if not any(v in self.values for v in (*op.operands, *op.results)) or isinstance(op, scf.YieldOp):
            return
        at = Inserter(op.parent, op, op.location)
        if isinstance(op, PermuteOp):
            if op.source in self.values:
                op.result.replace_all_uses_with(self._of(op.source, at))
            else:
                self.made[op.result] = op.source
            self.old.append(op)
            return
        made = self._made(op, at)
        self.old.append(op)
        made.attributes.update(op.attributes)
        at.add(made)
        for old, new in zip(op.results, made.results):
            new.name_hint = old.name_hint
            if old in self.values:
                self.made[old] = new
            else:
                old.replace_all_uses_with(new)

    def _made(self, op: Operation, at: Inserter) -> Operation:
        assert self.values is not None
        types = [_turned(r.type) if r in self.values else r.type for r in op.results]
        if isinstance(op, DotOp):
            a, b = self._of(op.b, at), self._of(op.a, at)
            return DotOp.make(
                a, b, self._of(op.c, at), [], [], results=types, signedness_a=op.signedness_b,
                signedness_b=op.signedness_a, propagate_nan=op.propagate_nan, fast_acc=op.fast_acc,
            )  # fmt: skip
        if isinstance(op, scf.IfOp):
            return self._branch(op, types)
        given = [self._of(v, at) if v in self.values or _is_matrix(v) else v for v in op.operands]
        properties = dict(op.properties)
        if isinstance(op, ReduceOp):
            dim = op.dim
            properties["dim"] = IntegerAttr(1 - dim.value.data, dim.type)
        if isinstance(op, ViewOp | ExpandDimsOp):
            source = self._of(op.source, at) if op.source in self.values else op.source
            return ViewOp.make(source, results=types)
        regions = [op.detach_region(region) for region in list(op.regions)]
        return type(op).create(operands=given, result_types=types, properties=properties, regions=regions)

    def _branch(self, op: scf.IfOp, types: Sequence[Attribute]) -> Operation:
        """A branch that gives turned values."""
        for region in op.regions:
            last = region.block.last_op
            assert last is not None
            inside = Inserter(region.block, last, last.location)
            given = [self._of(v, inside) if r in (self.values or ()) else v for v, r in zip(last.operands, op.results)]
            inside.add(scf.YieldOp(*given))
            last.detach()
            last.erase()
        first, second = (op.detach_region(region) for region in list(op.regions))
        return scf.IfOp(op.cond, types, first, second)


def _is_matrix(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and len(shape_of(value.type)) == 2


def _turned(type_: Attribute) -> TensorType[Attribute]:
    assert isinstance(type_, TensorType)
    rows, columns = type_.get_shape()
    return TensorType(type_.element_type, (columns, rows))
