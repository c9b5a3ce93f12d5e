# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversions between element types, on single values (Tile IR specification, Conversions).

Every conversion rounds once. Where it takes two steps the first is exact, or rounds to odd (truncation, with the last
bit set if that lost anything), which keeps a second rounding to at most 22 bits correct (Boldo and Melquiond,
"Emulation of a FMA and correctly rounded sums", 2008), or both round in one direction, and then the coarser of two
nested grids decides alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen import narrow_floats
from libtile.codegen.builder import KernelBuilder, Value, float_constant, integer
from libtile.codegen.compare import is_nan
from libtile.codegen.integers import flags, is_signed, width
from libtile.codegen.llvm_types import (
    BFLOAT,
    DOUBLE,
    ELEMENT_TYPES,
    FLOAT,
    HALF,
    I1,
    I8,
    I16,
    I32,
    I64,
    IntType,
    LlvmType,
    VectorType,
)
from libtile.codegen.stored_bits import join
from libtile.numerics.elements import ELEMENTS, FORMATS
from libtile.support.diagnostics import UnsupportedError

PTX_ROUNDING = {"nearest_even": "rn", "zero": "rz", "negative_inf": "rm", "positive_inf": "rp"}
NARROW = tuple(name for name, element in ELEMENTS.items() if element.is_narrow_float)
"""The formats that are held as their bits in an i8."""


def _check(*elements: str) -> None:
    for element in elements:
        if element not in FORMATS:
            raise ValueError(f"{element} is not a floating-point type")


# -- between floats -------------------------------------------------------------------------------------------------


def ftof(
    b: KernelBuilder, value: Value, source: str, result: str, mode: str = "nearest_even", saturate: bool = True
) -> Value:
    """A float in another float type, rounded once in a mode (`nearest_away` for tf32 and exact conversions only).

    `saturate` is for formats of 8 bits and less: too large magnitudes become the largest finite one, not infinity or
    NaN. ValueError for a mode that a format has not.
    """
    return ftof_all(b, [value], source, result, mode, saturate)[0]


def ftof_all(
    b: KernelBuilder,
    values: Sequence[Value],
    source: str,
    result: str,
    mode: str = "nearest_even",
    saturate: bool = True,
) -> list[Value]:
    """`ftof` of several values of a thread: neighbours are converted in pairs where the hardware does so."""
    _check(source, result)
    if source == result:
        return list(values)
    if FORMATS[source].fits_in(FORMATS[result]):  # then every rounding mode gives the same
        mode = "nearest_even"
    if result == "f64":
        return [b.cast("fpext", v, DOUBLE) for v in widen_all(b, values, source)] if source != "f64" else list(values)
    if source == "f64":
        return [_from_double(b, v, result, mode, saturate) for v in values]
    if result == "f16" and ELEMENTS[source].widens_to_half:
        return _in_pairs(values, narrow_floats.pair_decoder(b, source) or narrow_floats.half_decoder(b, source))
    singles = widen_all(b, values, source)
    if result in NARROW and saturate and (encoder := narrow_floats.pair_encoder(b, result, mode)):
        return _in_pairs(singles, encoder)
    if result in ("f16", "bf16") and mode == "nearest_even":
        return _narrow_pairs(b, singles, ELEMENT_TYPES[result])
    exact = result == "tf32" and source in ("f16", "bf16", *NARROW)
    return [v if exact else narrow(b, v, result, mode, saturate) for v in singles]


def _in_pairs(values: Sequence[Value], convert: narrow_floats.Pairwise) -> list[Value]:
    out: list[Value] = []
    for i in range(0, len(values), 2):
        out += convert(values[i], values[min(i + 1, len(values) - 1)])
    return out[: len(values)]


def _narrow_pairs(b: KernelBuilder, values: Sequence[Value], type_: LlvmType) -> list[Value]:
    """f32 to f16 or bf16, nearest even; LLVM makes one cvt.rn.f16x2 of each pair."""
    if len(values) == 1:
        return [b.cast("fptrunc", values[0], type_)]

    def convert(low: Value, high: Value) -> tuple[Value, Value]:
        pair = b.emit(VectorType(2, type_), f"fptrunc {b.vector([low, high]).typed} to <2 x {type_}>")
        low, high = b.elements(pair, type_)
        return low, high

    return _in_pairs(values, convert)


def widen(b: KernelBuilder, value: Value, source: str) -> Value:
    """Any float but f64 as an f32, exactly."""
    return widen_all(b, [value], source)[0]


def widen_all(b: KernelBuilder, values: Sequence[Value], source: str) -> list[Value]:
    """`widen` of several values of a thread, in pairs where the hardware does so."""
    if source == "f32":
        return list(values)
    if source in ("f16", "bf16"):
        return [b.cast("fpext", v, FLOAT) for v in values]
    if source == "tf32":
        return [narrow_floats.from_tf32(b, v) for v in values]
    if source not in NARROW:
        raise ValueError(f"{source} does not widen to f32")
    decoder = narrow_floats.pair_decoder(b, source)
    if decoder is None:
        return [narrow_floats.decode(b, v, source) for v in values]
    return [b.cast("fpext", v, FLOAT) for v in _in_pairs(values, decoder)]


def narrow(b: KernelBuilder, value: Value, result: str, mode: str, saturate: bool = True) -> Value:
    """An f32 as a float type of at most its precision, rounded once. ValueError for a mode that the type has not."""
    if result == "f32":
        return value
    if result == "tf32":
        return narrow_floats.to_tf32(b, value, mode)
    if result in NARROW:
        return narrow_floats.encode(b, value, result, mode, saturate)
    if mode not in PTX_ROUNDING:
        raise UnsupportedError(f"{result} cannot be rounded to {mode}")
    if mode == "nearest_even":
        return b.cast("fptrunc", value, ELEMENT_TYPES[result])
    if result == "f16":
        return _half(b, b.asm(f"cvt.{PTX_ROUNDING[mode]}.f16.f32 $0, $1;", "=h,f", I16, [value]))
    if mode == "zero":
        return b.call("llvm.nvvm.f2bf16.rz", BFLOAT, [value])
    return _bfloat_directed(b, value, mode)


def _half(b: KernelBuilder, bits: Value) -> Value:
    return b.cast("bitcast", bits, HALF)


def _bfloat_directed(b: KernelBuilder, value: Value, mode: str) -> Value:
    """An f32 rounded up or down to bf16: cvt does not have these modes. Its upper half, and one more where it must."""
    bits = narrow_floats.bits_of(b, value)
    away = b.compare("sge" if mode == "positive_inf" else "slt", bits, integer(I32, 0))
    raised = b.select(away, b.binary("add", bits, integer(I32, 0xFFFF)), bits)
    raised = b.select(is_nan(b, value), integer(I32, narrow_floats.MAGNITUDE), raised)
    upper = b.cast("trunc", b.binary("lshr", raised, integer(I32, 16)), I16)
    return b.cast("bitcast", upper, BFLOAT)


def _from_double(b: KernelBuilder, value: Value, result: str, mode: str, saturate: bool) -> Value:
    if result == "f32" and mode in PTX_ROUNDING:
        if mode == "nearest_even":
            return b.cast("fptrunc", value, FLOAT)
        return b.call(f"llvm.nvvm.d2f.{PTX_ROUNDING[mode]}", FLOAT, [value])
    if result == "f16" and mode in PTX_ROUNDING:
        if mode == "nearest_even":
            return b.cast("fptrunc", value, HALF)
        return _half(b, b.asm(f"cvt.{PTX_ROUNDING[mode]}.f16.f64 $0, $1;", "=h,d", I16, [value]))
    if result == "f32":
        raise UnsupportedError(f"f32 cannot be rounded to {mode}")
    return narrow(b, _odd_float(b, value), result, mode, saturate)


def _odd_float(b: KernelBuilder, value: Value) -> Value:
    """An f64 as an f32 rounded to odd."""
    truncated = b.call("llvm.nvvm.d2f.rz", FLOAT, [value])
    back = b.cast("fpext", truncated, DOUBLE)
    inexact = b.emit(I1, f"fcmp one {back.typed}, {value.text}")
    return _set_last_bit(b, truncated, inexact)


def _set_last_bit(b: KernelBuilder, value: Value, condition: Value) -> Value:
    bits = b.binary("or", narrow_floats.bits_of(b, value), b.cast("zext", condition, I32))
    return narrow_floats.float_of(b, bits)


# -- between integers and floats ------------------------------------------------------------------------------------


def itof(b: KernelBuilder, value: Value, result: str, signedness: str, mode: str = "nearest_even") -> Value:
    """An integer as a float, rounded to nearest even; too large ones become infinity, or NaN where there is none.

    A true signed i1 is -1. ValueError for another mode, or for f8E8M0FNU, which has no zero.
    """
    _check(result)
    if mode != "nearest_even" or result == "f8E8M0FNU":
        raise UnsupportedError(f"integers are not converted to {result} rounded to {mode}")
    signed, bits = is_signed(signedness), width(value)
    operation = "sitofp" if signed else "uitofp"
    if bits == 1:
        # Not by sitofp: LLVM 22 makes +1 of a true i1 that becomes a bf16.
        single = b.select(value, float_constant(FLOAT, -1.0 if signed else 1.0), float_constant(FLOAT, 0.0))
        return ftof(b, single, "f32", result, mode, saturate=False)
    if result in ("f16", "f32", "f64"):
        return b.cast(operation, value, ELEMENT_TYPES[result])
    if bits <= 16:
        return narrow(b, b.cast(operation, value, FLOAT), result, mode, saturate=False)
    return narrow(b, _odd_float_of_integer(b, value, signed), result, mode, saturate=False)


def itof_all(
    b: KernelBuilder, values: Sequence[Value], result: str, signedness: str, mode: str = "nearest_even"
) -> list[Value]:
    """`itof` of several values of a thread: bytes become f16 two at a time, without an instruction that converts."""
    if result != "f16" or mode != "nearest_even" or len(values) < 2 or width(values[0]) != 8:
        return [itof(b, v, result, signedness, mode) for v in values]
    out: list[Value] = []
    for i in range(0, len(values), 4):
        out += _halves_of_bytes(b, values[i : i + 4], is_signed(signedness))
    return out


def _halves_of_bytes(b: KernelBuilder, values: Sequence[Value], signed: bool) -> list[Value]:
    """Up to four bytes as f16. The last bits of 1024 as an f16 count ones: with a byte in them it is 1024 more than the
    byte, and what is taken off again leaves an exact number. A signed byte is one of 0 to 255 less 128."""
    word = join(b, [*values, *[integer(I8, 0)] * (4 - len(values))], 8)
    if signed:
        word = b.xor(word, integer(I32, 0x80808080))
    above = float_constant(FLOAT, -(1024.0 + (128.0 if signed else 0.0)))
    pair = VectorType(2, HALF)
    less = b.cast("fptrunc", above, HALF)
    out: list[Value] = []
    for first in range(0, len(values), 2):
        high = 4  # a byte of the second operand
        selector = high << 12 | first + 1 << 8 | high << 4 | first
        placed = b.call("llvm.nvvm.prmt", I32, [word, integer(I32, 0x64646464), integer(I32, selector)])
        halves = b.emit(pair, f"fadd {b.cast('bitcast', placed, pair).typed}, {b.vector([less, less]).text}")
        out += [b.extract(halves, 0, HALF), b.extract(halves, 1, HALF)]
    return out[: len(values)]


_INTEGER_LETTERS = {(32, True): "i", (32, False): "ui", (64, True): "ll", (64, False): "ull"}


def _odd_float_of_integer(b: KernelBuilder, value: Value, signed: bool) -> Value:
    """A 32- or 64-bit integer as an f32 rounded to odd."""
    letters = _INTEGER_LETTERS[width(value), signed]
    truncated = b.call(f"llvm.nvvm.{letters}2f.rz", FLOAT, [value])
    back = b.call(f"llvm.nvvm.f2{letters}.rz", value.type, [truncated])
    return _set_last_bit(b, truncated, b.compare("ne", back, value))


def ftoi(b: KernelBuilder, value: Value, source: str, result: str, signedness: str, saturating: bool = False) -> Value:
    """The integer part of a float. Out of range it is unspecified, or with `saturating` the nearest integer and 0 for
    NaN. A conversion to i1 is a test for non-zero (so is NaN).
    """
    _check(source)
    if source != "f64":
        value = widen(b, value, source)
    if result == "i1":
        zero = Value(value.type, "0.0")
        return b.emit(I1, f"fcmp une {value.typed}, {zero.text}")
    signed, bits = is_signed(signedness), ELEMENTS[result].bits
    wide = 64 if bits == 64 else 32
    # The conversions of 32 and 64 bits clamp to their range (PTX ISA, cvt, "Integer Notes").
    letter = "d" if value.type is DOUBLE else "f"
    number = b.call(f"llvm.nvvm.{letter}2{_INTEGER_LETTERS[wide, signed]}.rz", IntType(wide), [value])
    if saturating:
        number = b.select(is_nan(b, value), integer(number.type, 0), number)
        if bits < wide:
            number = _clamp(b, number, bits, signed)
    return b.cast("trunc", number, ELEMENT_TYPES[result])


def _clamp(b: KernelBuilder, number: Value, bits: int, signed: bool) -> Value:
    if not signed:
        return b.call(f"llvm.umin.{number.type}", number.type, [number, integer(number.type, (1 << bits) - 1)])
    low, high = integer(number.type, -(1 << (bits - 1))), integer(number.type, (1 << (bits - 1)) - 1)
    number = b.call(f"llvm.smin.{number.type}", number.type, [number, high])
    return b.call(f"llvm.smax.{number.type}", number.type, [number, low])


# -- between integers, and of bits ----------------------------------------------------------------------------------


def _nibble(b: KernelBuilder, value: Value, signed: bool) -> Value:
    """The i8 of an i4: its low half extended."""
    if not signed:
        return b.and_(value, integer(I8, 15))
    return b.binary("ashr", b.binary("shl", value, integer(I8, 4)), integer(I8, 4))


def exti(b: KernelBuilder, value: Value, source: str, result: str, signedness: str) -> Value:
    """An integer in a wider type, extended by its sign or by zeros."""
    signed = is_signed(signedness)
    if source == "i4":
        value = _nibble(b, value, signed)
    return b.cast("sext" if signed else "zext", value, ELEMENT_TYPES[result])


def trunci(b: KernelBuilder, value: Value, source: str, result: str, overflow: str = "none") -> Value:
    """The low bits of an integer; `overflow` promises that its other bits are copies of the sign, or zeros."""
    to = ELEMENT_TYPES[result]
    promise = "" if "i4" in (source, result) else flags(overflow)
    if value.type == to or value.constant is not None:
        return b.cast("trunc", value, to) if to is not I1 else integer(I1, value.constant or 0)
    return b.emit(to, f"trunc{promise} {value.typed} to {to}")


def bitcast(b: KernelBuilder, value: Value, source: str, result: str) -> Value:
    """The same bits as another type of the same width (4-bit ones stay in the low half of their byte)."""
    return b.cast("bitcast", value, ELEMENT_TYPES[result])


def ptr_to_int(b: KernelBuilder, value: Value) -> Value:
    """The address of a pointer, an i64."""
    return b.cast("ptrtoint", value, I64)


def int_to_ptr(b: KernelBuilder, value: Value) -> Value:
    """The pointer to an address, an i64."""
    return b.cast("inttoptr", value, ELEMENT_TYPES["ptr"])
