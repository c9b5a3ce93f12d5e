# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of the conversions (Tile IR specification, section Operations, group Conversions)."""

from __future__ import annotations

from libtile.dialects.cuda_tile.forms import CudaTileOp, TileType
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES, bit_width, is_number
from libtile.dialects.cuda_tile.verify.arithmetic import element_type, rounding_modes
from libtile.dialects.cuda_tile.verify.report import Report, fail, quoted, rule
from libtile.ir.forms import Attribute
from libtile.numerics.elements import ELEMENTS, FORMATS
from libtile.spec import default_spec


def _source_element(op: CudaTileOp) -> Attribute:
    type_ = op._operands[0].type
    assert isinstance(type_, TileType)  # as declared
    return type_.element_type


@rule("bitcast")
def bitcast(op: CudaTileOp, report: Report) -> None:
    source, result = bit_width(_source_element(op)), bit_width(element_type(op))
    if source != result:
        fail(
            op,
            f"types must be equal width, cannot convert {quoted(op._operands[0].type)} of width {source} "
            f"to type {quoted(op.results[0].type)} of width {result}",
        )


@rule("exti")
def extend(op: CudaTileOp, report: Report) -> None:
    if bit_width(element_type(op)) <= bit_width(_source_element(op)):
        fail(op, "extending to smaller or identical integer")


@rule("trunci")
def truncate(op: CudaTileOp, report: Report) -> None:
    if bit_width(element_type(op)) >= bit_width(_source_element(op)):
        fail(op, "truncating to larger or identical integer")


@rule("itof")
def integer_to_float(op: CudaTileOp, report: Report) -> None:
    if is_number(element_type(op), "f8E8M0FNU"):
        fail(
            op,
            "integer to f8E8M0FNU conversion is not supported, please first convert to another float type",
        )
    if op.attribute_value("rounding_mode") != "nearest_even":
        fail(op, "invalid rounding mode specified. Only 'nearest_even' is supported")


@rule("ftoi")
def float_to_integer(op: CudaTileOp, report: Report) -> None:
    if op.attribute_value("rounding_mode") != "nearest_int_to_zero":
        fail(op, "invalid rounding mode specified. Only 'nearest_int_to_zero' is supported")


@rule("ftof")
def float_to_float(op: CudaTileOp, report: Report) -> None:
    if op._operands[0].type == op.results[0].type:
        fail(op, "converting tiles must not be a no-op")
    source, target = NUMBER_NAMES[_source_element(op)], NUMBER_NAMES[element_type(op)]
    if report.version < default_spec().change("ROUNDED_CONVERSIONS") and target != "f8E8M0FNU":
        allowed: tuple[str, ...] = ("nearest_even",)
        problem = ". Only 'nearest_even' is supported"
    else:
        allowed, problem = _conversion_rounding(source, target, rounding_modes(op, "IEEERoundingMode"))
    if op.attribute_value("rounding_mode") not in allowed:
        fail(op, f"invalid rounding mode specified{problem}")


def _conversion_rounding(source: str, target: str, ieee: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The rounding modes of a float conversion, and what the diagnostic about another one adds."""
    if target == "f8E8M0FNU":
        modes: tuple[str, ...] = ("zero", "positive_inf")
        return modes, " for conversion to f8E8M0FNU. Only 'zero' and 'positive_inf' are supported"
    if ELEMENTS[target].is_narrow_float:
        return ("nearest_even",), " for conversion to low-precision type. Only 'nearest_even' is supported"
    if (source, target) == ("f32", "tf32"):
        modes = ("nearest_even", "zero", "nearest_away")
        return modes, f" for conversion from f32 to tf32. Only {_listed(modes)} are supported"
    if (source, target) == ("f64", "f32"):
        return ieee, f" for conversion from f64 to f32. Only {_listed(ieee)} are supported"
    if FORMATS[source].widens_to(FORMATS[target]):
        modes = (*ieee, "nearest_away")
        names = ", ".join(f"'{mode}'" for mode in modes)
        return modes, f" for widening conversion. Only IEEE float rounding modes are supported: {names}"
    modes = ("nearest_even", "zero")
    return modes, f". Only {' and '.join(map(repr, modes))} are supported for narrowing conversions to standard types"


def _listed(modes: tuple[str, ...]) -> str:
    *first, last = (f"'{mode}'" for mode in modes)
    return f"{', '.join(first)}, and {last}"
