# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which tiles the programs of a persistent kernel work at together (`order-programs`).

Such a kernel has as many programs as fit the GPU, and each goes through the tiles of a product from its number on, in
steps of the grid:

    for tile in range(program, rows * columns, programs):
        row, column = tile // columns, tile % columns

Programs work at tiles that follow each other: at a few rows and all columns, so that all of the right operand goes
through the L2 cache again and again. Where nothing tells in which order tiles are computed, the number counts them in
groups of rows, as `order_programs.py` has it for programs.

That is so where each tile is computed once, and no tile needs another one: all that the kernel writes are tiles of a
matrix in this loop, each at its own row and column, nothing in the loop asks which program it is, and nothing waits for
a tile of an earlier turn but the store of the next one. Whether tiles of the matrix overlap (its rows are said to lie
closer than they are long), and whether there are more of them than numbers of 32 bits count, is looked at when the
kernel runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32, i64
from xdsl.ir import Operation, SSAValue

from libtile.dialects import arith, scf, tensor
from libtile.dialects.nv_tileaa.collectives import DotOp, ScaledDotOp
from libtile.dialects.nv_tileaa.functions import FuncOp, GetNumProgramsOp, GetProgramIdOp
from libtile.dialects.nv_tileaa.memory import TiledStoreOp, Write
from libtile.dialects.nv_tileaa.pointers import BlockTileOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.shapes import SplatOp
from libtile.dialects.nv_tileaa.terminators import ReturnIfOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp, JoinMemTokenOp
from libtile.dialects.nv_tileaa.types import TiledViewType
from libtile.ir.operands import source_of
from libtile.ir.places import is_within, ops_of
from libtile.ir.tile_form import is_token, shape_of
from libtile.lowering.constants import constant_of
from libtile.lowering.expand.maker import Maker
from libtile.lowering.expand.memrefs import Memory
from libtile.lowering.told import Told
from libtile.support.records import dataclass

_DIVISIONS = arith.FloorDivSIOp | arith.DivSIOp | arith.DivUIOp
_REMAINDERS = arith.RemSIOp | arith.RemUIOp
_Division = arith.FloorDivSIOp | arith.DivSIOp | arith.DivUIOp | arith.RemSIOp | arith.RemUIOp
_MOST = 1 << 31
"""Tiles, beyond which their numbers do not fit 32 bits: they stay in the kernel's order."""


def order_tiles(function: FuncOp, together: int, told: Told) -> None:
    """Have the loop over tiles of a persistent product go through them in groups of `together` rows, if it is one and
    the kernel leaves that open. No op of the kernel is one that notices the order of programs."""
    loops = [op for op in function.body.block.ops if isinstance(op, scf.ForOp) and _is_shared(op)]
    writes = list(ops_of(function, Write))
    # A program that returns early leaves tiles out: those that it would have gone through, in the kernel's order.
    if len(loops) != 1 or not writes or ops_of(function, ReturnIfOp):
        return
    (loop,) = loops
    tiles = next((found for columns, rows in _factors(loop.ub) if (found := _Tiles.of(loop, rows, columns))), None)
    if tiles is None or not any(tiles.parts(op, told) for op in ops_of(loop, DotOp, ScaledDotOp)):
        return
    if all(tiles.stores_apart(op) for op in writes) and tiles.is_open(told):
        tiles.order(together, [op for op in writes if isinstance(op, TiledStoreOp)])


def _number(value: SSAValue) -> SSAValue:
    """The scalar that a value has: that of a tile of rank 0 and the tile are the same number."""
    while True:
        match value.owner:
            case SplatOp() as op if not shape_of(op.result.type):
                value = source_of(op)
            case tensor.ExtractOp() as op if not shape_of(op.tensor.type):
                value = op.tensor
            case _:
                return value


def _index(value: SSAValue) -> SSAValue:
    """The number that an index is made of, which is not negative."""
    while isinstance(value.owner, arith.IndexCastOp | arith.ExtUIOp | arith.ExtSIOp):
        value = value.owner.input
    return _number(value)


def _is_shared(loop: scf.ForOp) -> bool:
    """Whether all programs along x together go through the numbers from 0 to the loop's end, each once."""
    first, step = _number(loop.lb).owner, _number(loop.step).owner
    return (
        (isinstance(first, GetProgramIdOp) and first.axis.value.data == 0)
        and (isinstance(step, GetNumProgramsOp) and step.axis.value.data == 0)
        and loop.lb.type == i32
    )


def _factors(value: SSAValue) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The factors of a product, either one first."""
    product = _number(value).owner
    if isinstance(product, arith.MuliOp):
        yield product.rhs, product.lhs
        yield product.lhs, product.rhs


@dataclass(frozen=True)
class _Tiles:
    """A loop over tiles by their numbers, and the values that are a tile's row and column."""

    loop: scf.ForOp
    rows: SSAValue
    columns: SSAValue
    is_row: frozenset[SSAValue]
    is_column: frozenset[SSAValue]

    @classmethod
    def of(cls, loop: scf.ForOp, rows: SSAValue, columns: SSAValue) -> _Tiles | None:
        """What a loop is whose tiles lie in so many columns, if it asks for the row and the column of one."""
        divisor, counter = _number(columns), loop.body.block.args[0]

        def divided(op: _Division) -> bool:
            return _number(op.lhs) is counter and _number(op.rhs) is divisor

        def is_positive(value: SSAValue) -> bool:
            return (number := _number(value)) is divisor or number in remainders

        def fails(condition: SSAValue) -> bool:
            """Whether it is false of remainders and divisors that are not negative."""
            match condition.owner:
                case arith.CmpiOp() as op:
                    is_below = op.PREDICATES[op.predicate.value.data] == "slt"
                    return is_below and is_positive(op.lhs) and constant_of(op.rhs) == 0
                case arith.AndIOp() as op:
                    return fails(op.lhs) or fails(op.rhs)
                case arith.XOrIOp() | arith.OrIOp() as op:
                    return fails(op.lhs) and fails(op.rhs)
            return False

        ops = list(loop.body.block.ops)
        rows_of = {op.results[0] for op in ops if isinstance(op, _DIVISIONS) and divided(op)}
        remainders = {op.results[0] for op in ops if isinstance(op, _REMAINDERS) and divided(op)}
        # A remainder of the divisor's sign, as Python has it.
        floored = {
            op.result
            for op in ops
            if isinstance(op, arith.SelectOp) and _number(op.rhs) in remainders and fails(op.cond)
        }
        if not rows_of or not remainders:
            return None
        return cls(loop, rows, columns, frozenset(rows_of), frozenset(remainders | floored))

    def stores_apart(self, op: Operation) -> bool:
        """Whether an op stores to the tile at this row and column of a matrix, once in a turn."""
        if not isinstance(op, TiledStoreOp) or op.parent is not self.loop.body.block or op.mask is not None:
            return False
        view = op.accessed.type
        indices = [_index(value) for value in op.coordinates]
        made = op.accessed.owner
        return (
            isinstance(view, TiledViewType)
            and view.layout.traversal_strides is None
            and view.layout.sparse_dim is None
            and isinstance(made, BlockTileOp)
            and all(len(group) == 1 for group in made.groups)
            and isinstance(memref := made.source.owner, MakeMemRefOp)
            and not is_within(memref.result, self.loop)
            and len(indices) == 2
            and ((indices[0] in self.is_row and indices[1] in self.is_column)
                 or (indices[1] in self.is_row and indices[0] in self.is_column))
        )  # fmt: skip

    def is_open(self, told: Told) -> bool:
        """Whether a turn needs nothing of other turns, and is the same whichever program runs it: the loop carries
        tokens alone, each from store to store, and nobody waits for these behind it."""
        body = self.loop.body.block
        if any(result.uses for result in self.loop.results):
            return False
        ops = list(ops_of(body))
        given = {value for op in ops for value in op.operands if not is_within(value, self.loop)}
        if any(isinstance(op, GetProgramIdOp) for op in ops) or any(0 in told.by(value) for value in given):
            return False
        for argument, initial in zip(body.args[1:], self.loop.iter_args, strict=True):
            if not is_token(argument.type) or not isinstance(initial.owner, CreateMemTokenOp):
                return False
            if not self._goes_by_one_store(argument):
                return False
        return True

    def _goes_by_one_store(self, token: SSAValue) -> bool:
        """Whether what waits for a token, at once or by others, is one store of the loop's own block at most."""
        work, waiting = [token], set()
        while work:
            for use in work.pop().uses:
                op = use.operation
                if isinstance(op, TiledStoreOp):
                    waiting.add(op)
                elif isinstance(op, JoinMemTokenOp):
                    work.append(op.result)
                elif op is not self.loop.body.block.last_op:
                    return False
        for store in waiting:
            (behind,) = store.results
            # The next turn's store may wait for it, and nothing of this one.
            if any(not self._is_carried(use.operation) for use in behind.uses):
                return False
        return len(waiting) <= 1

    def _is_carried(self, op: Operation) -> bool:
        return op is self.loop.body.block.last_op

    def parts(self, product: DotOp | ScaledDotOp, told: Told) -> bool:
        """Whether one operand of a product is told by the row and not by the column, and the other one the reverse."""
        sides = {frozenset(self._told(side, told)) for side in (product.a, product.b)}
        return sides == {frozenset({"row"}), frozenset({"column"})}

    def _told(self, value: SSAValue, told: Told) -> set[str]:
        origins = told.origins(value, self.is_row | self.is_column)
        number = self.loop.body.block.args[0]  # tells both
        sides = {"row": self.is_row | {number}, "column": self.is_column | {number}}
        return {name for name, values in sides.items() if not values.isdisjoint(origins)}

    # -- the other order ------------------------------------------------------------------------------------------

    def order(self, together: int, stores: list[TiledStoreOp]) -> None:
        """Put another number in the place of the loop's."""
        before = Maker(self.loop)
        rows, columns = (self._scalar(before, value) for value in (self.rows, self.columns))
        one, zero = self._constant(before, 1), self._constant(before, 0)
        fits = before.both(before.compare(rows, zero, "sgt"), before.compare(columns, zero, "sgt"))
        wide = [before.put(arith.ExtUIOp(value, i64)) for value in (rows, columns)]
        most = before.put(arith.ConstantOp(IntegerAttr(_MOST, i64)))
        fits = before.both(fits, before.compare(before.mul(*wide), most, "slt"))
        for store in stores:
            fits = self._are_apart(before, store, fits)
        # Without groups nothing is divided by zero.
        rows, columns = (before.select(fits, value, one) for value in (rows, columns))
        most_rows = before.put(arith.MinUIOp(rows, self._constant(before, together)))
        whole = before.mul(columns, most_rows)

        body = self.loop.body.block
        number = body.args[0]
        assert body.first_op is not None
        maker = Maker(body.first_op)
        group = maker.put(arith.DivUIOp(number, whole))
        rest = maker.put(arith.SubiOp(number, maker.mul(group, whole)))
        first = maker.mul(group, most_rows)
        left = maker.put(arith.MinUIOp(maker.put(arith.SubiOp(rows, first)), most_rows))
        left = maker.put(arith.MaxUIOp(left, one))  # of a number beyond the last one, that nobody uses
        column = maker.put(arith.DivUIOp(rest, left))
        row = maker.add(first, maker.put(arith.SubiOp(rest, maker.mul(column, left))))
        other = maker.add(maker.mul(row, columns), column)
        ordered = maker.select(fits, other, number)
        made = {op for op in ops_of(body) if op.results and op is not group.owner}
        for use in list(number.uses):
            if use.operation not in (group.owner, rest.owner, ordered.owner) and use.operation in made:
                use.operation.operands[use.index] = ordered

    @staticmethod
    def _are_apart(maker: Maker, store: TiledStoreOp, fits: SSAValue) -> SSAValue:
        """And whether no two tiles of a matrix overlap: rows lie apart by their length."""
        memory = Memory(maker, store.accessed.owner.source, store)  # type: ignore[union-attr]
        for far, near in ((0, 1), (1, 0)):
            if memory.strides[near] == 1:
                size, stride = memory.scalar(memory.sizes[near]), memory.scalar(memory.strides[far])
                return maker.both(fits, maker.compare(stride, size, "sge"))
        return maker.both(fits, maker.put(arith.ConstantOp(IntegerAttr(0, 1))))

    @staticmethod
    def _scalar(maker: Maker, value: SSAValue) -> SSAValue:
        value = _number(value)
        if isinstance(value.type, TensorType):
            value = maker.put(tensor.ExtractOp(value, [], value.type.element_type))
        return value

    @staticmethod
    def _constant(maker: Maker, number: int) -> SSAValue:
        return maker.put(arith.ConstantOp(IntegerAttr(number, i32)))
