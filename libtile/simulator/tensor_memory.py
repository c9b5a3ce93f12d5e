# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor memory: 128 lanes of 512 columns of 32 bits for each CTA (PTX ISA, "Tensor Memory").

An address is the lane in its upper 16 bits and the column in its lower 16. Columns are allocated before they are used
and freed before the CTA ends. Warp w of a CTA loads and stores the lanes from 32 (w % 4) on.

`tcgen05.st` writes as late as its warp's `tcgen05.wait::st`, and what a `tcgen05.ld` reads is taken as being read until
`tcgen05.wait::ld`; `tensor_products` has what other instructions do. Each CTA has a multiprocessor's tensor memory to
itself. Allocations are placed from the last column down, so that a kernel that takes 0 for its address is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NoReturn

import numpy as np

from libtile.support.records import dataclass

from .access import AccessInfo
from .group import ThreadGroup
from .ir import Instruction
from .limits import TENSOR_COLUMNS, TENSOR_LANES
from .memory import FAR
from .products import Products
from .state import Frame
from .tensor_order import LOAD, STORE, TensorOrder

MIN_COLUMNS = 32
"""The least that can be allocated; every allocation is a power of two of columns."""
WARP_LANES = 32

# Registers of a thread for .x1, and rows, by the shape of a load or store.
SHAPES = {"32x32b": (1, 32), "16x64b": (1, 16), "16x128b": (2, 16), "16x256b": (4, 16), "16x32bx2": (1, 16)}
MAX_REGISTERS = 128


@lru_cache(maxsize=64)
def positions(shape: str, count: int, split: int, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    """(lanes, columns) from the address on of the words that a load or store of `count` (.x1 is 1) moves.

    Arrays are [32 threads, words]; a register is a word, or with `packed` two that hold 16 bits each. `split` is how
    far the second half of a 16x32bx2 lies behind the first, in columns (PTX ISA, "Data Movement Shape").
    """
    thread = np.arange(WARP_LANES)[:, None]
    register = np.arange(SHAPES[shape][0] * count)[None, :]
    if shape == "32x32b":
        lane, column = thread + 0 * register, register + 0 * thread
    elif shape == "16x64b":
        lane, column = thread // 4 + 8 * (thread % 2) + 0 * register, thread // 2 % 2 + 2 * register
    elif shape == "16x128b":
        lane, column = thread // 4 + 8 * (register % 2), thread % 4 + 4 * (register // 2)
    elif shape == "16x256b":
        lane = thread // 4 + 8 * (register // 2 % 2)
        column = 2 * (thread % 4) + register % 2 + 8 * (register // 4)
    else:
        lane, column = thread % 16 + 0 * register, register + 0 * thread
    start = split * (thread // 16) if shape == "16x32bx2" else 0
    if packed:
        lane = np.repeat(lane, 2, axis=1)
        column = (2 * column[:, :, None] + np.arange(2)).reshape(WARP_LANES, -1)
    return lane, column + start


@dataclass(frozen=True)
class TensorMove:
    """The static form of a `tcgen05.ld` or `tcgen05.st`."""

    instruction: Instruction
    shape: str
    count: int
    split: int
    packed: bool
    # Of a load: the registers, by index.
    targets: tuple[int, ...] = ()

    @property
    def registers(self) -> int:
        """32-bit registers of each thread."""
        return SHAPES[self.shape][0] * self.count


@dataclass
class TensorAllocation:
    """Columns from `first` on that belong to a CTA; `freed` is the `tcgen05.dealloc` that gave them back."""

    first: int
    count: int
    instruction: Instruction
    freed: Instruction | None = None


@dataclass
class AllocationWait:
    """A warp that waits for columns to be free."""

    threads: np.ndarray
    count: int
    address: np.ndarray
    key: int
    instruction: Instruction


@dataclass
class WarpAccess:
    """A load or store in flight: cells [threads, words], and the words that a store will write."""

    instruction: Instruction
    threads: np.ndarray
    cells: np.ndarray
    values: np.ndarray | None

    def name(self) -> str:
        return "tcgen05.ld" if self.values is None else "tcgen05.st"


class TensorStore:
    """Tensor memory of the resident CTAs. Arrays are flat over [CTA slot, lane, column]; a cell is an index."""

    row_cells = TENSOR_COLUMNS

    def __init__(self, ctas: int) -> None:
        cells = ctas * TENSOR_LANES * TENSOR_COLUMNS
        self.words = np.zeros(cells, dtype=np.uint32)
        self.written = np.zeros(cells, dtype=bool)
        # Operations in flight that write, or read, each cell.
        self.writing = np.zeros(cells, dtype=np.uint16)
        self.reading = np.zeros(cells, dtype=np.uint16)
        self.allocated = np.zeros((ctas, TENSOR_COLUMNS), dtype=bool)
        self.allocations: list[list[TensorAllocation]] = [[] for _ in range(ctas)]
        self.relinquished: list[Instruction | None] = [None] * ctas

    @staticmethod
    def cells_of(columns: np.ndarray, slot: int) -> np.ndarray:
        """Every cell of some columns."""
        lanes = np.arange(TENSOR_LANES)[:, None]
        return ((slot * TENSOR_LANES + lanes) * TENSOR_COLUMNS + columns).reshape(-1)


class TensorMemory(Products):
    """Allocation, loads and stores."""

    def init_tensor_memory(self) -> None:
        self.check_tensor = "tcgen05" in self.checks
        self.check_loaded = "tcgen05-load" in self.checks
        self.loading: list[np.ndarray] = []
        self.allocation_waits: list[AllocationWait] = []
        self.warp_accesses: list[WarpAccess] = []
        self._tensor_memory: TensorStore | None = None
        self.tensor_order: TensorOrder | None = None

    @property
    def tensor(self) -> TensorStore:
        """Made when it is first used."""
        if self._tensor_memory is None:
            self._tensor_memory = TensorStore(len(self.ctas))
            if self.races is not None:
                self.tensor_order = TensorOrder(self, self.races, "tcgen05-fence" in self.checks)
        return self._tensor_memory

    def tensor_slots(self, ins: Instruction, thread: np.ndarray, ctas: int) -> list[int]:
        """The CTAs that an instruction of a thread works on: its own, or both of its pair."""
        slot = int(self.cta_of[thread[0]])
        if ctas == 1:
            return [slot]
        if self.cluster_size % 2:
            text = f"cta_group::2 needs a cluster of pairs of CTAs, not one of {self.cluster_size}"
            self.fault("illegal-instruction", text, ins, thread)
        first = slot - int(self.cluster_rank[thread[0]]) % 2
        return [first, first + 1]

    # -- allocation

    def tensor_allocate(
        self, g: ThreadGroup, ins: Instruction, operands: tuple[np.ndarray, np.ndarray], key: int
    ) -> None:
        """tcgen05.alloc: a warp waits until the columns are free, and finds their address in shared memory.

        `operands` are the place for the address, and the number of columns.
        """
        address, count = operands
        for warp in g.warps.tolist():
            rows = np.flatnonzero(g.threads >> 5 == warp)
            threads, slot = g.threads[rows], warp // self.cta_warps
            wanted = self._tensor_uniform(ins, "the number of columns", count, rows, threads)
            self._check_columns(ins, wanted, threads)
            done = self.tensor.relinquished[slot]
            if done is not None and self.check_tensor:
                text = f"the CTA has given up its right to allocate at PTX line {done.line}"
                self.fault("tensor-memory", text, ins, threads)
            self.key[threads] = FAR
            self.allocation_waits.append(AllocationWait(threads, wanted, address[rows], key, ins))
        self._grant_columns()

    def _check_columns(self, ins: Instruction, wanted: int, threads: np.ndarray) -> None:
        if not MIN_COLUMNS <= wanted <= TENSOR_COLUMNS or wanted & (wanted - 1):
            text = f"{wanted} columns of tensor memory: a power of two from {MIN_COLUMNS} to {TENSOR_COLUMNS} is needed"
            self.fault("tensor-memory", text, ins, threads)

    def _grant_columns(self) -> None:
        waits, self.allocation_waits = self.allocation_waits, []
        for wait in waits:
            slot = int(self.cta_of[wait.threads[0]])
            used = self.tensor.allocated[slot]
            starts = range(TENSOR_COLUMNS - wait.count, -1, -wait.count)
            first = next((start for start in starts if not used[start : start + wait.count].any()), None)
            if first is None:
                self.allocation_waits.append(wait)
                continue
            used[first : first + wait.count] = True
            self.tensor.allocations[slot].append(TensorAllocation(first, wait.count, wait.instruction))
            values = np.full(len(wait.threads), first, dtype=np.uint32)
            self.store_at(
                AccessInfo(wait.instruction, "shared", "u4", counted=False), wait.address, values, wait.threads
            )
            self.key[wait.threads] = wait.key
            self.progress += 1

    def check_allocation_waits(self) -> None:
        """No thread can go on: if warps wait for columns, say so. Raises SimulationFault."""
        if not self.allocation_waits:
            return
        wait = self.allocation_waits[0]
        free = int((~self.tensor.allocated[self.cta_of[wait.threads[0]]]).sum())
        text = f"the warp waits for {wait.count} columns of tensor memory, and nobody frees them: {free} are free"
        self.fault("deadlock", text, wait.instruction, wait.threads)

    def tensor_relinquish(self, g: ThreadGroup, ins: Instruction) -> None:
        """tcgen05.relinquish_alloc_permit: the CTA allocates no more."""
        for slot in np.unique(self.cta_of[g.threads]).tolist():
            self.tensor.relinquished[slot] = ins

    def tensor_free(self, g: ThreadGroup, ins: Instruction, address: np.ndarray, count: np.ndarray) -> None:
        """tcgen05.dealloc: the columns of one allocation, which nothing uses any more."""
        for warp in g.warps.tolist():
            rows = np.flatnonzero(g.threads >> 5 == warp)
            threads, slot = g.threads[rows], warp // self.cta_warps
            first = self._tensor_uniform(ins, "the address", address, rows, threads)
            wanted = self._tensor_uniform(ins, "the number of columns", count, rows, threads)
            self._check_columns(ins, wanted, threads)
            mine = next(
                (a for a in self.tensor.allocations[slot] if (a.first, a.count, a.freed) == (first, wanted, None)), None
            )
            if mine is None:
                if self.check_tensor:
                    self.fault("tensor-memory", self._why_not_freed(slot, first, wanted), ins, threads)
                continue
            cells = self.tensor.cells_of(np.arange(first, first + wanted), slot)
            self._check_idle(ins, threads, cells, "frees columns", reading=True)
            if self.tensor_order is not None:
                self.tensor_order.access(ins, threads[:1], cells, STORE, writes=True)
                self.tensor_order.forget(cells)
            mine.freed = ins
            self.tensor.allocated[slot, first : first + wanted] = False
            self.tensor.written[cells] = False
        self._grant_columns()

    def _why_not_freed(self, slot: int, first: int, wanted: int) -> str:
        text = f"no allocation of {wanted} columns begins at address 0x{first:x}"
        for allocation in reversed(self.tensor.allocations[slot]):
            if allocation.first == first and allocation.freed is None:
                return f"{text}: the one there has {allocation.count}"
            if allocation.first == first and allocation.freed is not None:
                return f"{text}: it was freed at PTX line {allocation.freed.line}"
        return text

    def check_tensor_memory(self, threads: np.ndarray) -> None:
        """Threads have exited: a CTA has to free what it allocated before it ends."""
        if self._tensor_memory is None:
            return
        self._finish_accesses(np.unique(threads >> 5), stores=True, loads=True)
        if not self.check_tensor:
            return
        for slot in np.unique(self.cta_of[threads]).tolist():
            if self.alive[slot * self.cta_stride : (slot + 1) * self.cta_stride].any():
                continue
            for allocation in self.tensor.allocations[slot]:
                if allocation.freed is None:
                    text = f"the CTA ends and has not freed the {allocation.count} columns of tensor memory"
                    self.fault("tensor-memory", text, allocation.instruction, threads[self.cta_of[threads] == slot])

    # -- loads and stores of warps

    def tensor_memory_load(self, move: TensorMove, g: ThreadGroup, address: np.ndarray) -> list[np.ndarray]:
        """tcgen05.ld: [n] of each register."""
        ins, store = move.instruction, self.tensor
        cells = self._move_cells(move, g, address)
        self._check_idle(ins, g.threads, cells, "reads")
        self._check_written(ins, g.threads, cells)
        self._check_order(ins, g, cells, LOAD)
        self._begin_access(WarpAccess(ins, g.threads.copy(), cells, None))
        if self.check_tensor:
            self._registers_loading(g.frame)[np.array(move.targets)[:, None], g.warps] = ins.line
        words = store.words[cells]
        if move.packed:
            words = words[:, 0::2] & np.uint32(0xFFFF) | words[:, 1::2] << np.uint32(16)
        return list(np.ascontiguousarray(words.T))

    def tensor_memory_store(
        self, move: TensorMove, g: ThreadGroup, address: np.ndarray, registers: Sequence[np.ndarray]
    ) -> None:
        """tcgen05.st: the registers go to tensor memory when the warp waits for it."""
        ins = move.instruction
        cells = self._move_cells(move, g, address)
        self._check_idle(ins, g.threads, cells, "writes", reading=True)
        self._check_order(ins, g, cells, STORE)
        words = np.stack([np.broadcast_to(r, (g.n,)).view(np.uint32) for r in registers], axis=1)
        if move.packed:
            halves = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=2)
            words = halves.reshape(g.n, -1)
        self._begin_access(WarpAccess(ins, g.threads.copy(), cells, words))

    def _begin_access(self, access: WarpAccess) -> None:
        busy = self.tensor.reading if access.values is None else self.tensor.writing
        busy[access.cells] += 1
        self.warp_accesses.append(access)

    def tensor_wait(self, g: ThreadGroup, stores: bool) -> None:
        """tcgen05.wait::ld and wait::st: complete what the warps have in flight."""
        self._finish_accesses(g.warps, stores=stores, loads=not stores)
        if not stores:
            for lines in self.loading:
                lines[:, g.warps] = 0
        if self.tensor_order is not None:
            self.tensor_order.wait(g.warps, STORE if stores else LOAD)

    # -- registers of loads in flight

    def _registers_loading(self, frame: Frame) -> np.ndarray:
        if frame.loading is None:
            frame.loading = np.zeros((len(frame.registers), self.thread_count // 32), dtype=np.int32)
            self.loading.append(frame.loading)
        return frame.loading

    def copy_loaded(self, target: int, source: int, g: ThreadGroup) -> None:
        """A plain mov is a new name for a register, as for ptxas: no use of what a load writes."""
        if g.frame.loading is not None:
            g.frame.loading[target, g.warps] = g.frame.loading[source, g.warps]

    def touch_loaded(self, ins: Instruction, registers: Sequence[int], g: ThreadGroup, mask: np.ndarray | None) -> None:
        """An instruction uses registers that some tcgen05.ld of the function writes."""
        if g.frame.loading is None:
            return
        warps = g.warps if mask is None else np.unique(g.threads[mask] >> 5)
        lines = g.frame.loading[np.array(registers)[:, None], warps]
        if lines.any() and not self.check_loaded:
            if ins.opcode != "tcgen05":
                self._loads_done(g.frame, warps, set(np.unique(lines).tolist()) - {0})
        elif lines.any():
            row, column = (int(x[0]) for x in np.nonzero(lines))
            name = g.frame.code.function.registers[registers[row]].name
            text = (
                f"the instruction uses {name}, which the tcgen05.ld at PTX line {int(lines[row, column])} loads, "
                "before tcgen05.wait::ld"
            )
            self.fault("async", text, ins, g.threads[g.threads >> 5 == warps[column]])

    def _loads_done(self, frame: Frame, warps: np.ndarray, lines: set[int]) -> None:
        """Registers of loads are used, and that is no mistake: as on hardware, which waits for them, these are done."""
        assert frame.loading is not None
        mine = frame.loading[:, warps]
        frame.loading[:, warps] = np.where(np.isin(mine, list(lines)), 0, mine)
        self._finish_accesses(warps, stores=False, loads=True, lines=lines)
        if self.tensor_order is not None and not any(
            access.values is None and np.isin(access.threads >> 5, warps).any() for access in self.warp_accesses
        ):
            self.tensor_order.wait(warps, LOAD)

    # -- fences

    def tensor_fence(self, g: ThreadGroup, before: bool, mask: np.ndarray | None) -> None:
        """tcgen05.fence::before_thread_sync and after_thread_sync."""
        if self.tensor_order is not None:
            fence = self.tensor_order.before_sync if before else self.tensor_order.after_sync
            fence(g.warps if mask is None else np.unique(g.threads[mask] >> 5))

    def _check_order(self, ins: Instruction, g: ThreadGroup, cells: np.ndarray, kind: int) -> None:
        if self.tensor_order is None:
            return
        for warp in g.warps.tolist():
            rows = np.flatnonzero(g.threads >> 5 == warp)
            mine = cells[rows].reshape(-1)
            self.tensor_order.access(ins, g.threads[rows], mine, kind, writes=kind == STORE)

    def _finish_accesses(self, warps: np.ndarray, *, stores: bool, loads: bool, lines: set[int] | None = None) -> None:
        """Complete what the warps have in flight, or only what instructions of some PTX lines began."""
        rest = []
        for access in self.warp_accesses:
            mine = np.isin(access.threads >> 5, warps)
            if lines is not None and access.instruction.line not in lines:
                mine[:] = False
            if not mine.any() or not (loads if access.values is None else stores):
                rest.append(access)
                continue
            cells = access.cells[mine]
            if access.values is None:
                self.tensor.reading[cells] -= 1
            else:
                self.tensor.writing[cells] -= 1
                self.tensor.words[cells] = access.values[mine]
                self.tensor.written[cells] = True
            if not mine.all():
                values = None if access.values is None else access.values[~mine]
                rest.append(WarpAccess(access.instruction, access.threads[~mine], access.cells[~mine], values))
        self.warp_accesses = rest

    def _move_cells(self, move: TensorMove, g: ThreadGroup, address: np.ndarray) -> np.ndarray:
        """[n, words]: checked against what a warp may reach, and what is allocated."""
        ins = move.instruction
        lane, column = positions(move.shape, move.count, move.split, move.packed)
        for warp in g.warps.tolist():
            rows = np.flatnonzero(g.threads >> 5 == warp)
            at = self._tensor_uniform(ins, "the address", address, rows, g.threads[rows]) >> 16
            first = warp % self.cta_warps % 4 * WARP_LANES
            allowed = {first, first + 16} if SHAPES[move.shape][1] == 16 else {first}
            if at not in allowed and self.check_tensor:
                text = (
                    f"warp {warp % self.cta_warps} reaches lanes {first} to {first + WARP_LANES - 1} of tensor memory; "
                    f"{ins.name} of {SHAPES[move.shape][1]} lanes cannot begin at lane {at}"
                )
                self.fault("tensor-memory", text, ins, g.threads[rows])
        inside = g.threads & 31
        lanes = (address >> np.uint32(16)).astype(np.int64)[:, None] + lane[inside]
        columns = (address & np.uint32(0xFFFF)).astype(np.int64)[:, None] + column[inside]
        return self._tensor_cells(ins, g.threads, self.cta_of[g.threads][:, None], lanes, columns)

    # -- cells, and what may be done with them

    def _tensor_uniform(
        self, ins: Instruction, what: str, values: np.ndarray, rows: np.ndarray, threads: np.ndarray
    ) -> int:
        """The one value of a warp's rows."""
        mine = values[rows]
        if not (mine == mine[0]).all():
            self.fault("illegal-instruction", f"{what} is not the same in all lanes of the warp", ins, threads)
        return int(mine[0])

    def _tensor_cells(
        self,
        ins: Instruction,
        threads: np.ndarray,
        slots: np.ndarray | int,
        lanes: np.ndarray,
        columns: np.ndarray,
    ) -> np.ndarray:
        """Cells of lanes and columns, which have to be there and allocated."""
        bad = (lanes < 0) | (lanes >= TENSOR_LANES) | (columns >= TENSOR_COLUMNS)
        if bad.any():
            lane, column = (int(np.broadcast_to(x, bad.shape)[bad][0]) for x in (lanes, columns))
            text = f"lane {lane}, column {column} is outside of tensor memory's {TENSOR_LANES} x {TENSOR_COLUMNS}"
            self.fault("out-of-bounds", text, ins, threads)
        used = self.tensor.allocated[slots, columns]
        if not used.all() and self.check_tensor:
            column = int(np.broadcast_to(columns, used.shape)[~used][0])
            self.fault("tensor-memory", f"column {column} of tensor memory is not allocated", ins, threads)
        return (slots * TENSOR_LANES + lanes) * TENSOR_COLUMNS + columns

    def _check_idle(
        self, ins: Instruction, threads: np.ndarray, cells: np.ndarray, what: str, *, reading: bool = False
    ) -> None:
        """Nothing in flight writes the cells, or (with `reading`) reads them."""
        if not self.check_tensor:
            return
        for busy, verb in ((self.tensor.writing, "writes"), (self.tensor.reading, "reads")):
            if verb == "reads" and not reading:
                continue
            hit = busy[cells] > 0
            if hit.any():
                self._fault_in_flight_cell(ins, threads, int(cells[hit][0]), f"{ins.name} {what}", verb)

    def _fault_in_flight_cell(self, ins: Instruction, threads: np.ndarray, cell: int, what: str, verb: str) -> NoReturn:
        where = f"lane {cell // TENSOR_COLUMNS % TENSOR_LANES}, column {cell % TENSOR_COLUMNS} of tensor memory"
        name, line, wait = next(operation for *operation, cells in self._in_flight_cells(verb) if (cells == cell).any())
        text = f"{what} {where}, which the {name} at PTX line {line} {verb}, before {wait}"
        self.fault("async", text, ins, threads)

    def _in_flight_cells(self, verb: str) -> Iterator[tuple[str, int, str, np.ndarray]]:
        """(instruction, PTX line, what would have waited for it, cells) of operations that read or write."""
        for access in self.warp_accesses:
            if (access.values is None) == (verb == "reads"):
                wait = "tcgen05.wait::ld" if access.values is None else "tcgen05.wait::st"
                yield access.name(), access.instruction.line, wait, access.cells

    def _check_written(self, ins: Instruction, threads: np.ndarray, cells: np.ndarray) -> None:
        if not self.initialised or self.tensor.written[cells].all():
            return
        cell = int(cells[~self.tensor.written[cells]][0])
        where = f"lane {cell // TENSOR_COLUMNS % TENSOR_LANES}, column {cell % TENSOR_COLUMNS}"
        self.fault("uninitialized", f"read of tensor memory that nothing has written: {where}", ins, threads)
