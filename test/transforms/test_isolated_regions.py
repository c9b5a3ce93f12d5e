# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes put no value from around it into a region that may use none."""

from __future__ import annotations

import pytest

import libtile
from generators.check import failure_behind_pipelines
from generators.pipelines import NAMED
from generators.programs import QUEUES, program
from libtile.dialects.interfaces import is_isolated
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline

CONSTANT = "nv_tileaa.constant {value = dense<2.0> : !cuda_tile.tile<64xf32>} : tile<64xf32>"


def kernel(isolated: bool) -> str:
    queue = f"!nv_tileaa.queue<(tile<64xf32>){', isolated' if isolated else ''}>"
    return f"""
nv_tileaa.func @k() attributes {{kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>}} {{
  %x = {CONSTANT}
  %q = nv_tileaa.create_queue {{depth = 2}} : {queue}
  nv_tileaa.queue.put %q ({{
    %y = {CONSTANT}
    %z = {CONSTANT}
    %s = nv_tileaa.addf %y, %z : tile<64xf32>, tile<64xf32> -> tile<64xf32>
    nv_tileaa.queue.yield %s : tile<64xf32>
  }}) : {queue}
  nv_tileaa.return
}}
"""


@pytest.mark.parametrize(("isolated", "left"), [(True, 2), (False, 1)])
def test_what_is_computed_around_an_isolated_queue_is_computed_again_inside(isolated: bool, left: int) -> None:
    module = libtile.parse(kernel(isolated))
    PassManager(parse_pipeline("cse")).run(module.op)
    libtile.verify(module)
    ops = list(module.op.walk())
    assert sum(op.name == "nv_tileaa.constant" for op in ops) == left
    assert [is_isolated(op) for op in ops if op.name == "nv_tileaa.queue.put"] == [isolated]


@pytest.mark.parametrize("seed", [78039, pytest.param(78006, marks=pytest.mark.slow)])
def test_random_programs_of_queues_write_the_same_memory_behind_passes_of_tile_ir(seed: int) -> None:
    assert failure_behind_pipelines(program(seed, QUEUES), ["cse", "licm", *NAMED]) == []
