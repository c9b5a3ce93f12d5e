# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM in a thread of its own, which loads its library while the first thread still reads its input and lowers it.

Nothing of Python is loaded or changed by the thread until there is work: it is inside of the system's loader, and of
functions of LLVM's. With work it does what is LLVM's in it, with a stack that is larger than a process's, and the first
thread waits where Ctrl-C and other signals reach it, as they do not inside of LLVM. It is for a tool, whose process
ends with its work: a thread that is inside of LLVM cannot be asked to end.
"""

from __future__ import annotations

import os
from _thread import allocate_lock, stack_size, start_new_thread
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from types import TracebackType

from libtile.backend import libllvm
from libtile.backend.work import Backend, Made, Work

STACK = 64 << 20
"""Bytes of the thread's stack, of which memory is only what has been used."""


class LlvmThread:
    """A context manager, which gives the function that has one piece of work done."""

    def __init__(self) -> None:
        self._task: Callable[[], str] | None = None
        self._asked, self._done = allocate_lock(), allocate_lock()
        self._result = ""
        self._error: BaseException | None = None
        self._runs = False

    def __enter__(self) -> Backend:
        path = libllvm.library_path()  # which may load modules
        self._asked.acquire()
        self._done.acquire()
        try:
            before = stack_size(STACK)
            try:
                start_new_thread(self._serve, (path,))
                self._runs = True
            finally:
                stack_size(before)
        except (RuntimeError, ValueError):  # no more threads, or none of this size: all of it is done in this one
            pass
        return self.build

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task = None
        if self._runs and self._asked.locked():
            self._asked.release()

    def build(self, work: Work) -> Made:
        """`libtile.backend.build.build`, with its errors."""
        from libtile.backend.build import build

        return build(work, run=self._run)

    def _run(self, task: Callable[[], str]) -> str:
        """What a task gives or raises, in the thread; this one waits."""
        if not self._runs:
            return task()
        self._task = partial(copy_context().run, task)
        self._asked.release()
        self._done.acquire()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._result

    def _serve(self, path: str | None) -> None:
        """The life of the thread."""
        if path is not None:
            libllvm.open_ahead(path)
        while True:
            self._asked.acquire()
            task = self._task
            if task is None:
                return
            try:
                self._result = task()
            except BaseException as error:
                self._error = error
            self._done.release()


def is_useful() -> bool:
    """Whether a library can be opened here while Python goes on, and there is a second processor for that."""
    return libllvm.CAN_OPEN_AHEAD and hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1
