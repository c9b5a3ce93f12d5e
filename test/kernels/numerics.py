# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Correctly rounded arithmetic on exact fractions, independent of any floating-point unit.

Slow and plain: each number is a `Fraction`, rounded once to a binary format in one of the five rounding modes of
Tile IR (IEEE 754-2019 section 4.3).  Zeros, infinities and NaN follow IEEE 754-2019 sections 6 and 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary format: bits of significand with the hidden one, exponent of the least normal number, largest number."""

    precision: int
    min_exponent: int
    largest: float


def _format(dtype: type) -> Format:
    info = ml_dtypes.finfo(dtype)
    return Format(int(info.nmant) + 1, int(info.minexp), float(info.max))


FORMATS = {
    "f16": _format(np.float16),
    "bf16": _format(ml_dtypes.bfloat16),
    "f32": _format(np.float32),
    "f64": _format(np.float64),
    # 8 exponent bits as in f32, 10 fraction bits as in f16.
    "tf32": Format(11, -126, (2 - 2.0**-10) * 2.0**127),
    "f8e4m3fn": _format(ml_dtypes.float8_e4m3fn),
    "f8e5m2": _format(ml_dtypes.float8_e5m2),
}


def _round_integer(value: Fraction, mode: str) -> int:
    """A fraction to an integer: mode is one of RN, RZ, RM, RP, RA (the frontend's names)."""
    floor = math.floor(value)
    rest = value - floor
    if rest == 0:
        return floor
    if mode == "RM":
        return floor
    if mode == "RP":
        return floor + 1
    if mode == "RZ":
        return floor if value > 0 else floor + 1
    if rest != Fraction(1, 2):
        return floor if rest < Fraction(1, 2) else floor + 1
    if mode == "RA":
        return floor + 1 if value > 0 else floor
    return floor if floor % 2 == 0 else floor + 1


def round_fraction(value: Fraction, format_name: str, mode: str = "RN") -> float:
    """A nonzero fraction rounded to a format; overflow gives infinity or the largest number, as the mode says."""
    if value == 0:
        return 0.0
    form = FORMATS[format_name]
    exponent = max(_floor_log2(abs(value)), form.min_exponent)
    unit = Fraction(2) ** (exponent - form.precision + 1)
    rounded = _round_integer(value / unit, mode) * unit
    if abs(rounded) > Fraction(form.largest):
        stops = mode == "RZ" or (mode == "RM" and value > 0) or (mode == "RP" and value < 0)
        return math.copysign(form.largest if stops else math.inf, 1 if value > 0 else -1)
    return math.copysign(float(rounded), 1 if value > 0 else -1)


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def flush(value: float, format_name: str) -> float:
    """Zero of the same sign for a subnormal number, otherwise the number."""
    subnormal = value != 0 and abs(value) < 2.0 ** FORMATS[format_name].min_exponent
    return math.copysign(0.0, value) if subnormal else value


def add(a: float, b: float, format_name: str, mode: str = "RN") -> float:
    """a + b; an exact zero is -0 when rounding down, and +0 otherwise, unless both operands are -0."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a + b
    total = Fraction(a) + Fraction(b)
    if total == 0:
        if a == b == 0 and math.copysign(1, a) == math.copysign(1, b):
            return a
        return -0.0 if mode == "RM" else 0.0
    return round_fraction(total, format_name, mode)


def sub(a: float, b: float, format_name: str, mode: str = "RN") -> float:
    """a - b."""
    return add(a, -b, format_name, mode)


def mul(a: float, b: float, format_name: str, mode: str = "RN") -> float:
    """a * b."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b
    product = Fraction(a) * Fraction(b)
    if product == 0:
        return math.copysign(1, a) * math.copysign(0.0, b)
    return round_fraction(product, format_name, mode)


def div(a: float, b: float, format_name: str, mode: str = "RN") -> float:
    """a / b, with x / 0 = infinity."""
    if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return math.nan
    sign = math.copysign(1, a) * math.copysign(1, b)
    if math.isinf(a) or b == 0:
        return math.copysign(math.inf, sign)
    if math.isinf(b) or a == 0:
        return math.copysign(0.0, sign)
    return round_fraction(Fraction(a) / Fraction(b), format_name, mode)


def fma(a: float, b: float, c: float, format_name: str, mode: str = "RN") -> float:
    """a * b + c, rounded once."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    product = Fraction(a) * Fraction(b)
    if product == 0 or product + Fraction(c) == 0:
        exact_product = math.copysign(1, a) * math.copysign(1, b) * (0.0 if product == 0 else 1.0)
        return add(exact_product, c if product == 0 else -exact_product, format_name, mode)
    return round_fraction(product + Fraction(c), format_name, mode)


def sqrt(a: float, format_name: str, mode: str = "RN") -> float:
    """The square root of a."""
    if math.isnan(a) or a < 0:
        return math.nan
    if a == 0 or math.isinf(a):
        return a
    exact = Fraction(a)
    # An integer root with 80 more bits than any format, and a sticky bit for what it drops.
    shift = 2 * (200 + max(0, -_floor_log2(exact)))
    scaled = (exact.numerator << shift) // exact.denominator
    root = math.isqrt(scaled)
    sticky = 0 if root * root == scaled and (exact.numerator << shift) % exact.denominator == 0 else 1
    return round_fraction(Fraction(2 * root + sticky, 2 << (shift // 2)), format_name, mode)


def convert(a: float, format_name: str, mode: str = "RN") -> float:
    """A number rounded to a format; zeros, infinities and NaN stay."""
    return a if a == 0 or not math.isfinite(a) else round_fraction(Fraction(a), format_name, mode)


def elementwise(
    function: Callable[..., float], *operands: np.ndarray, format_name: str, mode: str = "RN", ftz: bool = False
) -> np.ndarray:
    """One of the functions above on arrays, as float64; with `ftz`, subnormal operands and results become zeros."""
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        columns = [np.asarray(operand, np.float64).ravel().tolist() for operand in operands]
    results = []
    for row in zip(*columns, strict=True):
        given = [flush(value, format_name) for value in row] if ftz else row
        result = function(*given, format_name, mode)
        results.append(flush(result, format_name) if ftz else result)
    return np.array(results, np.float64).reshape(np.shape(operands[0]))
