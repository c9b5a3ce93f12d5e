# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The machine: the threads of one or more CTAs that are resident together, and the loop that runs them.

Every thread has its own program counter (as on Volta and later), kept as a key that sorts by call depth and then by
unit number. The loop takes the threads with the smallest key, all at once, whatever warp or CTA they are in, and runs
their unit as one numpy computation; `Scheduler` has the rules for threads that must wait. With a seed, one random warp
at a time runs instead.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .barriers import Barriers
from .cfg import BARRIER, BRANCH, CALL, COLUMNS, EXIT, FALL, PRODUCTS, REGISTERS, RET, SLEEP, SWITCH, TRYWAIT, Unit
from .group import ThreadGroup
from .ir import Instruction
from .launch_state import LaunchState
from .memory import Arena, align_up
from .scheduler import MAX_DEPTH
from .warpstate import WarpState

#: Bytes of shared memory that the system keeps for itself in each CTA, on sm_80 and later.
RESERVED_SHARED = 1024


class Machine(WarpState):
    """Runs a batch of CTAs to the end. `ctas` are their (x, y, z) indices, whole clusters together."""

    def __init__(self, launch: LaunchState, ctas: list[tuple[int, int, int]]) -> None:
        super().__init__(launch, ctas)
        # CTAs that take over others do these's work, too.
        shared = launch.program.uses("clusterlaunchcontrol")
        self.instruction_limit = launch.instruction_limit * (math.prod(launch.grid) if shared else len(ctas))
        self._shared()
        self._local()
        self._specials()
        self.barriers = Barriers(self)
        self.init_scheduler()
        self.init_access()
        self.init_async()
        self.init_mbarriers()
        self.init_products()
        self.init_tensor_memory()
        self.init_tensor_products()
        self.init_registers()
        self.init_launch_control()

    # -- set up

    def _shared(self) -> None:
        launch = self.launch
        static = self.program.dynamic_offset if launch.dynamic_shared else self.program.static_shared
        self.shared_size = static + launch.dynamic_shared
        self.shared_stride = align_up(self.shared_size, 128) + 128
        self.reserved_offset = self.shared_stride
        if self.program.module.reserved_shared:
            self.shared_stride += RESERVED_SHARED + 128
        self.shared_arena = Arena("shared", 0, self.shared_stride * len(self.ctas))
        self.shared_base = (self.cta_of * self.shared_stride).astype(np.int64)
        names = {v: k for k, v in self.program.shared_offsets.items()}
        for slot in range(len(self.ctas)):
            start = slot * self.shared_stride
            ranges = [
                (o, self.program.shared_sizes[names[o]], names[o])
                for o in sorted(names)
                if names[o] in self.program.shared_sizes
            ]
            if launch.dynamic_shared:
                ranges.append((self.program.dynamic_offset, launch.dynamic_shared, "dynamic shared memory"))
            if self.program.module.reserved_shared:
                ranges.append((self.reserved_offset, RESERVED_SHARED, "reserved shared memory"))
            for offset, size, name in ranges:
                self.shared_arena.allocate(start + offset, size, name.split("/")[-1], 1)

    def _local(self) -> None:
        self.local_stride = align_up(max(self.launch.stack_size, 16), 16)
        self.local_arena = Arena("local", 0, self.local_stride * self.thread_count)
        self.local_arena.flags[:] = 3
        self.local_base = self.all_threads * self.local_stride

    def _specials(self) -> None:
        launch, count = self.launch, self.thread_count
        u4 = np.uint32

        def spread(value: int) -> np.ndarray:
            return np.full(count, value & 0xFFFFFFFF, dtype=u4)

        bx, by, _ = launch.block
        tid = self.tid_of
        lane = (self.all_threads & 31).astype(u4)
        ctas = np.array(self.ctas, dtype=np.int64).reshape(-1, 3)
        per_cta = ctas[self.cta_of]
        cluster = np.array(launch.cluster, dtype=np.int64)
        in_cluster = per_cta % cluster
        rank = in_cluster[:, 0] + cluster[0] * (in_cluster[:, 1] + cluster[1] * in_cluster[:, 2])
        self.cluster_rank = rank
        self.cluster_size = int(cluster.prod())
        sp: dict[str, np.ndarray] = {
            "%tid.x": (tid % bx).astype(u4),
            "%tid.y": (tid // bx % by).astype(u4),
            "%tid.z": (tid // (bx * by)).astype(u4),
            "%laneid": lane,
            "%warpid": (tid >> 5).astype(u4),
            "%nwarpid": spread(64),
            "%smid": (self.cta_of % 132).astype(u4),
            "%nsmid": spread(132),
            "%gridid": np.full(count, 1, dtype=np.uint64),
            "%cluster_ctarank": rank.astype(u4),
            "%cluster_nctarank": spread(self.cluster_size),
            "%is_explicit_cluster": np.full(count, bool(launch.explicit_cluster)),
            "%lanemask_eq": (u4(1) << lane),
            "%lanemask_lt": (u4(1) << lane) - u4(1),
            "%dynamic_smem_size": spread(launch.dynamic_shared),
            "%total_smem_size": spread(self.shared_size),
            "%aggr_smem_size": spread(self.shared_size),
            # The region's parts 0 and 1 have no documented layout: both are its start.
            "%reserved_smem_offset_begin": spread(self.reserved_offset),
            "%reserved_smem_offset_end": spread(self.reserved_offset + RESERVED_SHARED),
            "%reserved_smem_offset_cap": spread(RESERVED_SHARED),
            "%reserved_smem_offset_0": spread(self.reserved_offset),
            "%reserved_smem_offset_1": spread(self.reserved_offset),
            "%current_graph_exec": np.zeros(count, dtype=np.uint64),
        }
        sp["%lanemask_le"] = sp["%lanemask_lt"] | sp["%lanemask_eq"]
        sp["%lanemask_ge"] = ~sp["%lanemask_lt"]
        sp["%lanemask_gt"] = ~sp["%lanemask_le"]
        for axis, name in enumerate("xyz"):
            sp[f"%ntid.{name}"] = spread(launch.block[axis])
            sp[f"%nctaid.{name}"] = spread(launch.grid[axis])
            sp[f"%ctaid.{name}"] = per_cta[:, axis].astype(u4)
            sp[f"%clusterid.{name}"] = (per_cta[:, axis] // cluster[axis]).astype(u4)
            sp[f"%nclusterid.{name}"] = spread(launch.grid[axis] // launch.cluster[axis])
            sp[f"%cluster_ctaid.{name}"] = in_cluster[:, axis].astype(u4)
            sp[f"%cluster_nctaid.{name}"] = spread(launch.cluster[axis])
        sp.update({f"%{v}.w": spread(0) for v in ("tid", "ctaid", "clusterid", "cluster_ctaid")})
        sp.update({f"%{v}.w": spread(1) for v in ("ntid", "nctaid", "nclusterid", "cluster_nctaid")})
        self.specials = sp

    def dynamic_special(self, name: str, g: ThreadGroup) -> np.ndarray:
        """Clocks advance with executed warp instructions; performance counters and environment registers read 0."""
        if name == "%clock64":
            return np.full(g.n, self.executed, dtype=np.uint64)
        if name == "%globaltimer":
            return np.full(g.n, self.executed + 1_000_000_000, dtype=np.uint64)
        value = 0
        if name in ("%clock", "%globaltimer_lo"):
            value = self.executed & 0xFFFFFFFF
        elif name in ("%clock_hi", "%globaltimer_hi"):
            value = self.executed >> 32
        return np.full(g.n, value, dtype=np.uint32)

    # -- running

    def run(self) -> None:
        """Run until every thread has exited. Raises SimulationFault."""
        entry = self.launch.entry_code
        self.key[self.alive] = self.make_key(0, entry.units[0].id)
        self.guard(entry, np.zeros(self.thread_count, np.uint64), self.all_threads, 0)
        with np.errstate(all="ignore"):
            while True:
                group = self.select()
                if group is None:
                    break
                self._run_group(*group)
        self.finish_async()

    def _run_group(self, ids: np.ndarray | None, key: int, slice_end: int) -> None:
        """Run the threads `ids` (None: all) from `key` until they split, wait, exit, or meet the next waiting key."""
        depth, uid = MAX_DEPTH - (key >> 32), key & 0xFFFFFFFF
        units, program = self.program.units, self.program
        unit = units[uid]
        assert unit.function is not None  # the program has filled it in
        frame = self.frame(depth, unit.function)
        g = ThreadGroup(self, ids, frame, depth)
        base_key = key - uid
        limit = self.others_min(ids, key)
        registers = frame.registers
        full = ids is None
        while True:
            unit = units[uid]
            fused = len(unit.chain) > 1 and g.whole
            if self.progress and unit.gate == "aligned":
                self.check_exited(g, unit)
            if unit.gate is not None and not g.whole:
                passed = self.gate(g, unit, base_key + uid)
                if passed is None:
                    return
                g, full, registers = passed, passed.ix is None, passed.frame.registers
                limit = self.others_min(g.ix, base_key + uid)
            fn = program.compiled(unit, fused, full)
            result = fn(self, registers, g)
            tail = unit
            warps = len(g.warps)
            if fused:
                tail = unit.chain[-1]
                for part in unit.chain[:-1]:
                    self.count(part, g, warps)
            self.count(tail, g, warps)
            kind = tail.kind
            if kind == FALL:
                uid = tail.next
            elif kind == BRANCH:
                taken = int(np.count_nonzero(result))
                if taken == g.n:
                    uid = tail.targets[0]
                elif taken == 0:
                    uid = tail.next
                else:
                    self.key[g.threads] = np.where(result, base_key + tail.targets[0], base_key + tail.next)
                    return
            elif kind == EXIT:
                self.exit(g, tail)
                return
            elif kind == BARRIER:
                nxt = self.barriers.arrive(g, tail, result, base_key + tail.next)
                if nxt is None:
                    return
                uid = tail.next
            else:
                self._leave(g, tail, kind, result, base_key)
                return
            key = base_key + uid
            if key >= limit or self.executed >= slice_end or self.one_unit_at_a_time:
                self.key[g.threads] = key
                return

    def _leave(self, g: ThreadGroup, unit: Unit, kind: int, result: Any, base_key: int) -> None:
        """The rarer ends of a unit. Stores every thread's next key."""
        if kind == SWITCH:
            self._switch(g, unit, result, base_key)
        elif kind == CALL:
            self.call(g, unit, result, base_key)
        elif kind == RET:
            self.ret(g, unit)
        elif kind == SLEEP:
            self.sleep(g, base_key + unit.next)
        elif kind == TRYWAIT:
            self.try_wait(g, unit, result, base_key + unit.next)
        elif kind == PRODUCTS:
            self.wait_products(g, result)
            self.key[g.threads] = base_key + unit.next
        elif kind == REGISTERS:
            self.set_registers(g, unit, result, base_key + unit.next)
        elif kind == COLUMNS and unit.terminator is not None:
            self.tensor_allocate(g, unit.terminator, result, base_key + unit.next)

    def _switch(self, g: ThreadGroup, unit: Unit, result: Any, base_key: int) -> None:
        index, guard = result
        targets = np.array(unit.targets, dtype=np.int64)
        chosen = np.minimum(index.astype(np.int64), len(targets) - 1)
        bad = index >= len(targets)
        if guard is not None:
            bad = bad & guard
        if bad.any():
            self.fault(
                "illegal-instruction", f"brx.idx index is not below {len(targets)}", unit.terminator, g.threads[bad]
            )
        keys = targets[chosen] + base_key
        if guard is not None:
            keys = np.where(guard, keys, base_key + unit.next)
        self.key[g.threads] = keys

    def count(self, unit: Unit, g: ThreadGroup, warps: int) -> None:
        unit.runs += 1
        unit.threads += g.n
        unit.warps += warps
        self.executed += max(1, len(unit.instructions)) * warps
        if self.executed > self.instruction_limit:
            launch = self.launch
            self.fault(
                "instruction-limit",
                f"{launch.entry_code.function.name} executes more than {launch.instruction_limit} warp instructions in "
                "a CTA, the limit (max_steps, max_instructions)",
                unit.terminator or (unit.instructions[0] if unit.instructions else None),
                g.threads[:1],
            )

    def exit(self, g: ThreadGroup, unit: Unit) -> None:
        """`exit`, `trap`, and `ret` from the entry."""
        ins = unit.terminator
        if ins is not None and ins.opcode == "trap":
            self.fault("trap", "the kernel executed trap", ins, g.threads)
        self.end_group(g)

    def end_group(self, g: ThreadGroup) -> None:
        self.end_threads(g.threads)
        self.check_warpgroup_registers(g.threads)
        self.check_tensor_memory(g.threads)
        self.barriers.threads_exited(g.threads)
        self.check_remote_uses(g.threads)

    def trace_instruction(self, ins: Instruction, g: ThreadGroup, mask: np.ndarray | None) -> None:
        """Report one instruction to the trace callback, warp by warp."""
        threads = g.threads if mask is None else g.threads[mask]
        callback = self.launch.trace
        if callback is None:
            return
        for warp in np.unique(threads >> 5).tolist():
            lanes = (threads[threads >> 5 == warp] & 31).tolist()
            slot = warp // self.cta_warps
            callback(self.ctas[slot], warp % self.cta_warps, sum(1 << lane for lane in lanes), ins)
