# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is said of an exception that should not have been."""

from __future__ import annotations

import os

from libtile.support.environment import TRACEBACK, SettingError


def internal_error(error: Exception, what: str) -> str:
    """One line about an exception that should not have been: a fault of libtile in `what`, and where it stands; or of
    the machine, which has no memory left, or does not load a library.

    Raises the exception itself for somebody who asked to see tracebacks.
    """
    if shows_traceback():
        raise error
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, ImportError) and not (error.name or "").startswith("libtile"):
        cause: BaseException = error
        while isinstance(cause.__cause__, ImportError):  # numpy has a page of advice around the one that says why
            cause = cause.__cause__
        return f"a library cannot be loaded: {' '.join(str(cause).split())}"
    import traceback

    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    text = " ".join(str(error).split())
    return f"internal error of the {what} at {place}: {type(error).__name__}: {text}{_refused()}"


def shows_traceback() -> bool:
    """Whether somebody asked to see the tracebacks of internal errors, in a way that is understood."""
    return not _refused() and TRACEBACK.on()


def _refused() -> str:
    """What is wrong with the variable that asks for tracebacks, to go behind an error's text."""
    try:
        TRACEBACK.on()
    except SettingError as odd:
        return f"; {odd}"
    return ""
