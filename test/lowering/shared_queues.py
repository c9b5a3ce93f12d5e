# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 - types are long
"""Kernels of nv_tileaa with queues that several agents put into."""

from __future__ import annotations

import numpy as np
from queue_kernels import SPEC, Case, Kernel

_FACTS = "{divisibility = array<i64: 16>, stride_divisibility = array<i64: 8, 1>, size_bounds = array<i64: 4096, 4096>}"


def several(warps: int, producers: int = 2, depth: int = 3, known: bool = False, getters: int = 1) -> str:
    """Producers put tiles of their own rows, with where these go; one of them only every second one. With `known`
    enough is said of the tensor for tensor maps. Several `getters` get as one consumer, half of the entries each."""
    agents = []
    for number in range(producers):
        put = """
      nv_tileaa.queue.put %q ({
        %x = nv_tileaa.tiled_load %va[%row, %0] : !v, index, index -> tile<16x32xf32>
        nv_tileaa.queue.yield %x, %row : tile<16x32xf32>, index
      }) : !q"""
        if number == 1:
            put = f"""
      %half = arith.remui %i, %2 : index
      %even = arith.cmpi eq, %half, %0 : index
      scf.if %even {{{put}
        scf.yield
      }}"""
        agents.append(
            f"""{{
    %mine = arith.constant {number} : index
    %first = arith.muli %mine, %turns : index
    scf.for %i = %0 to %turns step %1 {{
      %row = arith.addi %first, %i : index{put}
    }}
    nv_tileaa.yield
  }}"""
        )
    sizes = ", ".join([str(warps)] * producers + ["4"] * getters)
    parts = ["%all"] if getters == 1 else ["%half_of_all", "%rest"]
    got = [
        f"""{{
    scf.for %i = %0 to {part} step %1 {{
      nv_tileaa.queue.get %q ({{
      ^bb0(%x: tensor<16x32xf32>, %row: index):
        %y = nv_tileaa.addf %x, %x : tile<16x32xf32>, tile<16x32xf32> -> tile<16x32xf32>
        %t = nv_tileaa.tiled_store %vc[%row, %0], %y : !v, tile<16x32xf32>, index, index -> !nv_tileaa.mem_token
        nv_tileaa.queue.yield
      }}) : !q
    }}
    nv_tileaa.yield
  }}"""
        for part in parts
    ]
    return f"""
!q = !nv_tileaa.queue<(tile<16x32xf32>, index)>
!a = !nv_tileaa.memref<?x?xf32, strides=[?,1], 1>
!v = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, strides=[?,1], 1>, 16x32>
nv_tileaa.func @k({"%p: !nv_tileaa.ptr<f32, 1>, %pm: index, %pn: index, %ps: index" if known else "%a: !a"}, %c: !a, %turns: index, %all: index) {SPEC} {{
  {f"%a = nv_tileaa.make_memref %p, %pm, %pn, %ps {_FACTS} : !nv_tileaa.ptr<f32, 1>, index, index, index -> !a" if known else ""}
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %va = nv_tileaa.block_tile %a {{tileSizes = array<i64: 16, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !a -> !v
  %vc = nv_tileaa.block_tile %c {{tileSizes = array<i64: 16, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !a -> !v
  %q = nv_tileaa.create_queue {{depth = {depth}}} : !q
  %half_of_all = arith.divui %all, %2 : index
  %rest = arith.subi %all, %half_of_all : index
  nv_tileaa.execute {{agent_warps = [{sizes}]}} ({", ".join([*agents, *got])})
  nv_tileaa.return
}}
"""


def several_case(producers: int = 2) -> Case:
    rng, turns = np.random.default_rng(0), 5
    a = rng.integers(-8, 9, (16 * turns * producers, 32)).astype(np.float32)
    c, want = np.zeros_like(a), 2 * a
    for i in range(turns):
        if i % 2:
            want[16 * (turns + i) : 16 * (turns + i + 1)] = 0
    args = [
        a,
        *a.shape,
        a.shape[1],
        c,
        *c.shape,
        c.shape[1],
        turns,
        turns * producers - (turns // 2 if producers > 1 else 0),
    ]
    return args, 4, want


IN_LOOPS = f"""
!q = !nv_tileaa.queue<(tile<16x32xf32>)>
!a = !nv_tileaa.memref<?x?xf32, strides=[?,1], 1>
!v = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, strides=[?,1], 1>, 16x32>
nv_tileaa.func @k(%a: !a, %c: !a, %rows: index, %columns: index) {SPEC} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %va = nv_tileaa.block_tile %a {{tileSizes = array<i64: 16, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !a -> !v
  %vc = nv_tileaa.block_tile %c {{tileSizes = array<i64: 16, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !a -> !v
  %q = nv_tileaa.create_queue {{depth = 2}} : !q
  scf.for %i = %0 to %rows step %1 {{
    %skipped = arith.cmpi ne, %i, %1 : index
    scf.if %skipped {{
      %row = arith.subi %rows, %i : index
      %last = arith.subi %row, %1 : index
      nv_tileaa.execute {{agent_warps = [1, 4]}} ({{
        %same = scf.for %k = %0 to %columns step %1 iter_args(%mine = %q) -> (!q) {{
          nv_tileaa.queue.put %mine ({{
            %x = nv_tileaa.tiled_load %va[%i, %k] : !v, index, index -> tile<16x32xf32>
            nv_tileaa.queue.yield %x : tile<16x32xf32>
          }}) : !q
          scf.yield %mine : !q
        }}
        nv_tileaa.yield
      }}, {{
        %left, %end = scf.while (%queue = %q, %k = %0) : (!q, index) -> (index, !q) {{
          %more = arith.cmpi ult, %k, %columns : index
          scf.condition(%more) %k, %queue : index, !q
        }} do {{
        ^bb0(%k: index, %queue: !q):
          %even = arith.remui %k, %1 : index
          %zero = arith.cmpi eq, %even, %0 : index
          %one = scf.if %zero -> (!q) {{
            scf.yield %queue : !q
          }} else {{
            scf.yield %q : !q
          }}
          nv_tileaa.queue.get %one ({{
          ^bb0(%x: tensor<16x32xf32>):
            %y = nv_tileaa.addf %x, %x : tile<16x32xf32>, tile<16x32xf32> -> tile<16x32xf32>
            %t = nv_tileaa.tiled_store %vc[%last, %k], %y : !v, tile<16x32xf32>, index, index -> !nv_tileaa.mem_token
            nv_tileaa.queue.yield
          }}) : !q
          %next = arith.addi %k, %1 : index
          scf.yield %one, %next : !q, index
        }}
        nv_tileaa.yield
      }})
    }}
  }}
  nv_tileaa.return
}}
"""
"""Agents in a loop and under a condition, with a queue that goes through loops of all kinds."""


def in_loops() -> Case:
    rng, rows, columns = np.random.default_rng(0), 4, 3
    a = rng.integers(-8, 9, (16 * rows, 32 * columns)).astype(np.float32)
    c, want = np.zeros_like(a), np.zeros_like(a)
    for i in (0, 2, 3):
        want[16 * (rows - 1 - i) : 16 * (rows - i)] = 2 * a[16 * i : 16 * (i + 1)]
    return [a, *a.shape, a.shape[1], c, *c.shape, c.shape[1], rows, columns], 4, want


WORKERS = f"""
!q = !nv_tileaa.queue<(tile<64x32xf16>, index)>
!a = !nv_tileaa.memref<?x?xf16, strides=[?,1], 1>
!c = !nv_tileaa.memref<?x?xf32, strides=[?,1], 1>
!v = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, strides=[?,1], 1>, 64x32>
!w = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, strides=[?,1], 1>, 32x32>
!vc = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, strides=[?,1], 1>, 64x32>
nv_tileaa.func @k(%p: !nv_tileaa.ptr<f16, 1>, %pm: index, %pn: index, %ps: index, %b: !a, %c: !c, %items: index) {SPEC} {{
  %a = nv_tileaa.make_memref %p, %pm, %pn, %ps {_FACTS} : !nv_tileaa.ptr<f16, 1>, index, index, index -> !a
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %end = arith.constant -1 : index
  %va = nv_tileaa.block_tile %a {{tileSizes = array<i64: 64, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !a -> !v
  %vb = nv_tileaa.block_tile %b {{tileSizes = array<i64: 32, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !a -> !w
  %vc = nv_tileaa.block_tile %c {{tileSizes = array<i64: 64, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !c -> !vc
  %zero = nv_tileaa.constant {{value = dense<0.0> : !cuda_tile.tile<64x32xf32>}} : tile<64x32xf32>
  %q = nv_tileaa.create_queue {{depth = 3}} : !q
  nv_tileaa.execute {{agent_warps = [1, 4, 4]}} ({{
    scf.for %i = %0 to %items step %1 {{
      nv_tileaa.queue.put %q ({{
        %x = nv_tileaa.tiled_load %va[%i, %0] : !v, index, index -> tile<64x32xf16>
        nv_tileaa.queue.yield %x, %i : tile<64x32xf16>, index
      }}) : !q
    }}
    %two = arith.constant 2 : index
    scf.for %i = %0 to %two step %1 {{
      nv_tileaa.queue.put %q ({{
        %x = nv_tileaa.constant {{value = dense<0.0> : !cuda_tile.tile<64x32xf16>}} : tile<64x32xf16>
        nv_tileaa.queue.yield %x, %end : tile<64x32xf16>, index
      }}) : !q
    }}
    nv_tileaa.yield
  }}, WORKER, WORKER)
  nv_tileaa.return
}}
""".replace(
    "WORKER",
    """{
    %y = nv_tileaa.tiled_load %vb[%0, %0] : !w, index, index -> tile<32x32xf16>
    %last = scf.while (%at = %0) : (index) -> (index) {
      %more = arith.cmpi ne, %at, %end : index
      scf.condition(%more) %at : index
    } do {
    ^bb0(%at: index):
      %next = nv_tileaa.queue.get %q ({
      ^bb0(%x: tensor<64x32xf16>, %row: index):
        %some = arith.cmpi ne, %row, %end : index
        scf.if %some {
          %d = nv_tileaa.dot %x, %y, %zero : tile<64x32xf16>, tile<32x32xf16>, tile<64x32xf32> -> tile<64x32xf32>
          %t = nv_tileaa.tiled_store %vc[%row, %0], %d : !vc, tile<64x32xf32>, index, index -> !nv_tileaa.mem_token
        }
        nv_tileaa.queue.yield %row : index
      }) : !q -> index
      scf.yield %next : index
    }
    nv_tileaa.yield
  }""",
)
"""Two agents take what is to be done from one queue, as often as they come to it, and end when they are told to."""


def workers() -> Case:
    rng, items = np.random.default_rng(0), 5
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((64 * items, 32), (32, 32)))
    c = np.zeros((64 * items, 32), np.float32)
    args = [a, *a.shape, a.shape[1], b, *b.shape, b.shape[1], c, *c.shape, c.shape[1], items]
    return args, 8, a.astype(np.float32) @ b.astype(np.float32)


KERNELS = {
    "agents-in-loops": Kernel(IN_LOOPS, in_loops),
    "two-producers": Kernel(several(1), several_case),
    "two-producers-by-tma": Kernel(several(1, known=True), several_case),
    "three-wide-producers": Kernel(several(4, 3), lambda: several_case(3)),
    "more-producers-than-room": Kernel(several(1, 3, depth=1), lambda: several_case(3)),
    "two-getters": Kernel(several(1, 1, depth=2, getters=2), lambda: several_case(1)),
    "more-getters-than-room": Kernel(several(1, 1, depth=1, getters=2), lambda: several_case(1)),
    "two-getters-by-tma": Kernel(several(1, 1, depth=2, known=True, getters=2), lambda: several_case(1)),
    "producers-and-getters": Kernel(several(1, 3, depth=2, getters=2), lambda: several_case(3)),
    "workers": Kernel(WORKERS, workers),
}
