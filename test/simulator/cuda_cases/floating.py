# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Binary32 and binary64 arithmetic, against exact fractions rounded once (PTX ISA, Floating Point Instructions)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import exact
from .exact import F32, F64, Format, flush, saturate
from .table import Array, Close, Family, Launch, Source, per_lane, slots

FLOATING = Family(Source("floating"))
FLUSHED = Family(Source("flushed", ("-ftz=true", "-prec-div=false", "-prec-sqrt=false", "-fmad=false")))

MODES = ("rn", "rz", "rp", "rm")


def spread(rng: np.random.Generator, count: int, dtype: Any, low: int, high: int) -> Array:
    """Random finite non-zero numbers: uniform significands, exponents in [low, high), both signs."""
    values = rng.uniform(1, 2, count) * rng.choice([-1.0, 1.0], count)
    return np.ldexp(values, rng.integers(low, high, count)).astype(dtype)


def rounding_operands(rng: np.random.Generator, form: Format, dtype: Any) -> tuple[Array, Array, Array]:
    """Operands near the cases that tell rounding modes apart: ties, cancellation, subnormals, overflow."""
    a, b, c = (spread(rng, 96, dtype, -12, 12) for _ in range(3))
    tiny, huge = form.lowest, form.highest
    a[32:48], b[32:48] = spread(rng, 16, dtype, tiny - 6, tiny + 3), spread(rng, 16, dtype, tiny - 6, tiny + 3)
    b[32:40] = spread(rng, 8, dtype, -3, 3)
    a[48:56], b[48:56] = spread(rng, 8, dtype, huge - 1, huge + 1), spread(rng, 8, dtype, -1, 2)
    c[48:56] = spread(rng, 8, dtype, huge - 1, huge + 1)
    half_ulp = np.ldexp(1.0, -form.precision)
    a[56:64] = [1, -1, 1, -1, 1 + 2 * half_ulp, 1, 3, 0]
    b[56:64] = [half_ulp, half_ulp, -half_ulp / 2, half_ulp, half_ulp, -1, 3, 5]
    c[56:64] = [0, -0.0, 1, -1, half_ulp, 1, -9, -0.0]
    c[64:80] = (-(a[64:80].astype(np.float64) * b[64:80])).astype(dtype)
    return a, b, c


def round_modes(a: Array, b: Array, c: Array, form: Format, dtype: Any) -> Array:
    """The slots of f32_round_modes and f64_round_modes."""

    def formula(x: float, y: float, z: float) -> list[float]:
        magnitude = abs(x)
        operations: list[Callable[[str], float]] = [
            lambda mode: exact.add(x, y, form, mode),
            lambda mode: exact.add(x, -y, form, mode),
            lambda mode: exact.mul(x, y, form, mode),
            lambda mode: exact.fma(x, y, z, form, mode),
            lambda mode: exact.div(x, y, form, mode),
            lambda mode: exact.div(1.0, y, form, mode),
            lambda mode: exact.sqrt(magnitude, form, mode),
        ]
        return [operation(mode) for operation in operations for mode in MODES]

    return per_lane(formula, [a, b, c], dtype)


@FLOATING.add(block=96)
def f32_round_modes(rng: np.random.Generator) -> Launch:
    a, b, c = rounding_operands(rng, F32, np.float32)
    return Launch([np.zeros(28 * 96, np.float32), a, b, c], {0: round_modes(a, b, c, F32, np.float32)})


@FLOATING.add(block=96)
def f64_round_modes(rng: np.random.Generator) -> Launch:
    a, b, c = rounding_operands(rng, F64, np.float64)
    return Launch([np.zeros(28 * 96, np.float64), a, b, c], {0: round_modes(a, b, c, F64, np.float64)})


def subnormal_operands(rng: np.random.Generator) -> tuple[Array, Array, Array]:
    a, b, c = (spread(rng, 64, np.float32, -8, 8) for _ in range(3))
    a[:24], b[12:36] = spread(rng, 24, np.float32, -140, -120), spread(rng, 24, np.float32, -132, -122)
    a[36:48], b[36:48] = spread(rng, 12, np.float32, -72, -60), spread(rng, 12, np.float32, -68, -56)
    c[24:48] = spread(rng, 24, np.float32, -138, -120)
    return a, b, c


@FLOATING.add(block=64)
def f32_ftz(rng: np.random.Generator) -> Launch:
    a, b, c = subnormal_operands(rng)
    # Division and reciprocal by a flushed zero are infinities; keep those to the special-value kernels.
    b[np.abs(b) < 2.0**-126] = 3.0

    def formula(x: float, y: float, z: float) -> list[float]:
        x, y, z = (flush(value, F32) for value in (x, y, z))
        results = [
            exact.add(x, y, F32), exact.add(x, -y, F32, "rz"), exact.mul(x, y, F32), exact.mul(x, y, F32, "rm"),
            exact.fma(x, y, z, F32), exact.fma(x, y, z, F32, "rp"), exact.div(z, y, F32), exact.div(1.0, y, F32),
            exact.sqrt(abs(x), F32), float(smaller(x, y)), float(larger(x, y)), abs(x), -x,
        ]  # fmt: skip
        return [flush(value, F32) for value in results]

    return Launch([np.zeros(13 * 64, np.float32), a, b, c], {0: per_lane(formula, [a, b, c], np.float32)})


@FLOATING.add(block=64)
def f32_sat(rng: np.random.Generator) -> Launch:
    a, b, c = (spread(rng, 64, np.float32, -4, 1) for _ in range(3))
    a[:4], b[:4] = [0.0, -0.0, 1.0, 2.0**-130], [-0.0, -0.0, 2.0**-24, 0.5]

    def formula(x: float, y: float, z: float) -> list[float]:
        fx, fy, fz = (flush(value, F32) for value in (x, y, z))
        return [
            saturate(value)
            for value in (
                x, exact.add(x, y, F32), flush(exact.add(fx, -fy, F32), F32), exact.mul(x, y, F32, "rz"),
                exact.fma(x, y, z, F32), flush(exact.fma(fx, fy, fz, F32, "rp"), F32),
            )
        ]  # fmt: skip

    return Launch([np.zeros(6 * 64, np.float32), a, b, c], {0: per_lane(formula, [a, b, c], np.float32)})


def special_pairs(smallest: float, normal: float, dtype: Any) -> tuple[Array, Array]:
    """All pairs of twelve values that have rules of their own."""
    values = [0.0, -0.0, 1.5, -2.5, smallest, -smallest, normal, math.inf, -math.inf, math.nan, 0.5, -0.5]
    grid = np.array(values, dtype)
    return np.repeat(grid, len(values)), np.tile(grid, len(values))


def smaller(x: Array | float, y: Array | float) -> Array:
    """minNum with -0 < +0: a number wins over a NaN."""
    first = (x < y) | ((x == y) & np.signbit(x)) | np.isnan(y)
    return np.where(first, x, y)


def larger(x: Array | float, y: Array | float) -> Array:
    return -smaller(-x, -y)


def fused(x: Array, y: Array, z: Array, form: Format) -> list[float]:
    """fma per element, with numpy deciding infinities and NaNs."""
    results = []
    for p, q, r in zip(x.tolist(), y.tolist(), z.tolist(), strict=True):
        finite = all(map(math.isfinite, (p, q, r)))
        results.append(exact.fma(p, q, r, form) if finite else float(np.float64(p) * q + r))
    return results


@FLOATING.add(block=144)
def f32_special(rng: np.random.Generator) -> Launch:
    x, y = special_pairs(2.0**-149, 2.0**-126, np.float32)
    either = np.isnan(x) | np.isnan(y)
    with np.errstate(all="ignore"):
        expected = slots(
            [
                x + y, x - y, x * y, x / y, fused(x, y, x, F32), np.sqrt(x), smaller(x, y), larger(x, y),
                np.where(either, np.nan, smaller(x, y)), np.where(either, np.nan, larger(x, y)),
                np.abs(x), -x, np.copysign(x, y), np.copysign(y, x),
                np.floor(x), np.ceil(x), np.trunc(x), np.rint(x),
            ],
            np.float32,
        )  # fmt: skip
    return Launch([np.zeros(18 * 144, np.float32), x, y], {0: expected})


@FLOATING.add(block=144)
def f64_special(rng: np.random.Generator) -> Launch:
    x, y = special_pairs(2.0**-1074, 2.0**-1022, np.float64)
    with np.errstate(all="ignore"):
        expected = slots(
            [
                x + y, x * y, x / y, np.sqrt(x), smaller(x, y), larger(x, y), np.abs(x), -x, np.copysign(y, x),
                np.floor(x), np.ceil(x), np.trunc(x), np.rint(x),
            ],
            np.float64,
        )  # fmt: skip
    return Launch([np.zeros(13 * 144, np.float64), x, y], {0: expected})


@FLOATING.add(block=144)
def float_compare(rng: np.random.Generator) -> Launch:
    x, y = special_pairs(2.0**-149, 2.0**-126, np.float32)
    tiny = 2.0**-126

    def formula(p: float, q: float) -> list[int]:
        unordered = math.isnan(p) or math.isnan(q)
        fp, fq = flush(p, F32), flush(q, F32)
        finite, number = math.isfinite(p), not math.isnan(p)
        normal = finite and (abs(p) >= tiny or p == 0)  # testp counts zeros as normal
        tests = [
            p == q, p != q and not unordered, p < q, p <= q, p > q, p >= q,
            p == q or unordered, p != q, p < q or unordered, p <= q or unordered, p > q or unordered,
            p >= q or unordered, not unordered, unordered, fp == fq, fp < fq,
            p < q, p >= q or unordered, unordered,
            finite, math.isinf(p), number, not number, normal, finite and not normal,
            finite, math.isfinite(q),  # subnormal in binary32 is normal in binary64
        ]  # fmt: skip
        c_bits = (p < q) + 2 * (p == q) + 4 * (p != q) + 8 * (p >= q) + 16 * math.isnan(p)
        return [
            sum(bool(test) << k for k, test in enumerate(tests)), 0xFFFFFFFF if p < q else 0,
            0x3F800000 if p >= q or unordered else 0, c_bits,
        ]  # fmt: skip

    return Launch([np.zeros(4 * 144, np.uint32), x, y], {0: per_lane(formula, [x, y], np.uint32)})


@FLOATING.add()
def f32_polynomial(rng: np.random.Generator) -> Launch:
    a = rng.integers(-8, 9, 32).astype(np.float32)

    def formula(x: float) -> list[float]:
        return [sum((k - 2) * x**k for k in range(6)), x * x + 3 * x - 7, x - math.trunc(x / 4) * 4.0]

    return Launch([np.zeros(3 * 32, np.float32), a], {0: per_lane(formula, [a], np.float32)})


@FLUSHED.add(block=64)
def fast_arith(rng: np.random.Generator) -> Launch:
    a, b, _ = subnormal_operands(rng)

    def formula(x: float, y: float) -> list[float]:
        x, y = flush(x, F32), flush(y, F32)
        product = flush(exact.mul(x, y, F32), F32)
        results = [
            exact.add(x, y, F32), exact.add(x, -y, F32), product, exact.fma(x, y, x, F32),
            exact.add(product, 1.0, F32), float(smaller(x, y)), float(x < y),
        ]  # fmt: skip
        return [flush(value, F32) for value in results]

    return Launch([np.zeros(7 * 64, np.float32), a, b], {0: per_lane(formula, [a, b], np.float32)})


@FLUSHED.add(block=64)
def fast_divide(rng: np.random.Generator) -> Launch:
    a, b = spread(rng, 64, np.float32, -30, 30), spread(rng, 64, np.float32, -30, 30)
    x, y = a.astype(np.float64), b.astype(np.float64)
    want = slots([x / y, 1 / y, np.sqrt(np.abs(x)), 1 / np.sqrt(np.abs(y))], np.float64)
    # div.full: 2 ulp; rcp.approx: 1 ulp; sqrt.approx and rsqrt.approx: relative 2^-22.9 at worst (PTX ISA).
    return Launch([np.zeros(4 * 64, np.float32), a, b], {0: Close(want, ulp=2)})
