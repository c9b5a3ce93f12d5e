# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counters that passes report, for whoever asks for them.

    statistics.count("ops merged")

costs a look-up while nobody collects.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_active: ContextVar[dict[str, int] | None] = ContextVar("libtile-statistics", default=None)


def count(what: str, number: int = 1) -> None:
    """Add to a counter of the pass that is at work."""
    counters = _active.get()
    if counters is not None:
        counters[what] = counters.get(what, 0) + number


@contextmanager
def collect() -> Iterator[dict[str, int]]:
    """Collect what is counted in the body, by counter, in the order of the first count."""
    counters: dict[str, int] = {}
    token = _active.set(counters)
    try:
        yield counters
    finally:
        _active.reset(token)
