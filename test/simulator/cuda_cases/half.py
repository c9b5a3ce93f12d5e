# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""binary16 and bfloat16 arithmetic, against exact fractions rounded once."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from . import exact
from .exact import BF16, F16, Format, flush, saturate
from .floating import special_pairs, spread
from .table import Array, Close, Family, Launch, Source, per_lane

HALF = Family(Source("half"))

bfloat16 = ml_dtypes.bfloat16


def operands(rng: np.random.Generator, count: int, form: Format, dtype: Any) -> list[Array]:
    """Three finite columns with ties, cancellation, subnormals, zeros and a few overflows."""
    a, b, c = (spread(rng, count, np.float64, -4, 4).astype(dtype) for _ in range(3))
    part = count // 8
    low = form.lowest
    a[:part] = spread(rng, part, np.float64, low - 4, low + 2).astype(dtype)
    b[:part] = spread(rng, part, np.float64, -2, 2).astype(dtype)
    a[part : 2 * part] = spread(rng, part, np.float64, form.highest - 2, form.highest).astype(dtype)
    b[part : 2 * part] = spread(rng, part, np.float64, -1, 3).astype(dtype)
    b[2 * part : 3 * part] = a[2 * part : 3 * part]
    c[2 * part : 3 * part] = (-(a.astype(np.float64) ** 2))[2 * part : 3 * part].astype(dtype)
    a[-4:], b[-4:], c[-4:] = [0.0, -0.0, 1.0, -1.0], [-0.0, -0.0, 0.5, 1.0], [0.0, -0.0, -0.5, 1.0]
    return [a, b, c]


def arithmetic(form: Format, columns: list[Array], dtype: Any) -> Array:
    """The slots of the four arithmetic kernels."""

    def formula(x: float, y: float, z: float) -> list[float]:
        total, difference = exact.add(x, y, form), exact.add(x, -y, form)
        product, fused = exact.mul(x, y, form), exact.fma(x, y, z, form)
        least = x if (x, math.copysign(1, x)) < (y, math.copysign(1, y)) else y
        most = y if least is x else x
        relu = fused if fused > 0 else 0.0
        return [
            total, difference, product, fused, saturate(total), saturate(difference), saturate(product),
            saturate(fused), relu, -x, abs(x), least, most, least, most,
        ]  # fmt: skip

    return per_lane(formula, [column.astype(np.float64) for column in columns], dtype)


@HALF.add(block=64)
def f16_arith(rng: np.random.Generator) -> Launch:
    columns = operands(rng, 64, F16, np.float16)
    return Launch([np.zeros(15 * 64, np.float16), *columns], {0: arithmetic(F16, columns, np.float16)})


@HALF.add(block=64)
def bf16_arith(rng: np.random.Generator) -> Launch:
    columns = operands(rng, 64, BF16, bfloat16)
    return Launch([np.zeros(15 * 64, bfloat16), *columns], {0: arithmetic(BF16, columns, bfloat16)})


@HALF.add(block=32)
def f16x2_arith(rng: np.random.Generator) -> Launch:
    columns = operands(rng, 64, F16, np.float16)
    return Launch([np.zeros(15 * 64, np.float16), *columns], {0: arithmetic(F16, columns, np.float16)})


@HALF.add(block=32)
def bf16x2_arith(rng: np.random.Generator) -> Launch:
    columns = operands(rng, 64, BF16, bfloat16)
    return Launch([np.zeros(15 * 64, bfloat16), *columns], {0: arithmetic(BF16, columns, bfloat16)})


@HALF.add(block=144)
def half_compare(rng: np.random.Generator) -> Launch:
    a, b = special_pairs(2.0**-24, 2.0**-14, np.float16)
    c, d = special_pairs(2.0**-133, 2.0**-126, bfloat16)

    def tests(p: float, q: float) -> int:
        unordered = math.isnan(p) or math.isnan(q)
        ordered = [p == q, p != q and not unordered, p < q, p <= q, p > q, p >= q]
        flags = [*ordered, *(flag or unordered for flag in ordered), math.isnan(p)]
        return sum(bool(flag) << k for k, flag in enumerate(flags))

    def formula(p: float, q: float, r: float, s: float) -> list[int]:
        both_ways = (p <= q) * 0xFFFF | (q <= p) * 0xFFFF0000
        different = p != q  # unordered counts as not equal, and both halves must differ
        return [
            tests(p, q), tests(r, s), (p < q) * 0x3C00 | (q < p) * 0x3C000000, both_ways,
            (p == q) | different << 1, (r > s) * 0x3F80 | (s > r) * 0x3F800000,
        ]  # fmt: skip

    columns = [column.astype(np.float64) for column in (a, b, c, d)]
    return Launch([np.zeros(6 * 144, np.uint32), a, b, c, d], {0: per_lane(formula, columns, np.uint32)})


@HALF.add(block=64)
def f16_ftz(rng: np.random.Generator) -> Launch:
    a, b, c = operands(rng, 64, F16, np.float16)
    b[:4] = np.float16(2.0**-16)

    def formula(x: float, y: float, z: float) -> list[float]:
        x, y, z = (flush(value, F16) for value in (x, y, z))
        results = [
            exact.add(x, y, F16), exact.mul(x, y, F16), exact.fma(x, y, z, F16),
            saturate(exact.add(x, -y, F16)), -x, abs(x),
        ]  # fmt: skip
        return [flush(value, F16) for value in results]

    columns = [column.astype(np.float64) for column in (a, b, c)]
    return Launch([np.zeros(6 * 64, np.float16), a, b, c], {0: per_lane(formula, columns, np.float16)})


@HALF.add(block=64)
def f16_functions(rng: np.random.Generator) -> Launch:
    a = np.abs(spread(rng, 64, np.float64, -4, 4)).astype(np.float16)
    b = spread(rng, 64, np.float64, -4, 8).astype(np.float16)
    x, y = a.astype(np.float64), b.astype(np.float64)
    approximate = [y / x, np.sqrt(x), 1 / np.sqrt(x), 1 / x, np.exp2(x), np.log2(x)]
    rounded = [np.floor(y), np.ceil(y), np.trunc(y), np.rint(y)]
    near = Close(np.concatenate(approximate), ulp=1, absolute=2.0**-24)
    same = Close(np.concatenate(rounded), ulp=0)
    return Launch([np.zeros(640, np.float16), a, b], {0: lambda got: near(got[:384]) or same(got[384:])})


@HALF.add()
def half_shuffles(rng: np.random.Generator) -> Launch:
    a, b = (rng.integers(0, 1 << 16, (32, 2), dtype=np.uint16) for _ in range(2))

    def pair(low: Array, high: Array) -> Array:
        return low.astype(np.uint32) | high.astype(np.uint32) << 16

    expected = np.concatenate(
        [
            pair(a[:, 0], b[:, 0]), pair(a[:, 1], b[:, 1]), pair(a[:, 1], a[:, 0]), pair(b[:, 0], b[:, 0]),
            pair(a[:, 0], a[:, 1])[np.arange(32) ^ 1],
        ]
    )  # fmt: skip
    return Launch([np.zeros(5 * 32, np.uint32), a, b], {0: expected})
