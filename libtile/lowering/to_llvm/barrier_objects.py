# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Barrier objects that a program makes itself. One thread acts for all that run an op, and counts as one arrival."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from libtile.atoms.tma import MAX_BYTES
from libtile.codegen import mbarrier
from libtile.codegen.builder import SharedBuffer, Value, integer
from libtile.codegen.llvm_types import I32
from libtile.dialects.nv_tileas.tma import CreateMBarrierOp, InvalidateMBarrierOp, MBarrierArriveOp, MBarrierWaitOp
from libtile.ir.tile_form import TileOp, integer_of
from libtile.lowering.errors import unsupported
from libtile.lowering.tileas.memory.storage_lives import OFFSET
from libtile.lowering.to_llvm.agents import acting_thread
from libtile.lowering.to_llvm.emitter import Emitter, rule

MAX_ARRIVALS = (1 << 20) - 1
"""In a phase (PTX ISA, "mbarrier.init")."""


@rule(CreateMBarrierOp)
def _create(e: Emitter, op: CreateMBarrierOp) -> None:
    b, place, arrivals = e.b, op.attributes.get(OFFSET), integer_of(op.arrivals, 1)
    if not b.target.has("mbarrier"):
        raise unsupported(op, "makes a barrier object", b.target.name)
    if not isinstance(place, IntegerAttr):
        raise unsupported(op, f"has no '{OFFSET}', which tileas-allocate-shared-memory gives it", b.target.name)
    if arrivals > MAX_ARRIVALS:
        raise unsupported(op, f"counts {arrivals} arrivals, of which a phase has {MAX_ARRIVALS} at most", b.target.name)
    if e.one_thread:
        raise unsupported(op, "is run by one thread of an agent, which its other threads do not meet", b.target.name)
    pointer = b.shared_pointer(SharedBuffer(place.value.data, mbarrier.BYTES))
    with acting_thread(e):
        mbarrier.initialize_here(b, [(pointer, arrivals)])
    b.barrier()
    e.bind(op.result, pointer)


def held_barrier(e: Emitter, op: TileOp, value: SSAValue) -> Value:
    """Where a barrier object lies. LoweringError for one that is not known by the op that makes it."""
    held = e.held.get(value)
    if not isinstance(value.owner, CreateMBarrierOp) or not isinstance(held, Value):
        raise unsupported(op, "has a barrier object that control flow hands on", e.b.target.name)
    return held


@rule(MBarrierArriveOp)
def _arrive(e: Emitter, op: MBarrierArriveOp) -> None:
    pointer, expected = held_barrier(e, op, op.mbarrier), integer_of(op.tx_count, 0)
    if expected and not e.b.target.has("tma"):
        raise unsupported(op, f"expects {expected} bytes, which barrier objects do not count", e.b.target.name)
    if expected >= MAX_BYTES:
        problem = f"expects {expected} bytes, and a phase of a barrier object has less than {MAX_BYTES}"
        raise unsupported(op, problem, e.b.target.name)
    with acting_thread(e):
        if expected:
            mbarrier.arrive_expecting(e.b, pointer, expected)
        else:
            mbarrier.arrive(e.b, pointer)


@rule(MBarrierWaitOp)
def _wait(e: Emitter, op: MBarrierWaitOp) -> None:
    pointer, parity = held_barrier(e, op, op.mbarrier), integer(I32, 0)
    if op.parity is not None:
        given = e.scalar(op.parity)
        bits = given.type.bits
        if bits != I32.bits:
            given = e.b.cast("trunc" if bits > I32.bits else "zext", given, I32)
        parity = e.b.binary("and", given, integer(I32, 1))
    mbarrier.wait(e.b, pointer, parity)


@rule(InvalidateMBarrierOp)
def _invalidate(e: Emitter, op: InvalidateMBarrierOp) -> None:
    with acting_thread(e):
        mbarrier.invalidate(e.b, held_barrier(e, op, op.mbarrier))
