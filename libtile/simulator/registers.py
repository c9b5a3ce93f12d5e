# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""setmaxnreg: registers that warps give back to their CTA, and take from it (PTX ISA, "setmaxnreg").

The pool of a CTA is what it was launched with: `.maxnreg`, or the most that its threads can have with `.minnctapersm`
CTAs on a multiprocessor. An increase waits until others have given back enough.
"""

from __future__ import annotations

import numpy as np

from libtile.support.records import dataclass

from .cfg import Unit
from .group import ThreadGroup
from .ir import Instruction
from .launch_control import LaunchControl
from .limits import MAX_THREAD_REGISTERS, REGISTER_STEP, SM_REGISTERS
from .memory import FAR


@dataclass
class RegisterWait:
    """Threads of a warp that wait for `wanted` registers each."""

    warp: int
    threads: np.ndarray
    wanted: int
    key: int
    instruction: Instruction


class RegisterPool(LaunchControl):
    """Registers of each warp, and who waits for more."""

    def init_registers(self) -> None:
        self.check_registers = "register-pool" in self.checks
        directives = self.launch.entry_code.function.directives
        threads = self.cta_warps * 32
        self.launch_exactly = "maxnreg" in directives
        given = directives.get("maxnreg")
        ctas = max(1, *directives.get("minnctapersm", (1,)))
        most = SM_REGISTERS // (threads * ctas) // REGISTER_STEP * REGISTER_STEP
        self.launch_registers = given[0] if given else min(most, MAX_THREAD_REGISTERS)
        warps = self.thread_count // 32
        self.warp_registers = np.full(warps, self.launch_registers, dtype=np.int64)
        # How often each warp has executed setmaxnreg, and the last one.
        self.register_changes = np.zeros(warps, dtype=np.int64)
        self.register_instruction: Instruction | None = None
        self.register_waits: list[RegisterWait] = []

    def set_registers(self, g: ThreadGroup, unit: Unit, wanted: int, key: int) -> None:
        """setmaxnreg by whole warps; those whose increase has to wait are woken by what others give back."""
        ins = unit.terminator
        self.key[g.threads] = key
        if not self.check_registers or ins is None:
            return
        self.register_instruction = ins
        for warp in g.warps.tolist():
            threads = g.threads[(g.threads >> 5) == warp]
            now = int(self.warp_registers[warp])
            # Without .maxnreg the launch may have given less than the most.
            exact = self.launch_exactly or self.register_changes[warp] > 0
            if (exact and now > wanted) if "inc" in ins.modifiers else (now < wanted):
                text = f"the warp has {now} registers a thread: {ins.name} cannot make them {wanted}"
                self.fault("illegal-instruction", text, ins, threads)
            self.register_changes[warp] += 1
            if wanted > now:
                self.key[threads] = FAR
                self.register_waits.append(RegisterWait(warp, threads, wanted, key, ins))
            else:
                self.warp_registers[warp] = wanted
        self._grant_registers()

    def free_registers(self, slot: int) -> int:
        """Registers of a CTA that no warp has."""
        mine = self.warp_registers[slot * self.cta_warps : (slot + 1) * self.cta_warps]
        return 32 * (self.launch_registers * self.cta_warps - int(mine.sum()))

    def _grant_registers(self) -> None:
        waits, self.register_waits = self.register_waits, []
        for wait in waits:
            more = 32 * (wait.wanted - int(self.warp_registers[wait.warp]))
            if more > self.free_registers(wait.warp // self.cta_warps):
                self.register_waits.append(wait)
                continue
            self.warp_registers[wait.warp] = wait.wanted
            self.key[wait.threads] = wait.key
            self.progress += 1

    def check_register_waits(self) -> None:
        """No thread can go on: if warps wait for registers, say so. Raises SimulationFault."""
        if not self.register_waits:
            return
        first = self.register_waits[0]
        slot = first.warp // self.cta_warps
        warps = [w.warp % self.cta_warps for w in self.register_waits if w.warp // self.cta_warps == slot]
        more = sum(
            32 * (w.wanted - int(self.warp_registers[w.warp]))
            for w in self.register_waits
            if w.warp // self.cta_warps == slot
        )
        text = (
            f"warps {warps} wait for {first.wanted} registers a thread, {more} in all, and the CTA has "
            f"{self.free_registers(slot)} left of {32 * self.launch_registers * self.cta_warps}"
        )
        self.fault("deadlock", text, first.instruction, first.threads)

    def check_warpgroup_registers(self, threads: np.ndarray) -> None:
        """Threads have exited: every warp of a warpgroup must have executed the same setmaxnreg instructions."""
        if self.register_instruction is None:
            return
        for warp in np.unique(threads >> 5).tolist():
            slot, rank = divmod(warp, self.cta_warps)
            first = slot * self.cta_warps + rank // 4 * 4
            group = np.arange(first, min(first + 4, (slot + 1) * self.cta_warps))
            changes = self.register_changes[group]
            if not self.warp_alive[group].any() and (changes != changes[0]).any():
                missing = [int(w) % self.cta_warps for w in group[changes < changes.max()]]
                self.fault(
                    "divergent-instruction",
                    f"warps {missing} of the warpgroup did not execute setmaxnreg, which a whole warpgroup has to",
                    self.register_instruction,
                    threads[(threads >> 5) == warp],
                )
