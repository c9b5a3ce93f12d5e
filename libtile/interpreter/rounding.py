# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Correctly rounded floating-point arithmetic in every format and rounding mode.

An operation is first done exactly: its float64 result and the sign of what that result lacks (an error-free
transformation gives it). From the two, `finish` makes the correctly rounded result of any format:

* for f64, the nearest result is moved to its neighbour when the mode and the sign of the rest ask for it;
* for a narrower format, result and rest are folded into one float64 that is rounded to odd (the last bit says
  "and some more"), which keeps every later rounding to at most 51 bits correct; then that is rounded once.

The transformations need operands whose products and rests neither overflow nor underflow in float64. That is always
so for f32 and narrower; f64 operands at the ends of the range go through exact fractions, element by element.

Sources: IEEE 754-2019 section 4.3 (rounding directions); Knuth, Dekker (two-sum, two-product); Boldo and Melquiond,
"Emulation of a FMA and correctly rounded sums" (rounding to odd).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from libtile.interpreter.formats import ELEMENTS, Array, Element
from libtile.numerics.elements import FloatFormat

MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")

_ROUND: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "nearest_even": np.rint,
    "zero": np.trunc,
    "negative_inf": np.floor,
    "positive_inf": np.ceil,
    "nearest_away": lambda x: np.trunc(x) + np.copysign(np.abs(x - np.trunc(x)) >= 0.5, x),
}


def round_to(values: Array, fmt: FloatFormat, mode: str = "nearest_even", saturate: bool = False) -> np.ndarray:
    """float64 values rounded to a format of at most 51 bits (or f64 itself: unchanged), still as float64.

    Overflow goes to infinity, or to the largest finite value when the mode rounds toward it or when the format has
    neither infinity nor NaN; to NaN in a format that has only that. With `saturate` everything beyond the largest
    finite value becomes that, infinities included.
    """
    x = np.asarray(values, np.float64)
    if fmt.name == "f64":
        return x
    if not fmt.signed:
        x = np.abs(x)  # formats of magnitudes only ignore the sign (CUDA math API, conversions to e8m0 and ue5m3)
    _, exponent = np.frexp(x)
    quantum = np.maximum(exponent - 1, fmt.emin) - (fmt.precision - 1)
    result = np.ldexp(_ROUND[mode](np.ldexp(x, -quantum)), quantum)
    if not fmt.has_zero:
        # The smallest value stands for all below it.
        result = np.where(result < fmt.smallest_normal, fmt.smallest_normal, result)
    over = np.abs(result) > fmt.top
    if np.any(over):
        result = np.where(over, _overflow(x, fmt, mode, saturate), result)
    if not fmt.has_nan:
        # The top stands for NaN (as the narrow conversions of PTX do it: cvt.satfinite of NaN to e2m1 gives +top).
        result = np.where(np.isnan(x), fmt.top, result)
    return result


def _overflow(x: np.ndarray, fmt: FloatFormat, mode: str, saturate: bool) -> np.ndarray:
    top = np.copysign(fmt.top, x)
    if saturate or not (fmt.has_infinity or fmt.has_nan):
        return top  # infinities too, as PTX's .satfinite has it
    beyond = np.copysign(np.inf, x) if fmt.has_infinity else np.full_like(x, np.nan)
    toward_top = {
        "zero": np.ones_like(x, bool),
        "negative_inf": x > 0,
        "positive_inf": x < 0,
    }.get(mode, np.zeros_like(x, bool))
    return np.where(toward_top & ~np.isinf(x), top, beyond)


def round_to_odd(result: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """`result` (nearest float64) and the sign of what it lacks, as one float64 whose last bit is set if inexact."""
    inexact = (rest != 0) & np.isfinite(result) & np.isfinite(rest)
    if not np.any(inexact):
        return np.asarray(result)
    toward = np.where(rest > 0, np.inf, -np.inf)
    moved = np.nextafter(result, toward)
    # Truncate toward the smaller magnitude, then set the last bit.
    inward = inexact & (np.signbit(rest) != np.signbit(result)) & (result != 0)
    truncated = np.where(inward, moved, result)
    odd = (np.asarray(truncated).view(np.int64) | 1).view(np.float64)
    return np.asarray(np.where(inexact, odd, result))


def finish(result: Array, rest: Array, elem: Element, mode: str) -> np.ndarray:
    """The correctly rounded value, of the element's type, of `result` plus something of the sign of `rest`."""
    fmt = elem.float
    if fmt is None:
        raise TypeError(f"{elem.name} is not a floating-point type")
    result, rest = np.asarray(result, np.float64), np.asarray(rest, np.float64)
    if fmt.name != "f64":
        return round_to(round_to_odd(result, rest), fmt, mode).astype(elem.dtype)
    if mode == "nearest_even":
        return result
    down = np.nextafter(result, -np.inf)
    up = np.nextafter(result, np.inf)
    lower: Array = np.where(rest < 0, down, result)
    upper: Array = np.where(rest > 0, up, result)
    if mode == "negative_inf":
        return lower
    if mode == "positive_inf":
        return upper
    return np.asarray(np.where(result > 0, lower, upper))


# -- error-free transformations -------------------------------------------------------------------------------------


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The nearest sum and what it lacks, exactly, when nothing overflows."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _split(a: Array) -> tuple[Array, Array]:
    c = 134217729.0 * a  # 2**27 + 1
    high = c - (c - a)
    return high, a - high


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The nearest product and what it lacks, exactly, when nothing overflows or underflows."""
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _zero_sum(s: Array, exact_zero: Array, a: Array, b: Array, mode: str) -> Array:
    """The sign of an exact zero sum: that of both terms when they agree, else + (or - when rounding down)."""
    if mode != "negative_inf":
        return s
    cancelled = exact_zero & (np.signbit(a) != np.signbit(b))
    return np.where(cancelled, -0.0, s)


# -- operations -----------------------------------------------------------------------------------------------------


def _wide(*values: Array) -> list[np.ndarray]:
    return [np.asarray(v, np.float64) for v in values]


def _repair(result: np.ndarray, unsafe: np.ndarray, exact: Callable[..., Fraction], mode: str,
            *operands: np.ndarray) -> np.ndarray:  # fmt: skip
    """Recompute the `unsafe` f64 elements by exact fractions where all operands are finite."""
    for operand in operands:
        unsafe = unsafe & np.isfinite(operand)
    if not np.any(unsafe):
        return result
    result = np.array(result)
    operands = tuple(np.broadcast_to(o, result.shape) for o in operands)
    for index in map(tuple, np.argwhere(unsafe)):
        value = exact(*(float(o[index]) for o in operands))
        if value:
            result[index] = round_fraction(value, ELEMENTS["f64"].float, mode)
        else:
            result[index] = -0.0 if mode == "negative_inf" else 0.0  # an exact cancellation
    return result


def _extreme(*values: Array, low: float = 1e-140, high: float = 1e140) -> np.ndarray:
    """Where finite, non-zero values are near the ends of f64's range."""
    unsafe: np.ndarray = np.zeros((), bool)
    for v in values:
        size = np.abs(v)
        unsafe = unsafe | (((size > high) | ((size < low) & (size != 0))) & np.isfinite(v))
    return unsafe


def add(a: Array, b: Array, elem: Element, mode: str) -> np.ndarray:
    """a + b, correctly rounded."""
    if mode == "nearest_even" and elem.name in ("f16", "f32", "f64"):
        return np.add(a, b)
    x, y = _wide(a, b)
    s, rest = two_sum(x, y)
    s = _zero_sum(s, (s == 0) & (rest == 0), x, y, mode)
    result = finish(s, rest, elem, mode)
    if elem.name == "f64":
        unsafe = _extreme(s, x, y, low=0.0, high=1e300) | (np.isinf(s) & np.isfinite(x) & np.isfinite(y))
        return _repair(result, unsafe, lambda p, q: Fraction(p) + Fraction(q), mode, x, y)
    return result


def sub(a: Array, b: Array, elem: Element, mode: str) -> np.ndarray:
    """a - b, correctly rounded."""
    if mode == "nearest_even" and elem.name in ("f16", "f32", "f64"):
        return np.subtract(a, b)
    return add(a, np.negative(b), elem, mode)


def mul(a: Array, b: Array, elem: Element, mode: str) -> np.ndarray:
    """a * b, correctly rounded."""
    if mode == "nearest_even" and elem.name in ("f16", "f32", "f64"):
        return np.multiply(a, b)
    x, y = _wide(a, b)
    if elem.name != "f64":
        return finish(x * y, 0.0, elem, mode)  # 48 bits at most: exact
    p, rest = two_product(x, y)
    result = finish(p, np.where(np.isfinite(p), rest, 0.0), elem, mode)
    plain = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    unsafe = plain & (_extreme(p) | _extreme(x, y) | (p == 0) | np.isinf(p))
    return _repair(result, unsafe, lambda u, v: Fraction(u) * Fraction(v), mode, x, y)


def div(a: Array, b: Array, elem: Element, mode: str) -> np.ndarray:
    """a / b, correctly rounded."""
    if mode == "nearest_even" and elem.name in ("f16", "f32", "f64"):
        return np.divide(a, b)
    x, y = _wide(a, b)
    q = x / y
    p, e = two_product(q, y)
    rest = ((x - p) - e) * np.where(np.signbit(y), -1.0, 1.0)
    plain = np.isfinite(q) & np.isfinite(y) & (q != 0)
    result = finish(q, np.where(plain, rest, 0.0), elem, mode)
    if elem.name != "f64":
        return result
    both = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    unsafe = (_extreme(x, y, low=1e-100, high=1e100) | _extreme(q)) & both
    return _repair(result, unsafe, lambda u, v: Fraction(u) / Fraction(v), mode, x, y)


def fma(a: Array, b: Array, c: Array, elem: Element, mode: str) -> np.ndarray:
    """a * b + c, rounded once."""
    x, y, z = _wide(a, b, c)
    if elem.name != "f64":
        p = x * y
        s, rest = two_sum(p, z)
        s = _zero_sum(s, (s == 0) & (rest == 0), p, z, mode)
        return finish(s, np.where(np.isfinite(s), rest, 0.0), elem, mode)
    uh, ul = two_product(x, y)
    th, tl = two_sum(z, ul)
    vh, vl = two_sum(uh, th)
    zh, zl = two_sum(tl, vl)
    s, rest = two_sum(vh, round_to_odd(zh, zl))
    plain = np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
    product = x * y
    s = np.where(plain & np.isfinite(s), s, product + z)
    no_product = plain & ((x == 0) | (y == 0))
    s, rest = np.where(no_product, product + z, s), np.where(no_product, 0.0, rest)
    s = np.where(np.isinf(z) & np.isfinite(x) & np.isfinite(y), z, s)  # though the product overflows
    s = _zero_sum(s, (s == 0) & (rest == 0), product, z, mode)
    result = finish(s, np.where(plain & np.isfinite(rest) & (s != 0), rest, 0.0), elem, mode)
    some = plain & (x != 0) & (y != 0)
    unsafe = some & (_extreme(x, y, z) | _extreme(product) | ~np.isfinite(s) | (product == 0))
    return _repair(result, unsafe, lambda p, q, r: Fraction(p) * Fraction(q) + Fraction(r), mode, x, y, z)


def sqrt(a: Array, elem: Element, mode: str) -> np.ndarray:
    """The square root, correctly rounded."""
    if mode == "nearest_even" and elem.name in ("f16", "f32", "f64"):
        return np.sqrt(a)
    (x,) = _wide(a)
    # An even power of two brings an f64 into the middle of the range, and its root back out exactly.
    _, exponent = np.frexp(x)
    shift = np.where(np.isfinite(x), exponent & ~1, 0)
    scaled = np.ldexp(x, -shift)
    r = np.sqrt(scaled)
    p, e = two_product(r, r)
    rest = np.where(np.isfinite(r) & (r != 0), (scaled - p) - e, 0.0)
    return finish(np.ldexp(r, shift // 2), rest, elem, mode)


def from_integer(values: np.ndarray, elem: Element, mode: str, unsigned: bool) -> np.ndarray:
    """Integers (any width up to 64 bits, already of the right signedness) as floats, correctly rounded."""
    fmt = elem.float
    if fmt is None:
        raise TypeError(f"{elem.name} is not a floating-point type")
    if values.dtype.itemsize < 8:
        return round_to(values.astype(np.float64), fmt, mode).astype(elem.dtype)
    wide = values.astype(np.uint64 if unsigned else np.int64)
    # High and low halves are exact floats, and so is their sum with its rest.
    high = (wide >> 32).astype(np.float64) * 2.0**32
    low = (wide & 0xFFFFFFFF).astype(np.float64)
    s, rest = two_sum(high, low)
    return finish(s, rest, elem, mode)


# -- fractions ------------------------------------------------------------------------------------------------------


def round_fraction(value: Fraction, fmt: FloatFormat | None, mode: str) -> float:
    """A non-zero rational number rounded to a format, as a float: the definition, for the ends of f64's range."""
    if fmt is None:
        raise TypeError("not a floating-point format")
    sign, size = (-1, -value) if value < 0 else (1, value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    quantum = max(exponent, fmt.emin) - (fmt.precision - 1)
    scaled = size / Fraction(2) ** quantum
    whole, rest = divmod(scaled, 1)
    up = {
        "nearest_even": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "nearest_away": rest >= Fraction(1, 2),
        "zero": False,
        "negative_inf": sign < 0 and rest > 0,
        "positive_inf": sign > 0 and rest > 0,
    }[mode]
    result = Fraction(whole + up) * Fraction(2) ** quantum
    if result > Fraction(fmt.top):
        stays = mode == "zero" or (mode == "negative_inf" and sign > 0) or (mode == "positive_inf" and sign < 0)
        return sign * (fmt.top if stays else math.inf)
    return sign * float(result)
