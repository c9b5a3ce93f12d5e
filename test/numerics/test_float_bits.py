# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Float bit patterns against ml_dtypes and numpy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from libtile.numerics.elements import FORMATS
from libtile.numerics.float_bits import decode, encode

NUMPY = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.bits <= 16])
def test_every_pattern_survives(name: str) -> None:
    patterns = range(1 << FORMATS[name].bits)
    assert [p for p in patterns if encode(decode(p, name), name) != p] == []


@pytest.mark.parametrize("name", [name for name in NUMPY if FORMATS[name].bits <= 16])
def test_every_pattern_has_the_value_that_ml_dtypes_gives_it(name: str) -> None:
    size = np.dtype(NUMPY[name]).itemsize
    patterns = np.arange(1 << FORMATS[name].bits, dtype=f"u{size}")
    with np.errstate(invalid="ignore"):
        values = patterns.view(NUMPY[name]).astype(np.float64)
    ours = np.array([decode(int(p), name) for p in patterns])
    assert np.array_equal(ours, values, equal_nan=True)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f8E4M3FN", "f8E5M2"])
@given(value=st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_rounding_is_to_nearest_even(name: str, value: float) -> None:
    with np.errstate(over="ignore"):
        expected = np.array([value]).astype(NUMPY[name])
    if not math.isfinite(float(expected[0])):
        return  # what overflows is tested apart, as the types differ in it
    size = expected.dtype.itemsize
    assert encode(value, name) == int(expected.view(f"u{size}")[0])


def test_overflow_is_infinity_or_the_largest_number() -> None:
    assert encode(1e300, "f16") == 0x7C00
    assert encode(-1e300, "f8E4M3FN") == 0xFE
    assert encode(1e300, "f4E2M1FN") == 7


def test_nan_keeps_sign_and_payload() -> None:
    assert encode(decode(0xFFC12345, "f32"), "f32") == 0xFFC12345
    assert encode(decode(0x7FF8000000000123, "f64"), "f64") == 0x7FF8000000000123


def test_nan_of_a_type_without_one_is_refused() -> None:
    with pytest.raises(ValueError, match="f4E2M1FN has no NaN"):
        encode(math.nan, "f4E2M1FN")


def test_negative_number_of_an_unsigned_type_is_refused() -> None:
    with pytest.raises(ValueError, match="f8E8M0FNU has no sign"):
        encode(-1.0, "f8E8M0FNU")
