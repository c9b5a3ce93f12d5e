# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What passes ask of xDSL's ops of arith, scf and tensor, which have no traits of ours: see `interfaces`."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith, scf, tensor
from xdsl.ir import Operation

from libtile.dialects.interfaces import (
    Branch,
    ControlFlow,
    CountedLoop,
    DividesBy,
    Edge,
    EndsRegion,
    Exit,
    MayExcludeOverflow,
    Partial,
    UncountedLoop,
    body,
)


class HasOverflowFlags(MayExcludeOverflow):
    """Says that it does not wrap around by flags."""

    def is_defined(self, op: Operation) -> bool:
        flags = op.properties.get("overflowFlags")
        return not (isinstance(flags, arith.IntegerOverflowAttr) and flags.data)


_SIGNED = (arith.DivSIOp, arith.RemSIOp, arith.CeilDivSIOp, arith.FloorDivSIOp)
_UNSIGNED = (arith.DivUIOp, arith.RemUIOp, arith.CeilDivUIOp)

PARTIAL: Mapping[type[Operation], Partial] = {
    **{cls: DividesBy(1, True) for cls in _SIGNED},
    **{cls: DividesBy(1, False) for cls in _UNSIGNED},
    **{cls: Partial() for cls in (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp, tensor.ExtractOp)},
    **{cls: HasOverflowFlags() for cls in (arith.AddiOp, arith.SubiOp, arith.MuliOp)},
}
"""Ops that are undefined for some operands."""

DIVISIONS = (*_SIGNED, *_UNSIGNED)
"""Ops of arith that are undefined for a divisor of zero."""


class WhileLoop(UncountedLoop):
    """scf's: the first region ends with the condition and what the second one gets, or the results are."""

    def back(self, op: Operation, exit_: Operation) -> list[Edge]:
        if not isinstance(exit_, scf.ConditionOp):
            return list(enumerate(body(op).args))
        after = body(op, 1).args
        return [(1 + index, value) for index, pair in enumerate(zip(after, op.results)) for value in pair]


FLOW: Mapping[type[Operation], ControlFlow] = {
    scf.IfOp: Branch(),
    scf.ForOp: CountedLoop(),
    scf.WhileOp: WhileLoop(),
}
"""What ops do with control."""

EXITS: Mapping[type[Operation], Exit] = {scf.YieldOp: EndsRegion(), scf.ConditionOp: EndsRegion()}
