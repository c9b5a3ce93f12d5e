# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Missing proxy fences: shared memory written through the generic proxy and read by an asynchronous copy.

Ordinary writes reach the async proxy (bulk copies out of shared memory) only when a `fence.proxy.async` lies between:
by the writer, or by a thread that the write happens before, such as the one that issues the copy after a barrier (PTX
ISA, "Causality order": proxy-preserved base causality order). Each shared byte remembers who wrote it last without
such a fence since.
"""

from __future__ import annotations

import numpy as np

from .races import RaceDetector


class ProxyTracker:
    """`writer` is the thread of the last unfenced generic write of each shared byte, or -1."""

    def __init__(self, shared_bytes: int) -> None:
        self.writer = np.full(shared_bytes, -1, dtype=np.int32)

    def wrote(self, offsets: np.ndarray, size: int, threads: np.ndarray) -> None:
        """Ordinary stores of `size` bytes at each offset."""
        self.writer[offsets[:, None] + np.arange(size)] = threads[:, None]

    def replaced(self, offsets: np.ndarray, size: int) -> None:
        """An asynchronous copy fills these bytes: earlier ordinary writes no longer matter."""
        self.writer[offsets[:, None] + np.arange(size)] = -1

    def fence(self, threads: np.ndarray, races: RaceDetector) -> None:
        """fence.proxy.async by these threads: covers writes of their warps and those that happen before."""
        pending = np.flatnonzero(self.writer >= 0)
        if len(pending) == 0:
            return
        warp = self.writer[pending] >> 5
        clock = races.write_clock[pending >> 2]
        covered = np.zeros(len(pending), dtype=bool)
        for mine in np.unique(threads >> 5).tolist():
            covered |= (warp == mine) | (clock <= races.clock[mine, races.own[warp]])
        self.writer[pending[covered]] = -1

    def unfenced(self, offsets: np.ndarray) -> np.ndarray:
        """Threads whose writes to these bytes have not been fenced."""
        writers = self.writer[offsets]
        return np.unique(writers[writers >= 0])
