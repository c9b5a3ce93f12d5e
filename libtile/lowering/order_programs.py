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

Each program is run once, as before. A kernel is left alone unless one of its products has an operand that is told by
one of the two axes and not by the other, and the other operand the reverse; and where its programs could notice, by
atomics, ordered accesses, messages or programs that are taken over.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from libtile.dialects import scf
from libtile.dialects.effect_traits import Observable
from libtile.dialects.interfaces import edges
from libtile.dialects.nv_tileaa.collectives import DotOp, ScaledDotOp
from libtile.dialects.nv_tileaa.functions import FuncOp, GetProgramIdOp
from libtile.dialects.nv_tileaa.memory import AtomicCas, AtomicRmw, MemoryOp
from libtile.dialects.nv_tileaa.types import MemTokenType, ProgramIdType
from libtile.ir.places import walk
from libtile.lowering.discardable import PROGRAMS_TOGETHER
from libtile.support.records import dataclass

TOGETHER = 8
"""Measured on an H100, products of 8192x8192x8192 in f16 by tiles of 128x128: 579 TFLOP/s for 389 of the grid's own
order; of 128x256 and 256x128 2 and 3% more. 16 gave the same."""


@dataclass(frozen=True)
class OrderProgramsPass(ModulePass):
    """Have blocks take the programs of products in groups of rows."""

    name = "order-programs"

    together: int = TOGETHER

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.is_entry and _is_open(function):
                function.attributes[PROGRAMS_TOGETHER] = IntegerAttr(self.together, i64)


def _is_open(function: FuncOp) -> bool:
    spec = function.kernel_spec
    assert spec is not None
    ops = [op for op in walk(function) if op is not function]
    if spec.num_ctas > 1 or any(map(_notices, ops)):
        return False
    told = _Told(function)
    return any(
        {frozenset(told.by(side) & {0, 1}) for side in (op.a, op.b)} == {frozenset({0}), frozenset({1})}
        for op in ops
        if isinstance(op, DotOp | ScaledDotOp)
    )


def _notices(op: Operation) -> bool:
    """Whether an op could tell in which order programs run."""
    if isinstance(op, MemoryOp):
        return isinstance(op, AtomicRmw | AtomicCas) or op.semantic != "weak" or op.is_volatile is not None
    return op.has_trait(Observable) or any(isinstance(result.type, ProgramIdType) for result in op.results)


class _Told:
    """By which axes of the grid values are told: those of program ids that they are computed of, or carried from."""

    def __init__(self, function: FuncOp) -> None:
        self._incoming: dict[SSAValue, list[SSAValue]] = {}
        for op in walk(function):
            for number, value in edges(op):
                self._incoming.setdefault(value, []).append(op.operands[number])

    def by(self, value: SSAValue) -> set[int]:
        axes: set[int] = set()
        seen, work = {value}, [value]
        while work:
            at = work.pop()
            if isinstance(at.owner, GetProgramIdOp):
                axes.add(at.owner.axis.value.data)
            for source in (*self._incoming.get(at, ()), *self._computed_of(at)):
                if source not in seen and not isinstance(source.type, MemTokenType):
                    seen.add(source)
                    work.append(source)
        return axes

    def _computed_of(self, value: SSAValue) -> tuple[SSAValue, ...]:
        if value in self._incoming or isinstance(value, BlockArgument):
            loop = value.owner.parent_op() if isinstance(value, BlockArgument) else None
            # What a loop counts through is told by its bounds.
            return (loop.lb, loop.ub, loop.step) if isinstance(loop, scf.ForOp) else ()
        assert isinstance(value.owner, Operation)
        return tuple(value.owner.operands)
