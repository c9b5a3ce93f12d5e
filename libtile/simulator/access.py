# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads and stores of a group of threads, in every state space, with the checks of memory accesses.

All addresses of one instruction are handled as one numpy computation. The common case of a check is one gather of
shadow flags; what exactly is wrong is only worked out when that gather shows something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from libtile.support.records import dataclass

from .counters import SECTOR
from .ir import Instruction
from .memory import (
    ALLOCATED,
    CLUSTER_BIT,
    CLUSTER_RANK,
    CLUSTER_SHIFT,
    CONST_WINDOW,
    GLOBAL_BASE,
    IN_USE,
    OBJECT,
    PENDING,
    READ_ONLY,
    READY,
    WINDOW_SHIFT,
    Arena,
)
from .proxy import GlobalProxyTracker, ProxyTracker
from .races import RaceDetector
from .read_only import ReadOnlyTracker
from .state import MachineState
from .tensor_order import CLOCKS
from .types import DTYPES

if TYPE_CHECKING:
    from .group import ThreadGroup


def _each_byte(flags: int) -> dict[int, Any]:
    """Flags for every byte of an element, by the element's size."""
    return {size: np.dtype(f"u{size}").type(int.from_bytes(bytes([flags]) * size, "little")) for size in (1, 2, 4, 8)}


_EXPECT = _each_byte(READY)
_ALLOCATED = _each_byte(ALLOCATED)
_NOT_LOADED = _each_byte(ALLOCATED | PENDING)
_NOT_STORED = _each_byte(ALLOCATED | READ_ONLY | PENDING | IN_USE | OBJECT)
_IN_USE = _each_byte(IN_USE)
_SPACE_OF_WINDOW = {1: "shared", 2: "local", 3: "param", 4: "const", GLOBAL_BASE >> WINDOW_SHIFT: "global"}


@dataclass(slots=True)
class AccessInfo:
    """What is static about a memory instruction. `code` is the element's numpy code, `vector` its count."""

    instruction: Instruction
    space: str
    code: str
    vector: int = 1
    strong: bool = False
    semantics: str = "weak"
    # Copy engines and tensor cores are not requests of a warp, and have no bank conflicts of its kind.
    counted: bool = True

    @property
    def element(self) -> int:
        return int(DTYPES[self.code].itemsize)

    @property
    def size(self) -> int:
        return self.element * self.vector


class Access(MachineState):
    """Memory access."""

    def init_access(self) -> None:
        self.races = (
            RaceDetector(self, CLOCKS if self.launch.uses_tensor_memory else 1) if "race" in self.checks else None
        )
        tracked = "proxy-fence" in self.checks and self.launch.uses_async_proxy
        self.proxy = ProxyTracker(self.shared_arena.size) if tracked else None
        tracked = tracked and self.races is not None and self.launch.loads_by_copies
        self.global_proxy = GlobalProxyTracker(self.global_arena.size) if tracked else None
        tracked = self.races is not None and self.launch.program.uses("ld", "nc")
        self.read_only = ReadOnlyTracker(self.global_arena.size) if tracked else None
        self.initialised = "uninitialized" in self.checks
        self.counting = "counters" in self.checks
        # What holds bytes that are IN_USE, for messages.
        self.reads_in_flight = "wgmma"
        self.arenas: dict[str, Arena] = {
            "global": self.global_arena,
            "shared": self.shared_arena,
            "local": self.local_arena,
            "const": self.const_arena,
            "param": self.param_arena,
        }

    # -- addresses

    def locate(
        self, info: Any, space: str, addr: np.ndarray, threads: np.ndarray, size: int
    ) -> tuple[Arena, np.ndarray]:
        """Arena and byte offsets (int64) of addresses in a state space. Faults outside the space's window."""
        if space == "global":
            arena = self.global_arena
            off = (addr - np.uint64(GLOBAL_BASE)).view(np.int64)
            limit = arena.size
        elif space == "shared":
            arena = self.shared_arena
            off = addr.astype(np.int64)
            if int(off.max()) >> CLUSTER_SHIFT:
                return arena, self._cluster_offsets(info, off, threads, size)
            self._limit(info, off, self.shared_stride, size, threads, addr, "shared")
            return arena, off + self.shared_base[threads]
        elif space == "local":
            off = addr.astype(np.int64)
            self._limit(info, off, self.local_stride, size, threads, addr, "local")
            return self.local_arena, off + self.local_base[threads]
        else:
            arena = self.arenas[space]
            off = addr.astype(np.int64)
            limit = arena.size
        self._limit(info, off, limit, size, threads, addr, space)
        return arena, off

    def _limit(
        self, info: Any, off: np.ndarray, limit: int, size: int, threads: np.ndarray, addr: np.ndarray, space: str
    ) -> None:
        # One unsigned maximum finds both ends.
        if int(off.view(np.uint64).max()) + size <= limit:
            return
        bad = (off < 0) | (off > limit - size)
        value = int(addr[bad][0])
        if space == "global" and value >> WINDOW_SHIFT in (0, 0xFFFFFF):
            small = value < 4096
            self.fault(
                "null-access" if small else "out-of-bounds",
                f"{'null pointer: ' if small else ''}address 0x{value:x} is not in any {space} allocation",
                info.instruction,
                threads[bad],
            )
        detail = ""
        if space == "shared":
            detail = f"; the CTA has {self.shared_size} bytes of shared memory"
        elif space == "local":
            detail = f"; the thread has {self.local_stride} bytes of local memory"
        self.fault(
            "out-of-bounds", f"address 0x{value:x} is outside {space} memory{detail}", info.instruction, threads[bad]
        )

    def _cluster_offsets(self, info: Any, off: np.ndarray, threads: np.ndarray, size: int) -> np.ndarray:
        """Offsets of shared::cluster addresses, which name a CTA of the cluster in their upper bits."""
        named = (off & CLUSTER_BIT) != 0
        rank = np.where(named, off >> CLUSTER_SHIFT & CLUSTER_RANK, -1)
        inner = off & ((1 << CLUSTER_SHIFT) - 1)
        bad = (
            (off >> CLUSTER_SHIFT != 0) & ~named
            | (off >> CLUSTER_SHIFT > 0x7F)
            | (rank >= self.cluster_size)
            | (inner + size > self.shared_stride)
        )
        rank = np.where(rank < 0, self.cluster_rank[threads], rank)
        if bad.any():
            value = int(off[bad][0])
            self.fault(
                "out-of-bounds",
                f"0x{value:x} is not a shared memory address of this cluster",
                info.instruction,
                threads[bad],
            )
        slot = self.cta_of[threads] - self.cluster_rank[threads] + rank
        if self.check:
            living: Any = self.alive.reshape(len(self.ctas), -1).any(axis=1)
            dead = ~living[slot]
            if dead.any():
                self.fault(
                    "out-of-bounds",
                    "shared memory of a CTA of the cluster that has exited",
                    info.instruction,
                    threads[dead],
                )
        return inner + slot * self.shared_stride

    def generic_space(self, info: Any, addr: np.ndarray, threads: np.ndarray) -> tuple[str | None, np.ndarray]:
        """The one space that generic addresses point to and the addresses in it; (None, windows) when they differ."""
        window = addr >> np.uint64(WINDOW_SHIFT)
        first = int(window[0])
        if not (window == window[0]).all():
            return None, window
        if first == GLOBAL_BASE >> WINDOW_SHIFT:
            return "global", addr
        space = _SPACE_OF_WINDOW.get(first)
        if space is None:
            # Not in any window: the global space says what is wrong with it.
            return "global", addr
        return space, addr & np.uint64((1 << WINDOW_SHIFT) - 1)

    # -- loads

    def load(self, info: AccessInfo, g: ThreadGroup, addr: np.ndarray, mask: np.ndarray | None) -> Any:
        """Load for the threads of g where `mask`; [n], or [vector, n] for a vector load."""
        if mask is not None:
            chosen = np.flatnonzero(mask)
            shape = (info.vector, g.n) if info.vector > 1 else (g.n,)
            out = np.zeros(shape, dtype=DTYPES[info.code])
            if len(chosen):
                out[..., chosen] = self.load_at(info, addr[chosen], g.threads[chosen])
            return out
        return self.load_at(info, addr, g.threads)

    def load_at(self, info: AccessInfo, addr: np.ndarray, threads: np.ndarray) -> np.ndarray:
        """Load at one address per thread of `threads`."""
        if addr.dtype != np.uint64:
            addr = addr.view(np.uint32).astype(np.uint64)
        space = info.space
        if space == "global" and int(addr[0]) >> WINDOW_SHIFT == CONST_WINDOW >> WINDOW_SHIFT:
            # Constant variables lie in global memory too: compilers load from their generic address with ld.global.
            space = "generic"
        if space == "generic":
            found, local = self.generic_space(info, addr, threads)
            if found is None:
                return self._load_mixed(info, addr, threads, local)
            space, addr = found, local
        size = info.size
        arena, off = self.locate(info, space, addr, threads, size)
        index = self._index(info, arena, off, size, threads, addr)
        if self.check and space == "local":
            self._check_local(info, arena, off, index, threads, writing=False)
        elif self.check:
            self._check_load(info, space, arena, off, index, threads)
        return arena.views[info.code][index]

    def _load_mixed(self, info: AccessInfo, addr: np.ndarray, threads: np.ndarray, window: np.ndarray) -> np.ndarray:
        shape = (info.vector, len(addr)) if info.vector > 1 else (len(addr),)
        out = np.zeros(shape, dtype=DTYPES[info.code])
        for value in np.unique(window):
            part = np.flatnonzero(window == value)
            out[..., part] = self.load_at(info, addr[part], threads[part])
        return out

    def _index(
        self, info: AccessInfo, arena: Arena, off: np.ndarray, size: int, threads: np.ndarray, addr: np.ndarray
    ) -> np.ndarray:
        """Element indices of an access, after the alignment check; [n] or [vector, n]."""
        if size > 1 and int(np.bitwise_or.reduce(off)) & (size - 1):
            bad = (off & (size - 1)) != 0
            self.fault(
                "misaligned",
                f"address 0x{int(addr[bad][0]):x} is not a multiple of {size}",
                info.instruction,
                threads[bad],
            )
        element = info.element
        index = off >> (element.bit_length() - 1) if element > 1 else off
        if info.vector > 1:
            index = index[None, :] + np.arange(info.vector)[:, None]
        return index

    def _check_load(
        self, info: AccessInfo, space: str, arena: Arena, off: np.ndarray, index: np.ndarray, threads: np.ndarray
    ) -> None:
        element = info.element
        flags = arena.flag_views[element][index]
        if self.initialised:
            expect = _EXPECT[element]
            if not (flags == expect).all() and not ((flags & ~_IN_USE[element]) == expect).all():
                self._diagnose(info, arena, off, threads, writing=False)
        elif not ((flags & _NOT_LOADED[element]) == _ALLOCATED[element]).all():
            self._diagnose(info, arena, off, threads, writing=False)
        if self.races is not None and space == "shared":
            self.races.read(info, off, info.size, threads)
        elif self.read_only is not None and space == "global" and "nc" in info.instruction.modifiers:
            written = self.read_only.read(off, info.size)
            if written.any():
                text = "ld.global.nc reads bytes that this launch has written: it takes them for never written"
                self.fault("race", text, info.instruction, threads[written])
        self._count(info, space, off, threads, reading=True)

    def _check_local(
        self, info: AccessInfo, arena: Arena, off: np.ndarray, index: np.ndarray, threads: np.ndarray, *, writing: bool
    ) -> None:
        """Finds accesses between two of a frame's variables."""
        allocated = _ALLOCATED[info.element]
        if not self.guarded or ((arena.flag_views[info.element][index] & allocated) == allocated).all():
            return
        flags = arena.flags[off[:, None] + np.arange(info.size)]
        bad = ((flags & ALLOCATED) == 0).any(axis=1)
        if bad.any():
            at, verb = int((off - self.local_base[threads])[bad][0]), "write" if writing else "read"
            text = f"{info.size}-byte {verb} at 0x{at:x} in local memory: it is between two of the frame's variables"
            self.fault("out-of-bounds", text, info.instruction, threads[bad])

    def _count(
        self,
        info: AccessInfo,
        space: str,
        off: np.ndarray,
        threads: np.ndarray,
        *,
        reading: bool = False,
        writing: bool = False,
    ) -> None:
        if not self.counting:
            return
        if not info.counted:
            if space == "global":
                self.counters.global_bytes(info.size * len(off), reading, writing)
                self.counters.moved(info.instruction.line, off, info.size * len(off), reading, writing)
            return
        if space == "shared":
            self.counters.shared(off - self.shared_base[threads], info.size, threads, info.instruction)
        elif space == "global":
            sectors = self.counters.global_access(off, info.size, threads, info.instruction)
            self.counters.moved(info.instruction.line, off, SECTOR * sectors, reading, writing)
            self.counters.global_bytes(info.size * len(off), reading, writing)

    # -- stores

    def store(self, info: AccessInfo, g: ThreadGroup, addr: np.ndarray, values: Any, mask: np.ndarray | None) -> None:
        """Store `values` ([n], or a tuple of [n] for a vector) where `mask`."""
        if info.vector > 1:
            values = np.stack(values)
        if mask is not None:
            chosen = np.flatnonzero(mask)
            if len(chosen):
                self.store_at(info, addr[chosen], values[..., chosen], g.threads[chosen])
            return
        self.store_at(info, addr, values, g.threads)

    def store_at(self, info: AccessInfo, addr: np.ndarray, values: np.ndarray, threads: np.ndarray) -> None:
        if addr.dtype != np.uint64:
            addr = addr.view(np.uint32).astype(np.uint64)
        space = info.space
        if space == "generic":
            found, local = self.generic_space(info, addr, threads)
            if found is None:
                for value in np.unique(local):
                    part = np.flatnonzero(local == value)
                    self.store_at(info, addr[part], values[..., part], threads[part])
                return
            space, addr = found, local
        size = info.size
        arena, off = self.locate(info, space, addr, threads, size)
        index = self._index(info, arena, off, size, threads, addr)
        if self.check and space == "local":
            self._check_local(info, arena, off, index, threads, writing=True)
        elif self.check:
            self._check_store(info, space, arena, off, index, values, threads)
        arena.views[info.code][index] = values
        if self.proxy is not None and space == "shared":
            self.proxy.wrote(off, size, threads)
        elif space == "global":
            self._note_global_write(info, off, threads)

    def _note_global_write(self, info: AccessInfo, off: np.ndarray, threads: np.ndarray) -> None:
        """Bulk copies out of global memory see what threads have written behind a fence; other copies they see."""
        if self.global_proxy is None or self.races is None:
            return
        if info.counted:
            self.global_proxy.wrote(off, info.size, threads, self.races)
        else:
            self.global_proxy.replaced(off, info.size)

    def _check_store(
        self,
        info: AccessInfo,
        space: str,
        arena: Arena,
        off: np.ndarray,
        index: np.ndarray,
        values: np.ndarray,
        threads: np.ndarray,
    ) -> None:
        element = info.element
        view = arena.flag_views[element]
        flags = view[index]
        expect = _EXPECT[element]
        if not (flags == expect).all():
            if not ((flags & _NOT_STORED[element]) == _ALLOCATED[element]).all():
                self._diagnose(info, arena, off, threads, writing=True)
            view[index] = flags | expect
        if self.races is not None and space == "shared":
            self.races.write(info, off, info.size, threads, values)
        elif self.read_only is not None and space == "global":
            read = self.read_only.wrote(off, info.size)
            if read.any():
                text = "bytes are written that an ld.global.nc of this launch has read: it takes them for never written"
                self.fault("race", text, info.instruction, threads[read])
        self._count(info, space, off, threads, writing=True)

    # -- what is wrong

    def what_reads(self, at: int) -> str:
        """What is in flight and reads a byte of shared memory, for messages."""
        return self.reads_in_flight

    def _diagnose(self, info: Any, arena: Arena, off: np.ndarray, threads: np.ndarray, *, writing: bool) -> None:
        """Find the first thread whose bytes are not fine and raise the fault that says why."""
        size = info.size
        flags = arena.flags[off[:, None] + np.arange(size)]
        verb = "write" if writing else "read"
        tests = [
            ((flags & ALLOCATED) == 0, "out-of-bounds"),
            ((flags & PENDING) != 0, "async"),
            ((flags & IN_USE) != 0, "in-use") if writing else None,
            ((flags & READ_ONLY) != 0, "read-only") if writing else None,
            ((flags & OBJECT) != 0, "mbarrier-object") if writing else None,
            ((flags & 2) == 0, "uninitialized") if not writing and self.initialised else None,
        ]
        for test in tests:
            if test is None or not test[0].any():
                continue
            bad = test[0].any(axis=1)
            row = int(np.flatnonzero(bad)[0])
            at = int(off[row])
            kind, where = arena.describe(at, size)
            if test[1] != "out-of-bounds":
                kind = test[1]
            text = {
                "async": f"{verb} of bytes that an asynchronous copy has not completed: {where}",
                "in-use": f"write to bytes that a {self.what_reads(at)} reads that has not been waited for: {where}",
                "read-only": f"write to read-only memory: {where}",
                "mbarrier-object": f"write to an mbarrier that no mbarrier.inval has ended: {where}",
                "uninitialized": f"read of {size} bytes that nothing has written: {where}",
            }.get(kind, f"{size}-byte {verb} at 0x{arena.base + at:x} in {arena.name} memory: {where}")
            self.fault({"in-use": "async"}.get(kind, kind) or "out-of-bounds", text, info.instruction, threads[bad])
