# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of tiles are numpy's, for every element type and shape, by tensor cores where the target has them."""

import ml_dtypes
import numpy as np
import pytest
from memory_kernels import DTYPES, kernel, pointers, ptx_of, put, random_array
from movement import convert_layout, move
from products import dot, dot_scaled

from libtile.atoms.mma_layouts import dot_layouts
from libtile.backend import ptxas
from libtile.codegen.llvm_types import GLOBAL_POINTER
from libtile.codegen.memory import load
from libtile.layouts import builders
from libtile.support.diagnostics import LoweringError
from libtile.targets import target, targets

TARGETS = ("sm_80", "sm_90", "sm_120")
DTYPES.setdefault("tf32", np.float32)
DTYPES.setdefault("f8E8M0FNU", ml_dtypes.float8_e8m0fnu)


def rows(shape, threads=128):
    rank, warps = len(shape), threads // 32
    per, lanes, on_warps = [1] * (rank - 1) + [4], [1] * (rank - 2) + [8, 4], [1] * (rank - 2) + [warps, 1]
    return builders.blocked(shape, per, lanes, on_warps, list(reversed(range(rank))))


def numbers(element, shape, seed, signed=True):
    """Small numbers, so that sums of products are exact in every accumulator."""
    rng = np.random.default_rng(seed)
    if element == "i8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return rng.integers(-2, 3, shape).astype(np.float32).astype(DTYPES[element])


def product(elements, shape, gpu, threads=128, signed=(True, True)):
    """Compute in the simulator and in numpy; returns the counters."""
    a_element, b_element, acc_element = elements
    *batch, m, n, k = shape
    a = numbers(a_element, (*batch, m, k), 0)
    b = numbers(b_element, (*batch, k, n), 1)
    c = (
        random_array(acc_element, (*batch, m, n), 2)
        if acc_element == "i32"
        else numbers(acc_element, (*batch, m, n), 2)
    )
    arrays = [(e, x, rows(x.shape, threads)) for e, x in zip(elements, (a, b, c))]
    (out,), done = move(
        arrays,
        lambda builder, x, y, z: dot(builder, x, y, z, signed_a=signed[0], signed_b=signed[1]),
        gpu=gpu,
        threads=threads,
    )
    if acc_element == "i32":
        left, right = (x.astype(np.int64) if s else x.view(np.uint8).astype(np.int64) for x, s in zip((a, b), signed))
        expected = (left @ right + c).astype(np.int32)
    else:
        expected = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    np.testing.assert_array_equal(out.astype(np.float64), expected.astype(np.float64))
    return done.counters


def count(counters, prefix):
    return sum(n for name, n in counters.instructions.items() if name.startswith(prefix))


TYPES = [
    ("f16", "f16", "f32"),
    ("f16", "f16", "f16"),
    ("bf16", "bf16", "f32"),
    ("tf32", "tf32", "f32"),
    ("f64", "f64", "f64"),
    ("i8", "i8", "i32"),
    ("f8E4M3FN", "f8E5M2", "f32"),
    ("f8E4M3FN", "f8E4M3FN", "f16"),
]


@pytest.mark.parametrize("gpu", TARGETS)
@pytest.mark.parametrize("elements", TYPES, ids=" ".join)
@pytest.mark.parametrize("shape", [(64, 32, 32), (16, 64, 64)], ids=str)
def test_products_use_tensor_cores(elements, shape, gpu):
    counters = product(elements, shape, gpu)
    assert count(counters, "mma.sync")
    assert not count(counters, "fma.rn.f32") and not count(counters, "fma.rn.f64")


SMALL = [(1, 1, 1), (2, 1, 4), (1, 8, 2), (4, 4, 4), (8, 8, 8), (32, 2, 1), (16, 8, 128), (2, 64, 16)]


@pytest.mark.parametrize("elements", [*TYPES, ("f32", "f32", "f32")], ids=" ".join)
@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_small_tiles_are_padded(elements, shape):
    product(elements, shape, "sm_90" if sum(shape) % 2 else "sm_80")


@pytest.mark.parametrize("elements", [TYPES[0], TYPES[4], TYPES[5], ("f32", "f32", "f32")], ids=" ".join)
@pytest.mark.parametrize("shape", [(2, 32, 16, 16), (16, 4, 8, 8), (1, 16, 16, 64)], ids=str)
def test_batches_are_products_of_their_own(elements, shape):
    product(elements, shape, "sm_80")


@pytest.mark.parametrize("threads", [32, 256])
@pytest.mark.parametrize("elements", [TYPES[0], TYPES[3], ("f32", "f32", "f32")], ids=" ".join)
def test_any_number_of_warps_computes_a_product(elements, threads):
    product(elements, (64, 64, 32), "sm_90", threads)


@pytest.mark.parametrize("signed", [(True, False), (False, True), (False, False)])
def test_bytes_may_be_unsigned(signed):
    product(("i8", "i8", "i32"), (32, 16, 64), "sm_80", signed=signed)


def test_what_pads_a_short_depth_does_not_count():
    """Lanes beyond the depth hold copies; an infinity among them must meet zeros on neither side."""
    a, b = np.full((16, 2), np.inf, np.float16), np.full((2, 8), 1, np.float16)
    arrays = [
        ("f16", a, rows(a.shape)),
        ("f16", b, rows(b.shape)),
        ("f32", np.zeros((16, 8), np.float32), rows((16, 8))),
    ]
    (out,), _ = move(arrays, dot)
    assert np.isposinf(out).all()


@pytest.mark.parametrize("shape", [(64, 64, 32), (128, 32, 4), (8, 8, 64)], ids=str)
def test_f32_is_multiplied_exactly(shape):
    rng = np.random.default_rng(0)
    m, n, k = shape
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    c = rng.standard_normal((m, n)).astype(np.float32)
    (out,), done = move([("f32", x, rows(x.shape)) for x in (a, b, c)], dot, gpu="sm_80")
    expected = c.copy()
    for i in range(k):  # one rounding a step: a fused multiply-add in the order of k
        expected = (a[:, i : i + 1].astype(np.float64) * b[i].astype(np.float64) + expected).astype(np.float32)
    np.testing.assert_allclose(out, expected, rtol=2e-7, atol=2e-7)
    assert not count(done.counters, "mma")
    assert count(done.counters, "fma.rn.f32") == m * n * k // 32 or m * n < 128


@pytest.mark.slow
def test_large_operands_go_through_shared_memory_in_slices():
    m, n, k = 64, 64, 256
    sizes = []

    def build(b, x, y, z):
        result = dot(b, x, y, z)
        sizes.append(b.exchanges.most)
        return result

    a, b, c = (numbers("f32", s, i) for i, s in enumerate([(m, k), (k, n), (m, n)]))
    (out,), _ = move([("f32", x, rows(x.shape)) for x in (a, b, c)], build, gpu="sm_80")
    np.testing.assert_array_equal(out, a @ b + c)
    assert sizes[0] <= 49152 < 4 * k * (m + n)


def test_operands_from_rows_meet_no_bank_conflict_and_come_by_ldmatrix():
    layout = builders.blocked((64, 64), (1, 8), (4, 8), (4, 1), (1, 0))
    a, b, c = (numbers(e, (64, 64), i) for i, e in enumerate(("f16", "f16", "f32")))
    (out,), done = move([("f16", a, layout), ("f16", b, layout), ("f32", c, layout)], dot)
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32) + c)
    assert done.counters.bank_conflicts == 0
    assert count(done.counters, "ldmatrix.sync.aligned.m8n8.x4.trans") == count(done.counters, "ldmatrix") // 2 > 0
    assert count(done.counters, "mma.sync") == (64 // 16) * (64 // 8) * (64 // 16)


def test_a_result_is_the_next_left_operand_within_its_thread():
    shape = (64, 64)
    first = dot_layouts((64, 32), (32, 64), "f16", "f16", "f32", target("sm_80"), 4, whole_rows=True)
    second = dot_layouts(shape, (64, 16), "f16", "f16", "f32", target("sm_80"), 4, whole_rows=True)
    data = random_array("f16", shape)
    (_,), done = move([("f16", data, first.c)], lambda b, t: convert_layout(b, t, second.a))
    assert not done.counters.barriers and not count(done.counters, "shfl")


def test_warps_share_a_result_without_idling():
    found = dot_layouts((128, 64), (64, 128), "f16", "f16", "f32", target("sm_80"), 4)
    assert found.grid == (1, 2, 2)
    assert dot_layouts((16, 64), (64, 128), "f16", "f16", "f32", target("sm_80"), 4).grid == (1, 1, 4)
    assert dot_layouts((4, 16, 64), (4, 64, 8), "f16", "f16", "f32", target("sm_80"), 4).grid == (4, 1, 1)


@pytest.mark.parametrize("elements", [("i8", "i8", "f32"), ("f16", "f16", "i32"), ("i4", "i4", "i32")], ids=" ".join)
def test_types_without_a_product_are_named(elements):
    with pytest.raises(LoweringError, match=f"{elements[0]} and {elements[1]} into {elements[2]} on sm_80"):
        dot_layouts((16, 16), (16, 16), *elements, target("sm_80"), 4)


def test_the_deepest_f64_atom_is_used_where_there_is_one():
    assert dot_layouts((64, 16), (16, 64), "f64", "f64", "f64", target("sm_80"), 4).atom.m == 8
    found = dot_layouts((64, 16), (16, 64), "f64", "f64", "f64", target("sm_90"), 4).atom
    assert (found.m, found.k) == (16, 16)


def test_narrow_floats_have_atoms_from_89_on_and_are_f16_before():
    def of(gpu):
        return dot_layouts((64, 64), (64, 64), "f8E4M3FN", "f8E5M2", "f32", target(gpu), 4)

    assert (of("sm_89").atom.a, of("sm_89").atom.b, of("sm_89").atom.k) == ("e4m3", "e5m2", 32)
    assert of("sm_80").atom.a == of("sm_80").atom.b == "f16"


@pytest.mark.parametrize("gpu", ["sm_80", "sm_100"])
@pytest.mark.parametrize(
    ("element", "scale"), [("f8E4M3FN", "f8E8M0FNU"), ("f8E5M2", "f8E8M0FNU"), ("f8E4M3FN", "f8E4M3FN")]
)
def test_blocks_along_the_depth_have_factors(element, scale, gpu):
    m, n, k, block = 32, 16, 64, 16
    a, b = numbers(element, (m, k), 0), numbers(element, (k, n), 1)
    c = numbers("f32", (m, n), 2)
    factors = [
        np.exp2(np.random.default_rng(i).integers(-3, 4, s)).astype(DTYPES[scale])
        for i, s in enumerate([(m, k // block), (k // block, n)])
    ]
    given = [(element, a), (element, b), ("f32", c), (scale, factors[0]), (scale, factors[1])]
    (out,), _ = move([(e, x, rows(x.shape)) for e, x in given], dot_scaled, gpu=gpu)
    wide = [x.astype(np.float64) for x in (a, b, c, *factors)]
    expected = (wide[0] * wide[3].repeat(block, 1)) @ (wide[1] * wide[4].repeat(block, 0)) + wide[2]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2"])
def test_bytes_wait_four_to_a_register_and_are_converted_in_pairs(element):
    """Before sm_89, which has no conversions from these formats."""
    b, bases = kernel("sm_80", 128, 5)
    shapes = {0: (64, 64), 1: (64, 64), 2: (64, 64), 3: (64, 2), 4: (2, 64)}
    elements = [element, element, "f32", "f8E8M0FNU", "f8E8M0FNU"]
    tiles = [load(b, pointers(b, p, rows(shapes[i]), e), e) for i, (p, e) in enumerate(zip(bases, elements))]
    put(b, b.add_parameter(GLOBAL_POINTER), dot_scaled(b, *tiles))
    ptx = ptx_of(b)
    words = 2 * 64 * 64 // 128 // 4 * 2  # each operand is held by two rows or columns of warps
    assert ptx.count("bytes in") == words
    assert ptx.count("prmt.b32") >= 2 * words, "a word gives two pairs"
    assert "cvt.rn.f16x2.f32" not in ptx


FIRST = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
"""The first target with each set of atoms."""


@pytest.mark.parametrize(
    "gpu", [pytest.param(t, marks=() if t in FIRST else pytest.mark.slow) for t in sorted(targets())]
)
def test_every_atom_assembles_for_its_target(gpu):
    shapes = (64, 32), (32, 64), (64, 64)
    b, bases = kernel(gpu, 128, 3)
    for elements in TYPES:
        tiles = [load(b, pointers(b, p, rows(s), e), e) for p, s, e in zip(bases, shapes, elements)]
        put(b, b.add_parameter(GLOBAL_POINTER), dot(b, *tiles))
    report = ptxas.assemble(ptx_of(b), target(gpu).ptx_target).kernels["k"]
    assert 0 < report.shared <= 49152
