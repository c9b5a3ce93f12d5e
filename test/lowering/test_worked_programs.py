# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Four programs of agents and queues, whole: right in twenty schedules on a target of each class with every check on,
and found out in each of the ways to break their turns, or the code of these. The whole of it is one command:

    python -m pytest -m "slow or not slow" test/lowering/test_worked_programs.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from broken_turns import BROKEN
from queue_kernels import KERNELS, Kernel
from queue_products import PRODUCTS
from test_documents import FOLDER, queue
from test_queues import WAIT, check, compiled, launch, waits_in_one_thread, with_pipelines

from generators.check import TARGETS
from libtile.asm import print_op
from libtile.simulator import SimulationFault
from libtile.support.diagnostics import DiagnosticError, LoweringError

PROGRAMS = {
    # The documents' producer and consumer.
    "queue": Kernel((FOLDER / "queue.mlir").read_text(), lambda: queue(np.random.default_rng(0))),
    # A product: one agent loads, two multiply.
    "halves": PRODUCTS["halves"],
    # A persistent loop: sums of what comes through one queue go on through another.
    "persistent": KERNELS["persistent"],
    # Turns under conditions, in loops in loops, in a while, and within another queue's turn.
    "nested": KERNELS["nested"],
}
EVERY = [*product(PROGRAMS, TARGETS)]
FEW = [("nested", "sm_90")]
CASES = [pytest.param(*case, marks=[] if case in FEW else pytest.mark.slow) for case in EVERY]
SCHEDULES = 20


@pytest.mark.slow
@pytest.mark.parametrize(("name", "gpu_name"), EVERY)
def test_a_program_is_right_in_every_schedule(name, gpu_name):
    for seed in range(SCHEDULES):
        check(PROGRAMS[name], backend="simulator", gpu_name=gpu_name, check="full", block_order=seed)


# -- turns that are broken ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize(("name", "gpu_name"), EVERY)
def test_a_broken_turn_is_found(name, gpu_name, what):
    """By the verifier or a pass before anything runs, or in the first schedule that is tried."""
    change, expected = BROKEN[what]
    module = with_pipelines(PROGRAMS[name].text, gpu_name)
    change(module)
    with pytest.raises((SimulationFault, DiagnosticError, LoweringError)) as caught:
        check(PROGRAMS[name], print_op(module), backend="simulator", gpu_name=gpu_name, check="full",
              block_order=len(what))  # fmt: skip
    fault = caught.value
    if isinstance(expected, str):
        assert expected in str(fault)
        return
    # An agent that one thread runs may wait for ever while the others of its warp are at the last barrier.
    elected = waits_in_one_thread(PROGRAMS[name].text, gpu_name)
    assert isinstance(fault, SimulationFault)
    assert fault.kind in (expected | {"divergent-barrier"} if elected else expected)


# -- code that is broken -----------------------------------------------------------------------------------------------

Change = Callable[[str], str]
FENCES = r"fence\.(mbarrier_init|proxy\.async)\S*;"


def _left_out(pattern: str, number: int = 0, behind: str = "") -> Change:
    """Without one place of a pattern, behind the last one of another."""

    def change(ptx: str) -> str:
        start = max((m.end() for m in re.finditer(behind, ptx)), default=0) if behind else 0
        found = [*re.finditer(pattern, ptx[start:])][number]
        return ptx[: start + found.start()] + ptx[start + found.end() :]

    return change


def _one_more_arrival(ptx: str) -> str:
    """The first barrier object waits for one arrival more than come."""
    made = re.search(r"(mbarrier\.init\.shared\.b64\s+\[[^]]*\]), (%r\d+);", ptx)
    assert made is not None
    count = re.search(rf"mov\.b32\s+{made[2]}, (\d+);", ptx)
    assert count is not None
    return f"{ptx[: made.start()]}{made[1]}, {int(count[1]) + 1};{ptx[made.end() :]}"


def _more_bytes(ptx: str) -> str:
    """The first copy by TMA brings less than is expected."""
    return re.sub(r"(mbarrier\.expect_tx[^\[]*\[[^]]*\]), %r\d+;", r"\1, 65536;", ptx, count=1)


NO_END = {"deadlock", "divergent-barrier"}
UNORDERED = {"race", "async", "uninitialized", "deadlock"}
"""Of a stage that is read too early or written again: which of the two waits stands first differs by program."""
CODE_BROKEN: dict[str, tuple[Change, set[str]]] = {
    "wrong count": (_one_more_arrival, NO_END),
    "nobody waits for a stage": (_left_out(WAIT, -1), UNORDERED),
    "nobody waits for another stage": (_left_out(WAIT, -2), UNORDERED),
    "missing barrier behind the barrier objects": (
        _left_out(r"bar\.sync\s+0;", 0, r"mbarrier\.init"), {"mbarrier-init", "illegal-instruction"},
    ),
}  # fmt: skip
"""By what is wrong with the PTX: how to make it so, and the kinds of faults that schedules meet."""
COPIES_BROKEN: dict[str, tuple[Change, set[str]]] = {
    "missing fence": (lambda ptx: re.sub(FENCES, "", ptx), {"mbarrier-init"}),
    "wrong number of bytes": (_more_bytes, NO_END),
}
"""The same of code that copies by TMA, whose accesses no barrier orders alone."""


@pytest.mark.parametrize(("name", "gpu_name"), CASES)
def test_broken_code_is_found(name, gpu_name):
    made = compiled(PROGRAMS[name].text, gpu_name)
    by_tma = "cp.async.bulk.tensor" in made.ptx
    assert by_tma == (gpu_name != "sm_80" and name in ("queue", "halves"))
    for what, (change, kinds) in (CODE_BROKEN | (COPIES_BROKEN if by_tma else {})).items():
        ptx = change(made.ptx)
        assert ptx != made.ptx
        for seed in (None, 1):
            with pytest.raises(SimulationFault) as caught:
                launch(made, ptx, PROGRAMS[name], seed)
            assert caught.value.kind in kinds, (what, str(caught.value))
