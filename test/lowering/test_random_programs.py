# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs write the same memory on the interpreter and, compiled for each target class, in the simulator."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from generators.check import TARGETS, check_bytecode, check_inner_dialects, check_targets
from generators.core import Program
from generators.programs import program

FEW = range(6)
MANY = range(100, 400)


def check(seed: int, profile: str, body: Callable[[Program], None]) -> None:
    """Run a check of a random program; what fails says how to see and to reduce the program."""
    try:
        body(program(seed, profile))
    except Exception as error:
        error.add_note(f"in test/: python -m generators {seed} --profile {profile} --print (or --reduce)")
        raise


@pytest.mark.parametrize("gpu", TARGETS)
@pytest.mark.parametrize("seed", FEW)
def test_random_programs_agree(seed, gpu):
    def here(p: Program) -> None:
        check_targets(p, [gpu])
        check_inner_dialects(p, gpu)

    # Another program for each target: what is wrong for one target only is rare.
    check(seed + 10 * TARGETS.index(gpu), "all", here)


@pytest.mark.parametrize("gpu", TARGETS)
def test_random_control_flow_agrees(gpu):
    for seed in range(20 * TARGETS.index(gpu), 20 * TARGETS.index(gpu) + 12):
        check(seed, "control", lambda p: check_targets(p, [gpu]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY)
def test_many_random_programs_agree(seed):
    def everything(p: Program) -> None:
        check_targets(p)
        check_bytecode(p)
        for gpu in TARGETS:
            check_inner_dialects(p, gpu)

    check(seed, "all", everything)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY[::5])
def test_many_random_programs_agree_in_other_circumstances(seed):
    """Without optimisation, with warps that run in a random order, with other arguments."""

    def variants(p: Program) -> None:
        gpu = TARGETS[seed // 5 % len(TARGETS)]
        check_targets(p, [gpu], opt_level=seed % 3)
        check_targets(p, [gpu], block_order=seed)
        check_targets(p, [gpu], variant=1)

    check(seed, "straight", variants)
    check(seed, "control", variants)
