# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code that some warps run: which of them, how many registers they have, and which one thread acts for a warp."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I1, I32, VOID, StructType

REGISTER_STEP = 8
MIN_REGISTERS, MAX_REGISTERS = 24, 256
"""Of a thread, by `setmaxnreg`."""
GROUP_WARPS = 4
"""Warps of a warpgroup, which all execute `setmaxnreg`."""
_ALL_LANES = -1


def set_registers(b: KernelBuilder, count: int, before: int) -> None:
    """The warpgroups that run this code have so many registers a thread from here on, where they had `before` (PTX ISA,
    "setmaxnreg"). ValueError for what there is no instruction for."""
    if count % REGISTER_STEP or not MIN_REGISTERS <= count <= MAX_REGISTERS:
        raise ValueError(
            f"{count} registers, not a multiple of {REGISTER_STEP} from {MIN_REGISTERS} to {MAX_REGISTERS}"
        )
    direction = "inc" if count > before else "dec"
    b.call(f"llvm.nvvm.setmaxnreg.{direction}.sync.aligned.u32", VOID, [integer(I32, count)])


def elected(b: KernelBuilder) -> Value:
    """Whether this thread is the one that acts for its warp; all threads of the warp come here."""
    if not b.target.has("elect"):
        return b.compare("eq", b.lane(), integer(I32, 0))
    made = b.call("llvm.nvvm.elect.sync", StructType((I32, I1)), [integer(I32, _ALL_LANES)])
    return b.extract(made, 1, I1)


@contextmanager
def one_thread(b: KernelBuilder) -> Iterator[None]:
    """Emit what one thread of each warp does."""
    with b.when(elected(b)):
        yield


def uniform(b: KernelBuilder, value: Value) -> Value:
    """An i32 that is the same in all threads of the warp, in a form that shows it."""
    operands = [integer(I32, _ALL_LANES), value, integer(I32, 0), integer(I32, b.target.warp_size - 1)]
    return b.call("llvm.nvvm.shfl.sync.idx.i32", I32, operands)


def warpgroup(b: KernelBuilder) -> Value:
    """The number of this thread's warpgroup among those that run this code."""
    if b.threads <= GROUP_WARPS * b.target.warp_size:
        return integer(I32, 0)
    shift = integer(I32, GROUP_WARPS.bit_length() - 1)
    return b.special("warpgroup", lambda: uniform(b, b.binary("lshr", b.warp(), shift)))


def meet_warp(b: KernelBuilder) -> None:
    """The threads of a warp meet, and see each other's earlier accesses of memory."""
    b.call("llvm.nvvm.bar.warp.sync", VOID, [integer(I32, _ALL_LANES)])
