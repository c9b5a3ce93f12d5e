# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What all fuzzers share: one seed is one input, checked within bounds of time and memory; many seeds, in processes."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

MEMORY = 500 << 20
"""Bytes that one input may take beyond what the process has already."""

GRACE_SECONDS = 60.0
"""Beyond its own bound: how long foreign code, which no signal interrupts, may go on before its process is ended."""


class Hang(BaseException):
    """An input took longer than its fuzzer allows. No handler of ordinary exceptions catches it."""


class Fuzzer(ABC):
    """One kind of input. `make` gives the input of a seed; `check` raises for everything that should not happen."""

    name: str
    seconds: float = 2.0
    """Processor time that one input may take."""

    @abstractmethod
    def make(self, rng: random.Random) -> Any:
        """An input; the same for the same random numbers."""

    @abstractmethod
    def check(self, given: Any) -> str:
        """What became of an input, in a word. Any exception is a failure."""

    @abstractmethod
    def show(self, given: Any) -> bytes:
        """The input as the bytes of a file."""

    def input(self, seed: int) -> Any:
        return self.make(random.Random(f"{self.name} {seed}"))


@dataclass
class Failure:
    """What went wrong with a seed. `kind` tells failures of one cause from others."""

    seed: int
    kind: str
    text: str


@dataclass
class Report:
    """The outcomes of many seeds."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)
    """Seconds, and the seed."""
    notify: Callable[[Failure], None] = lambda failure: None
    """Called for each failure when it is found."""
    interrupted: bool = False
    """Whether the user ended the run."""

    @property
    def count(self) -> int:
        return self.outcomes.total() + len(self.failures)

    def add(self, seed: int, outcome: str | Failure, seconds: float) -> None:
        self.slowest = max(self.slowest, (seconds, seed))
        if isinstance(outcome, Failure):
            self.failures.append(outcome)
            self.notify(outcome)
        else:
            self.outcomes[outcome] += 1

    def summary(self) -> str:
        kinds = ", ".join(f"{count} {name}" for name, count in self.outcomes.most_common())
        seconds, seed = self.slowest
        return f"{self.count} inputs: {kinds}; {len(self.failures)} failed; slowest {seconds:.2f} s (seed {seed})"


# -- one seed ---------------------------------------------------------------------------------------------------------


def _data_bytes() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    raise OSError("no VmData in /proc/self/status")


@contextmanager
def bounded(seconds: float, memory: int = MEMORY) -> Iterator[None]:
    """Raise Hang when the block takes more processor time, MemoryError when it asks for more memory."""

    def expired(number: int, frame: object) -> None:
        raise Hang(f"more than {seconds} s")

    old_handler = signal.signal(signal.SIGVTALRM, expired)
    old_limit = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + memory, old_limit[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_DATA, old_limit)
        signal.signal(signal.SIGVTALRM, old_handler)


def _failure(seed: int, error: BaseException) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "?"
    text = " ".join(str(error).split())
    kind = f"{type(error).__name__} at {place}"
    return Failure(seed, kind, f"{kind}: {text[:600]}")


def attempt(fuzzer: Fuzzer, seed: int) -> tuple[str | Failure, float]:
    """What became of a seed, and the processor seconds that it took."""
    given = fuzzer.input(seed)
    start = time.process_time()
    try:
        with bounded(fuzzer.seconds):
            outcome: str | Failure = fuzzer.check(given)
    except (Exception, Hang) as error:
        outcome = _failure(seed, error)
    return outcome, time.process_time() - start


def run_here(fuzzer: Fuzzer, seeds: range) -> Report:
    """Run seeds in this process."""
    report = Report()
    for seed in seeds:
        report.add(seed, *attempt(fuzzer, seed))
    return report


# -- many seeds -------------------------------------------------------------------------------------------------------


def _work(fuzzer: Fuzzer, seeds: range, out: Connection) -> None:
    """A worker: announces each seed, so that the parent knows which one ended the process or does not end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for seed in seeds:
        out.send(seed)
        out.send(attempt(fuzzer, seed))
    out.send(None)
    out.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C counts behind the block."""
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


class _Worker:
    """A process over some seeds; started anew behind a seed that ended it."""

    def __init__(self, fuzzer: Fuzzer, seeds: range) -> None:
        self.fuzzer = fuzzer
        self.seeds = seeds
        self.seed = seeds.start
        self._start(seeds)

    def _start(self, seeds: range) -> None:
        self.since = time.monotonic()
        self.pipe, theirs = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=_work, args=(self.fuzzer, seeds, theirs), daemon=True)
        with _uninterrupted():  # between the fork and its record nobody would end the process
            self.process.start()
        theirs.close()

    def receive(self, report: Report) -> bool:
        """Take one message; whether there is more to come."""
        try:
            message = self.pipe.recv()
        except EOFError:
            self.process.join()
            report.add(self.seed, Failure(self.seed, "death", f"the process ended: {self.process.exitcode}"), 0.0)
            return self._go_on()
        if message is None:
            self.process.join()
            return False
        if isinstance(message, int):
            self.seed, self.since = message, time.monotonic()
        else:
            report.add(self.seed, *message)
        return True

    def overdue(self, report: Report) -> bool:
        """End a process that hangs in foreign code; whether there is more to come."""
        if time.monotonic() - self.since < 10 * self.fuzzer.seconds + GRACE_SECONDS:
            return True
        self.process.kill()
        self.process.join()
        report.add(self.seed, Failure(self.seed, "hang", "does not end"), time.monotonic() - self.since)
        return self._go_on()

    def _go_on(self) -> bool:
        self.pipe.close()
        rest = range(self.seed + self.seeds.step, self.seeds.stop, self.seeds.step)
        if rest:
            self._start(rest)
        return bool(rest)


def run(
    fuzzer: Fuzzer,
    seeds: range,
    jobs: int = 1,
    seconds: float = float("inf"),
    notify: Callable[[Failure], None] = lambda failure: None,
) -> Report:
    """Run seeds in `jobs` processes, and stop after so many seconds, or when the user interrupts."""
    report = Report(notify=notify)
    end = time.monotonic() + seconds
    workers: list[_Worker] = []
    try:
        for job in range(min(jobs, len(seeds))):
            workers.append(_Worker(fuzzer, seeds[job::jobs]))
        while workers and time.monotonic() < end:
            ready = wait([worker.pipe for worker in workers], timeout=1.0)
            workers = [
                worker
                for worker in workers
                if (worker.receive(report) if worker.pipe in ready else worker.overdue(report))
            ]
    except KeyboardInterrupt:
        report.interrupted = True
    for worker in workers:
        worker.process.kill()
    return report
