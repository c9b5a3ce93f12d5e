# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random agents and queues: every pass keeps what a program does, and compiled for each target class it does the same
in the simulator, whatever the order in which warps run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from generators.check import TARGETS, check_inner_dialects, check_targets, parsed
from generators.core import Program
from generators.programs import QUEUES, program
from lowering.pass_checks import check_passes


def check(seed: int, body: Callable[[Program], object]) -> None:
    """Run a check of a random program; what fails says how to see and to reduce it."""
    try:
        body(program(seed, QUEUES))
    except Exception as error:
        error.add_note(f"in test/: python -m generators {seed} --profile queues --print (or --reduce)")
        raise


def passes(gpu: str) -> Callable[[Program], int]:
    return lambda p: check_passes(parsed(p).op, "kernel", p.grid, p.arguments, gpu)


FEW = (34, 23, 31, 33)
"""Short programs: loops, conditions, no agents, two consumers."""


@pytest.mark.parametrize(("seed", "gpu"), list(zip(FEW, TARGETS, strict=True)))
def test_random_queues_agree(seed, gpu):
    check(seed, passes(gpu))
    check(seed, lambda p: check_targets(p, [gpu], block_order=seed))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 400, 10))
def test_many_random_queues_agree(start):
    for seed in range(start, start + 10):
        gpu = TARGETS[seed % len(TARGETS)]
        check(seed, passes(gpu))
        check(seed, lambda p, gpu=gpu, seed=seed: check_targets(p, [gpu], block_order=seed))
        check(seed, lambda p, gpu=gpu: check_inner_dialects(p, gpu))
