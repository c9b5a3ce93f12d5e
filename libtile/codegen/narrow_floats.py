# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floats of 8 bits and less, and tf32: to and from f32, by the hardware's conversions or by integer arithmetic.

An f32 (exact, or rounded to odd when it stands for a wider number) becomes a format of m fraction bits so:

* from the format's smallest normal number on, its pattern is rounded at bit 23 - m in place, ties to even, shifted
  down, and its exponent bias changed; a carry into the exponent is right by itself;
* below, adding 2**(23 + emin - m) makes the hardware round to the format's last place, and the difference of the
  two patterns is the code;
* codes beyond the largest become it (saturation) or the next one, which stands for infinity or NaN.

Back, the bits are placed at the top of an f32's fraction and low exponent bits, and multiplied by the power of two
between the biases, which is exact and takes subnormals along.

Sources: OCP 8-bit Floating Point Specification 1.0, OCP Microscaling Formats 1.0, PTX ISA (cvt).
"""

from __future__ import annotations

from collections.abc import Callable

from libtile.codegen.builder import KernelBuilder, Value, float_constant, integer
from libtile.codegen.llvm_types import BFLOAT, FLOAT, HALF, I8, I16, I32, LlvmType, VectorType
from libtile.numerics.elements import ELEMENTS, FORMATS, FloatFormat
from libtile.numerics.elements import HALF as HALF_FORMAT
from libtile.support.diagnostics import UnsupportedError

MAGNITUDE, INFINITY, SMALLEST_NORMAL = 0x7FFFFFFF, 0x7F800000, 0x00800000
"""Of an f32's pattern: all but the sign, infinity, and 2**-126."""


_CVT_FEATURES = {"e4m3": "cvt_fp8", "e5m2": "cvt_fp8", "e2m1": "cvt_fp4"}
"""The target features that cvt to and from a format needs, by its name in PTX (PTX ISA, cvt)."""


def _has_cvt(b: KernelBuilder, element: str) -> bool:
    feature = _CVT_FEATURES.get(ELEMENTS[element].ptx)
    return feature is not None and b.target.has(feature)


E8M0_NAN = FORMATS["f8E8M0FNU"].nan_code
E8M0_MODES = {"zero": "rz", "positive_inf": "rp"}

Pairwise = Callable[[Value, Value], tuple[Value, Value]]
"""A conversion of two values at once."""


def has_nan(element: str) -> bool:
    """Whether a narrow format has a NaN."""
    return FORMATS[element].has_nan


# -- hardware -------------------------------------------------------------------------------------------------------


def pair_encoder(b: KernelBuilder, element: str, mode: str) -> Pairwise | None:
    """The target's saturating conversion of two f32 to a narrow format, or None when it has none."""
    if element == "f8E8M0FNU":
        if not b.target.has("cvt_fp4") or mode not in E8M0_MODES:
            return None
        return lambda low, high: _encode_bytes(b, f"cvt.{E8M0_MODES[mode]}.satfinite.ue8m0x2.f32", low, high)
    if not _has_cvt(b, element) or mode != "nearest_even":
        return None
    name = f"cvt.rn.satfinite.{ELEMENTS[element].ptx}x2.f32"
    if ELEMENTS[element].is_packed:
        return lambda low, high: _encode_nibbles(b, name, low, high)
    return lambda low, high: _encode_bytes(b, name, low, high)


def _encode_bytes(b: KernelBuilder, name: str, low: Value, high: Value) -> tuple[Value, Value]:
    both = b.asm(f"{name} $0, $1, $2;", "=h,f,f", I16, [high, low])
    upper = b.binary("lshr", both, integer(I16, 8))
    return b.cast("trunc", both, I8), b.cast("trunc", upper, I8)


def _encode_nibbles(b: KernelBuilder, name: str, low: Value, high: Value) -> tuple[Value, Value]:
    template = f"{{ .reg .b8 byte; {name} byte, $1, $2; cvt.u16.u8 $0, byte; }}"
    both = b.cast("trunc", b.asm(template, "=h,f,f", I16, [high, low]), I8)
    return both, b.binary("lshr", both, integer(I8, 4))


def pair_decoder(b: KernelBuilder, element: str) -> Pairwise | None:
    """The target's exact conversion of two narrow floats to two f16 (bf16 for f8E8M0FNU), or None."""
    if element == "f8E8M0FNU":
        if not b.target.has("cvt_fp4"):
            return None
        return lambda low, high: _decode_bytes(b, "cvt.rn.bf16x2.ue8m0x2", BFLOAT, low, high)
    if not _has_cvt(b, element):
        return None
    name = f"cvt.rn.f16x2.{ELEMENTS[element].ptx}x2"
    if ELEMENTS[element].is_packed:
        return lambda low, high: _decode_nibbles(b, name, low, high)
    return lambda low, high: _decode_bytes(b, name, HALF, low, high)


def _decode_bytes(b: KernelBuilder, name: str, type_: LlvmType, low: Value, high: Value) -> tuple[Value, Value]:
    both = b.or_(b.cast("zext", low, I16), b.binary("shl", b.cast("zext", high, I16), integer(I16, 8)))
    return _halves(b, b.asm(f"{name} $0, $1;", "=r,h", I32, [both]), type_)


def _decode_nibbles(b: KernelBuilder, name: str, low: Value, high: Value) -> tuple[Value, Value]:
    both = b.or_(b.and_(low, integer(I8, 15)), b.binary("shl", high, integer(I8, 4)))
    template = f"{{ .reg .b8 byte; cvt.u8.u16 byte, $1; {name} $0, byte; }}"
    return _halves(b, b.asm(template, "=r,h", I32, [b.cast("zext", both, I16)]), HALF)


def _halves(b: KernelBuilder, both: Value, type_: LlvmType) -> tuple[Value, Value]:
    pair = b.cast("bitcast", both, VectorType(2, type_))
    return b.extract(pair, 0, type_), b.extract(pair, 1, type_)


# -- integer arithmetic ---------------------------------------------------------------------------------------------


def bits_of(b: KernelBuilder, value: Value) -> Value:
    """The pattern of an f32 (an i32)."""
    return b.cast("bitcast", value, I32)


def float_of(b: KernelBuilder, bits: Value) -> Value:
    """The f32 of a pattern."""
    return b.cast("bitcast", bits, FLOAT)


def rounded_pattern(b: KernelBuilder, bits: Value, drop: int) -> Value:
    """A pattern with half of the last of its kept bits added, ties to even; the low `drop` bits are not cleared."""
    last = b.and_(b.binary("lshr", bits, integer(I32, drop)), integer(I32, 1))
    return b.binary("add", b.binary("add", bits, integer(I32, (1 << (drop - 1)) - 1)), last)


def encode(b: KernelBuilder, value: Value, element: str, mode: str, saturate: bool = True) -> Value:
    """An f32 as a narrow float (an i8), rounded to nearest even, or for f8E8M0FNU to `zero` or `positive_inf`.

    `saturate`: what is too large becomes the largest finite number; else infinity, or NaN in a format without. A NaN
    becomes a NaN, or +6 in f4E2M1FN, which has none; formats without a sign take the magnitude. ValueError for a mode
    that the format has not.
    """
    if element == "f8E8M0FNU":
        return _encode_e8m0(b, value, mode)
    if mode != "nearest_even":
        raise UnsupportedError(f"{element} is rounded to nearest_even only, not to {mode}")
    form = FORMATS[element]
    bits = bits_of(b, value)
    magnitude = b.and_(bits, integer(I32, MAGNITUDE))
    drop = 23 - form.mantissa
    rebias = (127 - form.bias) << form.mantissa
    normal = b.binary("lshr", rounded_pattern(b, magnitude, drop), integer(I32, drop))
    normal = b.binary("sub", normal, integer(I32, rebias))
    emin = 1 - form.bias
    anchor = (23 + emin - form.mantissa + 127) << 23
    summed = b.binary("fadd", float_of(b, magnitude), float_constant(FLOAT, 2.0 ** (23 + emin - form.mantissa)))
    small = b.binary("sub", bits_of(b, summed), integer(I32, anchor))
    is_small = b.compare("ult", magnitude, integer(I32, (emin + 127) << 23))
    code = b.select(is_small, small, normal)
    limit = form.largest_code if saturate else form.overflow_code
    code = b.call("llvm.umin.i32", I32, [code, integer(I32, limit)])
    if form.signed:
        sign = b.binary("lshr", bits, integer(I32, 31 - form.sign_bit))
        code = b.or_(code, b.and_(sign, integer(I32, 1 << form.sign_bit)))
    nan = b.compare("ugt", magnitude, integer(I32, INFINITY))
    return b.cast("trunc", b.select(nan, integer(I32, form.magnitude_mask), code), I8)


def _encode_e8m0(b: KernelBuilder, value: Value, mode: str) -> Value:
    """The biased exponent of a magnitude, of at least 2**-127 and at most 2**127."""
    if mode not in E8M0_MODES:
        raise UnsupportedError(f"f8E8M0FNU is rounded to zero or positive_inf, not to {mode}")
    magnitude = b.and_(bits_of(b, value), integer(I32, MAGNITUDE))
    raised = magnitude
    if mode == "positive_inf":
        # A subnormal up to 2**-127, which is half of the smallest normal, stays in binade 0.
        small = b.compare("ult", magnitude, integer(I32, SMALLEST_NORMAL))
        step = b.select(small, integer(I32, 0x3FFFFF), integer(I32, 0x7FFFFF))
        raised = b.binary("add", magnitude, step)
    code = b.binary("lshr", raised, integer(I32, 23))
    code = b.call("llvm.umin.i32", I32, [code, integer(I32, 254)])
    nan = b.compare("ugt", magnitude, integer(I32, INFINITY))
    return b.cast("trunc", b.select(nan, integer(I32, E8M0_NAN), code), I8)


def decode(b: KernelBuilder, value: Value, element: str) -> Value:
    """A narrow float (an i8) as an f32, exactly. The high half of an f4E2M1FN's byte does not matter."""
    code = b.cast("zext", value, I32)
    if element == "f8E8M0FNU":
        return _decode_e8m0(b, code)
    form = FORMATS[element]
    magnitude = b.and_(code, integer(I32, form.magnitude_mask))
    if (form.exponent, form.bits, form.specials) == (HALF_FORMAT.exponent, 8, HALF_FORMAT.specials):
        # Its bits are the upper half of an f16's.
        half = b.binary("shl", b.cast("zext", value, I16), integer(I16, 8))
        return b.emit(FLOAT, f"fpext half {b.cast('bitcast', half, HALF).text} to float")
    placed = b.binary("shl", magnitude, integer(I32, 23 - form.mantissa))
    scale = float_constant(FLOAT, 2.0 ** (127 - form.bias))
    result = bits_of(b, b.binary("fmul", float_of(b, placed), scale))
    if form.specials == "nan":
        nan = b.compare("eq", magnitude, integer(I32, form.nan_code))
        result = b.select(nan, integer(I32, MAGNITUDE), result)
    elif form.has_infinity:
        special = b.compare("uge", magnitude, integer(I32, form.infinity_code))
        result = b.select(special, b.or_(placed, integer(I32, INFINITY)), result)
    if form.signed:
        sign = b.binary("shl", code, integer(I32, 31 - form.sign_bit))
        result = b.or_(result, b.and_(sign, integer(I32, 1 << 31)))
    return float_of(b, result)


def half_decoder(b: KernelBuilder, element: str) -> Pairwise:
    """The exact conversion of two floats of a format with a sign, and all of whose values are f16, to two f16, by
    arithmetic on both at once. The high half of an f4E2M1FN's byte does not matter."""
    form = FORMATS[element]
    assert form.signed
    sign_bit = form.sign_bit

    def decode_both(low: Value, high: Value) -> tuple[Value, Value]:
        codes = []
        for value, at in ((low, 0), (high, 16)):
            wide = b.cast("zext", value, I32)
            code = b.and_(wide, integer(I32, (2 << sign_bit) - 1)) if sign_bit < 7 else wide
            codes.append(b.binary("shl", code, integer(I32, _HALF_SIGN - sign_bit + at)))
        return _halves(b, _decode_placed(b, form, b.or_(*codes)), HALF)

    return decode_both


def halves_of_bytes(b: KernelBuilder, element: str, word: Value, position: int) -> Value | None:
    """Two neighbouring bytes of an i32 as two f16 in an i32, exactly, for the formats of `half_decoder`; None where the
    bytes have to be taken apart for that."""
    form = FORMATS[element]
    if _has_cvt(b, element):
        if ELEMENTS[element].is_packed:
            return None
        shifted = b.binary("lshr", word, integer(I32, 8 * position)) if position else word
        return b.asm(f"cvt.rn.f16x2.{ELEMENTS[element].ptx}x2 $0, $1;", "=r,h", I32, [b.cast("trunc", shifted, I16)])
    zero = 4  # the first byte of the second operand
    selector = (position + 1) << 12 | zero << 8 | position << 4 | zero
    placed = b.call("llvm.nvvm.prmt", I32, [word, integer(I32, 0), integer(I32, selector)])
    assert form.signed
    if form.sign_bit != 7:
        up = 7 - form.sign_bit
        placed = b.binary("shl", placed, integer(I32, up))
        placed = b.and_(placed, integer(I32, _both((0xFF << up & 0xFF) << 8)))
    return _decode_placed(b, form, placed)


def _decode_placed(b: KernelBuilder, form: FloatFormat, both: Value) -> Value:
    """Two f16, from codes in the halves of an i32 whose signs are where f16's are, and whose other bits are 0."""
    assert form.signed
    signs, magnitudes = integer(I32, _both(1 << _HALF_SIGN)), integer(I32, _both(0x7FFF))
    narrower = _HALF_EXPONENT_BITS - (form.sign_bit - form.mantissa)
    if not narrower:
        return both
    magnitude = b.and_(both, magnitudes)
    placed = b.cast("bitcast", b.binary("lshr", magnitude, integer(I32, narrower)), VectorType(2, HALF))
    scale = b.cast("bitcast", integer(I32, _both((2 * _HALF_BIAS - form.bias) << _HALF_FRACTION)), VectorType(2, HALF))
    result = b.cast("bitcast", b.binary("fmul", placed, scale), I32)
    result = b.or_(result, b.and_(both, signs))
    if form.has_nan:  # all bits of it, or of its exponent, are set, so that one more in the last place of these carries
        place, ones = (form.mantissa, _HALF_EXPONENT_BITS) if form.has_infinity else (0, _HALF_SIGN)
        last = integer(I32, _both(1 << (_HALF_SIGN - form.sign_bit + place)))
        carried = b.and_(b.binary("add", magnitude, last), signs)
        result = b.or_(result, b.binary("sub", carried, b.binary("lshr", carried, integer(I32, ones))))
    return result


_HALF_SIGN, _HALF_FRACTION, _HALF_EXPONENT_BITS, _HALF_BIAS = 15, 10, 5, 15


def _both(bits: int) -> int:
    """A pattern in both halves of a word."""
    return bits << 16 | bits


def _decode_e8m0(b: KernelBuilder, code: Value) -> Value:
    placed = b.binary("shl", code, integer(I32, 23))
    placed = b.select(b.compare("eq", code, integer(I32, 0)), integer(I32, SMALLEST_NORMAL >> 1), placed)
    nan = b.compare("eq", code, integer(I32, E8M0_NAN))
    return float_of(b, b.select(nan, integer(I32, MAGNITUDE), placed))


# -- tf32 -----------------------------------------------------------------------------------------------------------

TF32_DROPPED = 13
TF32_MASK = -1 << TF32_DROPPED
"""The bits of an f32's pattern that a tf32 has; the others of a register that holds one mean nothing."""


_TF32_CVT = {
    "nearest_away": ("rna", "cvt_tf32"),
    "nearest_even": ("rn", "cvt_tf32_rn"),
    "zero": ("rz", "cvt_tf32_rn"),
}
"""PTX's rounding modifier and the target feature that it needs, by rounding mode."""


def to_tf32(b: KernelBuilder, value: Value, mode: str) -> Value:
    """An f32 rounded to tf32's 11 bits, as an f32 whose low 13 bits mean nothing. ValueError for an unknown mode."""
    form = _TF32_CVT.get(mode)
    if form is not None and b.target.has(form[1]):
        return float_of(b, b.asm(f"cvt.{form[0]}.tf32.f32 $0, $1;", "=r,f", I32, [value]))
    bits = bits_of(b, value)
    if mode == "nearest_even":
        rounded = rounded_pattern(b, bits, TF32_DROPPED)
    elif mode == "nearest_away":
        rounded = b.binary("add", bits, integer(I32, 1 << (TF32_DROPPED - 1)))
    elif mode == "zero":
        rounded = bits
    elif mode in ("positive_inf", "negative_inf"):
        most = integer(I32, (1 << TF32_DROPPED) - 1)
        away = b.compare("sge" if mode == "positive_inf" else "slt", bits, integer(I32, 0))
        rounded = b.select(away, b.binary("add", bits, most), bits)
    else:
        raise ValueError(f"unknown rounding mode '{mode}'")
    kept = b.and_(rounded, integer(I32, TF32_MASK))
    nan = b.compare("ugt", b.and_(bits, integer(I32, MAGNITUDE)), integer(I32, INFINITY))
    return float_of(b, b.select(nan, integer(I32, MAGNITUDE & TF32_MASK), kept))


def from_tf32(b: KernelBuilder, value: Value) -> Value:
    """A tf32 as an f32: its low bits, which mean nothing, cleared."""
    return float_of(b, b.and_(bits_of(b, value), integer(I32, TF32_MASK)))
