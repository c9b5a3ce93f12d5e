# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops whose products read what others gave, and what the loop carries: wgmma, with computed operands in registers, or
brought to shared memory."""

import re

import cuda.tile as ct
import numpy as np
import pytest
from step_kernels import arguments, bytecode, run

import libtile
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx

CASES = [("carried", (64, 64), 200), ("fading", (64, 64), 200)]
TARGET = "sm_90"


@pytest.mark.parametrize(("name", "tile", "rows"), CASES)
def test_products_that_feed_each_other_give_what_numpy_gives(name, tile, rows):
    code = libtile.compile(bytecode(name, tile, TARGET), gpu_name=TARGET, emit="tileas").tileas
    assert "not_specialized" not in code and "nv_tileas.dot " not in code and "wgmma" in code
    run(name, tile, rows, TARGET, order=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("name", "tile", "rows"), CASES)
def test_products_that_feed_each_other_in_every_schedule(name, tile, rows, seed):
    run(name, tile, rows + 16 * (seed % 5), TARGET, order=seed)


@pytest.mark.slow
def test_two_warpgroups_share_what_they_bring():
    run("carried", (128, 128), 300, TARGET, order=1)


@pytest.mark.parametrize("rows", [0, 24])
def test_no_step_and_one_step(rows):
    run("carried", (64, 64), rows, TARGET)


@pytest.mark.parametrize("left_out", ["fence", "wait"])
def test_what_is_left_out_is_found(left_out):
    """Products read what threads have written behind a fence of proxies, and mask what is there behind a wait."""
    name, tile = "carried", (64, 64)
    code = libtile.compile(bytecode(name, tile, TARGET), gpu_name=TARGET, launch_abi="simt", emit="ptx", keep_text=True)
    given, _, _ = arguments(name, tile, 192)
    args = [np.int32(v) if isinstance(v, int) else v for v in given]
    kernel = code.kernels[name]
    maps = [EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in kernel.descriptors]
    run_ptx(code.ptx, name, block=kernel.block_dim, args=[*args, *maps])
    pattern = r"fence\.proxy\.async[^\n]*;" if left_out == "fence" else r"wgmma\.wait_group[^\n]*;"
    behind = code.ptx.index("wgmma.mma_async")  # the first product needs nothing that is computed
    found = [m for m in re.finditer(pattern, code.ptx) if m.start() > behind]
    broken = code.ptx[: found[0].start()] + code.ptx[found[0].end() :]
    with pytest.raises(SimulationFault):
        run_ptx(broken, name, block=kernel.block_dim, args=[*args, *maps])


def test_code_of_linear_attention():
    """Blocks of 128 rows of 128: by mma.sync there were 2,848 bytes of spills. ptxas adds no wait."""
    made = libtile.compile(bytecode("carried", (128, 128), TARGET, ct.float16), gpu_name=TARGET)
    assert made.kernels["carried"].spills == 0 and "(C75" not in made.log
