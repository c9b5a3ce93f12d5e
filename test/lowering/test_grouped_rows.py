# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Grouped products whose rows begin where sizes in memory say, and whose weights begin at a remainder that is rounded
down: both are loaded through views."""

import re

import cuda.tile as ct
import numpy as np
import pytest

import libtile
from libtile import cutile

Size = ct.Constant[int]


@ct.kernel
def grouped(X, W, Sizes, Y, E: Size, tm: Size, tn: Size, tk: Size):
    """Each block has the tiles of its number in every group; W has the rows of one group behind those of another."""
    columns = Y.shape[1] // tn
    first = 0
    for e in range(E):
        size = ct.load(Sizes, index=(e,), shape=(1,)).item()
        for t in range(ct.bid(0), ct.cdiv(size, tm) * columns, ct.num_blocks(0)):
            row = first + t // columns * tm + ct.arange(tm, dtype=ct.int32)
            column = t % columns * tn + ct.arange(tn, dtype=ct.int32)
            acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
            for k in range(ct.cdiv(X.shape[1], tk)):
                step = k * tk + ct.arange(tk, dtype=ct.int32)
                a = ct.gather(X, (row[:, None], step[None, :]))
                b = ct.gather(W, ((e * Y.shape[1] + column)[None, :], step[:, None]))
                acc = ct.mma(a, b, acc)
            kept = ct.where(row < first + size, row, Y.shape[0])
            ct.scatter(Y, (kept[:, None], column[None, :]), ct.astype(acc, Y.dtype))
        first = first + size


SIZES = (70, 0, 128, 33)
TILES = (64, 64, 32)


def arguments() -> list:
    rng, (rows, columns, depth) = np.random.default_rng(3), (sum(SIZES), 128, 96)
    x = rng.standard_normal((rows, depth)).astype(np.float16)
    w = rng.standard_normal((len(SIZES) * columns, depth)).astype(np.float16)
    return [x, w, np.array(SIZES, np.int32), np.zeros((rows, columns), np.float16), len(SIZES), *TILES]


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_120"])
def test_rows_of_groups_give_what_numpy_gives(gpu_name):
    args = arguments()
    cutile.launch(grouped, (3,), tuple(args), backend="simulator", gpu_name=gpu_name)
    x, w, y = (args[n].astype(np.float32) for n in (0, 1, 3))
    ends = np.cumsum(SIZES)
    for e, (end, size) in enumerate(zip(ends, SIZES)):
        wanted = x[end - size : end] @ w[e * 128 : (e + 1) * 128].T
        np.testing.assert_allclose(y[end - size : end], wanted, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_120"])
def test_operands_of_groups_come_through_views(gpu_name):
    code = cutile.bytecode_for(grouped, tuple(arguments()), gpu_name=gpu_name)[0]
    made = libtile.compile(code, gpu_name=gpu_name, launch_abi="simt", keep_text=True)
    assert not re.search(r"nv_tileas\.(async\.)?load .*ptr<f16", made.tileas)
    (kernel,) = made.kernels.values()
    assert kernel.spills == 0
