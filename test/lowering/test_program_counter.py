# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of a grid that a counter hands out, on targets whose hardware hands out none: each is run once, some by
blocks that have run another one, and the counter is back at its start behind each launch."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import libtile
from libtile.codegen.program_counter import TABLE
from libtile.compiler.options import Compiled
from libtile.simulator import run_ptx

M = "!nv_tileaa.memref<?x?x?xi32, 1>"
AT = f"{M}, i32, index, index, index"
RUN_ONCE = f"""
nv_tileaa.func @k(%runs: {M}, %turns: {M}) attributes {{
    kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>}} {{
  %first = nv_tileaa.get_program_id {{axis = 0}} : !nv_tileaa.program_id
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %e:2 = scf.while (%p = %first, %turn = %zero) : (!nv_tileaa.program_id, i32) -> (!nv_tileaa.program_id, i32) {{
    %more = nv_tileaa.is_valid_program_id %p : !nv_tileaa.program_id -> i1
    scf.condition(%more) %p, %turn : !nv_tileaa.program_id, i32
  }} do {{
  ^bb0(%p: !nv_tileaa.program_id, %turn: i32):
    %x = nv_tileaa.get_program_id %p {{axis = 0}} : !nv_tileaa.program_id -> index
    %y = nv_tileaa.get_program_id %p {{axis = 1}} : !nv_tileaa.program_id -> index
    %z = nv_tileaa.get_program_id %p {{axis = 2}} : !nv_tileaa.program_id -> index
    %n = nv_tileaa.atomic_rmw %runs[%z, %y, %x], %one {{rmw_mode = #nv_tileaa.rmw_mode<add>,
      mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>}} : {AT} -> i32
    nv_tileaa.store %turns[%z, %y, %x], %turn : {AT}
    %next = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id
    %following = arith.addi %turn, %one : i32
    scf.yield %next, %following : !nv_tileaa.program_id, i32
  }}
  nv_tileaa.return
}}
"""
GRID = (7, 3, 4)
ENTRIES, ENTRY_WORDS, HOME = 128, 4, 2
"""Of the table: its entries, the words of one, and the place of the grid that the simulator runs, which has number
1."""


@cache
def compiled(gpu: str) -> Compiled:
    return libtile.compile(libtile.parse(RUN_ONCE), gpu, emit="ptx", launch_abi="simt")


def launch(gpu: str, variables: dict[str, np.ndarray], order: int | None = None, grid=GRID) -> np.ndarray:
    """The turn of its block in which each program was run, each of them once."""
    made = compiled(gpu)
    runs, turns = (np.zeros(grid[::-1], np.int32) for _ in range(2))
    given = [
        part
        for array in (runs, turns)
        for part in (array, *map(np.int64, array.shape), *(np.int64(s // array.itemsize) for s in array.strides))
    ]
    run_ptx(made.ptx, "k", grid=grid, block=made.kernels["k"].block_dim, args=given, order=order, variables=variables)
    np.testing.assert_array_equal(runs, 1)
    return turns


def words(variables: dict[str, np.ndarray]) -> np.ndarray:
    return variables[TABLE].view(np.uint64)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_launches_one_after_the_other_each_run_every_program_once(gpu):
    variables: dict[str, np.ndarray] = {}
    for _ in range(2):
        turns = launch(gpu, variables)
        assert turns.max() > 0, "no block ran a second program"
        assert not words(variables).any(), "the counter is not at its start again"


def test_a_grid_of_one_program_hands_out_none():
    variables: dict[str, np.ndarray] = {}
    assert launch("sm_80", variables, grid=(1, 1, 1)) == 0
    assert not words(variables).any()


def occupied(places: int) -> np.ndarray:
    """A table in which other grids have these entries, from the own one's place on, which is the first of them."""
    table = np.zeros(ENTRIES * ENTRY_WORDS + 2, np.uint64)
    for n in range(places):
        place = (HOME + n) % ENTRIES * ENTRY_WORDS
        table[place : place + 3] = 1000 + n, 5, 4
    return table


@pytest.mark.parametrize("places", [1, ENTRIES - 1])
def test_a_grid_whose_place_another_one_has_takes_any_other(places):
    table = occupied(places)
    variables = {TABLE: table.copy().view(np.uint8)}
    for _ in range(2):
        assert launch("sm_90", variables).max() > 0
        np.testing.assert_array_equal(words(variables), table)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize("places", [0, 1])
def test_no_schedule_runs_a_program_twice_or_never(gpu, places):
    table = occupied(places)
    for order in range(20):
        variables = {TABLE: table.copy().view(np.uint8)}
        for turn in range(2):
            launch(gpu, variables, order=2 * order + turn)
            np.testing.assert_array_equal(words(variables), table)


def test_variables_of_another_size_are_refused():
    with pytest.raises(libtile.LibtileError, match=f"8 bytes are kept of {TABLE}"):
        launch("sm_80", {TABLE: np.zeros(8, np.uint8)})
