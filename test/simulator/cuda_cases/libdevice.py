# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The math library, within the maximum ulp errors that the CUDA C++ Programming Guide lists for each function.

The guide counts ulps from the correctly rounded result, which adds half an ulp to the distance from the exact one.
Expected values come from Python's `math` in binary64, whose own error is far below an ulp of binary32; for the double
precision functions one more ulp is allowed for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from . import exact
from .exact import F32
from .floating import spread
from .table import Array, Check, Close, Family, Launch, Source, per_lane

LIBDEVICE = Family(Source("libdevice"))
LIBDEVICE64 = Family(Source("libdevice64"))

#: A slot's formula (binary64 arguments to binary64) and the ulps it may be off.
Row = tuple[Callable[..., float], float]


def within(rows: list[Row], columns: list[Array], extra: float) -> Check:
    """A check of all slots: row k holds the k-th slot's formula and bound."""
    lanes = list(zip(*(column.astype(np.float64).tolist() for column in columns), strict=True))
    wanted = [(Close(np.array([formula(*lane) for lane in lanes]), ulp=ulp + extra)) for formula, ulp in rows]

    def check(got: Array) -> str | None:
        for slot, (bound, part) in enumerate(zip(wanted, got.reshape(len(rows), -1), strict=True)):
            message = bound(part)
            if message:
                return f"slot {slot}: {message}"
        return None

    return check


def unary(rows: list[Row], *columns: Array, extra: float = 0.5) -> Launch:
    out = np.zeros(len(rows) * columns[0].size, columns[0].dtype)
    return Launch([out, *columns], {0: within(rows, list(columns), extra)})


def single(value: float) -> float:
    """Rounded to binary32, as an intermediate of the kernel is."""
    return float(np.float32(value))


@LIBDEVICE.add(block=64)
def f32_exponentials(rng: np.random.Generator) -> Launch:
    a = np.concatenate([rng.uniform(-10, 10, 48), rng.uniform(-38, 38, 16)]).astype(np.float32)
    a[:3] = [0.0, 1.0, -1.0]
    rows: list[Row] = [
        (math.exp, 2), (lambda x: 2.0**x, 2), (lambda x: 10.0**x, 2), (math.expm1, 1),
        (math.sinh, 3), (math.cosh, 2), (math.tanh, 2), (lambda x: math.exp(single(x * single(0.1))), 6),
    ]  # fmt: skip
    return unary(rows, a)


@LIBDEVICE.add(block=64)
def f32_logarithms(rng: np.random.Generator) -> Launch:
    a = np.abs(spread(rng, 64, np.float32, -30, 30))
    a[:3] = [1.0, 2.0**-140, 3e38]
    rows: list[Row] = [
        (math.log, 1), (math.log2, 1), (math.log10, 2), (math.log1p, 1), (lambda x: x ** (1 / 3), 1),
        (lambda x: x ** (-1 / 3), 1), (lambda x: x**-0.5, 2), (math.sqrt, 0), (math.asinh, 3),
        (lambda x: math.acosh(single(x + 1)), 4),
    ]  # fmt: skip
    return unary(rows, a)


@LIBDEVICE.add(block=96)
def f32_trigonometry(rng: np.random.Generator) -> Launch:
    a = np.concatenate([rng.uniform(-10, 10, 32), rng.uniform(-1e5, 1e5, 32), spread(rng, 32, np.float64, 17, 100)])
    a = a.astype(np.float32)
    rows: list[Row] = [(math.sin, 2), (math.cos, 2), (math.tan, 4), (math.sin, 2), (math.cos, 2)]
    return unary(rows, a)


@LIBDEVICE.add(block=64)
def f32_inverse_trigonometry(rng: np.random.Generator) -> Launch:
    a, b = rng.uniform(-1, 1, 64).astype(np.float32), rng.uniform(-1, 1, 64).astype(np.float32)
    rows: list[Row] = [
        (lambda x, y: math.asin(x), 2), (lambda x, y: math.acos(x), 2), (lambda x, y: math.atan(single(x * 10)), 2),
        (math.atan2, 3), (lambda x, y: math.atanh(single(x * single(0.99))), 3),
        (lambda x, y: sin_pi(x * 8), 1), (lambda x, y: sin_pi(x * 8 + 0.5), 1),
    ]  # fmt: skip
    return unary(rows, a, b)


def sin_pi(x: float) -> float:
    """sin(pi x), reduced exactly to [-1/2, 1/2] first."""
    turns = round(x)
    return math.sin(math.pi * (x - turns)) * (-1 if turns % 2 else 1)


@LIBDEVICE.add(block=64)
def f32_power(rng: np.random.Generator) -> Launch:
    a, b = rng.uniform(0.01, 20, 64).astype(np.float32), rng.uniform(-10, 10, 64).astype(np.float32)
    rows: list[Row] = [
        (math.pow, 4), (math.hypot, 3), (lambda x, y: 1 / math.hypot(x, y), 2),
        (lambda x, y: math.hypot(x, y, 1.0), 3),
    ]  # fmt: skip
    return unary(rows, a, b)


def inverse_erf(y: float) -> float:
    """Newton's iteration on erf, from a start that converges for |y| < 0.9."""
    x = y * math.sqrt(math.pi) / 2
    for _ in range(60):
        x -= (math.erf(x) - y) * math.sqrt(math.pi) / 2 * math.exp(x * x)
    return x


@LIBDEVICE.add(block=64)
def f32_special_functions(rng: np.random.Generator) -> Launch:
    a = rng.uniform(-4, 4, 64).astype(np.float32)
    rows: list[Row] = [
        (math.erf, 2), (math.erfc, 4), (lambda x: math.exp(x * x) * math.erfc(abs(x)), 4),
        (lambda x: math.erfc(-x / math.sqrt(2)) / 2, 5), (lambda x: math.gamma(single(abs(x) + 0.5)), 5),
        (lambda x: math.lgamma(single(abs(x) + 3)), 6), (lambda x: inverse_erf(single(x * single(0.19))), 2),
    ]  # fmt: skip
    return unary(rows, a)


@LIBDEVICE.add(block=64)
def f32_exact(rng: np.random.Generator) -> Launch:
    a, b = spread(rng, 64, np.float32, -4, 20), spread(rng, 64, np.float32, -4, 4)
    a[:4], b[:4] = [2.5, -2.5, 3.5, 0.5], [1.0, 2.0, 1.0, -0.5]

    def formula(x: float, y: float) -> list[float]:
        ratio = Fraction(x) / Fraction(y)
        near = exact.round_integer(ratio, "rn")
        rest = math.remainder(x, y)
        quotient_bits = abs(near) & 7
        fraction, whole = math.modf(x)
        mantissa, exponent = math.frexp(x)
        away = math.copysign(exact.round_integer(Fraction(x), "rna"), x)
        signed_bits = (-quotient_bits if ratio < 0 else quotient_bits) & 7
        return [
            math.fmod(x, y), rest, rest, signed_bits, fraction, whole, mantissa, exponent,
            x * 2.0 ** (int(y) & 15), math.floor(x), away, math.copysign(round(x), x), round(x), away + 0.0,
            float(np.nextafter(np.float32(x), np.float32(y))), exact.add(x, -y, F32) if x > y else 0.0,
            exponent - 1, exponent - 1, exact.fma(x, y, -x, F32),
        ]  # fmt: skip

    return Launch([np.zeros(19 * 64, np.float32), a, b], {0: Close(per_lane(formula, [a, b], np.float32), ulp=0)})


@LIBDEVICE64.add()
def f64_exponentials(rng: np.random.Generator) -> Launch:
    a = rng.uniform(-20, 20, 32)
    rows: list[Row] = [
        (math.exp, 1), (lambda x: 2.0**x, 1), (math.expm1, 1), (math.sinh, 2), (math.cosh, 1), (math.tanh, 2),
    ]  # fmt: skip
    return unary(rows, a, extra=1.5)


@LIBDEVICE64.add()
def f64_logarithms(rng: np.random.Generator) -> Launch:
    a = np.abs(spread(rng, 32, np.float64, -300, 300))
    rows: list[Row] = [
        (math.log, 1), (math.log2, 1), (math.log10, 1), (math.log1p, 1),
        (lambda x: float(np.cbrt(x)), 1), (lambda x: 1 / math.sqrt(x), 1),
    ]  # fmt: skip
    return unary(rows, a, extra=1.5)


@LIBDEVICE64.add(block=64)
def f64_trigonometry(rng: np.random.Generator) -> Launch:
    a = np.concatenate([rng.uniform(-10, 10, 32), spread(rng, 32, np.float64, 20, 300)])
    return unary([(math.sin, 2), (math.cos, 2), (math.tan, 2)], a, extra=1.5)


@LIBDEVICE64.add()
def f64_inverse_trigonometry(rng: np.random.Generator) -> Launch:
    a, b = rng.uniform(-1, 1, 32), rng.uniform(-1, 1, 32)
    rows: list[Row] = [
        (lambda x, y: math.asin(x), 2), (lambda x, y: math.acos(x), 2), (lambda x, y: math.atan(x * 10), 2),
        (math.atan2, 2),
    ]  # fmt: skip
    return unary(rows, a, b, extra=1.5)


@LIBDEVICE64.add()
def f64_power(rng: np.random.Generator) -> Launch:
    a, b = rng.uniform(0.01, 20, 32), rng.uniform(-10, 10, 32)
    rows: list[Row] = [(math.pow, 2), (math.hypot, 2), (math.fmod, 0), (math.remainder, 0)]
    return unary(rows, a, b, extra=1.5)


@LIBDEVICE64.add()
def f64_special_functions(rng: np.random.Generator) -> Launch:
    a = rng.uniform(-4, 4, 32)
    rows: list[Row] = [
        (math.erf, 2), (math.erfc, 5), (lambda x: math.gamma(abs(x) + 0.5), 10),
        (lambda x: math.lgamma(abs(x) + 3), 4),
    ]  # fmt: skip
    return unary(rows, a, extra=6)
