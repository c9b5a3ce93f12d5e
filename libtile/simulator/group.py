# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The set of threads that runs one unit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .state import Frame, MachineState


class ThreadGroup:
    """Threads at the same place. `ix` is None for all threads of the machine, else their ascending indices.

    Thread index t belongs to warp t // 32 of the machine; CTAs occupy whole warps, so padding threads never run.
    """

    __slots__ = ("M", "_warps", "_whole", "depth", "frame", "ix", "n", "threads")

    def __init__(self, machine: MachineState, ix: np.ndarray | None, frame: Frame, depth: int) -> None:
        self.M = machine
        self.ix = ix
        self.n = machine.thread_count if ix is None else len(ix)
        self.threads: np.ndarray = machine.all_threads if ix is None else ix
        self.frame = frame
        self.depth = depth
        self._warps: np.ndarray | None = None
        self._whole: bool | None = None

    @property
    def warps(self) -> np.ndarray:
        """Machine warp numbers that have a thread here, ascending."""
        if self._warps is None:
            w = self.threads >> 5
            if self.ix is None:
                self._warps = self.M.all_warps
            else:
                keep = np.empty(len(w), dtype=bool)
                keep[0] = True
                np.not_equal(w[1:], w[:-1], out=keep[1:])
                self._warps = w[keep]
        return self._warps

    @property
    def whole(self) -> bool:
        """Whether every running lane of each warp concerned is in the group."""
        if self._whole is None:
            self._whole = self.ix is None or int(self.M.warp_alive[self.warps].sum()) == self.n
        return self._whole

    def special(self, name: str) -> np.ndarray:
        """Values of a special register for these threads."""
        values = self.M.specials.get(name)
        if values is None:
            return self.M.dynamic_special(name, self)
        return values if self.ix is None else values[self.ix]

    def frame_base(self) -> np.ndarray:
        """Offset of the running frame in each thread's local memory (uint64)."""
        base = self.frame.base
        return base if self.ix is None else base[self.ix]

    # -- the condition code register (CC.CF)

    def carry(self) -> np.ndarray:
        values = self.frame.carry
        return values if self.ix is None else values[self.ix]

    def set_carry(self, values: np.ndarray, mask: np.ndarray | None) -> None:
        if mask is not None:
            values = np.where(mask, values, self.carry())
        self.frame.carry[self.threads] = values

    # -- shapes for warp operations

    def to_warps(self, values: np.ndarray) -> np.ndarray:
        """[n] -> [warps, 32]; lanes that are not in the group get zeros."""
        if self.ix is None:
            return values.reshape(-1, 32)
        if len(self.warps) * 32 == self.n:
            return values.reshape(-1, 32)
        out = np.zeros((len(self.warps), 32, *values.shape[1:]), dtype=values.dtype)
        out[self.warp_rows(), self.threads & 31] = values
        return out

    def from_warps(self, values: np.ndarray) -> np.ndarray:
        """[warps, 32] -> [n]."""
        if self.ix is None or len(self.warps) * 32 == self.n:
            return np.ascontiguousarray(values).reshape((self.n, *values.shape[2:]))
        return values[self.warp_rows(), self.threads & 31]

    def warp_rows(self) -> np.ndarray:
        """Row of each thread's warp in the [warps, 32] shape."""
        return np.searchsorted(self.warps, self.threads >> 5)

    def active(self) -> np.ndarray:
        """[warps, 32] bool: lanes of the group."""
        return self.to_warps(np.ones(self.n, dtype=bool))

    def lanes(self) -> np.ndarray:
        return self.threads & 31
