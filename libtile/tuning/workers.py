# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Who measures trials: this process, several of this machine, or the workers of a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

import numpy as np

from libtile.support.errors import LibtileError
from libtile.tuning.trials import Outcome, Trial, measured

TRIES = 5
"""How often a trial is given to a cluster whose workers are lost while they have it."""

_arrays: Sequence[np.ndarray] = ()


def here(trials: Sequence[Trial], arrays: Sequence[np.ndarray]) -> Iterator[Outcome]:
    """One trial after the other, in this process."""
    for trial in trials:
        yield measured(trial, arrays)


def _install(arrays: Sequence[np.ndarray]) -> None:
    global _arrays
    _arrays = arrays


def _measured(trial: Trial) -> Outcome:
    return measured(trial, _arrays)


def available() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _main_left_out() -> Iterator[None]:
    """Within, new processes do not import the script that this one runs: they need nothing of it, and a script without
    `if __name__ == "__main__":` would begin anew in each of them."""
    main = sys.modules["__main__"]
    kept = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    try:
        for name in kept:
            setattr(main, name, None)
        yield
    finally:
        for name, value in kept.items():
            setattr(main, name, value)


def in_processes(trials: Sequence[Trial], arrays: Sequence[np.ndarray], processes: int) -> Iterator[Outcome]:
    """Trials as they are done by so many processes. LibtileError when one ends by itself, or none can be had."""
    context = multiprocessing.get_context("spawn")
    try:
        made = ProcessPoolExecutor(min(processes, len(trials)), context, _install, (list(arrays),))
    except (OSError, ImportError, NotImplementedError) as error:  # no semaphores, or nowhere to keep them
        raise LibtileError(f"there cannot be {processes} processes, give 1: {error}") from None
    with made as pool:
        with _main_left_out():  # all processes begin with the first trial
            futures = [pool.submit(_measured, trial) for trial in trials]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise LibtileError(
                f"a process that measured ended by itself, what was done before is kept: {error}"
            ) from None
        finally:
            for future in futures:
                future.cancel()


def on_cluster(trials: Sequence[Trial], arrays: Sequence[np.ndarray], address: str) -> Iterator[Outcome]:
    """Trials as they are done by the workers of the Dask scheduler at an address. What a lost worker had is given to
    others. LibtileError without Dask, without a scheduler, and for trials that are lost again and again."""
    try:
        from distributed import CancelledError, Client, KilledWorker
        from distributed import as_completed as completed
    except ImportError as error:
        raise LibtileError(f"a cluster needs Dask: pip install 'libtile[cluster]' ({error})") from None
    try:
        client = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise LibtileError(f"there is no Dask scheduler at {address}: {error}") from None
    with client:
        left = {trial.key: trial for trial in trials}
        for _ in range(TRIES):
            # On every worker, so that losing one loses no data; what is lost all the same is sent anew.
            shared = client.scatter(list(arrays), broadcast=True, hash=False) if arrays else []
            futures = {client.submit(measured, t, shared, key=f"libtile-{t.key}", pure=False): t for t in left.values()}
            for future in completed(futures):
                try:
                    outcome: Outcome = future.result()
                except (CancelledError, KilledWorker):
                    continue
                del left[outcome.key]
                yield outcome
            if not left:
                return
        raise LibtileError(f"{len(left)} trials were lost with the workers that had them, {TRIES} times")
