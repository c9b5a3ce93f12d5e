# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many iterations a counted loop has."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import SSAValue

from libtile.dialects import arith, scf
from libtile.lowering.constants import constant_of
from libtile.lowering.tileas.inserter import Inserter


def number_type(loop: scf.ForOp) -> IntegerType | IndexType:
    """The type of a loop's counter."""
    type_ = loop.lb.type
    assert isinstance(type_, IntegerType | IndexType)
    return type_


def known_trips(loop: scf.ForOp) -> int | None:
    """How many iterations a loop has, where it is known: its bounds are numbers from 0 on."""
    first, last, step = (constant_of(value) for value in (loop.lb, loop.ub, loop.step))
    if first is None or last is None or step is None or min(first, last) < 0 or step < 1:
        return None
    return max(-(-(last - first) // step), 0)


def any_trip(at: Inserter, loop: scf.ForOp, values: Mapping[SSAValue, SSAValue] | None = None) -> SSAValue:
    """Whether a loop has an iteration, for bounds that may have other `values` at this place."""
    unsigned = "unsignedCmp" in loop.attributes or "unsignedCmp" in loop.properties
    lower, upper = ((values or {}).get(v, v) for v in (loop.lb, loop.ub))
    return at.value(arith.CmpiOp(lower, upper, "ult" if unsigned else "slt"))


def trips(at: Inserter, loop: scf.ForOp, values: Mapping[SSAValue, SSAValue] | None = None) -> SSAValue:
    """How many iterations a loop has: as many steps as there are from the lower bound to the upper one, for which there
    may be other `values` at this place."""
    type_, given = number_type(loop), values or {}
    lower, upper, step = (given.get(v, v) for v in (loop.lb, loop.ub, loop.step))
    zero, one = (at.value(arith.ConstantOp(IntegerAttr(n, type_))) for n in (0, 1))
    some = any_trip(at, loop, given)
    distance = at.value(arith.SubiOp(upper, lower))
    # Not (distance + step - 1) / step, which could wrap around.
    steps = at.value(arith.DivUIOp(at.value(arith.SubiOp(distance, one)), step))
    return at.value(arith.SelectOp(some, at.value(arith.AddiOp(steps, one)), zero))
