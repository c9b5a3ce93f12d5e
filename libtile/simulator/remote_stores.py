# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""st.async and red.async, which store and reduce in shared memory of the cluster and signal an mbarrier there, and
st.bulk (PTX ISA, "st.async", "red.async", "st.bulk")."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from .access import AccessInfo
from .async_engine import AsyncEngine, Job
from .atomics import Combine
from .group import ThreadGroup
from .limits import MAX_BYTES
from .memory import PENDING, READY


def ones(size: int) -> int:
    """0x01 in each of `size` bytes."""
    return int.from_bytes(b"\1" * size, "little")


class RemoteStores(AsyncEngine):
    """Stores that arrive later; each is a job."""

    def store_later(
        self, into: AccessInfo, g: ThreadGroup, addr: np.ndarray, values: tuple[np.ndarray, ...], barrier: np.ndarray,
        combine: Combine | None, mask: np.ndarray | None,
    ) -> None:  # fmt: skip
        """A store of each thread where `mask`, or with `combine` a reduction of what is there."""
        ins, size = into.instruction, into.element
        stacked = np.stack([np.broadcast_to(value, (g.n,)) for value in values]).view(f"u{size}")
        addr, barrier = (np.broadcast_to(x, (g.n,)).astype(np.uint64) for x in (addr, barrier))
        for k in (np.arange(g.n) if mask is None else np.flatnonzero(mask)).tolist():
            thread = g.threads[k : k + 1].copy()
            data = np.ascontiguousarray(stacked[:, k])
            place = self._signalled(ins, barrier[k : k + 1], thread)
            to = addr[k] + np.arange(0, size * len(data), size, dtype=np.uint64)
            if int(addr[k]) % (size * len(data)):
                self.fault("misaligned", f"shared address 0x{int(addr[k]):x} of {ins.name}", ins, thread)
            run = np.repeat(thread, len(data))
            off = self.locate(into, "shared", to, run, size)[1]
            if (off // self.shared_stride != place // self.shared_stride).any():
                text = f"{ins.name} writes the shared memory of one CTA and signals an mbarrier of another"
                self.fault("illegal-instruction", text, ins, thread)
            if combine is None:
                finish = self._arrival(into, self.claim(into, to, data, thread), data, place, thread)
            else:
                there = self._reduced(into, to, run, data)
                finish = self._reduction_there(into, there, partial(np.copy, data), combine, place, size, thread)
            self.submit(Job(ins.name, ins, finish, signals=int(thread[0])))

    def store_zeros(
        self, into: AccessInfo, g: ThreadGroup, addr: np.ndarray, size: np.ndarray, mask: np.ndarray | None
    ) -> None:
        """st.bulk: zeros from each thread's address on."""
        for k in (np.arange(g.n) if mask is None else np.flatnonzero(mask)).tolist():
            thread, count = g.threads[k : k + 1].copy(), int(np.broadcast_to(size, (g.n,))[k])
            if count % 8 or count > MAX_BYTES["shared"]:
                text = f"st.bulk of {count} bytes: a multiple of 8, within shared memory"
                self.fault("illegal-instruction", text, into.instruction, thread)
            to = np.broadcast_to(addr, (g.n,))[k].astype(np.uint64) + np.arange(0, count, 8, dtype=np.uint64)
            if count:
                self.store_at(into, to, np.zeros(len(to), np.uint64), np.repeat(thread, len(to)))

    def _arrival(
        self, into: AccessInfo, off: np.ndarray, data: np.ndarray, place: int, thread: np.ndarray
    ) -> Callable[[], None]:
        """What ends a store."""
        size, races = into.size, self.races
        clock = races.snapshot(int(thread[0]) >> 5) if races is not None else None

        def finish() -> None:
            self.shared_arena.views[into.code][off // size] = data
            self.shared_arena.flag_views[size][off // size] = READY * ones(size)
            if self.proxy is not None:
                # Unlike bulk copies, st.async writes through the generic proxy.
                self.proxy.wrote(off, size, np.repeat(thread, len(off)))
            if races is not None and clock is not None:
                races.publish(place >> 2, clock)
            self.complete_tx(place, size * len(off))

        return finish

    def claim(self, into: AccessInfo, places: np.ndarray, data: np.ndarray, thread: np.ndarray) -> np.ndarray:
        """Check and mark the bytes in shared memory that something fills later; returns their offsets in the arena."""
        size = into.size
        run = np.repeat(thread, len(places))
        arena, off = self.locate(into, "shared", places.view(np.uint64), run, size)
        if self.check:
            self._check_store(into, "shared", arena, off, off // size, data, run)
        if self.proxy is not None:
            self.proxy.replaced(off, size)
        arena.flag_views[size][off // size] |= PENDING * ones(size)
        return off
