# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Correctly rounded arithmetic in every IEEE format and rounding mode, by exact fractions.

Inputs and results are Python floats (every format here fits in binary64). This is slow on purpose: it shares
nothing with an implementation that works in machine floating point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: significand bits with the hidden one, and the range of normal exponents."""

    precision: int
    lowest: int
    highest: int

    @property
    def largest(self) -> Fraction:
        return (2 - Fraction(2) ** (1 - self.precision)) * Fraction(2) ** self.highest


F16 = Format(11, -14, 15)
BF16 = Format(8, -126, 127)
TF32 = Format(11, -126, 127)
F32 = Format(24, -126, 127)
F64 = Format(53, -1022, 1023)


def round_integer(value: Fraction, mode: str) -> int:
    """Nearest integer: 'rn' ties to even, 'rna' ties away, 'rz' truncates, 'rm' down, 'rp' up."""
    floor = value.numerator // value.denominator
    rest = value - floor
    if mode == "rm":
        return floor
    if mode == "rp":
        return floor + (rest > 0)
    if mode == "rz":
        return floor + (rest > 0 and value < 0)
    half = Fraction(1, 2)
    if rest != half:
        return floor + (rest > half)
    return floor + (value > 0) if mode == "rna" else floor + (floor & 1)


def exponent_of(value: Fraction) -> int:
    """floor(log2(|value|)) of a non-zero fraction."""
    magnitude = abs(value)
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if magnitude >= Fraction(2) ** guess else guess - 1


def round_to(value: Fraction, form: Format, mode: str = "rn", zero_sign: float = 1.0) -> float:
    """`value` in `form`; an exact or underflowed zero takes the value's sign, or `zero_sign` when it is zero."""
    if value == 0:
        return math.copysign(0.0, zero_sign)
    quantum = Fraction(2) ** (max(exponent_of(value), form.lowest) - form.precision + 1)
    rounded = round_integer(value / quantum, mode) * quantum
    if abs(rounded) > form.largest:
        towards_zero = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
        rounded_float = float(form.largest) if towards_zero else math.inf
        return -rounded_float if value < 0 else rounded_float
    return math.copysign(float(rounded), -1 if value < 0 else 1)


def add(a: float, b: float, form: Format, mode: str = "rn") -> float:
    """a + b, rounded once; x + (-x) is +0, or -0 when rounding down."""
    return fma(a, 1.0, b, form, mode)


def mul(a: float, b: float, form: Format, mode: str = "rn") -> float:
    return round_to(Fraction(a) * Fraction(b), form, mode, math.copysign(1, a) * math.copysign(1, b))


def fma(a: float, b: float, c: float, form: Format, mode: str = "rn") -> float:
    """a * b + c, rounded once."""
    product_sign = math.copysign(1, a) * math.copysign(1, b)
    same = product_sign == math.copysign(1, c)
    both_zero = Fraction(a) * Fraction(b) == 0 and c == 0
    zero = product_sign if both_zero and same else (-1.0 if mode == "rm" else 1.0)
    return round_to(Fraction(a) * Fraction(b) + Fraction(c), form, mode, zero)


def div(a: float, b: float, form: Format, mode: str = "rn") -> float:
    return round_to(Fraction(a) / Fraction(b), form, mode, math.copysign(1, a) * math.copysign(1, b))


def sqrt(a: float, form: Format, mode: str = "rn") -> float:
    """Square root of a non-negative number, by integer square root with a sticky bit below the rounding position."""
    if a == 0:
        return a
    value = Fraction(a)
    shift = 2 * (form.precision + 3) - exponent_of(value) & ~1
    scaled = value * Fraction(2) ** shift
    whole = scaled.numerator // scaled.denominator
    root = math.isqrt(whole)
    sticky = Fraction(1, 2) if root * root != scaled else Fraction(0)
    return round_to((root + sticky) / Fraction(2) ** (shift // 2), form, mode)


def flush(value: float, form: Format) -> float:
    """.ftz: a subnormal becomes a zero of the same sign."""
    return math.copysign(0.0, value) if abs(value) < 2.0**form.lowest else value


def saturate(value: float) -> float:
    """.sat: clamp to [0, 1]; NaN and both zeros give +0."""
    return min(value, 1.0) if value > 0 else 0.0
