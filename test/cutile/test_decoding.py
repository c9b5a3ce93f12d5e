# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decoding: agents bring keys and values, and multiply by wgmma and tcgen05, in any schedule."""

import pytest

from cutile.models.problems import FULL, PROBLEMS, SMALL
from cutile.test_models import check
from examples.export import portable_file_names
from libtile import cutile
from libtile.compiler import driver
from libtile.compiler.options import Options

TARGETS = ("sm_90", "sm_100")
WIDE = pytest.param("mla_decode", marks=pytest.mark.slow)
"""Whose keys and values do not fit shared memory as they are."""
NAMES = ("decode_keys_first", WIDE)


@pytest.fixture(autouse=True)
def _portable():
    with portable_file_names():
        yield


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_agents_decode_without_a_stack(name, target):
    problem = PROBLEMS[name](FULL)
    made = driver.compile_bytecode(
        cutile.bytecode_for(problem.kernel, problem.args, gpu_name=target)[0], Options(target)
    )
    (kernel,) = made.kernels.values()
    assert kernel.spills == 0 and kernel.block_dim[0] > 128 and "cp.async.bulk.tensor" in made.ptx
    assert ("wgmma" if target == "sm_90" else "tcgen05.mma") in made.ptx and "mma.sync" not in made.ptx


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", TARGETS)
def test_agents_decode_in_every_schedule(target, seed):
    check("decode_keys_first", SMALL, backend="simulator", gpu_name=target, block_order=seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", TARGETS)
def test_narrow_tiles_of_wide_ones_in_every_schedule(target, seed):
    check("mla_decode", FULL, backend="simulator", gpu_name=target, block_order=seed)
