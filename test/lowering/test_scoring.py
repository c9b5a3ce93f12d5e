# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops that reduce each product along its rows: the kernel's warps keep rows from one to the next, beside agents."""

import pytest
from scoring_kernels import bytecode, run

import libtile

TARGETS = ("sm_90", "sm_100", "sm_120")
CASES = [
    ("cross_entropy", (64, 64, 64), (72, 136, 104)),
    ("nearest", (64, 64, 64), (72, 200, 56)),
    ("nearest_of_all", (64, 64, 64), (264, 136, 56)),
    ("normed", (64, 64, 64), (72, 64, 136)),
]


@pytest.mark.parametrize("gpu_name", TARGETS[:2])
@pytest.mark.parametrize(("name", "size"), [("cross_entropy", (8, 72, 72)), ("nearest_of_all", (136, 72, 56))])
def test_they_give_what_numpy_gives(name, size, gpu_name):
    run(name, (64, 64, 64), size, gpu_name, order=1)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(("name", "tile", "size"), CASES)
def test_they_have_agents(name, tile, size, gpu_name):
    code = libtile.compile(bytecode(name, tile, gpu_name), gpu_name=gpu_name, emit="tileas").tileas
    assert "not_specialized" not in code and "agent_switch" in code
    run(name, tile, size, gpu_name, order=1)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("name", "tile", "size"), CASES)
def test_they_do_in_every_schedule(name, tile, size, seed, gpu_name):
    rows, others, depth = size
    more = (16 * (seed % 5), 0) if name.startswith("nearest") else (0, 8 * (seed % 3))
    run(name, tile, (rows, others + more[0], depth + more[1]), gpu_name, order=seed)


@pytest.mark.parametrize("gpu_name", TARGETS[1:2])
def test_an_address_that_depends_on_a_tile_carried_around_the_loop(gpu_name):
    """It is each thread's of the kernel's warps, and no other agent has it."""
    code = libtile.compile(bytecode("led", (64, 64, 64), gpu_name), gpu_name=gpu_name, emit="tileas").tileas
    assert 'not_specialized = "an address depends on a tile that is carried around its loop"' in code
    assert "agent_switch" not in code


@pytest.mark.parametrize("gpu_name", TARGETS[:2])
def test_warps_read_what_products_read_from_one_copy(gpu_name):
    """The tile of each step comes once, by TMA; that of x, which is there before the loop, is brought once."""
    code = libtile.compile(bytecode("nearest", (128, 128, 64), gpu_name), gpu_name=gpu_name, emit="tileas").tileas
    assert code.count("nv_tileas.async.tiled_tma_load") == 1
    assert code.count("nv_tileas.tiled_load") == 1
    assert ("consumers=2" in code) is (gpu_name == "sm_100")


def test_what_is_loaded_once_for_each_loop_of_products_stays_with_the_warps():
    """The producer runs ahead with the tiles of the inner loop alone."""
    code = libtile.compile(bytecode("nearest_of_all", (64, 64, 64), "sm_120"), gpu_name="sm_120", emit="tileas").tileas
    warps, producer = code.split("agent_switch", 1)[1].split("producer_acquire", 1)
    assert warps.count("nv_tileas.tiled_load") == 1 and "async.tiled_tma_load" not in warps
    assert producer.count("async.tiled_tma_load") == 1 and "nv_tileas.tiled_load" not in producer


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", ["cross_entropy", "nearest", "nearest_of_all", "normed"])
def test_large_tiles(name, gpu_name):
    """Two warpgroups; on sm_100 two results at a time."""
    run(name, (128, 128, 64), (136, 128 if name == "normed" else 264, 64), gpu_name, order=2)
