# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Race detection on shared memory.

Happens-before is kept with vector clocks per warp (FastTrack, Flanagan and Freund 2009, with warps as threads), and
inside a warp with a count of `bar.warp.sync`. Barriers, mbarriers and atomics order warps. Records are per 4-byte word
with a mask of its bytes, so that threads may write neighbouring bytes; two writes of the same value are not reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .state import MachineState


class RaceDetector:
    """Vector clocks of all warps of a machine and the last accesses of each shared word."""

    def __init__(self, machine: MachineState, clocks: int = 1) -> None:
        self.M = machine
        self.cta_warps = machine.cta_warps
        # In a cluster, warps of other CTAs may reach the memory: clocks then cover the whole cluster.
        self.width = machine.cta_warps * machine.cluster_size
        warps = machine.thread_count // 32
        # A warp may have more clocks, of which `tensor_order` tells; its own is the first.
        self.clock = np.zeros((warps, self.width * clocks), dtype=np.int32)
        self.own = np.arange(warps) % self.width
        self.clock[np.arange(warps), self.own] = 1
        self.sync_count = np.zeros(warps, dtype=np.int32)
        words = machine.shared_arena.size // 4
        self.words = words
        self.write_warp = np.full(words, -1, dtype=np.int32)
        self.write_clock = np.zeros(words, dtype=np.int32)
        self.write_lane = np.zeros(words, dtype=np.int8)
        self.write_sync = np.zeros(words, dtype=np.int32)
        self.write_mask = np.zeros(words, dtype=np.uint8)
        self.write_line = np.zeros(words, dtype=np.int32)
        self.read_clock = np.zeros((words, self.width), dtype=np.int32)
        self.read_lane = np.full(words, -1, dtype=np.int16)
        self.read_warp = np.full(words, -1, dtype=np.int32)
        self.read_sync = np.zeros(words, dtype=np.int32)
        self.read_line = np.zeros(words, dtype=np.int32)
        self.sync_clock: dict[int, np.ndarray] = {}
        # Uses of a CTA's memory by threads of others, by its slot: the last one by warp, as its clock, instruction and
        # thread.
        self.remote: dict[int, dict[int, tuple[int, Any, np.ndarray]]] = {}

    # -- accesses

    def _across(self, info: Any, off: np.ndarray, threads: np.ndarray) -> None:
        """Who uses another CTA's memory knows that it has started, and that CTA's end has to be behind the use."""
        M = self.M
        if M.cluster_size == 1:
            return
        slots = off // M.shared_stride
        away = np.flatnonzero(slots != M.cta_of[threads])
        for slot, warp in {(int(slots[k]), int(threads[k]) >> 5) for k in away.tolist()}:
            first = slot * self.cta_warps
            thread = threads[away][(slots[away] == slot) & (threads[away] >> 5 == warp)]
            if not self.clock[warp, self.own[first : first + self.cta_warps]].any():
                text = f"shared memory of CTA {M.ctas[slot]} is used, and nothing says that it has started"
                M.fault("race", f"{text} (barrier.cluster)", info.instruction, thread)
            uses = self.remote.setdefault(slot, {})
            uses[warp] = int(self.clock[warp, self.own[warp]]), info.instruction, thread

    def _expand(self, off: np.ndarray, size: int, threads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(word, byte mask, thread) of every word that an access touches."""
        word = off >> 2
        if size <= 4:
            mask = (((1 << size) - 1) << (off & 3)).astype(np.uint8)
            return word, mask, threads
        count = size // 4
        words = (word[:, None] + np.arange(count)).ravel()
        return words, np.full(len(words), 15, dtype=np.uint8), np.repeat(threads, count)

    def read(self, info: Any, off: np.ndarray, size: int, threads: np.ndarray) -> None:
        """A read by each thread; faults when an unordered write by another thread is recorded."""
        self._across(info, off, threads)
        word, mask, thread = self._expand(off, size, threads)
        if info.strong:
            self.acquire(word, thread)
            return
        warp = thread >> 5
        self._against_writes(info, word, mask, thread, warp, "read", None)
        own = self.own[warp]
        self.read_clock[word, own] = self.clock[warp, own]
        self.read_lane[word] = thread & 31
        self.read_warp[word] = warp
        self.read_sync[word] = self.sync_count[warp]
        self.read_line[word] = info.instruction.line

    def write(self, info: Any, off: np.ndarray, size: int, threads: np.ndarray, values: np.ndarray) -> None:
        """A write by each thread; faults on an unordered read or write by another thread."""
        self._across(info, off, threads)
        word, mask, thread = self._expand(off, size, threads)
        if info.strong:
            self.release(word, thread)
            return
        warp = thread >> 5
        same = self._same_value(info, off, values, size)
        self._against_writes(info, word, mask, thread, warp, "write", same)
        self._against_reads(info, word, thread, warp, same)
        own = self.own[warp]
        shared_by_many = self._within_instruction(info, off, size, threads, values)
        self.write_warp[word] = warp
        self.write_clock[word] = self.clock[warp, own]
        self.write_lane[word] = thread & 31
        self.write_sync[word] = self.sync_count[warp]
        self.write_mask[word] = mask
        self.write_line[word] = info.instruction.line
        if shared_by_many is not None:
            # Several lanes wrote the same value: whoever of the warp reads it gets that.
            self.write_lane[self._expand(shared_by_many, size, shared_by_many)[0]] = -1

    def _same_value(self, info: Any, off: np.ndarray, values: np.ndarray, size: int) -> np.ndarray | None:
        """[accesses] bool: the bytes in memory already are those that are written."""
        view = self.M.shared_arena.views[info.code]
        shift = info.element.bit_length() - 1
        index = off >> shift
        unsigned = f"u{info.element}"
        if info.vector > 1:
            index = index[None, :] + np.arange(info.vector)[:, None]
        equal = view[index].view(unsigned) == np.ascontiguousarray(values).view(unsigned)
        if info.vector > 1:
            equal = equal.all(axis=0)
        return np.repeat(equal, size // 4) if size > 4 else equal

    def _against_writes(
        self,
        info: Any,
        word: np.ndarray,
        mask: np.ndarray,
        thread: np.ndarray,
        warp: np.ndarray,
        verb: str,
        same: np.ndarray | None,
    ) -> None:
        writer = self.write_warp[word]
        known = writer >= 0
        if not known.any():
            return
        clash = known & ((self.write_mask[word] & mask) != 0)
        other = writer != warp
        ordered = self.write_clock[word] <= self.clock[warp, self.own[writer]]
        lane = self.write_lane[word]
        inside = ~other & (lane >= 0) & (lane != (thread & 31)) & (self.write_sync[word] == self.sync_count[warp])
        bad = clash & ((other & ~ordered) | inside)
        if same is not None:
            bad &= ~same
        if bad.any():
            self._report(info, bad, word, thread, verb, writer, self.write_lane[word], self.write_line[word], "write")

    def _against_reads(
        self, info: Any, word: np.ndarray, thread: np.ndarray, warp: np.ndarray, same: np.ndarray | None
    ) -> None:
        reads = self.read_clock[word]
        unordered = reads > self.clock[warp, : self.width]
        unordered[np.arange(len(word)), self.own[warp]] = False
        bad = unordered.any(axis=1)
        inside = (
            (self.read_warp[word] == warp)
            & (self.read_lane[word] != (thread & 31))
            & (self.read_sync[word] == self.sync_count[warp])
            & (self.read_clock[word, self.own[warp]] == self.clock[warp, self.own[warp]])
        )
        bad |= inside
        if same is not None:
            bad &= ~same
        if bad.any():
            self._report(
                info,
                bad,
                word,
                thread,
                "write",
                self.read_warp[word],
                self.read_lane[word],
                self.read_line[word],
                "read",
            )

    def _within_instruction(
        self, info: Any, off: np.ndarray, size: int, threads: np.ndarray, values: np.ndarray
    ) -> np.ndarray | None:
        """Faults when two threads write different values to one place with one instruction.

        Returns the offsets that several threads write with the same value, or None.
        """
        order = np.argsort(off, kind="stable")
        sorted_off = off[order]
        equal = sorted_off[1:] == sorted_off[:-1]
        if not equal.any():
            return None
        flat = np.ascontiguousarray(np.atleast_2d(values)[:, order])
        raw = flat.view(f"u{flat.dtype.itemsize}")
        differs = (raw[:, 1:] != raw[:, :-1]).any(axis=0) & equal
        if differs.any():
            at = np.flatnonzero(differs)[0]
            first, second = order[at], order[at + 1]
            place = int(off[first]) % self.M.shared_stride
            self.M.fault(
                "race",
                f"threads {self._name(threads[first])} and {self._name(threads[second])} write different values "
                f"to shared byte {place} with one instruction",
                info.instruction,
                threads[[second]],
            )
        return sorted_off[1:][equal]

    def _name(self, thread: int) -> str:
        return str(int(thread) % self.M.cta_stride)

    def _report(
        self,
        info: Any,
        bad: np.ndarray,
        word: np.ndarray,
        thread: np.ndarray,
        verb: str,
        other_warp: np.ndarray,
        other_lane: np.ndarray,
        other_line: np.ndarray,
        other_verb: str,
    ) -> None:
        at = int(np.flatnonzero(bad)[0])
        place = int(word[at]) * 4 % self.M.shared_stride
        stride = self.M.cta_warps
        other = (int(other_warp[at]) % stride) * 32 + int(other_lane[at])
        self.M.fault(
            "race",
            f"{verb} of shared bytes {place}..{place + 3} by thread {self._name(thread[at])} is not ordered with the "
            f"{other_verb} by thread {other} at PTX line {int(other_line[at])}",
            info.instruction,
            np.unique(thread[bad]),
        )

    # -- synchronisation

    def join(self, warps: np.ndarray) -> None:
        """A barrier that all of `warps` passed: each now knows what every one of them did."""
        top = self.clock[warps].max(axis=0)
        self.clock[warps] = top
        self.clock[warps, self.own[warps]] += 1
        self.sync_count[warps] += 1

    def warp_sync(self, warps: np.ndarray) -> None:
        """bar.warp.sync orders the lanes of each warp."""
        self.sync_count[warps] += 1

    def snapshot(self, warp: int) -> np.ndarray:
        """The clock of a warp now: what an asynchronous operation that it starts will publish when it completes."""
        return self.clock[warp].copy()

    def publish(self, place: int, clock: np.ndarray) -> None:
        """Publish a snapshot under a place's name."""
        known = self.sync_clock.get(place)
        self.sync_clock[place] = clock.copy() if known is None else np.maximum(known, clock)

    def release(self, places: np.ndarray, threads: np.ndarray) -> None:
        """Strong writes and atomics publish what their warp has done, under the place's name."""
        for place, warp in {(int(p), int(t) >> 5) for p, t in zip(places.tolist(), threads.tolist(), strict=True)}:
            known = self.sync_clock.get(place)
            mine = self.clock[warp]
            self.sync_clock[place] = mine.copy() if known is None else np.maximum(known, mine)
            self.clock[warp, self.own[warp]] += 1
            self.sync_count[warp] += 1

    def acquire(self, places: np.ndarray, threads: np.ndarray) -> None:
        """Strong reads and atomics learn what was published at the place."""
        for place, warp in {(int(p), int(t) >> 5) for p, t in zip(places.tolist(), threads.tolist(), strict=True)}:
            known = self.sync_clock.get(place)
            if known is not None:
                np.maximum(self.clock[warp], known, out=self.clock[warp])
                self.sync_count[warp] += 1
