# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generated elementary functions, run in the simulator, stay within their error bounds of the interpreter."""

import numpy as np
import pytest

from libtile.codegen import math_functions as functions
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import FLOAT, HALF, I32
from libtile.interpreter.formats import ELEMENTS
from libtile.targets import target
from lowering.elementwise import TARGETS, Case, evaluate, expected, patterns, ulps, values

SIZE = 1024
TYPES = ("f16", "bf16", "f32", "f64")
UNARY = {
    # op: function, bound in ulp for f32, for f64 (CUDA programming guide, mathematical functions; half an ulp more
    # for the interpreter's own error and the rounding of both)
    "exp": (functions.exp, 2, 2),
    "exp2": (functions.exp2, 2, 2),
    "log": (functions.log, 2, 2),
    "log2": (functions.log2, 2, 2),
    "sin": (functions.sin, 2, 3),
    "cos": (functions.cos, 2, 3),
    "tan": (functions.tan, 4, 3),
    "sinh": (functions.sinh, 3, 3),
    "cosh": (functions.cosh, 2, 2),
    "tanh": (functions.tanh, 2, 2),
    "rsqrt": (functions.rsqrt, 2, 2),
}
PLAIN = {"flush_to_zero": False, "rounding_mode": "full"}


def bound(name, single, double):
    """f16 and bf16 results are f32 ones rounded: at most one step away from the interpreter's."""
    return {"f16": 1, "bf16": 1, "f32": single, "f64": double}[name]


def worst(case, got, want):
    far = ulps(case.result, got, want)
    i = int(np.argmax(far))
    shown = [values(name, bits[i : i + 1])[0] for name, bits in case.inputs]
    return far[i], f"{case.name}{tuple(shown)} is off by {far[i]} ulp"


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("gpu", TARGETS)
def test_functions_of_one_number_are_accurate(gpu, name):
    x = (name, patterns(name, SIZE, 2))
    rows = [Case(op, function, [x], name) for op, (function, _, _) in UNARY.items()]
    for case, got in zip(rows, evaluate(gpu, rows)):
        far, message = worst(case, got, expected(case.name, case.inputs, name, **PLAIN))
        _, single, double = UNARY[case.name]
        assert far <= bound(name, single, double), message


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("gpu", TARGETS)
def test_powers_and_angles_are_accurate(gpu, name):
    x, y = ((name, patterns(name, SIZE, seed)) for seed in (2, 3))
    rows = [Case("pow", functions.pow_, [x, y], name), Case("atan2", functions.atan2, [x, y], name)]
    limits = {"pow": (4, 3), "atan2": (3, 3)}
    for case, got in zip(rows, evaluate(gpu, rows)):
        far, message = worst(case, got, expected(case.name, case.inputs, name))
        assert far <= bound(name, *limits[case.name]), message


@pytest.mark.parametrize("gpu", TARGETS)
def test_integer_powers_are_accurate_and_know_odd_exponents(gpu):
    rng = np.random.default_rng(9)
    rows = []
    for name in TYPES:
        base = patterns(name, SIZE, 2)
        # Bases close to 1, whose powers by large exponents are neither 0 nor infinite.
        dtype = ELEMENTS[name].dtype
        near = (1.0 + rng.standard_normal(SIZE // 4) * 2.0**-20).astype(dtype) * rng.choice([-1, 1], SIZE // 4)
        base[: SIZE // 4] = near.astype(dtype).view(base.dtype)
        for exponent in ("i1", "i8", "i16", "i32"):
            n = patterns(exponent, SIZE, 3)
            if exponent == "i32":
                n[: SIZE // 8] = rng.integers(1 << 24, 1 << 28, SIZE // 8)
            inputs = [(name, base), (exponent, n)]
            rows.append((Case(f"fpowi {exponent}", functions.fpowi, inputs, name), {"exponent": exponent}))
    for (case, elements), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
        far, message = worst(case, got, expected("fpowi", case.inputs, case.result, elements))
        assert far <= bound(case.result, 4, 3), message


@pytest.mark.parametrize("gpu", TARGETS)
def test_approximations_and_flushing_keep_their_promises(gpu):
    x = ("f32", patterns("f32", SIZE, 2))
    rows = [
        Case("exp", lambda b, v: functions.exp(b, v, "approx"), [x], "f32"),
        Case("tanh", lambda b, v: functions.tanh(b, v, "approx"), [x], "f32"),
        Case("exp2", lambda b, v: functions.exp2(b, v, True), [x], "f32"),
        Case("rsqrt", lambda b, v: functions.rsqrt(b, v, True), [x], "f32"),
    ]
    attributes = [{}, {"rounding_mode": "approx"}, {"flush_to_zero": True}, {"flush_to_zero": True}]
    exp, tanh, exp2, rsqrt = evaluate(gpu, rows)
    want = [expected(c.name, c.inputs, "f32", **a) for c, a in zip(rows, attributes)]
    # The exponent is rounded before the power: an error that grows with it, 2**-24 of up to 150.
    assert ulps("f32", exp, want[0]).max() <= 256
    got, true = values("f32", tanh).astype(np.float64), values("f32", want[1]).astype(np.float64)
    close = np.abs(got - true) <= 2.0**-10.9 * np.abs(true)
    assert (close | (np.isnan(got) & np.isnan(true))).all()
    assert ulps("f32", exp2, want[2]).max() <= 2
    assert ulps("f32", rsqrt, want[3]).max() <= 2


@pytest.mark.parametrize("name", TYPES)
def test_small_constant_exponents_are_multiplied_out(name):
    x = (name, patterns(name, SIZE, 2))
    rows = []
    for n in (-1, 0, 1, 2, 3, 4, 5):
        exponent = ("i32", np.full(SIZE, n, np.int32).view(np.uint32))
        emit = lambda b, v, _, n=n: functions.fpowi(b, v, integer(I32, n))  # noqa: E731
        rows.append(Case(f"fpowi {n}", emit, [x, exponent], name))
    for case, got in zip(rows, evaluate("sm_90", rows)):
        far, message = worst(case, got, expected("fpowi", case.inputs, name, {"exponent": "i32"}))
        assert far <= bound(name, 3, 3), message
    b = KernelBuilder("k", target("sm_80"), 32)
    functions.fpowi(b, Value(FLOAT, "%x"), integer(I32, 3))
    assert "call" not in b.function_text()


@pytest.mark.parametrize(
    "call",
    [
        lambda b, h: functions.exp(b, h, "approx"),
        lambda b, h: functions.exp(b, h, "nearest_even"),
        lambda b, h: functions.tanh(b, h, "approx"),
        lambda b, h: functions.tanh(b, h, "zero"),
        lambda b, h: functions.exp2(b, h, True),
        lambda b, h: functions.rsqrt(b, h, True),
        lambda b, h: functions.sin(b, Value(I32, "%i")),
    ],
)
def test_modes_that_a_function_has_not_are_refused(call):
    with pytest.raises(ValueError):
        call(KernelBuilder("k", target("sm_80"), 32), Value(HALF, "%h"))
