# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions and scans of any layout combine every element once, in the order of the index."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_kernels import random_array
from movement import convert_all, kernel_of, layouts, move, room_of

from libtile.codegen import reduce as reductions
from libtile.codegen import scan as scans
from libtile.codegen.llvm_types import IntType
from libtile.codegen.tile import Tile
from libtile.layouts import builders
from libtile.layouts.collectives import is_unit, reduced_layout, unit_layout
from libtile.layouts.linear import LinearLayout
from libtile.lowering.tileas.tile_ops.select_collectives import planned_reduction, planned_scan
from libtile.numerics.elements import STORAGE_BYTES

SHAPES = [(256,), (16, 16), (4, 8, 8), (2, 64), (1, 4)]


def unit_tiles(b, tiles):
    """The tiles in a unit layout, and what their steps are planned for."""
    layout = tiles[0].layout
    unit = layout if is_unit(layout) else unit_layout(layout)
    given = [STORAGE_BYTES[t.element] for t in tiles], kernel_of(b), room_of(b)
    return convert_all(b, tiles, [unit] * len(tiles)), unit, given


def reduce(b, tiles, dim, body, *, commutative=False):
    tiles, unit, given = unit_tiles(b, tiles)
    steps = planned_reduction(unit, dim, commutative, *given)
    return reductions.reduce(b, tiles, dim, steps, body, commutative=commutative)


def scan(b, tiles, dim, body, *, reverse=False):
    layouts = [t.layout for t in tiles]
    tiles, unit, given = unit_tiles(b, tiles)
    made = scans.scan(b, tiles, dim, planned_scan(unit, dim, *given), body, reverse=reverse)
    return convert_all(b, made, layouts)


def affine(b):
    """Composition of functions x -> m x + c modulo 2^32: associative, and the order of the two matters."""

    def body(accumulated, following):
        (m1, c1), (m2, c2) = accumulated, following
        return [b.binary("mul", m1, m2), b.binary("add", b.binary("mul", c1, m2), c2)]

    return body


def affine_scan(m, c, axis, reverse=False):
    m, c = (np.flip(x, axis) if reverse else x for x in (m, c))
    m, c = np.moveaxis(m, axis, 0).copy(), np.moveaxis(c, axis, 0).copy()
    with np.errstate(over="ignore"):
        for i in range(1, len(m)):
            c[i] = c[i - 1] * m[i] + c[i]
            m[i] = m[i - 1] * m[i]
    m, c = np.moveaxis(m, 0, axis), np.moveaxis(c, 0, axis)
    return tuple(np.flip(x, axis) if reverse else x for x in (m, c))


def pair(shape, seed=0):
    return [random_array("i32", shape, seed + i) for i in range(2)]


CASES = st.sampled_from(SHAPES).flatmap(
    lambda shape: st.tuples(layouts(shape) | layouts(shape, units=True), st.integers(0, len(shape) - 1))
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(CASES)
def test_reductions_combine_in_order(case):
    layout, dim = case
    m, c = pair(layout.shape)
    got, _ = move(
        [("i32", m, layout), ("i32", c, layout)], lambda b, x, y: reduce(b, [x, y], dim, affine(b)), gpu="sm_80"
    )
    for out, expected in zip(got, affine_scan(m, c, dim)):
        np.testing.assert_array_equal(out, np.take(expected, -1, dim))


@settings(max_examples=30, deadline=None)
@given(CASES, st.booleans())
def test_scans_combine_in_order(case, reverse):
    layout, dim = case
    m, c = pair(layout.shape)
    got, _ = move(
        [("i32", m, layout), ("i32", c, layout)],
        lambda b, x, y: scan(b, [x, y], dim, affine(b), reverse=reverse),
    )
    for out, expected in zip(got, affine_scan(m, c, dim, reverse)):
        np.testing.assert_array_equal(out, expected)


def add(b):
    return lambda x, y: [b.binary("add" if isinstance(x[0].type, IntType) else "fadd", x[0], y[0])]


ROWS = builders.blocked((16, 128), (1, 4), (1, 32), (4, 1), (1, 0))


def executed(done, name):
    return sum(n for text, n in done.counters.instructions.items() if text.startswith(name))


@settings(max_examples=20, deadline=None)
@given(CASES)
def test_a_commutative_reduction_takes_any_order(case):
    layout, dim = case
    data = random_array("i32", layout.shape)
    (out,), _ = move([("i32", data, layout)], lambda b, x: reduce(b, [x], dim, add(b), commutative=True))
    np.testing.assert_array_equal(out, data.sum(axis=dim, dtype=np.int32))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
@pytest.mark.parametrize("element", ["i8", "i64", "f16", "f64"])
def test_every_width_is_reduced_and_scanned(element, gpu):
    data = np.random.default_rng(0).integers(-3, 4, (16, 128)).astype(random_array(element, 1).dtype)

    def build(b, x):
        return [*reduce(b, [x], 1, add(b)), *scan(b, [x], 1, add(b)), *scan(b, [x], 0, add(b), reverse=True)]

    (total, along, down), _ = move([(element, data, ROWS)], build, gpu=gpu)
    np.testing.assert_array_equal(total, data.sum(axis=1, dtype=data.dtype))
    np.testing.assert_array_equal(along, data.cumsum(axis=1, dtype=data.dtype))
    np.testing.assert_array_equal(down, np.flip(np.flip(data, 0).cumsum(axis=0, dtype=data.dtype), 0))


def test_booleans_are_reduced():
    data = random_array("i1", (16, 128))
    (out,), _ = move([("i1", data, ROWS)], lambda b, x: reduce(b, [x], 1, lambda p, q: [b.and_(p[0], q[0])]))
    np.testing.assert_array_equal(out, data.all(axis=1))


def test_a_row_within_a_warp_needs_no_shared_memory():
    data = random_array("f32", (16, 128))
    (out,), done = move([("f32", data, ROWS)], lambda b, x: reduce(b, [x], 1, add(b), commutative=True))
    np.testing.assert_allclose(out, data.sum(axis=1), rtol=1e-4, atol=1e-4)
    assert done.counters.barriers == 0
    assert executed(done, "shfl") == 4 * 4 * 5  # 4 warps of 4 rows, 5 steps each


def test_a_tile_across_warps_meets_once():
    layout = builders.blocked((1024,), (4,), (32,), (4,), (0,))
    data = random_array("i32", (1024,))
    (out,), done = move([("i32", data, layout)], lambda b, x: reduce(b, [x], 0, add(b)))
    assert out == data.sum(dtype=np.int32)
    assert done.counters.barriers == 1
    (out,), done = move([("i32", data, layout)], lambda b, x: scan(b, [x], 0, add(b)))
    np.testing.assert_array_equal(out, data.cumsum(dtype=np.int32))
    assert done.counters.barriers == 1
    assert done.counters.bank_conflicts == 0


def test_the_result_has_the_reduced_layout_and_all_holders_the_same():
    layout = builders.blocked((16, 128), (1, 4), (4, 8), (2, 2), (1, 0))
    data = random_array("f32", (16, 128))
    found = []

    def build(b, x):
        (result,) = reduce(b, [x], 1, add(b))
        found.append(result.layout)
        # Every lane writes its own copy: lane and warp become the index.
        threads = LinearLayout.of(
            {"register": [(1, 0)], "lane": [(0, 1 << i) for i in range(5)], "warp": [(0, 32), (0, 64)]},
            {"dim0": 2, "dim1": 128},
        )
        return Tile(threads, "f32", result.registers)

    (copies,), _ = move([("f32", data, layout)], build)
    assert found == [reduced_layout(layout, 1)]
    expected = data.sum(axis=1)
    for thread in range(128):
        for r in range(2):
            row = found[0](register=r, lane=thread % 32, warp=thread // 32)["dim0"]
            np.testing.assert_allclose(copies[r, thread], expected[row], rtol=1e-4, atol=1e-4)
    assert len(np.unique(copies)) == 16


@settings(max_examples=50, deadline=None)
@given(layouts((8, 16)))
def test_the_unit_layout_of_a_layout_is_one_and_holds_everything(layout):
    unit = unit_layout(layout)
    assert is_unit(unit) and unit.is_surjective
    if is_unit(layout):
        assert [v for v in layout.columns() if v] == [v for v in unit.columns() if v]
