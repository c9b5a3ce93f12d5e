# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops with one product that add something computed of it, as fp8 GEMMs with factors for each block along k do."""

import re

import ml_dtypes
import numpy as np
import pytest
from test_specialized import NOT_SPECIALIZED, tile_gemm

import libtile
from libtile.backend.cubin import read_cubin

E4M3 = ml_dtypes.float8_e4m3fn


def scaled_steps(m=128, n=128, k=128, element="f8E4M3FN", **options):
    """acc += (i + 1) * (a_i @ b_i): step i of k elements counts i + 1 times."""
    text = tile_gemm(m, n, k, element=element, transposed=True, **options)
    (product,) = re.findall(r"%d = mmaf %x, %y, %acc.*", text)
    tile, row = f"tile<{m}x{n}xf32>", "tile<1x1xf32>"
    return text.replace(
        product,
        f"""{product.replace("%d =", "%p =").replace("%acc", "%none")}
      %i1 = addi %i, %one : tile<i32>
      %f0 = itof %i1 signed : tile<i32> -> tile<f32>
      %f1 = reshape %f0 : tile<f32> -> {row}
      %f2 = broadcast %f1 : {row} -> {tile}
      %q = mulf %p, %f2 : {tile}
      %d = addf %acc, %q : {tile}""",
    )


def reason(text):
    made = libtile.compile(libtile.parse(text), gpu_name="sm_90", launch_abi="simt", emit="tileas")
    said = re.search(rf'{NOT_SPECIALIZED} = "([^"]*)"', made.tileas)
    return said[1] if said else None


@pytest.mark.parametrize(
    ("element", "dtype", "step", "m", "n", "k", "seed"),
    [
        ("f8E4M3FN", E4M3, 128, 136, 144, 400, 1),  # ragged edges and a tail along k
        ("f16", np.float16, 64, 128, 128, 192, 2),
        pytest.param("f8E4M3FN", E4M3, 64, 72, 48, 64, 3, marks=pytest.mark.slow),  # one step
        pytest.param("f16", np.float16, 64, 128, 128, 0, 4, marks=pytest.mark.slow),  # none
    ],
)
def test_each_step_is_computed_by_itself(element, dtype, step, m, n, k, seed):
    text = scaled_steps(k=step, element=element)
    assert reason(text) is None
    rng = np.random.default_rng(seed)
    a, b = ((rng.standard_normal(shape) / 2).astype(dtype) for shape in ((m, k), (n, k)))
    c, factors = np.full((m, n), 7, np.float32), 1 + np.arange(k) // step
    libtile.run(
        libtile.parse(text), "gemm", grid=(-(-m // 128), -(-n // 128), 1), args=[a, b, c, m, n, k],
        backend="simulator", gpu_name="sm_90", check="full", block_order=seed,
    )  # fmt: skip
    np.testing.assert_allclose(c, (a.astype(np.float32) * factors) @ b.astype(np.float32).T, atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_each_step_is_right_in_every_schedule(seed):
    test_each_step_is_computed_by_itself("f8E4M3FN", E4M3, 128, 136, 144, 400, seed)


def test_code_of_an_fp8_product_with_factors():
    made = libtile.compile(libtile.parse(scaled_steps()), gpu_name="sm_90")
    assert "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3" in made.ptx
    kernel = read_cubin(made.cubin).kernels["gemm"]
    assert (kernel.frame, kernel.registers) == (0, 168)


def test_sums_of_more_than_128_products_of_8_bits_stay_in_f32():
    assert reason(scaled_steps(64, 64, 256)).endswith("for more than 128 of them")
