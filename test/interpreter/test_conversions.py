# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversions between element types against exact fractions and Python integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from interpreter import exact
from interpreter.helpers import BASE_FLOATS, MODES, assert_floats, evaluate, random_floats, random_integers
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import ELEMENTS, from_bits, to_bits

NARROW = ("f8E4M3FN", "f8E5M2", "f4E2M1FN")
INTEGERS = ("i8", "i16", "i32", "i64")


def convert(name, values, source, target, attributes=None, check="basic"):
    return evaluate(name, {"from": (values, source)}, [(np.shape(values), target)], attributes, check)


def every_value(elem: str) -> np.ndarray:
    """All values of a format of at most 16 bits."""
    width = ELEMENTS[elem].width
    return from_bits(np.arange(1 << width, dtype=ELEMENTS[elem].unsigned_dtype), ELEMENTS[elem])


def as_format(value: float, elem: str, mode: str) -> float:
    """The definition: formats of 8 bits and less saturate, and have the infinities and NaN that they have."""
    fmt = ELEMENTS[elem].float
    saturates = ELEMENTS[elem].width <= 8
    if math.isnan(value):
        return math.nan if fmt.has_nan else fmt.top
    if math.isinf(value):
        return math.copysign(fmt.top, value) if saturates else value
    return value if value == 0 else exact.round_fraction(Fraction(value), elem, mode, saturates)


@pytest.mark.parametrize("mode", [*MODES, "nearest_away"])
@pytest.mark.parametrize("source, target", [(s, t) for s in BASE_FLOATS for t in [*BASE_FLOATS, "tf32", *NARROW]
                                            if t not in (s, "f64")])  # fmt: skip
def test_ftof_rounds_once(source, target, mode):
    values = random_floats(source, 300)
    got = convert("ftof", values, source, target, {"rounding_mode": mode})
    assert got.dtype == ELEMENTS[target].dtype
    want = [as_format(v, target, mode) for v in values.astype(np.float64).tolist()]
    assert_floats(got, want, values)


@pytest.mark.parametrize("source", [*NARROW, "f8E8M0FNU", "f16", "bf16"])
def test_ftof_to_wider_types_is_exact(source):
    values = every_value(source)
    with np.errstate(invalid="ignore"):
        want = values.astype(np.float64)
    for target in ("f32", "f64"):
        assert_floats(convert("ftof", values, source, target, {"rounding_mode": "nearest_even"}), want)


@pytest.mark.parametrize("source", NARROW)
def test_ftof_there_and_back_is_the_identity(source):
    values = every_value(source)
    values = values[~np.isinf(values)]  # an infinity saturates on the way back
    wide = convert("ftof", values, source, "f32", {"rounding_mode": "nearest_even"})
    back = convert("ftof", wide, "f32", source, {"rounding_mode": "nearest_even"})
    assert_floats(back, values)


def test_narrow_formats_saturate_values_beyond_their_range():
    values = np.array([1e6, -1e6, 464.0, 449.0, np.inf, -np.inf, np.nan])
    got = convert("ftof", values, "f64", "f8E4M3FN", {"rounding_mode": "nearest_even"})
    assert_floats(got, [448.0, -448.0, 448.0, 448.0, 448.0, -448.0, np.nan])
    got = convert("ftof", values, "f64", "f8E5M2", {"rounding_mode": "nearest_even"})
    assert_floats(got, [57344.0, -57344.0, 448.0, 448.0, 57344.0, -57344.0, np.nan])
    got = convert("ftof", values, "f64", "f4E2M1FN", {"rounding_mode": "nearest_even"})
    assert_floats(got, [6.0, -6.0, 6.0, 6.0, 6.0, -6.0, 6.0])


@pytest.mark.parametrize("mode, want", [
    ("zero", [2.0, 1.0, 2.0**-127, 2.0**-127, 2.0**127]), ("positive_inf", [4.0, 1.0, 2.0**-127, 2.0**-126, 2.0**127]),
])  # fmt: skip
def test_e8m0_keeps_a_power_of_two_of_the_magnitude(mode, want):
    values = np.array([-3.0, 1.0, 0.0, 2.0**-126.5, 3e38])
    assert_floats(convert("ftof", values, "f64", "f8E8M0FNU", {"rounding_mode": mode}), want)
    assert np.isnan(convert("ftof", np.array([np.nan]), "f64", "f8E8M0FNU", {"rounding_mode": mode})).all()


def test_tf32_has_ten_bits_of_fraction():
    values = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-10], np.float32)
    got = convert("ftof", values, "f32", "tf32", {"rounding_mode": "nearest_even"})
    assert_floats(got, [1.0, 1 + 2.0**-9, 1 + 2.0**-10])
    assert not (got.view(np.uint32) & 0x1FFF).any()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", BASE_FLOATS)
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("source", ["i1", *INTEGERS])
def test_itof_rounds_once(source, target, signedness, mode):
    values = random_integers(source, 200)
    width = ELEMENTS[source].width
    got = convert("itof", values, source, target, {"signedness": signedness, "rounding_mode": mode})
    for value, number in zip(values.tolist(), np.asarray(got, np.float64).tolist()):
        bits = int(value) & ((1 << width) - 1)
        read = bits - (1 << width) if signedness == "signed" and bits >> (width - 1) else bits
        want = 0.0 if read == 0 else exact.round_fraction(Fraction(read), target, mode)
        assert number == want, (read, number, want)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("source", BASE_FLOATS)
def test_ftoi_truncates_and_saturates(source, target, signedness):
    values = random_floats(source, 300)
    width = ELEMENTS[target].width
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signedness == "signed" else (0, (1 << width) - 1)
    attributes = {"signedness": signedness, "rounding_mode": "nearest_int_to_zero", "saturating": True}
    got = convert("ftoi", values, source, target, attributes)
    for value, number in zip(values.astype(np.float64).tolist(), got.tolist()):
        if math.isnan(value):
            want = 0
        elif math.isinf(value):
            want = high if value > 0 else low
        else:
            want = min(max(math.trunc(value), low), high)
        assert number & ((1 << width) - 1) == want & ((1 << width) - 1), (value, number, want)


@pytest.mark.parametrize("value", [128.0, -129.0, math.nan, math.inf])
def test_ftoi_out_of_range_is_a_fault_unless_it_saturates(value):
    attributes = {"signedness": "signed", "rounding_mode": "nearest_int_to_zero"}
    values = np.array([0.0, value], np.float32)
    with pytest.raises(Fault) as caught:
        convert("ftoi", values, "f32", "i8", attributes)
    assert caught.value.kind is FaultKind.CONVERSION
    assert caught.value.index == (1,)
    convert("ftoi", values, "f32", "i8", attributes, check="off")
    convert("ftoi", values, "f32", "i8", attributes | {"saturating": True})
    convert("ftoi", np.array([127.9, -128.9], np.float32), "f32", "i8", attributes)


def test_ftoi_to_i1_asks_for_non_zero():
    values = np.array([0.0, -0.0, 0.25, -3.0, math.nan], np.float32)
    attributes = {"signedness": "unsigned", "rounding_mode": "nearest_int_to_zero"}
    assert convert("ftoi", values, "f32", "i1", attributes).tolist() == [False, False, True, True, True]


@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("source, target", [("i1", "i8"), ("i8", "i16"), ("i8", "i64"), ("i16", "i32"), ("i32", "i64"),
                                            ("i4", "i8"), ("i4", "i32")])  # fmt: skip
def test_exti_extends_by_sign_or_zero(source, target, signedness):
    width = ELEMENTS[source].width
    values = every_value(source) if width <= 8 else random_integers(source, 200)
    got = convert("exti", values, source, target, {"signedness": signedness})
    for value, number in zip(values.tolist(), got.tolist()):
        bits = int(value) & ((1 << width) - 1)
        assert number == (bits - (1 << width) if signedness == "signed" and bits >> (width - 1) else bits)


@pytest.mark.parametrize("source, target", [("i64", "i32"), ("i32", "i8"), ("i16", "i1"), ("i8", "i4"), ("i64", "i1")])
def test_trunci_keeps_the_low_bits(source, target):
    values = random_integers(source, 200)
    width = ELEMENTS[target].width
    got = convert("trunci", values, source, target)
    mask = (1 << width) - 1
    assert [int(g) & mask for g in got] == [int(v) & mask for v in values]


@pytest.mark.parametrize("overflow, good, bad", [("no_signed_wrap", -128, 128), ("no_unsigned_wrap", 255, 256),
                                                 ("no_wrap", 127, -1)])  # fmt: skip
def test_a_broken_promise_of_trunci_is_a_fault(overflow, good, bad):
    convert("trunci", np.array([good]), "i32", "i8", {"overflow": overflow})
    with pytest.raises(Fault, match="does not fit i8"):
        convert("trunci", np.array([bad]), "i32", "i8", {"overflow": overflow})


@pytest.mark.parametrize("source, target", [("f32", "i32"), ("i32", "f32"), ("bf16", "f16"), ("i16", "bf16"),
                                            ("f64", "i64"), ("i8", "f8E4M3FN"), ("f8E5M2", "i8")])  # fmt: skip
def test_bitcast_keeps_the_bits(source, target):
    bits = np.arange(256, dtype=np.uint64) * 0x0123456789ABCDEF
    values = from_bits(bits.astype(ELEMENTS[source].unsigned_dtype), ELEMENTS[source])
    got = evaluate("bitcast", {"source": (values, source)}, [(values.shape, target)])
    assert got.dtype == ELEMENTS[target].dtype
    assert np.array_equal(to_bits(got, ELEMENTS[target]), bits.astype(ELEMENTS[target].unsigned_dtype))


def test_ue5m3_has_its_own_codec():
    elem = ELEMENTS["fnv8E5M3FNU"]
    codes = np.arange(256, dtype=np.uint8)
    values = from_bits(codes, elem)
    assert values[0] == 0 and values[1] == 2.0**-17 and values[8] == 2.0**-14 and values[120] == 1.0
    assert values[254] == 114688.0 and np.isnan(values[255])
    assert np.array_equal(to_bits(values, elem), codes)


def test_f4_values_are_those_of_the_format():
    values = from_bits(np.arange(16, dtype=np.uint8), ELEMENTS["f4E2M1FN"]).astype(np.float32)
    positive = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    assert_floats(values, positive + [-v for v in positive])


def test_ue5m3_keeps_the_magnitude_and_saturates():
    values = random_floats("f32", 300)
    got = convert("ftof", values, "f32", "fnv8E5M3FNU", {"rounding_mode": "nearest_even"})
    want = [as_format(abs(v), "fnv8E5M3FNU", "nearest_even") for v in values.astype(np.float64).tolist()]
    assert_floats(got, want, values)
    elem = ELEMENTS["fnv8E5M3FNU"]
    assert np.array_equal(from_bits(to_bits(got, elem), elem), got, equal_nan=True)
