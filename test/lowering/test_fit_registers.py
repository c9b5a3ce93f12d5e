# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels whose tiles take more registers than there are, where products read registers: one block in place of several,
and one half of their tiles after the other."""

import re

import pytest
from crowded_kernels import bytecode, run

import libtile
from cutile.models.problems import FULL, PROBLEMS
from libtile import cutile

ATTENTION, WIDE = (256, 128, 64), (256, 256, 32)
QUERIES, TWO_STEPS, FOUR_TILES = (256, 256, 64), (256, 256, 64), (512, 512, 64)


def compiled(name: str, tiles: tuple[int, int, int], size: tuple[int, int, int], gpu_name: str = "sm_120", **options):
    code = bytecode(name, tiles, size, gpu_name)
    return libtile.compile(code, gpu_name=gpu_name, launch_abi="simt", keep_text=True, **options)


def test_a_product_that_does_not_fit_is_computed_in_halves():
    made = compiled("product", WIDE, TWO_STEPS)
    (kernel,) = made.kernels.values()
    assert kernel.spills == 0
    assert made.tileas.count("256x256xf32") == 0 and "128x256xf32" in made.tileas


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_halves_of_a_product_give_what_numpy_gives(gpu_name):
    run("product", WIDE, (300, 264, 96), gpu_name)


def test_attention_for_two_blocks_has_one_and_halves():
    made = compiled("attention", ATTENTION, QUERIES)
    (kernel,) = made.kernels.values()
    assert kernel.spills == 0
    said = [r for r in made.remarks if r.name == "RemarkHintIgnored"]
    assert any("tiles of a loop with products take" in dict(r.arguments).get("Reason", "") for r in said)
    assert "tile<256x128xf32" not in made.tileas and "tile<128x128xf32" in made.tileas


def test_a_block_of_eight_warps_is_enough_for_some():
    made = compiled("attention", (128, 128, 64), QUERIES)
    (kernel,) = made.kernels.values()
    assert kernel.spills == 0 and kernel.block_dim[0] == 8 * 32 + 4 * 32
    assert "tile<128x128xf32" in made.tileas and "fewer_blocks" in made.tileas


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_attention_in_halves_gives_what_numpy_gives(gpu_name):
    """Its logarithms are stored through pointers, half of them each time."""
    run("attention", ATTENTION, QUERIES, gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["product", "attention", "some_products"])
def test_halves_in_every_schedule(name, seed):
    tiles, size = (ATTENTION, QUERIES) if name == "attention" else (WIDE, FOUR_TILES)
    run(name, tiles, size, "sm_120", order=seed)


def test_halves_stand_in_the_branch_that_has_them():
    """Each tile is whole before the next one begins, and what orders tiles orders halves."""
    text = compiled("some_products", WIDE, FOUR_TILES).tileas
    consumer = text[text.index("agent_switch") :]
    around = re.findall(r"scf\.(for|if)", consumer[: consumer.index("nv_tileas.dot")])
    assert around == ["for", "if", "for", "for"]


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_halves_in_a_branch_of_a_loop_give_what_numpy_gives(gpu_name):
    run("some_products", WIDE, FOUR_TILES, gpu_name)


def test_what_loads_and_stores_one_tensor_stays_whole():
    """The second half would be loaded behind the first one's store."""
    assert "256x256xf32" in compiled("added", WIDE, TWO_STEPS, emit="tileas").tileas


@pytest.mark.parametrize(("name", "tiles"), [("product", (128, 128, 32)), ("attention", (64, 64, 64))])
def test_tiles_that_fit_stay_whole(name, tiles):
    text = compiled(name, tiles, TWO_STEPS, emit="tileas").tileas
    rows, columns, _ = tiles
    assert f"{rows}x{columns}xf32" in text and "fewer_blocks" not in text


def test_an_operand_beside_one_that_is_computed_is_read_slice_by_slice():
    """Weights of 8 bits lie in stages of their own."""
    problem = PROBLEMS["w8a16"](FULL)
    code = cutile.bytecode_for(problem.kernel, problem.args, gpu_name="sm_120")[0]
    made = libtile.compile(code, gpu_name="sm_120", launch_abi="simt", keep_text=True)
    (kernel,) = made.kernels.values()
    assert kernel.spills == 0
    assert len(re.findall(r"create_pipeline ", made.tileas)) == 2
    assert len(re.findall(r"nv_tileas\.dot ", made.tileas)) == 4
