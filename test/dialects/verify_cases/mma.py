# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from typing import Any

from dialects.building import Body, tile
from dialects.verify_cases.case import Cases, Fill

CASES = Cases()


def mma(name: str, *types: Any, **attributes: Any) -> Fill:
    names = ("lhs", "rhs", "acc", "lhs_scale", "rhs_scale")

    def fill(b: Body) -> None:
        operands = {n: b.constant(t) for n, t in zip(names, types)}
        b.op(name, operands, [types[2]], attributes=attributes)

    return fill


def square(operand: str, acc: str) -> Fill:
    return mma("mmaf", tile(operand, 2, 2), tile(operand, 2, 2), tile(acc, 2, 2))


ALLOWED = {
    "f8E4M3FN": ["f16", "f32"], "f8E5M2": ["f16", "f32"], "f16": ["f16", "f32"], "bf16": ["f32"], "tf32": ["f32"],
    "f32": ["f32"], "f64": ["f64"],
}  # fmt: skip
for operand, accs in ALLOWED.items():
    for acc in ("f16", "f32", "f64"):
        if acc in accs:
            CASES.good(f"mmaf-{operand}-{acc}", square(operand, acc))
            continue
        listed = ", ".join(f"'{a}'" for a in accs)
        CASES.bad(
            f"mmaf-{operand}-{acc}",
            f"mmaf: unsupported combination of element types. Input type '{operand}' expects accumulator/result type "
            f"to be one of {{{listed}}}, but got '{acc}'",
            square(operand, acc),
        )
CASES.bad(
    "mmaf-bf16-bf16",
    "mmaf: operand #2 must be mmaf acc/result tile type of f16 or f32 or f64 values, "
    "but got '!cuda_tile.tile<2x2xbf16>'",
    square("bf16", "bf16"),
)
CASES.good("mmaf-fast", mma("mmaf", tile("f8E5M2", 2, 2), tile("f8E5M2", 2, 2), tile("f32", 2, 2), fast_acc=True))


def f(*shape: int) -> Any:
    return tile("f32", *shape)


CASES.good("mmaf-batch", mma("mmaf", f(2, 4, 8), f(2, 8, 16), f(2, 4, 16)))
CASES.bad("mmaf-1d", "mmaf: operands must be 2D or 3D tiles", mma("mmaf", f(4), f(4), f(4)))
CASES.bad(
    "mmaf-mixed",
    "mmaf: failed to verify that all of {lhs, rhs} have the same element type",
    mma("mmaf", f(2, 2), tile("f16", 2, 2), f(2, 2)),
)
CASES.bad(
    "mmaf-rank",
    "mmaf: failed to verify that all of {lhs, rhs, acc} have same rank",
    mma("mmaf", f(2, 2), f(2, 2, 2), f(2, 2)),
)
for name, shapes, tail in (
    (
        "k",
        ((4, 16), (8, 16), (4, 16)),
        " dim 1 of lhs (16) and dim 0 of rhs (8) must match, but got lhs shape (4, 16) and rhs shape (8, 16)",
    ),
    (
        "m",
        ((16, 8), (8, 16), (4, 16)),
        " dim 0 of lhs (16) and dim 0 of acc (4) must match, but got lhs shape (16, 8) and acc shape (4, 16)",
    ),
    (
        "n",
        ((4, 8), (8, 16), (4, 32)),
        " dim 1 of rhs (16) and dim 1 of acc (32) must match, but got rhs shape (8, 16) and acc shape (4, 32)",
    ),
):
    CASES.bad(f"mmaf-{name}", f"mmaf:  shape error:{tail}", mma("mmaf", *(f(*s) for s in shapes)))
CASES.bad(
    "mmaf-batch-acc",
    "mmaf: shape error: dim 0 of lhs (2) and dim 0 of acc (4) must match, "
    "but got lhs shape (2, 4, 8) and acc shape (4, 4, 16)",
    mma("mmaf", f(2, 4, 8), f(2, 8, 16), f(4, 4, 16)),
)

SIGNS = {"signedness_lhs": "signed", "signedness_rhs": "unsigned"}
CASES.good("mmai", mma("mmai", tile("i8", 2, 4), tile("i8", 4, 2), tile("i32", 2, 2), **SIGNS))
CASES.bad(
    "mmai-i16",
    "mmai: operand #0 must be mmai operand tile type of i8 values, but got '!cuda_tile.tile<2x2xi16>'",
    mma("mmai", tile("i16", 2, 2), tile("i16", 2, 2), tile("i32", 2, 2), **SIGNS),
)
CASES.bad(
    "mmai-k",
    "mmai:  shape error: dim 1 of lhs (4) and dim 0 of rhs (2) must match, "
    "but got lhs shape (2, 4) and rhs shape (2, 2)",
    mma("mmai", tile("i8", 2, 4), tile("i8", 2, 2), tile("i32", 2, 2), **SIGNS),
)


def scaled(operand: str, scale: str, block: int, k: int = 128, rhs_block: int | None = None, m: int = 16) -> Fill:
    return mma(
        "mmaf_scaled",
        tile(operand, 16, k), tile(operand, k, 32), f(16, 32),
        tile(scale, m, k // block), tile(scale, k // (rhs_block or block), 32),
    )  # fmt: skip


for operand, scale, blocks, words in (
    ("f8E4M3FN", "f8E8M0FNU", (32,), "f8 element type requires block scale factor of lhs_scale and rhs_scale to be 32"),
    ("f8E5M2", "f8E8M0FNU", (32,), "f8 element type requires block scale factor of lhs_scale and rhs_scale to be 32"),
    (
        "f4E2M1FN", "f8E8M0FNU", (16, 32),
        "f4E2M1FN element type with f8E8M0FNU scales requires block scale factor of lhs_scale and rhs_scale "
        "to be 16 or 32",
    ),
    (
        "f4E2M1FN", "f8E4M3FN", (16,),
        "f4E2M1FN element type with f8E4M3FN scales requires block scale factor of lhs_scale and rhs_scale to be 16",
    ),
):  # fmt: skip
    for block in (8, 16, 32, 64):
        name = f"mmaf_scaled-{operand}-{scale}-{block}"
        if block in blocks:
            CASES.good(name, scaled(operand, scale, block))
        else:
            CASES.bad(name, f"mmaf_scaled: shape error: {words}, but got {block}", scaled(operand, scale, block))
CASES.bad(
    "mmaf_scaled-f8-f8",
    "mmaf_scaled: unsupported combination of element types. Scale type 'f8E4M3FN' expects lhs and rhs element types "
    "to be 'f4E2M1FN', but got 'f8E4M3FN'",
    scaled("f8E4M3FN", "f8E4M3FN", 16),
)
CASES.bad(
    "mmaf_scaled-scales",
    "mmaf_scaled: shape error: dim 1 of lhs_scale (4) and dim 0 of rhs_scale (8) must match, "
    "but got lhs_scale shape (16, 4) and rhs_scale shape (8, 32)",
    scaled("f8E5M2", "f8E8M0FNU", 32, rhs_block=16),
)
CASES.bad(
    "mmaf_scaled-m",
    "mmaf_scaled: shape error: dim 0 of lhs (16) and dim 0 of lhs_scale (8) must match, "
    "but got lhs shape (16, 128) and lhs_scale shape (8, 4)",
    scaled("f8E5M2", "f8E8M0FNU", 32, m=8),
)
