# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise ops: rows of tables that name the emission function and the attributes it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from libtile.codegen import compare, conversions, floats, integers, math_functions
from libtile.codegen.builder import Value, integer
from libtile.codegen.llvm_types import IntType
from libtile.codegen.tile import map_tiles
from libtile.lowering.errors import unsupported
from libtile.lowering.to_llvm.emitter import Emitter, rule

Function = Callable[..., Value]

INTEGERS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "divsi": (integers.div, ("signed", "zero")),
    "divui": (integers.div, ("unsigned", "zero")),
    "floordivsi": (integers.div, ("signed", "negative_inf")),
    "ceildivsi": (integers.div, ("signed", "positive_inf")),
    "ceildivui": (integers.div, ("unsigned", "positive_inf")),
    "remsi": (integers.rem, ("signed",)),
    "remui": (integers.rem, ("unsigned",)),
    "maxsi": (integers.max_, ("signed",)),
    "maxui": (integers.max_, ("unsigned",)),
    "minsi": (integers.min_, ("signed",)),
    "minui": (integers.min_, ("unsigned",)),
    "shrsi": (integers.shr, ("signed",)),
    "shrui": (integers.shr, ("unsigned",)),
    "andi": (integers.and_, ()),
    "ori": (integers.or_, ()),
    "xori": (integers.xor, ()),
}
"""Ops of arith without attributes: the function and the arguments that the op's name stands for."""

WRAPPING: dict[str, Function] = {
    "addi": integers.add,
    "subi": integers.sub,
    "muli": integers.mul,
    "shli": integers.shl,
}
"""Ops of arith with overflow flags."""

COMPARISONS = ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal")
_CMPI = [(c, "signed") for c in COMPARISONS] + [(c, "unsigned") for c in COMPARISONS[2:]]
_CMPF = {1: 0, 6: 1, 4: 2, 5: 3, 2: 4, 3: 5, 8: 0, 13: 1, 11: 2, 12: 3, 9: 4, 10: 5}
_FIRST_UNORDERED = 8

FLOATS: dict[str, tuple[Function, str]] = {
    "addf": (floats.add, "rounding flush"),
    "subf": (floats.sub, "rounding flush"),
    "mulf": (floats.mul, "rounding flush"),
    "divf": (floats.div, "rounding flush"),
    "fma": (floats.fma, "rounding flush"),
    "sqrt": (floats.sqrt, "rounding flush"),
    "maxf": (floats.max_, "nan flush"),
    "minf": (floats.min_, "nan flush"),
    "remf": (floats.rem, ""),
    "negf": (floats.neg, ""),
    "absf": (floats.abs_, ""),
    "ceil": (floats.ceil, ""),
    "floor": (floats.floor, ""),
    "rsqrt": (math_functions.rsqrt, "flush"),
    "exp2": (math_functions.exp2, "flush"),
    "exp": (math_functions.exp, "full"),
    "tanh": (math_functions.tanh, "full"),
    "log": (math_functions.log, ""),
    "log2": (math_functions.log2, ""),
    "sin": (math_functions.sin, ""),
    "cos": (math_functions.cos, ""),
    "tan": (math_functions.tan, ""),
    "sinh": (math_functions.sinh, ""),
    "cosh": (math_functions.cosh, ""),
    "pow": (math_functions.pow_, ""),
    "fpowi": (math_functions.fpowi, ""),
    "atan2": (math_functions.atan2, ""),
    "mulhiui": (integers.mulhi, ""),
}
"""Ops of nv_tileaa: the function and the attributes that it takes, in order."""

_ATTRIBUTES: dict[str, Callable[[Operation], Any]] = {
    "rounding": lambda op: Emitter.attribute(op, "rounding_mode", "nearest_even"),
    "full": lambda op: Emitter.attribute(op, "rounding_mode", "full"),
    "flush": lambda op: Emitter.attribute(op, "flush_to_zero", False),
    "nan": lambda op: Emitter.attribute(op, "propagate_nan", "none") == "all",
}


def apply(e: Emitter, op: Operation, function: Function, *arguments: Any) -> None:
    """Bind the op's result to a function of its operands: element by element for tiles."""
    result = op.results[0]
    held = [e.held[v] for v in op.operands]
    if all(isinstance(h, Value) for h in held):
        e.bind(result, function(e.b, *held, *arguments))
        return
    tiles = [e.tile(v) for v in op.operands]
    e.bind(result, map_tiles(lambda *rs: function(e.b, *rs, *arguments), *tiles, element=e.element(result)))


@rule(*(f"arith.{name}" for name in INTEGERS))
def _integer(e: Emitter, op: Operation) -> None:
    function, arguments = INTEGERS[op.name.removeprefix("arith.")]
    apply(e, op, function, *arguments)


@rule(*(f"arith.{name}" for name in WRAPPING))
def _wrapping(e: Emitter, op: Operation) -> None:
    apply(e, op, WRAPPING[op.name.removeprefix("arith.")], _overflow(op))


def _overflow(op: Operation) -> str:
    attr = op.properties.get("overflowFlags")
    flags = {str(f.value) for f in attr.data} if isinstance(attr, arith.IntegerOverflowAttr) else set()
    if flags >= {"nsw", "nuw"}:
        return "no_wrap"
    return "no_signed_wrap" if "nsw" in flags else "no_unsigned_wrap" if "nuw" in flags else "none"


@rule("math.absi")
def _absolute(e: Emitter, op: Operation) -> None:
    apply(e, op, integers.abs_)


@rule("arith.cmpi")
def _compare_integers(e: Emitter, op: Operation) -> None:
    predicate, signedness = _CMPI[e.attribute(op, "predicate")]
    apply(e, op, compare.compare_integers, predicate, signedness)


@rule("arith.cmpf")
def _compare_floats(e: Emitter, op: Operation) -> None:
    number = e.attribute(op, "predicate")
    ordering = "ordered" if number < _FIRST_UNORDERED else "unordered"
    apply(e, op, compare.compare_floats, COMPARISONS[_CMPF[number]], ordering)


@rule("arith.select")
def _select(e: Emitter, op: Operation) -> None:
    apply(e, op, compare.select)


@rule("arith.constant")
def _scalar_constant(e: Emitter, op: Operation) -> None:
    value = op.properties["value"]
    if not isinstance(value, IntegerAttr):
        raise unsupported(op, "cannot be compiled", e.b.target.name)
    width = getattr(value.type, "width", None)
    e.bind(op.results[0], integer(IntType(width.data if width is not None else 64), value.value.data))


@rule("arith.index_cast")
def _index_cast(e: Emitter, op: Operation) -> None:
    source = e.scalar(op.operands[0])
    width = getattr(op.results[0].type, "width", None)
    bits = width.data if width is not None else 64
    e.bind(op.results[0], e.b.cast("sext" if bits > integers.width(source) else "trunc", source, IntType(bits)))


@rule("arith.extsi", "arith.extui")
def _extend(e: Emitter, op: Operation) -> None:
    source, result = e.element(op.operands[0]), e.element(op.results[0])
    apply(e, op, conversions.exti, source, result, "signed" if op.name == "arith.extsi" else "unsigned")


@rule("arith.trunci")
def _truncate(e: Emitter, op: Operation) -> None:
    apply(e, op, conversions.trunci, e.element(op.operands[0]), e.element(op.results[0]), _overflow(op))


@rule(*(f"nv_tileaa.{name}" for name in FLOATS))
def _float(e: Emitter, op: Operation) -> None:
    function, attributes = FLOATS[op.name.removeprefix("nv_tileaa.")]
    apply(e, op, function, *(_ATTRIBUTES[a](op) for a in attributes.split()))


@rule("nv_tileaa.fp_to_fp", "nv_tileaa.emulated_fp_to_fp")
def _fp_to_fp(e: Emitter, op: Operation) -> None:
    source, result = e.element(op.operands[0]), e.element(op.results[0])
    mode = e.attribute(op, "rounding_mode", "nearest_even")
    tile = e.tile(op.operands[0])
    registers = conversions.ftof_all(e.b, list(tile.registers), source, result, mode)
    e.bind(op.results[0], tile.with_registers(registers, result))


@rule("nv_tileaa.int_to_fp")
def _int_to_fp(e: Emitter, op: Operation) -> None:
    sign = "unsigned" if e.attribute(op, "unsigned") else "signed"
    mode = e.attribute(op, "rounding_mode", "nearest_even")
    apply(e, op, conversions.itof, e.element(op.results[0]), sign, mode)


@rule("nv_tileaa.fp_to_int")
def _fp_to_int(e: Emitter, op: Operation) -> None:
    sign = "unsigned" if e.attribute(op, "unsigned") else "signed"
    source, result = e.element(op.operands[0]), e.element(op.results[0])
    apply(e, op, conversions.ftoi, source, result, sign, e.attribute(op, "saturating", False))


@rule("nv_tileaa.ptr_to_int")
def _ptr_to_int(e: Emitter, op: Operation) -> None:
    apply(e, op, conversions.ptr_to_int)


@rule("nv_tileaa.int_to_ptr")
def _int_to_ptr(e: Emitter, op: Operation) -> None:
    apply(e, op, conversions.int_to_ptr)
