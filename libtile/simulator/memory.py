# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""State spaces as byte arrays with shadow bytes, and the windows that make generic addresses.

Each space is one `Arena`: bytes, and one flag byte per byte (allocated, initialised, being filled by an asynchronous
copy). Arguments and module variables are allocations of the global arena with red zones between them, so an access
that leaves its allocation meets unallocated bytes. Generic addresses carry the space in their upper bits (PTX ISA,
"Generic Addressing").
"""

from __future__ import annotations

import mmap
from bisect import bisect_left, bisect_right

import numpy as np

from libtile.support.records import dataclass

from .types import DTYPES

SHARED_WINDOW = 0x0100_0000_0000
LOCAL_WINDOW = 0x0200_0000_0000
PARAM_WINDOW = 0x0300_0000_0000
CONST_WINDOW = 0x0400_0000_0000
FUNCTION_WINDOW = 0x0500_0000_0000
GLOBAL_BASE = 0x7000_0000_0000
WINDOW_SHIFT = 40

# shared::cluster addresses carry the CTA's rank above the 24-bit offset, and a bit that plain addresses have not, which
# mean the own CTA. As on hardware, the address of a pair's even CTA is that of the odd one without bit 24.
CLUSTER_SHIFT = 24
CLUSTER_BIT = 1 << 30
CLUSTER_RANK = 0x3F

# The scheduling key of a thread that is not ready.
FAR = 1 << 62

ALLOCATED = 1
READY = 3  # allocated and initialised
PENDING = 4  # an asynchronous copy has not completed
READ_ONLY = 8
IN_USE = 16  # a product or copy in flight reads it
OBJECT = 32  # of an mbarrier that has not been invalidated


def cluster_prefix(rank: int) -> int:
    """What a shared::cluster address has above its offset."""
    return CLUSTER_BIT | rank << CLUSTER_SHIFT


def align_up(value: int, align: int) -> int:
    return (value + align - 1) // align * align


@dataclass
class Allocation:
    """A live or freed range of an arena, for bounds and for messages."""

    offset: int
    size: int
    name: str
    freed: bool = False


class Arena:
    """Bytes of one state space, with typed views and shadow flags. `base` is the address of byte 0."""

    def __init__(self, name: str, base: int, size: int, share: bool = False) -> None:
        size = align_up(max(size, 16), 16)
        self.name = name
        self.base = base
        self.size = size
        if share:
            # Anonymous shared pages stay common to the processes that a launch forks.
            self.data = np.frombuffer(mmap.mmap(-1, size), dtype=np.uint8)
            self.flags = np.frombuffer(mmap.mmap(-1, size), dtype=np.uint8)
        else:
            self.data = np.zeros(size, dtype=np.uint8)
            self.flags = np.zeros(size, dtype=np.uint8)
        codes = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")
        self.views = {code: self.data.view(DTYPES[code]) for code in codes}
        self.flag_views = {1: self.flags, 2: self.flags.view("u2"), 4: self.flags.view("u4"), 8: self.flags.view("u8")}
        self.allocations: list[Allocation] = []
        self._starts: list[int] = []

    def allocate(self, offset: int, size: int, name: str, flags: int) -> Allocation:
        """Mark [offset, offset+size) as allocated under a name; offsets must come in ascending order."""
        allocation = Allocation(offset, size, name)
        at = bisect_right(self._starts, offset)
        self._starts.insert(at, offset)
        self.allocations.insert(at, allocation)
        self.flags[offset : offset + size] = flags
        return allocation

    def starting_at(self, offset: int) -> Allocation | None:
        """The allocation that begins at an offset, live or freed."""
        at = bisect_left(self._starts, offset)
        return self.allocations[at] if at < len(self._starts) and self._starts[at] == offset else None

    def forget_freed(self) -> None:
        """Take the places of freed allocations for new ones: what still points there is no longer told of that."""
        self.allocations = [a for a in self.allocations if not a.freed]
        self._starts = [a.offset for a in self.allocations]

    def room(self, size: int, alignment: int, start: int, end: int, apart: int) -> int | None:
        """The first offset of `size` free bytes in [start, end), so many bytes apart from what is before and behind."""
        at = start
        for allocation in self.allocations[bisect_left(self._starts, start) :]:
            place = align_up(at, alignment)
            if place + size + apart <= allocation.offset:
                return place
            at = allocation.offset + allocation.size + apart
        place = align_up(at, alignment)
        return place if place + size <= end else None

    def describe(self, offset: int, size: int) -> tuple[str, str]:
        """(fault kind, text) for an access of `size` bytes at an offset that is not fine."""
        at = bisect_right(self._starts, offset) - 1
        before = self.allocations[at] if at >= 0 else None
        after = self.allocations[at + 1] if at + 1 < len(self.allocations) else None
        if before is not None and offset < before.offset + before.size:
            if before.freed:
                return "freed-access", f"{before.name} ({before.size} bytes) was freed"
            if offset + size > before.offset + before.size:
                past = offset + size - before.offset - before.size
                return "out-of-bounds", f"{past} bytes past the end of {before.name} ({before.size} bytes)"
            return "", f"byte {offset - before.offset} of {before.name} ({before.size} bytes)"
        gap_before = None if before is None else offset - (before.offset + before.size)
        gap_after = None if after is None else after.offset - offset
        if before is not None and gap_before is not None and (gap_after is None or gap_before <= gap_after):
            after_text = f"{gap_before} bytes after" if gap_before else "just after"
            return "out-of-bounds", f"{after_text} the end of {before.name} ({before.size} bytes)"
        if after is not None:
            return "out-of-bounds", f"{gap_after} bytes before {after.name} ({after.size} bytes)"
        return "out-of-bounds", f"no {self.name} memory is allocated there"
