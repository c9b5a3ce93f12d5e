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

from libtile.codegen.builder import Block, KernelBuilder, Value
from libtile.codegen.llvm_text import symbol
from libtile.codegen.llvm_types import SHARED, SHARED_POINTER
from libtile.codegen.symbols import own_name
from libtile.support.diagnostics import LoweringError

ALTERNATING_BYTES = 8192
"""The arena grows up to this size to spare barriers, and beyond it only when one use needs more."""
PIECE_BYTES = 32768
"""The most that one exchange takes, where it can go in pieces."""

_ALIGN = 16
_ARENA_ALIGN = 128
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
            return None if in_entry and self.block is None else Region(0, _alternating(b, self))
        if any(_BARRIER in line for line in b.block.lines[self.line :]):
            return None
        return self.reads


def _alternating(b: KernelBuilder, arena: _Arena) -> int:
    """The size that the arena may grow to without need."""
    return max(arena.size, min(ALTERNATING_BYTES, room(b)))


def room(b: KernelBuilder) -> int:
    """Bytes of shared memory that the kernel's buffers leave for the arena."""
    return max(b.target.shared_per_block - -(-b.shared_size // _ARENA_ALIGN) * _ARENA_ALIGN, 0)


def piece_bytes(b: KernelBuilder, most: int = PIECE_BYTES) -> int:
    """The largest power of two up to `most` that there is room for: what an exchange in pieces takes at a time."""
    return 1 << max(min(most, room(b)), 1).bit_length() - 1


_arenas: WeakKeyDictionary[KernelBuilder, _Arena] = WeakKeyDictionary()


def _arena(b: KernelBuilder) -> _Arena:
    return _arenas.setdefault(b, _Arena())


def scratch_size(b: KernelBuilder) -> int:
    """Bytes of shared memory that the arena of a kernel takes (apart from `b.shared_size`)."""
    return _arena(b).size


def begin(b: KernelBuilder, size: int) -> Region:
    """A region to write, after a barrier if one is needed. The caller writes, calls `b.barrier()`, reads, and calls
    `end`. LoweringError when there is no room."""
    arena = _arena(b)
    size = -(-size // _ALIGN) * _ALIGN
    reading = arena.open_reads(b)
    if reading is None or reading.start >= size:
        start = 0
    elif reading.end + size <= _alternating(b, arena):
        start = reading.end
    else:
        b.barrier()
        start = 0
    region = Region(start, size)
    if region.end > room(b):
        raise LoweringError(
            f"needs {size} bytes of shared memory to exchange elements between threads, but {b.target.name} has "
            f"{room(b)} bytes left beside the {b.shared_size} of the kernel's pipelines"
        )
    arena.size = max(arena.size, region.end)
    b.add_global(_name(b), f"[{arena.size} x i8] undef", _ARENA_ALIGN, space=SHARED)
    return region


def end(b: KernelBuilder, region: Region) -> None:
    """The last read of the region has been emitted."""
    arena = _arena(b)
    arena.reads, arena.block, arena.line = region, b.block, len(b.block.lines)


def _name(b: KernelBuilder) -> str:
    """The arena's name. Kernels of one module have their own: what one needs must not add to another's."""
    return own_name("scratch", b.name)


def pointer(b: KernelBuilder, region: Region, byte_offset: int = 0) -> Value:
    """The address of a byte of a region."""
    base = Value(SHARED_POINTER, symbol(_name(b)))
    start = region.start + byte_offset
    if start == 0:
        return base
    return b.emit(base.type, f"getelementptr i8, {base.typed}, i32 {start}")
