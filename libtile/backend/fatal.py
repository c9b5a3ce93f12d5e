# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is said when LLVM aborts the process.

LLVM ends the process on what it calls a fatal error: it prints one line of its own and calls `abort()`, and llvmlite
offers no way to catch that. Inside `explained`, the signal of the abort first says what was being compiled. A
command-line tool calls `end_with`: it then ends with a status of its own in place of the signal, and so it does when a
function of LLVM's takes more than its thread's stack, or touches memory that is not there.
"""

from __future__ import annotations

import ctypes
import os
import sys
from _signal import SIGABRT, SIGSEGV  # type: ignore[import-not-found]  # `signal` makes enums of numbers, which takes a while
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from libtile.support.threads import SHARED

_ending: tuple[int, str] | None = None
_subjects: dict[int, Callable[[], str]] = {}
_previous: int | None = None

_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)


class _Action(ctypes.Structure):
    """`struct sigaction` of Linux's C libraries."""

    _fields_ = (
        ("handler", ctypes.c_void_p), ("mask", ctypes.c_ulong * (1024 // (8 * ctypes.sizeof(ctypes.c_ulong)))),
        ("flags", ctypes.c_int), ("restorer", ctypes.c_void_p),
    )  # fmt: skip


class _Stack(ctypes.Structure):
    """`stack_t` of Linux."""

    _fields_ = (("base", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


_ON_STACK = 0x08000000  # SA_ONSTACK: a stack that has run over has no room for a handler
_DISABLED = 2  # SS_DISABLE
_STACK_BYTES = 256 << 10


@contextmanager
def _faults_end() -> Iterator[None]:
    """While in the block, an access of this thread to memory that is not there ends the process as an abort does."""
    libc, room = ctypes.CDLL(None), ctypes.create_string_buffer(_STACK_BYTES)
    handler, before, old = _Action(ctypes.cast(_handler, ctypes.c_void_p), flags=_ON_STACK), _Action(), _Stack()
    stack = _Stack(ctypes.cast(room, ctypes.c_void_p), 0, _STACK_BYTES)
    libc.sigaltstack(ctypes.byref(stack), ctypes.byref(old))
    libc.sigaction(SIGSEGV, ctypes.byref(handler), ctypes.byref(before))
    try:
        yield
    finally:
        libc.sigaction(SIGSEGV, ctypes.byref(before), None)
        libc.sigaltstack(ctypes.byref(old), None)


def _explain(number: int) -> None:
    # The abort is the thread's own, inside a foreign call that has released the interpreter: Python may run here.
    subject = _subjects.get(get_ident())
    if subject is not None:
        os.write(2, f"{subject()}\n".encode())
        if _ending is not None:
            if _ending[1]:
                os.write(2, f"{_ending[1]}\n".encode())
            os._exit(_ending[0])
    if number == SIGSEGV:  # of another thread, which it ends once more
        ctypes.CDLL(None).signal(SIGSEGV, None)
    elif _previous:  # a handler of the process, such as faulthandler's
        _HANDLER(_previous)(number)


_handler = _HANDLER(_explain)


def _set_handler(address: Any) -> int | None:
    set_signal = ctypes.CDLL(None).signal
    set_signal.restype, set_signal.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
    found: int | None = set_signal(SIGABRT, address)
    return found


def end_with(status: int, message: str = "") -> None:
    """Let an abort inside `explained` end the process with a status, after a last line if there is a message."""
    global _ending
    _ending = status, message


@contextmanager
def explained(subject: Callable[[], str]) -> Iterator[None]:
    """While in the block, an abort on this thread prints `subject()` on stderr (after what the aborting code said)."""
    global _previous
    if os.name != "posix":
        yield
        return
    thread = get_ident()
    with SHARED:
        if not _subjects:
            _previous = _set_handler(ctypes.cast(_handler, ctypes.c_void_p))
        outer = _subjects.get(thread)
        _subjects[thread] = subject
    try:
        with _faults_end() if _ending is not None and sys.platform == "linux" else nullcontext():
            yield
    finally:
        with SHARED:
            if outer is None:
                del _subjects[thread]
            else:
                _subjects[thread] = outer
            if not _subjects:
                _set_handler(_previous)
