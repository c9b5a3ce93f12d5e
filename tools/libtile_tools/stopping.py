# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ctrl-C and SIGTERM in a tool's process: temporary files go, and then the process ends by that very signal.

A shell script stops at a command that SIGINT has ended, and goes on behind one that has caught it and ended with a
status of its own; so a tool cleans up and sends the signal to itself again.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes enums of numbers, which takes a while
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from libtile.support.errors import Stopped as Stopped

SIGINT: int = signal.SIGINT
_SIGNALS = (SIGINT, signal.SIGTERM)


def take_signals() -> None:
    """Have the signals raise Stopped, once; a second one ends the process at once. One that is ignored stays so."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    sys.unraisablehook = _unraisable


def _stop(number: int, frame: object) -> NoReturn:
    for each in _SIGNALS:
        if signal.getsignal(each) is _stop:
            signal.signal(each, signal.SIG_DFL)
    raise Stopped(number)


def _unraisable(problem: Any) -> None:
    """The signal came in code whose exceptions have nowhere to go, such as a destructor: end without cleaning up."""
    if isinstance(problem.exc_value, Stopped):
        end_by(problem.exc_value.number)
    sys.__unraisablehook__(problem)


def block_signals() -> None:
    """The work is done: from here on the process ends by itself, with its own status."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


@contextmanager
def signals_wait() -> Iterator[None]:
    """A signal that comes inside of the block takes effect behind it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_by(number: int) -> NoReturn:
    """End the process by a signal."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # where the signal is blocked
