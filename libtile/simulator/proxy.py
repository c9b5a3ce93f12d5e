# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Missing proxy fences: shared memory written through the generic proxy and read by an asynchronous copy.

A thread's ordinary writes reach the async proxy (bulk copies out of shared memory) only after `fence.proxy.async` by
the writer (PTX ISA, "Async proxy"). Each shared byte remembers who wrote it last since that thread's last fence.
"""

from __future__ import annotations

import numpy as np


class ProxyTracker:
    """`writer` is the thread of the last unfenced generic write of each shared byte, or -1."""

    def __init__(self, shared_bytes: int) -> None:
        self.writer = np.full(shared_bytes, -1, dtype=np.int32)
        self.active = False

    def wrote(self, offsets: np.ndarray, size: int, threads: np.ndarray) -> None:
        """Ordinary stores of `size` bytes at each offset."""
        self.writer[offsets[:, None] + np.arange(size)] = threads[:, None]

    def fence(self, threads: np.ndarray) -> None:
        """fence.proxy.async by these threads."""
        self.writer[np.isin(self.writer, threads)] = -1

    def unfenced(self, offsets: np.ndarray) -> np.ndarray:
        """Threads whose writes to these bytes have not been fenced."""
        writers = self.writer[offsets]
        return np.unique(writers[writers >= 0])

    def arrived(self, offsets: np.ndarray) -> None:
        """Bytes that an asynchronous copy has written."""
        self.writer[offsets] = -1
