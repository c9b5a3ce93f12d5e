# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which loads may be done by who runs ahead of a loop."""

import pytest

import libtile
from libtile.dialects.nv_tileas.memory import LoadOp
from libtile.ir.places import ops_of
from libtile.lowering.tileas.ahead import is_unordered

TEXT = """
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f32>>, %n: tile<i32>, %c: tile<i1>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = make_token : token
    for %i in (%zero to %n, step %one) : tile<i32> {{
      %p = offset %a, %i : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
      %x, %t = load_ptr_tko weak %p token = %none : tile<ptr<f32>> -> tile<f32>, token
      {behind}
      continue
    }}
    return
  }}
}}
"""
STORE = "%s = store_ptr_tko weak %a, %x token = {} : tile<ptr<f32>>, tile<f32> -> token"
JOINED = "%j = join_tokens %t, %none : token\n      "
BRANCH = """%u = if %c -> (token) {
        yield %t : token
      } else {
        yield %none : token
      }
      """


@pytest.mark.parametrize(
    ("behind", "unordered"),
    [
        ("", True),
        (STORE.format("%none"), True),
        (STORE.format("%t"), False),
        (JOINED + STORE.format("%j"), False),
        (BRANCH + STORE.format("%u"), False),  # it would be done ahead of a store that comes behind it
    ],
)
def test_a_load_that_an_access_waits_for_is_not_done_ahead(behind: str, unordered: bool) -> None:
    made = libtile.compile(libtile.parse(TEXT.format(behind=behind)), gpu_name="sm_90", opt_level=0, emit="tileas")
    assert made.tileas is not None
    (load,) = [op for op in ops_of(libtile.parse(made.tileas).op) if isinstance(op, LoadOp)]
    assert is_unordered(load) is unordered
