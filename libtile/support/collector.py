# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pausing Python's cyclic garbage collector while a large structure is built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No collection inside. Building IR makes many objects and no garbage, and a collection walks all of them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
