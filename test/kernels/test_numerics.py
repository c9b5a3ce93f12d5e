# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The exact arithmetic that expected values come from, against the processor's and ml_dtypes' own rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from kernels import numerics

OPERATIONS: list[tuple[Callable[..., float], Callable[..., np.ndarray]]] = [
    (numerics.add, np.add),
    (numerics.sub, np.subtract),
    (numerics.mul, np.multiply),
    (numerics.div, np.divide),
]
TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def _any_bits(dtype: type, count: int, seed: int) -> np.ndarray:
    """Floats of any bit pattern: zeros, subnormals, infinities and NaN among them."""
    size = np.dtype(dtype).itemsize
    values: np.ndarray = np.random.default_rng(seed).integers(0, 256, count * size).astype(np.uint8).view(dtype)
    values[:2] = [0.0, -0.0]
    return values


def _same(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("exact, native", OPERATIONS, ids=["add", "sub", "mul", "div"])
def test_nearest_even_is_what_the_processor_does(name: str, exact: Callable, native: Callable) -> None:
    dtype = TYPES[name]
    x, y = _any_bits(dtype, 400, 1), np.roll(_any_bits(dtype, 400, 2), 1)
    with np.errstate(all="ignore"):
        want = native(x, y)
    _same(numerics.elementwise(exact, x, y, format_name=name).astype(dtype), want)


@pytest.mark.parametrize("name", TYPES)
def test_square_root_is_what_the_processor_does(name: str) -> None:
    x = _any_bits(TYPES[name], 400, 3)
    with np.errstate(all="ignore"):
        want = np.sqrt(x)
    _same(numerics.elementwise(numerics.sqrt, x, format_name=name).astype(TYPES[name]), want)


@pytest.mark.parametrize(
    "name, dtype",
    [("bf16", ml_dtypes.bfloat16), ("f16", np.float16), ("f8e4m3fn", ml_dtypes.float8_e4m3fn),
     ("f8e5m2", ml_dtypes.float8_e5m2)],
)  # fmt: skip
def test_conversion_to_nearest_even_is_what_ml_dtypes_does(name: str, dtype: type) -> None:
    largest = float(ml_dtypes.finfo(dtype).max)
    x = _any_bits(np.float32, 2000, 4)
    x = x[np.abs(x) <= largest]
    _same(numerics.elementwise(numerics.convert, x, format_name=name), x.astype(dtype).astype(np.float64))


@pytest.mark.parametrize("exact, native", OPERATIONS, ids=["add", "sub", "mul", "div"])
def test_directed_modes_are_neighbours_on_both_sides_of_the_exact_result(exact: Callable, native: Callable) -> None:
    rng = np.random.default_rng(5)
    x, y = ((rng.choice([-1.0, 1.0], 300) * rng.uniform(1, 2, 300)).astype(np.float32) for _ in range(2))
    modes = {mode: numerics.elementwise(exact, x, y, format_name="f32", mode=mode) for mode in ("RN", "RZ", "RM", "RP")}
    for i, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        whole = native(Fraction(a), Fraction(b))
        down, up = modes["RM"][i], modes["RP"][i]
        assert Fraction(down) <= whole <= Fraction(up)
        assert np.nextafter(np.float32(down), np.float32(np.inf)) == np.float32(up) or down == up == whole
        assert modes["RZ"][i] == (down if whole > 0 else up)
        assert modes["RN"][i] in (down, up)


def test_a_fused_product_is_rounded_once() -> None:
    a = 1 + 2.0**-12
    # The product needs 25 bits: rounded on its own, the difference would be zero.
    assert numerics.fma(a, a, -(1 + 2.0**-11), "f32") == 2.0**-24
    assert math.copysign(1, numerics.fma(1.0, 1.0, -1.0, "f32", "RM")) == -1
    assert math.isnan(numerics.fma(math.inf, 0.0, 1.0, "f32"))


def test_ties_go_to_even_or_away_from_zero() -> None:
    tie = 1 + 2.0**-11  # half way between two f16
    assert numerics.convert(tie, "f16", "RN") == 1
    assert numerics.convert(tie, "f16", "RA") == 1 + 2.0**-10
    assert numerics.convert(-tie, "f16", "RA") == -(1 + 2.0**-10)


def test_overflow_stops_at_the_largest_number_in_the_modes_that_round_inwards() -> None:
    assert numerics.convert(1e6, "f16", "RN") == math.inf
    assert numerics.convert(1e6, "f16", "RZ") == 65504
    assert numerics.convert(1e6, "f16", "RM") == 65504
    assert numerics.convert(-1e6, "f16", "RM") == -math.inf


def test_flushing_takes_subnormal_operands_and_results() -> None:
    least = float(np.finfo(np.float32).smallest_normal)
    x, y = np.array([least / 2, -least / 4, least]), np.array([1.0, 1.0, 0.5])
    result = numerics.elementwise(numerics.mul, x, y, format_name="f32", ftz=True)
    assert result.tolist() == [0.0, 0.0, 0.0]
    assert np.signbit(result).tolist() == [False, True, False]
