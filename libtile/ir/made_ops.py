# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Of which classes ops are made: a pass manager hears what sorts of ops a pass made, and need not look for them.

Ops of the bases here (`DeferredOp`, `DeclaresOperands`) are noted when they are made or copied, in whatever way. What
passes change of ops that are there, moves or erases, is not. Whoever listens hears of what all threads make.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from libtile.support.threads import SHARED

_listening: tuple[set[type], ...] = ()
"""The sets of those who listen; another tuple whenever there are others, as threads go through it at any time."""


def note(op: object) -> None:
    """An op has been made."""
    for made in _listening:
        made.add(type(op))


@contextmanager
def listening() -> Iterator[set[type]]:
    """The classes of the ops that are made in the body, as far as they have been made."""
    global _listening
    made: set[type] = set()
    with SHARED:
        _listening = (*_listening, made)
    try:
        yield made
    finally:
        with SHARED:
            _listening = tuple(other for other in _listening if other is not made)


__all__ = ["listening", "note"]
