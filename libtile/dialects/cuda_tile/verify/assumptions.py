# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of `assume`: which values each predicate may be stated of (Tile IR specification, section Operations)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from libtile.dialects.cuda_tile.forms import (
    BoundedAttr,
    CudaTileOp,
    DivByAttr,
    PointerType,
    SameElementsAttr,
    TensorViewType,
    TileType,
)
from libtile.dialects.cuda_tile.type_forms import bit_width, is_integer
from libtile.dialects.cuda_tile.verify.report import Report, fail, rule
from libtile.ir.forms import Attribute

_LARGEST_DIVISOR = 1 << 62


@rule("assume")
def assume(op: CudaTileOp, report: Report) -> None:
    predicate: Any = op.properties["predicate"]
    _PREDICATES[predicate.mnemonic](op, predicate, op.results[0].type)


def _div_by(op: CudaTileOp, predicate: DivByAttr, type_: Attribute) -> None:
    name, divisor, every, along = f"'{predicate.name}'", predicate.divisor, predicate.every, predicate.along
    if divisor <= 0 or divisor & (divisor - 1):
        fail(op, f"{name} divisor must be a power of 2")
    if (every is None) != (along is None):
        fail(op, f"{name} 'every'/'along' must be used in combination")
    if divisor > _LARGEST_DIVISOR:
        fail(op, f"{name} divisor is too large")
    if isinstance(type_, TensorViewType):
        if every is not None:
            fail(op, f"{name} 'every'/'along' cannot be used if the constrained value is a tensor_view")
        return
    wrong_type = f"{name} is valid only for tile of integer/pointer or tensor_view values"
    if not isinstance(type_, TileType):
        fail(op, wrong_type)
    if type_.rank == 0 and every is not None:
        fail(op, f"{name} 'every'/'along' cannot be used if the constrained value is a 0D tile")
    if not (isinstance(type_.element_type, PointerType) or is_integer(type_.element_type)):
        fail(op, wrong_type)
    if every is None or along is None:
        return
    if not 0 <= along < type_.rank:
        fail(op, f"{name} every_dim ({along}) must be >= 0 and < tile rank ({type_.rank})")
    if not 0 <= every <= type_.shape[along]:
        fail(
            op,
            f"expected {name} every_dim to be within 0 and the size of the respective dimension ({type_.shape[along]})",
        )


def _same_elements(op: CudaTileOp, predicate: SameElementsAttr, type_: Attribute) -> None:
    name, values = f"'{predicate.name}'", predicate.values
    if not isinstance(type_, TileType) or not (
        isinstance(type_.element_type, PointerType) or is_integer(type_.element_type)
    ):
        fail(op, f"{name} is valid only for tile of integer/pointer values")
    if len(values) != type_.rank:
        fail(
            op,
            f"expected number of values in {name} ({len(values)}) to match rank of constrained tile ({type_.rank})",
        )
    for index, (value, size) in enumerate(zip(values, type_.shape)):
        if not 0 <= value <= size:
            fail(
                op,
                f"expected {name} value {index} to be within 0 and the size of the respective dimension ({size})",
            )


def _bounded(op: CudaTileOp, predicate: BoundedAttr, type_: Attribute) -> None:
    name, lower, upper = f"'{predicate.name}'", predicate.lower, predicate.upper
    if not isinstance(type_, TileType) or not is_integer(type_.element_type):
        fail(op, f"{name} is valid only for tile of integer values")
    half = 1 << (bit_width(type_.element_type) - 1)
    for which, bound in (("lower", lower), ("upper", upper)):
        if bound is not None and not -half <= bound < half:
            fail(op, f"{name} expects {which} bound to be within [{-half}, {half - 1}]")
    if lower is not None and upper is not None and lower > upper:
        fail(op, f"{name} expects lower bound to be less than or equal to upper bound")


_PREDICATES: dict[str, Callable[[CudaTileOp, Any, Attribute], None]] = {
    "div_by": _div_by,
    "same_elements": _same_elements,
    "bounded": _bounded,
}
