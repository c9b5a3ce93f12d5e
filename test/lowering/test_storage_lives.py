# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What lives in shared memory at the same time lies apart, and lives are no longer than they have to be."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from test_pipelines import HEAD, SETUP, STORE, VIEW_B
from tma_programs import TWO_VIEWS

import libtile
from libtile.lowering.tileas.memory import allocate, storage_lives
from libtile.lowering.tileas.memory.shared_barriers import Needed
from libtile.simulator import SimulationFault

SEEDS = 20

# -- a tile that is kept over a loop --------------------------------------------------------------------------------

KEPT = "partition_view<tile=(32x32), tensor_view<32x32xf16, strides=[32,1]>>"
PRODUCT_OF_ONE = f"""{SETUP}
    %ta1 = make_tensor_view %pa, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf16, strides=[32,1]>
    %va1 = make_partition_view %ta1 : {KEPT}
    %a, %t0 = load_view_tko weak %va1[%zero, %zero] : {KEPT}, tile<i32> -> tile<32x32xf16>, token
    %r = {HEAD} iter_values(%c = %none) -> (tile<32x64xf32>) {{
      %b, %t1 = load_view_tko weak %vb[%i, %zero] : {VIEW_B}, tile<i32> -> tile<32x64xf16>, token
      %d = mmaf %a, %b, %c : tile<32x32xf16>, tile<32x64xf16>, tile<32x64xf32>
      continue %d : tile<32x64xf32>
    }}
{STORE}"""
STAGE = 32 * 64 * 2
STAGES = 4


def product_of_one() -> libtile.Module:
    """The tile `a`, which threads exchange in front of the loop, times each of those that come through a ring."""
    parameters = "%pa0: tile<ptr<f16>>, %pb0: tile<ptr<f16>>, %pc: tile<ptr<f32>>, %k: tile<i32>"
    bounds = "%lower: tile<i32>, %upper: tile<i32>, %step: tile<i32>"
    return libtile.parse(
        f"cuda_tile.module @m {{\n entry @k({parameters}, {bounds}) {{\n{PRODUCT_OF_ONE}\n return\n }}\n}}\n"
    )


def run_product(seed: int | None, gpu_name: str = "sm_80", trips: int = 6) -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((32, 32), (32 * trips, 64)))
    c = np.full((32, 64), 7, np.float32)
    libtile.run(product_of_one(), "k", args=[a, b, c, 32 * trips, 0, trips, 1], backend="simulator",
                gpu_name=gpu_name, check="full", block_order=seed)  # fmt: skip
    wanted = sum(a.astype(np.float32) @ b[32 * i : 32 * (i + 1)].astype(np.float32) for i in range(trips))
    np.testing.assert_array_equal(c, wanted)


def compiled(gpu_name: str = "sm_80", **options: object) -> libtile.Compiled:
    return libtile.compile(product_of_one(), gpu_name=gpu_name, emit="tileas", **options)


def exchanged(text: str) -> list[int]:
    """Where the exchanges of conversions begin."""
    return [int(n) for n in re.findall(r"convert_layout .*?exchanges<\[(?:meet )?(\d+) :", text)]


def test_an_exchange_in_front_of_a_loop_lies_in_the_stage_that_is_filled_last():
    made = compiled().tileas
    assert f"shared_bytes = {STAGES * STAGE}" in made
    assert exchanged(made)[0] >= (STAGES - 1) * STAGE


def test_it_lies_beside_the_ring_where_another_barrier_would_be_needed(monkeypatch):
    monkeypatch.setattr(Needed, "no_more_than", lambda self, other: False)
    made = compiled().tileas
    assert exchanged(made)[0] >= STAGES * STAGE


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_the_product_is_right(gpu_name, seed):
    run_product(seed, gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("trips", [0, 1, 6])
def test_the_product_is_right_in_every_schedule(gpu_name, trips):
    for seed in range(SEEDS):
        run_product(seed, gpu_name, trips)


# -- copies that are under way --------------------------------------------------------------------------------------

TILE = "{allow_tma, atom = #nv_tileas.copy_atom<tma_store, box=[32,8]>}"
SWAPPED = f"""{TWO_VIEWS}  %x = nv_tileas.tiled_load %v[%zero, %one] : !v, i32, i32 -> !t
  %y = nv_tileas.tiled_load %v[%zero, %zero] : !v, i32, i32 -> !t
  nv_tileas.tiled_store %w[%zero, %zero], %x {TILE} : !v, !t, i32, i32
  nv_tileas.tiled_store %w[%zero, %one], %y {TILE} : !v, !t, i32, i32
  nv_tileaa.return
}}
"""
"""Two tiles change places, by two copies of TMA that are waited for at the end."""


def run_swapped(seed: int | None, gpu_name: str = "sm_90") -> None:
    given = np.arange(8 * 64, dtype=np.float32).reshape(8, 64)
    result = np.zeros_like(given)
    libtile.run(libtile.parse(SWAPPED), "k", grid=(1, 1, 1), args=[given, 8, 64, 64, result], backend="simulator",
                gpu_name=gpu_name, check="full", block_order=seed)  # fmt: skip
    np.testing.assert_array_equal(result, np.hstack([given[:, 32:], given[:, :32]]))


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_buffer_lives_until_the_copy_from_it_is_waited_for(gpu_name, seed):
    made = libtile.compile(libtile.parse(SWAPPED), gpu_name=gpu_name, emit="tileas").tileas
    first, second = re.findall(r"alloc_tensor \{.*?shared_offset = (\d+)", made)
    assert first != second
    run_swapped(seed, gpu_name)


# -- lives that are too short are found -----------------------------------------------------------------------------


def test_the_simulator_finds_a_buffer_that_is_written_before_the_copy_from_it_is_waited_for(monkeypatch):
    short = tuple(kind for kind in storage_lives._HANDED_ON if kind is not storage_lives.AsyncTokenType)
    monkeypatch.setattr(storage_lives, "_HANDED_ON", short)
    with pytest.raises(SimulationFault, match="has not been waited for"):
        run_swapped(None)


def shorten(monkeypatch, change) -> None:
    """Switch a fault on: the stages of rings without barrier objects have the lives that `change` says."""
    usual = storage_lives.Lives._stages

    def faulty(self, op, each):
        for piece in usual(self, op, each):
            yield replace(piece, life=change(piece.life))

    monkeypatch.setattr(storage_lives.Lives, "_stages", faulty)


def test_the_simulator_finds_stages_that_live_too_short(monkeypatch):
    """Two rings in one loop: that of the outer loop is taken for dead when the one of the inner loop is made."""
    shorten(monkeypatch, lambda life: replace(life, end=life.start))
    with pytest.raises(SimulationFault, match="that an asynchronous copy has not completed"):
        run_nested()


def run_nested() -> None:
    from test_pipelines import test_loads_of_both_an_outer_and_an_inner_loop_run_ahead as nested

    nested()


def test_the_nested_loops_are_right_with_the_lives_as_they_are():
    run_nested()


def test_places_that_overlap_are_refused_by_the_check(monkeypatch):
    """Whoever places by shorter lives than those that the check computes is told."""
    usual = allocate._place

    def at_the_begin(storages):
        total = usual(storages)
        for storage in storages:
            storage.offset = 0
        return total

    monkeypatch.setattr(allocate, "_place", at_the_begin)
    with pytest.raises(libtile.LibtileError, match="of shared memory, while"):
        libtile.compile(libtile.parse(SWAPPED), gpu_name="sm_90", emit="tileas")
