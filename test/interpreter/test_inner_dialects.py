# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The interpreter runs modules of nv_tileaa and nv_tileas: memory, agents, queues, pipelines, copies, and faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import libtile
from libtile.interpreter import FaultKind, InterpreterFault

SPEC = "attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>}"
MEMORY = "!nv_tileaa.memref<?x?xf32, 1>"
VIEW = f"!nv_tileaa.tiled_view<{MEMORY}, 4x8>"
GROUPS = "{tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}"
PIPE = "!nv_tileas.pipeline<2, (tile<4x8xf32>)>"
ITER = f"!nv_tileas.pipeline_iterator<{PIPE}>"
PRODUCER, CONSUMER = "!nv_tileas.producer_token<(tile<4x8xf32>)>", "!nv_tileas.consumer_token<(tile<4x8xf32>)>"
BUFFER = "!nv_tileas.buffer<4x8xf32, shared>"
ASYNC = "nv_tileas.async.pipeline"


def kernel(body: str, parameters: str = f"%m: {MEMORY}, %o: {MEMORY}", **names: str) -> str:
    """A module with one kernel; `@NAME@` in its body stands for a type or an attribute."""
    known = {
        "MEM": MEMORY, "VIEW": VIEW, "GROUPS": GROUPS, "PIPE": PIPE, "ITER": ITER, "PT": PRODUCER, "CT": CONSUMER,
        "BUF": BUFFER, "A": ASYNC, **names,
    }  # fmt: skip
    for name, text in known.items():
        body = body.replace(f"@{name}@", text)
    return f"nv_tileaa.func @k({parameters}) {SPEC} {{\n{body}\nnv_tileaa.return\n}}\n"


def matrices(rows: int = 8, columns: int = 16) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Two arrays, the second of zeros, and the arguments of a kernel that takes them as memrefs."""
    source = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    target = np.zeros_like(source)
    sizes = [rows, columns, columns, 1]
    return source, target, [source, *sizes, target, *sizes]


def fault(text: str, args: list[Any], **options: Any) -> InterpreterFault:
    with pytest.raises(InterpreterFault) as caught:
        libtile.run(libtile.parse(text, filename="k.mlir"), args=args, **options)
    return caught.value


VIEWS = """
  %v = nv_tileaa.block_tile %m @GROUPS@ : @MEM@ -> @VIEW@
  %w = nv_tileaa.block_tile %o @GROUPS@ : @MEM@ -> @VIEW@
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
"""


# -- queues and agents ------------------------------------------------------------------------------------------------

QUEUE = "!nv_tileaa.queue<(tile<4x8xf32>)>"
STREAM = (
    VIEWS
    + """
  %n = arith.constant 4 : index
  %q = nv_tileaa.create_queue {depth = @DEPTH@, num_consumers = @CONSUMERS@} : @QUEUE@
  nv_tileaa.execute {agent_warps = [1, 4]} ({
    scf.for %i = %0 to %n step %1 {
      nv_tileaa.queue.put %q ({
        %r = arith.divui %i, %two : index
        %c = arith.remui %i, %two : index
        %x = nv_tileaa.tiled_load %v[%r, %c] : @VIEW@, index, index -> tile<4x8xf32>
        nv_tileaa.queue.yield %x : tile<4x8xf32>
      }) : @QUEUE@
    }
    nv_tileaa.yield
  }, {
    scf.for %i = %0 to %n step %1 {
      %y = nv_tileaa.queue.get %q ({
      ^bb0(%x: tensor<4x8xf32>):
        %d = nv_tileaa.addf %x, %x : tile<4x8xf32>, tile<4x8xf32> -> tile<4x8xf32>
        nv_tileaa.queue.yield %d : tile<4x8xf32>
      }) : @QUEUE@ -> tile<4x8xf32>
      %r = arith.divui %i, %two : index
      %c = arith.remui %i, %two : index
      nv_tileaa.tiled_store %w[%r, %c], %y : @VIEW@, tile<4x8xf32>, index, index
    }
    nv_tileaa.yield
  })
"""
).replace("%n = arith", "%two = arith.constant 2 : index\n  %n = arith")


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_a_producer_and_a_consumer_meet_at_a_queue(depth):
    source, target, args = matrices()
    libtile.run(libtile.parse(kernel(STREAM, QUEUE=QUEUE, DEPTH=str(depth), CONSUMERS="1")), args=args)
    assert np.array_equal(target, 2 * source)


def test_a_queue_whose_other_consumer_never_comes_stops_its_producer():
    _, _, args = matrices()
    found = fault(kernel(STREAM, QUEUE=QUEUE, DEPTH="2", CONSUMERS="2"), args)
    assert found.kind is FaultKind.DEADLOCK
    assert "wait for one another" in str(found)


def test_tiles_that_nobody_takes_are_a_fault_at_their_queue():
    """What puts them may be copies that go on when the threads have ended."""
    text = kernel(STREAM, QUEUE=QUEUE, DEPTH="2", CONSUMERS="1")
    loop = "scf.for %i = %0 to %n step"
    first, second, third = text.split(loop)
    found = fault(f"{first}{loop}{second}{loop.replace('%n', '%two')}{third}", matrices()[2])
    assert found.kind is FaultKind.PIPELINE
    assert (found.op, found.location.line) == ("nv_tileaa.create_queue", 1 + text.split("%q = ")[0].count("\n"))
    assert "the queue holds 2 entries at the end that nobody has taken" in str(found)


def test_a_get_without_a_put_is_a_deadlock():
    body = (
        VIEWS
        + """
      %q = nv_tileaa.create_queue {depth = 1} : @QUEUE@
      %y = nv_tileaa.queue.get %q ({
      ^bb0(%x: tensor<4x8xf32>):
        nv_tileaa.queue.yield %x : tile<4x8xf32>
      }) : @QUEUE@ -> tile<4x8xf32>
    """
    )
    found = fault(kernel(body, QUEUE=QUEUE), matrices()[2])
    assert found.kind is FaultKind.DEADLOCK
    assert found.location is not None


# -- pipelines --------------------------------------------------------------------------------------------------------

TURNS = (
    VIEWS
    + """
  %n = arith.constant 2 : index
  %pipe = @A@.create_pipeline : @PIPE@
  %start = @A@.create_iterator %pipe : @PIPE@ -> @ITER@
  @A@.agent_switch {agent_warps = [1, 4]} ({
    %last = scf.for %i = %0 to %n step %1 iter_args(%it = %start) -> (@ITER@) {
      @A@.produce_one %pipe, %it ({
        %t0 = @A@.producer_acquire %pipe, %it : @PIPE@, @ITER@ -> @PT@
        %t1:2 = @A@.producer_write %t0, %it ({
        ^bb0(%slot: tensor<4x8xf32>):
          %x = nv_tileas.tiled_load %v[%i, %0] : @VIEW@, index, index -> tile<4x8xf32>
          @A@.yield %x : tile<4x8xf32>
        }) : @PT@, @ITER@ -> @PT@, tile<4x8xf32>
        @A@.producer_commit %t1#0 : @PT@
        @A@.yield
      }) : @PIPE@, @ITER@
      %next = @A@.inc_iter %it : @ITER@ -> @ITER@
      scf.yield %next : @ITER@
    }
    @A@.yield
  }, {
    %last = scf.for %i = %0 to %n step %1 iter_args(%it = %start) -> (@ITER@) {
      %y = @A@.consume_one %pipe, %it ({
        %t0 = @A@.consumer_wait %pipe, %it : @PIPE@, @ITER@ -> @CT@
        %t1:2 = @A@.consumer_read %t0, %it ({
        ^bb0(%slot: tensor<4x8xf32>):
          %d = nv_tileaa.addf %slot, %slot : tile<4x8xf32>, tile<4x8xf32> -> tile<4x8xf32>
          @A@.yield %d : tile<4x8xf32>
        }) : @CT@, @ITER@ -> @CT@, tile<4x8xf32>
        @A@.consumer_release %t1#0 : @CT@
        @A@.yield %t1#1 : tile<4x8xf32>
      }) : @PIPE@, @ITER@ -> tile<4x8xf32>
      nv_tileas.tiled_store %w[%i, %0], %y : @VIEW@, tile<4x8xf32>, index, index
      %next = @A@.inc_iter %it : @ITER@ -> @ITER@
      scf.yield %next : @ITER@
    }
    @A@.yield
  })
"""
)


def turns(change: str = "") -> str:
    """The module with the turns; a change is `old=>new`."""
    old, _, new = change.partition("=>")
    assert old in TURNS, old
    return kernel(TURNS.replace(old, new) if old else TURNS)


def test_tiles_go_through_a_pipeline_of_two_agents():
    source, target, args = matrices(8, 8)
    libtile.run(libtile.parse(turns()), args=args)
    assert np.array_equal(target, 2 * source)


BROKEN = {
    "the stage is not released": (
        "        @A@.consumer_release %t1#0 : @CT@\n=>",
        None,
    ),
    "nothing is committed": ("        @A@.producer_commit %t1#0 : @PT@\n=>", FaultKind.DEADLOCK),
    "committed twice": (
        "@A@.producer_commit %t1#0 : @PT@\n=>@A@.producer_commit %t1#0 : @PT@\n @A@.producer_commit %t1#0 : @PT@\n",
        FaultKind.PIPELINE,
    ),
    "committed before it is written": (
        "%t1:2 = @A@.producer_write=>@A@.producer_commit %t0 : @PT@\n        %t1:2 = @A@.producer_write",
        FaultKind.PIPELINE,
    ),
    "written twice": (
        "        @A@.producer_commit %t1#0 : @PT@\n=>"
        "        %t2:2 = @A@.producer_write %t1#0, %it ({\n        ^bb0(%slot: tensor<4x8xf32>):\n"
        "          @A@.yield %slot : tile<4x8xf32>\n        }) : @PT@, @ITER@ -> @PT@, tile<4x8xf32>\n"
        "        @A@.producer_commit %t2#0 : @PT@\n",
        FaultKind.PIPELINE,
    ),
    "released and not read": (
        "@A@.consumer_wait %pipe, %it : @PIPE@, @ITER@ -> @CT@\n=>"
        "@A@.consumer_wait %pipe, %it : @PIPE@, @ITER@ -> @CT@\n        @A@.consumer_release %t0 : @CT@\n",
        FaultKind.PIPELINE,
    ),
    "released twice": (
        "@A@.consumer_release %t1#0 : @CT@\n=>@A@.consumer_release %t1#0 : @CT@\n @A@.consumer_release %t1#0 : @CT@\n",
        FaultKind.PIPELINE,
    ),
    "an iterator that stands still": (
        "%next = @A@.inc_iter %it : @ITER@ -> @ITER@\n      scf.yield %next=>scf.yield %it",
        FaultKind.PIPELINE,
    ),
    "written at another turn": (
        "        %t1:2 = @A@.producer_write %t0, %it=>"
        "        %far = @A@.inc_iter %it : @ITER@ -> @ITER@\n        %t1:2 = @A@.producer_write %t0, %far",
        FaultKind.PIPELINE,
    ),
    "waiting with turns pending that are not there": (
        "@A@.consumer_wait %pipe, %it :=>@A@.consumer_wait %pipe, %it {pending = 1} :",
        FaultKind.PIPELINE,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_misused_pipeline_is_a_fault_at_its_place(name):
    change, kind = BROKEN[name]
    args = matrices(8, 8)[2]
    text = turns(change)
    if kind is None:  # two stages for two turns: all is well until there is a third
        libtile.run(libtile.parse(text), args=args)
        text = text.replace("%n = arith.constant 2", "%n = arith.constant 3")
        found, kind = fault(text, matrices(12, 8)[2]), FaultKind.DEADLOCK
    else:
        found = fault(text, args, verify=False)  # which finds most of these itself
    assert found.kind is kind, found
    assert found.location is not None and found.location.filename == "k.mlir"


# -- asynchronous copies ----------------------------------------------------------------------------------------------

COPY = (
    VIEWS
    + """
  %b = nv_tileas.alloc_tensor : @BUF@
  %t = nv_tileas.async.tiled_load %v[%1, %1], %b : @VIEW@, @BUF@, index, index -> !nv_tileas.async_token
  %g = nv_tileas.async.commit_group %t : !nv_tileas.async_token -> !nv_tileas.async_token
  nv_tileas.async.wait %g : !nv_tileas.async_token
  %x = nv_tileas.copy %b : @BUF@ -> tile<4x8xf32>
  nv_tileas.tiled_store %w[%1, %1], %x : @VIEW@, tile<4x8xf32>, index, index
"""
)


def test_an_asynchronous_copy_that_is_waited_for_arrives():
    source, target, args = matrices()
    libtile.run(libtile.parse(kernel(COPY)), args=args)
    expected = np.zeros_like(source)
    expected[4:, 8:] = source[4:, 8:]
    assert np.array_equal(target, expected)


def test_a_buffer_is_not_used_before_its_copy_is_waited_for():
    found = fault(kernel(COPY.replace("  nv_tileas.async.wait %g : !nv_tileas.async_token\n", "")), matrices()[2])
    assert found.kind is FaultKind.RACE
    assert found.op == "nv_tileas.copy"
    assert "before an asynchronous load on it has been waited for" in str(found)


def test_a_copy_with_offsets_moves_a_part_of_a_buffer():
    """Halves of a tile are swapped: written to the other half's place, and read back."""
    body = (
        VIEWS
        + """
      %x = nv_tileas.tiled_load %v[%1, %1] : @VIEW@, index, index -> tile<4x8xf32>
      %b = nv_tileas.alloc_tensor : @BUF@
      %l = nv_tileaa.extract_slice %x {offsets = array<i64: 0, 0>} : tile<4x8xf32> -> tile<4x4xf32>
      %r = nv_tileaa.extract_slice %x {offsets = array<i64: 0, 4>} : tile<4x8xf32> -> tile<4x4xf32>
      nv_tileas.copy %l, %b {offsets = array<i64: 0, 4>} : tile<4x4xf32>, @BUF@
      nv_tileas.copy %r, %b {offsets = array<i64: 0, 0>} : tile<4x4xf32>, @BUF@
      %u = nv_tileas.copy %b {offsets = array<i64: 0, 0>} : @BUF@ -> tile<4x4xf32>
      %d = nv_tileas.copy %b {offsets = array<i64: 0, 4>} : @BUF@ -> tile<4x4xf32>
      %s = nv_tileaa.cat %u, %d {dim = 1} : tile<4x4xf32>, tile<4x4xf32> -> tile<4x8xf32>
      nv_tileas.tiled_store %w[%1, %1], %s : @VIEW@, tile<4x8xf32>, index, index
    """
    )
    source, target, args = matrices()
    libtile.run(libtile.parse(kernel(body)), args=args)
    assert np.array_equal(target[4:, 8:], np.roll(source[4:, 8:], 4, axis=1))


def test_a_buffer_that_nobody_wrote_is_not_read():
    body = (
        VIEWS
        + """
      %b = nv_tileas.alloc_tensor : @BUF@
      %x = nv_tileas.copy %b : @BUF@ -> tile<4x8xf32>
    """
    )
    assert fault(kernel(body), matrices()[2]).kind is FaultKind.UNINITIALISED


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_memrefs_are_accessed_by_index_by_box_and_by_tiles_of_indices():
    body = """
      %2 = arith.constant 2 : index
      %3 = arith.constant 3 : index
      %s = nv_tileaa.load %m[%2, %3] : @MEM@, index, index -> f32
      %f = nv_tileaa.splat %s : f32 -> tile<2x4xf32>
      %b = nv_tileaa.load %m[%2, %3] : @MEM@, index, index -> tile<2x4xf32>
      %x = nv_tileaa.addf %f, %b : tile<2x4xf32>, tile<2x4xf32> -> tile<2x4xf32>
      nv_tileaa.store %o[%2, %3], %x : @MEM@, tile<2x4xf32>, index, index
      %r = nv_tileaa.make_range {start = 1} : tile<4xindex>
      %d = nv_tileaa.load %m[%r, %r] : @MEM@, tile<4xindex>, tile<4xindex> -> tile<4xf32>
      %z = arith.constant 0 : index
      nv_tileaa.store %o[%r, %z], %d : @MEM@, tile<4xf32>, tile<4xindex>, index
    """
    source, target, args = matrices()
    libtile.run(libtile.parse(kernel(body)), args=args)
    expected = np.zeros_like(source)
    expected[2:4, 3:7] = source[2:4, 3:7] + source[2, 3]
    expected[1:5, 0] = source[range(1, 5), range(1, 5)]
    assert np.array_equal(target, expected)


def test_an_access_outside_of_a_memref_is_a_fault():
    body = """
      %9 = arith.constant 9 : index
      %s = nv_tileaa.load %m[%9, %9] : @MEM@, index, index -> f32
    """
    found = fault(kernel(body), matrices()[2])
    assert found.kind is FaultKind.OUT_OF_BOUNDS
    assert "index 9 of dimension 0 is not below 8" in str(found)


def test_a_tile_beyond_its_view_is_padded_and_cut():
    body = """
      %v = nv_tileaa.block_tile %m @GROUPS@ : @MEM@ -> @PAD@
      %w = nv_tileaa.block_tile %o @GROUPS@ : @MEM@ -> @VIEW@
      %1 = arith.constant 1 : index
      %x = nv_tileaa.tiled_load %v[%1, %1] : @PAD@, index, index -> tile<4x8xf32>
      %c = nv_tileaa.constant {value = dense<1.0> : !cuda_tile.tile<4x8xf32>} : tile<4x8xf32>
      %s, %t = nv_tileaa.reduce %x, %c {dim = 0, identities = [0.0 : f32, 0.0 : f32]} ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>, %e: tensor<f32>, %f: tensor<f32>):
        %g = nv_tileaa.maxf %a, %e : tile<f32>, tile<f32> -> tile<f32>
        %h = nv_tileaa.addf %b, %f : tile<f32>, tile<f32> -> tile<f32>
        nv_tileaa.yield %g, %h : tile<f32>, tile<f32>
      }) : tile<4x8xf32>, tile<4x8xf32> -> tile<8xf32>, tile<8xf32>
      %y = nv_tileaa.addf %s, %t : tile<8xf32>, tile<8xf32> -> tile<8xf32>
      %z = nv_tileaa.view %y : tile<8xf32> -> tile<1x8xf32>
      %u = nv_tileaa.broadcast %z : tile<1x8xf32> -> tile<4x8xf32>
      nv_tileaa.tiled_store %w[%1, %1], %u : @VIEW@, tile<4x8xf32>, index, index
    """
    source, target, args = matrices(6, 13)
    padded = f"!nv_tileaa.tiled_view<{MEMORY}, 4x8, #nv_tileaa.tiling<padding=neg_inf>>"
    libtile.run(libtile.parse(kernel(body, PAD=padded)), args=args)
    expected = np.zeros_like(source)
    expected[4:, 8:] = source[4:, 8:].max(axis=0) + 4
    assert np.array_equal(target, expected)


def test_functions_are_called_and_the_grid_is_asked():
    text = f"""
    nv_tileaa.func @f(%x: index, %y: index) -> index {{
      %s = arith.addi %x, %y : index
      nv_tileaa.return %s : index
    }}
    nv_tileaa.func @k(%o: {MEMORY}) {SPEC} {{
      %i = nv_tileaa.get_program_id {{axis = 0}} : index
      %n = nv_tileaa.get_num_programs {{axis = 1}} : index
      %a = nv_tileaa.call %i, %n {{callee = @f}} : index, index -> index
      %b = nv_tileaa.call %a, %a {{callee = @f}} : index, index -> index
      %w = arith.index_cast %b : index to i32
      %f = nv_tileaa.int_to_fp %w : i32 -> f32
      %z = arith.constant 0 : index
      nv_tileaa.store %o[%i, %z], %f : {MEMORY}, f32, index, index
      nv_tileaa.return
    }}
    """
    target = np.zeros((4, 1), np.float32)
    libtile.run(libtile.parse(text), grid=(4, 2), args=[target, 4, 1, 1, 1])
    assert target[:, 0].tolist() == [4, 6, 8, 10]


GIVEN = f"""
!q = !nv_tileaa.queue<(f32)>
nv_tileaa.func @k(%o: {MEMORY}, %x: f32, %i: index) {SPEC} {{
  %0 = arith.constant 0 : index
  %q = nv_tileaa.create_queue {{depth = 1}} : !q
  RESULTSnv_tileaa.execute %q, %x, %i {{agent_warps = [1, 4]}} ({{
  ^bb0(%mine: !q, %y: f32, %j: index):
    nv_tileaa.queue.put %mine ({{
      nv_tileaa.queue.yield %y : f32
    }}) : !q
    nv_tileaa.yield
  }}, {{
  ^bb0(%mine: !q, %y: f32, %j: index):
    %z = nv_tileaa.queue.get %mine ({{
    ^bb0(%a: f32):
      %b = nv_tileaa.addf %a, %y : f32, f32 -> f32
      nv_tileaa.queue.yield %b : f32
    }}) : !q -> f32
    nv_tileaa.store %o[%j, %0], %z : {MEMORY}, f32, index, index
    YIELD
  }}) : !q, f32, indexTYPES
  BEHIND
  nv_tileaa.return
}}
"""


@pytest.mark.parametrize("options", [{}, {"backend": "simulator", "gpu_name": "sm_90", "check": "full"}])
def test_agents_are_given_operands_and_give_results(options):
    """What they yield is there behind them."""
    text = GIVEN.replace("RESULTS", "").replace("TYPES", "").replace("YIELD", "nv_tileaa.yield").replace("BEHIND", "")
    target = np.zeros((4, 1), np.float32)
    libtile.run(libtile.parse(text), args=[target, 4, 1, 1, 1, 2.5, 2], **options)
    assert target[:, 0].tolist() == [0, 0, 5, 0]
    text = GIVEN.replace("RESULTS", "%r, %n = ").replace("TYPES", " -> f32, index")
    text = text.replace("YIELD", "nv_tileaa.yield %z, %j : f32, index")
    text = text.replace("BEHIND", f"nv_tileaa.store %o[%0, %0], %r : {MEMORY}, f32, index, index")
    libtile.run(libtile.parse(text), args=[target, 4, 1, 1, 1, 1.5, 3], **options)
    assert target[:, 0].tolist() == [3, 0, 5, 3]


HOST = f"""
nv_tileaa.func @add(%o: {MEMORY}, %x: f32) {SPEC} {{
  %i = nv_tileaa.get_program_id {{axis = 0}} : index
  %0 = arith.constant 0 : index
  %v = nv_tileaa.tiled_load %o[%i, %0] : {MEMORY}, index, index -> tile<1x8xf32>
  %s = nv_tileaa.splat %x : f32 -> tile<1x8xf32>
  %w = nv_tileaa.addf %v, %s : tile<1x8xf32>, tile<1x8xf32> -> tile<1x8xf32>
  nv_tileaa.tiled_store %o[%i, %0], %w : {MEMORY}, tile<1x8xf32>, index, index
  nv_tileaa.return
}}
nv_tileaa.func @host(%o: {MEMORY}, %x: f32, %rows: index) {{
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  nv_tileaa.launch_func %rows, %1, %1, %o, %x {{kernel = @add}} : index, index, index, {MEMORY}, f32
  scf.for %i = %1 to %3 step %1 {{
    nv_tileaa.launch_func %2, %1, %1, %o, %x {{kernel = @add}} : index, index, index, {MEMORY}, f32
  }}
  nv_tileaa.return
}}
"""


@pytest.mark.parametrize("options", [{}, {"backend": "simulator"}])
def test_a_host_function_launches_kernels_one_after_the_other(options):
    target = np.zeros((4, 8), np.float32)
    libtile.run(libtile.parse(HOST), "host", args=[target, 4, 8, 8, 1, 1.5, 4], **options)
    assert np.array_equal(target, np.repeat(np.float32([4.5, 4.5, 1.5, 1.5]), 8).reshape(4, 8))


COUNTED = f"""
nv_tileaa.global {{sym_name = "g", value = dense<5> : !cuda_tile.tile<1xi32>}}
nv_tileaa.func @count(%o: !nv_tileaa.ptr<i32, 1>) {SPEC} {{
  %g = nv_tileaa.get_global {{name = @g}} : !nv_tileaa.ptr<i32, 1>
  %1 = arith.constant 1 : i32
  %n, %t = nv_tileaa.load %g : !nv_tileaa.ptr<i32, 1> -> i32, !nv_tileaa.mem_token
  %m = arith.addi %n, %1 : i32
  %u = nv_tileaa.store %g, %m, %t : !nv_tileaa.ptr<i32, 1>, i32, !nv_tileaa.mem_token -> !nv_tileaa.mem_token
  nv_tileaa.store %o, %m : !nv_tileaa.ptr<i32, 1>, i32
  nv_tileaa.return
}}
nv_tileaa.func @host(%o: !nv_tileaa.ptr<i32, 1>) {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %3 = arith.constant 3 : index
  scf.for %i = %0 to %3 step %1 {{
    nv_tileaa.launch_func %1, %1, %1, %o {{kernel = @count}} : index, index, index, !nv_tileaa.ptr<i32, 1>
  }}
  nv_tileaa.return
}}
"""


@pytest.mark.parametrize("options", [{}, {"backend": "simulator"}])
def test_launches_find_what_earlier_ones_left_in_variables(options):
    target = np.zeros(1, np.int32)
    libtile.run(libtile.parse(COUNTED), "host", args=[target], **options)
    assert target == 8


def test_a_host_function_is_named_and_has_no_grid():
    args = [np.zeros((4, 8), np.float32), 4, 8, 8, 1, 1.5, 4]
    with pytest.raises(libtile.LibtileError, match="@host is a host function, which runs once"):
        libtile.run(libtile.parse(HOST), "host", grid=2, args=args)
    found = fault(HOST, [*args[:-1], 0], kernel="host")
    assert found.op == "nv_tileaa.launch_func"
    assert "the grid (0, 1, 1) has no tile blocks" in str(found)


def test_what_the_interpreter_does_not_look_for_in_these_modules_is_said():
    _, _, args = matrices()
    with pytest.raises(libtile.LibtileError, match="the interpreter of the inner dialects has no check 'race'"):
        libtile.run(libtile.parse(kernel(COPY)), args=args, check="full,race")


def test_an_op_without_a_meaning_here_is_named():
    body = """
      %x = nv_tileaa.elementwise_inline_asm {asm_string = "mov.u32 $0, 1;", constraints = "=r"} : i32
    """
    found = fault(kernel(body), matrices()[2])
    assert (found.kind, found.op) == (FaultKind.UNSUPPORTED, "nv_tileaa.elementwise_inline_asm")


def test_a_descriptor_that_no_host_code_makes_is_named():
    body = """
      %d = nv_tileas.get_tma_desc {tmaIdx = 2} : !nv_tileas.tma_desc<!nv_tileaa.memref<8x64xf32, 1>, [32, 8]>
    """
    found = fault(kernel(body), matrices()[2])
    assert (found.kind, found.op) == (FaultKind.UNSUPPORTED, "nv_tileas.get_tma_desc")
    assert "no host code makes descriptor 2" in str(found)


NOT_RUN = {
    "nv_tileaa.elementwise_inline_asm", "nv_tileaa.inject_ir",
}  # fmt: skip
"""Ops without a rule, which the interpreter's page lists."""


def test_every_op_runs_or_is_listed():
    import libtile.asm.dialect  # noqa: F401  (registers the ops)
    from libtile.interpreter.inner_codegen import STRUCTURE
    from libtile.interpreter.inner_table import RULES
    from libtile.ir.tile_form import OP_CLASSES

    runs = {*RULES, *STRUCTURE, "nv_tileaa.func", "nv_tileaa.global"}
    assert set(OP_CLASSES) - runs == NOT_RUN
    page = (Path(__file__).resolve().parents[2] / "docs" / "interpreter.md").read_text()
    assert all(f"`{name.partition('.')[2]}`" in page for name in NOT_RUN)
