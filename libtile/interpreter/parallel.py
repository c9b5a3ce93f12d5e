# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tile blocks in several processes, where they do not depend on each other.

Each block of such a program gives the same whenever it runs, so that a launch gives the same to the bit however many
processes it takes. A program may be racy all the same: with weak accesses that nothing orders, blocks can write what
others read. That is undefined, and no two ways of running it need agree; the check for races runs in one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from libtile.interpreter.codegen import Program
from libtile.interpreter.entries import LaunchError
from libtile.interpreter.faults import InterpreterFault
from libtile.interpreter.location import source_location
from libtile.interpreter.machine import Launch, RunResult, Scheduler
from libtile.support import workers
from libtile.support.checks import Checks
from libtile.support.errors import LibtileError, reason

TRIED = 0.05
"""Seconds of a grid that run here before it is known how long the rest will take."""
LEAST = 0.5
"""Seconds that the rest has to take for processes to be started: they cost some 0.05."""
PARTS = 16
"""Parts of a grid for each process, as a few blocks may take longer than the others."""


def reason_for_one(program: Program, checks: Checks, order: int | str | None, traced: bool) -> str | None:
    """Why the tile blocks of a program have to run in one process; None when they need not."""
    if order is not None:
        return "a block order was given"
    if traced:
        return "they are traced"
    if "race" in checks:
        return "the check for races has to see all of them"
    if program.shares is not None:
        where = source_location(program.shares)
        return f"they may depend on each other by '{program.shares.name}'" + (f" at {where}" if where else "")
    return None


def run_blocks(
    launch: Launch,
    arguments: Sequence[Any],
    processes: int | None,
    progress: Callable[[int, int], None] | None = None,
) -> RunResult:
    """Run every tile block of a launch that has no reason for one process, in so many (None: one for each processor,
    if that saves time). `progress` is called with (blocks done, blocks in all). Raises InterpreterFault, that of the
    first block in order with one; blocks behind it may have run."""
    started = time.perf_counter()
    scheduler = Scheduler(launch, arguments, progress=progress)
    asked = processes is not None
    with np.errstate(all="ignore"):
        if processes is None:
            _begin(scheduler, started)
            processes = workers.available()
        left = range(scheduler.done, scheduler.total)
        used = _run_rest(scheduler, left, min(processes, len(left)), asked) if left else 1
    result = scheduler.result(started)
    result.processes = used
    return result


def _begin(scheduler: Scheduler, started: float) -> None:
    """Run blocks here, until it is known that others should run the rest."""
    count = 1
    while scheduler.done < scheduler.total:
        first = scheduler.done
        scheduler.run(range(first, min(first + count, scheduler.total)))
        taken = time.perf_counter() - started
        if taken >= TRIED and taken / scheduler.done * (scheduler.total - scheduler.done) >= LEAST:
            return
        count *= 2


def _run_rest(scheduler: Scheduler, left: range, processes: int, asked: bool) -> int:
    """Run these blocks in so many processes; in how many they ran. Unless that many were `asked` for, they run here
    where there is no memory for others."""
    with ExitStack() as stack:
        try:
            stack.enter_context(scheduler.launch.memory.in_shared_pages())
        except OSError as error:
            if asked:
                raise LaunchError(f"the grid cannot run in {processes} processes: {reason(error)}") from None
            scheduler.run(left)
            return 1
        _run_in_workers(scheduler, left, processes)
    return processes


def _run_in_workers(scheduler: Scheduler, left: range, processes: int) -> None:
    """Have workers run these blocks, and count what they do."""
    launch, memory = scheduler.launch, scheduler.launch.memory
    span = -(-len(left) // (processes * PARTS))
    read, written, ops = memory.bytes_read, memory.bytes_written, scheduler.ops
    progress, before = scheduler.progress, len(launch.printed)
    texts: dict[int, tuple[str, bool]] = {}
    shown = 0

    def run(part: int) -> tuple[tuple[int, str, bool], LibtileError | None]:
        launch.out, scheduler.progress = None, None  # of this worker, which says it to the first process
        del launch.printed[before:]
        numbers = left[part * span : (part + 1) * span]
        fault: InterpreterFault | None = None
        try:
            scheduler.run(numbers)
        except InterpreterFault as caught:
            fault = caught
        return (len(numbers), "".join(launch.printed[before:]), fault is not None), fault

    def end() -> tuple[int, int, int]:
        return memory.bytes_read - read, memory.bytes_written - written, scheduler.ops - ops

    def heard(part: int, value: tuple[int, str, bool]) -> None:
        nonlocal shown
        count, text, failed = value
        texts[part] = text, failed
        while shown in texts:  # in the order of the blocks, up to one that did not end well
            text, failed = texts[shown]
            if text:
                launch.write(text)
            shown = -1 if failed else shown + 1
        scheduler.done += count
        if progress is not None:
            progress(scheduler.done, scheduler.total)

    try:
        ends, fault = workers.run_parts(-(-len(left) // span), processes, run, end, heard)
    except workers.WorkerError as error:
        raise LaunchError(f"the grid cannot run in {processes} processes: {error}") from None
    for more_read, more_written, more_ops in ends:
        memory.bytes_read += more_read
        memory.bytes_written += more_written
        scheduler.ops += more_ops
    if fault is not None:
        raise fault
