# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random kernels around products of large tiles: compiled for each target class they do in the simulator what the
interpreter does, whatever the order in which warps run."""

from __future__ import annotations

from pathlib import Path

import pytest

from generators import saved
from generators.check import TARGETS, check_inner_dialects, check_targets
from generators.core import Program
from generators.programs import TENSORS, program

FOUND = Path(__file__).parent / "found_kernels"
"""Kernels that failed once, by what was wrong and the target.

`python -m generators SEED --profile tensors --save FILE` writes them.
"""


def check(made: Program, gpu: str) -> None:
    check_targets(made, [gpu], block_order=made.seed)
    check_inner_dialects(made, gpu)


LONG = ("same-in-a-cluster-by-cp-async-sm_90",)


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow if p.stem in LONG else []) for p in sorted(FOUND.iterdir())],
    ids=lambda path: path.stem,
)
def test_found_kernels_agree(path):
    check(saved.load(path), path.stem.rpartition("-")[2])


def test_a_saved_program_is_the_same(tmp_path):
    made = program(7, TENSORS)
    saved.save(made, tmp_path / "seven.mlir")
    again = saved.load(tmp_path / "seven.mlir")
    assert again.parameters == made.parameters
    assert again.grid == made.grid
    assert again.text.endswith(made.text)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 500, 5))
def test_many_random_kernels_agree(start):
    for seed in range(start, start + 5):
        made = program(seed, TENSORS)
        for gpu in TARGETS:
            try:
                check(made, gpu)
            except Exception as error:
                error.add_note(f"in test/: python -m generators {seed} --profile tensors --target {gpu} --reduce")
                raise
