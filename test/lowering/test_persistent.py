# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that work through several tiles with a producer and consumers: places in rings go from tile to tile."""

from __future__ import annotations

import numpy as np
import pytest
from test_specialized import operands, specialized, tile_gemm

import libtile

TILE = "tile<64x64xf32>"
C = "partition_view<tile=(64x64), tensor_view<?x?xf32, strides=[?,1]>>"
NUMBERS = "    %zero = constant <i32: 0> : tile<i32>\n    %one = constant <i32: 1> : tile<i32>\n"


def persistent(carried: str = "", more: str = "") -> str:
    """`tile_gemm` whose blocks go through the tiles of c from their own number on, in steps of the grid."""
    text = tile_gemm(m=64)
    begin, end = text.index("    %dims:2 ="), text.index("    return\n")
    body = text[begin:end].replace(NUMBERS, "")
    head = text[:begin].replace("%bx, %by, %bz = get_tile_block_id", "%p0, %p1, %p2 = get_tile_block_id")
    values = f"iter_values(%sum = %nothing) -> ({TILE}) " if carried else ""
    return f"""{head}{NUMBERS}    %nothing = constant <f32: 0.0> : {TILE}
    %g0, %g1, %g2 = get_num_tile_blocks : tile<i32>
    %tiles:2 = get_index_space_shape %vc : {C} -> tile<i32>
    %all = muli %tiles#0, %tiles#1 : tile<i32>
    %end{":1" if carried else ":0"} = for %tile in (%p0 to %all, step %g0) : tile<i32> {values}{{
      %bx = divi %tile, %tiles#1 signed : tile<i32>
      %by = remi %tile, %tiles#1 signed : tile<i32>
{body}      continue {carried}
    }}
{text[end:]}""".replace("    %end:0 = for", "    for")


@pytest.mark.parametrize(("m", "n", "k", "blocks", "order"), [(136, 80, 208, 2, 1), (64, 144, 64, 1, None)])
def test_blocks_go_through_tiles_with_a_producer(m, n, k, blocks, order):
    """More steps than stages in one tile, and several tiles in the stages at once; tiles at the edges."""
    text = persistent()
    assert specialized(text)[1] is None
    a, b, c, wanted = operands(m, n, k)
    libtile.run(libtile.parse(text), "gemm", grid=(blocks, 1, 1), args=[a, b, c, m, n, k], backend="simulator",
                gpu_name="sm_90", check="full", block_order=order)  # fmt: skip
    np.testing.assert_allclose(c, wanted, atol=1e-3)


def test_tiles_without_steps():
    a, b, c = np.zeros((128, 1), np.float16), np.zeros((1, 64), np.float16), np.full((128, 64), 7, np.float32)
    libtile.run(libtile.parse(persistent()), "gemm", grid=(1, 1, 1), args=[a, b, c, 128, 64, 0], backend="simulator",
                gpu_name="sm_90", check="full")  # fmt: skip
    assert not c.any()


def test_a_loop_over_tiles_that_carries_more_is_not_parted():
    assert specialized(persistent(f"%r : {TILE}"))[1] == "the loop around its loop carries more than tokens"
