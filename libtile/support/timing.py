# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the time of a compilation goes: stages that measure themselves when somebody asks.

    with timing.collect() as report:
        libtile.compile(...)
    print(report.table())

`stage` marks a stage; it costs nothing to speak of while no report is collected.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from libtile.support.records import dataclass, field

_active: ContextVar[Report | None] = ContextVar("libtile-timing", default=None)


@dataclass
class Report:
    """Seconds by stage, in the order in which they ended; the time of a stage inside another is the inner's alone."""

    stages: dict[str, float] = field(default_factory=dict)
    total: float = 0.0
    booked: float = 0.0

    def add(self, name: str, seconds: float) -> None:
        """Book a stage's own seconds."""
        self.stages[name] = self.stages.get(name, 0.0) + seconds
        self.booked += seconds

    def table(self) -> str:
        """The report as a table: seconds, share of the total, stage; what no stage covers is `other`."""
        total = max(self.total, 1e-9)
        rows = [
            *self.stages.items(),
            ("other", max(self.total - sum(self.stages.values()), 0.0)),
            ("total", self.total),
        ]
        lines = [f"{seconds:10.4f} {100 * seconds / total:7.1f}%  {name}" for name, seconds in rows]
        return "\n".join([f"{'seconds':>10} {'share':>8}  stage", *lines]) + "\n"


@contextmanager
def collect() -> Iterator[Report]:
    """Collect the times of the stages entered in the body."""
    report = Report()
    token = _active.set(report)
    start = time.perf_counter()
    try:
        yield report
    finally:
        report.total = time.perf_counter() - start
        _active.reset(token)


def stage(name: str) -> AbstractContextManager[None]:
    """The body is (a part of) the stage of this name."""
    report = _active.get()
    return _UNMEASURED if report is None else _measured(report, name)


_UNMEASURED = nullcontext()


@contextmanager
def _measured(report: Report, name: str) -> Iterator[None]:
    start, before = time.perf_counter(), report.booked
    try:
        yield
    finally:
        report.add(name, time.perf_counter() - start - (report.booked - before))
