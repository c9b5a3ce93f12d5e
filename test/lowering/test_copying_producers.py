# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A producer agent whose warps copy with cp.async, and warps that multiply registers by mma.sync (sm_80 to sm_89).
Cases in twenty schedules each, and broken ones, are slow:

    python -m pytest -m "slow or not slow" test/lowering/test_copying_producers.py
"""

import re

import numpy as np
import pytest
from test_fed_loops import aligned
from test_specialized import main_loop, operands, tile_gemm

import libtile
from libtile.lowering.tileas.schedule import NOT_SPECIALIZED

SCHEDULES = 20


def compiled(text, gpu_name="sm_80", **options):
    options = {"schedule": "specialized", **options}
    return libtile.compile(libtile.parse(text), gpu_name=gpu_name, launch_abi="simt", keep_text=True, **options)


def parted(text, gpu_name="sm_80", **options):
    """(text in nv_tileas, why no producer feeds its loop or None)"""
    made = compiled(text, gpu_name, emit="tileas", **options).tileas
    said = re.search(rf'{NOT_SPECIALIZED} = "([^"]*)"', made)
    assert ("agent_switch" in made) == (said is None)
    return made, said[1] if said else None


def run(text, args, grid=(1, 1, 1), gpu_name="sm_80", **options):
    libtile.run(
        libtile.parse(text), grid=grid, args=args, backend="simulator", gpu_name=gpu_name, check="full",
        schedule="specialized", **options,
    )  # fmt: skip


def gemm(size, known=16, order=None, gpu_name="sm_80", **options):
    """`tile_gemm` of a size, of whose dimensions it is known that `known` divides them."""
    m, n, k = size
    text = aligned(tile_gemm(**options))
    text = text.replace("div_by<16>, %n1", f"div_by<{known}>, %n1").replace("div_by<16>, %k1", f"div_by<{known}>, %k1")
    assert parted(text, gpu_name)[1] is None
    a, b, c, wanted = operands(m, n, k, options.get("transposed", False))
    run(text, [a, b, c, m, n, k], (-(-m // options["m"]), -(-n // options["n"]), 1), gpu_name, block_order=order)
    np.testing.assert_allclose(c, wanted, atol=1e-3)


SMALL = {"m": 64, "n": 32}
PRODUCTS = {
    "whole": ((64, 32, 256), SMALL),
    "ragged": ((72, 48, 144), SMALL),  # a tail along k
    "transposed": ((64, 40, 96), SMALL | {"k": 32, "transposed": True}),
    "one step": ((64, 32, 64), SMALL),
    "eight warps": ((64, 64, 96), {"m": 64, "n": 64, "k": 32, "hints": "num_worker_warps = 8"}),
    "8 bytes": ((72, 44, 148), SMALL | {"known": 4}),  # known to be aligned
    "cut by the end": ((72, 43, 147), SMALL | {"known": 1}),
    "in parts": ((72, 48, 160), SMALL | {"hints": "occupancy = 8"}),  # of which there are too few stages as a whole
}


@pytest.mark.parametrize("name", ["ragged", "cut by the end"])
def test_a_fed_loop_gives_what_numpy_gives(name):
    size, options = PRODUCTS[name]
    gemm(size, **options, order=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_fed_loop_is_right_in_every_schedule(name):
    size, options = PRODUCTS[name]
    for seed in range(SCHEDULES):
        gemm(size, **options, order=seed)


def test_copies_arrive_by_themselves():
    """Two warps copy, whose 64 threads arrive when their copies have, and one of each warp; four warps release."""
    made = compiled(tile_gemm(**SMALL), emit="ptx")
    assert made.kernels["gemm"].block_dim[0] == 192
    assert "cp.async.mbarrier.arrive.noinc.shared.b64" in made.ptx and "cp.async.cg" in made.ptx
    assert "setmaxnreg" not in made.ptx and "cp.async.wait_group" not in made.ptx
    assert "full_arrivals = 66 : i32" in made.tileas and "empty_arrivals = 4 : i32" in made.tileas


def test_the_default_stays_as_it_is():
    text = tile_gemm(**SMALL)
    made = [compiled(text, emit="ptx", schedule=schedule).ptx for schedule in ("", "pipelined")]
    assert made[0] == made[1] and "mbarrier" not in made[0] and "cp.async.wait_group" in made[0]


def test_code_of_a_fed_loop():
    """Warps that only multiply: nothing is spilled, and the loop is little more than its products."""
    made = compiled(aligned(tile_gemm(m=128, n=128)))
    kernel = made.kernels["gemm"]
    assert kernel.spills == 0 and kernel.block_dim[0] == 256
    loop = main_loop(made.cubin, "HMMA")
    assert len(loop) <= 190 and sum("HMMA" in line for line in loop) == 128
    assert not any("LDGSTS" in line for line in loop)
