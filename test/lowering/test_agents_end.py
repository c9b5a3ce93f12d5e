# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What agents yield, what comes behind them, and pointers that they hand on: one agent goes on when the others have
ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

import libtile
from libtile.asm.module import Module
from libtile.lowering.to_tileas.queues import LowerTileAAQueuesPass

POINTER, TILE = "!nv_tileaa.ptr<f32, 1>", "tile<64xf32>"
POINTERS = f"tile<64x{POINTER}>"
QUEUE = f"!nv_tileaa.queue<({TILE})>"
OF_POINTERS = f"!nv_tileaa.queue<({POINTER}, {POINTERS}, tile<{POINTER}>)>"
KERNEL = f"""nv_tileaa.func @k(%a: {POINTER}, %b: {POINTER})
    attributes {{kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>}} {{
  %r = nv_tileaa.make_range : tile<64xi64>
  %sa = nv_tileaa.splat %a : {POINTER} -> {POINTERS}
  %pa = nv_tileaa.addptr %sa, %r : {POINTERS}, tile<64xi64> -> {POINTERS}
  %sb = nv_tileaa.splat %b : {POINTER} -> {POINTERS}
  %pb = nv_tileaa.addptr %sb, %r : {POINTERS}, tile<64xi64> -> {POINTERS}
  BODY
  nv_tileaa.return
}}"""

BEHIND = f"""
  %q = nv_tileaa.create_queue {{depth = 1}} : {QUEUE}
  nv_tileaa.execute {{agent_warps = [4, 1]}} ({{
    nv_tileaa.queue.put %q ({{
      %x = nv_tileaa.load %pa : {POINTERS} -> {TILE}
      nv_tileaa.queue.yield %x : {TILE}
    }}) : {QUEUE}
    nv_tileaa.yield
  }}, {{
    nv_tileaa.yield
  }})
  nv_tileaa.queue.get %q ({{
  ^bb0(%y: tensor<64xf32>):
    %z = nv_tileaa.addf %y, %y : {TILE}, {TILE} -> {TILE}
    nv_tileaa.store %pb, %z : {POINTERS}, {TILE}
    nv_tileaa.queue.yield
  }}) : {QUEUE}
"""
"""The function gets what an agent put; the same agent does, as it is the one that goes on."""

RESULTS = f"""
  %three = arith.constant 3 : index
  %u:4 = nv_tileaa.execute {{agent_warps = [4, 8, 4]}} ({{
    %x = nv_tileaa.load %pa : {POINTERS} -> {TILE}
    nv_tileaa.yield %x, %three : {TILE}, index
  }}, {{
    %y = nv_tileaa.load %pa : {POINTERS} -> {TILE}
    %twice = nv_tileaa.addf %y, %y : {TILE}, {TILE} -> {TILE}
    nv_tileaa.yield %twice : {TILE}
  }}, {{
    %sevens = nv_tileaa.constant {{value = dense<7.0> : !cuda_tile.tile<64xf32>}} : {TILE}
    nv_tileaa.store %pb, %sevens : {POINTERS}, {TILE}
    nv_tileaa.yield %a : {POINTER}
  }}) : {TILE}, index, {TILE}, {POINTER}
  %old = nv_tileaa.load %pb : {POINTERS} -> {TILE}
  %z = nv_tileaa.addf %u#0, %u#2 : {TILE}, {TILE} -> {TILE}
  %z2 = nv_tileaa.addf %z, %old : {TILE}, {TILE} -> {TILE}
  %number = arith.index_cast %u#1 : index to i64
  %f = nv_tileaa.int_to_fp %number : i64 -> f32
  %ft = nv_tileaa.splat %f : f32 -> {TILE}
  %z3 = nv_tileaa.addf %z2, %ft : {TILE}, {TILE} -> {TILE}
  %first = nv_tileaa.splat %u#3 : {POINTER} -> {POINTERS}
  %fp = nv_tileaa.addptr %first, %r : {POINTERS}, tile<64xi64> -> {POINTERS}
  %w = nv_tileaa.load %fp : {POINTERS} -> {TILE}
  %z4 = nv_tileaa.addf %z3, %w : {TILE}, {TILE} -> {TILE}
  nv_tileaa.store %pb, %z4 : {POINTERS}, {TILE}
"""

UNUSED = f"""
  %u = nv_tileaa.execute {{agent_warps = [4]}} ({{
    %x = nv_tileaa.load %pa : {POINTERS} -> {TILE}
    nv_tileaa.store %pb, %x : {POINTERS}, {TILE}
    nv_tileaa.yield %x : {TILE}
  }}) : {TILE}
"""

HANDED = f"""
  %q = nv_tileaa.create_queue {{depth = 2}} : {OF_POINTERS}
  nv_tileaa.execute {{agent_warps = [1, 4]}} ({{
    nv_tileaa.queue.put %q ({{
      %at = nv_tileaa.splat %b : {POINTER} -> tile<{POINTER}>
      nv_tileaa.queue.yield %a, %pb, %at : {POINTER}, {POINTERS}, tile<{POINTER}>
    }}) : {OF_POINTERS}
    nv_tileaa.yield
  }}, {{
    nv_tileaa.queue.get %q ({{
    ^bb0(%ga: {POINTER}, %gb: tensor<64x{POINTER}>, %gs: tensor<{POINTER}>):
      %s = nv_tileaa.splat %ga : {POINTER} -> {POINTERS}
      %p = nv_tileaa.addptr %s, %r : {POINTERS}, tile<64xi64> -> {POINTERS}
      %x = nv_tileaa.load %p : {POINTERS} -> {TILE}
      nv_tileaa.store %gb, %x : {POINTERS}, {TILE}
      %v = nv_tileaa.constant {{value = dense<9.0> : !cuda_tile.tile<f32>}} : tile<f32>
      %n = nv_tileaa.load %gs : tile<{POINTER}> -> tile<f32>
      nv_tileaa.queue.yield
    }}) : {OF_POINTERS}
    nv_tileaa.yield
  }})
"""
NESTED = f"""
  nv_tileaa.execute {{agent_warps = [1, 4]}} ({{
    nv_tileaa.yield
  }}, {{
    %q = nv_tileaa.create_queue {{depth = 1}} : {QUEUE}
    %two = nv_tileaa.constant {{value = dense<2.0> : !cuda_tile.tile<64xf32>}} : {TILE}
    %v = nv_tileaa.execute %two {{agent_warps = [4, 4]}} ({{
    ^bb0(%mine: tensor<64xf32>):
      nv_tileaa.queue.put %q ({{
        %x = nv_tileaa.load %pa : {POINTERS} -> {TILE}
        %y = nv_tileaa.mulf %x, %mine : {TILE}, {TILE} -> {TILE}
        nv_tileaa.queue.yield %y : {TILE}
      }}) : {QUEUE}
      nv_tileaa.yield
    }}, {{
    ^bb0(%mine: tensor<64xf32>):
      %got = nv_tileaa.queue.get %q ({{
      ^bb0(%z: tensor<64xf32>):
        nv_tileaa.queue.yield %z : {TILE}
      }}) : {QUEUE} -> {TILE}
      %more = nv_tileaa.addf %got, %mine : {TILE}, {TILE} -> {TILE}
      nv_tileaa.yield %more : {TILE}
    }}) : {TILE} -> {TILE}
    nv_tileaa.store %pb, %v : {POINTERS}, {TILE}
    nv_tileaa.yield
  }})
"""
"""An agent that has agents, hands on by a queue of its own, and stores what they give."""

LOOPED = f"""
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %8 = arith.constant 8 : index
  %q = nv_tileaa.create_queue {{depth = 2}} : {QUEUE}
  nv_tileaa.execute {{agent_warps = [4, 1], agent_registers = [128, 40]}} ({{
    scf.for %i = %0 to %8 step %1 {{
      nv_tileaa.execute {{agent_warps = [4, 4], agent_registers = [64, 120]}} ({{
        nv_tileaa.queue.put %q ({{
          %x = nv_tileaa.load %pa : {POINTERS} -> {TILE}
          nv_tileaa.queue.yield %x : {TILE}
        }}) : {QUEUE}
        nv_tileaa.yield
      }}, {{
        nv_tileaa.queue.get %q ({{
        ^bb0(%z: tensor<64xf32>):
          %old = nv_tileaa.load %pb : {POINTERS} -> {TILE}
          %sum = nv_tileaa.addf %old, %z : {TILE}, {TILE} -> {TILE}
          nv_tileaa.store %pb, %sum : {POINTERS}, {TILE}
          nv_tileaa.queue.yield
        }}) : {QUEUE}
        nv_tileaa.yield
      }})
    }}
    nv_tileaa.yield
  }}, {{
    nv_tileaa.yield
  }})
"""
"""An agent that has agents in each turn of its loop."""

COUNTS = """
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %3 = arith.constant 3 : index
"""
BESIDE = f"""{COUNTS}
  scf.for %i = %0 to %3 step %1 {{
    %x = nv_tileaa.load %pb : {POINTERS} -> {TILE}
    %y = nv_tileaa.addf %x, %x : {TILE}, {TILE} -> {TILE}
    nv_tileaa.execute {{agent_warps = [4, 8]}} ({{
      %u = nv_tileaa.load %pa : {POINTERS} -> {TILE}
      %v = nv_tileaa.addf %u, %y : {TILE}, {TILE} -> {TILE}
      nv_tileaa.store %pa, %v : {POINTERS}, {TILE}
      nv_tileaa.yield
    }}, {{
      nv_tileaa.yield
    }})
    %w = nv_tileaa.load %pa : {POINTERS} -> {TILE}
    nv_tileaa.store %pb, %w : {POINTERS}, {TILE}
  }}
"""
"""What one agent loads in front of the others is what these use; what they store it stores elsewhere behind them."""


def beside(a: np.ndarray) -> np.ndarray:
    a, b = a.copy(), np.zeros_like(a)
    for _ in range(3):
        a += 2 * b
        b[:] = a
    return b


GIVING = f"""{COUNTS}
  %ones = nv_tileaa.constant {{value = dense<1.0> : !cuda_tile.tile<64xf32>}} : {TILE}
  %sum = scf.for %i = %0 to %3 step %1 iter_args(%s = %ones) -> (tensor<64xf32>) {{
    %u:2 = nv_tileaa.execute {{agent_warps = [4, 8]}} ({{
      %x = nv_tileaa.load %pa : {POINTERS} -> {TILE}
      %y = nv_tileaa.addf %x, %s : {TILE}, {TILE} -> {TILE}
      nv_tileaa.yield %y : {TILE}
    }}, {{
      %twice = nv_tileaa.addf %s, %s : {TILE}, {TILE} -> {TILE}
      nv_tileaa.yield %twice : {TILE}
    }}) : {TILE}, {TILE}
    %z = nv_tileaa.addf %u#0, %u#1 : {TILE}, {TILE} -> {TILE}
    scf.yield %z : tensor<64xf32>
  }}
  nv_tileaa.store %pb, %sum : {POINTERS}, {TILE}
"""
"""Each turn gives all agents what it carries, and the next one what they give."""

CHOSEN = f"""{COUNTS}
  %ones = nv_tileaa.constant {{value = dense<1.0> : !cuda_tile.tile<64xf32>}} : {TILE}
  %sum = scf.for %i = %0 to %3 step %1 iter_args(%s = %ones) -> (tensor<64xf32>) {{
    %is_first = arith.cmpi eq, %i, %1 : index
    %z = scf.if %is_first -> (tensor<64xf32>) {{
      %v = nv_tileaa.execute {{agent_warps = [4, 8]}} ({{
        %x = nv_tileaa.load %pa : {POINTERS} -> {TILE}
        %y = nv_tileaa.addf %x, %s : {TILE}, {TILE} -> {TILE}
        nv_tileaa.yield %y : {TILE}
      }}, {{
        nv_tileaa.yield
      }}) : {TILE}
      scf.yield %v : tensor<64xf32>
    }} else {{
      %old = nv_tileaa.load %pb : {POINTERS} -> {TILE}
      %y = nv_tileaa.addf %old, %s : {TILE}, {TILE} -> {TILE}
      nv_tileaa.store %pb, %y : {POINTERS}, {TILE}
      scf.yield %y : tensor<64xf32>
    }}
    scf.yield %z : tensor<64xf32>
  }}
  nv_tileaa.store %pb, %sum : {POINTERS}, {TILE}
"""
"""Agents in one arm of a branch, which gives what they do; the other arm is one agent's."""


def chosen(a: np.ndarray) -> np.ndarray:
    s, b = np.ones_like(a), np.zeros_like(a)
    for i in range(3):
        s = a + s if i == 1 else b + s
        b = b if i == 1 else s
    return s


AGENTS_BESIDE = f"""
  nv_tileaa.execute {{agent_warps = [1, 4]}} ({{
    nv_tileaa.yield
  }}, {{
    %sevens = nv_tileaa.constant {{value = dense<7.0> : !cuda_tile.tile<64xf32>}} : {TILE}
    nv_tileaa.store %pb, %sevens : {POINTERS}, {TILE}
    %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %x, %u = nv_tileaa.load %pa, %t : {POINTERS}, !nv_tileaa.mem_token -> {TILE}, !nv_tileaa.mem_token
    nv_tileaa.execute {{agent_warps = [4, 4]}} ({{
      nv_tileaa.yield
    }}, {{
      %old, %v = nv_tileaa.load %pb, %u : {POINTERS}, !nv_tileaa.mem_token -> {TILE}, !nv_tileaa.mem_token
      %y = nv_tileaa.addf %old, %x : {TILE}, {TILE} -> {TILE}
      nv_tileaa.store %pb, %y : {POINTERS}, {TILE}
      nv_tileaa.yield
    }})
    nv_tileaa.yield
  }})
"""
"""What an agent stores before it has agents they find, also one that does not do it itself."""

QUEUE_IN_A_LOOP = f"""{COUNTS}
  scf.for %i = %0 to %3 step %1 {{
    %q = nv_tileaa.create_queue {{depth = 2}} : {QUEUE}
    nv_tileaa.execute {{agent_warps = [4, 4]}} ({{
      scf.for %j = %0 to %3 step %1 {{
        nv_tileaa.queue.put %q ({{
          %x = nv_tileaa.load %pa : {POINTERS} -> {TILE}
          nv_tileaa.queue.yield %x : {TILE}
        }}) : {QUEUE}
      }}
      nv_tileaa.yield
    }}, {{
      scf.for %j = %0 to %3 step %1 {{
        nv_tileaa.queue.get %q ({{
        ^bb0(%z: tensor<64xf32>):
          %old = nv_tileaa.load %pb : {POINTERS} -> {TILE}
          %sum = nv_tileaa.addf %old, %z : {TILE}, {TILE} -> {TILE}
          nv_tileaa.store %pb, %sum : {POINTERS}, {TILE}
          nv_tileaa.queue.yield
        }}) : {QUEUE}
      }}
      nv_tileaa.yield
    }})
  }}
"""
"""A queue of each turn's own."""

CASES = {
    "behind": (BEHIND, lambda a: 2 * a),
    "results": (RESULTS, lambda a: 4 * a + 10),
    "unused": (UNUSED, lambda a: a),
    "pointers": (HANDED, lambda a: a),
    "agents of agents": (NESTED, lambda a: 2 * a + 2),
    "agents in an agent's loop": (LOOPED, lambda a: 8 * a),
    "effects beside agents in a loop": (BESIDE, beside),
    "results in a loop": (GIVING, lambda a: 3 * (3 * (3 + a) + a) + a),
    "agents in one arm": (CHOSEN, chosen),
    "effects beside agents of an agent": (AGENTS_BESIDE, lambda a: a + 7),
    "a queue of each turn": (QUEUE_IN_A_LOOP, lambda a: 9 * a),
}
BACKENDS: dict[str, dict[str, Any]] = {
    "interpreter": {"backend": "interpreter"},
    "queues": {"backend": "interpreter"},
    "sm_80": {"backend": "simulator", "gpu_name": "sm_80", "check": "full"},
    "sm_90": {"backend": "simulator", "gpu_name": "sm_90", "check": "full"},
}
"""`queues` is the interpreter behind `lower-tileaa-queues`."""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_one_agent_goes_on_with_what_all_have_made(name: str, backend: str) -> None:
    text, expected = CASES[name]
    module = libtile.parse(KERNEL.replace("BODY", text), filename="k.mlir")
    if backend == "queues":
        LowerTileAAQueuesPass().apply(Context(), module.op)
        module = Module(module.op)
        libtile.verify(module)
    given, result = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    wanted = expected(given.copy())
    libtile.run(module, args=[given, result], **BACKENDS[backend])
    assert np.array_equal(result, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", CASES)
def test_agents_end_well_in_every_schedule(name: str, gpu_name: str) -> None:
    text, expected = CASES[name]
    module = libtile.parse(KERNEL.replace("BODY", text), filename="k.mlir")
    for seed in range(20):
        given, result = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        wanted = expected(given.copy())
        options: dict[str, Any] = {"backend": "simulator", "gpu_name": gpu_name, "check": "full", "block_order": seed}
        libtile.run(module, args=[given, result], **options)
        assert np.array_equal(result, wanted)
