# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floating-point ops other than rounded arithmetic: order, signs, whole numbers, remainders."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from interpreter.helpers import BASE_FLOATS, assert_floats, elementwise, pairs, random_floats

COUNT = 200


def rows(*operands):
    return zip(*(np.asarray(o, np.float64).tolist() for o in operands))


def maximum(a: float, b: float, propagate: bool) -> float:
    """IEEE 754-2019 section 9.6: maximum and maximumNumber."""
    if math.isnan(a) or math.isnan(b):
        if propagate or (math.isnan(a) and math.isnan(b)):
            return math.nan
        return b if math.isnan(a) else a
    if a == b:
        return a if math.copysign(1, a) > 0 else b
    return a if a > b else b


@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("elem", BASE_FLOATS)
def test_extrema_follow_ieee_in_nan_and_zero(elem, propagate):
    a, b = pairs(random_floats(elem, COUNT))
    attributes = {"propagate_nan": propagate}
    got = elementwise("maxf", elem, [a, b], attributes)
    assert_floats(got, np.array([maximum(x, y, propagate) for x, y in rows(a, b)]), a, b)
    got = elementwise("minf", elem, [a, b], attributes)
    assert_floats(got, np.array([-maximum(-x, -y, propagate) for x, y in rows(a, b)]), a, b)


def test_extrema_flush_subnormals_when_asked():
    a, b = np.array([1e-40, -1e-40], np.float32), np.array([-1.0, 1.0], np.float32)
    assert_floats(elementwise("maxf", "f32", [a, -np.abs(b)], {"flush_to_zero": True}), [0.0, -0.0])
    assert_floats(elementwise("maxf", "f32", [a, -np.abs(b)]), a)


@pytest.mark.parametrize("ordering", ["ordered", "unordered"])
@pytest.mark.parametrize("elem", BASE_FLOATS)
def test_comparisons_decide_nan_by_their_ordering(elem, ordering):
    a, b = pairs(random_floats(elem, COUNT))
    relations = {
        "equal": lambda x, y: x == y, "not_equal": lambda x, y: x != y, "less_than": lambda x, y: x < y,
        "less_than_or_equal": lambda x, y: x <= y, "greater_than": lambda x, y: x > y,
        "greater_than_or_equal": lambda x, y: x >= y,
    }  # fmt: skip
    for predicate, relation in relations.items():
        attributes = {"comparison_predicate": predicate, "comparison_ordering": ordering}
        got = elementwise("cmpf", elem, [a, b], attributes, result="i1")
        assert got.dtype == np.bool_
        want = [ordering == "unordered" if math.isnan(x) or math.isnan(y) else relation(x, y) for x, y in rows(a, b)]
        assert got.tolist() == want, predicate


@pytest.mark.parametrize("elem", BASE_FLOATS)
def test_signs_are_changed_and_nothing_else(elem):
    values = random_floats(elem, COUNT)
    assert_floats(elementwise("negf", elem, [values]), [-v for (v,) in rows(values)])
    assert_floats(elementwise("absf", elem, [values]), [abs(v) for (v,) in rows(values)])


@pytest.mark.parametrize("elem", BASE_FLOATS)
def test_floor_and_ceil_keep_zeros_and_infinities(elem):
    values = random_floats(elem, COUNT)

    def apply(function, v: float) -> float:
        if not math.isfinite(v) or v == 0:
            return v
        return math.copysign(float(function(v)), v)

    assert_floats(elementwise("floor", elem, [values]), [apply(math.floor, v) for (v,) in rows(values)], values)
    assert_floats(elementwise("ceil", elem, [values]), [apply(math.ceil, v) for (v,) in rows(values)], values)


def remainder(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    if math.isinf(b) or a == 0:
        return a
    size, divisor = abs(Fraction(a)), abs(Fraction(b))
    return math.copysign(float(size - (size // divisor) * divisor), a)


@pytest.mark.parametrize("elem", BASE_FLOATS)
def test_remf_is_exact_and_has_the_sign_of_the_dividend(elem):
    a, b = pairs(random_floats(elem, COUNT))
    assert_floats(elementwise("remf", elem, [a, b]), [remainder(x, y) for x, y in rows(a, b)], a, b)
