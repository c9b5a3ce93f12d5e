# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shared memory that short-lived exchanges between threads use: one arena for a kernel, reused from use to use.

A use writes its region, meets at a barrier, and reads. The next use must not overwrite what some thread still reads:
it takes another region while the arena has room (the barrier in its middle then also ends the reads of the one
before), else it begins with a barrier. Reads are known to have ended when a barrier stands after them in the same
block; in a block that was begun by somebody else nothing is known (it may be a loop's), so a use there is preceded by
a barrier, except in the kernel's entry block, which nothing precedes.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from libtile.lowering.llvm.builder import SHARED, Block, KernelBuilder, Value

ALTERNATING_BYTES = 8192
"""The arena grows up to this size to spare barriers, and beyond it only when one use needs more."""

_NAME = "libtile_scratch"
_ALIGN = 16
_BARRIER = "@llvm.nvvm.barrier.cta.sync.aligned.all"


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the arena, in bytes."""

    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


@dataclass
class _Arena:
    size: int = 0
    reads: Region | None = None
    """What the last use may still be reading, at `line` of `block`."""
    block: Block | None = None
    line: int = 0

    def open_reads(self, b: KernelBuilder) -> Region | None:
        """The region that must not be written before a barrier; the whole arena when nothing is known."""
        if self.block is not b.block:
            in_entry = b.block.name == "entry"
            return None if in_entry and self.block is None else Region(0, max(self.size, ALTERNATING_BYTES))
        if any(_BARRIER in line for line in b.block.lines[self.line :]):
            return None
        return self.reads


_arenas: WeakKeyDictionary[KernelBuilder, _Arena] = WeakKeyDictionary()


def _arena(b: KernelBuilder) -> _Arena:
    return _arenas.setdefault(b, _Arena())


def scratch_size(b: KernelBuilder) -> int:
    """Bytes of shared memory that the arena of a kernel takes (apart from `b.shared_size`)."""
    return _arena(b).size


def begin(b: KernelBuilder, size: int) -> Region:
    """A region to write, after a barrier if one is needed. The caller writes, calls `b.barrier()`, reads, and calls
    `end`."""
    arena = _arena(b)
    size = -(-size // _ALIGN) * _ALIGN
    reading = arena.open_reads(b)
    if reading is None or reading.start >= size:
        start = 0
    elif reading.end + size <= max(arena.size, ALTERNATING_BYTES):
        start = reading.end
    else:
        b.barrier()
        start = 0
    region = Region(start, size)
    arena.size = max(arena.size, region.end)
    b.add_global(_NAME, f"internal addrspace({SHARED}) global [{arena.size} x i8] undef, align 128")
    return region


def end(b: KernelBuilder, region: Region) -> None:
    """The last read of the region has been emitted."""
    arena = _arena(b)
    arena.reads, arena.block, arena.line = region, b.block, len(b.block.lines)


def pointer(b: KernelBuilder, region: Region, byte_offset: int = 0) -> Value:
    """The address of a byte of a region."""
    base = Value(f"ptr addrspace({SHARED})", f"@{_NAME}")
    start = region.start + byte_offset
    if start == 0:
        return base
    return b.emit(base.type, f"getelementptr i8, {base.typed}, i32 {start}")
