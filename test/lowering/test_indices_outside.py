# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Indices at the ends of their numbers: what is outside of a view is padding, for interpreters and in compiled code."""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from libtile.interpreter import FaultKind, InterpreterFault

VIEW = "tensor_view<17x?xf32, strides=[64,1]>"
TILED = f"partition_view<tile=(16x16), padding_value = zero, {VIEW}>"
PADDED = f"""
cuda_tile.module @m {{ entry @k(%x: tile<ptr<f32>>, %o: tile<ptr<f32>>, %n: tile<i64>, %i: tile<i64>) {{
  %a = assume div_by<16>, %x : tile<ptr<f32>>
  %t = make_tensor_view %a, shape = [17, %n], strides = [64, 1] : tile<i64> -> {VIEW}
  %v = make_partition_view %t : {TILED}
  %z = constant <i64: 0> : tile<i64>
  %c = constant <i64: CONSTANT> : tile<i64>
  %l, %u = load_view_tko weak %v[INDICES] : {TILED}, tile<i64> -> tile<16x16xf32>, token
  %s = reduce %l dim=1 identities=[0.0 : f32] : tile<16x16xf32> -> tile<16xf32>
  (%p: tile<f32>, %q: tile<f32>) {{ %r = addf %p, %q : tile<f32> yield %r : tile<f32> }}
  %d = make_tensor_view %o, shape = [16], strides = [1] : tensor_view<16xf32, strides=[1]>
  %w = make_partition_view %d : partition_view<tile=(16), tensor_view<16xf32, strides=[1]>>
  %y = store_view_tko weak %s, %w[%z] : tile<16xf32>, partition_view<tile=(16), tensor_view<16xf32, strides=[1]>>, tile<i64> -> token
  return
}} }}
"""  # noqa: E501


def program(indices: str, constant: int) -> str:
    return PADDED.replace("CONSTANT", str(constant)).replace("INDICES", indices)


def padded_sum(indices: str, given: int, **options: object) -> np.ndarray:
    out = np.full(16, 7, np.float32)
    x = np.ones((17, 64), np.float32)
    text = program(indices, given)
    libtile.run(libtile.parse(text), "k", grid=1, args=[x, out, 24, given], **options)
    return out


@pytest.mark.parametrize("indices", ["%z, %i", "%i, %z", "%z, %c", "%c, %z"])
@pytest.mark.parametrize("given", [-1, -(1 << 60) + 3, 5], ids=["the last tile", "the middle", "a small one"])
def test_an_index_of_64_bits_without_a_sign_is_outside(indices, given):
    """The end of the last tile of all, 2**64 - 16 + 16, is 0 where it wraps around, and below every size."""
    assert not padded_sum(indices, given, check="basic,-overflow").any()
    assert not padded_sum(indices, given, backend="simulator", gpu_name="sm_80").any()


def test_the_largest_constant_index_is_outside():
    assert not padded_sum("%z, %c", (1 << 63) - 1, backend="simulator", gpu_name="sm_80").any()


def test_an_index_whose_tile_compiled_code_may_find_inside_is_a_fault():
    index = (1 << 32) // 16 + 1
    assert not padded_sum("%z, %i", index, check="basic,-overflow").any()
    with pytest.raises(
        InterpreterFault, match="begins at element 4294967312 of dimension 1, which is 16 in 32 bits"
    ) as f:
        padded_sum("%z, %i", index, check="basic")
    assert f.value.kind is FaultKind.OVERFLOW
    made = libtile.parse(libtile.compile(libtile.parse(program("%z, %i", 0)), emit="tileaa").tileaa)
    with pytest.raises(InterpreterFault, match="begins at element 4294967312 of dimension 1") as f:
        libtile.run(made, "k", args=[np.ones((17, 64), np.float32), np.zeros(16, np.float32), 24, index])
    assert f.value.kind is FaultKind.OVERFLOW


ROWS = "gather_scatter_view<tile=(4), tensor_view<300xf32, strides=[1]>, sparse_dim=0>"
GATHER = f"""
cuda_tile.module @m {{ entry @k(%x: tile<ptr<f32>>) {{
  %t = make_tensor_view %x, shape = [300], strides = [1] : tensor_view<300xf32, strides=[1]>
  %v = make_gather_scatter_view %t : {ROWS}
  %i = constant <i8: [-1, 0, -128, 127]> : tile<4xi8>
  %c = constant <f32: 5.0> : tile<4xf32>
  %u = store_view_tko weak %c, %v[%i] : tile<4xf32>, {ROWS}, tile<4xi8> -> token
  return
}} }}
"""


@pytest.mark.parametrize("stage", ["source", "tileaa", "tileas", "code"])
def test_narrow_indices_of_rows_have_no_sign_at_any_stage(stage):
    module, options = libtile.parse(GATHER), {}
    if stage == "code":
        options = {"backend": "simulator", "gpu_name": "sm_90"}
    elif stage != "source":
        module = libtile.parse(getattr(libtile.compile(module, emit=stage), stage))
    x = np.zeros(300, np.float32)
    libtile.run(module, "k", args=[x], **options)
    assert np.flatnonzero(x).tolist() == [0, 127, 128, 255]
