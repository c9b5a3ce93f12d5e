# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mbarrier objects in shared memory (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").

An object lives in eight bytes of shared memory, which the ISA leaves opaque. Here its state is a record found by the
place; the eight bytes hold phase and pending count, so that a program that prints or copies them sees something
stable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from libtile.support.records import dataclass, field

from .access import AccessInfo
from .atomics import Atomics
from .cfg import Unit
from .group import ThreadGroup
from .ir import Instruction
from .memory import FAR, OBJECT, READY

MAX_COUNT = (1 << 20) - 1
_TIMES_OUT = 0.25
"""How many of the mbarrier.try_wait that would wait return at once, in a random schedule."""


def _orders(ins: Instruction) -> bool:
    """Whether an arrival tells others, or a wait learns, what was done before: `.relaxed` ones do not."""
    return "relaxed" not in ins.modifiers


@dataclass
class MBarrier:
    """`pending` arrivals and `tx` bytes are missing until phase `phase` completes."""

    place: int
    name: str
    expected: int
    pending: int
    phase: int = 0
    tx: int = 0
    next_expected: int = 0
    # Thread of its mbarrier.init, and that thread's clock.
    made: tuple[int, int] = (0, 0)
    # Uses by threads of other CTAs: the last one by warp, as its clock, instruction and thread.
    remote: dict[int, tuple[int, Instruction, np.ndarray]] = field(default_factory=dict)
    # Until a fence orders the initialisation: thread and clock of its mbarrier.init.
    unfenced: tuple[int, int] | None = None
    # barrier.cluster.arrive.relaxed came before a fence.
    relaxed: bool = False
    # (threads, phase waited for, instruction, key to resume at, frame, result register)
    waiting: list[tuple[np.ndarray, int, Instruction, int, Any, int]] = field(default_factory=list)

    def describe(self) -> str:
        waiters = sum(len(w[0]) for w in self.waiting)
        line = self.waiting[0][2].line if self.waiting else 0
        return (
            f"{waiters} threads wait (PTX line {line}) for phase {self.phase} of the mbarrier at {self.name}, "
            f"which misses {self.pending} arrivals and {self.tx} bytes"
        )


@dataclass(slots=True)
class WaitRequest:
    """Operands of mbarrier.try_wait: addresses, the phase to wait for (parity or state), the result register."""

    info: AccessInfo
    address: np.ndarray
    value: np.ndarray
    parity: bool
    result: int


class MBarriers(Atomics):
    """mbarrier operations."""

    def init_mbarriers(self) -> None:
        self.mbarriers: dict[int, MBarrier] = {}
        # With a random schedule a mbarrier.try_wait also returns before the phase is over, as its time may be up.
        order = self.launch.order
        self.timeouts = None if order is None else np.random.default_rng([order, len(self.ctas)])

    def _places(self, info: AccessInfo, addr: np.ndarray, threads: np.ndarray) -> np.ndarray:
        if addr.dtype != np.uint64:
            addr = addr.view(np.uint32).astype(np.uint64)
        space = info.space
        if space == "generic":
            found, addr = self.generic_space(info, addr, threads)
            if found != "shared":
                self.fault("illegal-instruction", "an mbarrier must be in shared memory", info.instruction, threads)
        _, off = self.locate(info, "shared", addr, threads, 8)
        if int(np.bitwise_or.reduce(off)) & 7:
            self.fault("misaligned", "an mbarrier must be aligned to 8 bytes", info.instruction, threads)
        return off

    def mbarrier_init(
        self, info: AccessInfo, g: ThreadGroup, addr: np.ndarray, count: np.ndarray, mask: np.ndarray | None
    ) -> None:
        chosen = np.arange(g.n) if mask is None else np.flatnonzero(mask)
        threads = g.threads[chosen]
        if len(threads) == 0:
            return
        places = self._places(info, addr[chosen], threads)
        counts = np.broadcast_to(count, (g.n,))[chosen]
        for place, value in zip(places.tolist(), counts.tolist(), strict=True):
            if not 1 <= value <= MAX_COUNT:
                self.fault(
                    "illegal-instruction",
                    f"mbarrier count {value} is not in 1..{MAX_COUNT}",
                    info.instruction,
                    threads[:1],
                )
            if not (self.shared_arena.flags[place : place + 8] & 1).all():
                self._diagnose(info, self.shared_arena, places, threads, writing=True)
            if place in self.mbarriers and self.check:
                text = "there is an mbarrier that no mbarrier.inval has ended: initialising another one is undefined"
                self.fault("mbarrier-object", text, info.instruction, threads[places == place])
            slot, inner = divmod(place, self.shared_stride)
            name = f"shared byte {inner} of CTA {self.ctas[slot]}"
            self.mbarriers[place] = MBarrier(place, name, value, value)
            self._mark_unfenced(self.mbarriers[place], int(threads[places == place][0]))
            self._publish(self.mbarriers[place])
        if self.races is not None:
            self.races.release(places >> 2, threads)

    def _mark_unfenced(self, barrier: MBarrier, thread: int) -> None:
        races = self.races
        barrier.made = (thread, 0 if races is None else int(races.clock[thread >> 5, races.own[thread >> 5]]))
        if "mbarrier-init" in self.checks:
            barrier.unfenced = barrier.made

    def fence_mbarrier_init(self, g: ThreadGroup, mask: np.ndarray | None, proxy: bool) -> None:
        """fence.mbarrier_init covers what its own threads initialised, fence.proxy.async what happens before it too."""
        waiting = [barrier for barrier in self.mbarriers.values() if barrier.unfenced is not None]
        if not waiting:
            return
        threads = g.threads if mask is None else g.threads[mask]
        warps = np.unique(threads >> 5)
        for barrier in waiting:
            assert barrier.unfenced is not None
            thread, clock = barrier.unfenced
            covered = bool((threads == thread).any())
            if proxy and self.races is not None:
                covered |= bool((self.races.clock[warps, self.races.own[thread >> 5]] >= clock).any())
            elif proxy:
                covered |= bool((self.cta_of[threads] == self.cta_of[thread]).any())
            if covered:
                barrier.unfenced = None

    def relax_mbarrier_init(self, threads: np.ndarray) -> None:
        """barrier.cluster.arrive.relaxed orders no memory: initialisations before it stay unknown to other CTAs."""
        for barrier in self.mbarriers.values():
            if barrier.unfenced is not None and (threads == barrier.unfenced[0]).any():
                barrier.relaxed = True

    def _check_init(self, barrier: MBarrier, info: AccessInfo, thread: np.ndarray) -> None:
        """Who uses the mbarrier has to see it initialised: the async proxy, and threads of other CTAs."""
        if barrier.unfenced is None:
            return
        remote = self.cta_of[thread[0]] != barrier.place // self.shared_stride
        if "bulk" in info.instruction.modifiers:
            text = "an asynchronous copy signals"
        elif info.instruction.opcode == "tcgen05":
            text = "a tcgen05.commit signals"
        elif remote and barrier.relaxed:
            text = "a thread of another CTA uses"
        else:
            return
        inside = barrier.unfenced[0] % self.cta_stride
        self.fault(
            "mbarrier-init",
            f"{text} the mbarrier at {barrier.name}, which thread {inside} initialised with no fence.mbarrier_init or "
            "fence.proxy.async after mbarrier.init",
            info.instruction,
            thread,
        )

    def _check_made(self, barrier: MBarrier, info: AccessInfo, thread: np.ndarray) -> None:
        """Who uses an mbarrier that another warp has made knows that it is there; who of other CTAs does, is noted."""
        races, warp, (maker, clock) = self.races, int(thread[0]) >> 5, barrier.made
        if races is None or warp == maker >> 5:
            return
        remote = bool(self.cta_of[thread[0]] != barrier.place // self.shared_stride)
        if "mbarrier-init" in self.checks and races.clock[warp, races.own[maker >> 5]] < clock:
            who = (
                "a thread of another CTA"
                if remote
                else f"a thread of another warp than thread {maker % self.cta_stride}"
            )
            text = f"{who} uses the mbarrier at {barrier.name}, and nothing orders its mbarrier.init before that"
            missing = "barrier.cluster" if remote else "bar.sync"
            self.fault("mbarrier-init", f"{text} ({missing})", info.instruction, thread)
        if remote:
            barrier.remote[warp] = int(races.clock[warp, races.own[warp]]), info.instruction, thread

    def check_remote_uses(self, threads: np.ndarray) -> None:
        """A CTA does not end while a thread of another one of the cluster may still use its shared memory."""
        if self.races is None or self.cluster_size == 1:
            return
        for slot in np.unique(self.cta_of[threads]).tolist():
            if self.alive.reshape(len(self.ctas), -1)[slot].any():
                continue
            warps = np.unique(np.flatnonzero(self.cta_of == slot) >> 5)
            uses = [("its shared memory", self.races.remote.get(slot, {}))]
            for barrier in self.mbarriers.values():
                if barrier.place // self.shared_stride == slot:
                    uses.append((f"the mbarrier at {barrier.name}", barrier.remote))
            for what, remote in uses:
                for warp, (clock, ins, thread) in remote.items():
                    if (self.races.clock[warps, self.races.own[warp]] < clock).all():
                        text = f"CTA {self.ctas[slot]} ends, and nothing orders that behind the use of {what} by this "
                        self.fault("race", f"{text}thread (barrier.cluster)", ins, thread)

    def mbarrier_invalidate(self, info: AccessInfo, g: ThreadGroup, addr: np.ndarray, mask: np.ndarray | None) -> None:
        """mbarrier.inval. NVIDIA's tileiras also does it where there is no mbarrier: nothing, without the check."""
        chosen = np.arange(g.n) if mask is None else np.flatnonzero(mask)
        if "mbarrier-init" not in self.checks and len(chosen):
            there = np.isin(self._places(info, addr[chosen], g.threads[chosen]), list(self.mbarriers))
            chosen = chosen[there]
        for place, _ in self._each(info, addr[chosen], g.threads[chosen]):
            self.mbarriers.pop(place.place, None)
            self.shared_arena.flags[place.place : place.place + 8] = 1

    def _each(self, info: AccessInfo, addr: np.ndarray, threads: np.ndarray) -> list[tuple[MBarrier, int]]:
        """(barrier, row) for each thread; faults where there is no mbarrier."""
        if len(threads) == 0:
            return []
        out = []
        for row, place in enumerate(self._places(info, addr, threads).tolist()):
            barrier = self.mbarriers.get(place)
            if barrier is None:
                self.fault(
                    "illegal-instruction",
                    "no mbarrier is initialised at this address",
                    info.instruction,
                    threads[row : row + 1],
                )
            self._check_init(barrier, info, threads[row : row + 1])
            self._check_made(barrier, info, threads[row : row + 1])
            out.append((barrier, row))
        return out

    def _publish(self, barrier: MBarrier) -> None:
        value = (barrier.phase & 0x7FFFFFFF) << 32 | barrier.pending
        place = barrier.place
        self.shared_arena.data[place : place + 8] = np.frombuffer(value.to_bytes(8, "little"), dtype=np.uint8)
        self.shared_arena.flags[place : place + 8] = READY | OBJECT

    def mbarrier_arrive(
        self,
        info: AccessInfo,
        g: ThreadGroup,
        addr: np.ndarray,
        count: np.ndarray,
        tx: np.ndarray | None,
        drop: bool,
        mask: np.ndarray | None,
        arrives: bool = True,
    ) -> np.ndarray:
        """Arrive (and expect `tx` bytes first); the result is the state token: the phase that was arrived on."""
        chosen = np.arange(g.n) if mask is None else np.flatnonzero(mask)
        token = np.zeros(g.n, dtype=np.uint64)
        if len(chosen) == 0:
            return token
        threads = g.threads[chosen]
        if self.races is not None and _orders(info.instruction):
            places = self._places(info, addr[chosen], threads)
            self.races.release(places >> 2, threads)
        counts = np.broadcast_to(count, (g.n,))[chosen].tolist()
        bytes_ = None if tx is None else np.broadcast_to(tx, (g.n,))[chosen].tolist()
        for barrier, row in self._each(info, addr[chosen], threads):
            token[chosen[row]] = barrier.phase
            if bytes_ is not None:
                barrier.tx += bytes_[row]
                if barrier.tx > MAX_COUNT:
                    text = f"the tx-count of the mbarrier becomes {barrier.tx}, beyond {MAX_COUNT}"
                    self.fault("illegal-instruction", text, info.instruction, threads[row : row + 1])
            if arrives:
                barrier.pending -= counts[row]
                if barrier.pending < 0:
                    self.fault(
                        "illegal-instruction",
                        f"more arrivals than the mbarrier expects ({barrier.expected})",
                        info.instruction,
                        threads[row : row + 1],
                    )
                if drop:
                    barrier.expected -= counts[row]
            self._advance(barrier)
        return token

    def arrive_late(self, barrier: MBarrier, ins: Instruction, thread: np.ndarray) -> None:
        """An arrival of something asynchronous that a thread started and that has completed."""
        barrier.pending -= 1
        if barrier.pending < 0:
            text = f"more arrivals than the mbarrier expects ({barrier.expected})"
            self.fault("illegal-instruction", text, ins, thread)
        self._advance(barrier)

    def complete_tx(self, place: int, count: int) -> None:
        """An asynchronous copy delivered `count` bytes."""
        barrier = self.mbarriers[place]
        barrier.tx -= count
        self._advance(barrier)

    def _advance(self, barrier: MBarrier) -> None:
        if barrier.pending == 0 and barrier.tx == 0:
            barrier.phase += 1
            barrier.pending = barrier.expected
            self._wake(barrier)
        self._publish(barrier)

    def _wake(self, barrier: MBarrier) -> None:
        still = []
        for entry in barrier.waiting:
            threads, phase, ins, key, frame, register = entry
            if phase < barrier.phase:
                threads = threads[self.alive[threads]]
                if register >= 0:
                    frame.registers[register][threads] = True
                self.key[threads] = key
                if self.races is not None and _orders(ins):
                    self.races.acquire(np.full(len(threads), barrier.place >> 2), threads)
            else:
                still.append(entry)
        barrier.waiting = still

    def mbarrier_test(self, request: WaitRequest, g: ThreadGroup, mask: np.ndarray | None) -> np.ndarray:
        """mbarrier.test_wait: whether the phase is over, without waiting."""
        chosen = np.arange(g.n) if mask is None else np.flatnonzero(mask)
        out = np.zeros(g.n, dtype=bool)
        threads = g.threads[chosen]
        values = np.broadcast_to(request.value, (g.n,))[chosen].tolist()
        for barrier, row in self._each(request.info, request.address[chosen], threads):
            done = self._over(barrier, values[row], request.parity)
            out[chosen[row]] = done
            if done and self.races is not None and _orders(request.info.instruction):
                self.races.acquire(np.array([barrier.place >> 2]), threads[row : row + 1])
        if not out[chosen].all():
            # A polling loop must see progress at some point.
            self.advance_async()
        return out

    @staticmethod
    def _over(barrier: MBarrier, value: int, parity: bool) -> bool:
        if parity:
            return (barrier.phase & 1) != (value & 1)
        return barrier.phase > value

    def try_wait(self, g: ThreadGroup, unit: Unit, request: WaitRequest, key: int) -> None:
        """mbarrier.try_wait waits until the phase is over; an end that never comes is a deadlock, not a time-out. With
        a random schedule, some return without, as hardware may: who does not ask again goes on too early."""
        threads = g.threads
        values = np.broadcast_to(request.value, (g.n,)).tolist()
        ready = np.zeros(g.n, dtype=bool)
        groups: dict[int, list[int]] = {}
        for barrier, row in self._each(request.info, request.address, threads):
            if self._over(barrier, values[row], request.parity):
                ready[row] = True
            else:
                groups.setdefault(barrier.place, []).append(row)
        go = threads[ready]
        if len(go):
            self.key[go] = key
            if request.result >= 0:
                g.frame.registers[request.result][go] = True
            if self.races is not None and _orders(request.info.instruction):
                places = self._places(request.info, request.address[ready], go)
                self.races.acquire(places >> 2, go)
        for place, rows in groups.items():
            waiting = threads[rows]
            if self.timeouts is not None and request.result >= 0 and self.timeouts.random() < _TIMES_OUT:
                self.key[waiting] = key
                g.frame.registers[request.result][waiting] = False
                continue
            self.key[waiting] = FAR
            barrier = self.mbarriers[place]
            assert unit.terminator is not None
            barrier.waiting.append((waiting, barrier.phase, unit.terminator, key, g.frame, request.result))
