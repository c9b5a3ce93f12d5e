# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asynchronous work: copies that complete later than they are issued, and the events that tell of it.

Nothing asynchronous is visible before it must be: a `cp.async` lands when its group is waited for, and a bulk copy
when no thread can go on without it. Until then its destination bytes are marked, and touching them is a fault. Every
unit of work is a `Job`; new engines (tensor copies, tensor cores that run on their own) add jobs with their own
`finish`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from libtile.support.records import dataclass

from .access import AccessInfo
from .atomics import Combine
from .ir import Instruction
from .limits import MAX_BYTES
from .mbarrier import MBarriers
from .memory import CLUSTER_SHIFT, GLOBAL_BASE, IN_USE, PENDING, READY, cluster_prefix

if TYPE_CHECKING:
    from .group import ThreadGroup


_LATEST, _LATEST_WHEN_WAITED_FOR = 1 << 15, 1 << 11
"""Warp instructions after which a copy completes though threads can go on; fewer when one waits for an mbarrier."""


class LateRead:
    """What a copy reads, as late as it may, so that reusing its source early shows: when it writes, or at `capture`."""

    def __init__(self, read: Callable[[], np.ndarray]) -> None:
        self.read = read
        self.value: np.ndarray | None = None

    def capture(self) -> None:
        """A cp.async.bulk.wait_group.read: the source may be written again."""
        self.value = self()

    def __call__(self) -> np.ndarray:
        return self.read() if self.value is None else self.value


@dataclass
class Job:
    """Something under way. `finish()` makes its effects visible and signals who waits for it."""

    name: str
    instruction: Instruction
    finish: Callable[[], None]
    # (thread, bulk group) of work that a bulk wait_group waits for.
    owner: tuple[int, int] | None = None
    # Warp instructions that had been executed when it was submitted.
    issued: int = 0
    # Bytes of shared memory that are not to be written until its group has been waited for, or it has signalled.
    reads: np.ndarray | None = None
    # The thread whose work ends at an mbarrier, and writes or signals shared memory.
    signals: int | None = None
    # Of a copy from shared to global memory: what it copies.
    late: LateRead | None = None


@dataclass
class CopyBatch:
    """cp.async of a group: destination offsets, source bytes [n, size], the group number of each thread."""

    info: AccessInfo
    threads: np.ndarray
    offsets: np.ndarray
    data: np.ndarray
    number: np.ndarray
    done: np.ndarray


class AsyncEngine(MBarriers):
    """Asynchronous copies and queued jobs."""

    def init_async(self) -> None:
        self.jobs: deque[Job] = deque()
        self.copies: list[CopyBatch] = []
        self.copy_group = np.zeros(self.thread_count, dtype=np.int64)
        self.bulk_group = np.zeros(self.thread_count, dtype=np.int64)
        # How much of what is in flight reads each shared byte; made when something does.
        self.in_use = np.zeros(0, dtype=np.uint16)
        # How many reductions in flight change each shared byte; made when one does.
        self.reduced = np.zeros(0, dtype=np.uint16)
        # Copies out of shared memory that nobody has waited for, though some may have completed.
        self.unwaited: list[Job] = []

    # -- shared memory that something in flight reads

    def hold_shared(self, spots: np.ndarray) -> None:
        """Bytes of shared memory, each named once, are not to be written until they are let go."""
        if not len(self.in_use):
            self.in_use = np.zeros(self.shared_arena.size, dtype=np.uint16)
        self.in_use[spots] += 1
        self.shared_arena.flags[spots] |= IN_USE

    def let_go_shared(self, spots: np.ndarray) -> None:
        self.in_use[spots] -= 1
        self.shared_arena.flags[spots[self.in_use[spots] == 0]] &= ~np.uint8(IN_USE)

    def what_reads(self, at: int) -> str:
        copies = (job.name for job in self.unwaited if job.reads is not None and at in job.reads)
        return next(copies, super().what_reads(at))

    # -- cp.async

    def copy_async(
        self,
        info: AccessInfo,
        source: AccessInfo,
        g: ThreadGroup,
        dst: np.ndarray,
        src: np.ndarray,
        src_size: np.ndarray | None,
        mask: np.ndarray | None,
    ) -> None:
        """Issue one cp.async: read the source now, mark the destination, deliver when its group completes.

        `src_size` [n] is how many bytes come from the source; the rest of the destination becomes zero.
        """
        chosen = np.arange(g.n) if mask is None else np.flatnonzero(mask)
        if len(chosen) == 0:
            return
        threads = g.threads[chosen]
        dst, src = dst[chosen], src[chosen]
        size = info.size
        data = np.zeros((len(chosen), size), dtype=np.uint8)
        wanted = np.full(len(chosen), size) if src_size is None else src_size[chosen].astype(np.int64)
        if int(wanted.max()) > size:
            self.fault(
                "illegal-instruction",
                f"cp.async src-size {int(wanted.max())} is above cp-size {size}",
                info.instruction,
                threads[wanted > size],
            )
        whole = np.flatnonzero(wanted == size)
        if len(whole):
            loaded = self.load_at(source, src[whole], threads[whole])
            data[whole] = np.ascontiguousarray(loaded.T).view(np.uint8).reshape(len(whole), size)
        for k in np.flatnonzero((wanted > 0) & (wanted < size)).tolist():
            one = AccessInfo(info.instruction, source.space, "u1")
            span = src[k] + np.arange(int(wanted[k]), dtype=np.uint64)
            data[k, : int(wanted[k])] = self.load_at(one, span, np.repeat(threads[k], int(wanted[k])))
        self._deliver_later(info, threads, dst, data)

    def _deliver_later(self, info: AccessInfo, threads: np.ndarray, dst: np.ndarray, data: np.ndarray) -> None:
        space = info.space
        if dst.dtype != np.uint64:
            dst = dst.view(np.uint32).astype(np.uint64)
        if space == "generic":
            found, dst = self.generic_space(info, dst, threads)
            if found != "shared":
                self.fault(
                    "illegal-instruction", "the destination of cp.async is not shared memory", info.instruction, threads
                )
        arena, off = self.locate(info, "shared", dst, threads, info.size)
        index = self._index(info, arena, off, info.size, threads, dst)
        if self.check:
            # Several threads may copy the same bytes to one place, as they may store them.
            new = ~self._copied_already(off, data)
            if new.any():
                values = self._as_elements(info, data[new])
                self._check_store(info, "shared", arena, off[new], index[..., new], values, threads[new])
        spots = off[:, None] + np.arange(info.size)
        arena.flags[spots] |= PENDING
        number = self.copy_group[threads].copy()
        self.copies.append(CopyBatch(info, threads.copy(), off, data, number, np.zeros(len(threads), dtype=bool)))

    def _copied_already(self, off: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Which copies [n] bring to their place what another cp.async in flight brings there."""
        same = np.zeros(len(off), dtype=bool)
        if not (self.shared_arena.flags[off] & PENDING).any():
            return same
        for batch in self.copies:
            if batch.info.size == data.shape[1]:
                at = {int(place): row for row, place in enumerate(batch.offsets.tolist()) if not batch.done[row]}
                for k in np.flatnonzero(np.isin(off, batch.offsets)).tolist():
                    row = at.get(int(off[k]))
                    same[k] |= row is not None and bool((batch.data[row] == data[k]).all())
        return same

    @staticmethod
    def _as_elements(info: AccessInfo, data: np.ndarray) -> np.ndarray:
        """[n, size] bytes as the [vector, n] elements that a store of `info` would have."""
        elements = data.view(info_dtype(info))
        return elements.T if info.vector > 1 else elements[:, 0]

    def copy_commit(self, g: ThreadGroup, mask: np.ndarray | None) -> None:
        self.copy_group[g.threads if mask is None else g.threads[mask]] += 1

    def copy_wait(self, g: ThreadGroup, keep: int | None, mask: np.ndarray | None) -> None:
        """Complete each thread's groups but the newest `keep` committed ones; None completes everything."""
        threads = g.threads if mask is None else g.threads[mask]
        limit = np.full(self.thread_count, -1, dtype=np.int64)
        limit[threads] = (1 << 60) if keep is None else self.copy_group[threads] - keep
        self._complete_copies(limit)

    def _complete_copies(self, limit: np.ndarray) -> None:
        """Deliver the copies of every thread t whose group number is below limit[t]."""
        for batch in self.copies:
            self._deliver(batch, ~batch.done & (batch.number < limit[batch.threads]))
        self.copies = [batch for batch in self.copies if not batch.done.all()]

    def _deliver(self, batch: CopyBatch, ready: np.ndarray) -> None:
        """Write the bytes of the copies that are `ready` to shared memory."""
        if ready.any():
            spots = batch.offsets[ready][:, None] + np.arange(batch.info.size)
            self.shared_arena.data[spots] = batch.data[ready]
            self.shared_arena.flags[spots] = READY
            if self.proxy is not None:
                # Unlike bulk copies, cp.async writes through the generic proxy.
                self.proxy.wrote(batch.offsets[ready], batch.info.size, batch.threads[ready])
            batch.done |= ready

    def copy_arrive(
        self, info: AccessInfo, g: ThreadGroup, addr: np.ndarray, noinc: bool, mask: np.ndarray | None
    ) -> None:
        """cp.async.mbarrier.arrive: an arrival when all earlier cp.async of the thread have completed."""
        chosen = np.arange(g.n) if mask is None else np.flatnonzero(mask)
        threads = g.threads[chosen].copy()
        if len(threads) == 0:
            return
        barriers = [b for b, _ in self._each(info, addr[chosen], threads)]
        if not noinc:
            # The pending count goes up now and down when the copies are complete.
            for barrier in barriers:
                barrier.pending += 1
        asks = np.zeros(self.thread_count, dtype=bool)
        asks[threads] = True
        mine = [(batch, asks[batch.threads] & ~batch.done) for batch in self.copies]
        races = self.races
        clocks = [races.snapshot(w) for w in np.unique(threads >> 5).tolist()] if races is not None else []

        def finish() -> None:
            for batch, wanted in mine:
                self._deliver(batch, wanted & ~batch.done)
            self.copies = [batch for batch in self.copies if not batch.done.all()]
            if races is not None:
                for place in {barrier.place for barrier in barriers}:
                    for clock in clocks:
                        races.publish(place >> 2, clock)
            for barrier in barriers:
                barrier.pending -= 1
                self._advance(barrier)

        self.submit(Job("cp.async.mbarrier.arrive", info.instruction, finish))

    # -- bulk copies

    def bulk_copy(
        self,
        into: AccessInfo,
        origin: AccessInfo,
        g: ThreadGroup,
        dst: np.ndarray,
        src: np.ndarray,
        size: np.ndarray,
        barrier: np.ndarray | None,
        cta_mask: np.ndarray | None,
        mask: np.ndarray | None,
        byte_mask: np.ndarray | None = None,
    ) -> None:
        """cp.async.bulk: one copy per thread, completed later, signalled by bytes on an mbarrier or by bulk groups;
        a multicast goes to the same place in each CTA of a mask. `byte_mask` says which bytes of each 16 are copied."""
        ins = into.instruction
        chosen = np.arange(g.n) if mask is None else np.flatnonzero(mask)
        for k in chosen.tolist():
            thread = g.threads[k : k + 1].copy()
            count = int(size[k])
            self._check_bulk(ins, thread, int(dst[k]), int(src[k]), count)
            if count == 0:
                continue
            signal = None if barrier is None else int(barrier[k])
            ends = self.destinations(ins, thread, int(dst[k]), signal, None if cta_mask is None else int(cta_mask[k]))
            step = np.arange(count, dtype=np.uint64)
            if byte_mask is not None:
                step = step[int(byte_mask[k]) >> (step.astype(np.int64) & 15) & 1 == 1]
            if len(step):
                self._bulk_one(into, origin, thread, ends, src[k : k + 1], step)

    def destinations(
        self, ins: Instruction, thread: np.ndarray, place: int, barrier: int | None, cta_mask: int | None
    ) -> list[tuple[int, int | None]]:
        """Where a copy goes and which mbarrier it signals: as given, or in each CTA of a multicast's mask."""
        if cta_mask is None:
            return [(place, barrier)]
        if cta_mask >> self.cluster_size:
            self.fault("illegal-instruction", f"CTA mask 0x{cta_mask:x} goes beyond the cluster", ins, thread)
        inner = (1 << CLUSTER_SHIFT) - 1
        prefixes = [cluster_prefix(rank) for rank in range(self.cluster_size) if cta_mask >> rank & 1]
        return [(place & inner | to, None if barrier is None else barrier & inner | to) for to in prefixes]

    def bulk_reduce(
        self,
        into: AccessInfo,
        origin: AccessInfo,
        g: ThreadGroup,
        dst: np.ndarray,
        src: np.ndarray,
        size: np.ndarray,
        barrier: np.ndarray | None,
        combine: Combine,
        mask: np.ndarray | None,
    ) -> None:
        """cp.reduce.async.bulk from shared memory: one per thread, to global memory as part of its bulk group, or to a
        CTA's shared memory, signalled by bytes on an mbarrier there."""
        ins = into.instruction
        for k in (np.arange(g.n) if mask is None else np.flatnonzero(mask)).tolist():
            thread = g.threads[k : k + 1].copy()
            count = int(size[k])
            self._check_bulk(ins, thread, int(dst[k]), int(src[k]), count)
            if count == 0:
                continue
            name, step = "cp.reduce.async.bulk", np.arange(0, count, into.size, dtype=np.uint64)
            run = np.repeat(thread, len(step))
            source, target = src[k : k + 1].astype(np.uint64) + step, dst[k : k + 1].astype(np.uint64) + step
            off = self.locate(origin, "shared", source, run, origin.size)[1]
            self._check_proxy(off, ins, thread)
            given = self.load_at(origin, source, run)
            values = LateRead(partial(self.load_at, origin, source, run))
            reads = (off[:, None] + np.arange(into.size)).reshape(-1) if self.races is not None else None
            if barrier is None:
                job = Job(name, ins, partial(self._reduce_at, into, target, run, values, combine), reads=reads)
                job.owner, job.late = (int(thread[0]), int(self.bulk_group[thread[0]])), values
            else:
                there = self._reduced(into, target, run, given)
                place = self._signalled(ins, barrier[k : k + 1], thread)
                finish = self._reduction_there(into, there, values, combine, place, count, thread)
                job = Job(name, ins, finish, reads=reads, signals=int(thread[0]))
            self.submit(job)

    def _reduce_at(
        self, into: AccessInfo, target: np.ndarray, run: np.ndarray, values: Callable[[], np.ndarray], combine: Combine
    ) -> None:
        """What ends a reduction into global memory."""
        self.store_at(into, target, combine(self.load_at(into, target, run), values(), None), run)

    def _reduced(self, into: AccessInfo, target: np.ndarray, run: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Marks what a reduction changes in shared memory, which others may be changing as well; offsets there."""
        off = self.locate(into, "shared", target, run, into.size)[1]
        spots = (off[:, None] + np.arange(into.size)).reshape(-1)
        if not len(self.reduced):
            self.reduced = np.zeros(self.shared_arena.size, dtype=np.uint16)
        first = self.reduced[off] == 0
        if first.any():
            at = off[first]
            self.load_at(into, target[first], run[first])
            if self.check:
                self._check_store(into, "shared", self.shared_arena, at, at // into.size, values[first], run[first])
            self._check_proxy(at, into.instruction, run[:1])
        self.reduced[spots] += 1
        self.shared_arena.flags[spots] |= PENDING
        return off

    def _reduction_there(
        self, into: AccessInfo, off: np.ndarray, values: Callable[[], np.ndarray], combine: Combine, place: int,
        count: int, thread: np.ndarray,
    ) -> Callable[[], None]:  # fmt: skip
        """What ends a reduction into shared memory."""
        spots = (off[:, None] + np.arange(into.size)).reshape(-1)
        races = self.races
        clock = races.snapshot(int(thread[0]) >> 5) if races is not None else None

        def finish() -> None:
            view = self.shared_arena.views[into.code]
            view[off // into.size] = combine(view[off // into.size], values(), None)
            self.reduced[spots] -= 1
            self.shared_arena.flags[spots[self.reduced[spots] == 0]] = READY
            if races is not None and clock is not None:
                races.publish(place >> 2, clock)
            self.complete_tx(place, count)

        return finish

    def _signalled(self, ins: Instruction, barrier: np.ndarray, thread: np.ndarray) -> int:
        """The place of the mbarrier that a copy signals."""
        return self._each(AccessInfo(ins, "shared", "u8", 1, True), barrier, thread)[0][0].place

    def _check_bulk(self, ins: Instruction, thread: np.ndarray, dst: int, src: int, count: int) -> None:
        """What every bulk copy of plain memory needs."""
        if count % 16 or dst % 16 or src % 16:
            self.fault("misaligned", "a bulk copy needs addresses and a size that are multiples of 16", ins, thread)
        if count > MAX_BYTES["shared"]:  # one of its sides is there; found before addresses are worked out
            text = f"a bulk copy of {count} bytes; the CTA has {self.shared_size} bytes of shared memory"
            self.fault("out-of-bounds", text, ins, thread)

    def _bulk_one(
        self, into: AccessInfo, origin: AccessInfo, thread: np.ndarray, ends: list[tuple[int, int | None]],
        src: np.ndarray, step: np.ndarray,
    ) -> None:  # fmt: skip
        ins, count = into.instruction, len(step)
        run = np.repeat(thread, count)
        source = src.astype(np.uint64)[0] + step
        held = None
        if origin.space == "shared":
            held = self.locate(origin, "shared", source, run, 1)[1]
            self._check_proxy(held, ins, thread)
        elif origin.space == "global":
            self.check_global_proxy(ins, source, thread)
        data = self.load_at(origin, source, run)
        arena, filled, places = self.global_arena, [], []
        for to, barrier in ends:
            arena, off = self.locate(into, into.space, np.uint64(to) + step, run, 1)
            if self.check:
                self._check_store(into, into.space, arena, off, off, data, run)
            if self.proxy is not None and into.space == "shared":
                self.proxy.replaced(off, 1)
            elif into.space == "global":
                self._note_global_write(into, off, run)
            arena.flags[off] |= PENDING
            filled.append(off)
            if barrier is not None:
                places.append(self._signalled(ins, np.array([barrier], dtype=np.uint64), thread))
        number = int(self.bulk_group[thread[0]])
        races = self.races
        clock = races.snapshot(int(thread[0]) >> 5) if races is not None else None

        late = LateRead((lambda: data) if held is None else partial(self.load_at, origin, source, run))

        def finish() -> None:
            now = late()
            for off in filled:
                arena.data[off] = now
                arena.flags[off] = READY
            for place in places:
                if races is not None and clock is not None:
                    races.publish(place >> 2, clock)
                self.complete_tx(place, count)

        job = Job("cp.async.bulk", ins, finish, reads=held if self.races is not None else None)
        if not places:
            job.owner, job.late = (int(thread[0]), number), late
        else:
            job.signals = int(thread[0])
        self.submit(job)

    def _check_proxy(self, off: np.ndarray, ins: Instruction, thread: np.ndarray) -> None:
        """A bulk copy out of shared memory must not overtake ordinary writes that nobody has fenced."""
        if self.proxy is None:
            return
        writers = self.proxy.unfenced(off)
        if len(writers):
            reader = "product" if ins.opcode == "wgmma" else "instruction" if ins.opcode == "tcgen05" else "copy"
            self.fault(
                "proxy-fence",
                f"the {reader} reads shared bytes that thread {int(writers[0]) % self.cta_stride} wrote with no "
                "fence.proxy.async after the write",
                ins,
                thread,
            )

    def check_global_proxy(self, ins: Instruction, address: np.ndarray, thread: np.ndarray) -> None:
        """A bulk copy out of global memory must not overtake ordinary writes of this launch that nobody has fenced."""
        if self.global_proxy is None:
            return
        writers = self.global_proxy.unfenced((address - np.uint64(GLOBAL_BASE)).view(np.int64))
        if len(writers):
            writer = int(writers[0])
            cta = self.ctas[writer // self.cta_stride]
            text = (
                f"the copy reads global bytes that thread {writer % self.cta_stride} of CTA {cta} wrote with no "
                "fence.proxy.async after the write"
            )
            self.fault("proxy-fence", text, ins, thread)

    def bulk_commit(self, g: ThreadGroup, mask: np.ndarray | None) -> None:
        self.bulk_group[g.threads if mask is None else g.threads[mask]] += 1

    def bulk_wait(self, g: ThreadGroup, keep: int, read: bool, mask: np.ndarray | None) -> None:
        """cp.async.bulk.wait_group: complete the threads' bulk groups but the newest `keep`."""
        waiting = set((g.threads if mask is None else g.threads[mask]).tolist())

        def is_waited_for(job: Job) -> bool:
            owner = job.owner
            return owner is not None and owner[0] in waiting and owner[1] < int(self.bulk_group[owner[0]]) - keep

        done = [job for job in self.jobs if is_waited_for(job)]
        self.jobs = deque(job for job in self.jobs if not is_waited_for(job))
        for job in done:
            if not read or job.late is None:
                job.finish()
            else:
                job.late.capture()
        if read:
            # Their sources are free, and what they write is still under way.
            self.jobs.extendleft(reversed([job for job in done if job.late is not None]))
        for job in self.unwaited:
            if job.reads is not None and is_waited_for(job):
                self.let_go_shared(job.reads)
        self.unwaited = [job for job in self.unwaited if not is_waited_for(job)]

    # -- jobs

    def submit(self, job: Job) -> None:
        """Queue work that completes later, in order."""
        job.issued = self.executed
        self.jobs.append(job)
        if job.reads is not None:
            self.hold_shared(job.reads)
            self.unwaited.append(job)

    def finish_overdue(self) -> None:
        """Complete work that has taken its time: threads that spin may wait for a thread that waits for it."""
        while self.jobs:
            age = self.executed - self.jobs[0].issued
            waited_for = age >= _LATEST_WHEN_WAITED_FOR and any(barrier.waiting for barrier in self.mbarriers.values())
            if age < _LATEST and not waited_for:
                break
            self.advance_async()

    def advance_async(self) -> bool:
        """Complete the oldest job, and with it what only waits for it; False when there is none."""
        if not self.jobs:
            return False
        job = self.jobs.popleft()
        job.finish()
        if job.owner is None and job.reads is not None:
            self.let_go_shared(job.reads)
            self.unwaited.remove(job)
        return True

    def finish_async(self) -> None:
        """All threads have exited: what is under way still completes, unless it uses shared memory that is gone."""
        for job in self.jobs if "memory" in self.checks else ():
            does = f"all threads have exited, and the {job.name} may still"
            if job.owner is not None and (job.late is None or job.late.value is None):
                text = f"{does} read shared memory: no cp.async.bulk.wait_group covers it"
                self.fault("async", text, job.instruction, np.array([job.owner[0]]))
            if job.signals is not None:
                text = f"{does} write shared memory: nobody has waited for its mbarrier"
                self.fault("async", text, job.instruction, np.array([job.signals]))
        while self.advance_async():
            pass
        self._complete_copies(np.full(self.thread_count, 1 << 60, dtype=np.int64))

    def describe_async(self) -> str:
        return (
            "; " + "; ".join(m.describe() for m in self.mbarriers.values() if m.waiting)
            if any(m.waiting for m in self.mbarriers.values())
            else ""
        )

    def waiting_async(self, threads: np.ndarray) -> tuple[Instruction | None, np.ndarray]:
        """An instruction and threads to blame when everything waits for mbarriers."""
        for barrier in self.mbarriers.values():
            for ids, _, ins, *_ in barrier.waiting:
                return ins, ids
        return None, threads


def info_dtype(info: AccessInfo) -> Any:
    from .types import DTYPES

    return DTYPES[info.code]
