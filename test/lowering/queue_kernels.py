# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: E501 - types are long
"""Kernels of nv_tileaa whose agents hand tiles on through queues, each with arguments, what it writes and what with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SPEC = "attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>}"

Case = tuple[list[Any], int, np.ndarray]
"""The arguments of a run, which of them it writes, and what it leaves there."""


@dataclass(frozen=True)
class Kernel:
    """A module, and what a run of it takes and leaves."""

    text: str
    case: Callable[[], Case]


# -- a product: one agent loads, two multiply half of the columns each --------------------------------------------------

TWO_CONSUMERS = f"""
!q = !nv_tileaa.queue<(tile<32x32xf16>, tile<32x16xf16>, tile<32x16xf16>)>
!a = !nv_tileaa.memref<?x?xf16, strides=[?,1], 1>
!c = !nv_tileaa.memref<?x?xf32, strides=[?,1], 1>
!va = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, strides=[?,1], 1>, 32x32>
!vb = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, strides=[?,1], 1>, 32x16>
!vc = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, strides=[?,1], 1>, 32x16>
nv_tileaa.func @k(%a: !a, %b: !a, %c: !c, %turns: index) {SPEC} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %zero = nv_tileaa.constant {{value = dense<0.0> : !cuda_tile.tile<32x16xf32>}} : tile<32x16xf32>
  %va = nv_tileaa.block_tile %a {{tileSizes = array<i64: 32, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !a -> !va
  %vb = nv_tileaa.block_tile %b {{tileSizes = array<i64: 32, 16>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !a -> !vb
  %vc = nv_tileaa.block_tile %c {{tileSizes = array<i64: 32, 16>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !c -> !vc
  %q = nv_tileaa.create_queue {{depth = 2, num_consumers = 2}} : !q
  nv_tileaa.execute {{agent_warps = [1, 4, 2], agent_registers = [40, 104, 104]}} ({{
    scf.for %k = %0 to %turns step %1 {{
      nv_tileaa.queue.put %q ({{
        %x = nv_tileaa.tiled_load %va[%0, %k] : !va, index, index -> tile<32x32xf16>
        %y = nv_tileaa.tiled_load %vb[%k, %0] : !vb, index, index -> tile<32x16xf16>
        %z = nv_tileaa.tiled_load %vb[%k, %1] : !vb, index, index -> tile<32x16xf16>
        nv_tileaa.queue.yield %x, %y, %z : tile<32x32xf16>, tile<32x16xf16>, tile<32x16xf16>
      }}) : !q
    }}
    nv_tileaa.yield
  }}, {{
    %sum = scf.for %k = %0 to %turns step %1 iter_args(%acc = %zero) -> (tensor<32x16xf32>) {{
      %d = nv_tileaa.queue.get %q ({{
      ^bb0(%x: tensor<32x32xf16>, %y: tensor<32x16xf16>, %z: tensor<32x16xf16>):
        %d0 = nv_tileaa.dot %x, %y, %acc : tile<32x32xf16>, tile<32x16xf16>, tile<32x16xf32> -> tile<32x16xf32>
        nv_tileaa.queue.yield %d0 : tile<32x16xf32>
      }}) : !q -> tile<32x16xf32>
      scf.yield %d : tensor<32x16xf32>
    }}
    %t = nv_tileaa.tiled_store %vc[%0, %0], %sum : !vc, tile<32x16xf32>, index, index -> !nv_tileaa.mem_token
    nv_tileaa.yield
  }}, {{
    %sum = scf.for %k = %0 to %turns step %1 iter_args(%acc = %zero) -> (tensor<32x16xf32>) {{
      %d = nv_tileaa.queue.get %q {{consumer_idx = 1}} ({{
      ^bb0(%x: tensor<32x32xf16>, %y: tensor<32x16xf16>, %z: tensor<32x16xf16>):
        %d0 = nv_tileaa.dot %x, %z, %acc : tile<32x32xf16>, tile<32x16xf16>, tile<32x16xf32> -> tile<32x16xf32>
        nv_tileaa.queue.yield %d0 : tile<32x16xf32>
      }}) : !q -> tile<32x16xf32>
      scf.yield %d : tensor<32x16xf32>
    }}
    %t = nv_tileaa.tiled_store %vc[%0, %1], %sum : !vc, tile<32x16xf32>, index, index -> !nv_tileaa.mem_token
    nv_tileaa.yield
  }})
  nv_tileaa.return
}}
"""


def two_consumers() -> Case:
    rng, turns = np.random.default_rng(0), 5
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((32, 32 * turns), (32 * turns, 32)))
    c = np.zeros((32, 32), np.float32)
    args = [a, *a.shape, a.shape[1], b, *b.shape, b.shape[1], c, *c.shape, c.shape[1], turns]
    return args, 8, a.astype(np.float32) @ b.astype(np.float32)


# -- a product of tensors of which enough is known for tensor maps: TMA fills the stages where there is TMA --------------

_FACTS = "{divisibility = array<i64: 16>, stride_divisibility = array<i64: 8, 1>, size_bounds = array<i64: 4096, 4096>}"
_TAKEN = "!nv_tileaa.ptr<f16, 1>, index, index, index -> !a"
PRODUCT = f"""
!q = !nv_tileaa.queue<(tile<64x64xf16>, tile<64x32xf16>)>
!a = !nv_tileaa.memref<?x?xf16, strides=[?,1], 1>
!c = !nv_tileaa.memref<?x?xf32, strides=[?,1], 1>
!va = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, strides=[?,1], 1>, 64x64>
!vb = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf16, strides=[?,1], 1>, 64x32>
!vc = !nv_tileaa.tiled_view<!nv_tileaa.memref<?x?xf32, strides=[?,1], 1>, 64x32>
nv_tileaa.func @k(%p: !nv_tileaa.ptr<f16, 1>, %pm: index, %pk: index, %ps: index, %r: !nv_tileaa.ptr<f16, 1>, %rk: index, %rn: index, %rs: index, %c: !c, %turns: index) {SPEC} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %zero = nv_tileaa.constant {{value = dense<0.0> : !cuda_tile.tile<64x32xf32>}} : tile<64x32xf32>
  %a = nv_tileaa.make_memref %p, %pm, %pk, %ps {_FACTS} : {_TAKEN}
  %b = nv_tileaa.make_memref %r, %rk, %rn, %rs {_FACTS} : {_TAKEN}
  %va = nv_tileaa.block_tile %a {{tileSizes = array<i64: 64, 64>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !a -> !va
  %vb = nv_tileaa.block_tile %b {{tileSizes = array<i64: 64, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !a -> !vb
  %vc = nv_tileaa.block_tile %c {{tileSizes = array<i64: 64, 32>, dimGroups = [array<i64: 0>, array<i64: 1>]}} : !c -> !vc
  %q = nv_tileaa.create_queue {{depth = 2}} : !q
  nv_tileaa.execute {{agent_warps = [1, 4]}} ({{
    scf.for %k = %0 to %turns step %1 {{
      nv_tileaa.queue.put %q ({{
        %x = nv_tileaa.tiled_load %va[%0, %k] : !va, index, index -> tile<64x64xf16>
        %y = nv_tileaa.tiled_load %vb[%k, %0] : !vb, index, index -> tile<64x32xf16>
        nv_tileaa.queue.yield %x, %y : tile<64x64xf16>, tile<64x32xf16>
      }}) : !q
    }}
    nv_tileaa.yield
  }}, {{
    %sum = scf.for %k = %0 to %turns step %1 iter_args(%acc = %zero) -> (tensor<64x32xf32>) {{
      %d = nv_tileaa.queue.get %q ({{
      ^bb0(%x: tensor<64x64xf16>, %y: tensor<64x32xf16>):
        %d0 = nv_tileaa.dot %x, %y, %acc : tile<64x64xf16>, tile<64x32xf16>, tile<64x32xf32> -> tile<64x32xf32>
        nv_tileaa.queue.yield %d0 : tile<64x32xf32>
      }}) : !q -> tile<64x32xf32>
      scf.yield %d : tensor<64x32xf32>
    }}
    %t = nv_tileaa.tiled_store %vc[%0, %0], %sum : !vc, tile<64x32xf32>, index, index -> !nv_tileaa.mem_token
    nv_tileaa.yield
  }})
  nv_tileaa.return
}}
"""


def product() -> Case:
    rng, depth = np.random.default_rng(4), 168  # of the last tile most is outside
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((64, depth), (depth, 32)))
    c = np.zeros((64, 32), np.float32)
    args = [a, *a.shape, a.shape[1], b, *b.shape, b.shape[1], c, *c.shape, c.shape[1], 3]
    return args, 8, a.astype(np.float32) @ b.astype(np.float32)


# -- a persistent loop: tiles go through one queue to be summed up, and their sums through another to be stored ---------

PERSISTENT = f"""
!in = !nv_tileaa.queue<(tile<64xf32>)>
!out = !nv_tileaa.queue<(tile<64xf32>, index)>
!m = !nv_tileaa.memref<?xf32, strides=[1], 1>
nv_tileaa.func @k(%a: !m, %c: !m, %jobs: index, %each: index) {SPEC} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %64 = arith.constant 64 : index
  %zero = nv_tileaa.constant {{value = dense<0.0> : !cuda_tile.tile<64xf32>}} : tile<64xf32>
  %in = nv_tileaa.create_queue {{depth = 3}} : !in
  %out = nv_tileaa.create_queue {{depth = 2}} : !out
  nv_tileaa.execute {{agent_warps = [2, 1, 1]}} ({{
    scf.for %j = %0 to %jobs step %1 {{
      %first = arith.muli %j, %each : index
      scf.for %i = %0 to %each step %1 {{
        nv_tileaa.queue.put %in ({{
          %tile = arith.addi %first, %i : index
          %at = arith.muli %tile, %64 : index
          %x = nv_tileaa.tiled_load %a[%at] : !m, index -> tile<64xf32>
          nv_tileaa.queue.yield %x : tile<64xf32>
        }}) : !in
      }}
    }}
    nv_tileaa.yield
  }}, {{
    scf.for %j = %0 to %jobs step %1 {{
      %sum = scf.for %i = %0 to %each step %1 iter_args(%acc = %zero) -> (tensor<64xf32>) {{
        %s = nv_tileaa.queue.get %in ({{
        ^bb0(%x: tensor<64xf32>):
          %y = nv_tileaa.addf %acc, %x : tile<64xf32>, tile<64xf32> -> tile<64xf32>
          nv_tileaa.queue.yield %y : tile<64xf32>
        }}) : !in -> tile<64xf32>
        scf.yield %s : tensor<64xf32>
      }}
      nv_tileaa.queue.put %out ({{
        %at = arith.muli %j, %64 : index
        nv_tileaa.queue.yield %sum, %at : tile<64xf32>, index
      }}) : !out
    }}
    nv_tileaa.yield
  }}, {{
    scf.for %j = %0 to %jobs step %1 {{
      nv_tileaa.queue.get %out ({{
      ^bb0(%x: tensor<64xf32>, %at: index):
        %t = nv_tileaa.tiled_store %c[%at], %x : !m, tile<64xf32>, index -> !nv_tileaa.mem_token
        nv_tileaa.queue.yield
      }}) : !out
    }}
    nv_tileaa.yield
  }})
  nv_tileaa.return
}}
"""


def persistent() -> Case:
    rng, jobs, each = np.random.default_rng(1), 5, 3
    a = rng.integers(-100, 101, (jobs, each, 64)).astype(np.float32)
    c = np.zeros(jobs * 64, np.float32)
    return [a.reshape(-1), a.size, c, c.size, jobs, each], 2, a.sum(axis=1).reshape(-1)


# -- iterators under conditions, in loops in loops, in a while, and a turn within another queue's turn ------------------

NESTED = f"""
!q = !nv_tileaa.queue<(tile<32xi32>)>
!m = !nv_tileaa.memref<?xi32, strides=[1], 1>
nv_tileaa.func @k(%a: !m, %c: !m, %n: index) {SPEC} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %32 = arith.constant 32 : index
  %zero = nv_tileaa.constant {{value = dense<0> : !cuda_tile.tile<32xi32>}} : tile<32xi32>
  %even = nv_tileaa.create_queue {{depth = 2}} : !q
  %odd = nv_tileaa.create_queue {{depth = 1}} : !q
  nv_tileaa.execute {{agent_warps = [1, 1]}} ({{
    scf.for %i = %0 to %n step %1 {{
      %at = arith.muli %i, %32 : index
      %x = nv_tileaa.tiled_load %a[%at] : !m, index -> tile<32xi32>
      %bit = arith.remui %i, %2 : index
      %is_odd = arith.cmpi eq, %bit, %1 : index
      scf.if %is_odd {{
        nv_tileaa.queue.put %odd ({{
          nv_tileaa.queue.yield %x : tile<32xi32>
        }}) : !q
      }} else {{
        scf.for %twice = %0 to %2 step %1 {{
          nv_tileaa.queue.put %even ({{
            nv_tileaa.queue.yield %x : tile<32xi32>
          }}) : !q
        }}
      }}
    }}
    nv_tileaa.yield
  }}, {{
    %end = scf.while (%i = %0) : (index) -> index {{
      %more = arith.cmpi ult, %i, %n : index
      scf.condition(%more) %i : index
    }} do {{
    ^bb0(%i: index):
      %first = nv_tileaa.queue.get %even ({{
      ^bb0(%x: tensor<32xi32>):
        %next = arith.addi %i, %1 : index
        %has = arith.cmpi ult, %next, %n : index
        %other = scf.if %has -> (tensor<32xi32>) {{
          %y = nv_tileaa.queue.get %odd ({{
          ^bb0(%z: tensor<32xi32>):
            nv_tileaa.queue.yield %z : tile<32xi32>
          }}) : !q -> tile<32xi32>
          scf.yield %y : tensor<32xi32>
        }} else {{
          scf.yield %zero : tensor<32xi32>
        }}
        %s = arith.addi %x, %other : tensor<32xi32>
        nv_tileaa.queue.yield %s : tile<32xi32>
      }}) : !q -> tile<32xi32>
      %sum = nv_tileaa.queue.get %even ({{
      ^bb0(%x: tensor<32xi32>):
        %s = arith.addi %x, %first : tensor<32xi32>
        nv_tileaa.queue.yield %s : tile<32xi32>
      }}) : !q -> tile<32xi32>
      %half = arith.divui %i, %2 : index
      %at = arith.muli %half, %32 : index
      %t = nv_tileaa.tiled_store %c[%at], %sum : !m, tile<32xi32>, index -> !nv_tileaa.mem_token
      %j = arith.addi %i, %2 : index
      scf.yield %j : index
    }}
    nv_tileaa.yield
  }})
  nv_tileaa.return
}}
"""


def nested() -> Case:
    rng, n = np.random.default_rng(2), 7
    a = rng.integers(-100, 101, (n, 32)).astype(np.int32)
    c = np.zeros((n + 1) // 2 * 32, np.int32)
    odd = np.concatenate([a[1::2], np.zeros((1, 32), np.int32)])
    return [a.reshape(-1), a.size, c, c.size, n], 2, (2 * a[::2] + odd).reshape(-1)


# -- two agents of different numbers of warps that exchange elements among their threads at the same time ---------------

_SUM = """({
    ^bb0(%u: tensor<f32>, %v: tensor<f32>):
      %w = nv_tileaa.addf %u, %v : tile<f32>, tile<f32> -> tile<f32>
      nv_tileaa.yield %w : tile<f32>
    })"""
SUMS = f"""
!q = !nv_tileaa.queue<(tile<16x64xf32>)>
!m = !nv_tileaa.memref<?x64xf32, strides=[64,1], 1>
!r = !nv_tileaa.memref<?xf32, strides=[1], 1>
nv_tileaa.func @k(%a: !m, %c: !r, %n: index) {SPEC} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %16 = arith.constant 16 : index
  %80 = arith.constant 80 : index
  %q = nv_tileaa.create_queue {{depth = 1}} : !q
  nv_tileaa.execute {{agent_warps = [2, 4]}} ({{
    scf.for %i = %0 to %n step %1 {{
      %at = arith.muli %i, %16 : index
      %x = nv_tileaa.tiled_load %a[%at, %0] : !m, index, index -> tile<16x64xf32>
      nv_tileaa.queue.put %q ({{
        nv_tileaa.queue.yield %x : tile<16x64xf32>
      }}) : !q
      %s = nv_tileaa.reduce %x {{dim = 0, identities = [0.0 : f32]}} {_SUM} : tile<16x64xf32> -> tile<64xf32>
      %to = arith.muli %i, %80 : index
      %behind = arith.addi %to, %16 : index
      %t = nv_tileaa.tiled_store %c[%behind], %s : !r, tile<64xf32>, index -> !nv_tileaa.mem_token
    }}
    nv_tileaa.yield
  }}, {{
    scf.for %i = %0 to %n step %1 {{
      nv_tileaa.queue.get %q ({{
      ^bb0(%x: tensor<16x64xf32>):
        %y = nv_tileaa.permute %x {{permutation = array<i64: 1, 0>}} : tile<16x64xf32> -> tile<64x16xf32>
        %s = nv_tileaa.reduce %y {{dim = 0, identities = [0.0 : f32]}} {_SUM} : tile<64x16xf32> -> tile<16xf32>
        %to = arith.muli %i, %80 : index
        %t = nv_tileaa.tiled_store %c[%to], %s : !r, tile<16xf32>, index -> !nv_tileaa.mem_token
        nv_tileaa.queue.yield
      }}) : !q
    }}
    nv_tileaa.yield
  }})
  nv_tileaa.return
}}
"""


def sums() -> Case:
    rng, n = np.random.default_rng(3), 3
    a = rng.integers(-100, 101, (n, 16, 64)).astype(np.float32)
    c = np.zeros(n * 80, np.float32)
    expected = np.concatenate([a.sum(axis=2), a.sum(axis=1)], axis=1).reshape(-1)
    return [a.reshape(-1, 64), 16 * n, c, c.size, n], 2, expected


# -- no agents: the kernel's warps put and get in turn, and one queue hands on nothing from around it -------------------

ALONE = f"""
!q = !nv_tileaa.queue<(tile<64xf32>), isolated>
!p = !nv_tileaa.queue<(tile<64xf32>)>
!m = !nv_tileaa.memref<?xf32, strides=[1], 1>
nv_tileaa.func @k(%c: !m, %n: index) {SPEC} {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %64 = arith.constant 64 : index
  %zero = nv_tileaa.constant {{value = dense<0.0> : !cuda_tile.tile<64xf32>}} : tile<64xf32>
  %q = nv_tileaa.create_queue {{depth = 2}} : !q
  %p = nv_tileaa.create_queue {{depth = 1}} : !p
  %sum = scf.for %i = %0 to %n step %1 iter_args(%acc = %zero) -> (tensor<64xf32>) {{
    nv_tileaa.queue.put %q ({{
      %x = nv_tileaa.constant {{value = dense<2.0> : !cuda_tile.tile<64xf32>}} : tile<64xf32>
      nv_tileaa.queue.yield %x : tile<64xf32>
    }}) : !q
    nv_tileaa.queue.put %p ({{
      nv_tileaa.queue.yield %acc : tile<64xf32>
    }}) : !p
    %y = nv_tileaa.queue.get %q ({{
    ^bb0(%x: tensor<64xf32>):
      nv_tileaa.queue.yield %x : tile<64xf32>
    }}) : !q -> tile<64xf32>
    %z = nv_tileaa.queue.get %p ({{
    ^bb0(%x: tensor<64xf32>):
      %s = nv_tileaa.addf %x, %y : tile<64xf32>, tile<64xf32> -> tile<64xf32>
      nv_tileaa.queue.yield %s : tile<64xf32>
    }}) : !p -> tile<64xf32>
    scf.yield %z : tensor<64xf32>
  }}
  %t = nv_tileaa.tiled_store %c[%0], %sum : !m, tile<64xf32>, index -> !nv_tileaa.mem_token
  nv_tileaa.return
}}
"""


def alone() -> Case:
    c = np.zeros(64, np.float32)
    return [c, c.size, 5], 0, np.full(64, 10, np.float32)


KERNELS = {
    "alone": Kernel(ALONE, alone),
    "sums": Kernel(SUMS, sums),
    "two-consumers": Kernel(TWO_CONSUMERS, two_consumers),
    "product": Kernel(PRODUCT, product),
    "persistent": Kernel(PERSISTENT, persistent),
    "nested": Kernel(NESTED, nested),
}
