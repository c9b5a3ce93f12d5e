# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ctrl-C while a tool is still being loaded, when there is nobody to catch KeyboardInterrupt."""

# The builtin part alone: `signal` makes enums of it, which takes longer than all else here.
import _signal as signal  # type: ignore[import-not-found]


def prepare() -> None:
    """Let SIGINT end the process; one that ignores it (in the background of a script) goes on ignoring it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
