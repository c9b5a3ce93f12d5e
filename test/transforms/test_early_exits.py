# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every pass on loops that end early, carry tokens, exchange what they carry or never run: memory stays the same."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import libtile
from generators.check import contents
from generators.pipelines import every
from libtile.interpreter.faults import InterpreterFault
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from transforms.exit_programs import PROGRAMS

NUMBERS = [(0, 0), (1, 1), (3, 2), (7, 5), (-3, 4), (5, -2), (2, 7)]
"""What the programs' two numbers are."""
LONG = ("columns_in_rows", "ranges_that_are_empty", "ends_of_numbers")
"""Programs of which passes make many ops."""
TWICE = [
    "loop-unroll{factor=2},loop-peel{front=1 back=1},canonicalize,sccp,cse,dce",
    "loop-peel{front=2},loop-split,loop-unroll{factor=4},eliminate-redundant-tokens,merge-loads,licm,canonicalize",
    "eliminate-redundant-tokens,loop-interchange,loop-unroll{factor=2},if-to-select{max-ops=60},canonicalize",
]
"""What passes leave for others."""


def outcome(module: libtile.Module, numbers: tuple[int, int]) -> bytes:
    """The memory behind a run."""
    written, read = np.arange(256, dtype=np.int32) % 7, np.arange(64, dtype=np.int32) * 3
    libtile.run(module, "kernel", grid=1, args=[written, read, *numbers], check="full")
    return written.tobytes()


@cache
def expected(name: str, chosen: tuple[tuple[int, int], ...]) -> tuple[libtile.Module, list[bytes]]:
    """A program, and what it leaves for numbers."""
    module = libtile.parse(PROGRAMS[name], filename=f"{name}.mlir")
    return module, [outcome(module, numbers) for numbers in chosen]


@pytest.mark.parametrize(
    ("name", "all_"),
    [
        *((name, False) for name in PROGRAMS if name not in LONG),
        *(pytest.param(name, True, marks=pytest.mark.slow) for name in PROGRAMS),
    ],
)
def test_passes_keep_what_loops_do(name: str, all_: bool) -> None:
    pipelines, chosen = ([*every(), *TWICE], NUMBERS) if all_ else (["tile-O3", *TWICE], NUMBERS[2::2])
    module, wanted = expected(name, tuple(chosen))
    assert len(set(wanted)) > 1, "the numbers do not matter"
    seen = {contents(module.op)}
    for pipeline in pipelines:
        op = module.op.clone()
        PassManager(parse_pipeline(pipeline)).run(op)
        if contents(op) in seen:
            continue
        seen.add(contents(op))
        for numbers, want in zip(chosen, wanted):
            try:
                got = outcome(libtile.Module(op), numbers)
            except InterpreterFault as fault:
                raise AssertionError(f"{pipeline}, {numbers}: {fault}") from fault
            assert got == want, f"{pipeline} changes what the program does for {numbers}"
    assert len(seen) > 1, "passes have something to do"
