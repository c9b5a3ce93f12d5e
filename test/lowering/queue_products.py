# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 - types are long
"""Kernels of nv_tileaa whose agents multiply what they get from queues, of tensors that tensor maps describe."""

from __future__ import annotations

import numpy as np
from queue_kernels import SPEC, Case, Kernel

_FACTS = "{divisibility = array<i64: 16>, stride_divisibility = array<i64: 8, 1>, size_bounds = array<i64: 4096, 4096>}"
_TAKEN = "!nv_tileaa.ptr<f16, 1>, index, index, index -> !m"
_TYPES = """
!m = !nv_tileaa.memref<?x?xf16, strides=[?,1], 1>
!c = !nv_tileaa.memref<?x?xf32, strides=[?,1], 1>
"""
_HEAD = f"""(%p: !nv_tileaa.ptr<f16, 1>, %pm: index, %pk: index, %ps: index, %r: !nv_tileaa.ptr<f16, 1>, %rk: index, %rn: index, %rs: index, %c: !c, %tiles: index, %turns: index) {SPEC} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %a = nv_tileaa.make_memref %p, %pm, %pk, %ps {_FACTS} : {_TAKEN}
  %b = nv_tileaa.make_memref %r, %rk, %rn, %rs {_FACTS} : {_TAKEN}
"""


def _tiled(name: str, type_: str, source: str, shape: str, of: str) -> str:
    sizes = shape.replace("x", ", ")
    return (
        f"  %{name} = nv_tileaa.block_tile %{source} {{tileSizes = array<i64: {sizes}>, "
        f"dimGroups = [array<i64: 0>, array<i64: 1>]}} : {of} -> {type_}\n"
    )


# -- one agent loads, two multiply half of the columns each; what they have in common is loaded once ----------------------


def _half(number: int, operand: str) -> str:
    consumer = f" {{consumer_idx = {number}}}" if number else ""
    return f"""{{
    %sum = scf.for %k = %0 to %turns step %1 iter_args(%acc = %zero) -> (tensor<64x32xf32>) {{
      %d = nv_tileaa.queue.get %q{consumer} ({{
      ^bb0(%x: tensor<64x64xf16>, %y: tensor<64x32xf16>, %z: tensor<64x32xf16>):
        %d0 = nv_tileaa.dot %x, %{operand}, %acc : tile<64x64xf16>, tile<64x32xf16>, tile<64x32xf32> -> tile<64x32xf32>
        nv_tileaa.queue.yield %d0 : tile<64x32xf32>
      }}) : !q -> tile<64x32xf32>
      scf.yield %d : tensor<64x32xf32>
    }}
    %t = nv_tileaa.tiled_store %vc[%0, %{number}], %sum : !vc, tile<64x32xf32>, index, index -> !nv_tileaa.mem_token
    nv_tileaa.yield
  }}"""


HALVES = f"""{_TYPES}
!q = !nv_tileaa.queue<(tile<64x64xf16>, tile<64x32xf16>, tile<64x32xf16>)>
!va = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, strides=[?,1], 1>, 64x64>
!vb = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, strides=[?,1], 1>, 64x32>
!vc = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, strides=[?,1], 1>, 64x32>
nv_tileaa.func @k{_HEAD}
  %zero = nv_tileaa.constant {{value = dense<0.0> : !cuda_tile.tile<64x32xf32>}} : tile<64x32xf32>
{_tiled("va", "!va", "a", "64x64", "!m")}{_tiled("vb", "!vb", "b", "64x32", "!m")}{_tiled("vc", "!vc", "c", "64x32", "!c")}
  %q = nv_tileaa.create_queue {{depth = 2, num_consumers = 2}} : !q
  nv_tileaa.execute {{agent_warps = [1, 4, 4], agent_registers = [40, 152, 152]}} ({{
    scf.for %k = %0 to %turns step %1 {{
      nv_tileaa.queue.put %q ({{
        %x = nv_tileaa.tiled_load %va[%0, %k] : !va, index, index -> tile<64x64xf16>
        %y = nv_tileaa.tiled_load %vb[%k, %0] : !vb, index, index -> tile<64x32xf16>
        %z = nv_tileaa.tiled_load %vb[%k, %1] : !vb, index, index -> tile<64x32xf16>
        nv_tileaa.queue.yield %x, %y, %z : tile<64x64xf16>, tile<64x32xf16>, tile<64x32xf16>
      }}) : !q
    }}
    nv_tileaa.yield
  }}, {_half(0, "y")}, {_half(1, "z")})
  nv_tileaa.return
}}
"""


def halves() -> Case:
    rng, turns = np.random.default_rng(5), 4
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((64, 64 * turns), (64 * turns, 64)))
    c = np.zeros((64, 64), np.float32)
    args = [a, *a.shape, a.shape[1], b, *b.shape, b.shape[1], c, *c.shape, c.shape[1], 0, turns]
    return args, 8, a.astype(np.float32) @ b.astype(np.float32)


# -- tiles one after the other, of which both agents leave out every other one, and each has one turn more -----------------

TILES = f"""{_TYPES}
!q = !nv_tileaa.queue<(tile<128x32xf16>, tile<32x16xf16>)>
!va = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, strides=[?,1], 1>, 128x32>
!vb = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, strides=[?,1], 1>, 32x16>
!vc = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, strides=[?,1], 1>, 128x16>
nv_tileaa.func @k{_HEAD}
  %zero = nv_tileaa.constant {{value = dense<0.0> : !cuda_tile.tile<128x16xf32>}} : tile<128x16xf32>
{_tiled("va", "!va", "a", "128x32", "!m")}{_tiled("vb", "!vb", "b", "32x16", "!m")}{_tiled("vc", "!vc", "c", "128x16", "!c")}
  %q = nv_tileaa.create_queue {{depth = 3}} : !q
  nv_tileaa.execute {{agent_warps = [1, 4]}} ({{
    scf.for %i = %0 to %tiles step %1 {{
      %rest = arith.remui %i, %2 : index
      %left_out = arith.cmpi ne, %rest, %0 : index
      scf.if %left_out {{
      }} else {{
        %end = arith.minui %i, %turns : index
        scf.for %k = %0 to %end step %1 {{
          nv_tileaa.queue.put %q ({{
            %x = nv_tileaa.tiled_load %va[%i, %k] : !va, index, index -> tile<128x32xf16>
            %y = nv_tileaa.tiled_load %vb[%k, %0] : !vb, index, index -> tile<32x16xf16>
            nv_tileaa.queue.yield %x, %y : tile<128x32xf16>, tile<32x16xf16>
          }}) : !q
        }}
      }}
    }}
    nv_tileaa.yield
  }}, {{
    scf.for %i = %0 to %tiles step %1 {{
      %rest = arith.remui %i, %2 : index
      %left_out = arith.cmpi ne, %rest, %0 : index
      scf.if %left_out {{
      }} else {{
        %end = arith.minui %i, %turns : index
        %sum = scf.for %k = %0 to %end step %1 iter_args(%acc = %zero) -> (tensor<128x16xf32>) {{
          %d = nv_tileaa.queue.get %q ({{
          ^bb0(%x: tensor<128x32xf16>, %y: tensor<32x16xf16>):
            %d0 = nv_tileaa.dot %x, %y, %acc : tile<128x32xf16>, tile<32x16xf16>, tile<128x16xf32> -> tile<128x16xf32>
            nv_tileaa.queue.yield %d0 : tile<128x16xf32>
          }}) : !q -> tile<128x16xf32>
          scf.yield %d : tensor<128x16xf32>
        }}
        %t = nv_tileaa.tiled_store %vc[%i, %0], %sum : !vc, tile<128x16xf32>, index, index -> !nv_tileaa.mem_token
      }}
    }}
    nv_tileaa.yield
  }})
  nv_tileaa.return
}}
"""


def tiles() -> Case:
    rng, count, turns = np.random.default_rng(6), 5, 3
    a, b = (rng.integers(-8, 9, s).astype(np.float16) for s in ((128 * count, 32 * turns), (32 * turns, 16)))
    c = np.full((128 * count, 16), -1, np.float32)
    args = [a, *a.shape, a.shape[1], b, *b.shape, b.shape[1], c, *c.shape, c.shape[1], count, turns]
    expected = c.copy()
    for i in range(0, count, 2):
        depth = 32 * min(i, turns)
        rows = slice(128 * i, 128 * i + 128)
        expected[rows] = a[rows, :depth].astype(np.float32) @ b[:depth].astype(np.float32)
    return args, 8, expected


PRODUCTS = {"halves": Kernel(HALVES, halves), "tiles": Kernel(TILES, tiles)}
