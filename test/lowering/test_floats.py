# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generated floating-point code, run in the simulator, agrees with the interpreter bit for bit."""

import numpy as np
import pytest
from lowering.elementwise import TARGETS, Case, assert_same, evaluate, expected, patterns, ulps, values

from libtile.lowering.llvm import compare, floats
from libtile.lowering.llvm.builder import KernelBuilder, Value
from libtile.targets import target

SIZE = 2048
TYPES = ("f16", "bf16", "f32", "f64")
MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
BINARY = {"addf": floats.add, "subf": floats.sub, "mulf": floats.mul, "divf": floats.div}
PREDICATES = ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal")


def operands(name, size=SIZE):
    return [(name, patterns(name, size, seed)) for seed in (2, 3, 4)]


def rounded_cases(name, size):
    x, y, z = operands(name, size)
    for mode in MODES:
        for ftz in (False, True) if name == "f32" else (False,):
            attributes = {"rounding_mode": mode, "flush_to_zero": ftz}
            for op, function in BINARY.items():
                emit = lambda b, u, v, f=function, m=mode, z=ftz: f(b, u, v, m, z)  # noqa: E731
                yield Case(f"{op} {name} {attributes}", emit, [x, y], name), op, attributes
            emit = lambda b, u, v, w, m=mode, z=ftz: floats.fma(b, u, v, w, m, z)  # noqa: E731
            yield Case(f"fma {name} {attributes}", emit, [x, y, z], name), "fma", attributes
            emit = lambda b, u, m=mode, z=ftz: floats.sqrt(b, u, m, z)  # noqa: E731
            yield Case(f"sqrt {name} {attributes}", emit, [x], name), "sqrt", attributes


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("gpu", TARGETS)
def test_arithmetic_is_correctly_rounded_in_every_mode(gpu, name):
    # Directed f64 arithmetic is done by exact fractions in the simulator, and slow.
    rows = list(rounded_cases(name, SIZE if name != "f64" else 256))
    for (case, op, attributes), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
        assert_same(case, got, expected(op, case.inputs, name, **attributes))


@pytest.mark.parametrize("mode", MODES)
def test_narrow_results_near_ties_and_underflow_are_rounded_once(mode):
    """Operands of which results lie close to the middle between two numbers, or are subnormal."""
    rng = np.random.default_rng(7)
    rows = []
    for name, low, high in (("bf16", 0x0001, 0x1FFF), ("f16", 0x0001, 0x1FFF), ("bf16", 0x2000, 0x5FFF)):
        x, y, z = ((name, rng.integers(low, high, SIZE).astype(np.uint16)) for _ in range(3))
        attributes = {"rounding_mode": mode, "flush_to_zero": False}
        for op, function in BINARY.items():
            emit = lambda b, u, v, f=function: f(b, u, v, mode)  # noqa: E731
            rows.append((Case(f"{op} {name}", emit, [x, y], name), op, attributes))
        emit = lambda b, u, v, w: floats.fma(b, u, v, w, mode)  # noqa: E731
        rows.append((Case(f"fma {name}", emit, [x, y, z], name), "fma", attributes))
    for gpu in ("sm_80", "sm_90"):
        for (case, op, attrs), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
            assert_same(case, got, expected(op, case.inputs, case.result, **attrs))


@pytest.mark.parametrize("gpu", TARGETS)
def test_approximations_stay_within_two_ulp(gpu):
    x, y, _ = operands("f32")
    rows = []
    for mode in ("approx", "full"):
        for ftz in (False, True):
            attributes = {"rounding_mode": mode, "flush_to_zero": ftz}
            emit = lambda b, u, v, m=mode, z=ftz: floats.div(b, u, v, m, z)  # noqa: E731
            rows.append((Case(f"div {attributes}", emit, [x, y], "f32"), "divf", attributes))
    for ftz in (False, True):
        attributes = {"rounding_mode": "approx", "flush_to_zero": ftz}
        emit = lambda b, u, z=ftz: floats.sqrt(b, u, "approx", z)  # noqa: E731
        rows.append((Case(f"sqrt {attributes}", emit, [x], "f32"), "sqrt", attributes))
    divisor = np.abs(values("f32", y[1]))
    for (case, op, attributes), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
        far = ulps("f32", got, expected(op, case.inputs, "f32", **attributes))
        if op == "divf" and attributes["rounding_mode"] == "approx":
            far = far[divisor <= 2.0**126]
        assert far.max() <= 2, case.name


def plain_cases(name):
    x, y, _ = operands(name)
    for op, function in (("negf", floats.neg), ("absf", floats.abs_), ("ceil", floats.ceil), ("floor", floats.floor)):
        yield Case(f"{op} {name}", function, [x], name), op, {}
    for op, function in (("maxf", floats.max_), ("minf", floats.min_)):
        for nan in (False, True):
            for ftz in (False, True) if name == "f32" else (False,):
                attributes = {"propagate_nan": nan, "flush_to_zero": ftz}
                emit = lambda b, u, v, f=function, n=nan, z=ftz: f(b, u, v, n, z)  # noqa: E731
                yield Case(f"{op} {name} {attributes}", emit, [x, y], name), op, attributes
    for predicate in PREDICATES:
        for ordering in ("ordered", "unordered"):
            attributes = {"comparison_predicate": predicate, "comparison_ordering": ordering}
            emit = lambda b, u, v, p=predicate, o=ordering: compare.compare_floats(b, u, v, p, o)  # noqa: E731
            yield Case(f"cmpf {name} {attributes}", emit, [x, y], "i1"), "cmpf", attributes


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("gpu", TARGETS)
def test_signs_order_and_whole_numbers_agree_with_the_interpreter(gpu, name):
    rows = list(plain_cases(name))
    for (case, op, attributes), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
        assert_same(case, got, expected(op, case.inputs, case.result, **attributes))


@pytest.mark.parametrize("gpu", TARGETS)
def test_remainders_are_exact_for_quotients_of_any_size(gpu):
    rows = []
    for name in TYPES:
        x, y, _ = operands(name, 512)
        rows.append(Case(f"remf {name}", floats.rem, [x, y], name))
    for case, got in zip(rows, evaluate(gpu, rows)):
        assert_same(case, got, expected("remf", case.inputs, case.result))


def test_products_and_sums_are_not_fused():
    x, y, z = operands("f32")
    case = Case("x*y+z", lambda b, u, v, w: floats.add(b, floats.mul(b, u, v), w), [x, y, z], "f32")
    (got,) = evaluate("sm_90", [case])
    with np.errstate(all="ignore"):
        u, v, w = (values("f32", bits) for _, bits in (x, y, z))
        want = np.asarray(u * v + w, np.float32).view(np.uint32)
    assert_same(case, got, want)


@pytest.mark.parametrize(
    "call",
    [
        lambda b, h: floats.add(b, h, h, "approx"),
        lambda b, h: floats.mul(b, h, h, "nearest_even", True),
        lambda b, h: floats.div(b, h, h, "full"),
        lambda b, h: floats.sqrt(b, h, "nearest_away"),
        lambda b, h: floats.max_(b, h, h, False, True),
        lambda b, h: floats.add(b, Value("i32", "%i"), Value("i32", "%i")),
    ],
)
def test_modes_that_a_type_has_not_are_refused(call):
    with pytest.raises(ValueError):
        call(KernelBuilder("k", target("sm_80"), 32), Value("half", "%h"))
