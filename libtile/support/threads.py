# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the threads of a process share, and what a fork must not tear apart.

Two locks guard all state that outlives a call: `LLVM` is held while LLVM works, `SHARED` for moments, while something
is made that all threads then use. A thread that holds `SHARED` does not ask for `LLVM`. Both are held across a fork,
so that a child finds nothing half made, and no lock in the hands of a thread that it does not have.
"""

from __future__ import annotations

from _thread import RLock  # as `threading` has it, which takes as long to import as reading a kernel
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from libtile.support.forks import HELD

LLVM = RLock()
SHARED = RLock()


HELD.extend([LLVM, SHARED])

T = TypeVar("T")


def once(make: Callable[[], T]) -> Callable[[], T]:
    """A function that makes one object for all threads; `functools.cache` makes several when threads ask at once."""
    made: list[T] = []

    @wraps(make)
    def ask() -> T:
        if not made:
            with SHARED:
                if not made:
                    made.append(make())
        return made[0]

    return ask
