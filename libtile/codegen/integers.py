# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integer arithmetic on single values of i1, i8, i16, i32 and i64 (Tile IR specification, Integer operations).

Each function takes the builder, the operands, and the op's attributes by their Tile IR keywords. Nothing here is
undefined for LLVM that Tile IR gives a meaning: shifts by the width or more, and divisions by zero, which programs
reach in elements that they later mask off, give some value and leave the rest of the program alone.
"""

from __future__ import annotations

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I1, IntType

_WRAP_FLAGS = {"none": "", "no_signed_wrap": " nsw", "no_unsigned_wrap": " nuw", "no_wrap": " nuw nsw"}


def width(value: Value) -> int:
    """The number of bits of an integer value. ValueError for another type."""
    if not isinstance(value.type, IntType):
        raise ValueError(f"{value.type} is not an integer type")
    return value.type.bits


def is_signed(signedness: str) -> bool:
    """Whether a Tile IR signedness keyword is `signed`. ValueError for an unknown one."""
    if signedness not in ("signed", "unsigned"):
        raise ValueError(f"unknown signedness '{signedness}'")
    return signedness == "signed"


def flags(overflow: str) -> str:
    """LLVM's wrap flags for a Tile IR overflow promise, with a blank in front. ValueError for an unknown one."""
    if overflow not in _WRAP_FLAGS:
        raise ValueError(f"unknown overflow promise '{overflow}'")
    return _WRAP_FLAGS[overflow]


# -- sums and products ----------------------------------------------------------------------------------------------


def add(b: KernelBuilder, lhs: Value, rhs: Value, overflow: str = "none") -> Value:
    """lhs + rhs modulo 2^N; `overflow` promises that it does not wrap."""
    return b.binary("add" + flags(overflow), lhs, rhs)


def sub(b: KernelBuilder, lhs: Value, rhs: Value, overflow: str = "none") -> Value:
    """lhs - rhs modulo 2^N; `overflow` promises that it does not wrap."""
    return b.binary("sub" + flags(overflow), lhs, rhs)


def mul(b: KernelBuilder, lhs: Value, rhs: Value, overflow: str = "none") -> Value:
    """The low N bits of lhs * rhs; `overflow` promises that nothing is lost."""
    return b.binary("mul" + flags(overflow), lhs, rhs)


def mulhi(b: KernelBuilder, lhs: Value, rhs: Value, signedness: str = "unsigned") -> Value:
    """The high N bits of the 2N-bit product."""
    bits = width(lhs)
    double = IntType(2 * bits)
    extend, multiply = ("sext", "mul nsw") if signedness == "signed" else ("zext", "mul nuw")
    product = b.binary(multiply, b.cast(extend, lhs, double), b.cast(extend, rhs, double))
    return b.cast("trunc", b.binary("lshr", product, integer(double, bits)), lhs.type)


def neg(b: KernelBuilder, source: Value, overflow: str = "none") -> Value:
    """-source modulo 2^N."""
    return b.binary("sub" + flags(overflow), integer(source.type, 0), source)


def abs_(b: KernelBuilder, source: Value) -> Value:
    """The magnitude of a signed number, as an unsigned one (so the smallest integer keeps its bits)."""
    if source.type is I1:
        return source
    return b.call(f"llvm.abs.{source.type}", source.type, [source, integer(I1, 0)])


# -- division -------------------------------------------------------------------------------------------------------


def _divisor(b: KernelBuilder, lhs: Value, rhs: Value, signed: bool) -> Value:
    """The divisor with 1 in place of those that LLVM does not define: zero, and -1 below the smallest integer."""
    if rhs.constant is not None and rhs.constant not in (0, -1):
        return rhs
    bad = b.compare("eq", rhs, integer(rhs.type, 0))
    if signed:
        smallest = b.compare("eq", lhs, integer(lhs.type, 1 << (width(lhs) - 1)))
        bad = b.or_(bad, b.and_(smallest, b.compare("eq", rhs, integer(rhs.type, -1))))
    return b.select(bad, integer(rhs.type, 1), rhs)


def div(b: KernelBuilder, lhs: Value, rhs: Value, signedness: str, rounding: str = "zero") -> Value:
    """lhs / rhs, rounded to `zero`, `negative_inf` or `positive_inf`.

    Undefined cases (a zero divisor, the smallest integer by -1) give lhs. ValueError for another rounding.
    """
    if rounding not in ("zero", "negative_inf", "positive_inf"):
        raise ValueError(f"integer division does not round to '{rounding}'")
    signed = is_signed(signedness)
    if lhs.type is I1:
        return lhs  # the only divisor is +1 or -1, and -(-1) wraps to -1
    divisor = _divisor(b, lhs, rhs, signed)
    quotient = b.binary("sdiv" if signed else "udiv", lhs, divisor)
    if rounding == "zero" or (rounding == "negative_inf" and not signed):
        return quotient
    rest = b.binary("sub", lhs, b.mul(quotient, divisor))
    zero = integer(lhs.type, 0)
    adjust = b.compare("ne", rest, zero)
    if signed:
        # The rest has the dividend's sign; the quotient is positive where the divisor's sign is the same.
        unlike = b.compare("slt", b.xor(rest, divisor), zero)
        adjust = b.and_(adjust, unlike if rounding == "negative_inf" else b.not_(unlike))
    one = b.cast("zext", adjust, lhs.type)
    return b.binary("sub" if rounding == "negative_inf" else "add", quotient, one)


def rem(b: KernelBuilder, lhs: Value, rhs: Value, signedness: str) -> Value:
    """lhs - trunc(lhs / rhs) * rhs: of the sign of lhs. A zero divisor gives 0."""
    if lhs.type is I1:
        return integer(I1, 0)
    signed = is_signed(signedness)
    return b.binary("srem" if signed else "urem", lhs, _divisor(b, lhs, rhs, signed))


# -- order ----------------------------------------------------------------------------------------------------------


def max_(b: KernelBuilder, lhs: Value, rhs: Value, signedness: str) -> Value:
    """The larger number."""
    return _extremum(b, "max", lhs, rhs, is_signed(signedness))


def min_(b: KernelBuilder, lhs: Value, rhs: Value, signedness: str) -> Value:
    """The smaller number."""
    return _extremum(b, "min", lhs, rhs, is_signed(signedness))


def _extremum(b: KernelBuilder, name: str, lhs: Value, rhs: Value, signed: bool) -> Value:
    if lhs.type is I1:
        # A true signed i1 is -1, the smaller one.
        return b.and_(lhs, rhs) if (name == "max") == signed else or_(b, lhs, rhs)
    return b.call(f"llvm.{'s' if signed else 'u'}{name}.{lhs.type}", lhs.type, [lhs, rhs])


# -- bits -----------------------------------------------------------------------------------------------------------


def and_(b: KernelBuilder, lhs: Value, rhs: Value) -> Value:
    """Bitwise and."""
    return b.binary("and", lhs, rhs)


def or_(b: KernelBuilder, lhs: Value, rhs: Value) -> Value:
    """Bitwise or."""
    return b.binary("or", lhs, rhs)


def xor(b: KernelBuilder, lhs: Value, rhs: Value) -> Value:
    """Bitwise exclusive or."""
    return b.binary("xor", lhs, rhs)


def shl(b: KernelBuilder, lhs: Value, rhs: Value, overflow: str = "none") -> Value:
    """lhs shifted left by the unsigned rhs; 0 from the width on."""
    if lhs.type is I1:
        return b.and_(lhs, b.not_(rhs))
    if overflow != "none":
        return b.binary("shl" + flags(overflow), lhs, rhs)  # the promise includes that rhs is less than the width
    return _guarded_shift(b, "shl", lhs, rhs)


def shr(b: KernelBuilder, lhs: Value, rhs: Value, signedness: str) -> Value:
    """lhs shifted right by the unsigned rhs, filled with the sign or with zeros; all fill from the width on."""
    signed = is_signed(signedness)
    if lhs.type is I1:
        return lhs if signed else b.and_(lhs, b.not_(rhs))
    if not signed:
        return _guarded_shift(b, "lshr", lhs, rhs)
    most = integer(rhs.type, width(rhs) - 1)
    amount = b.call(f"llvm.umin.{rhs.type}", rhs.type, [rhs, most]) if rhs.constant is None else rhs
    if amount.constant is not None and not 0 <= amount.constant < width(rhs):
        amount = most
    return b.binary("ashr", lhs, amount)


def _guarded_shift(b: KernelBuilder, operation: str, lhs: Value, rhs: Value) -> Value:
    bits = width(lhs)
    if rhs.constant is not None:
        return b.binary(operation, lhs, rhs) if 0 <= rhs.constant < bits else integer(lhs.type, 0)
    zero, inside = integer(lhs.type, 0), b.compare("ult", rhs, integer(rhs.type, bits))
    if bits == 64:
        # LLVM 22 makes a 64-bit shift under such a select one clamping PTX shift by the amount's low 32 bits, which
        # is wrong for amounts of 2**32 and more. A select of what is shifted is left as it is.
        return b.binary(operation, b.select(inside, lhs, zero), b.and_(rhs, integer(rhs.type, bits - 1)))
    # LLVM's shift by too much is poison, which a select does not pass on from the side that is not taken.
    return b.select(inside, b.binary(operation, lhs, rhs), zero)
