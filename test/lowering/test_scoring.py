# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops that reduce each product along its rows: the kernel's warps keep rows from one to the next, beside agents."""

import pytest
from scoring_kernels import bytecode, run

import libtile

TARGETS = ("sm_90", "sm_100", "sm_120")
CASES = [("cross_entropy", (64, 64, 64), (72, 136, 104))]


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(("name", "tile", "size"), CASES)
def test_they_have_agents_and_give_what_numpy_gives(name, tile, size, gpu_name):
    code = libtile.compile(bytecode(name, tile, gpu_name), gpu_name=gpu_name, emit="tileas").tileas
    assert "not_specialized" not in code and "agent_switch" in code
    run(name, tile, size, gpu_name, order=1)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("name", "tile", "size"), CASES)
def test_they_do_in_every_schedule(name, tile, size, seed, gpu_name):
    rows, others, depth = size
    run(name, tile, (rows, others + 16 * (seed % 5), depth + 8 * (seed % 3)), gpu_name, order=seed)


@pytest.mark.parametrize("gpu_name", TARGETS[:2])
def test_one_tile_of_scores(gpu_name):
    run("cross_entropy", (64, 64, 64), (8, 1, 64), gpu_name)


@pytest.mark.parametrize("gpu_name", TARGETS[1:])
def test_an_address_that_depends_on_a_tile_carried_around_the_loop(gpu_name):
    """It is each thread's of the kernel's warps, and no other agent has it."""
    code = libtile.compile(bytecode("led", (64, 64, 64), gpu_name), gpu_name=gpu_name, emit="tileas").tileas
    assert 'not_specialized = "an address depends on a tile that is carried around its loop"' in code
    assert "agent_switch" not in code
