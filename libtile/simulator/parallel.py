# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CTAs in parallel processes.

Global memory is shared pages that the forked workers inherit, so their stores meet like those of a GPU. Atomics on
global memory take a lock. Each worker runs batches of CTAs until none is left and sends back counters and output.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from .counters import Counters
from .errors import LaunchError, SimulatorError
from .launch_state import LaunchState

Batch = list[tuple[int, int, int]]


@dataclass
class _Report:
    counters: Counters
    outputs: list[tuple[int, str]]
    runs: list[tuple[int, int, int]]
    error: SimulatorError | None


def run_batches(launch: LaunchState, batches: Sequence[Batch], processes: int) -> None:
    """Run batches of CTAs in worker processes; raises the first worker's fault after all have ended."""
    if sys.platform == "win32":
        raise LaunchError("parallel processes need fork(), which this platform does not have")
    context = multiprocessing.get_context("fork")
    launch.lock = context.RLock()
    count = min(processes, len(batches))
    workers = []
    for number in range(count):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(launch, batches, number, count, sender))
        process.start()
        sender.close()
        workers.append((process, receiver))
    reports = []
    for process, receiver in workers:
        try:
            reports.append(receiver.recv())
        except EOFError:
            reports.append(None)
        process.join()
    _merge(launch, reports)


def _work(launch: LaunchState, batches: Sequence[Batch], first: int, step: int, sender: Connection) -> None:
    from .machine import Machine

    outputs = []
    error: SimulatorError | None = None
    try:
        for index in range(first, len(batches), step):
            launch.output.clear()
            Machine(launch, batches[index]).run()
            outputs.append((index, "".join(launch.output)))
    except SimulatorError as caught:
        error = caught
        outputs.append((first, "".join(launch.output)))
    runs = [(u.runs, u.threads, u.warps) for u in launch.program.units]
    sender.send(_Report(launch.counters, outputs, runs, error))
    sender.close()


def _merge(launch: LaunchState, reports: list[_Report | None]) -> None:
    outputs: list[tuple[int, str]] = []
    for report in reports:
        if report is None:
            raise LaunchError("a worker process ended without a report")
        outputs += report.outputs
        launch.counters.add(report.counters)
        for unit, (runs, threads, warps) in zip(launch.program.units, report.runs, strict=False):
            unit.runs += runs
            unit.threads += threads
            unit.warps += warps
    launch.output[:] = [text for _, text in sorted(outputs)]
    for report in reports:
        if report is not None and report.error is not None:
            raise report.error
