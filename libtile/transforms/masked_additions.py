# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Additions of masks: what is zero in some places of a tile and a number, often minus infinity, in the others.

    x + select(m, 0, c)   ->   select(m, x, x + c)

The right-hand side is one addition under a condition, where the left one selects and adds. They differ only where x is
-0.0, of which the left one makes 0.0. So it is done where the zero that is added is -0.0, where x is never -0.0 (a sum
of products that begins with 0.0), or where nobody can tell one zero from the other.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.arith import CmpfOp, SelectOp
from libtile.dialects.nv_tileaa.arithmetic import OPS, ElementwiseOp
from libtile.dialects.nv_tileaa.collectives import DotOp, ReduceLike
from libtile.dialects.nv_tileaa.pointers import FloatConversion
from libtile.dialects.nv_tileaa.shapes import (
    BroadcastOp,
    ConstantOp,
    ExpandDims,
    ExtractSliceOp,
    PermuteOp,
    SplatOp,
    Unary,
    View,
)
from libtile.ir.locations import set_location

_AddOp, _SubOp, _MulOp, _FmaOp = (OPS[name] for name in ("addf", "subf", "mulf", "fma"))
_KEEPS_ZEROS = (_AddOp, _SubOp, _MulOp, _FmaOp, OPS["maxf"], OPS["minf"])
"""Ops of whose result only the sign of a zero depends on the sign of a zero among their operands."""
_IGNORES_SIGNS = (OPS["exp"], OPS["exp2"], OPS["absf"], CmpfOp)
"""Ops that give the same for both zeros."""
_SAME_ELEMENTS = (SplatOp, BroadcastOp, ExpandDims, View, PermuteOp, ExtractSliceOp, FloatConversion)
_FIRST_CARRIED = 3
"""The first operand of a loop that it carries, behind its bounds and its step."""
_MOST_VALUES = 64
"""Values that are followed at most."""


def select_addend(op: ElementwiseOp) -> list[SSAValue] | bool:
    """The pattern of `canonicalize-tileaa` for `addf`."""
    if op.flushes or (op.rounding or "nearest_even") != "nearest_even" or not _is_f32_tile(op.results[0]):
        return False
    for x, mask in (op.operands, reversed(op.operands)):
        found = _mask(mask)
        if found is None:
            continue
        condition, zero, other, zero_first = found
        if not (_is(zero, -0.0) or _is_never_negative_zero(x) or _signs_of_zeros_do_not_matter(op.results[0])):
            continue
        added = type(op).create(operands=[x, other], result_types=[x.type], properties=op.properties.copy())
        _insert(added, op)
        chosen = (x, added.results[0]) if zero_first else (added.results[0], x)
        select = SelectOp(condition, *chosen)
        _insert(select, op)
        return [select.result]
    return False


def _insert(made: Operation, before: Operation) -> None:
    assert before.parent is not None  # the sweep visits ops in blocks only
    if (location := getattr(before, "location", None)) is not None:
        set_location(made, location)
    before.parent.insert_op_before(made, before)


def _is_f32_tile(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and value.type.element_type == f32


def _mask(value: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue, bool] | None:
    """Of a selection between a zero and another constant: the condition, the zero, the other one, and whether the zero
    is what is taken where the condition holds."""
    op = value.owner
    if not isinstance(op, SelectOp) or not isinstance(op.cond.type, TensorType):
        return None
    numbers = [_number(v) for v in (op.lhs, op.rhs)]
    if None in numbers or numbers.count(0.0) != 1:
        return None
    first = numbers[0] == 0.0
    return (op.cond, op.lhs, op.rhs, True) if first else (op.cond, op.rhs, op.lhs, False)


def _number(value: SSAValue) -> float | None:
    """The number that all elements of a tile of f32 are."""
    op = value.owner
    if isinstance(op, SplatOp | BroadcastOp | View | ExpandDims):
        return _number(op.source)
    if not isinstance(op, ConstantOp) or not op.value.is_splat or not _is_f32_tile(value):
        return None
    (number,) = struct.unpack("<f", op.value.raw)
    return float(number)


def _is(value: SSAValue, number: float) -> bool:
    found = _number(value)
    return found is not None and struct.pack("<d", found) == struct.pack("<d", number)


def _is_never_negative_zero(value: SSAValue) -> bool:
    """Whether a value is a product's whose accumulator is 0.0: rounded to nearest, 0.0 plus anything is not -0.0."""
    op = value.owner
    return isinstance(op, DotOp) and _is(op.c, 0.0)


def _signs_of_zeros_do_not_matter(value: SSAValue) -> bool:
    """Whether the program does the same whatever the signs of zeros in a tile are."""
    seen, work = {value}, [value]
    while work:
        for use in work.pop().uses:
            follow = _results_with_signs(use.operation, use.index)
            if follow is None:
                return False
            new = [v for v in follow if v not in seen]
            seen.update(new)
            work += new
            if len(seen) > _MOST_VALUES:
                return False
    return True


def _results_with_signs(op: Operation, index: int) -> Sequence[SSAValue] | None:
    """The values in which the sign of a zero among an operand's elements may be the sign of a zero; None where it may
    be seen otherwise."""
    match op:
        case ElementwiseOp() | CmpfOp() if isinstance(op, _IGNORES_SIGNS):
            return ()
        case ElementwiseOp() if isinstance(op, _KEEPS_ZEROS):
            return op.results
        case SelectOp() | DotOp():
            return op.results
        case Unary() if isinstance(op, _SAME_ELEMENTS):
            return op.results
        case ReduceLike() if all(isinstance(inner, _KEEPS_ZEROS) for inner in [*op.body.block.ops][:-1]):
            return op.results
        case scf.ForOp() if index >= _FIRST_CARRIED:
            return op.body.block.args[index - _FIRST_CARRIED + 1], op.results[index - _FIRST_CARRIED]
        case scf.YieldOp():
            return _yielded(op.parent_op(), index)
    return None


def _yielded(around: Operation | None, index: int) -> Sequence[SSAValue] | None:
    match around:
        case scf.IfOp():
            return (around.results[index],)
        case scf.ForOp():
            return around.body.block.args[index + 1], around.results[index]
    return None
