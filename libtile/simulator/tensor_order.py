# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether accesses to tensor memory are ordered: by mbarriers and barriers, by waits, and by tcgen05's own fences.

Clocks are those of the race detector, which each warp passes on as it synchronises. A warp has more in it, which count
its loads, its stores, and what it has tensor cores do. Who waits for the mbarrier of a commit learns of the latter;
others learn of loads and stores when their warp has waited for them. With tcgen05's fences, only what the warp told
behind `tcgen05.fence::before_thread_sync` counts, and only what was known at a `tcgen05.fence::after_thread_sync` (PTX
ISA, "tcgen05 Memory Consistency Model"). As for shared memory, the last read and write of a word are remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .ir import Instruction
from .limits import TENSOR_COLUMNS, TENSOR_LANES

if TYPE_CHECKING:
    from .races import RaceDetector
    from .state import MachineState

ENGINE, LOAD, STORE = 1, 2, 3
"""Kinds of accesses: by tensor cores, by tcgen05.ld, by tcgen05.st. 0 is the clock of the warp itself."""
_TOLD = {LOAD: 4, STORE: 5}
"""Clocks of loads and stores that a tcgen05.fence::before_thread_sync covers."""
CLOCKS = 6
_ALWAYS = np.iinfo(np.int32).max


class TensorOrder:
    """The last accesses of each word of tensor memory. `fences` says whether tcgen05's fences are needed."""

    def __init__(self, machine: MachineState, races: RaceDetector, fences: bool) -> None:
        self.M, self.races, self.fences = machine, races, fences
        warps, words = len(races.own), len(machine.ctas) * TENSOR_LANES * TENSOR_COLUMNS
        self.counts = np.zeros((warps, 4), dtype=np.int32)
        # Loads and stores that the warp has waited for.
        self.waited = np.zeros((warps, 4), dtype=np.int32)
        # What a warp knew at its last tcgen05.fence::after_thread_sync.
        self.fenced = np.zeros_like(races.clock)
        # [write or read] of each word: the clock it counts in, the count, the PTX line.
        self.actor = np.full((2, words), -1, dtype=np.int16)
        self.count = np.zeros((2, words), dtype=np.int32)
        self.line = np.zeros((2, words), dtype=np.int32)

    def _clock(self, warp: int, kind: int) -> int:
        return kind * self.races.width + int(self.races.own[warp])

    def _row(self, kind: int) -> slice:
        return slice(kind * self.races.width, (kind + 1) * self.races.width)

    # -- accesses

    def access(self, ins: Instruction, thread: np.ndarray, cells: np.ndarray, kind: int, *, writes: bool) -> None:
        """An access of a warp, or of the tensor cores for it. Raises SimulationFault when others are not ordered."""
        warp = int(thread[0]) >> 5
        known = self.races.clock[warp]
        self._check(ins, thread, cells, self._seen(known, warp, kind), writes, "race")
        if self.fences:
            told = self.fenced[warp].copy()
            for behind, clock in _TOLD.items():
                told[self._row(behind)] = told[self._row(clock)]
            self._check(ins, thread, cells, self._seen(told, warp, kind), writes, "tcgen05-fence")
        self.counts[warp, kind] += 1
        which = 0 if writes else 1
        self.actor[which, cells] = self._clock(warp, kind)
        self.count[which, cells] = self.counts[warp, kind]
        self.line[which, cells] = ins.line

    def _seen(self, clock: np.ndarray, warp: int, kind: int) -> np.ndarray:
        """What a warp may rely on: of its own accesses it knows more than its clock tells others."""
        seen = clock.copy()
        seen[self._clock(warp, ENGINE)] = self.races.clock[warp, self._clock(warp, ENGINE)]
        for own in (LOAD, STORE):
            seen[self._clock(warp, own)] = self.waited[warp, own]
        # What is in flight is looked for elsewhere.
        seen[self._clock(warp, kind)] = _ALWAYS
        return seen

    def _check(
        self, ins: Instruction, thread: np.ndarray, cells: np.ndarray, seen: np.ndarray, writes: bool, kind: str
    ) -> None:
        for which, verb in ((0, "write"), (1, "read")) if writes else ((0, "write"),):
            actor = self.actor[which, cells]
            bad = (actor >= 0) & (self.count[which, cells] > seen[actor])
            if not bad.any():
                continue
            cell = int(cells[bad][0])
            where = f"lane {cell // TENSOR_COLUMNS % TENSOR_LANES}, column {cell % TENSOR_COLUMNS} of tensor memory"
            width, stride = self.races.width, self.M.cta_warps
            other = int(self.actor[which, cell]) % width % stride
            line = int(self.line[which, cell])
            mine, theirs = "write" if writes else "read", f"the {verb} of warp {other} at PTX line {line}"
            text = f"{mine} of {where} is not ordered with {theirs}"
            if kind == "tcgen05-fence":
                text = (
                    f"no tcgen05.fence::before_thread_sync in front of the synchronisation, or no tcgen05.fence::"
                    f"after_thread_sync behind it, orders the {mine} of {where} with {theirs}"
                )
            self.M.fault(kind, text, ins, thread)

    def forget(self, cells: np.ndarray) -> None:
        """The words are freed."""
        self.actor[:, cells] = -1

    # -- what orders them

    def wait(self, warps: np.ndarray, kind: int) -> None:
        """tcgen05.wait::ld and wait::st."""
        self.waited[warps, kind] = self.counts[warps, kind]
        self._tell(warps, {kind: kind})

    def before_sync(self, warps: np.ndarray) -> None:
        """tcgen05.fence::before_thread_sync: what the warps have waited for is known to whom they tell of it."""
        self._tell(warps, _TOLD)

    def _tell(self, warps: np.ndarray, clocks: dict[int, int]) -> None:
        for kind, clock in clocks.items():
            self.races.clock[warps, clock * self.races.width + self.races.own[warps]] = self.waited[warps, kind]

    def after_sync(self, warps: np.ndarray) -> None:
        """tcgen05.fence::after_thread_sync: what the warps have learnt is in order with what they do now."""
        self.fenced[warps] = self.races.clock[warps]

    def commit(self, warp: int) -> np.ndarray:
        """What who waits for the mbarrier of a commit learns; a commit is a fence::before_thread_sync, too."""
        clock = self.races.snapshot(warp)
        clock[self._clock(warp, ENGINE)] = self.counts[warp, ENGINE]
        for kind, told in _TOLD.items():
            clock[self._clock(warp, told)] = self.waited[warp, kind]
        return clock
