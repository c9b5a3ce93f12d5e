# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of the grid by number, and cluster launch control: a running tile block takes one that has not started (PTX
ISA, "clusterlaunchcontrol").

The number of a program counts along x first, then y and z. It has 64 bits, into which every grid's fits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from libtile.codegen import mbarrier, tma
from libtile.codegen.builder import AXES, KernelBuilder, SharedBuffer, Value, integer
from libtile.codegen.llvm_types import I1, I32, I64, VOID, IntType

NO_PROGRAM = -1
"""The number that is no program's."""

_RESPONSE = 16
"""Bytes of the answer, by which it is aligned as well; its barrier object lies behind it."""
EXCHANGED = _RESPONSE + mbarrier.BYTES
_I128 = IntType(128)
_QUERY = "llvm.nvvm.clusterlaunchcontrol.query_cancel"


def number_of(b: KernelBuilder, index: list[Value]) -> Value:
    """The number of the program with these indices (i32) along x, y and z."""
    wide = [b.cast("zext", value, I64) for value in index]
    number = wide[2]
    for axis in (1, 0):
        number = b.add(b.mul(number, b.cast("zext", b.num_blocks(AXES[axis]), I64)), wide[axis])
    return number


def own_number(b: KernelBuilder) -> Value:
    """The number of the program that this tile block was started for."""
    return number_of(b, [b.block_id(axis) for axis in AXES])


def index_of(b: KernelBuilder, number: Value, axis: int) -> Value:
    """The index (i32) along an axis, 0 to 2, of the program with a number."""
    for before in range(axis):
        number = b.binary("udiv", number, b.cast("zext", b.num_blocks(AXES[before]), I64))
    if axis < len(AXES) - 1:
        number = b.binary("urem", number, b.cast("zext", b.num_blocks(AXES[axis]), I64))
    return b.cast("trunc", number, I32)


def cancel_next(b: KernelBuilder, acting: Callable[[], AbstractContextManager[None]], alone: bool) -> Value:
    """The number of a program that has not started and will not be, as the caller runs it; `NO_PROGRAM` where there is
    none. All threads that run this code come here (one thread where it is `alone`) and get the same; `acting` emits
    what one of them does. The kernel's clusters are of one CTA."""
    place = b.exchanges.take(EXCHANGED)
    response = b.shared_pointer(SharedBuffer(place.offset, _RESPONSE))
    barrier = b.shared_pointer(SharedBuffer(place.offset + _RESPONSE, mbarrier.BYTES))
    tma.fence_async_shared(b)  # what was in the place before
    if not alone:
        b.barrier()
    with acting():
        mbarrier.initialize_here(b, [(barrier, 1)])
        mbarrier.arrive_expecting(b, barrier, _RESPONSE)
        b.call("llvm.nvvm.clusterlaunchcontrol.try_cancel.async.shared", VOID, [response, barrier])
        mbarrier.wait(b, barrier, integer(I32, 0))
        mbarrier.invalidate(b, barrier)
    if not alone:
        b.barrier()
    answer = b.emit(_I128, f"load i128, {response.typed}, align {_RESPONSE}")
    taken = b.call(f"{_QUERY}.is_canceled", I1, [answer])
    index = [b.call(f"{_QUERY}.get_first_ctaid.{axis}", I32, [answer]) for axis in AXES]
    return b.select(taken, number_of(b, index), integer(I64, NO_PROGRAM))
