# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Barrier objects in shared memory, which count arrivals and copied bytes (PTX ISA, "mbarrier").

A phase ends when all its arrivals and bytes are there; a wait names the parity of the phase that it waits for, 0 for
the first. Barriers are initialised by one thread, fenced, and seen by the others behind a barrier of the CTA.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I1, I32, I64, VOID

_TRANSACTIONS = "tma"
"""The feature of targets whose barrier objects count bytes, too, have waits that suspend a thread for a while, and
whose proxies and clusters are told of them by a fence."""

BYTES = 8
"""Of a barrier object, which is as much aligned."""


def initialize(b: KernelBuilder, barriers: Sequence[tuple[Value, int]]) -> None:
    """One thread makes barrier objects, each with so many arrivals in a phase. The CTA has to meet before their use."""
    with b.when(b.compare("eq", b.thread_id(), integer(I32, 0))):
        initialize_here(b, barriers)


def initialize_here(b: KernelBuilder, barriers: Sequence[tuple[Value, int]]) -> None:
    """`initialize` by the thread that runs this code."""
    for pointer, arrivals in barriers:
        b.call("llvm.nvvm.mbarrier.init.shared", VOID, [pointer, integer(I32, arrivals)])
    if b.target.has(_TRANSACTIONS):
        # Copies of the asynchronous proxy, and other CTAs of the cluster, see the barriers behind it.
        b.call("llvm.nvvm.fence.mbarrier_init.release.cluster", VOID, [])


def invalidate(b: KernelBuilder, pointer: Value) -> None:
    """The place of a barrier object, for which nobody waits any more, may be used for something else. One thread
    executes this."""
    b.call("llvm.nvvm.mbarrier.inval.shared", VOID, [pointer])


def expect_bytes(b: KernelBuilder, pointer: Value, count: int) -> None:
    """The current phase ends after so many more bytes have been copied."""
    b.call("llvm.nvvm.mbarrier.expect.tx.scope.cta.space.cta", VOID, [pointer, integer(I32, count)])


def arrive(b: KernelBuilder, pointer: Value) -> None:
    """This thread arrives."""
    if not b.target.has(_TRANSACTIONS):
        b.call("llvm.nvvm.mbarrier.arrive.shared", I64, [pointer])
        return
    b.call("llvm.nvvm.mbarrier.arrive.scope.cta.space.cta", I64, [pointer, integer(I32, 1)])


def arrive_expecting(b: KernelBuilder, pointer: Value, count: int) -> None:
    """This thread arrives, and the phase ends after so many more bytes."""
    b.call("llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta", I64, [pointer, integer(I32, count)])


def wait(b: KernelBuilder, pointer: Value, parity: Value) -> None:
    """Wait for the end of the phase of this parity (an i32)."""
    again, done = b.new_block("spin"), b.new_block("arrived")
    b.branch(again)
    b.start(again)
    b.conditional_branch(has_ended(b, pointer, parity), done, again)
    b.start(done)


def has_ended(b: KernelBuilder, pointer: Value, parity: Value) -> Value:
    """Whether the phase of this parity has ended, for which the thread may wait a while."""
    test = "try" if b.target.has(_TRANSACTIONS) else "test"
    return b.call(f"llvm.nvvm.mbarrier.{test}.wait.parity.scope.cta.space.cta", I1, [pointer, parity])


def arrive_with_copies(b: KernelBuilder, pointer: Value) -> None:
    """This thread arrives when all its `cp.async` copies so far are done; it is one of those that the barrier object
    counts (PTX ISA, "cp.async.mbarrier.arrive": noinc)."""
    b.call("llvm.nvvm.cp.async.mbarrier.arrive.noinc.shared", VOID, [pointer])
