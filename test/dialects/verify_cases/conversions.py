# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from dialects.building import Body, tile
from dialects.verify_cases.case import Cases, Fill
from libtile.dialects.cuda_tile.types import NUMBER_TYPES

CASES = Cases()


def convert(name: str, source: Any, result: Any, operand: str = "from", **attributes: Any) -> Fill:
    return lambda b: b.op(name, {operand: value(b, source)}, [result], attributes=attributes)


def value(b: Body, type_: Any) -> SSAValue:
    """A value of the type; no constant is of i4."""
    if type_.element_type == NUMBER_TYPES["i4"]:
        return b.value("unpack", {"source": b.constant(tile("i8", 1))}, type_)
    return b.constant(type_, 1)


def types(*names: str) -> tuple[Any, ...]:
    return tuple(tile(n, 2) for n in names)


for source, result in (("i8", "i32"), ("i1", "i8"), ("i4", "i8")):
    CASES.good(f"exti-{source}-{result}", convert("exti", *types(source, result), signedness="signed"))
    CASES.good(f"trunci-{result}-{source}", convert("trunci", *types(result, source)))
for source, result in (("i32", "i32"), ("i32", "i8"), ("i8", "i4")):
    message = "exti: extending to smaller or identical integer"
    CASES.bad(f"exti-{source}-{result}", message, convert("exti", *types(source, result), signedness="signed"))
    message = "trunci: truncating to larger or identical integer"
    CASES.bad(f"trunci-{result}-{source}", message, convert("trunci", *types(result, source)))

for source, result in (("f32", "i32"), ("bf16", "f16"), ("f8E5M2", "i8")):
    CASES.good(f"bitcast-{source}-{result}", convert("bitcast", *types(source, result), operand="source"))
CASES.bad(
    "bitcast-width",
    "bitcast: types must be equal width, cannot convert '!cuda_tile.tile<2xf32>' of width 32 "
    "to type '!cuda_tile.tile<2xi64>' of width 64",
    convert("bitcast", *types("f32", "i64"), operand="source"),
)
CASES.bad(
    "bitcast-shape",
    "bitcast: failed to verify that all of {source, result} have same shape",
    convert("bitcast", tile("f32", 2), tile("i32", 4), operand="source"),
)
CASES.bad(
    "bitcast-i4",
    "bitcast: operand #0 must be tile of i1 or i8 or i16 or i32 or i64 or f16 or bf16 or f32 or f64 or tf32 or "
    "f8E4M3FN or f8E5M2 or f8E8M0FNU or f4E2M1FN values, but got '!cuda_tile.tile<2xi4>'",
    convert("bitcast", *types("i4", "f4E2M1FN"), operand="source"),
    oracle="refuses",
)

CASES.good("itof", convert("itof", *types("i32", "f32"), signedness="signed", rounding_mode="nearest_even"))
CASES.bad(
    "itof-zero",
    "itof: invalid rounding mode specified. Only 'nearest_even' is supported",
    convert("itof", *types("i32", "f32"), signedness="signed", rounding_mode="zero"),
)
CASES.bad(
    "itof-e8m0",
    "itof: integer to f8E8M0FNU conversion is not supported, please first convert to another float type",
    convert("itof", *types("i32", "f8E8M0FNU"), signedness="signed", rounding_mode="nearest_even"),
)
TO_ZERO = {"signedness": "signed", "rounding_mode": "nearest_int_to_zero"}
CASES.good("ftoi", convert("ftoi", *types("f32", "i32"), **TO_ZERO))
CASES.good("ftoi-saturating", convert("ftoi", *types("f32", "i32"), saturating=True, **TO_ZERO))
CASES.bad(
    "ftoi-even",
    "ftoi: invalid rounding mode specified. Only 'nearest_int_to_zero' is supported",
    convert("ftoi", *types("f32", "i32"), signedness="signed", rounding_mode="nearest_even"),
)
CASES.bad(
    "ftoi-i4",
    "ftoi: result #0 must be tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<2xi4>'",
    convert("ftoi", *types("f32", "i4"), **TO_ZERO),
)
CASES.bad("ftof-no-op", "ftof: converting tiles must not be a no-op", convert("ftof", *types("f32", "f32")))
CASES.good("ftof-default", convert("ftof", *types("f32", "f16")))

# The rounding modes of each conversion, as the reference disassembler of 13.5 takes them.
ALL = ["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full", "nearest_int_to_zero", "nearest_away"]
IEEE = ALL[:4]
FAMILIES: tuple[tuple[tuple[tuple[str, str], ...], list[str], str], ...] = (
    (
        (("f32", "f8E8M0FNU"), ("f8E4M3FN", "f8E8M0FNU"), ("f16", "f8E8M0FNU")),
        ["zero", "positive_inf"],
        " for conversion to f8E8M0FNU. Only 'zero' and 'positive_inf' are supported",
    ),
    (
        (("f32", "f8E4M3FN"), ("f8E4M3FN", "f8E5M2"), ("f8E8M0FNU", "f8E5M2"), ("f64", "f4E2M1FN")),
        ["nearest_even"],
        " for conversion to low-precision type. Only 'nearest_even' is supported",
    ),
    (
        (("f32", "tf32"),),
        ["nearest_even", "zero", "nearest_away"],
        " for conversion from f32 to tf32. Only 'nearest_even', 'zero', and 'nearest_away' are supported",
    ),
    (
        (("f64", "f32"),),
        IEEE,
        " for conversion from f64 to f32. "
        "Only 'nearest_even', 'zero', 'negative_inf', and 'positive_inf' are supported",
    ),
    (
        (("f16", "f32"), ("bf16", "tf32"), ("f8E5M2", "f16"), ("f8E4M3FN", "bf16"), ("f8E8M0FNU", "f64")),
        [*IEEE, "nearest_away"],
        " for widening conversion. Only IEEE float rounding modes are supported: "
        "'nearest_even', 'zero', 'negative_inf', 'positive_inf', 'nearest_away'",
    ),
    (
        (("f32", "f16"), ("f16", "bf16"), ("bf16", "f16"), ("f64", "tf32"), ("f8E8M0FNU", "f32")),
        ["nearest_even", "zero"],
        ". Only 'nearest_even' and 'zero' are supported for narrowing conversions to standard types",
    ),
)
for pairs, allowed, tail in FAMILIES:
    for source, result in pairs:
        for mode in ALL:
            fill = convert("ftof", *types(source, result), rounding_mode=mode)
            if mode in allowed:
                CASES.good(f"ftof-{source}-{result}-{mode}", fill)
            else:
                CASES.bad(f"ftof-{source}-{result}-{mode}", f"ftof: invalid rounding mode specified{tail}", fill)


def pointers(b: Body) -> None:
    number = b.value("ptr_to_int", {"source": b.args[0]}, tile("i64"))
    pointer = b.value("int_to_ptr", {"source": number}, tile("ptr<i8>"))
    b.op("ptr_to_ptr", {"source": pointer}, [tile("ptr<f32>")])


CASES.good("pointers", pointers, tile("ptr<f32>"))
CASES.bad(
    "int-to-ptr-i32",
    "int_to_ptr: operand #0 must be tile of i64 values, but got '!cuda_tile.tile<2xi32>'",
    convert("int_to_ptr", tile("i32", 2), tile("ptr<f32>", 2), operand="source"),
)
CASES.bad(
    "ptr-to-int-f32",
    "ptr_to_int: operand #0 must be tile of Pointer type values, but got '!cuda_tile.tile<2xf32>'",
    convert("ptr_to_int", *types("f32", "i64"), operand="source"),
)
