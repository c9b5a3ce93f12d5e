# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Along which dimensions tiles are the same, also what loops carry and branches choose."""

from __future__ import annotations

import pytest

import libtile
from libtile.analysis.uniformity import Uniformity

TEXT = """\
cuda_tile.module @m {
  entry @k(%n: tile<i32>, %c: tile<i1>, %q: tile<ptr<f32>>) {
    %five = constant <i32: 5> : tile<4x8xi32>
    %table = constant <i32: [[1, 2], [3, 4]]> : tile<2x2xi32>
    %n2 = reshape %n : tile<i32> -> tile<1x1xi32>
    %spread = broadcast %n2 : tile<1x1xi32> -> tile<4x8xi32>
    %count = iota : tile<8xi32>
    %row = reshape %count : tile<8xi32> -> tile<1x8xi32>
    %rows = broadcast %row : tile<1x8xi32> -> tile<4x8xi32>
    %columns = permute %rows [1, 0] : tile<4x8xi32> -> tile<8x4xi32>
    %sum = addi %rows, %spread : tile<4x8xi32>
    %both = addi %five, %spread : tile<4x8xi32>
    %flat = reshape %both : tile<4x8xi32> -> tile<32xi32>
    %mixed = reshape %rows : tile<4x8xi32> -> tile<32xi32>
    %least = reduce %rows dim=1 identities=[0 : i32] : tile<4x8xi32> -> tile<4xi32>
      (%a: tile<i32>, %b: tile<i32>) {
        %m = addi %a, %b : tile<i32>
        yield %m : tile<i32>
      }
    %chosen = if %c -> (tile<4x8xi32>) {
      yield %rows : tile<4x8xi32>
    } else {
      yield %five : tile<4x8xi32>
    }
    %kept, %lost = for %i in (%n to %n, step %n) : tile<i32> iter_values(%k = %five, %l = %five)
        -> (tile<4x8xi32>, tile<4x8xi32>) {
      %next = addi %k, %spread : tile<4x8xi32>
      %worse = addi %l, %chosen : tile<4x8xi32>
      continue %next, %worse : tile<4x8xi32>, tile<4x8xi32>
    }
    %left = loop iter_values(%v = %five) : tile<4x8xi32> -> tile<4x8xi32> {
      if %c {
        break %v : tile<4x8xi32>
      }
      if %c {
        continue %rows : tile<4x8xi32>
      }
      continue %spread : tile<4x8xi32>
    }
    %q2 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
    %qs = broadcast %q2 : tile<1xptr<f32>> -> tile<8xptr<f32>>
    %loaded, %t = load_ptr_tko weak %qs : tile<8xptr<f32>> -> tile<8xf32>, token
    return
  }
}
"""


@pytest.fixture(scope="module")
def known():
    module = libtile.parse(TEXT)
    libtile.verify(module)
    values = {v.name_hint: v for op in module.op.walk() for v in op.results}
    values |= {v.name_hint: v for op in module.op.walk() for r in op.regions for b in r.blocks for v in b.args}
    return Uniformity(module.op), values


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("n", ()),
        ("five", (True, True)),
        ("table", (False, False)),
        ("spread", (True, True)),
        ("count", (False,)),
        ("row", (True, False)),
        ("rows", (True, False)),
        ("columns", (False, True)),
        ("sum", (True, False)),
        ("both", (True, True)),
        ("flat", (True,)),
        ("mixed", (False,)),
        ("least", (True,)),
        ("chosen", (True, False)),
        ("k", (True, True)),
        ("kept", (True, True)),
        ("l", (True, False)),
        ("lost", (True, False)),
        ("v", (True, False)),
        ("left", (True, False)),
        ("loaded", (False,)),
        ("t", ()),
    ],
)
def test_a_tile_is_the_same_along_dimensions(known, name, dims):
    uniformity, values = known
    assert uniformity.of(values[name]) == dims
    assert uniformity.is_uniform(values[name]) == (all(dims) and name != "t")
