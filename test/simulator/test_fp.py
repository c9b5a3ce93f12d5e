# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floating-point arithmetic against exact fractions, and narrow formats against ml_dtypes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from libtile.simulator import fp

MODES = ("rn", "rz", "rm", "rp")
BITS = {np.float16: (11, -14, 16), np.float32: (24, -126, 128), np.float64: (53, -1022, 1024)}


def rounded(value: Fraction, dtype: Any, mode: str) -> float:
    """Round an exact value to a format: by the definition of the modes, on integers."""
    precision, lowest, highest = BITS[dtype]
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    quantum = Fraction(2) ** (max(exponent, lowest) - precision + 1)
    whole, rest = divmod(size, quantum)
    up = {
        "rn": rest * 2 > quantum or (rest * 2 == quantum and whole % 2 == 1),
        "rz": False,
        "rm": rest > 0 and value < 0,
        "rp": rest > 0 and value > 0,
    }[mode]
    result = (whole + up) * quantum
    if result >= Fraction(2) ** highest:
        largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** (highest - 1)
        to_infinity = mode == "rn" or (mode == "rm" and value < 0) or (mode == "rp" and value > 0)
        return math.copysign(math.inf if to_infinity else float(largest), -1 if value < 0 else 1)
    return math.copysign(float(result), -1 if value < 0 else 1)


def samples(dtype: Any, count: int, seed: int) -> list[np.ndarray]:
    """Operands whose sums and products cancel, overflow, go subnormal and lie half way between neighbours."""
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    span = info.maxexp // 2
    values = [(rng.integers(-64, 64, count) * 2.0 ** rng.integers(-span, span, count)).astype(dtype) for _ in range(3)]
    short = [(rng.integers(-(2**9), 2**9, count) * 2.0**-7).astype(dtype) for _ in range(3)]
    edge = [(rng.integers(-9, 9, count) * float(info.smallest_subnormal)).astype(dtype) for _ in range(3)]
    big = [(rng.integers(-7, 8, count) * (float(info.max) / 8)).astype(dtype) for _ in range(3)]
    mixed = [short[0], short[1], edge[0]]
    out = [np.concatenate(parts) for parts in zip(values, short, edge, big, mixed, strict=True)]
    finite = np.isfinite(out[0]) & np.isfinite(out[1]) & np.isfinite(out[2])
    return [x[finite] for x in out]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["add", "mul", "fma"])
def test_arithmetic_is_correctly_rounded_in_every_mode(name: str, dtype: Any, mode: str) -> None:
    a, b, c = samples(dtype, 120, 3)
    functions = {
        "add": (fp.add64 if dtype == np.float64 else fp.add, (a, b), lambda x, y: x + y),
        "mul": (fp.mul64 if dtype == np.float64 else fp.mul, (a, b), lambda x, y: x * y),
        "fma": (fp.fma64 if dtype == np.float64 else fp.fma, (a, b, c), lambda x, y, z: x * y + z),
    }
    function, operands, exact = functions[name]
    with np.errstate(all="ignore"):
        got = function(*operands, mode)
    want = [rounded(exact(*(Fraction(float(x)) for x in row)), dtype, mode) for row in zip(*operands, strict=True)]
    assert [float(x) for x in got] == want


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotient_and_root_are_correctly_rounded_in_every_mode(dtype: Any, mode: str) -> None:
    a, b, _ = samples(dtype, 120, 5)
    keep = (b != 0) & (a != 0)
    a, b = a[keep], b[keep]
    divide, root = (fp.div64, fp.sqrt64) if dtype == np.float64 else (fp.div32, fp.sqrt32)
    with np.errstate(all="ignore"):
        got, roots = divide(a, b, mode), root(np.abs(a), mode)
    want = [rounded(Fraction(float(x)) / Fraction(float(y)), dtype, mode) for x, y in zip(a, b, strict=True)]
    assert [float(x) for x in got] == want
    for x, r in zip(np.abs(a), roots, strict=True):
        square, exact = Fraction(float(r)) ** 2, Fraction(float(x))
        below = Fraction(float(np.nextafter(r, dtype(0)))) ** 2
        above = Fraction(float(np.nextafter(r, dtype(np.inf)))) ** 2
        inside = {"rz": square <= exact < above, "rm": square <= exact < above, "rp": below < exact <= square}
        assert inside.get(mode, below < exact < above)


def test_fma32_rounds_once_where_two_roundings_would_differ() -> None:
    # 1 + 2**-24 is half way between floats; the 2**-60 beyond it decides.
    a = np.array([1.0, 1.0], dtype=np.float32)
    b = np.array([1 + 2.0**-23, 1 + 2.0**-23], dtype=np.float32)
    c = np.array([2.0**-24 + 2.0**-47, 2.0**-24 - 2.0**-48], dtype=np.float32)
    want = [rounded(Fraction(float(y)) + Fraction(float(z)), np.float32, "rn") for y, z in zip(b, c, strict=True)]
    assert fp.fma32(a, b, c).tolist() == want


@pytest.mark.parametrize("uniform", [(True, True, False), (False, True, True), (True, False, True), (True, True, True)])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_operands_of_fma_may_be_one_number_for_all_lanes(uniform: tuple[bool, ...], mode: str) -> None:
    """With results that are subnormal, which are worked out anew."""
    lanes = [np.full(4, x, np.float32) for x in (1e-40, 1 + 2.0**-23, 1e-42)]
    lanes[0][1:] = 1.0
    given = [x[:1] if one else x for x, one in zip(lanes, uniform, strict=True)]
    whole = fp.fma(*(np.broadcast_to(x, (4,)).copy() for x in given), mode)
    assert np.broadcast_to(fp.fma(*given, mode), (4,)).tolist() == whole.tolist()


def test_a_sum_that_rounds_to_zero_keeps_its_own_sign_in_every_mode() -> None:
    """The product, rounded alone, cancels against the term; the exact sum is 0.9 of the smallest number."""
    a, b = np.array([5e-324, 5e-324]), np.array([-0.1, 0.1])
    c = np.array([5e-324, -5e-324])
    assert np.signbit(fp.fma64(a, b, c, "rm")).tolist() == [False, True]
    assert np.signbit(fp.fma64(np.ones(1), np.ones(1), -np.ones(1), "rm")).tolist() == [True]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("bf16", ml_dtypes.bfloat16),
        ("f16", np.float16),
        ("e4m3", ml_dtypes.float8_e4m3fn),
        ("e5m2", ml_dtypes.float8_e5m2),
        ("e3m2", ml_dtypes.float6_e3m2fn),
        ("e2m3", ml_dtypes.float6_e2m3fn),
        ("e2m1", ml_dtypes.float4_e2m1fn),
    ],
)
def test_narrow_formats_decode_and_encode_like_ml_dtypes(name: str, dtype: Any) -> None:
    fmt = fp.FORMATS[name]
    bits = 1 + fmt.exponent + fmt.mantissa
    codes = np.arange(1 << bits)
    storage = np.uint16 if bits == 16 else np.uint8
    with np.errstate(invalid="ignore"):
        values = codes.astype(storage).view(dtype).astype(np.float64)
    decoded = fp.decode(codes, fmt)
    assert np.array_equal(decoded, values, equal_nan=True)
    keep = np.isfinite(values)
    assert np.array_equal(fp.encode(values[keep], fmt), codes[keep])
    # Between neighbours, and exactly half way.
    order = np.unique(values[keep])
    between = np.concatenate([order[:-1] + np.diff(order) * part for part in (0.25, 0.5, 0.75)])
    encoded = fp.decode(fp.encode(between, fmt), fmt)
    assert np.array_equal(encoded, between.astype(dtype).astype(np.float64))


def test_satfinite_clamps_and_overflow_follows_the_format() -> None:
    big = np.array([1e6, -1e6, np.inf, np.nan])
    assert fp.encode(big, fp.FORMATS["e4m3"], satfinite=True).tolist() == [0x7E, 0xFE, 0x7E, 0x7F]
    assert fp.encode(big, fp.FORMATS["e5m2"]).tolist() == [0x7C, 0xFC, 0x7C, 0x7F]
    assert fp.encode(big, fp.FORMATS["e5m2"], "rz").tolist() == [0x7B, 0xFB, 0x7C, 0x7F]
    assert fp.encode(big, fp.FORMATS["e2m1"], satfinite=True).tolist() == [7, 15, 7, 7]


def test_ties_away_differ_from_ties_to_even() -> None:
    x = np.array([1 + 2.0**-11, -(1 + 2.0**-11)])
    tf32 = fp.FORMATS["tf32"]
    assert fp.decode(fp.encode(x, tf32, "rna"), tf32).tolist() == [1 + 2.0**-10, -(1 + 2.0**-10)]
    assert fp.decode(fp.encode(x, tf32, "rn"), tf32).tolist() == [1.0, -1.0]


def test_saturate_flush_and_canonical_nan() -> None:
    x = np.array([-0.5, -0.0, 0.25, 2.0, np.nan, 1e-40], dtype=np.float32)
    assert (
        fp.saturate(x).view(np.uint32).tolist() == np.array([0, 0, 0.25, 1, 0, 1e-40], np.float32).view("u4").tolist()
    )
    assert fp.flush(np.array([1e-40, -1e-40, 1e-30], dtype=np.float32)).tolist() == [0.0, -0.0, np.float32(1e-30)]
    assert fp.canon(np.array([-np.nan], dtype=np.float32)).view(np.uint32)[0] == 0x7FFFFFFF


def test_a_fused_result_that_underflows_to_zero_keeps_its_sign() -> None:
    tiny, half = np.array([2.0**-149], np.float32), np.array([-0.5], np.float32)
    assert not np.signbit(fp.fma(tiny, half, tiny, "rm"))[0]  # 2**-150, rounded down
    assert np.signbit(fp.fma(tiny, -np.ones(1, np.float32), tiny, "rm"))[0]  # exactly zero
