# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CTA and cluster barriers (PTX ISA, "bar, barrier", "barrier.cluster")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from libtile.support.records import dataclass, field

from .cfg import Unit
from .group import ThreadGroup
from .ir import Instruction
from .memory import FAR

if TYPE_CHECKING:
    from .machine import Machine

BARRIERS_PER_CTA = 16


@dataclass(slots=True)
class BarrierArrival:
    """What a barrier instruction hands to the machine: its static form and the operands of each thread."""

    operation: str  # sync, arrive, red
    reduction: str
    barrier: np.ndarray
    count: np.ndarray | None
    predicate: np.ndarray | None
    result: int  # register that gets a reduction, or -1


@dataclass(slots=True)
class _Pending:
    expected: int | None
    arrived: int = 0
    waiting: list[np.ndarray] = field(default_factory=list)
    resume: list[int] = field(default_factory=list)
    results: list[tuple[int, Any]] = field(default_factory=list)
    predicates: list[np.ndarray] = field(default_factory=list)
    reduction: str = ""
    instruction: Instruction | None = None
    members: list[np.ndarray] = field(default_factory=list)


class Barriers:
    """Pending barriers of every CTA of a machine, by (CTA slot, barrier number)."""

    def __init__(self, machine: Machine) -> None:
        self.M = machine
        self.pending: dict[tuple[int, int], _Pending] = {}
        self.cluster_arrived: dict[int, list[np.ndarray]] = {}
        self.cluster_waiting: dict[int, list[tuple[np.ndarray, int]]] = {}
        # How often each thread has arrived at, and waited for, the cluster's barrier.
        self.cluster_phase = np.zeros(machine.thread_count, dtype=np.int64)
        self.cluster_waits = np.zeros(machine.thread_count, dtype=np.int64)
        self.cluster_done: dict[int, int] = {}
        self.cluster_instruction: Instruction | None = None

    # -- CTA barriers

    def arrive(self, g: ThreadGroup, unit: Unit, arrival: Any, resume: int) -> bool | None:
        """Arrive for all threads of g. True when the whole group goes straight on; None when keys were stored."""
        M, ins = self.M, unit.terminator
        if isinstance(arrival, str):
            return self.cluster(g, unit, arrival, resume)
        if self._everybody(g, arrival):
            M.counters.barriers += len(M.ctas) if g.ix is None else len(np.unique(M.cta_of[g.threads]))
            if M.races is not None:
                self._join(g.threads)
            return True
        slots = M.cta_of[g.threads]
        M.key[g.threads] = FAR
        for slot in np.unique(slots).tolist():
            inside = slots == slot
            for number in np.unique(arrival.barrier[inside]).tolist():
                part = np.flatnonzero(inside & (arrival.barrier == number))
                self._arrive_one(g, ins, arrival, slot, number, part, resume)
        return None

    def _everybody(self, g: ThreadGroup, arrival: BarrierArrival) -> bool:
        """Fast case: every running thread of each CTA concerned arrives at once and none was there before."""
        if self.pending or arrival.operation != "sync" or arrival.count is not None:
            return False
        if not (arrival.barrier == arrival.barrier[0]).all() or int(arrival.barrier[0]) >= BARRIERS_PER_CTA:
            return False
        if g.ix is None:
            return True
        M = self.M
        slots = np.unique(M.cta_of[g.threads])
        return int(M.alive.reshape(len(M.ctas), -1)[slots].sum()) == g.n

    def _arrive_one(
        self, g: ThreadGroup, ins: Any, arrival: BarrierArrival, slot: int, number: int, part: np.ndarray, resume: int
    ) -> None:
        M = self.M
        threads = g.threads[part]
        if number >= BARRIERS_PER_CTA:
            M.fault("illegal-instruction", f"barrier {number} does not exist (0 to 15)", ins, threads)
        expected = None
        if arrival.count is not None:
            expected = int(arrival.count[part[0]])
            if expected == 0 or expected % 32:
                M.fault(
                    "illegal-instruction",
                    f"barrier thread count {expected} is not a positive multiple of 32",
                    ins,
                    threads,
                )
        pending = self.pending.get((slot, number))
        if pending is None:
            pending = self.pending[slot, number] = _Pending(expected, reduction=arrival.reduction, instruction=ins)
        elif pending.expected != expected and "convergence" in M.checks:
            M.fault("divergent-barrier", f"barrier {number} is used with different thread counts", ins, threads)
        pending.arrived += self._weight(threads)
        pending.members.append(np.unique(threads >> 5))
        if arrival.predicate is not None:
            pending.predicates.append(arrival.predicate[part])
        if arrival.operation == "arrive":
            M.key[threads] = resume
        else:
            pending.waiting.append(threads)
            pending.resume.append(resume)
            pending.results.append((arrival.result, g.frame))
        self._complete(slot, number)

    def _weight(self, threads: np.ndarray) -> int:
        """Arrivals count whole warps: padding and exited lanes of a warp that arrives count too."""
        warps = threads >> 5
        first, counts = np.unique(warps, return_counts=True)
        full = counts == self.M.warp_alive[first]
        return int(np.where(full, 32, counts).sum())

    def _complete(self, slot: int, number: int) -> None:
        M = self.M
        pending = self.pending[slot, number]
        expected = pending.expected
        if expected is None:
            alive = M.warp_alive[slot * M.cta_warps : (slot + 1) * M.cta_warps]
            expected = 32 * int(np.count_nonzero(alive))
        if pending.arrived < expected:
            return
        if pending.arrived > expected:
            M.fault(
                "divergent-barrier",
                f"{pending.arrived} threads arrived at barrier {number} that expects {expected}",
                pending.instruction,
                pending.waiting[-1] if pending.waiting else np.zeros(0, dtype=np.int64),
            )
        del self.pending[slot, number]
        M.counters.barriers += 1
        if M.races is not None:
            M.races.join(np.unique(np.concatenate(pending.members)))
        value: np.ndarray | None = None
        if pending.predicates:
            votes = np.concatenate(pending.predicates)
            value = {"popc": votes.sum(), "and": votes.all(), "or": votes.any()}[pending.reduction]
        for threads, resume, (register, frame) in zip(pending.waiting, pending.resume, pending.results, strict=True):
            threads = threads[M.alive[threads]]
            M.key[threads] = resume
            if register >= 0 and value is not None:
                frame.registers[register][threads] = value
        M.progress += 1

    def _join(self, threads: np.ndarray) -> None:
        M = self.M
        races = M.races
        if races is None:
            return
        for slot in np.unique(M.cta_of[threads]).tolist():
            races.join(np.arange(slot * M.cta_warps, (slot + 1) * M.cta_warps))

    def threads_exited(self, threads: np.ndarray) -> None:
        """Barriers without a thread count no longer wait for threads that exited."""
        if not self.pending and not self.cluster_waiting and not self.cluster_arrived:
            return
        for slot in np.unique(self.M.cta_of[threads]).tolist():
            for key in [k for k in self.pending if k[0] == slot]:
                if self.pending[key].expected is None:
                    self._complete(*key)
            self._complete_cluster(slot // self.M.cluster_size)

    # -- cluster barriers

    def cluster(self, g: ThreadGroup, unit: Unit, operation: str, resume: int) -> bool | None:
        """barrier.cluster.arrive does not wait; barrier.cluster.wait waits for all threads of the cluster."""
        M = self.M
        self.cluster_instruction = unit.terminator
        ids = M.cta_of[g.threads] // M.cluster_size
        owed = self.cluster_phase[g.threads] - self.cluster_waits[g.threads]
        wrong = owed != (0 if operation == "arrive" else 1)
        if wrong.any() and "convergence" in M.checks:
            text = (
                "arrives again, with no barrier.cluster.wait since" if operation == "arrive" else "waits, and has not"
            )
            text = f"a thread {text} {'it arrived' if operation == 'arrive' else 'arrived since its last wait'}"
            M.fault("illegal-instruction", f"barrier.cluster: {text}", unit.terminator, g.threads[wrong])
        if operation == "arrive":
            if unit.terminator is not None and "relaxed" in unit.terminator.modifiers:
                M.relax_mbarrier_init(g.threads)
            self.cluster_phase[g.threads] += 1
            for cluster in np.unique(ids).tolist():
                self.cluster_arrived.setdefault(cluster, []).append(g.threads[ids == cluster])
                self._complete_cluster(cluster)
            return True
        M.key[g.threads] = FAR
        self.cluster_waits[g.threads] += 1
        for cluster in np.unique(ids).tolist():
            threads = g.threads[ids == cluster]
            phase = int(self.cluster_phase[threads[0]])
            if self.cluster_done.get(cluster, 0) >= phase:
                M.key[threads] = resume
                self._join_cluster(cluster)
            else:
                self.cluster_waiting.setdefault(cluster, []).append((threads, resume))
        return None

    def _members(self, cluster: int) -> slice:
        size = self.M.cluster_size * self.M.cta_stride
        return slice(cluster * size, (cluster + 1) * size)

    def _join_cluster(self, cluster: int) -> None:
        M = self.M
        if M.races is not None:
            width = M.cluster_size * M.cta_warps
            M.races.join(np.arange(cluster * width, (cluster + 1) * width))

    def _complete_cluster(self, cluster: int) -> None:
        arrived = self.cluster_arrived.get(cluster)
        if not arrived:
            return
        alive = int(self.M.alive[self._members(cluster)].sum())
        here = sum(int(self.M.alive[a].sum()) for a in arrived)
        if here < alive:
            return
        del self.cluster_arrived[cluster]
        self.cluster_done[cluster] = self.cluster_done.get(cluster, 0) + 1
        self._join_cluster(cluster)
        self.M.counters.barriers += 1
        for threads, resume in self.cluster_waiting.pop(cluster, []):
            self.M.key[threads] = resume
        self.M.progress += 1

    # -- reports

    def describe(self) -> str:
        """What waits at barriers, for a deadlock message."""
        parts = []
        for (slot, number), pending in sorted(self.pending.items()):
            warps = sorted({int(w) % self.M.cta_warps for m in pending.members for w in m})
            expected = "all threads" if pending.expected is None else f"{pending.expected} threads"
            line = pending.instruction.line if pending.instruction else 0
            where = f"CTA {self.M.ctas[slot]} barrier {number} (PTX line {line})"
            parts.append(f"{where} has {pending.arrived} of {expected}, from warps {warps}")
        return "; " + "; ".join(parts[:4]) if parts else ""

    def deadlock(self) -> None:
        """No thread can run: say who waits for what."""
        M = self.M
        instruction: Instruction | None = None
        threads = np.flatnonzero(M.alive)
        for pending in self.pending.values():
            instruction = pending.instruction
            threads = np.concatenate(pending.waiting) if pending.waiting else threads
            break
        where = self.describe() + M.describe_async()
        if instruction is None and self.cluster_waiting:
            instruction = self.cluster_instruction
            threads = next(iter(self.cluster_waiting.values()))[0][0]
            where += "; not every thread of the cluster arrives at barrier.cluster"
        elif instruction is None:
            instruction, threads = M.waiting_async(threads)
        M.fault("deadlock", "no thread can go on" + where, instruction, threads)
