# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generated floating-point code, run in the simulator, agrees with the interpreter bit for bit."""

import re

import numpy as np
import pytest

from libtile.codegen import compare, constants, floats
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import HALF, I32, VectorType
from libtile.codegen.tile import Tile
from libtile.layouts import LinearLayout
from libtile.targets import target
from lowering.elementwise import (
    POINTER,
    TARGETS,
    Case,
    assert_same,
    evaluate,
    evaluate_constants,
    expected,
    finished_ptx,
    load,
    patterns,
    some,
    store,
    ulps,
)

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
    for (case, op, attributes), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
        far = ulps("f32", got, expected(op, case.inputs, "f32", **attributes))
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


@pytest.mark.parametrize("name", TYPES)
def test_constant_operands_give_the_same_results(name):
    rows = [*rounded_cases(name, 256), *plain_cases(name)]
    rows = [(some(case), op, attributes) for case, op, attributes in rows]
    for (case, op, attributes), got in zip(rows, evaluate_constants("sm_90", [row[0] for row in rows])):
        assert_same(case, got, expected(op, case.inputs, case.result, **attributes))


@pytest.mark.parametrize("gpu", TARGETS)
def test_remainders_are_exact_for_quotients_of_any_size(gpu):
    rows = []
    for name in TYPES:
        x, y, _ = operands(name, 512)
        rows.append(Case(f"remf {name}", floats.rem, [x, y], name))
    for case, got in zip(rows, evaluate(gpu, rows)):
        assert_same(case, got, expected("remf", case.inputs, case.result))


def on_two_registers(function, name, which, *arguments):
    """Emits a function on tiles of two registers, of which the first holds the operands or a 1; one of its results."""
    layout = LinearLayout.of({"register": [128], "lane": [1, 2, 4, 8, 16], "warp": [32, 64]}, {"dim0": 256})
    one = constants.from_bits(name, {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000}[name])

    def emit(b, *values):
        tiles = [Tile(layout, name, (v, one) if which == 0 else (one, v)) for v in values]
        return floats.on_tiles(b, function, tiles, *arguments).registers[which]

    return emit


@pytest.mark.parametrize("name", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("gpu", TARGETS)
def test_tiles_computed_in_pairs_have_the_same_results(gpu, name):
    x, y, z = operands(name)
    rounding = {"rounding_mode": "nearest_even", "flush_to_zero": False}
    rows = []
    for which in (0, 1):
        for op, function in (("addf", floats.add), ("subf", floats.sub), ("mulf", floats.mul)):
            rows.append((Case(op, on_two_registers(function, name, which), [x, y], name), op, rounding))
        rows.append((Case("fma", on_two_registers(floats.fma, name, which), [x, y, z], name), "fma", rounding))
        up = {"rounding_mode": "positive_inf", "flush_to_zero": False}
        emit = on_two_registers(floats.add, name, which, "positive_inf")
        rows.append((Case("addf up", emit, [x, y], name), "addf", up))
        for op, function in (("negf", floats.neg), ("absf", floats.abs_)):
            rows.append((Case(op, on_two_registers(function, name, which), [x], name), op, {}))
        for op, function in (("maxf", floats.max_), ("minf", floats.min_)):
            for nan in (False, True):
                emit = on_two_registers(function, name, which, nan)
                attributes = {"propagate_nan": nan, "flush_to_zero": False}
                rows.append((Case(op, emit, [x, y], name), op, attributes))
    for (case, op, attributes), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
        assert_same(case, got, expected(op, case.inputs, name, **attributes))


def test_functions_that_take_no_pairs_are_applied_to_each_register():
    x, y, _ = operands("f16")
    layout = LinearLayout.of({"register": [128], "lane": [1, 2, 4, 8, 16], "warp": [32, 64]}, {"dim0": 256})

    def emit(b, u, v):
        tiles = [Tile(layout, "f16", (v, u)), Tile(layout, "f16", (u, v))]
        less = floats.on_tiles(b, compare.compare_floats, tiles, "less_than", "ordered", element="i1")
        assert less.element == "i1"
        return less.registers[1]

    case = Case("u < v", emit, [x, y], "i1")
    (got,) = evaluate("sm_90", [case])
    attributes = {"comparison_predicate": "less_than", "comparison_ordering": "ordered"}
    assert_same(case, got, expected("cmpf", case.inputs, "i1", **attributes))
    b = KernelBuilder("k", target("sm_90"), 128)
    other = LinearLayout.of({"register": [1], "lane": [2, 4, 8, 16, 32], "warp": [64, 128]}, {"dim0": 256})
    pair = (Value(HALF, "%x"), Value(HALF, "%y"))
    with pytest.raises(ValueError, match="layouts differ"):
        floats.on_tiles(b, floats.add, [Tile(layout, "f16", pair), Tile(other, "f16", pair)])


@pytest.mark.parametrize(
    ("gpu", "name", "instruction"),
    [("sm_80", "f16", "fma.rn.f16x2"), ("sm_80", "bf16", "fma.rn.bf16x2"), ("sm_100", "f32", "fma.rn.f32x2")],
)
def test_chains_of_pairs_stay_packed(gpu, name, instruction):
    layout = LinearLayout.of({"register": [1], "lane": [2, 4, 8, 16, 32], "warp": [64, 128]}, {"dim0": 256})
    b = KernelBuilder("k", target(gpu), 128)
    data = b.add_parameter(POINTER, "align 16")
    place = [b.add(b.mul(b.thread_id(), integer(I32, 2)), integer(I32, i)) for i in (0, 1)]
    tile = Tile(layout, name, tuple(load(b, data, name, p) for p in place))
    for _ in range(3):
        tile = floats.on_tiles(b, floats.fma, [tile, tile, tile], "nearest_even", False)
    for p, register in zip(place, tile.registers):
        store(b, data, name, p, register)
    text = finished_ptx(b, gpu)
    assert text.count(instruction) == 3
    assert text.count("fma.rn") == 3


@pytest.mark.parametrize("gpu", TARGETS)
def test_products_and_sums_are_not_fused(gpu):
    rows = []
    for name in TYPES:
        emit = lambda b, u, v, w: floats.add(b, floats.mul(b, u, v), w)  # noqa: E731
        rows.append(Case("x*y+z", emit, operands(name, 256), name))
    for case, got in zip(rows, evaluate(gpu, rows)):
        x, y, z = case.inputs
        rounded = {"rounding_mode": "nearest_even", "flush_to_zero": False}
        product = (case.result, expected("mulf", [x, y], case.result, **rounded))
        assert_same(case, got, expected("addf", [product, z], case.result, **rounded))


@pytest.mark.parametrize("gpu", TARGETS)
def test_ptxas_may_not_fuse_either(gpu):
    """Instructions without a rounding modifier are those that ptxas contracts."""
    b = KernelBuilder("k", target(gpu), 128)
    data = b.add_parameter(POINTER)
    for name in TYPES:
        x, y = (load(b, data, name, b.add(b.thread_id(), integer(I32, i))) for i in (0, 1))
        store(b, data, name, b.thread_id(), floats.sub(b, floats.mul(b, x, y), floats.add(b, x, y)))
    assert not re.search(r"\b(add|sub|mul)\.(ftz\.)?(f|bf)(16|32|64)", finished_ptx(b, gpu))


@pytest.mark.parametrize(
    ("mode", "division", "root"),
    [
        ("nearest_even", "div.rn.f32", "sqrt.rn.f32"),
        ("positive_inf", "div.rp.f32", "sqrt.rp.f32"),
        ("approx", "div.approx.f32", "sqrt.approx.f32"),
    ],
)
@pytest.mark.parametrize("gpu", TARGETS)
def test_divisions_and_roots_are_as_exact_as_asked_for(gpu, mode, division, root):
    """The simulator computes approximations exactly, so that results do not tell them apart."""
    b = KernelBuilder("k", target(gpu), 128)
    data = b.add_parameter(POINTER)
    x, y = (load(b, data, "f32", b.add(b.thread_id(), integer(I32, i))) for i in (0, 1))
    store(b, data, "f32", b.thread_id(), floats.div(b, x, floats.sqrt(b, y, mode), mode))
    text = finished_ptx(b, gpu)
    assert re.findall(r"\b(?:div|sqrt|rcp)\.[\w.]+", text) == [root, division]


@pytest.mark.parametrize(
    "call",
    [
        lambda b, h: floats.add(b, h, h, "approx"),
        lambda b, h: floats.mul(b, h, h, "nearest_even", True),
        lambda b, h: floats.div(b, h, h, "full"),
        lambda b, h: floats.sqrt(b, h, "nearest_away"),
        lambda b, h: floats.max_(b, h, h, False, True),
        lambda b, h: floats.add(b, Value(I32, "%i"), Value(I32, "%i")),
        lambda b, h: floats.sqrt(b, Value(VectorType(2, HALF), "%p")),
    ],
)
def test_modes_that_a_type_has_not_are_refused(call):
    with pytest.raises(ValueError):
        call(KernelBuilder("k", target("sm_80"), 32), Value(HALF, "%h"))
