# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Global memory that `ld.global.nc` reads, which nothing may write while the kernel runs (PTX ISA, "ld.global.nc")."""

from __future__ import annotations

import numpy as np


class ReadOnlyTracker:
    """Which bytes of global memory a launch has written, and which it has read as memory that is never written."""

    def __init__(self, global_bytes: int) -> None:
        # Zeros take no memory before they are written.
        self.written = np.zeros(global_bytes, dtype=bool)
        self.taken = np.zeros(global_bytes, dtype=bool)

    def read(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """Loads of `size` bytes at each offset; which of them read what was written."""
        at = offsets[:, None] + np.arange(size)
        self.taken[at] = True
        return np.asarray(self.written[at].any(axis=1))

    def wrote(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """Stores of `size` bytes at each offset; which of them write what was read."""
        at = offsets[:, None] + np.arange(size)
        self.written[at] = True
        return np.asarray(self.taken[at].any(axis=1))
