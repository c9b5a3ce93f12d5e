# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a fork must not tear apart: the locks in `HELD`, and modules that another thread is loading.

libtile loads its parts when they are first used. Python has a lock for each module while a thread loads it, and a
child that imports the module waits for ever for that thread, which it does not have. So a fork waits until nobody loads
what libtile is made of. The package calls `before` and `after` around each fork, from its first import on.
"""

from __future__ import annotations

import _frozen_importlib
import _imp
import sys
import time
from _thread import RLock, get_ident

HELD: list[RLock] = []
"""Locks that are held across a fork, in the order in which they are asked for."""
_taken: list[RLock] = []
LONGEST_LOAD = 60.0
"""Seconds; a module that somebody loads for longer is waited for no more."""

_OURS = frozenset({"libtile", "libtile_tools", "xdsl", "llvmlite", "numpy", "ml_dtypes", "construct"})


def before() -> None:
    """Get hold of all that others must not be in the middle of."""
    until = time.monotonic() + LONGEST_LOAD
    while True:
        for lock in HELD:
            lock.acquire()
            _taken.append(lock)
        _imp.acquire_lock()  # nobody begins to load a module
        if not _others_load() or time.monotonic() > until:
            return
        after()
        time.sleep(0.001)


def after() -> None:
    """Let go of it, in the parent and in the child."""
    _imp.release_lock()
    while _taken:
        _taken.pop().release()


def _others_load() -> bool:
    """Whether another thread is loading a module of libtile's, of what it is built on or of Python's own; never for a
    thread that forks while it loads something itself, which others may be waiting for."""
    me, found = get_ident(), False
    for name, reference in list(getattr(_frozen_importlib, "_module_locks", {}).items()):
        owner = getattr(reference(), "owner", None)
        if owner == me:
            return False
        root = name.partition(".")[0]
        found |= owner is not None and (root in _OURS or root in sys.stdlib_module_names)
    return found
