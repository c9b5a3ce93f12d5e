# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small questions that instructions ask the machine: member masks, active lanes, cluster addresses."""

from __future__ import annotations

import numpy as np

from .calls import Calls
from .group import ThreadGroup
from .ir import Instruction
from .memory import CLUSTER_BIT, CLUSTER_RANK, CLUSTER_SHIFT, SHARED_WINDOW


class WarpState(Calls):
    """Answers to single instructions."""

    def check_member(
        self, g: ThreadGroup, mask: np.ndarray, ins: Instruction, source: np.ndarray | None = None
    ) -> None:
        """A thread must be named in the member mask of the .sync instruction that it executes, and so must be the lane
        that it takes a value from."""
        if "convergence" not in self.checks:
            return
        lane = (g.threads & 31).astype(np.uint32)
        outside = (mask.view(np.uint32) >> lane) & np.uint32(1) == 0
        if outside.any():
            value = int(np.broadcast_to(mask, (g.n,))[outside][0]) & 0xFFFFFFFF
            text = f"a lane that executes the instruction is not in its member mask 0x{value:x}"
            self.fault("membermask", text, ins, g.threads[outside])
        if source is None:
            return
        outside = (mask.view(np.uint32) >> source.astype(np.uint32)) & np.uint32(1) == 0
        if outside.any():
            text = f"a value is taken from lane {int(source[outside][0])}, which is not in the member mask"
            self.fault("membermask", text, ins, g.threads[outside])

    def stack_allocate(self, g: ThreadGroup, size: np.ndarray, align: int, ins: Instruction) -> np.ndarray:
        """alloca: local addresses of `size` more bytes at the end of each thread's frame."""
        threads, frame = g.threads, g.frame
        top = frame.base[threads] + np.uint64(frame.code.frame_size) + frame.extra[threads]
        start = (top + np.uint64(align - 1)) // np.uint64(align) * np.uint64(align)
        end = start + size
        over = end > np.uint64(self.local_stride)
        if over.any():
            need = int(end[over][0])
            text = f"alloca needs {need} bytes of stack, the thread has {self.local_stride}"
            self.fault("stack-overflow", text, ins, threads[over])
        # Frames start on 16 bytes.
        used = (end + np.uint64(15)) // np.uint64(16) * np.uint64(16) - frame.base[threads]
        frame.extra[threads] = used - np.uint64(frame.code.frame_size)
        return start

    def stack_restore(self, g: ThreadGroup, saved: np.ndarray) -> None:
        """stackrestore: give back what was allocated since the matching stacksave."""
        g.frame.extra[g.threads] = saved

    def stack_save(self, g: ThreadGroup) -> np.ndarray:
        """stacksave: an opaque value, here the bytes that alloca has added to the frame."""
        return g.frame.extra[g.threads]

    def warp_synced(self, g: ThreadGroup) -> None:
        if self.races is not None:
            self.races.warp_sync(g.warps)

    def active_mask(self, g: ThreadGroup) -> np.ndarray:
        bits = self._bits(g.active())
        return bits[np.searchsorted(g.warps, g.threads >> 5)]

    def proxy_fence(self, g: ThreadGroup, mask: np.ndarray | None, spaces: tuple[str, ...]) -> None:
        """fence.proxy.async: generic writes to some spaces become visible to asynchronous copies."""
        if self.races is None:
            return
        threads = g.threads if mask is None else g.threads[mask]
        if self.proxy is not None and "shared" in spaces:
            self.proxy.fence(threads, self.races)
        if self.global_proxy is not None and "global" in spaces:
            self.global_proxy.fence(threads, self.races)

    def map_address(self, value: np.ndarray, rank: np.ndarray, bits: int) -> np.ndarray:
        """mapa: the shared::cluster address of the same variable in CTA `rank`."""
        inner = value & value.dtype.type((1 << CLUSTER_SHIFT) - 1)
        moved = inner | rank.astype(value.dtype) << value.dtype.type(CLUSTER_SHIFT) | value.dtype.type(CLUSTER_BIT)
        if bits == 64:
            generic = (value >> np.uint64(40)) != 0
            return np.where(generic, moved | np.uint64(SHARED_WINDOW), moved)
        return moved

    def rank_of_address(self, g: ThreadGroup, value: np.ndarray) -> np.ndarray:
        """getctarank: the CTA of the cluster that an address is in."""
        upper = (value.astype(np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.int64)
        named = (upper & CLUSTER_BIT) != 0
        return np.where(named, upper >> CLUSTER_SHIFT & CLUSTER_RANK, self.cluster_rank[g.threads]).astype(np.uint32)

    def own_prefix(self, g: ThreadGroup) -> np.ndarray:
        """What the addresses of the own CTA's shared variables have above their offset, in a cluster."""
        if self.cluster_size == 1:
            return np.zeros(g.n, dtype=np.uint64)
        return (self.cluster_rank[g.threads] << CLUSTER_SHIFT | CLUSTER_BIT).astype(np.uint64)
