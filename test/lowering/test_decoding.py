# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of few queries by warpgroups: tiles of different shapes take turns at a stage, and products in no loop of
which one feeds another one have a loop of one turn."""

import re

import numpy as np
import pytest
from decoding_kernels import PLACES, bytecode, run_latent, run_split

import libtile
from kernels.broken_code import OneBlock

WHOLE, SMALL = (128, 512, 16), (128, 128, 16)
SPLIT = (128, 64, 8)


def compiled(name: str, sizes: tuple[int, ...], gpu_name: str, **options):
    return libtile.compile(
        bytecode(name, sizes, gpu_name), gpu_name=gpu_name, launch_abi="simt", keep_text=True, **options
    )


def test_tiles_of_other_shapes_that_are_as_large_share_a_stage():
    """Keys lie there as left operands along their columns, and then along their rows."""
    made = compiled("latent", WHOLE, "sm_90")
    assert "nv_tileas.dot " not in made.tileas
    assert len(re.findall(r"create_pipeline .*<1, [^>]*x512xf16", made.tileas)) == 1
    assert len(re.findall(r"nv_tileas.reinterpret .*512xf16.* -> .*512x128xf16", made.tileas)) == 2
    kernel = made.kernels["latent"]
    assert kernel.spills == 0 and kernel.smem > 128 * 512 * 2


def test_fewer_blocks_where_tiles_of_a_step_do_not_fit_what_so_many_leave():
    said = [r for r in compiled("latent", WHOLE, "sm_90", emit="llvm").remarks if r.name == "RemarkHintIgnored"]
    assert any("tiles that products read in a step take" in dict(r.arguments).get("Reason", "") for r in said)


@pytest.mark.parametrize("rows", [136, pytest.param(384, marks=pytest.mark.slow)])
def test_keys_that_take_turns_with_themselves_give_what_numpy_gives(rows):
    run_latent(WHOLE, rows, "sm_90", order=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_keys_that_take_turns_in_every_schedule(seed):
    run_latent(WHOLE, 128 + 88 * (seed % 4), "sm_90", order=seed)


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100", "sm_120"])
def test_small_keys_have_stages_of_their_own(gpu_name):
    run_latent(SMALL, 264, gpu_name, order=2)


def test_products_that_feed_each_other_in_a_branch_are_a_chain():
    made = compiled("split", (0, *SPLIT), "sm_90")
    assert "nv_tileas.dot " not in made.tileas and made.tileas.count("async.dot") == 2
    assert made.tileas.count("async.tiled_tma_load") == 3  # queries as well
    stages = re.findall(r"create_pipeline .*pipeline<(\d+),", made.tileas)
    assert len(stages) == 4 and {*stages} == {"1"}  # one turn fills no more


def test_results_of_a_branch_stay_as_products_give_them():
    """They are converted where they are stored, when less is left of them."""
    text = compiled("split", (0, *SPLIT), "sm_90").tileas
    branch = text[: text.index("} else {", text.index("async.dot"))]
    assert "convert_layout" not in branch[branch.index("agent_switch") :]


@pytest.mark.parametrize(("first", "rows"), [(0, 128), (0, 40), (1, 200), (2, 200)])
def test_a_chain_of_one_turn_gives_what_numpy_gives(first, rows):
    """A whole tile, a part of one, and none."""
    run_split(first, SPLIT, rows, "sm_90", order=rows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_chain_of_one_turn_in_every_schedule(seed):
    run_split(seed % 3, SPLIT, 136 + 40 * (seed % 5), "sm_90", order=seed)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100", "sm_120"])
def test_products_in_a_branch_elsewhere(gpu_name):
    run_split(1, SPLIT, 200, gpu_name, order=1)


def test_the_interpreter_gives_what_numpy_gives():
    run_split(1, SPLIT, 200, "sm_90", backend="interpreter")
    run_latent(SMALL, 200, "sm_90", backend="interpreter")


@pytest.mark.slow
@pytest.mark.parametrize("left_out", [r"fence\.proxy\.async", r"wgmma\.wait_group", r"mbarrier\.arrive\.shared"])
def test_what_is_left_out_is_found(left_out):
    rng = np.random.default_rng(0)
    shapes = ((16, 512), (16, PLACES), (384, 512), (384, 512), (384, PLACES))
    given = [rng.integers(-1, 2, shape).astype(np.float16) for shape in shapes]
    given.append(np.zeros((16, 512), np.float32))
    args = [np.int32(v) if isinstance(v, int) else v for x in given for v in (x, *x.shape, x.shape[1], 1)]
    code = OneBlock(bytecode("latent", WHOLE, "sm_90"), "latent", args, "sm_90")
    code.fault_without(re.compile(left_out + r"[^\n]*;").search(code.ptx, code.ptx.index("wgmma.mma_async")))
