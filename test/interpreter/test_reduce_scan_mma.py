# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions, scans and matrix products."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from interpreter.helpers import evaluate
from interpreter.programs import pointers, run_body
from libtile.interpreter.formats import ELEMENTS


def over_rows(op: str, rows: int, columns: int, dim: int, elem: str, combine: str, identity: str, data: np.ndarray,
              extra: str = "", **options) -> np.ndarray:  # fmt: skip
    """Load a matrix, reduce or scan it along `dim` with a one-op body, and give what it yields."""
    kept = (rows, columns) if op == "scan" else (columns,) if dim == 0 else (rows,)
    shape = "x".join(map(str, kept))
    count = int(np.prod(kept))
    order = f" reverse={extra}" if op == "scan" else ""
    out = np.zeros(count, ELEMENTS[elem].dtype)
    body = "\n".join([
        pointers("x", rows * columns, elem, "p"),
        pointers("out", count, elem, "q"),
        f"%l, %t = load_ptr_tko weak %p : tile<{rows * columns}xptr<{elem}>> -> tile<{rows * columns}x{elem}>, token",
        f"%m = reshape %l : tile<{rows * columns}x{elem}> -> tile<{rows}x{columns}x{elem}>",
        f"%r = {op} %m dim={dim}{order} identities=[{identity} : {elem}] : tile<{rows}x{columns}x{elem}> "
        f"-> tile<{shape}x{elem}> (%a: tile<{elem}>, %b: tile<{elem}>) {{",
        f"%c = {combine} : tile<{elem}>",
        f"yield %c : tile<{elem}>",
        "}",
        f"%f = reshape %r : tile<{shape}x{elem}> -> tile<{count}x{elem}>",
        f"store_ptr_tko weak %q, %f : tile<{count}xptr<{elem}>>, tile<{count}x{elem}> -> token",
    ])  # fmt: skip
    run_body(f"%x: tile<ptr<{elem}>>, %out: tile<ptr<{elem}>>", body, [data, out], **options)
    return out.reshape(kept)


@pytest.mark.parametrize("check", ["basic", "full"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("combine, identity, function", [
    ("addi %a, %b", "0", np.add), ("maxi %a, %b signed", "-2147483648", np.maximum),
    ("xori %a, %b", "0", np.bitwise_xor), ("muli %a, %b", "1", np.multiply),
])  # fmt: skip
def test_integer_reduction_combines_all_elements(combine, identity, function, dim, check):
    data = np.random.default_rng(0).integers(-100, 100, (8, 16)).astype(np.int32)
    got = over_rows("reduce", 8, 16, dim, "i32", combine, identity, data, check=check)
    assert np.array_equal(got, function.reduce(data, axis=dim).astype(np.int32))


@pytest.mark.parametrize("elem", ["f16", "bf16", "f32", "f64"])
def test_float_sums_are_near_the_exact_one(elem):
    data = np.random.default_rng(1).uniform(0, 1, (4, 1024)).astype(ELEMENTS[elem].dtype)
    got = over_rows("reduce", 4, 1024, 1, elem, "addf %a, %b rounding<nearest_even>", "0.0", data)
    want = data.astype(np.float64).sum(1)
    # A balanced tree of ten levels: half an ulp each.
    eps = float(ml_dtypes.finfo(ELEMENTS[elem].dtype).eps)
    assert np.all(np.abs(got.astype(np.float64) - want) <= 10 * eps * want)


def test_a_reduction_that_is_not_commutative_keeps_the_order():
    # f(a, b) = b keeps the last element: associative, not commutative.
    data = np.arange(32, dtype=np.int32).reshape(2, 16)
    assert over_rows("reduce", 2, 16, 1, "i32", "ori %b, %b", "0", data).tolist() == [15, 31]
    assert over_rows("reduce", 2, 16, 1, "i32", "ori %a, %a", "0", data).tolist() == [0, 16]


@pytest.mark.parametrize("check", ["basic", "full"])
@pytest.mark.parametrize("reverse", ["false", "true"])
@pytest.mark.parametrize("dim", [0, 1])
def test_scan_is_an_inclusive_prefix(dim, reverse, check):
    data = np.random.default_rng(2).integers(-9, 9, (4, 8)).astype(np.int32)
    got = over_rows("scan", 4, 8, dim, "i32", "addi %a, %b", "0", data, reverse, check=check)
    flipped = np.flip(data, dim) if reverse == "true" else data
    want = np.cumsum(flipped, axis=dim)
    assert np.array_equal(got, np.flip(want, dim) if reverse == "true" else want)


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_scan_starts_with_an_element_and_gives_its_body_the_accumulated_value_first(reverse):
    # a - b is not associative, so the order of evaluation shows: (x0 - x1) - x2 ...; 100 is not combined with it.
    data = np.array([[1, 2, 3, 4]], np.int32)
    got = over_rows("scan", 1, 4, 1, "i32", "subi %a, %b", "100", data, reverse)
    ordered = data[0][::-1] if reverse == "true" else data[0]
    want = 2 * ordered[0] - np.cumsum(ordered)
    assert got[0].tolist() == (want[::-1] if reverse == "true" else want).tolist()


def test_a_running_sum_keeps_the_sign_of_a_zero_at_its_start():
    got = over_rows("scan", 1, 4, 1, "f32", "addf %a, %b", "0.0", np.array([[-0.0, -0.0, 1, -1]], np.float32), "false")
    assert np.signbit(got[0]).tolist() == [True, True, False, False]


ARGMAX = """
%i = iota : tile<16xi32>
%v, %k = reduce %l, %i dim=0 identities=[0xFF800000 : f32, 0 : i32] : tile<16xf32>, tile<16xi32> -> tile<f32>, tile<i32>
(%a: tile<f32>, %b: tile<f32>, %ai: tile<i32>, %bi: tile<i32>) {
  %more = cmpf greater_than ordered %b, %a : tile<f32> -> tile<i1>
  %value = select %more, %b, %a : tile<i1>, tile<f32>
  %index = select %more, %bi, %ai : tile<i1>, tile<i32>
  yield %value, %index : tile<f32>, tile<i32>
}
store_ptr_tko weak %out, %k : tile<ptr<i32>>, tile<i32> -> token
"""


def test_a_reduction_over_several_operands_pairs_their_arguments():
    data = np.random.default_rng(3).permutation(16).astype(np.float32)
    out = np.zeros(1, np.int32)
    load = "%l, %t = load_ptr_tko weak %p : tile<16xptr<f32>> -> tile<16xf32>, token\n"
    run_body("%x: tile<ptr<f32>>, %out: tile<ptr<i32>>", pointers("x", 16, "f32") + "\n" + load + ARGMAX, [data, out])
    assert out[0] == data.argmax()


def test_a_body_with_a_branch_runs_element_by_element():
    data = np.array([[3, -4, 5, -6]], np.int32)
    branch = """if %neg -> (tile<i32>) {
      yield %a : tile<i32>
    } else {
      %s = addi %a, %b : tile<i32>
      yield %s : tile<i32>
    }
    %d = ori %c, %c"""
    # The helper's body is one op: give it a comparison first, and a branch on it.
    body = (
        pointers("x", 4, "i32")
        + f"""
    %l, %t = load_ptr_tko weak %p : tile<4xptr<i32>> -> tile<4xi32>, token
    %r = scan %l dim=0 reverse=false identities=[0 : i32] : tile<4xi32> -> tile<4xi32> (%a: tile<i32>, %b: tile<i32>) {{
      %zero = constant <i32: 0> : tile<i32>
      %neg = cmpi less_than %b, %zero, signed : tile<i32> -> tile<i1>
      %c = {branch} : tile<i32>
      yield %d : tile<i32>
    }}
    {pointers("out", 4, "i32", "q")}
    store_ptr_tko weak %q, %r : tile<4xptr<i32>>, tile<4xi32> -> token
    """
    )
    out = np.zeros(4, np.int32)
    run_body("%x: tile<ptr<i32>>, %out: tile<ptr<i32>>", body, [data, out])
    assert out.tolist() == [3, 3, 8, 8]


# -- matrix products ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("source, target", [
    ("f16", "f16"), ("f16", "f32"), ("bf16", "f32"), ("tf32", "f32"), ("f32", "f32"), ("f64", "f64"),
    ("f8E4M3FN", "f16"), ("f8E4M3FN", "f32"), ("f8E5M2", "f16"), ("f8E5M2", "f32"),
])  # fmt: skip
def test_mmaf_accumulates_a_matrix_product(source, target, batch):
    rng = np.random.default_rng(4)
    # Small whole numbers: every product and sum is exact in every type.
    lhs, rhs = rng.integers(-4, 5, (*batch, 8, 16)), rng.integers(-4, 5, (*batch, 16, 4))
    acc = rng.integers(-9, 9, (*batch, 8, 4))
    operands = {"lhs": (lhs, source), "rhs": (rhs, source), "acc": (acc, target)}
    got = evaluate("mmaf", operands, [(acc.shape, target)])
    assert got.dtype == ELEMENTS[target].dtype
    assert np.array_equal(got.astype(np.float64), lhs @ rhs + acc)


@pytest.mark.parametrize("source", ["f16", "bf16", "f8E4M3FN", "f32"])
def test_mmaf_into_f32_has_no_more_error_than_one_rounding(source):
    rng = np.random.default_rng(5)
    lhs, rhs = (rng.standard_normal(s).astype(ELEMENTS[source].dtype) for s in ((16, 64), (64, 16)))
    acc = rng.standard_normal((16, 16)).astype(np.float32)
    got = evaluate("mmaf", {"lhs": (lhs, source), "rhs": (rhs, source), "acc": (acc, "f32")}, [((16, 16), "f32")])
    want = lhs.astype(np.float64) @ rhs.astype(np.float64) + acc
    assert np.all(np.abs(got - want) <= np.spacing(np.abs(want).astype(np.float32)))


@pytest.mark.parametrize("left", ["signed", "unsigned"])
@pytest.mark.parametrize("right", ["signed", "unsigned"])
def test_mmai_reads_its_operands_as_asked_and_wraps(left, right):
    rng = np.random.default_rng(6)
    lhs, rhs = (rng.integers(-128, 128, s).astype(np.int8) for s in ((4, 64), (64, 8)))
    acc = np.full((4, 8), 2**31 - 1, np.int32)
    attributes = {"signedness_lhs": left, "signedness_rhs": right}
    got = evaluate("mmai", {"lhs": (lhs, "i8"), "rhs": (rhs, "i8"), "acc": (acc, "i32")}, [((4, 8), "i32")], attributes)

    def read(x, how):
        return (x if how == "signed" else x.view(np.uint8)).astype(np.int64)

    assert np.array_equal(got, (read(lhs, left) @ read(rhs, right) + acc).astype(np.int32))


@pytest.mark.parametrize("block", [16, 32])
@pytest.mark.parametrize("source, scale", [
    ("f8E4M3FN", "f8E8M0FNU"), ("f8E5M2", "f8E8M0FNU"), ("f4E2M1FN", "f8E8M0FNU"), ("f4E2M1FN", "f8E4M3FN"),
    ("f4E2M1FN", "fnv8E5M3FNU"),
])  # fmt: skip
def test_mmaf_scaled_scales_blocks_along_k(source, scale, block):
    rng = np.random.default_rng(7)
    lhs, rhs = rng.integers(-3, 4, (4, 64)), rng.integers(-3, 4, (64, 8))
    left, right = 2.0 ** rng.integers(-2, 3, (4, 64 // block)), 2.0 ** rng.integers(-2, 3, (64 // block, 8))
    acc = rng.integers(-9, 9, (4, 8))
    operands = {"lhs": (lhs, source), "rhs": (rhs, source), "acc": (acc, "f32"), "lhs_scale": (left, scale),
                "rhs_scale": (right, scale)}  # fmt: skip
    got = evaluate("mmaf_scaled", operands, [((4, 8), "f32")])
    want = (lhs * np.repeat(left, block, 1)) @ (rhs * np.repeat(right, block, 0)) + acc
    assert np.array_equal(got, want)
