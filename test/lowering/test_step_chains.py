# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops whose products read what others gave, and what the loop carries: wgmma and tcgen05, with computed operands in
registers, or brought to shared memory."""

import re

import cuda.tile as ct
import numpy as np
import pytest
from step_kernels import arguments, bytecode, run

import libtile
from kernels.broken_code import OneBlock

CASES = [("carried", (64, 64), 200), ("fading", (64, 64), 200)]
TARGETS = ("sm_90", "sm_100")


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(("name", "tile", "rows"), CASES)
def test_products_that_feed_each_other_give_what_numpy_gives(name, tile, rows, gpu_name):
    code = libtile.compile(bytecode(name, tile, gpu_name), gpu_name=gpu_name, emit="tileas").tileas
    assert "not_specialized" not in code and "nv_tileas.dot " not in code and "async.dot" in code
    run(name, tile, rows, gpu_name, order=1)


SHARED = [("carried", (64, 128), 136), ("keys_first", (64, 256), 80)]


@pytest.mark.parametrize(("name", "tile", "_"), SHARED)
def test_two_warpgroups_share_columns_of_what_one_has_no_registers_for(name, tile, _):
    """Results of 64 rows, beside others of which one warpgroup's threads would hold too much."""
    made = libtile.compile(bytecode(name, tile, "sm_90"), gpu_name="sm_90", launch_abi="simt", keep_text=True)
    assert made.tileas.count("nv_tileas.async.dot ") == 4 and "nv_tileas.dot " not in made.tileas
    assert made.kernels[name].spills == 0 and made.kernels[name].block_dim == (384, 1, 1) and "(C75" not in made.log


def test_products_of_shared_columns_give_what_numpy_gives():
    name, tile, rows = SHARED[0]
    run(name, tile, rows, "sm_90", order=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("name", "tile", "rows"), SHARED)
def test_products_of_shared_columns_in_every_schedule(name, tile, rows, seed):
    run(name, tile, rows + 16 * (seed % 5), "sm_90", order=seed)


@pytest.mark.parametrize("order", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 22))])
def test_results_of_64_rows_lie_two_by_two_in_the_columns_of_tensor_memory(order):
    """Two sums of 256 columns and two results of 32: one behind the other they would take more than there are."""
    name, tile, rows = SHARED[1]
    if order == 1:
        code = libtile.compile(bytecode(name, tile, "sm_100"), gpu_name="sm_100", emit="tileas").tileas
        storage = [
            line for line in code.splitlines() if re.search(r"= nv_tileas.alloc_tensor .*64x(32|256)xf32, tmem", line)
        ]
        places = [(re.findall(r"tensor_offset = (\d+)", s), re.findall(r"tensor_lane = (\d+)", s)) for s in storage]
        assert places == [(["0"], []), (["0"], ["16"]), (["32"], []), (["32"], ["16"])]
        assert code.count("async.dot_into") == 4 and "nv_tileas.dot " not in code
    run(name, tile, rows + 16 * (order % 5), "sm_100", order=order)


FEW_ROWS = [((64, 64), 80), pytest.param((64, 128), 80, marks=pytest.mark.slow)]


@pytest.mark.parametrize("order", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 22))])
@pytest.mark.parametrize(("tile", "rows"), FEW_ROWS)
def test_a_product_of_few_rows_beside_others_is_computed_as_its_transpose(tile, rows, order):
    if order == 1:
        code = libtile.compile(bytecode("at_once", tile, "sm_90"), gpu_name="sm_90", emit="tileas").tileas
        assert code.count("nv_tileas.async.dot ") == 5 and "nv_tileas.dot " not in code
    run("at_once", tile, rows, "sm_90", order=order)


@pytest.mark.parametrize("order", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 22))])
def test_sums_that_are_carried_around_their_loop_take_registers_once(order):
    """Two blocks of a multiprocessor leave a thread 128 registers, with those that the producer gives away more."""
    data = bytecode("groups", (64, 64), "sm_90")
    if order == 1:
        made = libtile.compile(data, gpu_name="sm_90", launch_abi="simt", keep_text=True)
        assert "nv_tileas.dot " not in made.tileas and "agent_registers = [232, 24]" in made.tileas
        assert made.kernels["groups"].block_dim == (256, 1, 1)
    run("groups", (64, 64), 2 * 64 if order == 1 else 4 * 64, "sm_90", order=order)


@pytest.mark.slow
def test_a_loop_over_heads_around_them():
    """All agents go from one head to the next."""
    for gpu_name in TARGETS:
        text = libtile.compile(bytecode("heads", (64, 64), gpu_name), gpu_name=gpu_name, emit="tileas").tileas
        assert "not_specialized" not in text and "async.dot" in text
        run("heads", (64, 64), 3 * 64 * 2, gpu_name, order=1)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("seed", range(20))
def test_a_loop_over_heads_in_every_schedule(seed, gpu_name):
    run("heads", (64, 64), 3 * 64 * (seed % 4), gpu_name, order=seed)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("name", "tile", "rows"), CASES)
def test_products_that_feed_each_other_in_every_schedule(name, tile, rows, seed, gpu_name):
    run(name, tile, rows + 16 * (seed % 5), gpu_name, order=seed)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_two_warpgroups_share_what_they_bring(gpu_name):
    run("carried", (128, 128), 300, gpu_name, order=1)


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("rows", [0, 24])
def test_no_step_and_one_step(rows, gpu_name):
    run("carried", (64, 64), rows, gpu_name)


@pytest.mark.parametrize(
    ("gpu_name", "left_out", "behind"),
    [
        ("sm_90", r"fence\.proxy\.async", "wgmma.mma_async"),  # the first product needs nothing that is computed
        ("sm_90", r"wgmma\.wait_group", "wgmma.mma_async"),
        ("sm_100", r"fence\.proxy\.async", "tcgen05.ld"),  # of what is carried, which goes to a bridge
        ("sm_100", r"tcgen05\.wait::ld", "tcgen05.ld"),
    ],
)
def test_what_is_left_out_is_found(gpu_name, left_out, behind):
    """Products read what threads have written behind a fence of proxies, and mask what is there behind a wait."""
    given, _, _ = arguments("carried", (64, 64), 192)
    args = [np.int32(v) if isinstance(v, int) else v for v in given]
    code = OneBlock(bytecode("carried", (64, 64), gpu_name), "carried", args, gpu_name)
    code.fault_without(re.compile(left_out + r"[^\n]*;").search(code.ptx, code.ptx.index(behind)))


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_code_of_linear_attention(gpu_name):
    """Blocks of 128 rows of 128: by mma.sync there were 2,848 bytes of spills. ptxas adds no wait."""
    made = libtile.compile(bytecode("carried", (128, 128), gpu_name, ct.float16), gpu_name=gpu_name)
    assert made.kernels["carried"].spills == 0 and "(C75" not in made.log


@pytest.mark.parametrize("order", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 12))])
def test_products_of_registers_read_a_tile_in_each_layout_where_they_first_use_it(order):
    """Queries and values of a step, each of which two products read, one of them as it is and one transposed."""
    name, tile = "keys_first", (64, 64)
    if order == 1:
        made = libtile.compile(bytecode(name, tile, "sm_120"), gpu_name="sm_120", keep_text=True)
        ops = re.findall(r"consumer_(wait|read|release)|nv_tileas\.(dot)", made.tileas)
        assert " ".join(map("".join, ops)) == "wait read dot wait read dot read dot release read dot release"
        assert made.kernels[name].spills == 0
    run(name, tile, 112, "sm_120", order=order)
