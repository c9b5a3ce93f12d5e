# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CTAs in parallel processes.

Global memory is shared pages that the forked workers inherit, so their stores meet like those of a GPU. Atomics on
global memory take a lock. Each worker runs batches of CTAs until none is left and sends back counters and output.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from .counters import Counters
from .errors import LaunchError, SimulatorError
from .launch_state import LaunchState

if TYPE_CHECKING:
    from .program import Program

Batch = list[tuple[int, int, int]]
Progress = Callable[[int, int], None]

LEAST_BATCHES = 8
"""Batches for each process that make more than one process worth their start."""

_TALK = (("atom", ""), ("ld", "acquire"), ("ld", "relaxed"), ("ld", "volatile"), ("nanosleep", ""))
"""Instructions by which a CTA may wait for another one."""


@dataclass
class _Report:
    counters: Counters
    outputs: list[tuple[int, str]]
    runs: list[tuple[int, int, int]]
    error: SimulatorError | None
    failed: int
    """The batch that has the error."""


def processes_for(program: Program, batches: int) -> int:
    """How many processes run a launch that nobody said it of: as many as there are processors, if there is enough to do
    and no CTA can wait for one that another process has not come to. One where this process may not fork."""
    if sys.platform != "linux" or threading.active_count() > 1 or multiprocessing.current_process().daemon:
        return 1
    if any(program.uses(opcode, modifier) for opcode, modifier in _TALK):
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), batches // LEAST_BATCHES))


def run_batches(
    launch: LaunchState, batches: Sequence[Batch], processes: int, progress: Progress | None = None
) -> None:
    """Run batches of CTAs in worker processes; when all have ended, raise the fault of the first batch with one."""
    if sys.platform == "win32":
        raise LaunchError("parallel processes need fork(), which this platform does not have")
    context = multiprocessing.get_context("fork")
    launch.lock = context.RLock()
    count = min(processes, len(batches))
    workers = {}
    for number in range(count):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(launch, batches, number, count, sender), daemon=True)
        process.start()
        sender.close()
        workers[receiver] = process
    try:
        reports = _reports(launch, list(workers), progress)
    except BaseException:
        for process in workers.values():
            process.terminate()
        raise
    finally:
        for process in workers.values():
            process.join()
    _merge(launch, reports)


def _reports(launch: LaunchState, left: list[Connection], progress: Progress | None) -> list[_Report | None]:
    """What the workers report at their end, None of one that ends without a report; they say when a batch is done."""
    reports: list[_Report | None] = []
    done, total = 0, launch.grid[0] * launch.grid[1] * launch.grid[2]
    while left:
        for receiver in wait(left):
            assert isinstance(receiver, Connection)
            try:
                said = receiver.recv()
            except EOFError:
                said = None
            if isinstance(said, int):
                done += said
                if progress is not None:
                    progress(done, total)
            else:
                reports.append(said)
                left.remove(receiver)
    return reports


def _work(launch: LaunchState, batches: Sequence[Batch], first: int, step: int, sender: Connection) -> None:
    from .machine import Machine

    outputs = []
    error: SimulatorError | None = None
    index = first
    try:
        for index in range(first, len(batches), step):
            launch.output.clear()
            batch = batches[index]
            Machine(launch, batch).run()
            outputs.append((index, "".join(launch.output)))
            sender.send(len(batch))
    except SimulatorError as caught:
        error = caught
        outputs.append((index, "".join(launch.output)))
    runs = [(u.runs, u.threads, u.warps) for u in launch.program.units]
    sender.send(_Report(launch.counters, outputs, runs, error, index))
    sender.close()


def _merge(launch: LaunchState, reports: list[_Report | None]) -> None:
    outputs: list[tuple[int, str]] = []
    faults: list[tuple[int, SimulatorError]] = []
    for report in reports:
        if report is None:
            raise LaunchError("a worker process ended without a report")
        outputs += report.outputs
        launch.counters.add(report.counters)
        for unit, (runs, threads, warps) in zip(launch.program.units, report.runs, strict=False):
            unit.runs += runs
            unit.threads += threads
            unit.warps += warps
        if report.error is not None:
            faults.append((report.failed, report.error))
    launch.output[:] = [text for _, text in sorted(outputs)]
    if faults:
        raise min(faults, key=lambda fault: fault[0])[1]
