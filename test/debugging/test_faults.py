# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Faults that are switched on in the compiler are found in random programs, and these are reduced to a few ops."""

from __future__ import annotations

import time

import pytest

import libtile
from debugging.faults import FAULTS, Fault
from generators.check import parsed
from libtile.debugging.weights import count

FAST = ("a sum is its first operand", "a select is its first arm", "no scans")
SECONDS = 60.0
"""Of this process, whatever else the machine does."""

OPS = 15


@pytest.mark.parametrize(
    "fault", [pytest.param(f, id=f.name, marks=() if f.name in FAST else pytest.mark.slow) for f in FAULTS]
)
def test_a_program_that_shows_a_fault_is_reduced(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    made = fault.program
    module = parsed(made)
    assert not fault.shows(made, module), "the program must be right without the fault"
    fault.patch(monkeypatch)
    start = time.process_time()
    small = libtile.reduce(module, lambda candidate: fault.shows(made, candidate))
    seconds = time.process_time() - start
    assert count(small.op) < OPS, str(small)
    assert seconds < SECONDS
    monkeypatch.undo()
    libtile.verify(small)
    assert not fault.shows(made, small)


def test_there_are_twenty_faults() -> None:
    assert len({fault.name for fault in FAULTS}) == 20
