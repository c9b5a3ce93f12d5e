# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A return right in a kernel, behind one that is deeper: what is behind that stands in a branch already."""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from libtile.compiler.options import Options
from libtile.compiler.stages import lower

KERNEL = """
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>, %a: tile<i32>, %b: tile<i32>) {
    %1 = constant <i32: 1> : tile<i32>
    %c = cmpi equal %a, %1, signed : tile<i32> -> tile<i1>
    %d = cmpi equal %b, %1, signed : tile<i32> -> tile<i1>
    if %c {
      if %d {
        return
      }
      %t = store_ptr_tko weak %p, %1 : tile<ptr<i32>>, tile<i32> -> token
    }
    if %d {
      return
    }
    %u = store_ptr_tko weak %p, %a : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
"""


@pytest.mark.parametrize("options", [{}, {"backend": "simulator", "gpu_name": "sm_80"}])
def test_a_return_behind_one_that_is_deeper_is_in_a_branch(options):
    for a, b, expected in ((1, 1, 0), (5, 1, 0), (5, 0, 5)):
        out = np.zeros(1, np.int32)
        libtile.run(libtile.parse(KERNEL), "k", args=[out, a, b], **options)
        assert out[0] == expected


def test_it_is_valid_behind_every_pass():
    lower(libtile.parse(KERNEL).tile_module, Options("sm_80", emit="llvm"), verify_each=True)
