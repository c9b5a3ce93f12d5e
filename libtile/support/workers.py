# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parts of one computation in forked processes.

The workers are forks of this process and share with it the pages that were made for that (`mmap.mmap(-1, size)`);
everything else that they change is their own. Worker k of n runs the parts k, k + n, k + 2n, ... and says what each
gave as it ends.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from libtile.support.errors import LibtileError, reason
from libtile.support.internal_errors import internal_error

Part = Callable[[int], tuple[Any, LibtileError | None]]
"""Runs a part by number, in a worker: what it gives, and the fault that it ended with."""


class WorkerError(LibtileError):
    """A worker process ended by itself, or cannot be started."""


def available() -> int:
    """How many processes a computation may take that nobody said it of: one for each processor, or just this one where
    it may not fork: not on Linux, with threads, or a worker itself; or where processes can share no locks."""
    if sys.platform != "linux" or threading.active_count() > 1 or multiprocessing.current_process().daemon:
        return 1
    count = len(os.sched_getaffinity(0))
    if count > 1:
        try:
            lock()
        except WorkerError:
            return 1
    return count


def lock() -> Any:
    """A lock that the workers of a computation share; they may take it again while they hold it. Raises WorkerError."""
    context = _context()
    try:
        return context.RLock()
    except (OSError, ImportError) as error:  # no /dev/shm that can be written to; no semaphores at all
        raise WorkerError(f"no lock can be made that processes share: {reason(error)}") from None


def _context() -> Any:
    if sys.platform == "win32":
        raise WorkerError("parallel processes need fork(), which this platform does not have")
    return multiprocessing.get_context("fork")


def run_parts(
    parts: int, processes: int, run: Part, end: Callable[[], Any], heard: Callable[[int, Any], None]
) -> tuple[list[Any], LibtileError | None]:
    """Run the parts below `parts` in so many processes.

    `heard` is called here with the number of each part that has ended and what it gave. Gives what `end` gave in each
    worker when it had nothing left to do, and the fault of the lowest part that had one: all parts below that have been
    run, and of those above it perhaps some. Raises WorkerError.
    """
    context = _context()
    limit = mmap.mmap(-1, 8)
    _set_limit(limit, parts)
    workers: dict[Connection, Any] = {}
    try:
        for number in range(min(processes, parts)):
            try:
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(number, processes, run, end, limit, sender), daemon=True)
                with warnings.catch_warnings():
                    # Python warns of threads, as numpy's BLAS has them, which are prepared for a fork.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
            except OSError as error:
                raise WorkerError(f"no process can be started: {reason(error)}") from None
            sender.close()
            workers[receiver] = process
        return _listen(list(workers), limit, heard)
    except BaseException:
        for process in workers.values():
            process.terminate()
        raise
    finally:
        for process in workers.values():
            process.join()


def _listen(
    left: list[Connection], limit: mmap.mmap, heard: Callable[[int, Any], None]
) -> tuple[list[Any], LibtileError | None]:
    ends: list[Any] = []
    fault: LibtileError | None = None
    while left:
        for receiver in wait(left):
            assert isinstance(receiver, Connection)
            try:
                number, value, error = receiver.recv()
            except (EOFError, OSError):  # an OSError where a part of a report has come
                raise WorkerError("a worker process ended without a report") from None
            if number is None:
                ends.append(value)
                left.remove(receiver)
                continue
            if isinstance(error, WorkerError):
                raise error
            heard(number, value)
            if error is not None and number < _limit(limit):
                fault = error
                _set_limit(limit, number)
    return ends, fault


def _limit(limit: mmap.mmap) -> int:
    """No part from this number on need be run."""
    return int.from_bytes(limit[:8], "little")


def _set_limit(limit: mmap.mmap, number: int) -> None:
    limit[:8] = number.to_bytes(8, "little")


def _work(number: int, step: int, run: Part, end: Callable[[], Any], limit: mmap.mmap, sender: Connection) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes, and the first one ends the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        while number < _limit(limit):
            value, fault = run(number)
            sender.send((number, value, fault))
            if fault is not None:
                break
            number += step
        sender.send((None, end(), None))
    except BrokenPipeError:  # the first process has ended, and nobody waits for this one
        os._exit(1)
    except Exception as error:
        told = WorkerError(internal_error(error, "worker process"))
        sender.send((number, None, told))
    sender.close()
