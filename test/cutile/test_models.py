# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels as models have them give what numpy gives, in the interpreter and as code of each target."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from cutile.models.problems import FULL, PROBLEMS, SMALL
from examples.export import portable_file_names
from libtile import cutile

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
NEEDS = {"block_fp8": TARGETS[1:]}
"""The targets for which cuTile compiles a kernel, where those are not all: it has 8-bit floats from sm_89 on."""
CASES = [
    pytest.param(name, target, marks=() if number % len(targets) == at else pytest.mark.slow)
    for number, name in enumerate(PROBLEMS)
    for targets in (NEEDS.get(name, TARGETS),)
    for at, target in enumerate(targets)
]


@pytest.fixture(autouse=True)
def _portable():
    with portable_file_names():
        yield


def check(name, tiles, **options):
    problem = PROBLEMS[name](tiles)
    args = tuple(copy.deepcopy(x) if isinstance(x, np.ndarray | list) else x for x in problem.args)
    cutile.launch(problem.kernel, problem.grid, args, **options)
    assert problem.error(args) < problem.tolerance


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_interpreter_gives_what_numpy_gives(name):
    check(name, SMALL, backend="interpreter")


@pytest.mark.parametrize(("name", "target"), CASES)
def test_the_code_of_a_target_gives_what_numpy_gives(name, target):
    check(name, SMALL, backend="simulator", gpu_name=target)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [c.values for c in CASES])
def test_tiles_of_full_size_give_what_numpy_gives(name, target):
    check(name, FULL, backend="simulator", gpu_name=target)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_two_loops_of_attention_are_right_in_every_schedule(target, seed):
    """One head of the four."""
    problem = PROBLEMS["capped_window"](SMALL)
    args = tuple(x[:1].copy() if isinstance(x, np.ndarray) else x for x in problem.args)
    cutile.launch(problem.kernel, (4, 1), args, backend="simulator", gpu_name=target, block_order=seed)
    assert replace(problem, wanted={3: problem.wanted[3][:1]}).error(args) < problem.tolerance


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
@pytest.mark.parametrize("name", ["paged", "decode_split"])
def test_few_queries_are_right_in_every_schedule(name, target, seed):
    check(name, SMALL, backend="simulator", gpu_name=target, block_order=seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_attention_of_sequences_is_right_in_every_schedule(target, seed):
    """One head of the four."""
    problem = PROBLEMS["ragged_prefill"](SMALL)
    args = tuple(x[:, :1].copy() if isinstance(x, np.ndarray) and x.ndim == 3 else x for x in problem.args)
    cutile.launch(problem.kernel, (3, 3, 1), args, backend="simulator", gpu_name=target, block_order=seed)
    assert replace(problem, wanted={4: problem.wanted[4][:, :1]}).error(args) < problem.tolerance
