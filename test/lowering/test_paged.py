# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products whose right operand lies in pages: the number of a step's page is found by division, and loaded, by who
copies its tiles as well."""

import cuda.tile as ct
import numpy as np
import pytest

import libtile
from examples.signatures import array, scalar
from kernels.corpus import run_frontend
from kernels.model import EXACT, Kernel

Constant = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
TILE = TM, TN, TK = 64, 32, 32


@ct.kernel
def paged(a, b, pages, e, steps, tm: Constant, tn: Constant, tk: Constant):
    """e = a b, where rows of b lie in pages of some steps each."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        page = ct.gather(pages, k // steps)
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
        right = ct.load(b, (page, k % steps, column), (1, tk, tn), padding_mode=ZERO)
        total = ct.mma(left, right.reshape((tk, tn)), total)
    ct.store(e, (row, column), total)


def bytecode(gpu_name: str) -> bytes:
    given = [
        array(type_, rank, multiple_of=16, shape_divisible_by=(1,) * rank)
        for type_, rank in ((ct.float16, 2), (ct.float16, 3), (ct.int32, 1), (ct.float32, 2))
    ]
    return run_frontend(Kernel("paged", paged, (*given, scalar(ct.int32), *TILE), None, None, EXACT), "13.3", gpu_name)


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100", "sm_120"])
def test_a_page_is_found_by_division_by_who_copies_it(gpu_name):
    code = libtile.compile(bytecode(gpu_name), gpu_name=gpu_name, emit="tileas").tileas
    assert "not_specialized" not in code and "agent_switch" in code
    m, n, k, steps = 72, 48, 208, 3
    rng = np.random.default_rng(1)
    left = rng.integers(-3, 4, (m, k)).astype(np.float16)
    held = rng.integers(-3, 4, (5, steps * TK, n)).astype(np.float16)
    pages = np.array([3, 0, 4], np.int32)
    result = np.full((m, n), 7, np.float32)
    args = [v for x in (left, held, pages, result) for v in (x, *x.shape, *(s // x.itemsize for s in x.strides))]
    libtile.run(
        bytecode(gpu_name), "paged", grid=(-(-m // TM), -(-n // TN), 1), args=[*args, steps], backend="simulator",
        gpu_name=gpu_name, check="full", block_order=2,
    )  # fmt: skip
    rows = held[pages].reshape(-1, n)[:k].astype(np.float32)
    np.testing.assert_array_equal(result, left.astype(np.float32) @ rows)
