# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CTAs in parallel processes.

Global memory is shared pages that the forked workers inherit, so their stores meet like those of a GPU. Atomics on
global memory take a lock. Each worker runs batches of CTAs until none is left and sends back counters and output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from libtile.support import workers
from libtile.support.errors import LibtileError

from .counters import Counters
from .errors import LaunchError, SimulatorError
from .launch_state import LaunchState

if TYPE_CHECKING:
    from .program import Program

Batch = list[tuple[int, int, int]]
Progress = Callable[[int, int], None]

LEAST_BATCHES = 8
"""Batches for each process that make more than one process worth their start."""


def processes_for(program: Program, batches: int) -> int:
    """How many processes run a launch that nobody said it of: as many as there are processors, if there is enough to do
    and no CTA can wait for one that another process has not come to. One where this process may not fork."""
    if any(unit.may_wait() for unit in program.units):
        return 1
    return max(1, min(workers.available(), batches // LEAST_BATCHES))


def run_batches(
    launch: LaunchState, batches: Sequence[Batch], processes: int, progress: Progress | None = None
) -> None:
    """Run batches of CTAs in worker processes; when all have ended, raise the fault of the first batch with one."""
    outputs: dict[int, str] = {}
    done, total = 0, launch.grid[0] * launch.grid[1] * launch.grid[2]

    def run(index: int) -> tuple[tuple[int, str], LibtileError | None]:
        from .machine import Machine

        launch.output.clear()
        batch = batches[index]
        fault: SimulatorError | None = None
        try:
            Machine(launch, batch).run()
        except SimulatorError as caught:
            fault = caught
        return (len(batch), "".join(launch.output)), fault

    def end() -> tuple[Counters, list[tuple[int, int, int]]]:
        return launch.counters, [(u.runs, u.threads, u.warps) for u in launch.program.units]

    def heard(index: int, value: tuple[int, str]) -> None:
        nonlocal done
        count, outputs[index] = value
        done += count
        if progress is not None:
            progress(done, total)

    try:
        launch.lock = workers.lock()
        ends, fault = workers.run_parts(len(batches), processes, run, end, heard)
    except workers.WorkerError as error:
        raise LaunchError(str(error)) from None
    for counters, runs in ends:
        launch.counters.add(counters)
        for unit, (times, threads, warps) in zip(launch.program.units, runs, strict=False):
            unit.runs += times
            unit.threads += threads
            unit.warps += warps
    launch.output[:] = [text for _, text in sorted(outputs.items())]
    if fault is not None:
        raise fault
