# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of the conversions (Tile IR specification, section Operations, group Conversions)."""

from __future__ import annotations

from xdsl.ir import Attribute

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, NUMBER_TYPES, bit_width
from libtile.dialects.cuda_tile.verify.arithmetic import element_type
from libtile.dialects.cuda_tile.verify.report import Report, fail, quoted, rule

_E8M0 = NUMBER_TYPES["f8E8M0FNU"]


def _source_element(op: CudaTileOp) -> Attribute:
    return op._operands[0].type.element_type  # type: ignore[attr-defined]  # a tile, as declared


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
    if element_type(op) == _E8M0:
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
    mode = op.attribute_value("rounding_mode")
    source, target = NUMBER_NAMES[_source_element(op)], NUMBER_NAMES[element_type(op)]
    if mode not in (*_FTOF_ROUNDING.get((source, target), ()), "nearest_even"):
        fail(op, "invalid rounding mode specified. Only 'nearest_even' is supported")


_FTOF_ROUNDING: dict[tuple[str, str], tuple[str, ...]] = {}
