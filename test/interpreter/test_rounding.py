# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arithmetic is correctly rounded in every mode and format: compared with exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from interpreter import exact
from interpreter.helpers import BASE_FLOATS, MODES, assert_floats, elementwise, pairs, random_floats
from libtile.interpreter.formats import ELEMENTS
from libtile.interpreter.rounding import round_to

COUNT = 300


def expected(function, elem, mode, *operands):
    rows = zip(*(np.asarray(o, np.float64).tolist() for o in operands))
    return np.array([function(*row, elem, mode) for row in rows])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("elem", BASE_FLOATS)
@pytest.mark.parametrize("name", ["addf", "subf", "mulf", "divf"])
def test_binary_arithmetic_is_correctly_rounded(name, elem, mode):
    a, b = pairs(random_floats(elem, COUNT, seed=MODES.index(mode) + 10 * len(name)))
    function = {"addf": exact.add, "subf": exact.sub, "mulf": exact.mul, "divf": exact.div}[name]
    got = elementwise(name, elem, [a, b], {"rounding_mode": mode})
    assert got.dtype == ELEMENTS[elem].dtype
    assert_floats(got, expected(function, elem, mode, a, b), a, b)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("elem", BASE_FLOATS)
def test_fma_is_rounded_once(elem, mode):
    a, b = pairs(random_floats(elem, COUNT, seed=3))
    rng = np.random.default_rng(4)
    c = rng.permutation(a)
    # Sums that nearly cancel are where a second rounding shows.
    with np.errstate(all="ignore"):
        near = rng.random(a.size) < 0.5
        c = np.where(near, (-np.float64(a) * np.float64(b)).astype(a.dtype), c)
    got = elementwise("fma", elem, [a, b, c], {"rounding_mode": mode})
    assert_floats(got, expected(exact.fma, elem, mode, a, b, c), a, b, c)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("elem", BASE_FLOATS)
def test_sqrt_is_correctly_rounded(elem, mode):
    a = np.concatenate([random_floats(elem, COUNT, seed=5), np.abs(random_floats(elem, COUNT, seed=6))])
    got = elementwise("sqrt", elem, [a], {"rounding_mode": mode})
    assert_floats(got, expected(exact.sqrt, elem, mode, a), a)


@pytest.mark.parametrize("mode", MODES)
def test_f64_products_at_the_ends_of_the_range_are_correctly_rounded(mode):
    a = np.array([1e-200, 3e-170, 1.7e308, 5e-324, 2.2250738585072014e-308, 1e300, 1.5e-308])
    a, b = (m.reshape(-1) for m in np.meshgrid(a, np.concatenate([a, -a])))
    for name, function in (("mulf", exact.mul), ("divf", exact.div), ("addf", exact.add)):
        got = elementwise(name, "f64", [a, b], {"rounding_mode": mode})
        assert_floats(got, expected(function, "f64", mode, a, b), a, b)
    c = np.roll(a, 3)
    got = elementwise("fma", "f64", [a, b, c], {"rounding_mode": mode})
    assert_floats(got, expected(exact.fma, "f64", mode, a, b, c), a, b, c)


@pytest.mark.parametrize("mode", [*MODES, "nearest_away"])
@pytest.mark.parametrize("elem", ["f16", "bf16", "f32", "tf32", "f8E4M3FN", "f8E5M2", "f4E2M1FN"])
def test_round_to_follows_the_definition(elem, mode):
    precision, emin, top = exact.parameters(elem)
    rng = np.random.default_rng(7)
    # Values with a few more bits than the format: ties and near-ties on both sides, and beyond the ends.
    scale = rng.integers(emin - precision - 2, int(np.log2(top)) + 2, 600)
    values = np.ldexp(rng.integers(1, 1 << (precision + 3), 600).astype(np.float64), scale - precision - 2)
    values *= rng.choice([-1.0, 1.0], values.size)
    fmt = ELEMENTS[elem].float
    saturate = not fmt.has_infinity
    want = np.array([exact.round_fraction(Fraction(v), elem, mode, saturate) for v in values.tolist()])
    assert_floats(round_to(values, fmt, mode, saturate), want, values)


@pytest.mark.parametrize("elem", BASE_FLOATS)
def test_a_scalar_tile_is_rounded_as_an_element_is(elem):
    a, b = np.float64(1) / 3, np.float64(2) / 7
    a, b = (v.astype(ELEMENTS[elem].dtype) for v in (a, b))
    got = elementwise("mulf", elem, [a, b], {"rounding_mode": "positive_inf"})
    assert got.shape == ()
    assert float(got) == exact.mul(float(a), float(b), elem, "positive_inf")


@pytest.mark.parametrize("name", ["addf", "mulf", "divf"])
def test_flush_to_zero_replaces_subnormals_by_signed_zeros(name):
    tiny = np.float32(1e-40)
    a = np.array([tiny, -tiny, 1.5e-38, 1.0, -1.5e-38], np.float32)
    b = np.array([1.0, 1.0, -1.4e-38, tiny, 1.4e-38], np.float32)
    attributes = {"rounding_mode": "nearest_even", "flush_to_zero": True}
    got = elementwise(name, "f32", [a, b], attributes)

    def flush(v):
        return np.where(np.abs(v) < np.float32(2.0**-126), np.copysign(np.float32(0), v), v)

    operation = {"addf": np.add, "mulf": np.multiply, "divf": np.divide}[name]
    with np.errstate(all="ignore"):
        assert_floats(got, flush(operation(flush(a), flush(b))), a, b)


def test_divf_approx_flushes_quotients_of_huge_divisors():
    # Divisors beyond 2**126: 0, or NaN for an infinite dividend (Tile IR specification, divf).
    a = np.array([1.0, -1.0, np.inf, 1.0, 6.0], np.float32)
    b = np.array([2.0**127, 2.0**127, 2.0**127, np.inf, 2.0], np.float32)
    got = elementwise("divf", "f32", [a, b], {"rounding_mode": "approx"})
    assert_floats(got, np.array([0.0, -0.0, np.nan, 0.0, 3.0]), a, b)
