# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What all machines of one launch share: configuration, global memory, the device heap and output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from libtile.support.checks import Checks
from libtile.support.records import dataclass, field

from .counters import Counters
from .ir import Instruction
from .memory import GLOBAL_BASE, Arena, align_up
from .program import Code, Program

TraceCallback = Callable[[tuple[int, int, int], int, int, Instruction], None]


APART = 64
"""Bytes between blocks of the heap, so that an access just behind one meets none."""


@dataclass
class LaunchState:
    """One kernel launch. `order` is None for the converged schedule, else a seed."""

    program: Program
    entry_code: Code
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    explicit_cluster: bool
    dynamic_shared: int
    checks: Checks
    order: int | None
    trace: TraceCallback | None
    instruction_limit: int
    stack_size: int
    max_call_depth: int
    global_arena: Arena
    const_arena: Arena
    param_arena: Arena
    uses_async_proxy: bool
    loads_by_copies: bool
    uses_tensor_memory: bool
    heap_start: int
    heap_end: int
    lock: Any = None
    counters: Counters = field(default_factory=Counters)
    output: list[str] = field(default_factory=list)
    printed: int = 0
    heap_next: int = 0
    # First CTAs of clusters that have not started and may be taken over; they do not start any more.
    waiting_clusters: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    param_cache: dict[tuple[int, str], Any] = field(default_factory=dict)

    def param(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        """The value of an entry parameter, once per thread of a group of `count`."""
        return np.full(count, self.param_arena.data[offset : offset + dtype.itemsize].view(dtype)[0])

    def take_cluster(self) -> tuple[int, int, int] | None:
        """The first CTA of the next cluster that has not started, which the caller runs; None when there is none."""
        if not self.waiting_clusters:
            return None
        return self.waiting_clusters.pop(min(self.waiting_clusters))

    # -- device heap

    def heap_allocate(self, sizes: np.ndarray, alignments: np.ndarray | None = None) -> np.ndarray:
        """Addresses of new blocks, one per thread; 0 where the heap is full or an alignment is no power of two.

        Blocks start uninitialised. As long as there is room, none lies where another one was, which tells what uses
        that.
        """
        out = np.zeros(len(sizes), dtype=np.uint64)
        next_at = max(self.heap_next, self.heap_start)
        wanted = [16] * len(sizes) if alignments is None else alignments.tolist()
        for k, (size, alignment) in enumerate(zip(sizes.tolist(), wanted, strict=True)):
            if not alignment or alignment & (alignment - 1):
                continue
            at = align_up(next_at, alignment)
            if at + size > self.heap_end:
                self.global_arena.forget_freed()
                found = self.global_arena.room(size, max(alignment, 16), self.heap_start, self.heap_end, APART)
                if found is None:
                    continue
                at = found
            else:
                next_at = align_up(at + size, 16) + APART
            self.global_arena.allocate(at, size, f"malloc block {k}", 1)
            out[k] = GLOBAL_BASE + at
        self.heap_next = next_at
        return out

    def heap_free(self, pointer: int) -> bool:
        """Mark a block as freed; False when the pointer is not the start of a live block."""
        offset = pointer - GLOBAL_BASE
        allocation = self.global_arena.starting_at(offset) if offset >= self.heap_start else None
        if allocation is None or allocation.freed:
            return False
        allocation.freed = True
        self.global_arena.flags[offset : offset + allocation.size] = 0
        return True
