# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floating-point arithmetic with PTX's rounding modes, on numpy vectors.

Results of f32 and narrower formats are computed in float64, rounded to odd where float64 is not exact, and then
rounded once more. Rounding to odd keeps what the second rounding needs to know, so the result is correctly rounded in
every mode (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
odd", 2008). Directed float64 arithmetic is rare and goes through exact fractions, thread by thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from libtile.support.records import dataclass

NAN32 = np.array([0x7FFFFFFF], dtype=np.uint32).view(np.float32)
NAN16 = np.array([0x7FFF], dtype=np.uint16).view(np.float16)
_TINY32 = np.float32(2.0**-126)
_TINY64 = 2.0**-1022
_HALF_ULP_MASK = np.uint64(0x1FFFFFFF)
_HALF_ULP = np.uint64(0x10000000)


# -- small things


def canon(r: np.ndarray) -> np.ndarray:
    """Arithmetic on f32 and f16 gives one NaN pattern (PTX ISA, "Floating Point Instructions": NaN payloads)."""
    bad = np.isnan(r)
    if bad.any():
        return np.where(bad, NAN32 if r.dtype == np.float32 else NAN16 if r.dtype == np.float16 else r, r)
    return r


def flush(x: np.ndarray) -> np.ndarray:
    """ftz: subnormals become zeros of the same sign."""
    limit = {4: _TINY32, 2: np.float16(2.0**-14), 8: _TINY64}[x.dtype.itemsize]
    small = np.abs(x) < limit
    if small.any():
        return np.where(small, np.copysign(x.dtype.type(0), x), x)
    return x


def saturate(x: np.ndarray) -> np.ndarray:
    """sat: clamp to [0, 1]; NaN becomes +0."""
    clipped = np.clip(x, x.dtype.type(0), x.dtype.type(1))
    # clip keeps -0, the instruction gives +0.
    return np.where(x > 0, clipped, x.dtype.type(0))


def to_odd(s: np.ndarray, err: np.ndarray) -> np.ndarray:
    """The float64 sum `s` with error `err` rounded to odd."""
    move = (err != 0) & np.isfinite(s) & np.isfinite(err)
    if not move.any():
        return s
    bits = s.view(np.int64)
    step = np.where((err > 0) == (s > 0), 1, -1)
    return np.where(move & (bits & 1 == 0), bits + step, bits).view(np.float64)


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b as rounded sum and exact error (Knuth)."""
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


def add_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """float64 a + b rounded to odd."""
    return to_odd(*two_sum(a, b))


def narrow(x: np.ndarray, dtype: type, mode: str) -> np.ndarray:
    """Round float64 to float32 or float16 in a mode: rn, rz, rm or rp."""
    r: np.ndarray = x.astype(dtype)
    if mode == "rn":
        return r
    back = r.astype(np.float64)
    zero, inf = dtype(0), dtype(np.inf)
    if mode == "rz":
        return np.where(np.abs(back) > np.abs(x), np.nextafter(r, zero), r)
    if mode == "rm":
        return np.where(back > x, np.nextafter(r, -inf), r)
    return np.where(back < x, np.nextafter(r, inf), r)


def _zero_sum(s: np.ndarray, a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """Rounding toward minus infinity makes an exact zero sum of unlike terms negative."""
    if mode != "rm":
        return s
    unlike = (s == 0) & (np.signbit(a) != np.signbit(b))
    return np.where(unlike, -np.abs(s), s)


# -- f32 (and f16: the same code with another target)


def add(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """Correctly rounded a + b in the operands' format (f32, f16)."""
    if mode == "rn":
        return canon(a + b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    return canon(_zero_sum(narrow(add_odd(x, y), a.dtype.type, mode), x, y, mode))


def mul(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """Correctly rounded a * b in the operands' format (f32, f16)."""
    if mode == "rn":
        return canon(a * b)
    return canon(narrow(a.astype(np.float64) * b.astype(np.float64), a.dtype.type, mode))


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """f32 a * b + c rounded once, to nearest even."""
    p = a.astype(np.float64) * b
    s = p + c
    r = s.astype(np.float32)
    # Rounding twice goes wrong only where the first result lies half way between two f32; those lanes, and results in
    # the subnormal range where half way looks different, take the exact road.
    suspect = (s.view(np.uint64) & _HALF_ULP_MASK) == _HALF_ULP
    suspect |= np.abs(r) < _TINY32
    if suspect.any():
        r = add_odd(*np.broadcast_arrays(p, c.astype(np.float64))).astype(np.float32)
    return canon(r)


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str) -> np.ndarray:
    """a * b + c rounded once, for f32 and f16 in any mode."""
    if mode == "rn" and a.dtype == np.float32:
        return fma32(a, b, c)
    a, b, c = np.broadcast_arrays(a, b, c)
    p = a.astype(np.float64) * b.astype(np.float64)
    q = c.astype(np.float64)
    # Before narrowing: what underflows to zero keeps its own sign.
    return canon(narrow(_zero_sum(add_odd(p, q), p, q, mode), c.dtype.type, mode))


def div32(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """Correctly rounded f32 quotient."""
    q = a / b
    if mode == "rn":
        return canon(q)
    y = b.astype(np.float64)
    rest = a.astype(np.float64) - q.astype(np.float64) * y
    rest = np.where(np.isfinite(a) & np.isfinite(b) & (b != 0), np.where(np.signbit(b), -rest, rest), 0.0)
    return canon(_adjust(q, rest, mode))


def sqrt32(a: np.ndarray, mode: str) -> np.ndarray:
    """Correctly rounded f32 square root."""
    q = np.sqrt(a)
    if mode == "rn":
        return canon(q)
    wide = q.astype(np.float64)
    rest = np.where(np.isfinite(q), a.astype(np.float64) - wide * wide, 0.0)
    return canon(_adjust(q, rest, mode))


def rcp32(a: np.ndarray, mode: str) -> np.ndarray:
    return div32(np.ones(1, dtype=np.float32), a, mode)


def _adjust(r: np.ndarray, sign: np.ndarray, mode: str) -> np.ndarray:
    """Move a nearest result to a directed one; `sign` is that of (exact - r)."""
    kind = r.dtype.type
    if mode == "rz":
        over = (sign != 0) & (np.signbit(r) != np.signbit(sign)) & (r != 0)
        return np.where(over, np.nextafter(r, kind(0)), r)
    if mode == "rm":
        return np.where(sign < 0, np.nextafter(r, kind(-np.inf)), r)
    return np.where(sign > 0, np.nextafter(r, kind(np.inf)), r)


# -- f64

_SPLIT = float(2**27 + 1)


def _two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p = a * b
    t = _SPLIT * a
    ah = t - (t - a)
    al = a - ah
    t = _SPLIT * b
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "rn") -> np.ndarray:
    """float64 a * b + c rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    if mode != "rn":
        return _exact64(lambda x, y, z: x * y + z, (a, b, c), a * b + c, mode, a * b, c)
    ph, pl = _two_product(a, b)
    uh, ul = two_sum(c, pl)
    vh, vl = two_sum(ph, uh)
    r = vh + add_odd(vl, ul)
    plain = a * b + c
    special = ~np.isfinite(plain) | (ph == 0) | (c == 0) & (ph == 0)
    low, high = 2.0**-900, 2.0**900
    size = np.abs(ph)
    outside = (size < low) | (size > high) | (np.abs(c) > high) | ((np.abs(c) < low) & (c != 0))
    outside |= (np.abs(a) > high) | (np.abs(b) > high)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    risky = finite & outside & (a != 0) & (b != 0)
    r = np.where(special, plain, r)
    if risky.any():
        at = np.flatnonzero(risky)
        r[at] = _exact64(lambda x, y, z: x * y + z, (a[at], b[at], c[at]), plain[at], "rn", a[at] * b[at], c[at])
    return r


def add64(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    s = a + b
    if mode == "rn":
        return s
    # A sum that overflowed is too large; one with an infinite operand is exact.
    over = np.where(np.isinf(s) & np.isfinite(a) & np.isfinite(b), -np.sign(s), 0.0)
    return _zero_sum(_adjust(s, np.where(np.isfinite(s), two_sum(a, b)[1], over), mode), a, b, mode)


def mul64(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    if mode == "rn":
        return a * b
    a, b = np.broadcast_arrays(a, b)
    return _exact64(lambda x, y: x * y, (a, b), a * b, mode)


def div64(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    if mode == "rn":
        return a / b
    a, b = np.broadcast_arrays(a, b)
    return _exact64(lambda x, y: x / y if y else None, (a, b), a / b, mode)


def sqrt64(a: np.ndarray, mode: str) -> np.ndarray:
    q = np.sqrt(a)
    if mode == "rn":
        return q
    out = q.copy()
    for k in np.flatnonzero(np.isfinite(q) & (q != 0)).tolist():
        exact, root = Fraction(float(a[k])), Fraction(float(q[k]))
        sign = (exact > root * root) - (exact < root * root)
        out[k] = _adjust(q[k : k + 1], np.array([float(sign)]), mode)[0]
    return out


def _exact64(
    compute: Callable[..., Fraction | None],
    operands: tuple[np.ndarray, ...],
    plain: np.ndarray,
    mode: str,
    first: np.ndarray | None = None,
    second: np.ndarray | None = None,
) -> np.ndarray:
    """Round the exact value of each lane; lanes with an infinity or NaN keep the plain result.

    `first` and `second` are the terms of a sum: their signs decide that of a sum that is exactly zero.
    """
    out = plain.copy()
    finite = np.ones(len(plain), dtype=bool)
    rounded = np.zeros(len(plain), dtype=bool)
    for x in operands:
        finite &= np.isfinite(x)
    for k in np.flatnonzero(finite).tolist():
        value = compute(*(Fraction(float(x[k])) for x in operands))
        if value is not None and value != 0:
            out[k] = round_fraction(value, mode)
            rounded[k] = True
    if first is not None and second is not None:
        out = np.where(rounded, out, _zero_sum(out, first, second, mode))
    return out


def round_fraction(value: Fraction, mode: str) -> float:
    """An exact value as a float64 in a rounding mode."""
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if mode == "rn":
        return nearest
    if math.isinf(nearest):
        below = nearest > 0
        down = mode == "rz" or (mode == "rm" if below else mode == "rp")
        return math.nextafter(nearest, 0.0) if down else nearest
    exact = Fraction(nearest)
    if mode == "rz" and abs(exact) > abs(value):
        return math.nextafter(nearest, 0.0)
    if mode == "rm" and exact > value:
        return math.nextafter(nearest, -math.inf)
    if mode == "rp" and exact < value:
        return math.nextafter(nearest, math.inf)
    return nearest


# -- narrow formats


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: exponent and mantissa bits, and what its top codes mean.

    `special` is "ieee" (infinity and NaN), "nan" (the all-ones code is NaN, no infinity: e4m3) or "none" (every code
    is finite).
    """

    name: str
    exponent: int
    mantissa: int
    special: str

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def max_finite(self) -> float:
        top = (1 << self.exponent) - 1
        if self.special == "ieee":
            return (2.0 - 2.0**-self.mantissa) * 2.0 ** (top - 1 - self.bias)
        if self.special == "nan":
            return (2.0 - 2.0 * 2.0**-self.mantissa) * 2.0 ** (top - self.bias)
        return (2.0 - 2.0**-self.mantissa) * 2.0 ** (top - self.bias)

    @property
    def nan(self) -> int:
        if self.special == "none":
            return 0
        return (1 << (self.exponent + self.mantissa)) - 1


FORMATS: dict[str, Format] = {
    "f16": Format("f16", 5, 10, "ieee"),
    "bf16": Format("bf16", 8, 7, "ieee"),
    "tf32": Format("tf32", 8, 10, "ieee"),
    "e4m3": Format("e4m3", 4, 3, "nan"),
    "e5m2": Format("e5m2", 5, 2, "ieee"),
    "e3m2": Format("e3m2", 3, 2, "none"),
    "e2m3": Format("e2m3", 2, 3, "none"),
    "e2m1": Format("e2m1", 2, 1, "none"),
}


def round_integral(x: np.ndarray, mode: str) -> np.ndarray:
    """Round float64 to an integral value: rn (ties to even), rna (ties away), rz, rm, rp."""
    if mode == "rn":
        return np.rint(x)
    if mode == "rna":
        return np.copysign(np.floor(np.abs(x) + 0.5), x)
    return {"rz": np.trunc, "rm": np.floor, "rp": np.ceil}[mode](x)


def encode(x: np.ndarray, fmt: Format, mode: str = "rn", satfinite: bool = False) -> np.ndarray:
    """float64 to the bits (uint32) of a narrow format. `x` must hold the value exactly or rounded to odd.

    With satfinite, what is too large (infinities too) becomes the largest finite value. Without, formats with an
    infinity overflow to it and e4m3 overflows to NaN.
    """
    nan = np.isnan(x)
    size = np.where(nan, 0.0, np.abs(x))
    finite = np.where(np.isinf(size), 0.0, size)
    _, exponent = np.frexp(finite)
    low = 1 - fmt.bias
    e = np.maximum(exponent - 1, low)
    scaled = np.ldexp(np.copysign(finite, x), fmt.mantissa - e)
    q = np.abs(round_integral(scaled, mode))
    # Rounding up may reach the next binade, which the same code describes: exponent field plus mantissa just add up.
    code = q + np.ldexp((e - low).astype(np.float64), fmt.mantissa)
    code = np.where(finite == 0, 0, code).astype(np.int64)
    value = np.where(finite == 0, 0.0, np.ldexp(q, e - fmt.mantissa))
    over = (value > fmt.max_finite) | np.isinf(size)
    code = np.where(over, _overflow_code(x, fmt, mode, satfinite, np.isinf(size)), code)
    sign = np.signbit(x).astype(np.int64) << (fmt.exponent + fmt.mantissa)
    if fmt.special == "none":
        # NaN becomes the positive maximum (cvt, satfinite formats without NaN).
        code = np.where(nan, _max_code(fmt), code)
    else:
        code = np.where(nan, fmt.nan, code)
    return np.where(nan, code, code | sign).astype(np.uint32)


def _max_code(fmt: Format) -> int:
    top = (1 << (fmt.exponent + fmt.mantissa)) - 1
    if fmt.special == "nan":
        return top - 1
    if fmt.special == "ieee":
        return (((1 << fmt.exponent) - 1) << fmt.mantissa) - 1
    return top


def _overflow_code(x: np.ndarray, fmt: Format, mode: str, satfinite: bool, infinite: np.ndarray) -> np.ndarray:
    most = _max_code(fmt)
    if satfinite or fmt.special == "none":
        return np.full(x.shape, most, dtype=np.int64)
    beyond = most + 1
    if fmt.special == "nan":
        return np.full(x.shape, fmt.nan, dtype=np.int64)
    toward_zero = mode == "rz" or mode in ("rm", "rp")
    if not toward_zero:
        return np.full(x.shape, beyond, dtype=np.int64)
    stays = {"rz": np.ones(x.shape, dtype=bool), "rm": ~np.signbit(x), "rp": np.signbit(x)}[mode]
    return np.where(stays & ~infinite, most, beyond)


def decode(bits: np.ndarray, fmt: Format) -> np.ndarray:
    """Bits of a narrow format as float64."""
    b = bits.astype(np.int64)
    m = b & ((1 << fmt.mantissa) - 1)
    e = (b >> fmt.mantissa) & ((1 << fmt.exponent) - 1)
    sign = np.where((b >> (fmt.exponent + fmt.mantissa)) & 1, -1.0, 1.0)
    normal = np.ldexp((m + (1 << fmt.mantissa)).astype(np.float64), e - fmt.bias - fmt.mantissa)
    tiny = np.ldexp(m.astype(np.float64), 1 - fmt.bias - fmt.mantissa)
    value = np.where(e == 0, tiny, normal)
    top = (1 << fmt.exponent) - 1
    if fmt.special == "ieee":
        value = np.where(e == top, np.where(m == 0, np.inf, np.nan), value)
    elif fmt.special == "nan":
        value = np.where((e == top) & (m == (1 << fmt.mantissa) - 1), np.nan, value)
    return sign * value


_TABLES: dict[str, np.ndarray] = {}


def decode_table(name: str) -> np.ndarray:
    """float64 value of every code of a format of at most 8 bits (index by the code); "ue8m0" included."""
    table = _TABLES.get(name)
    if table is None:
        codes = np.arange(256)
        if name == "ue8m0":
            table = np.where(codes == 255, np.nan, np.ldexp(1.0, codes - 127))
        else:
            fmt = FORMATS[name]
            table = decode(codes & ((1 << (1 + fmt.exponent + fmt.mantissa)) - 1), fmt)
        _TABLES[name] = table
    return table


# -- bf16 held as uint16


def widen_bf16(bits: np.ndarray) -> np.ndarray:
    """bf16 bits to float32 (exact)."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def round_bf16(x: np.ndarray) -> np.ndarray:
    """float32 to bf16 bits, to nearest even; NaN becomes 0x7fff."""
    u = x.view(np.uint32)
    r = ((u + np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    bad = np.isnan(x)
    return np.where(bad, np.uint16(0x7FFF), r) if bad.any() else r


def bf16_from64(x: np.ndarray, mode: str = "rn") -> np.ndarray:
    """float64 (exact or rounded to odd) to bf16 bits."""
    return encode(x, FORMATS["bf16"], mode).astype(np.uint16)
