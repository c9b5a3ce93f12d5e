# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arithmetic by the definition: exact rational numbers, rounded once. Independent of the interpreter.

IEEE 754-2019: section 4.3 for rounding, 6.1 for infinities, 6.3 for the sign of zero results.
"""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

# precision, least normal exponent, largest value; and whether there are infinities
_TABLE = {
    "tf32": (11, -126, (2 - 2.0**-10) * 2.0**127),
    "f8E4M3FN": (4, -6, 448.0),
    "f8E5M2": (3, -14, 57344.0),
    "f4E2M1FN": (2, 0, 6.0),
    "fnv8E5M3FNU": (4, -14, 114688.0),
}


def parameters(elem: str) -> tuple[int, int, float]:
    if elem in _TABLE:
        return _TABLE[elem]
    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}[elem]
    info = ml_dtypes.finfo(dtype)
    return int(info.nmant) + 1, int(info.minexp), float(info.max)


def round_fraction(value: Fraction, elem: str, mode: str, saturate: bool = False) -> float:
    """A non-zero rational to the nearest value of a format in the direction that the mode asks for."""
    precision, emin, top = parameters(elem)
    negative, size = value < 0, abs(value)
    exponent = math.floor(math.log2(size.numerator) - math.log2(size.denominator))
    while Fraction(2) ** exponent > size:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    unit = Fraction(2) ** (max(exponent, emin) - precision + 1)
    below = size // unit
    rest = size / unit - below
    if mode == "nearest_even":
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1)
    elif mode == "nearest_away":
        up = rest >= Fraction(1, 2)
    elif mode == "zero":
        up = False
    else:
        up = rest != 0 and (mode == "negative_inf") == negative
    result = (below + up) * unit
    if result > Fraction(top):
        holds = mode == "zero" or (mode == "positive_inf" and negative) or (mode == "negative_inf" and not negative)
        number = top if holds or saturate else math.inf
    else:
        number = float(result)
    return -number if negative else number


def zero_of_sum(a: float, b: float, mode: str) -> float:
    if math.copysign(1, a) == math.copysign(1, b) and a == 0 and b == 0:
        return a
    return -0.0 if mode == "negative_inf" else 0.0


def add(a: float, b: float, elem: str, mode: str) -> float:
    if not math.isfinite(a) or not math.isfinite(b):
        return a + b
    total = Fraction(a) + Fraction(b)
    return round_fraction(total, elem, mode) if total else zero_of_sum(a, b, mode)


def sub(a: float, b: float, elem: str, mode: str) -> float:
    return add(a, -b, elem, mode)


def mul(a: float, b: float, elem: str, mode: str) -> float:
    if not math.isfinite(a) or not math.isfinite(b) or a == 0 or b == 0:
        return a * b
    return round_fraction(Fraction(a) * Fraction(b), elem, mode)


def div(a: float, b: float, elem: str, mode: str) -> float:
    if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return math.nan
    sign = math.copysign(1, a) * math.copysign(1, b)
    if math.isinf(a) or b == 0:
        return sign * math.inf
    if math.isinf(b) or a == 0:
        return sign * 0.0
    return round_fraction(Fraction(a) / Fraction(b), elem, mode)


def fma(a: float, b: float, c: float, elem: str, mode: str) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        if all(map(math.isfinite, (a, b))):
            return c
        return a * b + c
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total:
        return round_fraction(total, elem, mode)
    product = math.copysign(1, a) * math.copysign(1, b)
    if a * b == 0 and (a == 0 or b == 0) and c == 0 and product == math.copysign(1, c):
        return c
    return -0.0 if mode == "negative_inf" else 0.0


def sqrt(a: float, elem: str, mode: str) -> float:
    if a == 0 or math.isnan(a) or a < 0 or math.isinf(a):
        return a if a >= 0 or a == 0 else math.nan
    # 200 more bits than any format holds, and a last bit that says whether the root is exact.
    value = Fraction(a)
    shift = 2 * (1300 + 200)
    whole = value * 2**shift
    root = math.isqrt(whole.numerator // whole.denominator)
    exact = Fraction(root) ** 2 == whole
    return round_fraction(Fraction(2 * root + (not exact), 2) / 2 ** (shift // 2), elem, mode)
