# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 - types are long
"""Loops whose products have few rows, as the loops of their transposes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_specialized import specialized

import libtile
from libtile.asm import print_op
from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.ir.places import ops_of
from libtile.lowering.tileas.products.few_rows import with_few_columns

VIEW = "partition_view<tile=({tile}), padding_value = zero, tensor_view<{shape}xf16, strides=[64,1]>>"
Q, KV, OUT = "16x64", "64x64", "partition_view<tile=(16x64), tensor_view<16x64xf32, strides=[64,1]>>"
MASK = """
      %last = cmpi equal %i, %two, signed : tile<i32> -> tile<i1>
      %s = if %last -> (tile<16x64xf32>) {
        %column = iota : tile<64xi32>
        %c0 = reshape %column : tile<64xi32> -> tile<1x64xi32>
        %c1 = broadcast %c0 : tile<1x64xi32> -> tile<16x64xi32>
        %r0 = iota : tile<16xi32>
        %r1 = reshape %r0 : tile<16xi32> -> tile<16x1xi32>
        %r2 = broadcast %r1 : tile<16x1xi32> -> tile<16x64xi32>
        %seen = cmpi greater_than_or_equal %r2, %c1, signed : tile<16x64xi32> -> tile<16x64xi1>
        %m0 = select %seen, %s0, %lowest : tile<16x64xi1>, tile<16x64xf32>
        yield %m0 : tile<16x64xf32>
      } else {
        yield %s0 : tile<16x64xf32>
      }
"""
TEXT = """
cuda_tile.module @kernels {{
  entry @decode(%q0: tile<ptr<f16>>, %k0: tile<ptr<f16>>, %v0: tile<ptr<f16>>, %o0: tile<ptr<f32>>) {{
    %qp = assume div_by<16>, %q0 : tile<ptr<f16>>
    %kp = assume div_by<16>, %k0 : tile<ptr<f16>>
    %vp = assume div_by<16>, %v0 : tile<ptr<f16>>
    %op = assume div_by<16>, %o0 : tile<ptr<f32>>
    %vq = make_tensor_view %qp, shape = [16, 64], strides = [64, 1] : tensor_view<16x64xf16, strides=[64,1]>
    %vk = make_tensor_view %kp, shape = [170, 64], strides = [64, 1] : tensor_view<170x64xf16, strides=[64,1]>
    %vv = make_tensor_view %vp, shape = [170, 64], strides = [64, 1] : tensor_view<170x64xf16, strides=[64,1]>
    %vo = make_tensor_view %op, shape = [16, 64], strides = [64, 1] : tensor_view<16x64xf32, strides=[64,1]>
    %tq = make_partition_view %vq : {q}
    %tk = make_partition_view %vk : {kv}
    %tv = make_partition_view %vv : {kv}
    %to = make_partition_view %vo : {out}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %steps = constant <i32: 3> : tile<i32>
    %none = constant <f32: 0.0> : tile<16x64xf32>
    %nothing = constant <f32: 0.0> : tile<16xf32>
    %lowest = constant <f32: -1.0e30> : tile<16x64xf32>
    %least = constant <f32: -1.0e30> : tile<16x1xf32>
    %x, %t0 = load_view_tko weak %tq[%zero, %zero] : {q}, tile<i32> -> tile<16x64xf16>, token
    %r:3 = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%m = %least, %sum = %nothing, %acc = %none) -> (tile<16x1xf32>, tile<16xf32>, tile<16x64xf32>) {{
      %y, %t1 = load_view_tko weak %tk[%i, %zero] : {kv}, tile<i32> -> tile<64x64xf16>, token
      %yt = permute %y [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %s0 = mmaf %x, %yt, %none : tile<16x64xf16>, tile<64x64xf16>, tile<16x64xf32>
{mask}
      %h0 = reduce %s dim=1 identities=[0xFF800000 : f32] : tile<16x64xf32> -> tile<16xf32>
      (%a: tile<f32>, %b: tile<f32>) {{
        %z = maxf %a, %b : tile<f32>
        yield %z : tile<f32>
      }}
      %h = reshape %h0 : tile<16xf32> -> tile<16x1xf32>
      %n = maxf %m, %h : tile<16x1xf32>
      %n1 = broadcast %n : tile<16x1xf32> -> tile<16x64xf32>
      %d = subf %s, %n1 : tile<16x64xf32>
      %p = exp2 %d : tile<16x64xf32>
      %e = subf %m, %n : tile<16x1xf32>
      %al = exp2 %e : tile<16x1xf32>
      %w = reduce %p dim=1 identities=[0.0 : f32] : tile<16x64xf32> -> tile<16xf32>
      (%a: tile<f32>, %b: tile<f32>) {{
        %z = addf %a, %b : tile<f32>
        yield %z : tile<f32>
      }}
      %af = reshape %al : tile<16x1xf32> -> tile<16xf32>
      %sum1 = fma %sum, %af, %w : tile<16xf32>
      %u, %t2 = load_view_tko weak %tv[%i, %zero] : {kv}, tile<i32> -> tile<64x64xf16>, token
      %ph = ftof %p : tile<16x64xf32> -> tile<16x64xf16>
      %a1 = broadcast %al : tile<16x1xf32> -> tile<16x64xf32>
      %acc0 = mulf %acc, %a1 : tile<16x64xf32>
      %acc1 = mmaf %ph, %u, %acc0 : tile<16x64xf16>, tile<64x64xf16>, tile<16x64xf32>
{more}
      continue %n, %sum1, %acc1 : tile<16x1xf32>, tile<16xf32>, tile<16x64xf32>
    }}
    %sums = reshape %r#1 : tile<16xf32> -> tile<16x1xf32>
    %wide = broadcast %sums : tile<16x1xf32> -> tile<16x64xf32>
    %given = divf %r#2, %wide : tile<16x64xf32>
    %t3 = store_view_tko weak %given, %to[%zero, %zero] : tile<16x64xf32>, {out}, tile<i32> -> token
    return
  }}
}}
"""


def text(mask: str = MASK, more: str = "") -> str:
    views = {"q": VIEW.format(tile=Q, shape=Q), "kv": VIEW.format(tile=KV, shape="170x64"), "out": OUT}
    return TEXT.format(mask=mask, more=more, **views)


def in_tileaa(program: str) -> tuple[libtile.Module, FuncOp]:
    """The program in nv_tileaa."""
    made = libtile.compile(libtile.parse(program), gpu_name="sm_90", emit="tileaa")
    module = libtile.parse(made.tileaa)
    return module, next(op for op in ops_of(module.op, FuncOp))


def run(program, rows: int = 16, **backend) -> np.ndarray:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((n, 64)).astype(np.float16) for n in (rows, 170, 170))
    out = np.zeros((rows, 64), np.float32)
    libtile.run(program, grid=1, args=[q, k, v, out], check="full", **backend)
    return out


def test_the_loop_of_transposes_gives_the_same():
    """Rows and columns change places in branches, masks, maxima and sums, and what the loop gives is turned back."""
    module, function = in_tileaa(text())
    wanted = run(module)
    made = with_few_columns(function, 64)
    assert made is not None and function.parent is not None
    (loop,) = ops_of(made, scf.ForOp)
    said = print_op(loop)
    assert said.count("-> tile<64x16xf32>") >= 2 and "tile<16x64xf32>" not in said and "dim = 0" in said
    assert said.count("permute") == 1  # of the values: keys are as they are loaded
    function.parent.insert_op_before(made, function)
    function.detach()
    np.testing.assert_allclose(run(module), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "more",
    [
        "      %q = store_view_tko weak %acc1, %to[%zero, %zero] : tile<16x64xf32>, " + OUT + ", tile<i32> -> token",
        '      %q = print_tko "%f", %s0 : tile<16x64xf32> -> token',
    ],
    ids=["stored", "printed"],
)
def test_what_is_used_by_other_ops_stays(more):
    assert with_few_columns(in_tileaa(text(more=more))[1], 64) is None


def test_enough_rows_stay():
    assert with_few_columns(in_tileaa(text())[1], 16) is None


@pytest.mark.parametrize("rows", [16, 8])
@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_agents_multiply_them(target, rows):
    program = re.sub(r"\b16(?=x|, 64\])", str(rows), text())
    assert specialized(program, target)[1] is None
    module = libtile.parse(program)
    made = run(module, rows, backend="simulator", gpu_name=target)
    np.testing.assert_allclose(made, run(module, rows), rtol=1e-2, atol=1e-2)
