# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Room for nesting in Python's stack while a text is read or printed, and the limit of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from libtile.diagnostics import DiagnosticError, error

MAX_NESTING = 128
"""How deep regions, attributes and types may nest in one another; deeper text gives a diagnostic."""

_FRAMES_PER_LEVEL = 16
"""Upper bound on the Python frames that one level of nesting takes in the parser or the printer."""


@contextmanager
def room_for_nesting() -> Iterator[None]:
    """Raise the interpreter's recursion limit, where it is too low for `MAX_NESTING` levels above the caller.

    Frames of Python functions take no C stack, so a higher limit is safe. What is too deep all the same, such as an
    attribute that a caller has built, ends in a DiagnosticError.
    """
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    before = sys.getrecursionlimit()
    needed = depth + _FRAMES_PER_LEVEL * MAX_NESTING
    if needed > before:
        sys.setrecursionlimit(needed)
    try:
        yield
    except RecursionError:
        raise DiagnosticError([error(None, f"nesting is deeper than the limit of {MAX_NESTING}")]) from None
    finally:
        if needed > before and sys.getrecursionlimit() == needed:
            sys.setrecursionlimit(before)
