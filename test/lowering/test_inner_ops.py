# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of the inner dialects that Tile IR does not make: compiled code leaves what the interpreter leaves, on a target
of each class in turn."""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from generators.check import TARGETS
from libtile.support.diagnostics import LoweringError
from lowering.inner_programs import PROGRAMS, Program


def outcome(program: Program, backend: str, **options: object) -> list[np.ndarray]:
    """The arrays behind a run."""
    args = program.arguments()
    module = libtile.parse(program.text(), filename="program.mlir")
    libtile.run(module, args=args, grid=program.grid, backend=backend, **program.options, **options)
    return [a for a in args if isinstance(a, np.ndarray)]


def check(program: Program, gpu_name: str) -> None:
    if (words := program.refused.get(gpu_name)) is not None:
        with pytest.raises(LoweringError, match=words):
            outcome(program, "simulator", gpu_name=gpu_name)
        return
    want = outcome(program, "interpreter")
    got = outcome(program, "simulator", gpu_name=gpu_name, check="full")
    for expected, found in zip(want, got, strict=True):
        np.testing.assert_array_equal(found, expected)
        if found.dtype.kind == "f":  # zeros have signs, those of NaNs are left open
            numbers = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize(("name", "gpu_name"), [(n, TARGETS[i % len(TARGETS)]) for i, n in enumerate(PROGRAMS)])
def test_a_program_does_what_the_interpreter_says(name: str, gpu_name: str) -> None:
    check(PROGRAMS[name], gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_the_interpreter_says_on_every_target(name: str, gpu_name: str) -> None:
    check(PROGRAMS[name], gpu_name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_writes_something(name: str) -> None:
    """What is compared is not what was there before."""
    program = PROGRAMS[name]
    before = [a for a in program.arguments() if isinstance(a, np.ndarray)]
    assert any(
        not np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(before, outcome(program, "interpreter"))
    )
