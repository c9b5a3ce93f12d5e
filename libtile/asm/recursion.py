# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Room for nesting in Python's stack while a text is read or printed, and the limit of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from libtile.support.diagnostics import DiagnosticError, error
from libtile.support.threads import SHARED

MAX_NESTING = 160
"""How deep regions, attributes and types may nest in one another; deeper text gives a diagnostic. What a file of
bytecode holds is printed with fewer levels in every form: two modules, a function, and regions, attributes and
types as deep as `bytecode.limits` has them."""

_FRAMES_PER_LEVEL = 16
"""Upper bound on the Python frames that one level of nesting takes in the parser or the printer."""


class _Raised:
    """The limit is one for all threads: the last that needs it higher puts it back."""

    def __init__(self) -> None:
        self.users = 0
        self.before = self.ours = 0

    def enter(self, needed: int) -> None:
        with SHARED:
            limit = sys.getrecursionlimit()
            if not self.users:
                self.before, self.ours = limit, 0
            self.users += 1
            if needed > limit:
                sys.setrecursionlimit(needed)
                self.ours = needed

    def leave(self) -> None:
        with SHARED:
            self.users -= 1
            if not self.users and self.ours and sys.getrecursionlimit() == self.ours:
                sys.setrecursionlimit(self.before)


_raised = _Raised()


@contextmanager
def room_for_nesting() -> Iterator[None]:
    """Raise the interpreter's recursion limit, where it is too low for `MAX_NESTING` levels above the caller.

    Frames of Python functions take no C stack, so a higher limit is safe. What is too deep all the same, such as an
    attribute that a caller has built, ends in a DiagnosticError.
    """
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    _raised.enter(depth + _FRAMES_PER_LEVEL * MAX_NESTING)
    try:
        yield
    except RecursionError:
        raise DiagnosticError([error(None, f"nesting is deeper than the limit of {MAX_NESTING}")]) from None
    finally:
        _raised.leave()
