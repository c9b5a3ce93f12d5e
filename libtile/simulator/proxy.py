# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Missing proxy fences: memory written through the generic proxy and read by an asynchronous copy.

Ordinary writes reach the async proxy (bulk copies out of shared and global memory) only when a `fence.proxy.async` lies
between: by the writer, or by a thread that the write happens before, such as the one that issues the copy after a
barrier (PTX ISA, "Causality order": proxy-preserved base causality order). Each shared byte, and each word of global
memory, remembers who wrote it last without such a fence since. What happens before what is known within a cluster;
of another cluster's write to global memory it counts whether anybody has executed a fence since.
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


class GlobalProxyTracker:
    """`writer` is one more than the thread of the last unfenced generic write of each word of 4 bytes, or 0, and
    `clock` its warp's clock then. Writes of fewer bytes are not noted, nor is what CTAs did that have ended."""

    def __init__(self, global_bytes: int) -> None:
        # Zeros take no memory before they are written.
        self.writer = np.zeros(global_bytes // 4, dtype=np.int32)
        self.clock = np.zeros(global_bytes // 4, dtype=np.int32)
        self._noted: list[np.ndarray] = []

    def wrote(self, offsets: np.ndarray, size: int, threads: np.ndarray, races: RaceDetector) -> None:
        """Ordinary stores, or atomics, of `size` bytes at each offset."""
        if size < 4:
            return
        warps = threads >> 5
        now = races.clock[warps, races.own[warps]]
        for word in range(size // 4):
            at = (offsets >> 2) + word
            self.writer[at], self.clock[at] = threads + 1, now
            self._noted.append(at)

    def replaced(self, offsets: np.ndarray, size: int) -> None:
        """An asynchronous copy fills these bytes."""
        for word in range(max(size // 4, 1)):
            self.writer[(offsets >> 2) + word] = 0

    def fence(self, threads: np.ndarray, races: RaceDetector) -> None:
        """fence.proxy.async of all of memory, or of global memory, by these threads."""
        if not self._noted:
            return
        noted = np.unique(np.concatenate(self._noted))
        noted = noted[self.writer[noted] > 0]
        warp, clock = self.writer[noted] - 1 >> 5, self.clock[noted]
        covered = np.zeros(len(noted), dtype=bool)
        for mine in np.unique(threads >> 5).tolist():
            elsewhere = warp // races.width != mine // races.width
            covered |= elsewhere | (warp == mine) | (clock <= races.clock[mine, races.own[warp]])
        self.writer[noted[covered]] = 0
        self._noted = [noted[~covered]] if not covered.all() else []

    def unfenced(self, offsets: np.ndarray) -> np.ndarray:
        """Threads whose writes to words at these offsets have not been fenced."""
        writers = self.writer[np.unique(offsets >> 2)]
        return np.unique(writers[writers > 0]) - 1
