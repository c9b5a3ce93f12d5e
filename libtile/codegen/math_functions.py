# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementary functions on single values of f16, bf16, f32 and f64 (Tile IR specification, Floating Point).

f32 and f64 call libdevice, whose functions have the errors that the CUDA programming guide lists; f16 and bf16 are
computed in f32 and rounded. The approximations are PTX instructions.

Sources: libdevice user's guide; PTX ISA (ex2, tanh, rsqrt).
"""

from __future__ import annotations

from collections.abc import Callable

from libtile.codegen.builder import KernelBuilder, Value, float_constant, integer
from libtile.codegen.conversions import itof
from libtile.codegen.floats import abs_, wide
from libtile.codegen.integers import width
from libtile.codegen.llvm_types import BFLOAT, DOUBLE, FLOAT, HALF, I1, I32
from libtile.support.diagnostics import UnsupportedError


def _names(name: str) -> tuple[str, str]:
    """libdevice's names of a function, for f32 and f64."""
    return f"__nv_{name}f", f"__nv_{name}"


_USED = ("exp", "exp2", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "rsqrt", "pow", "atan2")
LIBDEVICE = {name: _names(name) for name in _USED}
"""libdevice's names by Tile IR op, for f32 and f64."""

_LOG2_E = 1.4426950408889634


def _call(b: KernelBuilder, name: str, *operands: Value) -> Value:
    """A libdevice function of operands of one type, through f32 for the narrow types."""
    if operands[0].type not in (HALF, BFLOAT, FLOAT, DOUBLE):
        raise ValueError(f"{operands[0].type} is not a type of float functions")
    values = [wide(b, v) for v in operands]
    single, double = _names(name)
    result = b.call(double if values[0].type is DOUBLE else single, values[0].type, values)
    return b.cast("fptrunc", result, operands[0].type)


def _only_f32(value: Value, what: str) -> None:
    if value.type is not FLOAT:
        raise UnsupportedError(f"{what} is for f32, not {value.type}")


def exp(b: KernelBuilder, source: Value, mode: str = "full") -> Value:
    """e to the power of source. `full`: 2 ulp in f32, 1 in f64; `approx` (f32): the hardware's power of two."""
    if mode == "full":
        return _call(b, "exp", source)
    if mode != "approx":
        raise UnsupportedError(f"exp has no mode '{mode}'")
    _only_f32(source, "exp approx")
    scaled = b.binary("fmul", source, float_constant(FLOAT, _LOG2_E))
    return b.call("llvm.nvvm.ex2.approx.f", FLOAT, [scaled])


def exp2(b: KernelBuilder, source: Value, ftz: bool = False) -> Value:
    """2 to the power of source: 2 ulp in f32, 1 in f64. `ftz` flushes subnormal operands and results (f32 only)."""
    if not ftz:
        return _call(b, "exp2", source)
    _only_f32(source, "flush_to_zero")
    return b.call("llvm.nvvm.ex2.approx.ftz.f", FLOAT, [source])


def rsqrt(b: KernelBuilder, source: Value, ftz: bool = False) -> Value:
    """1 over the square root: 2 ulp in f32, 1 in f64. `ftz` flushes subnormal operands and results (f32 only)."""
    if not ftz:
        return _call(b, "rsqrt", source)
    _only_f32(source, "flush_to_zero")
    return b.call("llvm.nvvm.rsqrt.approx.ftz.f", FLOAT, [source])


def tanh(b: KernelBuilder, source: Value, mode: str = "full") -> Value:
    """The hyperbolic tangent. `full`: 2 ulp in f32, 1 in f64; `approx` (f32): the hardware's, of 2**-11."""
    if mode == "full":
        return _call(b, "tanh", source)
    if mode != "approx":
        raise UnsupportedError(f"tanh has no mode '{mode}'")
    _only_f32(source, "tanh approx")
    return b.call("llvm.nvvm.tanh.approx.f32", FLOAT, [source])


def libdevice(name: str, doc: str = "") -> Callable[[KernelBuilder, Value], Value]:
    """The function of libdevice with one operand that has this name."""

    def function(b: KernelBuilder, source: Value) -> Value:
        return _call(b, name, source)

    function.__name__ = name
    function.__doc__ = doc
    return function


log = libdevice("log", "The natural logarithm: 1 ulp.")
log2 = libdevice("log2", "The logarithm to base 2: 1 ulp.")
sin = libdevice("sin", "The sine of an angle in radians: 2 ulp, for angles of any size.")
cos = libdevice("cos", "The cosine of an angle in radians: 2 ulp, for angles of any size.")
tan = libdevice("tan", "The tangent of an angle in radians: 4 ulp in f32, 2 in f64.")
sinh = libdevice("sinh", "The hyperbolic sine: 3 ulp in f32, 2 in f64.")
cosh = libdevice("cosh", "The hyperbolic cosine: 2 ulp in f32, 1 in f64.")


def pow_(b: KernelBuilder, source: Value, exponent: Value) -> Value:
    """source to the power of exponent, with C's special cases: 4 ulp in f32, 2 in f64."""
    return _call(b, "pow", source, exponent)


def atan2(b: KernelBuilder, y: Value, x: Value) -> Value:
    """The angle of the vector (x, y), C's atan2(y, x) (Tile IR calls the first operand x): 3 ulp in f32, 2 in f64."""
    return _call(b, "atan2", y, x)


def fpowi(b: KernelBuilder, source: Value, exponent: Value) -> Value:
    """source to the power of a signed integer of at most 32 bits, as accurate as `pow_`."""
    base = wide(b, source)
    if exponent.constant is not None and exponent.type is not I1 and exponent.constant in _PRODUCTS:
        return b.cast("fptrunc", _product(b, base, exponent.constant), source.type)
    if base.type is DOUBLE or width(exponent) <= 16:
        number = itof(b, exponent, "f64" if base.type is DOUBLE else "f32", "signed")
        return b.cast("fptrunc", _call(b, "pow", base, number), source.type)
    return b.cast("fptrunc", _power_of_i32(b, base, exponent), source.type)


_PRODUCTS = (-1, 0, 1, 2, 3, 4)
"""Exponents whose powers are multiplied out: at most two roundings, and nothing underflows before the result does."""


def _product(b: KernelBuilder, base: Value, exponent: int) -> Value:
    one = float_constant(base.type, 1.0)
    if exponent == -1:
        return b.binary("fdiv", one, base)
    if exponent < 2:
        return base if exponent else one
    square = b.binary("fmul", base, base)
    return square if exponent == 2 else b.binary("fmul", square, base if exponent == 3 else square)


def _power_of_i32(b: KernelBuilder, base: Value, exponent: Value) -> Value:
    """An f32 to an i32 power. Beyond 2**24 the exponent n is no f32, so it is split in n = m + d with m one:

    |x|**n = |x|**m * exp(d * log |x|), where the power is finite and not zero only for |x| very near 1, so that
    two terms of both series are enough. The sign is that of x for an odd n.
    """
    number = itof(b, exponent, "f32", "signed")
    # The conversion back saturates at 2**31 - 1, one less than the float: |d| is then wrong by one, 1 part in 2**23.
    rest = b.binary("sub", exponent, b.call("llvm.nvvm.f2i.rz", I32, [number]))
    size = abs_(b, base)
    power = _call(b, "pow", size, number)
    half, one = float_constant(FLOAT, 0.5), float_constant(FLOAT, 1.0)
    near = b.binary("fsub", size, one)
    logarithm = b.binary("fsub", near, b.binary("fmul", half, b.binary("fmul", near, near)))
    step = b.binary("fmul", itof(b, rest, "f32", "signed"), logarithm)
    series = b.binary("fadd", one, b.binary("fadd", step, b.binary("fmul", half, b.binary("fmul", step, step))))
    is_near = b.emit(I1, f"fcmp olt {abs_(b, near).typed}, {half.text}")
    split = b.and_(is_near, b.compare("ne", rest, integer(I32, 0)))
    power = b.select(split, b.binary("fmul", power, series), power)
    odd = b.cast("trunc", exponent, I1)
    signed = b.call("llvm.copysign.f32", FLOAT, [power, base])
    return b.select(odd, signed, power)
