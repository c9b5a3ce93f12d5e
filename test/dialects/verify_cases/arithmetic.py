# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from typing import Any

from dialects.building import Body, tile
from dialects.verify_cases.case import Cases, Fill
from libtile.spec import default_spec

CASES = Cases()

IEEE = ("nearest_even", "zero", "negative_inf", "positive_inf")
MODES = tuple(default_spec().enums["RoundingMode"].by_keyword)
F32, F64, I32 = tile("f32", 4), tile("f64", 4), tile("i32", 4)


def op(name: str, type_: Any, **attributes: Any) -> Fill:
    """The op on constants of one type."""
    operands = [v.name for v in default_spec().ops[name].operands]

    def fill(b: Body) -> None:
        b.op(name, {n: b.constant(type_, 1) for n in operands}, [type_], attributes=attributes)

    return fill


def rounding(name: str, allowed: tuple[str, ...], listed: str) -> None:
    for mode in MODES:
        fill = op(name, F32, rounding_mode=mode)
        if mode in allowed:
            CASES.good(f"{name}-{mode}", fill)
        else:
            CASES.bad(f"{name}-{mode}", f"{name}: invalid rounding mode specified, expect one of [{listed}]", fill)


for name in ("addf", "subf", "mulf", "fma"):
    rounding(name, IEEE, ", ".join(IEEE))
    for type_name in ("f16", "bf16", "f64"):
        CASES.bad(
            f"{name}-ftz-{type_name}",
            f"{name}: flush_to_zero modifier only supported for f32 data type, but got: '{type_name}'",
            op(name, tile(type_name, 4), rounding_mode="zero", flush_to_zero=True),
        )
    CASES.good(f"{name}-ftz-f32", op(name, F32, rounding_mode="zero", flush_to_zero=True))

rounding("divf", (*IEEE, "approx", "full"), ", ".join((*IEEE, "approx", "full")))
rounding("sqrt", (*IEEE, "approx"), ", ".join((*IEEE, "approx")))
for name, mode in (("divf", "approx"), ("divf", "full"), ("sqrt", "approx"), ("exp", "approx"), ("tanh", "approx")):
    CASES.bad(
        f"{name}-{mode}-f64",
        f"{name}: {mode} modifier only supported for f32 data type, but got: 'f64'",
        op(name, F64, rounding_mode=mode),
    )
for name in ("exp", "tanh"):
    rounding(name, ("approx", "full"), "approx, full")
    CASES.good(f"{name}-default", op(name, F64))
for name in ("exp2", "rsqrt", "maxf", "minf"):
    CASES.good(f"{name}-ftz-f32", op(name, F32, flush_to_zero=True))
    CASES.good(f"{name}-f64", op(name, F64))
    CASES.bad(
        f"{name}-ftz-f64",
        f"{name}: flush_to_zero modifier only supported for f32 data type, but got: 'f64'",
        op(name, F64, flush_to_zero=True),
    )

for mode in MODES:
    fill = op("divi", I32, signedness="signed", rounding=mode)
    if mode in ("zero", "negative_inf", "positive_inf"):
        CASES.good(f"divi-{mode}", fill)
    else:
        message = "divi: invalid rounding mode specified, expect one of [zero, negative_inf, positive_inf]"
        CASES.bad(f"divi-{mode}", message, fill)
CASES.good("divi-unsigned-ceil", op("divi", I32, signedness="unsigned", rounding="positive_inf"))
CASES.bad(
    "divi-unsigned-floor",
    "divi: rounding mode 'negative_inf' is not allowed with 'unsigned' flag",
    op("divi", I32, signedness="unsigned", rounding="negative_inf"),
)
for overflow in ("none", "no_signed_wrap", "no_wrap"):
    CASES.good(f"negi-{overflow}", op("negi", I32, overflow=overflow))
CASES.bad(
    "negi-nuw", "negi: 'no_unsigned_wrap' overflow flag is not supported", op("negi", I32, overflow="no_unsigned_wrap")
)

# -- what declarations say ------------------------------------------------------------------------------------------

INTEGERS = "tile of i1 or i8 or i16 or i32 or i64 values"
FLOATS = "tile of f16 or bf16 or f32 or f64 values"
CASES.bad("addi-float", f"addi: operand #0 must be {INTEGERS}, but got '!cuda_tile.tile<4xf32>'", op("addi", F32))
CASES.bad(
    "addf-integer",
    f"addf: operand #0 must be {FLOATS}, but got '!cuda_tile.tile<4xi32>'",
    op("addf", I32, rounding_mode="zero"),
)
CASES.bad(
    "sin-f8", f"sin: operand #0 must be {FLOATS}, but got '!cuda_tile.tile<4xf8E5M2>'", op("sin", tile("f8E5M2", 4))
)


def mixed(name: str, types: tuple[Any, ...], result: Any, **attributes: Any) -> Fill:
    names = [v.name for v in default_spec().ops[name].operands]

    def fill(b: Body) -> None:
        operands = {n: b.constant(t, 1) for n, t in zip(names, types, strict=True)}
        b.op(name, operands, [result], attributes=attributes)

    return fill


SAME = "failed to verify that all of {%s} have same type"
CASES.bad("addi-mixed", "addi: " + SAME % "lhs, rhs, result", mixed("addi", (I32, tile("i64", 4)), I32))
CASES.bad("addi-result", "addi: " + SAME % "lhs, rhs, result", mixed("addi", (I32, I32), tile("i32", 2)))
CASES.bad("absf-result", "absf: " + SAME % "source, result", mixed("absf", (F32,), F64))
CASES.bad("pow-mixed", "pow: " + SAME % "result, source, exponent", mixed("pow", (F32, F64), F32))
CASES.bad("fpowi-result", "fpowi: " + SAME % "result, source", mixed("fpowi", (F32, I32), F64))
CASES.bad(
    "fpowi-shape",
    "fpowi: failed to verify that all of {source, exponent} have same shape",
    mixed("fpowi", (F32, tile("i32")), F32),
)
CASES.bad(
    "fpowi-i64",
    "fpowi: operand #1 must be tile of i1 or i8 or i16 or i32 values, but got '!cuda_tile.tile<4xi64>'",
    mixed("fpowi", (F32, tile("i64", 4)), F32),
)
for exponent in ("i1", "i8", "i16", "i32"):
    CASES.good(f"fpowi-{exponent}", mixed("fpowi", (F32, tile(exponent, 4)), F32))
COMPARE = {"comparison_predicate": "less_than"}
SHAPE = "failed to verify that Result type has i1 element type and same shape as operands"
CASES.good("cmpi", mixed("cmpi", (I32, I32), tile("i1", 4), signedness="signed", **COMPARE))
CASES.bad("cmpi-shape", "cmpi: " + SHAPE, mixed("cmpi", (I32, I32), tile("i1", 2), signedness="signed", **COMPARE))
CASES.bad(
    "cmpf-mixed",
    "cmpf: " + SAME % "lhs, rhs",
    mixed("cmpf", (F32, F64), tile("i1", 4), comparison_ordering="ordered", **COMPARE),
)
CASES.bad(
    "cmpf-shape", "cmpf: " + SHAPE, mixed("cmpf", (F32, F32), tile("i1", 2), comparison_ordering="ordered", **COMPARE)
)
CASES.bad("addf-no-rounding", "addf: requires attribute 'rounding_mode'", op("addf", F32), oracle="absent")
CASES.bad(
    "cmpi-no-signedness",
    "cmpi: requires attribute 'signedness'",
    mixed("cmpi", (I32, I32), tile("i1", 4), **COMPARE),
    oracle="absent",
)
