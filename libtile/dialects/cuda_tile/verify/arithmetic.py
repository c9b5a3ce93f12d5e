# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of the floating-point and integer arithmetic ops: rounding modes and modifiers.

Tile IR specification, section Operations, groups Floating Point and Integer (the modifier tables of each op).
"""

from __future__ import annotations

from libtile.dialects.cuda_tile.forms import CudaTileOp, EnumAttr, TileType
from libtile.dialects.cuda_tile.type_forms import is_number
from libtile.dialects.cuda_tile.verify.report import Report, fail, quoted, rule
from libtile.ir.forms import Attribute
from libtile.spec import default_spec


def element_type(op: CudaTileOp) -> Attribute:
    """The element type of the op's first result, which its declaration says is a tile."""
    type_ = op.results[0].type
    return type_.element_type if isinstance(type_, TileType) else type_


def rounding_modes(op: CudaTileOp, subset: str) -> tuple[str, ...]:
    """The cases of a subset of the rounding modes, as the declaration of the op's own mode has them."""
    mode = op.properties.get("rounding_mode")
    enum = mode.spec if isinstance(mode, EnumAttr) else default_spec().enums["RoundingMode"]
    return enum.subsets[subset].cases


def require_rounding(op: CudaTileOp, allowed: tuple[str, ...], listed: tuple[str, ...] | None = None) -> str:
    """The op's rounding mode, which must be one of `allowed`."""
    mode = op.attribute_value("rounding_mode")
    if mode not in allowed:
        fail(op, f"invalid rounding mode specified, expect one of [{', '.join(listed or allowed)}]")
    return str(mode)


def only_f32(op: CudaTileOp, modifier: str, present: bool) -> None:
    """A modifier that exists for f32 alone."""
    element = element_type(op)
    if present and not is_number(element, "f32"):
        fail(op, f"{modifier} modifier only supported for f32 data type, but got: {quoted(element)}")


def _flush_to_zero(op: CudaTileOp) -> None:
    only_f32(op, "flush_to_zero", op.attribute_value("flush_to_zero"))


@rule("addf", "subf", "mulf", "fma")
def ieee_arithmetic(op: CudaTileOp, report: Report) -> None:
    require_rounding(op, rounding_modes(op, "IEEERoundingMode"))
    _flush_to_zero(op)


@rule("divf", "sqrt")
def division_and_root(op: CudaTileOp, report: Report) -> None:
    mode = require_rounding(
        op, rounding_modes(op, "DivFOpRoundingMode" if op.spec.name == "divf" else "SqrtOpRoundingMode")
    )
    _flush_to_zero(op)
    only_f32(op, "approx", mode == "approx")
    only_f32(op, "full", mode == "full")


@rule("exp", "tanh")
def approximable_function(op: CudaTileOp, report: Report) -> None:
    mode = require_rounding(
        op, rounding_modes(op, "ExpOpRoundingMode" if op.spec.name == "exp" else "TanHOpRoundingMode")
    )
    only_f32(op, "approx", mode == "approx")


@rule("exp2", "rsqrt", "maxf", "minf")
def flushing(op: CudaTileOp, report: Report) -> None:
    _flush_to_zero(op)


@rule("divi")
def integer_division(op: CudaTileOp, report: Report) -> None:
    mode = op.attribute_value("rounding")
    allowed = ("zero", "negative_inf", "positive_inf")
    if mode not in allowed:
        fail(op, f"invalid rounding mode specified, expect one of [{', '.join(allowed)}]")
    if mode == "negative_inf" and op.attribute_value("signedness") == "unsigned":
        fail(op, "rounding mode 'negative_inf' is not allowed with 'unsigned' flag")


@rule("negi")
def integer_negation(op: CudaTileOp, report: Report) -> None:
    """Negation reads its operand as signed."""
    if op.attribute_value("overflow") == "no_unsigned_wrap":
        fail(op, "'no_unsigned_wrap' overflow flag is not supported")
