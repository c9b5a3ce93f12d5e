# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise ops: integers become arith, floats ops of nv_tileaa, which carry rounding, flushing and NaN modes."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, Operation

from libtile.dialects import arith
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.nv_tileaa.arithmetic import OPS
from libtile.dialects.nv_tileaa.pointers import BitcastOp, FpToIntOp, IntToFpOp, IntToPtrOp, PtrToIntOp
from libtile.ir.tile_form import TileOp
from libtile.lowering.errors import unsupported
from libtile.lowering.to_tileaa.context import Context, convert_type, rule
from libtile.spec import default_spec

COMPARISONS = ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal")
SIGNED = dict(zip(COMPARISONS, (0, 1, 2, 3, 4, 5)))
UNSIGNED = dict(zip(COMPARISONS, (0, 1, 6, 7, 8, 9)))
ORDERED = dict(zip(COMPARISONS, (1, 6, 4, 5, 2, 3)))
UNORDERED = dict(zip(COMPARISONS, (8, 13, 11, 12, 9, 10)))
"""MLIR's numbers of the predicates of arith.cmpi and arith.cmpf."""

_OVERFLOW: dict[str, tuple[arith.IntegerOverflowFlag, ...]] = {
    "none": (),
    "no_signed_wrap": (arith.IntegerOverflowFlag.NSW,),
    "no_unsigned_wrap": (arith.IntegerOverflowFlag.NUW,),
    "no_wrap": (arith.IntegerOverflowFlag.NSW, arith.IntegerOverflowFlag.NUW),
}

PLAIN: dict[str, type[Operation]] = {
    "andi": arith.AndIOp,
    "ori": arith.OrIOp,
    "xori": arith.XOrIOp,
    "select": arith.SelectOp,
}
"""Ops that are one op of arith with the same operands and no attributes."""

WRAPPING: dict[str, type[Operation]] = {
    "addi": arith.AddiOp,
    "subi": arith.SubiOp,
    "muli": arith.MuliOp,
    "shli": arith.ShLIOp,
    "trunci": arith.TruncIOp,
}
"""Ops whose `overflow` becomes overflow flags."""

BY_SIGN: dict[str, tuple[type[Operation], type[Operation]]] = {
    "remi": (arith.RemSIOp, arith.RemUIOp),
    "maxi": (arith.MaxSIOp, arith.MaxUIOp),
    "mini": (arith.MinSIOp, arith.MinUIOp),
    "shri": (arith.ShRSIOp, arith.ShRUIOp),
    "exti": (arith.ExtSIOp, arith.ExtUIOp),
}
"""Ops that `signedness` splits into two (signed, unsigned)."""

DIVISIONS: dict[tuple[str, str], type[Operation]] = {
    ("signed", "zero"): arith.DivSIOp,
    ("signed", "negative_inf"): arith.FloorDivSIOp,
    ("signed", "positive_inf"): arith.CeilDivSIOp,
    ("unsigned", "zero"): arith.DivUIOp,
    ("unsigned", "positive_inf"): arith.CeilDivUIOp,
}

FLOATS = tuple(name for name in OPS if name in default_spec().ops)
"""Ops that nv_tileaa has under the same name, with the same attributes."""

CONVERSIONS: dict[str, type[TileOp]] = {
    "bitcast": BitcastOp,
    "ptr_to_ptr": BitcastOp,
    "int_to_ptr": IntToPtrOp,
    "ptr_to_int": PtrToIntOp,
    "mulhii": OPS["mulhiui"],
}
"""Ops that nv_tileaa has under a name of its own, with the same attributes."""


def declared_attributes(op: CudaTileOp) -> dict[str, Any]:
    """The values of an op's declared attributes, defaults included; absent ones left out."""
    values = {a.name: op.attribute_value(a.name) for a in op.spec.attributes}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def _result_type(op: CudaTileOp) -> Attribute:
    return convert_type(op.results[0].type)


@rule(*PLAIN)
def _plain(c: Context, op: CudaTileOp) -> None:
    c.bind(op.results[0], c.builtin(PLAIN[op.spec.name], c.all(op.operands), _result_type(op)))


@rule("absi")
def _absolute(c: Context, op: CudaTileOp) -> None:
    from xdsl.dialects import (
        math,
    )  # for this op alone: importing it takes longer than a small kernel's whole conversion

    c.bind(op.results[0], c.builtin(math.AbsIOp, c.all(op.operands), _result_type(op)))


@rule(*WRAPPING)
def _wrapping(c: Context, op: CudaTileOp) -> None:
    flags = arith.IntegerOverflowAttr(_OVERFLOW[op.attribute_value("overflow")])
    result = c.builtin(WRAPPING[op.spec.name], c.all(op.operands), _result_type(op), {"overflowFlags": flags})
    c.bind(op.results[0], result)


@rule("negi")
def _negate(c: Context, op: CudaTileOp) -> None:
    type_ = _result_type(op)
    flags = arith.IntegerOverflowAttr(_OVERFLOW[op.attribute_value("overflow")])
    operands = [c.zero(type_), c.get(op.operand("source"))]
    c.bind(op.results[0], c.builtin(arith.SubiOp, operands, type_, {"overflowFlags": flags}))


@rule(*BY_SIGN)
def _by_sign(c: Context, op: CudaTileOp) -> None:
    signed, unsigned = BY_SIGN[op.spec.name]
    cls = signed if op.attribute_value("signedness") == "signed" else unsigned
    c.bind(op.results[0], c.builtin(cls, c.all(op.operands), _result_type(op)))


@rule("divi")
def _divide(c: Context, op: CudaTileOp) -> None:
    cls = DIVISIONS.get((op.attribute_value("signedness"), op.attribute_value("rounding")))
    if cls is None:
        raise unsupported(op, "has no such rounding", c.target.name)
    c.bind(op.results[0], c.builtin(cls, c.all(op.operands), _result_type(op)))


@rule("cmpi")
def _compare_integers(c: Context, op: CudaTileOp) -> None:
    table = SIGNED if op.attribute_value("signedness") == "signed" else UNSIGNED
    number = IntegerAttr(table[op.attribute_value("comparison_predicate")], i64)
    c.bind(op.results[0], c.builtin(arith.CmpiOp, c.all(op.operands), _result_type(op), {"predicate": number}))


@rule("cmpf")
def _compare_floats(c: Context, op: CudaTileOp) -> None:
    table = ORDERED if op.attribute_value("comparison_ordering") == "ordered" else UNORDERED
    number = IntegerAttr(table[op.attribute_value("comparison_predicate")], i64)
    c.bind(op.results[0], c.builtin(arith.CmpfOp, c.all(op.operands), _result_type(op), {"predicate": number}))


@rule(*FLOATS)
def _float(c: Context, op: CudaTileOp) -> None:
    attributes = declared_attributes(op)
    if attributes.get("propagate_nan"):
        attributes["propagate_nan"] = "all"
    result = c.one(OPS[op.spec.name], c.all(op.operands), _result_type(op), **attributes)
    c.bind(op.results[0], result)


@rule(*CONVERSIONS)
def _conversion(c: Context, op: CudaTileOp) -> None:
    result = c.one(CONVERSIONS[op.spec.name], c.all(op.operands), _result_type(op), **declared_attributes(op))
    c.bind(op.results[0], result)


@rule("ftof")
def _between_floats(c: Context, op: CudaTileOp) -> None:
    c.bind(op.results[0], c.float_conversion(c.get(op.operand("from")), _result_type(op), **declared_attributes(op)))


@rule("ftoi", "itof")
def _between_numbers(c: Context, op: CudaTileOp) -> None:
    attributes = declared_attributes(op)
    attributes["unsigned"] = attributes.pop("signedness") == "unsigned"
    cls = FpToIntOp if op.spec.name == "ftoi" else IntToFpOp
    c.bind(op.results[0], c.one(cls, c.all(op.operands), _result_type(op), **attributes))


@rule("pack", "unpack")
def _packing(c: Context, op: CudaTileOp) -> None:
    c.bind(op.results[0], c.one(BitcastOp, c.all(op.operands), _result_type(op), packed=True))
