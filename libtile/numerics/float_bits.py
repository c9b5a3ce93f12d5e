# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bit patterns of the float types and the Python floats that they stand for, NaN payloads kept.

`decode` is exact for every pattern; `encode` is its inverse, and rounds a float that the type lacks to nearest, ties
to even. A NaN keeps its sign, and as many leading payload bits as the narrower of the two types has.
"""

from __future__ import annotations

import struct

from libtile.numerics.elements import FORMATS, FloatFormat

_F64 = FORMATS["f64"]


def decode(bits: int, name: str) -> float:
    """The number that `bits` stand for in the float type `name`; KeyError for another type."""
    form = FORMATS[name]
    if form is _F64:
        return float(struct.unpack("<d", bits.to_bytes(8, "little"))[0])
    sign = bits >> (form.exponent + form.mantissa) & 1 if form.signed else 0
    exponent = bits >> form.mantissa & ((1 << form.exponent) - 1)
    mantissa = bits & ((1 << form.mantissa) - 1)
    top = (1 << form.exponent) - 1
    full = (1 << form.mantissa) - 1
    if form.specials == "ieee" and exponent == top:
        return _special(sign, mantissa << (52 - form.mantissa))
    if form.specials == "nan" and exponent == top and mantissa == full:
        return _special(sign, 1 << 51)
    if exponent == 0 and form.mantissa:
        value = mantissa * 2.0 ** (1 - form.bias - form.mantissa)
    else:
        value = (mantissa + (1 << form.mantissa)) * 2.0 ** (exponent - form.bias - form.mantissa)
    return -value if sign else value


def _special(sign: int, mantissa: int) -> float:
    bits = sign << 63 | 0x7FF << 52 | mantissa
    return float(struct.unpack("<d", bits.to_bytes(8, "little"))[0])


def encode(value: float, name: str) -> int:
    """The bit pattern of `value` in the float type `name`; KeyError for another type.

    What is too large becomes an infinity, or the largest finite number of a type without one; a NaN of a type without
    NaNs and a negative number of an unsigned type raise ValueError.
    """
    form = FORMATS[name]
    raw = int.from_bytes(struct.pack("<d", value), "little")
    if form is _F64:
        return raw
    sign, exponent, mantissa = raw >> 63, raw >> 52 & 0x7FF, raw & ((1 << 52) - 1)
    if sign and not form.signed and value == value:
        raise ValueError(f"{value} is negative, and {name} has no sign")
    place = sign << (form.exponent + form.mantissa) if form.signed else 0
    if exponent == 0x7FF and mantissa:
        return place | _nan(mantissa, form, name)
    if exponent == 0x7FF:
        return place | (form.infinity_code if form.has_infinity else form.largest_code)
    return place | _round(exponent, mantissa, form)


def _nan(mantissa: int, form: FloatFormat, name: str) -> int:
    if form.specials == "none":
        raise ValueError(f"{name} has no NaN")
    if form.specials == "nan":
        return (1 << (form.exponent + form.mantissa)) - 1
    kept = mantissa >> (52 - form.mantissa)
    return ((1 << form.exponent) - 1) << form.mantissa | (kept or 1 << (form.mantissa - 1))


def _round(exponent: int, mantissa: int, form: FloatFormat) -> int:
    """A finite f64's fields to the format's exponent and mantissa fields, rounded to nearest, ties to even."""
    if exponent == 0 and mantissa == 0:
        return 0
    significand = mantissa | (1 << 52 if exponent else 0)
    scale = max(exponent, 1) - 1023 - 52  # value = significand * 2^scale
    lead = significand.bit_length() - 1 + scale
    smallest = 1 - form.bias if form.mantissa else -form.bias
    last = max(lead, smallest) - form.mantissa  # exponent of the last place that the format keeps
    drop = last - scale
    if drop <= 0:
        units = significand << -drop
    else:
        units, rest = significand >> drop, significand & ((1 << drop) - 1)
        half = 1 << (drop - 1)
        units += rest > half or (rest == half and bool(units & 1))
    # Carries out of the mantissa run into the exponent field, as the encoding is monotonic.
    if form.mantissa == 0:
        fields = max(lead, smallest) + form.bias + (units - 1 if units else 0)
    elif units >= 1 << form.mantissa:
        fields = ((last + form.mantissa + form.bias - 1) << form.mantissa) + units
    else:
        fields = units
    return min(fields, form.infinity_code if form.has_infinity else form.largest_code)
