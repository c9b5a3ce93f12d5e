# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-widen-apart`: what several branches make wide lives in its narrow words between them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import libtile

TEXT = """
!in = !cuda_tile.partition_view<tile=({size}), tensor_view<{size}xf16, strides=[1]>>
!out = !cuda_tile.partition_view<tile=({size}), tensor_view<{size}xf32, strides=[1]>>
cuda_tile.module @m {{
  entry @kernel(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {{
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %zeros = constant <f32: 0.0> : tile<{size}xf32>
    %in = make_tensor_view %p, shape = [{size}], strides = [1] : tensor_view<{size}xf16, strides=[1]>
    %v = make_partition_view %in : !in
    %to = make_tensor_view %q, shape = [{size}], strides = [1] : tensor_view<{size}xf32, strides=[1]>
    %o = make_partition_view %to : !out
    %x, %t = load_view_tko weak %v[%c0] : !in, tile<i32> -> tile<{size}xf16>, token
    %a = cmpi less_than %c0, %n, signed : tile<i32> -> tile<i1>
    %b = cmpi less_than %c1, %n, signed : tile<i32> -> tile<i1>
    %one = if %a -> (tile<{size}xf32>) {{
      %w = ftof %x : tile<{size}xf16> -> tile<{size}xf32>
      yield %w : tile<{size}xf32>
    }} else {{
      yield %zeros : tile<{size}xf32>
    }}
    %two = if %b -> (tile<{size}xf32>) {{
      %w = ftof %x : tile<{size}xf16> -> tile<{size}xf32>
      %s = fma %w, %w, %one : tile<{size}xf32>
      yield %s : tile<{size}xf32>
    }} else {{
      yield %one : tile<{size}xf32>
    }}
    %u = store_view_tko weak %two, %o[%c0] : tile<{size}xf32>, !out, tile<i32> -> token
    return
  }}
}}
"""


def test_each_branch_widens_a_tile_for_itself() -> None:
    compiled = libtile.compile(libtile.parse(TEXT.format(size=2048)), gpu_name="sm_90", emit="tileas")
    assert len(re.findall(r"fp_to_fp .* \{apart", compiled.tileas)) == 2


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_results_are_those_of_the_interpreter(turns: int) -> None:
    x = np.random.default_rng(7).standard_normal(2048).astype(np.float16)
    found = []
    for backend in ("interpreter", "simulator"):
        y = np.zeros(2048, np.float32)
        module = libtile.parse(TEXT.format(size=2048))
        libtile.run(module, "kernel", grid=(1, 1, 1), args=[x, y, turns], backend=backend, gpu_name="sm_90")
        found.append(y)
    np.testing.assert_array_equal(*found)
