# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of kernels that ask for several blocks of a multiprocessor, each with few registers and little memory."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_specialized import operands, run_tile, tile_gemm

import libtile


@pytest.mark.parametrize(
    ("m", "n", "asked", "columns"), [(64, 256, 2, 128), (64, 128, 2, 128), (64, 128, 3, 64), (64, 64, 4, 64)]
)
def test_an_instruction_has_the_registers_that_threads_are_launched_with(m, n, asked, columns):
    """ptxas refuses one whose result does not fit these, whatever the agents give each other."""
    made = libtile.compile(libtile.parse(tile_gemm(m, n, hints=f"occupancy = {asked}")), gpu_name="sm_90")
    assert {*re.findall(r"wgmma\.mma_async\S*\.m64n(\d+)k", made.ptx)} == {str(columns)}
    assert made.kernels["gemm"].spills == 0


@pytest.mark.parametrize(("n", "asked"), [(256, 2), (128, 3)])
def test_narrower_instructions_give_what_numpy_gives(n, asked):
    run_tile(tile_gemm(64, n, hints=f"occupancy = {asked}"), 64, n, 200, (64, n), order=1)


@pytest.mark.parametrize("order", [None, 1, 2])
@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
def test_two_tiles_of_a_product_share_a_ring_that_has_a_stage_for_each(gpu_name, order):
    """Eight blocks leave 28 KiB of memory to each, of 16 KiB that both tiles take."""
    text = libtile.parse(tile_gemm(64, 64, hints="occupancy = 8"))
    if order is None:
        assert "async.dot" in libtile.compile(text, gpu_name=gpu_name, emit="tileas").tileas
    a, b, c, wanted = operands(100, 72, 328)
    libtile.run(
        text, grid=(2, 2), args=[a, b, c, 100, 72, 328], backend="simulator", gpu_name=gpu_name, check="full",
        block_order=order,
    )  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)
