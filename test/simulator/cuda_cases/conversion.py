# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversions, by exact rounding of fractions and tables of the narrow formats (PTX ISA, cvt)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from . import exact
from .exact import BF16, F16, F32, F64, TF32, Format, flush, saturate
from .floating import spread
from .half import bfloat16, operands
from .integer import clamp, clamp_unsigned, signed
from .memory import bits
from .table import Array, Family, Launch, Source, per_lane, words

CONVERSION = Family(Source("conversion"))
FP8 = Family(Source("fp8"))
NARROW90 = Family(Source("narrow90", archs=("sm_90",)))
NARROW120 = Family(Source("narrow120", archs=("sm_120a",)))

INTEGERS = [("s", 8), ("u", 8), ("s", 16), ("u", 16), ("s", 32), ("u", 32), ("s", 64), ("u", 64)]


def integer_from(value: float, kind: str, width: int, mode: str, source_bits: int) -> int:
    """cvt to an integer: rounded, clamped to the range; NaN gives 0, or the top bit if either side has 64 bits."""
    if math.isnan(value):
        return -(1 << width - 1) if kind == "s" else 1 << width - 1
    if math.isinf(value):
        rounded = 1 << 70 if value > 0 else -(1 << 70)
    else:
        rounded = exact.round_integer(Fraction(value), mode)
    return clamp(rounded, width) if kind == "s" else clamp_unsigned(rounded, width)


def to_integers(columns: Array, source_bits: int) -> Array:
    def formula(value: float) -> list[int]:
        results = []
        for mode in ("rn", "rz", "rm", "rp"):
            for kind, width in INTEGERS:
                number = integer_from(value, kind, width, mode, source_bits)
                if math.isnan(value) and source_bits != 64 and width != 64:
                    number = 0
                results.append(number)
        return results

    return per_lane(formula, [columns.astype(np.float64)], np.int64)


def near_integer_limits(rng: np.random.Generator, dtype: Any) -> Array:
    """Halves, and numbers around every power of two that an integer type ends at."""
    limits = [s * (2.0**k + d) for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1) for d in (-0.5, 0, 0.5, -1)]
    halves = [k + 0.5 for k in range(-8, 8)]
    special = [0.0, -0.0, 0.4, -0.4, math.inf, -math.inf, math.nan, 1e-30]
    with np.errstate(over="ignore"):
        return np.concatenate([limits, halves, special, spread(rng, 40, np.float64, -3, 15)]).astype(dtype)


@CONVERSION.add(block=128)
def f32_to_int(rng: np.random.Generator) -> Launch:
    a = near_integer_limits(rng, np.float32)
    return Launch([np.zeros(32 * 128, np.int64), a], {0: to_integers(a, 32)})


@CONVERSION.add(block=128)
def f64_to_int(rng: np.random.Generator) -> Launch:
    a = near_integer_limits(rng, np.float64)
    a[np.isnan(a)] = 77.5  # the ISA's value for a NaN in 8 and 16 bits is not one that C could use
    return Launch([np.zeros(32 * 128, np.int64), a], {0: to_integers(a, 64)})


@CONVERSION.add(block=128)
def f16_to_int(rng: np.random.Generator) -> Launch:
    a = near_integer_limits(rng, np.float16)
    return Launch([np.zeros(32 * 128, np.int64), a], {0: to_integers(a, 16)})


def from_integers(a: Array, form: Format, dtype: Any) -> Array:
    def formula(value: int) -> list[float]:
        sources = [signed(value, w) if kind == "s" else value & (1 << w) - 1 for kind, w in INTEGERS]
        return [exact.round_to(Fraction(source), form, mode) for mode in ("rn", "rz", "rm", "rp") for source in sources]

    return per_lane(formula, [a], dtype)


@CONVERSION.add(block=64)
def int_to_f32(rng: np.random.Generator) -> Launch:
    a = words(rng, 64, np.uint64)
    return Launch([np.zeros(32 * 64, np.float32), a], {0: from_integers(a, F32, np.float32)})


@CONVERSION.add(block=64)
def int_to_f64(rng: np.random.Generator) -> Launch:
    a = words(rng, 64, np.uint64)
    return Launch([np.zeros(32 * 64, np.float64), a], {0: from_integers(a, F64, np.float64)})


@CONVERSION.add(block=64)
def int_to_f16(rng: np.random.Generator) -> Launch:
    a = words(rng, 64, np.uint64)
    return Launch([np.zeros(32 * 64, np.float16), a], {0: from_integers(a, F16, np.float16)})


@CONVERSION.add(block=64)
def int_to_int(rng: np.random.Generator) -> Launch:
    a = words(rng, 64, np.uint64)

    def formula(x: int) -> list[int]:
        s32, s64, u32 = signed(x, 32), signed(x, 64), x & 0xFFFFFFFF
        return [
            signed(x, 8), x & 255, signed(x, 8), signed(x, 8), x & 255, x & 0xFFFF, signed(x, 16) & 0xFFFFFFFF,
            s32, s32, clamp(s32, 8), clamp_unsigned(s32, 8), clamp(s64, 16), min(x, 0xFFFF), min(u32, 2**31 - 1),
            max(s32, 0), clamp(s64, 32), clamp_unsigned(s64, 32), min(x, 2**63 - 1), max(s64, 0),
        ]  # fmt: skip

    return Launch([np.zeros(19 * 64, np.int64), a], {0: per_lane(formula, [a], np.int64)})


def code(value: float, dtype: Any) -> int:
    """The bits of a number that `dtype` holds exactly."""
    array = np.array([value], dtype)
    return int(array.view(f"u{array.itemsize}")[0])


def rounding_cases(rng: np.random.Generator, form: Format) -> Array:
    """Finite binary64 numbers around `form`'s ties, subnormals and largest value."""
    scale = 2.0 ** (1 - form.precision)
    ties = [s * (1 + (k + d) * scale) for s in (1, -1) for k in (0, 1, 2, 7) for d in (0.25, 0.5, 0.75)]
    top = float(form.largest)
    edges = [s * v for s in (1, -1) for v in (0.0, top, top * (1 + scale / 4), top * (1 + scale), 2.0**form.lowest)]
    low = spread(rng, 30, np.float64, form.lowest - form.precision - 2, form.lowest + 2)
    return np.concatenate([ties, edges, low, spread(rng, 64, np.float64, -8, 8)])


@CONVERSION.add(block=128)
def f64_to_narrow(rng: np.random.Generator) -> Launch:
    a = np.concatenate([rounding_cases(rng, F32)[:64], rounding_cases(rng, F16)[:64]])

    def formula(x: float) -> list[int]:
        sign = math.copysign(1, x)

        def to(form: Format, mode: str) -> float:
            return exact.round_to(Fraction(x), form, mode, sign)

        singles = [to(F32, mode) for mode in ("rn", "rz", "rm", "rp")]
        singles += [flush(singles[0], F32), saturate(singles[0])]
        halves = [to(F16, mode) for mode in ("rn", "rz", "rm", "rp")]
        return [code(v, np.float32) for v in singles] + [code(v, np.float16) for v in halves]

    return Launch([np.zeros(10 * 128, np.uint32), a], {0: per_lane(formula, [a], np.uint32)})


@CONVERSION.add(block=128)
def f32_to_narrow(rng: np.random.Generator) -> Launch:
    pool = np.concatenate([rounding_cases(rng, F16), rounding_cases(rng, BF16), rounding_cases(rng, TF32)])
    a = np.where(np.abs(pool) > float(F32.largest), 1.0, pool).astype(np.float32)
    a, b = rng.permutation(a)[:128], rng.permutation(a)[:128]

    def formula(x: float, y: float) -> list[int]:
        def to(value: float, form: Format, mode: str) -> float:
            return exact.round_to(Fraction(value), form, mode, math.copysign(1, value))

        def relu(value: float) -> float:
            return value if value > 0 else 0.0

        def pair(form: Format, mode: str, dtype: Any, wrap: Any = float) -> int:
            return code(wrap(to(x, form, mode)), dtype) << 16 | code(wrap(to(y, form, mode)), dtype)

        halves = [to(x, F16, mode) for mode in ("rn", "rz", "rm", "rp")]
        halves += [saturate(halves[0]), to(flush(x, F32), F16, "rn"), relu(halves[0])]
        brains = [to(x, BF16, "rn"), to(x, BF16, "rz"), relu(to(x, BF16, "rn"))]
        return [
            *(code(v, np.float16) for v in halves), *(code(v, bfloat16) for v in brains),
            code(to(x, TF32, "rna"), np.float32),
            pair(F16, "rn", np.float16), pair(F16, "rz", np.float16), pair(F16, "rn", np.float16, relu),
            pair(BF16, "rn", bfloat16), pair(BF16, "rz", bfloat16), pair(BF16, "rz", bfloat16, relu),
        ]  # fmt: skip

    return Launch([np.zeros(17 * 128, np.uint32), a, b], {0: per_lane(formula, [a, b], np.uint32)})


@CONVERSION.add(block=64)
def float_integral(rng: np.random.Generator) -> Launch:
    a = np.concatenate([np.arange(-4, 4, 0.5), spread(rng, 40, np.float64, -3, 25), [0.0, -0.0, 1e30, 2.0**-140] * 2])
    a = a.astype(np.float32)
    h = operands(rng, 64, F16, np.float16)[0]
    b = operands(rng, 64, BF16, bfloat16)[0]

    def formula(x: float, half: float, brain: float) -> list[float]:
        def integral(value: float, mode: str) -> float:
            return math.copysign(exact.round_integer(Fraction(value), mode), value)

        return [
            *(integral(x, mode) for mode in ("rn", "rz", "rm", "rp")), saturate(integral(flush(x, F32), "rn")),
            integral(x * 1.25, "rn"), integral(x * 1.25, "rm"), x, half, half, saturate(x), flush(x, F32), brain,
        ]  # fmt: skip

    columns = [a.astype(np.float64), h.astype(np.float64), b.astype(np.float64)]
    return Launch([np.zeros(13 * 64, np.float64), a, h, b], {0: per_lane(formula, columns, np.float64)})


@CONVERSION.add(block=64)
def packed_saturation(rng: np.random.Generator) -> Launch:
    a, b = (rng.permutation(words(rng, 64, np.int32)) for _ in range(2))
    c = bits(rng, 64, np.uint32)

    def formula(x: int, y: int, z: int) -> list[int]:
        results = []
        for kind, width in (("s", 16), ("u", 16), ("s", 8), ("u", 8), ("s", 4), ("u", 4), ("s", 2), ("u", 2)):
            limit, mask = (clamp if kind == "s" else clamp_unsigned), (1 << width) - 1
            pair = (limit(x, width) & mask) << width | limit(y, width) & mask
            results.append(pair | (z << 2 * width if width < 16 else 0))
        return results

    return Launch([np.zeros(8 * 64, np.uint32), a, b, c], {0: per_lane(formula, [a, b, c], np.uint32)})


@CONVERSION.add(block=64)
def c_casts(rng: np.random.Generator) -> Launch:
    a = spread(rng, 64, np.float32, -2, 30)
    b = words(rng, 64, np.int64)

    def formula(x: float, n: int) -> list[float]:
        whole = math.trunc(x)
        near = Fraction(n)
        as_double = exact.round_to(near, F64)
        return [
            whole, math.trunc(abs(x)), whole, signed(whole, 8), whole & 0xFFFF, exact.round_to(near, F32), as_double,
            exact.round_to(Fraction(n % (1 << 64)), F64), whole != 0, math.ceil(x), math.floor(abs(x)),
            exact.round_to(near, F32, "rz"), exact.round_to(Fraction(as_double), F32, "rp"), 1,
        ]  # fmt: skip

    return Launch([np.zeros(14 * 64), a, b], {0: per_lane(formula, [a, b], np.float64)})


def narrow_code(value: float, dtype: Any, nan_code: int, relu: bool = False) -> int:
    """cvt.rn.satfinite to a narrow format: to nearest even among its numbers, beyond the largest stays largest."""
    if math.isnan(value):
        return nan_code
    if relu and not value > 0:
        return 0
    info: Any = ml_dtypes.finfo
    width, largest = info(dtype).bits, float(info(dtype).max)
    codes = np.arange(1 << width - 1).astype(np.uint8)
    numbers = codes.view(dtype).astype(np.float64)
    codes, numbers = codes[np.isfinite(numbers)], numbers[np.isfinite(numbers)]
    magnitude = min(abs(value), largest)
    distance = np.abs(numbers - magnitude)
    best = codes[distance == distance.min()].tolist()
    chosen = next((c for c in best if not c & 1), best[0])
    return chosen | (1 << width - 1 if math.copysign(1, value) < 0 else 0)


E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def fp8_values(rng: np.random.Generator, count: int) -> Array:
    """Exact codes, ties between neighbours, overflows and specials of both 8-bit formats."""
    table = np.arange(127).astype(np.uint8)
    e4 = table[:126].view(E4M3).astype(np.float64)
    middle = (e4[:-1] + e4[1:]) / 2
    e5 = table[:120].view(E5M2).astype(np.float64)
    pool = np.concatenate([e4, middle, e5, (e5[:-1] + e5[1:]) / 2, spread(rng, 64, np.float64, -10, 10)])
    chosen = rng.choice(pool, count) * rng.choice([1.0, -1.0], count)
    chosen[:10] = [0.0, -0.0, math.inf, -math.inf, math.nan, 448.0, 464.0, 57344.0, -61440.0, 1e30]
    return chosen.astype(np.float32)


@FP8.add(block=128)
def fp8_from_float(rng: np.random.Generator) -> Launch:
    a = fp8_values(rng, 128)
    b = a.astype(np.float64)

    def unsaturated(value: float, dtype: Any, nan_code: int, overflow: int, limit: float) -> int:
        sign = 0x80 if math.copysign(1, value) < 0 else 0
        if math.isnan(value):
            return nan_code
        return overflow | sign if abs(value) > limit else narrow_code(value, dtype, nan_code)

    def formula(x: float, y: float) -> list[int]:
        with np.errstate(over="ignore"):
            half, brain = float(np.float16(x)), float(np.array(x, bfloat16))
        return [
            narrow_code(x, E4M3, 0x7F), narrow_code(x, E5M2, 0x7F),
            unsaturated(x, E4M3, 0x7F, 0x7F, 464.0), unsaturated(x, E5M2, 0x7F, 0x7C, 61439.999),
            narrow_code(y, E4M3, 0x7F), narrow_code(x, E4M3, 0x7F) | narrow_code(-x, E4M3, 0x7F) << 8,
            narrow_code(half, E5M2, 0x7F), narrow_code(brain, E4M3, 0x7F),
        ]  # fmt: skip

    return Launch([np.zeros(8 * 128, np.uint32), a, b], {0: per_lane(formula, [a, b], np.uint32)})


@FP8.add(block=256)
def fp8_to_float(rng: np.random.Generator) -> Launch:
    codes = np.arange(256).astype(np.uint8)
    e4, e5 = codes.view(E4M3).astype(np.float32), codes.view(E5M2).astype(np.float32)
    expected = np.concatenate([e4, e5, np.ones(256, np.float32), e4])
    return Launch([np.zeros(4 * 256, np.float32), codes], {0: expected})


@NARROW90.add(block=128)
def fp8_pairs(rng: np.random.Generator) -> Launch:
    a, b = fp8_values(rng, 128), rng.permutation(fp8_values(rng, 128))
    with np.errstate(over="ignore"):
        h = np.stack([a.astype(np.float16), b.astype(np.float16)], axis=1)
    codes = bits(rng, (128, 2), np.uint8)
    # NaN codes decode to a NaN whose payload the ISA does not fix; keep them to the scalar kernels.
    codes[codes == 0x80] = 0x81  # nor whether .relu makes -0 positive
    codes[np.isnan(codes.view(E4M3).astype(np.float32)) | np.isnan(codes.view(E5M2).astype(np.float32))] = 0x7B

    def formula(x: float, y: float, low: float, high: float, c0: int, c1: int) -> list[int]:
        def pair(p: float, q: float, dtype: Any, relu: bool = False) -> int:
            return narrow_code(p, dtype, 0x7F, relu) << 8 | narrow_code(q, dtype, 0x7F, relu)

        def decoded(dtype: Any, relu: bool = False) -> int:
            numbers = np.array([c0, c1], np.uint8).view(dtype).astype(np.float16)
            if relu:
                numbers = np.where(numbers > 0, numbers, np.float16(0))
            return int(numbers.astype(np.float16).view(np.uint32)[0])

        return [
            pair(x, y, E4M3), pair(x, y, E5M2), pair(x, y, E4M3, True), pair(x, y, E5M2, True),
            pair(high, low, E4M3), pair(high, low, E5M2), decoded(E4M3), decoded(E5M2), decoded(E4M3, True),
        ]  # fmt: skip

    columns = [a, b, h[:, 0].astype(np.float64), h[:, 1].astype(np.float64), codes[:, 0], codes[:, 1]]
    args = [np.zeros(9 * 128, np.uint32), a, b, h.view(np.uint32).ravel(), codes.view(np.uint16).ravel()]
    return Launch(args, {0: per_lane(formula, columns, np.uint32)})


@NARROW90.add(block=128)
def tf32_modes(rng: np.random.Generator) -> Launch:
    a = rng.permutation(rounding_cases(rng, TF32))[:128]
    a = np.where(np.abs(a) > float(F32.largest), 1.0, a).astype(np.float32)

    def formula(x: float) -> list[int]:
        rounded = [exact.round_to(Fraction(x), TF32, mode, math.copysign(1, x)) for mode in ("rna", "rn", "rz")]
        relu = rounded[1] if rounded[1] > 0 else 0.0
        return [code(value, np.float32) for value in (*rounded, relu)]

    return Launch([np.zeros(4 * 128, np.uint32), a], {0: per_lane(formula, [a], np.uint32)})


@NARROW90.add(block=64)
def bf16_conversions(rng: np.random.Generator) -> Launch:
    a = spread(rng, 64, np.float64, -4, 20).astype(bfloat16)
    x = spread(rng, 64, np.float32, -3, 20)

    def formula(brain: float, value: float) -> list[int]:
        def rounded(number: float, mode: str) -> int:
            return code(exact.round_to(Fraction(number), BF16, mode), bfloat16)

        whole = math.trunc(value)
        third = float(np.array([0x3555], np.uint16).view(np.float16)[0])
        nearest = exact.round_integer(Fraction(brain), "rn")
        return [
            code(brain, np.float32), math.trunc(brain), nearest, rounded(whole, "rn"),
            rounded(signed(whole * 1001, 32), "rz"), code(math.copysign(nearest, brain), bfloat16),
            rounded(third, "rn"), code(exact.round_to(Fraction(brain), F16), np.float16),
            rounded(value, "rm"), rounded(value, "rp"),
        ]  # fmt: skip

    return Launch([np.zeros(10 * 64, np.uint32), a, x], {0: per_lane(formula, [a.astype(np.float64), x], np.uint32)})


@NARROW90.add(block=64)
def bf16_native(rng: np.random.Generator) -> Launch:
    a, b, _ = operands(rng, 64, BF16, bfloat16)

    def formula(x: float, y: float) -> list[float]:
        total, product = exact.add(x, y, BF16), exact.mul(x, y, BF16)
        return [total, exact.add(x, -y, BF16), product, total, product]

    columns = [a.astype(np.float64), b.astype(np.float64)]
    return Launch([np.zeros(5 * 64, bfloat16), a, b], {0: per_lane(formula, columns, bfloat16)})


@NARROW90.add(block=64)
def xorsign(rng: np.random.Generator) -> Launch:
    a, b = (spread(rng, 64, np.float32, -2, 2) for _ in range(2))
    c, d = (spread(rng, 64, np.float64, -2, 2).astype(np.float16) for _ in range(2))
    d[5] = np.nan
    sign = np.where(np.signbit(a) != np.signbit(b), np.float32(-1), np.float32(1))
    half_sign = np.where(np.signbit(c) != np.signbit(d), np.float16(-1), np.float16(1))
    with np.errstate(invalid="ignore"):
        larger = np.maximum(np.abs(c), np.abs(d))
    return Launch(
        [np.zeros(64, np.float32), np.zeros(64, np.float16), a, b, c, d],
        {0: sign * np.minimum(np.abs(a), np.abs(b)), 1: half_sign * larger},
    )


@NARROW90.add(block=64)
def int16x2_native(rng: np.random.Generator) -> Launch:
    a, b = (bits(rng, 64, np.uint32) for _ in range(2))

    def formula(x: int, y: int) -> list[int]:
        halves = [(x & 0xFFFF, y & 0xFFFF), (x >> 16, y >> 16)]

        def join(low: int, high: int) -> int:
            return low & 0xFFFF | (high & 0xFFFF) << 16

        return [
            join(*(p + q for p, q in halves)), join(*(max(min(signed(p, 16), signed(q, 16)), 0) for p, q in halves)),
            join(*(max(p, q) for p, q in halves)), max(signed(x, 32), signed(y, 32), 0),
        ]  # fmt: skip

    return Launch([np.zeros(4 * 64, np.uint32), a, b], {0: per_lane(formula, [a, b], np.uint32)})


E2M1, E2M3, E3M2 = ml_dtypes.float4_e2m1fn, ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn


def scale_code(value: float, mode: str) -> int:
    """ue8m0: the exponent of |value| rounded to a power of two; 255 is NaN, 254 the largest."""
    if math.isnan(value):
        return 255
    if value == 0:
        return 0
    power = exact.exponent_of(Fraction(value)) if math.isfinite(value) else 200
    if mode == "rp" and math.isfinite(value) and Fraction(abs(value)) != Fraction(2) ** power:
        power += 1
    return max(0, min(power + 127, 254))


@NARROW120.add(block=128)
def narrow_from_float(rng: np.random.Generator) -> Launch:
    a, b = (np.where(np.isnan(v), 3.0, v).astype(np.float32) for v in (fp8_values(rng, 128), fp8_values(rng, 128)))
    # Overflow of rz.ue8m0 without satfinite is a matter of its own: stay below.
    a[np.isinf(a)], b[np.isinf(b)] = 1.75, -0.3
    rng.shuffle(b)

    def formula(x: float, y: float) -> list[int]:
        def pair(dtype: Any, relu: bool = False) -> int:
            return narrow_code(x, dtype, 0, relu) << 8 | narrow_code(y, dtype, 0, relu)

        fp4 = narrow_code(x, E2M1, 0) << 4 | narrow_code(y, E2M1, 0)
        scales = [scale_code(x, mode) << 8 | scale_code(y, mode) for mode in ("rz", "rp")]
        return [fp4, pair(E2M3), pair(E3M2), pair(E3M2, True), *scales]

    return Launch([np.zeros(6 * 128, np.uint32), a, b], {0: per_lane(formula, [a, b], np.uint32)})


@NARROW120.add(block=256)
def narrow_to_half(rng: np.random.Generator) -> Launch:
    low, high = np.arange(256), rng.permutation(256)
    codes = (low | high << 8).astype(np.uint16)

    def formula(value: int) -> list[int]:
        def decode(first: int, second: int, dtype: Any, into: Any) -> int:
            numbers = np.array([first, second], np.uint8).view(dtype).astype(np.float32).astype(into)
            return int(numbers.view(np.uint32)[0])

        low_code, high_code = value & 255, value >> 8
        six = (low_code & 63, high_code & 63)
        scales = [0x7FFF if part == 255 else code(2.0 ** (part - 127), bfloat16) for part in (low_code, high_code)]
        return [
            decode(low_code & 15, low_code >> 4, E2M1, np.float16), decode(*six, E2M3, np.float16),
            decode(*six, E3M2, np.float16), scales[1] << 16 | scales[0],
        ]  # fmt: skip

    return Launch([np.zeros(4 * 256, np.uint32), codes], {0: per_lane(formula, [codes], np.uint32)})
