# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`order-programs`: which programs of a grid run at the same time, where the kernel leaves it open.

Hardware starts the blocks of a grid along its first axis first. Of a product whose rows are told by that axis, and
whose columns by the second, it runs many rows and one or two columns at once: nearly all of the left operand goes
through the L2 cache for each column. `programs_together` on a kernel makes blocks take programs in groups of so many
indices of the first axis, each group through all of the second one:

    0 4  8 12            0 2 4  6        programs_together = 2, a grid of 4x4, first axis downward
    1 5  9 13     ->     1 3 5  7
    2 6 10 14            8 10 12 14
    3 7 11 15            9 11 13 15

That is done where one of a kernel's products has an operand that is told by one of the two axes and not by the other,
and the other operand the reverse.

Of causal attention a program's loop is the longer the farther it is along one axis. In the grid's order the longest
programs are started last, when others have nothing left to do: a quarter of the time of one wave or two. With
`long_programs`, an axis and whether its last programs are the long ones, blocks take the longest programs first, of
`programs_together` indices of the other axes (heads) at a time:

    0 4  8 12            6 4  2  0        programs_together = 2, long_programs = [0, 1], a grid of 4x4, where heads go
    1 5  9 13     ->     7 5  3  1        downward and programs are longer to the right
    2 6 10 14            14 12 10 8
    3 7 11 15            15 13 11 9

Each program is run once, as before. A kernel is left alone where its programs could notice, by atomics, ordered
accesses, messages or programs that are taken over.
"""

from __future__ import annotations

from math import copysign

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue

from libtile.dialects import arith, scf, tensor
from libtile.dialects.effect_traits import Observable
from libtile.dialects.nv_tileaa.collectives import DotOp, ScaledDotOp
from libtile.dialects.nv_tileaa.functions import FuncOp, GetProgramIdOp
from libtile.dialects.nv_tileaa.memory import AtomicCas, AtomicRmw, MemoryOp
from libtile.dialects.nv_tileaa.shapes import BroadcastOp, SplatOp, ViewOp
from libtile.dialects.nv_tileaa.terminators import ReturnIfOp
from libtile.dialects.nv_tileaa.tokens import AssumeOp
from libtile.dialects.nv_tileaa.types import ProgramIdType
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import source_of
from libtile.ir.places import ops_around, ops_of
from libtile.lowering.constants import constant_of
from libtile.lowering.discardable import LONG_PROGRAMS, PROGRAMS_TOGETHER
from libtile.lowering.expand.maker import array_of
from libtile.lowering.told import Told
from libtile.support.records import dataclass

TOGETHER = 8
"""Measured on an H100, products of 8192x8192x8192 in f16 by tiles of 128x128: 579 TFLOP/s for 389 of the grid's own
order; of 128x256 and 256x128 2 and 3% more. 16 gave the same."""
LEAST_LONGER = 1 / 8
"""Turns that a program has more than the one before it. Where programs go through tiles by as many as there are
programs, some have one turn more."""
HEADS = 32
"""How many indices of the other axes long programs are taken of at a time. What they read has to come through the L2
cache: of so many, an H100 has four blocks or more for each at once. With half of them the last programs of 64 heads of
1,024 rows are long ones again: 1.31 of the least time with two blocks in a multiprocessor, for 1.03 (1.44 in the grid's
order)."""


@dataclass(frozen=True)
class OrderProgramsPass(ModulePass):
    """Have blocks take the programs of products in groups of rows, and long programs first."""

    name = "order-programs"

    together: int = TOGETHER
    heads: int = HEADS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if not isinstance(function, FuncOp) or not function.is_entry or not _is_open(function):
                continue
            told = Told(function)
            if _has_rows_and_columns(function, told):
                function.attributes[PROGRAMS_TOGETHER] = IntegerAttr(self.together, i64)
            elif (long := _long_programs(function, told)) is not None:
                function.attributes[PROGRAMS_TOGETHER] = IntegerAttr(self.heads, i64)
                function.attributes[LONG_PROGRAMS] = array_of(long)
            if _may_share_tiles(function):
                from libtile.lowering.order_tiles import order_tiles

                order_tiles(function, self.together, told)


def _is_open(function: FuncOp) -> bool:
    spec = function.kernel_spec
    assert spec is not None
    return spec.num_ctas == 1 and not any(_notices(op) for op in ops_of(function) if op is not function)


def _has_rows_and_columns(function: FuncOp, told: Told) -> bool:
    return any(
        {frozenset(told.by(side) & {0, 1}) for side in (op.a, op.b)} == {frozenset({0}), frozenset({1})}
        for op in ops_of(function, DotOp, ScaledDotOp)
    )


def _may_share_tiles(function: FuncOp) -> bool:
    """Whether there is a loop, right in the kernel, whose step is no number that is known, around a product."""
    return any(
        constant_of(op.step) is None and any(True for _ in ops_of(op, DotOp, ScaledDotOp))
        for op in function.body.block.ops
        if isinstance(op, scf.ForOp)
    )


def _long_programs(function: FuncOp, told: Told) -> tuple[int, int] | None:
    """The axis along which programs have longer loops, or shorter ones, and whether its last programs are the long
    ones, if hardware would not start these first anyway."""
    found = set()
    for loop in ops_of(function, scf.ForOp):
        # Of loops that go on by the size of the grid all programs have as many turns.
        is_inner = any(isinstance(op, scf.ForOp | scf.WhileOp) for op in ops_around(loop))
        if is_inner or not (step := constant_of(loop.step)):
            continue
        for axis in told.by(loop.lb) | told.by(loop.ub):
            slopes = _Slopes(axis, told)
            longer = _sum(slopes.of(loop.ub), slopes.of(loop.lb), -1)
            found.add((axis, 0 if longer is None or abs(longer) < LEAST_LONGER * step else copysign(1, longer)))
    longer_along = {axis for axis, way in found if way}
    if len(longer_along) != 1:
        return None
    (axis,) = longer_along
    ways = {way for other, way in found if other == axis}
    return (axis, int(1 in ways)) if len(ways) == 1 and not (axis and -1 in ways) else None


def _notices(op: Operation) -> bool:
    """Whether an op could tell in which order programs run."""
    if isinstance(op, MemoryOp):
        return isinstance(op, AtomicRmw | AtomicCas) or op.semantic != "weak" or op.is_volatile is not None
    ends = isinstance(op, ReturnIfOp)  # for itself alone
    return (op.has_trait(Observable) and not ends) or any(
        isinstance(result.type, ProgramIdType) for result in op.results
    )


_SAME = (
    *(SplatOp, BroadcastOp, ViewOp, AssumeOp, tensor.ExtractOp),
    *(arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.IndexCastOp),
)
"""Ops whose result is the number that they have as operand."""
_DIVISIONS = arith.DivSIOp | arith.DivUIOp | arith.CeilDivSIOp | arith.CeilDivUIOp | arith.FloorDivSIOp
_LEAST = arith.MinSIOp | arith.MinUIOp
_MOST = arith.MaxSIOp | arith.MaxUIOp


def _sum(one: float | None, other: float | None, factor: float = 1) -> float | None:
    """The slope of a number plus another one times a factor."""
    return None if one is None or other is None else one + other * factor


@dataclass(frozen=True)
class _Slopes:
    """How much numbers grow from program to program along an axis of the grid; None where that is not known. Numbers
    are taken not to wrap around, divisions to be exact and limits not to be reached: results never depend on it."""

    axis: int
    told: Told

    def of(self, value: SSAValue) -> float | None:
        if self.axis not in self.told.by(value):
            return 0
        op = value.owner
        if isinstance(op, GetProgramIdOp):
            return 1
        if isinstance(op, _SAME):
            return self.of(source_of(op))
        if isinstance(op, arith.AddiOp):
            return _sum(self.of(op.lhs), self.of(op.rhs))
        if isinstance(op, arith.SubiOp):
            return _sum(self.of(op.lhs), self.of(op.rhs), -1)
        if isinstance(op, _LEAST | _MOST):
            return self._limit(op)
        if isinstance(op, arith.MuliOp | _DIVISIONS) and (factor := constant_of(op.rhs)):
            return _sum(0, self.of(op.lhs), factor if isinstance(op, arith.MuliOp) else 1 / factor)
        return None

    def _limit(self, op: _LEAST | _MOST) -> float | None:
        """Where one of two numbers stays as it is, most programs have the other one."""
        one, other = self.of(op.lhs), self.of(op.rhs)
        if not one or not other:
            return None if one is None or other is None else one or other
        return min(one, other) if isinstance(op, _LEAST) else max(one, other)
