# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which threads run next.

A thread's key is `(MAX_DEPTH - call depth) << 32 | unit`, or FAR while it waits. The smallest key runs first, so
deeper calls finish before their callers go on, and units run in the order that `cfg` chose for reconvergence.

Smallest-first alone would starve a lock holder behind lanes that spin for the lock, which threads of Volta and later
never do to each other. So when one place keeps running while other threads are ready, those get turns.
"""

from __future__ import annotations

import numpy as np

from .cfg import Unit
from .errors import format_lanes
from .group import ThreadGroup
from .ir import Imm, Reg
from .memory import FAR
from .registers import RegisterPool

MAX_DEPTH = 1 << 16
NO_LIMIT = 1 << 62
_FIRST_PATIENCE = 4096
_LEAST_PATIENCE = 64
_TURN = 256

ALIGNED_MASK = 0xFFFFFFFF
UNIT_MASK = 0xFFFFFFFF


class Scheduler(RegisterPool):
    """Scheduling state and rules."""

    def init_scheduler(self) -> None:
        n = self.thread_count
        self.key = np.full(n, FAR, dtype=np.int64)
        # Keys of threads that wait at a gate for other lanes of their warp.
        self.waiting = np.full(n, FAR, dtype=np.int64)
        self.waiting_count = 0
        alive = self.alive.reshape(-1, 32)
        self.warp_alive = alive.sum(axis=1).astype(np.int64)
        self.executed = 0
        self.rng = None if self.launch.order is None else np.random.default_rng(self.launch.order)
        self.one_unit_at_a_time = self.rng is not None
        self.patience = _FIRST_PATIENCE
        self.spin_until = _FIRST_PATIENCE
        self.last_place = -1
        self.turn = FAR  # whose turn it was last
        self.spinning = False
        # Threads in a polling wait (mbarrier.try_wait, nanosleep): key to resume at.
        self.polling = np.full(n, FAR, dtype=np.int64)
        self.polling_count = 0
        self.progress = 0
        self.poll_progress = -1

    @staticmethod
    def make_key(depth: int, unit: int) -> int:
        return (MAX_DEPTH - depth) << 32 | unit

    def others_min(self, ids: np.ndarray | None, key: int) -> int:
        """The key at which the running threads, which are at `key`, meet others; marks the running ones.

        Others that are behind are those whom this turn passes over. Who runs one unit at a time meets nobody.
        """
        if ids is None:
            self.key[:] = FAR
            return FAR
        self.key[ids] = FAR
        if self.one_unit_at_a_time:
            return FAR
        lowest = int(self.key.min())
        return lowest if lowest > key else int(self.key[self.key > key].min())

    def select(self) -> tuple[np.ndarray | None, int, int] | None:
        """(threads or None for all, their key, when to come back), or None when every thread has exited."""
        if self.jobs:
            self.finish_overdue()
        while True:
            lowest = int(self.key.min())
            if lowest < FAR:
                break
            if not self._stalled():
                return None
        if self.rng is not None:
            return self._random_choice(self.rng)
        chosen, until = lowest, NO_LIMIT
        if self.executed >= self.spin_until:
            chosen, until = self._take_turns(lowest)
        mask = self.key == chosen
        if self.waiting_count:
            mask |= self.waiting == chosen
        ids = np.flatnonzero(mask)
        self._unpark(ids)
        if until == NO_LIMIT and len(ids) < self.thread_count:
            until = max(self.spin_until, self.executed + 1)
        if len(ids) == self.thread_count:
            return None, chosen, until
        return ids, chosen, until

    def _take_turns(self, lowest: int) -> tuple[int, int]:
        """Someone may be starving: give other ready threads a turn, then come back more eagerly.

        All places get one in turn, the most advanced first: who holds what the others wait for may be at any. A loop in
        which threads may wait counts as one place.
        """
        others = np.unique(self.key[self.key < FAR])[1:]
        if not len(others):
            self._retry_gates()
            self.spin_until = self.executed + self.patience
            return lowest, NO_LIMIT
        loop = self.program.units[lowest & UNIT_MASK].spins
        place = lowest if loop < 0 else (lowest & ~UNIT_MASK) | loop
        self.patience = max(_LEAST_PATIENCE, self.patience // 4) if self.last_place == place else _FIRST_PATIENCE
        self.last_place = place
        self.spin_until = self.executed + _TURN + self.patience
        behind = others[others < self.turn]
        self.turn = int(behind[-1] if len(behind) else others[-1])
        return self.turn, self.executed + _TURN

    def _random_choice(self, rng: np.random.Generator) -> tuple[np.ndarray | None, int, int]:
        self.complete_some_products(rng)
        self.complete_some_operations(rng)
        if self.polling_count and int(rng.integers(4)) == 0:
            self._wake_pollers()
        warps = (self.key.reshape(-1, 32).min(axis=1) < FAR).nonzero()[0]
        warp = int(warps[rng.integers(len(warps))])
        lanes = self.key[warp * 32 : warp * 32 + 32]
        # Mostly the reconverging choice, sometimes another one: lanes of a warp may be in any order too.
        if rng.integers(4):
            chosen = int(lanes.min())
        else:
            keys = np.unique(lanes[lanes < FAR])
            chosen = int(keys[rng.integers(len(keys))])
        mask = lanes == chosen
        if self.waiting_count:
            mask = mask | (self.waiting[warp * 32 : warp * 32 + 32] == chosen)
        ids = mask.nonzero()[0] + warp * 32
        self._unpark(ids)
        if len(ids) == self.thread_count:
            return None, chosen, NO_LIMIT
        return ids, chosen, NO_LIMIT

    def _unpark(self, ids: np.ndarray) -> None:
        if self.waiting_count:
            self.waiting[ids] = FAR
            self.waiting_count = int(np.count_nonzero(self.waiting < FAR))

    # -- gates: instructions that need other lanes of the warp

    def gate(self, g: ThreadGroup, unit: Unit, key: int) -> ThreadGroup | None:
        """The threads of g that may pass the gate of `unit` now; the rest wait. None when none goes on from here."""
        if self.waiting_count:
            here = np.flatnonzero(self.waiting == key)
            here = here[np.isin(here >> 5, g.warps)]  # those of other warps would wake these again, and so on
            if len(here):
                # Others of the warp wait here already: meet them through select().
                self._unpark(here)
                self.key[here] = key
                self.key[g.threads] = key
                return None
        ok = self.gate_open(g, unit)
        if ok.all():
            return g
        stay = g.threads[~ok]
        self.waiting[stay] = key
        self.key[stay] = FAR
        self.waiting_count += len(stay)
        go = g.threads[ok]
        if len(go) == 0:
            return None
        return ThreadGroup(self, go, g.frame, g.depth)

    def gate_open(self, g: ThreadGroup, unit: Unit) -> np.ndarray:
        """[n] bool: every running lane that the thread's member mask names is in the group."""
        alive = self._bits(self.alive.reshape(-1, 32)[g.warps])
        present = self._bits(g.active())
        required = alive
        if unit.gate != "aligned":
            masks = g.to_warps(self._gate_mask(g, unit))
            missing = masks & (alive & ~present)[:, None]
        else:
            missing = np.repeat((required & ~present)[:, None], 32, axis=1)
        return g.from_warps(missing) == 0

    def _gate_mask(self, g: ThreadGroup, unit: Unit) -> np.ndarray:
        operand = unit.gate
        if isinstance(operand, Imm):
            return np.full(g.n, int(operand.value) & 0xFFFFFFFF, dtype=np.uint32)
        if isinstance(operand, Reg):
            values = g.frame.registers[operand.index]
            values = values if g.ix is None else values[g.ix]
            return values.view(np.uint32)
        return np.full(g.n, ALIGNED_MASK, dtype=np.uint32)

    def check_exited(self, g: ThreadGroup, unit: Unit) -> None:
        """Matrix instructions need every thread that the warp was launched with."""
        ins = unit.matrix_instruction()
        if ins is None:
            return
        launched = (self.tid_of < self.block_threads).reshape(-1, 32)[g.warps]
        gone = launched & ~self.alive.reshape(-1, 32)[g.warps]
        if gone.any():
            row = int(np.flatnonzero(gone.any(axis=1))[0])
            lanes = format_lanes(np.flatnonzero(gone[row]).tolist())
            here = g.threads[(g.threads >> 5) == g.warps[row]]
            self.fault("divergent-instruction", f"lanes {lanes} of the warp have exited before it", ins, here)

    @staticmethod
    def _bits(lanes: np.ndarray) -> np.ndarray:
        """[w, 32] bool -> [w] uint32 lane mask."""
        return np.packbits(lanes, axis=1, bitorder="little").view(np.uint32)[:, 0]

    def _retry_gates(self) -> bool:
        """Threads may have exited since others began to wait: make ready those whose gate is open now."""
        woken = False
        if not self.waiting_count:
            return False
        for key in np.unique(self.waiting[self.waiting < FAR]).tolist():
            ids = np.flatnonzero(self.waiting == key)
            unit = self.program.units[key & UNIT_MASK]
            depth = MAX_DEPTH - (key >> 32)
            g = ThreadGroup(self, ids, self.frame(depth, unit.function), depth)
            go = ids[self.gate_open(g, unit)]
            if len(go):
                self.waiting[go] = FAR
                self.key[go] = key
                woken = True
        self.waiting_count = int(np.count_nonzero(self.waiting < FAR))
        return woken

    # -- waiting

    def sleep(self, g: ThreadGroup, key: int) -> None:
        """nanosleep: let every other ready thread go first."""
        self.park_polling(g.threads, key)

    def park_polling(self, threads: np.ndarray, key: int) -> None:
        self.polling[threads] = key
        self.polling_count += len(threads)
        self.key[threads] = FAR

    def _wake_pollers(self) -> bool:
        ids = np.flatnonzero(self.polling < FAR)
        self.key[ids] = self.polling[ids]
        self.polling[ids] = FAR
        self.polling_count = 0
        return len(ids) > 0

    def _stalled(self) -> bool:
        """No thread is ready. Wake someone and return True, return False at the end, or report a deadlock."""
        if not self.alive.any():
            return False
        if self._retry_gates() or self.advance_async():
            return True
        if self.polling_count and self._wake_pollers():
            return True
        self._deadlock()
        return False

    def _deadlock(self) -> None:
        stuck = np.flatnonzero(self.waiting < FAR)
        if len(stuck):
            key = int(self.waiting[stuck].min())
            unit = self.program.units[key & UNIT_MASK]
            ins = unit.instructions[0] if unit.instructions else unit.terminator
            ids = stuck[self.waiting[stuck] == key]
            is_barrier = ins is not None and ins.opcode in ("bar", "barrier") and ins is unit.terminator
            kind = "divergent-barrier" if is_barrier else "divergent-instruction"
            warp = int(ids[0]) >> 5
            absent = [t & 31 for t in range(warp * 32, warp * 32 + 32) if self.alive[t] and self.waiting[t] != key]
            where = self.barriers.describe()
            self.fault(
                kind,
                f"lanes {format_lanes(absent)} of the warp never reach this instruction{where}",
                ins,
                ids,
            )
        self.check_register_waits()
        self.check_allocation_waits()
        self.barriers.deadlock()

    def end_threads(self, threads: np.ndarray) -> None:
        self.alive[threads] = False
        self.key[threads] = FAR
        np.subtract.at(self.warp_alive, threads >> 5, 1)
        self.progress += 1
