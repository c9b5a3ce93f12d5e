# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Clusters that have not started may be taken over by running ones (PTX ISA, "clusterlaunchcontrol")."""

from __future__ import annotations

import numpy as np

from .access import AccessInfo
from .async_engine import Job
from .group import ThreadGroup
from .memory import CLUSTER_SHIFT, PENDING, READY, cluster_prefix
from .tensor_products import TensorProducts

RESPONSE = 16
"""Bytes of the answer to a request."""
_NO_CTA = np.array([0xFFFFFFFF << 32, (1 << 64) - 1], dtype=np.uint64)
"""The answer when there is no cluster: not cancelled, and indices that no CTA has."""


class LaunchControl(TensorProducts):
    """Requests for clusters that have not started."""

    def init_launch_control(self) -> None:
        # Clusters, by number among the resident ones, of which a thread knows that there is nothing left to take.
        self.refused: set[int] = set()

    def observe_answer(self, g: ThreadGroup, cancelled: np.ndarray, mask: np.ndarray | None) -> None:
        """clusterlaunchcontrol.query_cancel.is_canceled: threads learn what the answer is."""
        failed = ~np.broadcast_to(cancelled, (g.n,)) & (True if mask is None else mask)
        self.refused.update((self.cta_of[g.threads[failed]] // self.cluster_size).tolist())

    def try_cancel(
        self,
        into: AccessInfo,
        barrier: AccessInfo,
        g: ThreadGroup,
        address: np.ndarray,
        signal: np.ndarray,
        everywhere: bool,
        mask: np.ndarray | None,
    ) -> None:
        """clusterlaunchcontrol.try_cancel: an answer in shared memory, later, and its bytes at an mbarrier.

        With `everywhere` each CTA of the cluster gets it, at the same addresses.
        """
        for k in (np.arange(g.n) if mask is None else np.flatnonzero(mask)).tolist():
            thread = g.threads[k : k + 1].copy()
            if int(self.cta_of[thread[0]]) // self.cluster_size in self.refused:
                text = "a request behind one that was seen to fail: what it does is undefined"
                self.fault("illegal-instruction", text, into.instruction, thread)
            taken = self.launch.take_cluster()
            words = _NO_CTA.copy()
            if taken is not None:
                x, y, z = (np.uint64(i) for i in taken)
                words[:] = np.uint64(1) | x << np.uint64(32), y | z << np.uint64(32)
            inner = (1 << CLUSTER_SHIFT) - 1
            prefixes = [cluster_prefix(rank) for rank in range(self.cluster_size)] if everywhere else [None]
            for prefix in prefixes:
                where, place = (int(x[k]) & 0xFFFFFFFF for x in (address, signal))
                if prefix is not None:
                    where, place = where & inner | prefix, place & inner | prefix
                if where % RESPONSE:
                    self.fault("misaligned", f"the response's address 0x{where:x}", into.instruction, thread)
                run = np.array([where, where + 8], dtype=np.uint64)
                one = AccessInfo(into.instruction, "shared", "u8", counted=False)
                threads = np.repeat(thread, 2)
                arena, off = self.locate(one, "shared", run, threads, 8)
                if self.check:
                    self._check_store(one, "shared", arena, off, off >> 3, words, threads)
                if self.proxy is not None:
                    self.proxy.replaced(off, 8)
                spots = off[:, None] + np.arange(8)
                arena.flags[spots] |= PENDING
                shared = AccessInfo(barrier.instruction, "shared", "u8", 1, True)
                owner = self._each(shared, np.array([place], dtype=np.uint64), thread)[0][0]
                self._answer(into, owner.place, spots, words, thread)

    def _answer(self, into: AccessInfo, place: int, spots: np.ndarray, words: np.ndarray, thread: np.ndarray) -> None:
        races = self.races
        clock = None if races is None else races.snapshot(int(thread[0]) >> 5)

        def finish() -> None:
            self.shared_arena.data[spots] = words.view(np.uint8).reshape(2, 8)
            self.shared_arena.flags[spots] = READY
            if races is not None and clock is not None:
                races.publish(place >> 2, clock)
            self.complete_tx(place, RESPONSE)

        self.submit(Job("clusterlaunchcontrol.try_cancel", into.instruction, finish, signals=int(thread[0])))
