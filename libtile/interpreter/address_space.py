# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Global memory: allocations in one simulated address space.

Every array given to a launch, every global and every alloca is an allocation with a base address of its own, aligned
to 256 bytes (as a device allocator does it) with unmapped space around. Arrays whose bytes overlap on the host share
one allocation, so aliasing shows. A pointer is an address: integers and pointers convert freely.
"""

from __future__ import annotations

import bisect
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array, Element, from_bits, to_bits
from libtile.support.arrays import memory_span

FIRST_ADDRESS = 0x7_0000_0000
ALIGNMENT = 256
GUARD = 1 << 20


class Allocation:
    """Bytes at an address. `owner` names it in reports; `defined` marks initialised bytes (None: all are)."""

    __slots__ = ("_typed", "base", "data", "defined", "end", "owner", "private", "read_only", "scopes", "shadow")

    def __init__(self, base: int, data: np.ndarray, owner: str, read_only: bool = False, defined: bool = True):
        self.base = base
        self.data = data
        self.end = base + data.size
        self.owner = owner
        self.read_only = read_only
        self.defined: np.ndarray | None = None if defined else np.zeros(data.size, bool)
        self.private: int | None = None
        """The one tile block (its number) that may use it; None: all may."""
        self.shadow: Any = None
        self.scopes: tuple[np.ndarray, ...] | None = None
        """For each byte the alias scopes by which it was written and read last."""
        self._typed: dict[np.dtype, np.ndarray] = {}

    def move(self, data: np.ndarray) -> None:
        """Lie in other memory of the host, of the same size."""
        self.data = data
        self._typed = {}

    def typed(self, dtype: np.dtype) -> np.ndarray:
        """The whole elements of the allocation as `dtype`, counted from its base."""
        view = self._typed.get(dtype)
        if view is None:
            whole = self.data.size // dtype.itemsize * dtype.itemsize
            view = self._typed[dtype] = self.data[:whole].view(dtype)
        return view


class Memory:
    """The address space of one launch."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self._bases: list[int] = []
        self._next = FIRST_ADDRESS
        self.version = 0
        """Counts writes that changed something that another block may wait for (atomics and strong stores)."""
        self.temporary = 0
        """Bytes of all allocas that are alive."""
        self.bytes_read = 0
        self.bytes_written = 0

    def allocate(self, data: np.ndarray, owner: str, *, alignment: int = 1, read_only: bool = False,
                 defined: bool = True) -> Allocation:  # fmt: skip
        """Map a flat uint8 array at a fresh address, aligned to `alignment` and to 256 bytes. A fault without room."""
        step = max(alignment, ALIGNMENT)
        base = -(-self._next // step) * step
        if base + data.size + GUARD >= 1 << 63:
            raise Fault(FaultKind.OUT_OF_BOUNDS, f"no address that is a multiple of {step} is left for {owner}")
        allocation = Allocation(base, data, owner, read_only, defined)
        self._next = allocation.end + GUARD
        self._bases.append(base)
        self.allocations.append(allocation)
        return allocation

    def map_arrays(self, arrays: Sequence[tuple[np.ndarray, str]]) -> list[int]:
        """Map host arrays, each with its name in reports; the address of each one's first element.

        Arrays that share host bytes become one allocation, the union of their extents.
        """
        flat = [memory_span(a) for a, _ in arrays]
        starts = [f.ctypes.data for f in flat]
        order = sorted(range(len(flat)), key=lambda i: (starts[i], -flat[i].size))
        addresses = [0] * len(flat)
        groups: list[list[int]] = []
        end = 0
        for index in order:
            if groups and starts[index] < end and flat[index].size:
                groups[-1].append(index)
            else:
                groups.append([index])
                end = starts[index]
            end = max(end, starts[index] + flat[index].size)
        for group in sorted(groups, key=min):  # wherever the host has arrays, addresses are the same in each run
            start = starts[group[0]]
            end = max(starts[index] + flat[index].size for index in group)
            # The union of overlapping extents is readable: every byte of it lies in one of the arrays.
            data = flat[group[0]]
            if end - start > data.size:
                data = np.lib.stride_tricks.as_strided(data, (end - start,), (1,))
            writable = all(arrays[i][0].flags.writeable for i in group)
            owner = " / ".join(arrays[i][1] for i in sorted(group))
            allocation = self.allocate(data, owner, read_only=not writable)
            for i in group:
                addresses[i] = allocation.base + starts[i] - start
        return addresses

    def release(self, allocation: Allocation) -> None:
        """Unmap an allocation (an alloca whose tile block has ended)."""
        self.temporary -= allocation.data.size
        index = bisect.bisect_left(self._bases, allocation.base)
        del self._bases[index], self.allocations[index]

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds a byte address, or None."""
        index = bisect.bisect_right(self._bases, address) - 1
        if index < 0 or address >= self.allocations[index].end:
            return None
        return self.allocations[index]

    @contextmanager
    def in_shared_pages(self) -> Iterator[None]:
        """Within, what may be written lies in pages that this process shares with those that it forks; behind it, the
        arrays of the host have what was written. OSError, with all as it was, when there is no memory for that."""
        moved: list[tuple[Allocation, np.ndarray]] = []
        try:
            for allocation in self.allocations:
                data = allocation.data
                if not allocation.read_only and data.size:
                    pages = np.frombuffer(mmap.mmap(-1, data.size), np.uint8)
                    pages[:] = data
                    allocation.move(pages)
                    moved.append((allocation, data))
            yield
        finally:
            for allocation, data in moved:
                data[:] = allocation.data
                allocation.move(data)

    # -- checks ---------------------------------------------------------------------------------------------------

    def locate(self, addresses: np.ndarray, size: int, where: np.ndarray | None) -> Allocation | None:
        """The one allocation that holds accesses of `size` bytes at all (active) addresses, or None if it takes
        several. Faults: an active access outside of every allocation, or not aligned to its size.
        """
        active = addresses if where is None else addresses[where]
        if active.size == 0:
            return None
        low, high = int(active.min()), int(active.max())
        allocation = self.find(low)
        if allocation is None or high + size > allocation.end:
            self._check_each(addresses, size, where)
            allocation = None
        if size > 1 and np.any(active & (size - 1)):
            index = _first((addresses & (size - 1)) != 0, where)
            address = int(addresses[index])
            raise Fault(FaultKind.MISALIGNED, f"address {address:#x} is not a multiple of {size}", index)
        return allocation

    def _check_each(self, addresses: np.ndarray, size: int, where: np.ndarray | None) -> None:
        owner = np.searchsorted(np.asarray(self._bases, np.int64), addresses, side="right") - 1
        ends = np.asarray([a.end for a in self.allocations] or [0], np.int64)
        bad = (owner < 0) | (addresses > ends[np.maximum(owner, 0)] - size)
        if where is not None:
            bad &= where
        if np.any(bad):
            index = _first(bad, None)
            raise Fault(FaultKind.OUT_OF_BOUNDS, self.describe(int(addresses[index]), size), index)

    def describe(self, address: int, size: int) -> str:
        """Where an access that hit no allocation lies relative to the nearest one."""
        text = f"{size} byte{'s' if size > 1 else ''} at address {address:#x}"
        if not self.allocations:
            return text
        index = max(bisect.bisect_right(self._bases, address) - 1, 0)
        near = [self.allocations[i] for i in (index, index + 1) if i < len(self.allocations)]
        best = min(near, key=lambda a: max(a.base - address, address + size - a.end))
        if address + size > best.end:
            offset = address - best.base
            return f"{text}, at offset {offset} of {best.owner} ({best.data.size} bytes)"
        return f"{text}, {best.base - address} bytes before {best.owner} ({best.data.size} bytes)"

    # -- accesses by address --------------------------------------------------------------------------------------

    def gather(self, addresses: np.ndarray, elem: Element, where: np.ndarray | None) -> np.ndarray:
        """The elements at byte addresses. Those that `where` leaves out are zero."""
        size = elem.storage_bytes
        addresses = np.asarray(addresses)
        allocation = self.locate(addresses, size, where)
        bits: np.ndarray
        if allocation is not None:
            source = allocation.typed(elem.unsigned_dtype)
            index = (addresses - allocation.base) // size
            if where is None:
                bits = source[index]
            else:
                bits = np.where(where, source[np.where(where, index, 0)], elem.unsigned_dtype.type(0))
        else:
            bits = np.zeros(addresses.shape, elem.unsigned_dtype)
            for part, owner in self.parts(addresses, where):
                bits[part] = owner.typed(elem.unsigned_dtype)[(addresses[part] - owner.base) // size]
        self.bytes_read += size * (addresses.size if where is None else int(np.count_nonzero(where)))
        return from_bits(np.asarray(bits), elem)

    def scatter(self, addresses: np.ndarray, values: Array, elem: Element, where: np.ndarray | None) -> None:
        """Write elements to byte addresses; of several to one address, the last in row-major order stays."""
        size = elem.storage_bytes
        addresses = np.asarray(addresses)
        allocation = self.locate(addresses, size, where)
        bits = to_bits(values, elem)
        if allocation is not None and where is None:
            self._check_writable(allocation)
            allocation.typed(elem.unsigned_dtype)[(addresses - allocation.base) // size] = bits
        else:
            for part, owner in self.parts(addresses, where):
                self._check_writable(owner)
                owner.typed(elem.unsigned_dtype)[(addresses[part] - owner.base) // size] = bits[part]
        self.bytes_written += size * (addresses.size if where is None else int(np.count_nonzero(where)))

    def parts(self, addresses: np.ndarray, where: np.ndarray | None) -> list[tuple[np.ndarray, Allocation]]:
        """For each allocation that active addresses lie in, a mask of those."""
        active = np.ones(addresses.shape, bool) if where is None else where
        owner = np.searchsorted(np.asarray(self._bases, np.int64), addresses, side="right") - 1
        return [(active & (owner == i), self.allocations[i]) for i in np.unique(owner[active]).tolist()]

    def _check_writable(self, allocation: Allocation) -> None:
        if allocation.read_only:
            raise Fault(FaultKind.READ_ONLY, f"{allocation.owner} is constant")


def _first(bad: np.ndarray, where: np.ndarray | None) -> tuple[int, ...]:
    """Index of the first true (and active) element."""
    hits = np.argwhere(bad if where is None else bad & where)
    return tuple(int(i) for i in hits[0])


def first_index(bad: Array) -> tuple[int, ...]:
    """Index of the first true element of a mask that has one."""
    return _first(np.asarray(bad), None)
