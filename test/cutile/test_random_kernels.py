# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random kernels of cuTile: the code of each target does in the simulator what the interpreter does."""

import numpy as np
import pytest

from cutile.random_kernels import RandomKernel
from libtile import cutile

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
CHECK = "full,-load-range,-store-range,-view-range"
"""cuTile lets a tile lie outside of its array, as that of rows that are shifted."""


def check(seed: int) -> None:
    """One kernel, for a target in turn."""
    made = RandomKernel(seed)
    kernel, wanted, found = made.kernel(), made.arguments(), made.arguments()
    target = TARGETS[seed % len(TARGETS)]
    if made.element == "float8_e4m3fn" and target == "sm_80":
        target = "sm_120"  # cuTile has 8-bit floats from sm_89 on
    cutile.launch(kernel, made.grid, wanted, check=CHECK)
    order = seed if seed % 3 == 0 else None
    cutile.launch(kernel, made.grid, found, backend="simulator", gpu_name=target, check=CHECK, block_order=order)
    for (name, one), other in zip(made.results(wanted).items(), made.results(found).values()):
        np.testing.assert_array_equal(one, other, f"{name} of seed {seed} on {target} of\n{made.source}")


@pytest.mark.parametrize("seed", range(4))
def test_random_kernels_agree(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(4, 1000, 4))
def test_many_random_kernels_agree(start):
    for seed in range(start, start + 4):
        check(seed)
