# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products in loops and branches within each other: each agent finds its way by itself, and rings do not drain."""

from __future__ import annotations

import numpy as np
import pytest
from test_persistent import NUMBERS
from test_specialized import operands, tile_gemm

import libtile
from libtile.lowering.discardable import NOT_SPECIALIZED

TARGETS = ("sm_90", "sm_100", "sm_120")


def nested(m: int = 64, n: int = 64) -> str:
    """`tile_gemm`, whose blocks take each a row of tiles of c, in a loop that ends by itself, and leave out every other
    tile, by a branch."""
    text = tile_gemm(m=m, n=n)
    begin, end = text.index("    %dims:2 ="), text.index("    return\n")
    view = text[text.index("%vc = make_partition_view") :].split("\n")[0].split(" : ", 1)[1]
    body = text[begin:end].replace(NUMBERS, "")
    head = text[:begin].replace("%bx, %by, %bz = get_tile_block_id", "%p0, %p1, %p2 = get_tile_block_id")
    return f"""{head}{NUMBERS}    %g0, %g1, %g2 = get_num_tile_blocks : tile<i32>
    %tiles:2 = get_index_space_shape %vc : {view} -> tile<i32>
    for %bx in (%p0 to %tiles#0, step %g0) : tile<i32> {{
      %last = loop iter_values(%by = %zero) : tile<i32> -> tile<i32> {{
        %more = cmpi less_than %by, %tiles#1, signed : tile<i32> -> tile<i1>
        if %more {{
        }} else {{
          break %by : tile<i32>
        }}
        %both = addi %bx, %by : tile<i32>
        %odd = andi %both, %one : tile<i32>
        %taken = cmpi equal %odd, %zero, signed : tile<i32> -> tile<i1>
        if %taken {{
{body}        }}
        %next = addi %by, %one : tile<i32>
        continue %next : tile<i32>
      }}
    }}
{text[end:]}"""


def check(m, n, k, blocks, gpu_name, order=None):
    a, b, c, wanted = operands(m, n, k)
    libtile.run(libtile.parse(nested()), "gemm", grid=(blocks, 1, 1), args=[a, b, c, m, n, k],
                backend="simulator", gpu_name=gpu_name, check="full", block_order=order)  # fmt: skip
    rows, columns = np.arange(m)[:, None] // 64, np.arange(n)[None] // 64
    np.testing.assert_allclose(c, np.where((rows + columns) % 2 == 0, wanted, 7), atol=1e-3)


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_agents_go_through_loops_and_branches(gpu_name):
    module = libtile.parse(nested())
    text = libtile.compile(module, gpu_name=gpu_name, launch_abi="simt", emit="tileas", pipeline="specialized").tileas
    assert NOT_SPECIALIZED not in text and text.count("scf.while") > 1  # an agent's each
    check(200, 144, 208, 2, gpu_name, 1)


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_blocks_without_rows_and_tiles_without_steps(gpu_name):
    check(64, 64, 64, 3, gpu_name)
    a, b, c = np.zeros((128, 1), np.float16), np.zeros((1, 64), np.float16), np.full((128, 64), 7, np.float32)
    libtile.run(libtile.parse(nested()), "gemm", grid=(1, 1, 1), args=[a, b, c, 128, 64, 0], backend="simulator",
                gpu_name=gpu_name, check="full")  # fmt: skip
    assert not c[:64].any() and (c[64:] == 7).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_loops_and_branches_in_every_schedule(seed, gpu_name):
    check(264, 272, 80 + 64 * (seed % 3), 1 + seed % 3, gpu_name, seed)
