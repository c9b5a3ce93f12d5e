# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text of numbers, as MLIR writes and reads them.

A float is written with six significant digits when these give the same bits back, else with enough digits (when that
has a decimal point), else as the hexadecimal bit pattern: so are infinities, NaNs, and large whole numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache

from libtile.numerics.elements import FORMATS, FloatFormat
from libtile.numerics.float_bits import decode, encode

_SHORT = 6
_MAX_PADDING = 3


@lru_cache(maxsize=4096)
def float_text(bits: int, name: str) -> str:
    """The literal for a bit pattern of the float type `name` (a keyword as `f32`)."""
    value = decode(bits, name)
    form = FORMATS[name]
    if math.isfinite(value):
        text = _scientific(value)
        if _bits_of(text, name) == bits:
            return text
        text = _plain(value, 2 + (form.mantissa + 1) * 59 // 196)
        if "." in text:
            return text
    return f"0x{bits:X}"


def _bits_of(text: str, name: str) -> int | None:
    value = float(text)
    return encode(value, name) if math.isfinite(value) else None


def _digits(value: float, precision: int) -> tuple[str, int]:
    """Significant digits, at most `precision` of them and no trailing zeros, and the exponent of the last.

    As in LLVM's APFloat::toString, surplus digits are first cut off in bulk, by an estimate from the number of bits,
    and the rest is rounded half up; so the last digit may be one less than that of the exact value.
    """
    numerator, denominator = abs(value).as_integer_ratio()
    exponent = 1 - denominator.bit_length()  # value = numerator * 2^exponent = numerator * 5^-exponent * 10^exponent
    significand = numerator * 5**-exponent
    surplus = significand.bit_length() - (precision * 196 + 58) // 59
    cut = max(surplus, 0) * 59 // 196
    text = str(significand // 10**cut)
    exponent += cut
    if len(text) > precision:
        dropped = len(text) - precision
        rounded = int(text[:precision]) + (text[precision] >= "5")
        text, exponent = str(rounded), exponent + dropped
    stripped = text.rstrip("0")
    return stripped, exponent + len(text) - len(stripped)


def _scientific(value: float) -> str:
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.{'0' * _SHORT}e+00"
    digits, exponent = _digits(value, _SHORT)
    exponent += len(digits) - 1
    return f"{sign}{digits[0]}.{digits[1:].ljust(_SHORT, '0')}e{'+' if exponent >= 0 else '-'}{abs(exponent):02d}"


def _plain(value: float, precision: int) -> str:
    """The notation that APFloat prefers: plain digits, or scientific where that would need much padding."""
    sign = "-" if value < 0 else ""
    digits, exponent = _digits(value, precision)
    leading = exponent + len(digits) - 1  # power of ten of the first digit
    if exponent >= 0:
        scientific = exponent > _MAX_PADDING or len(digits) + exponent > precision
    else:
        scientific = -leading > _MAX_PADDING
    if scientific:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{'+' if leading >= 0 else '-'}{abs(leading)}"
    if exponent >= 0:
        return sign + digits + "0" * exponent
    if leading >= 0:
        return f"{sign}{digits[: leading + 1]}.{digits[leading + 1 :]}"
    return f"{sign}0.{'0' * (-leading - 1)}{digits}"


def float_bits(value: float, name: str) -> int:
    """The bit pattern for a decimal literal: rounded to nearest; one that is too large becomes an infinity, or a NaN of
    a type that has NaNs only, or the largest number of a type that has neither.

    ValueError for a negative number of an unsigned type.
    """
    form = FORMATS[name]
    if form.specials == "nan" and abs(value) > _limit(form, name):
        return encode(math.copysign(math.nan, value), name) | _sign_bit(value, form)
    return encode(value, name)


def _sign_bit(value: float, form: FloatFormat) -> int:
    return (math.copysign(1.0, value) < 0) << (form.bits - 1) if form.signed else 0


@lru_cache(maxsize=16)
def _limit(form: FloatFormat, name: str) -> float:
    """The largest value that still rounds to the largest number of the type."""
    largest = encode(math.inf, name)
    top = decode(largest, name)
    return top + (top - decode(largest - 1, name)) / 2


def integer_text(bits: int, width: int) -> str:
    """A signless integer's bit pattern as the signed number, or as `true` or `false` when it has one bit."""
    if width == 1:
        return "true" if bits & 1 else "false"
    return str(bits - (1 << width) if bits >> (width - 1) & 1 else bits)
