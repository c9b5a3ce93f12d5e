# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands that a loop computes of what it loads: warps beside the producer make them, and products read them from
shared memory."""

from itertools import product

import numpy as np
import pytest
from made_kernels import arguments, bytecode, run
from specialized_kernels import loops_of
from test_specialized import specialized
from test_transposed_operands import gemm
from test_transposed_operands import run as transposed

import libtile
from kernels.broken_code import OneBlock
from libtile.lowering.tileas.agents.remade import reshaped_part
from libtile.lowering.tileas.products.result_parts import Part

TARGETS = ("sm_90", "sm_100")
CASES = [
    ("channels", (64, 64, 64), (80, 80, 144), 1),
    ("groups", (64, 64, 32), (80, 80, 112), 2),
    ("rounded", (64, 64, 32), (72, 80, 80), 3),
    ("gated", (64, 64, 64), (72, 80, 144), 4),
    ("lower", (64, 64, 64), (136, 72, 144), 5),
    ("nibbles", (64, 64, 32), (72, 80, 208), 6),
    ("quantized", (128, 64, 64), (136, 80, 208), 7),
    ("interleaved", (64, 64, 64), (72, 80, 144), 8),
    ("joined", (64, 64, 64), (72, 80, 144), 9),
]
"""Tiles, sizes that are no multiples of them, and an order of blocks."""


def tileas(name, tile, gpu_name):
    return libtile.compile(bytecode(name, tile, gpu_name), gpu_name=gpu_name, emit="tileas").tileas


@pytest.mark.parametrize(
    ("name", "tile", "size", "order", "gpu_name"),
    [
        pytest.param(*case, TARGETS[n % 2], marks=[] if n in (2, 3, 7) else pytest.mark.slow)
        for n, case in enumerate(CASES)
    ]
    + [pytest.param(*case, TARGETS[1 - n % 2], marks=pytest.mark.slow) for n, case in enumerate(CASES)],
)
def test_operands_are_made_at_edges_and_with_a_tail(name, tile, size, order, gpu_name):
    code = tileas(name, tile, gpu_name)
    assert "not_specialized" not in code and "nv_tileas.dot " not in code
    run(name, tile, size, gpu_name, order=order)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("name", "tile", "size", "order"), CASES, ids=[case[0] for case in CASES])
def test_operands_are_made_in_every_schedule(name, tile, size, order, seed, gpu_name):
    run(name, tile, size, gpu_name, order=seed, blocks=1 + seed % 3)


@pytest.mark.slow
def test_two_warpgroups_multiply_what_a_third_one_makes():
    """Their instructions have half of the columns, as ptxas takes wider ones for more registers than a launch of 16
    warps gives."""
    code = tileas("channels", (128, 256, 64), "sm_90")
    assert "agent_warps = [8, 4, 4]" in code and "wgmma, 64x128x16" in code
    run("channels", (128, 256, 64), (144, 272, 80), "sm_90", order=1)


PARTS = [
    ("channels", (128, 256, 64), (144, 272, 80)),
    ("groups", (128, 256, 64), (144, 272, 144)),
    ("rounded", (128, 256, 64), (136, 264, 72)),
    ("gated", (256, 128, 64), (272, 136, 80)),
    ("lower", (256, 128, 64), (264, 136, 144)),
    ("nibbles", (128, 256, 64), (136, 272, 208)),
    ("rounded", (256, 128, 64), (264, 136, 72)),
    ("interleaved", (128, 256, 64), (136, 272, 208)),
    ("joined", (128, 256, 64), (136, 272, 208)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tile", "size"), PARTS)
def test_parts_of_operands_are_made_at_edges_and_with_a_tail(name, tile, size):
    run(name, tile, size, "sm_90", order=len(name), blocks=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_parts_of_operands_are_made_in_every_schedule(seed):
    run("channels", (128, 256, 64), (128, 256, 144), "sm_90", order=seed)


@pytest.mark.parametrize(
    ("name", "tile"), [PARTS[0][:2], *(pytest.param(*case[:2], marks=pytest.mark.slow) for case in PARTS[1:])]
)
def test_makers_beside_two_warpgroups_spill_nothing(name, tile):
    """A thread of theirs has 96 registers, and one of 64x256 in f16 takes 64, and what it comes from more."""
    made = libtile.compile(bytecode(name, tile, "sm_90"), gpu_name="sm_90")
    assert made.kernels[name].spills == 0 and "(C75" not in made.log


def test_an_operand_that_fits_registers_is_made_as_a_whole():
    parts = {tile: tileas("channels", tile, "sm_90").count("offsets = array") for tile in [(128, 128, 64), PARTS[0][1]]}
    assert parts[128, 128, 64] == 0 and parts[PARTS[0][1]] > 1


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_no_step_and_one_step(gpu_name):
    run("gated", (64, 64, 64), (64, 64, 16), gpu_name)
    run("lower", (64, 64, 64), (64, 64, 0), gpu_name)


@pytest.mark.slow
def test_an_operand_that_is_transposed_through_registers():
    """Two warps do not transpose a tile as small as that; makers do."""
    made, reason = specialized(gemm("i8", 64, 16, 32))
    assert reason is None and "agent_warps = [4, 4, 4]" in made
    transposed("i8", (64, 16, 32), 80, 48, 144, order=1)


@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("left_out", ["fence", "arrival"])
def test_what_is_left_out_of_a_turn_of_makers_is_found(left_out, gpu_name):
    name, tile, size = "lower", (64, 64, 64), (64, 64, 256)
    given, _, _ = arguments(name, tile, size)
    args = [np.int32(v) if isinstance(v, int) else v for v in given]
    OneBlock(bytecode(name, tile, gpu_name), name, args, gpu_name).check_what_threads_write(left_out)


@pytest.mark.parametrize(
    ("name", "gpu_name", "most"),
    [("channels", "sm_90", 50), ("channels", "sm_100", 40), ("nibbles", "sm_100", 52), ("gated", "sm_90", 50)],
)
def test_code_of_made_operands(name, gpu_name, most):
    """The loop of products is as short as one of tiles that TMA copies, and nothing is spilled."""
    made = libtile.compile(bytecode(name, (128, 128, 64), gpu_name), gpu_name=gpu_name)
    loops = [x for x in loops_of(made.cubin) if any("GMMA" in line or "UTCHMMA" in line for line in x)]
    assert min(map(len, loops)) <= most
    assert made.kernels[name].spills == 0 and "(C75" not in made.log


@pytest.mark.parametrize(
    ("shape", "other"), [((8, 4), (4, 2, 4)), ((4, 2, 4), (8, 4)), ((2, 8), (16,)), ((16,), (4, 4))]
)
def test_a_part_of_a_tile_is_a_box_of_its_other_shape_where_the_elements_are_one(shape, other):
    numbers = np.arange(np.prod(shape)).reshape(shape)

    def boxes(sizes):
        given = [[(o, 1 << n) for n in range(s.bit_length()) for o in range(0, s, 1 << n)] for s in sizes]
        return [Part(*map(tuple, zip(*each))) for each in product(*given)]

    def held(of, part):
        return {*of[tuple(slice(o, o + n) for o, n in zip(part.offsets, part.shape))].flat}

    by_elements = {frozenset(held(numbers.reshape(other), box)): box for box in boxes(other)}
    for part in boxes(shape):
        assert reshaped_part(part, shape, other) == by_elements.get(frozenset(held(numbers, part)))
