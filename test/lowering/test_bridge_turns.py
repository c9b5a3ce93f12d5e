# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands that warps bring to shared memory take turns there where there is no room for all of them side by side, and
results in tensor memory: in a recurrence with five products, eight of whose operands are computed."""

import re
from itertools import pairwise

import numpy as np
import pytest
from recurrence_kernels import arguments, beside_bytecode, bytecode, run, run_beside

import libtile
from kernels.broken_code import OneBlock
from libtile.lowering.tileas.agents.tile_turns import TileLife, share_stages

TARGETS = ("sm_90", "sm_100")
TURNS = [((64, 128, n), gpu_name) for gpu_name in TARGETS for n in (64, 128)]
"""Chunks of 32-bit operands, and targets on which bridges take turns."""


def life(number: int, first: int, last: int, size: int = 32, kind: int = 4, *, held: bool = False) -> TileLife:
    return TileLife(number, size, kind, first, last, held)


RECURRENCE = [
    life(0, 0, 0),
    life(1, 0, 1, 64),
    life(2, 1, 1),
    life(3, 2, 2),
    life(4, 2, 2),
    life(5, 3, 4),
    life(6, 4, 4),
]


def taken(bridges: list[TileLife], turns: list[list[int]]) -> int:
    sizes = {bridge.number: bridge.size for bridge in bridges}
    return sum(max(sizes[n] for n in stage) for stage in turns)


@pytest.mark.parametrize("missing", [1, 32, 64, 96, 128, 160])
def test_no_more_bridges_take_turns_than_have_to(missing):
    turns = share_stages(RECURRENCE, missing)
    assert sorted(n for stage in turns for n in stage) == [bridge.number for bridge in RECURRENCE]
    assert 256 - missing - 32 < taken(RECURRENCE, turns) <= 256 - missing
    lives = {bridge.number: (bridge.first, bridge.last) for bridge in RECURRENCE}
    for stage in turns:
        for before, after in pairwise(stage):
            assert lives[before][1] < lives[after][0]


def test_those_with_most_products_between_them_take_turns_first():
    assert share_stages(RECURRENCE, 1) == [[0, 6], [1], [2], [3], [4], [5]]


def test_as_few_bytes_as_can_be_where_more_are_missing():
    assert taken(RECURRENCE, share_stages(RECURRENCE, 1000)) == 96


@pytest.mark.parametrize(
    "other", [life(1, 0, 1), life(1, 1, 2, kind=2), life(1, 1, 1, held=True)], ids=["overlaps", "kind", "held"]
)
def test_what_cannot_take_turns(other):
    assert share_stages([life(0, 0, 0), other], 1) == [[0], [1]]


@pytest.mark.parametrize(("tile", "gpu_name"), TURNS)
def test_products_by_tensor_cores_of_operands_that_take_turns(tile, gpu_name):
    """Stages of 128 columns are seen as tiles of 64, too, and a stage has several turns in a step."""
    text = libtile.compile(bytecode(tile, True, gpu_name), gpu_name=gpu_name, emit="tileas").tileas
    assert "nv_tileas.dot " not in text and "not_specialized" not in text
    assert "nv_tileas.reinterpret" in text
    bridges = re.findall(r"(%\S+) = \S*create_pipeline .*<1, [^>]*tf32, shared", text)
    fills = [len(re.findall(rf"producer_acquire {pipe}\W", text)) for pipe in bridges]
    assert max(fills) > 1


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_bridges_of_small_tiles_have_stages_of_their_own(words, gpu_name):
    text = libtile.compile(bytecode((64, 64, 64), words, gpu_name), gpu_name=gpu_name, emit="tileas").tileas
    assert "nv_tileas.dot " not in text and "nv_tileas.reinterpret" not in text


@pytest.mark.parametrize(
    ("tile", "gpu_name"),
    [pytest.param(*case, marks=[pytest.mark.slow] if case[0][2] == 128 else []) for case in TURNS],
)
def test_operands_that_take_turns_give_what_numpy_gives(tile, gpu_name):
    run(tile, 72, gpu_name, words=True, order=1)


RESULTS = (128, 64, 128)
"""A chunk of 16-bit operands whose five results take 640 columns of tensor memory, of which there are 512."""


def test_results_in_tensor_memory_take_turns():
    text = libtile.compile(bytecode(RESULTS, False, "sm_100"), gpu_name="sm_100", emit="tileas").tileas
    columns = [int(n) for n in re.findall(r"= nv_tileas.alloc_tensor .*: \S+buffer<1x\d+x(\d+)xf32, tmem>", text)]
    assert len(columns) == 4 and sum(columns) <= 512 and "nv_tileas.dot " not in text


@pytest.mark.parametrize("order", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 12))])
def test_results_that_take_turns_give_what_numpy_gives(order):
    run(RESULTS, 136, "sm_100", words=False, order=order)


def broken(gpu_name):
    given, _, _ = arguments((64, 128, 64), 136)
    args = [np.int32(v) if isinstance(v, int) else v for v in given]
    return OneBlock(bytecode((64, 128, 64), True, gpu_name), "corrected", args, gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize("left_out", ["fence", "arrival"])
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_a_bridge_that_is_not_handed_over_is_found(gpu_name, left_out):
    broken(gpu_name).check_what_threads_write(left_out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu_name", "left_out", "behind"),
    [
        ("sm_90", r"wgmma\.wait_group", "wgmma.mma_async"),
        ("sm_100", r"tcgen05\.wait::ld", "tcgen05.ld"),
    ],
)
def test_what_is_left_out_is_found(gpu_name, left_out, behind):
    code = broken(gpu_name)
    code.fault_without(re.compile(left_out + r"[^\n]*;").search(code.ptx, code.ptx.index(behind)))


def test_the_interpreter_gives_what_numpy_gives():
    run((64, 128, 64), 136, "sm_90", words=True, backend="interpreter")


@pytest.mark.parametrize("rows", [0, 24])
def test_no_step_and_one_step(rows):
    run((64, 128, 64), rows, "sm_90", words=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("tile", "gpu_name"), TURNS)
def test_operands_that_take_turns_in_every_schedule(tile, gpu_name, seed):
    run(tile, 136 + 16 * (seed % 5), gpu_name, words=True, order=seed)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_operands_with_stages_of_their_own_in_several_schedules(words, gpu_name, seed):
    run((64, 64, 64), 136 + 16 * seed, gpu_name, words=words, order=seed)


@pytest.mark.parametrize("order", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 22))])
def test_a_tile_that_warps_read_first_has_the_first_turn_in_a_ring_of_products(order):
    """Its load comes before the products with which it shares a ring, though they were found first."""
    if order == 1:
        text = libtile.compile(beside_bytecode((64, 128), "sm_90"), gpu_name="sm_90", emit="tileas").tileas
        assert len(re.findall("create_pipeline", text)) == 3
    run_beside((64, 128), 256, "sm_90", order)


def test_left_operands_for_which_there_are_no_registers_are_brought():
    """Those that wait for no product would be held from the begin of a step: 128 registers beside 160 of results."""
    made = libtile.compile(bytecode((64, 64, 64), True, "sm_90"), gpu_name="sm_90", launch_abi="simt", keep_text=True)
    assert made.kernels["corrected"].spills == 0
    products = re.findall(r"async\.dot .*", made.tileas)
    assert len(products) == 5 and all(": !nv_tileas.buffer" in line for line in products[:2])
