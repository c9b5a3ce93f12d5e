# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The grid: which program this is, how many there are, and programs that were taken from others."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr

from libtile.codegen.builder import AXES, integer
from libtile.codegen.llvm_types import I32, I64
from libtile.dialects.nv_tileaa.functions import (
    CancelNextProgramIdOp,
    FuncOp,
    GetCtaRankOp,
    GetNumProgramsOp,
    GetProgramIdOp,
    IsValidProgramIdOp,
)
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileaa.types import ProgramIdType
from libtile.ir.places import ops_of
from libtile.lowering.discardable import LONG_PROGRAMS, PROGRAMS_TOGETHER
from libtile.lowering.to_llvm.agents import acting_thread
from libtile.lowering.to_llvm.emitter import Emitter, exchanges_of, rule


@rule(GetProgramIdOp)
def _program(e: Emitter, op: GetProgramIdOp) -> None:
    axis = op.axis.value.data
    if isinstance(op.result.type, ProgramIdType):
        from libtile.codegen import launch_control

        e.bind(op.result, launch_control.own_number(e.b))
    elif op.program is not None:
        from libtile.codegen import launch_control

        e.bind_count(op.result, launch_control.index_of(e.b, e.scalar(op.program), axis))
    else:
        e.bind_count(op.result, e.b.block_id(AXES[axis]))


@rule(GetNumProgramsOp)
def _programs(e: Emitter, op: GetNumProgramsOp) -> None:
    e.bind_count(op.result, e.b.num_blocks(AXES[op.axis.value.data]))


@rule(GetCtaRankOp)
def _rank(e: Emitter, op: GetCtaRankOp) -> None:
    e.bind_count(op.result, e.b.cta_rank() if e.b.target.has("cluster") else integer(I32, 0))


def begin_programs(e: Emitter, function: FuncOp) -> None:
    """Stands in front of a kernel: its blocks run programs in an order that the kernel states, and where it takes
    programs over, and hardware hands out none, a counter does."""
    together, long = function.attributes.get(PROGRAMS_TOGETHER), function.attributes.get(LONG_PROGRAMS)
    if isinstance(together, IntegerAttr):
        from libtile.codegen import program_order

        if long is not None:
            axis, last = integers_of(long)
            e.b.program = program_order.longest_first(e.b, axis, last=bool(last), together=together.value.data)
        else:
            e.b.program = program_order.grouped(e.b, together.value.data)
    if e.b.target.has("launch_control"):
        return
    takes = next(iter(ops_of(function, CancelNextProgramIdOp)), None)
    if takes is not None:
        from libtile.codegen import program_counter

        program_counter.begin(e.b, exchanges_of(takes).places[0], lambda: acting_thread(e))


def end_programs(e: Emitter) -> None:
    """Stands behind a kernel."""
    if e.b.programs is not None:
        from libtile.codegen import program_counter

        program_counter.end(e.b, lambda: acting_thread(e))


@rule(CancelNextProgramIdOp)
def _cancel_next(e: Emitter, op: CancelNextProgramIdOp) -> None:
    from libtile.codegen import launch_control, program_counter

    next_program = launch_control.cancel_next if e.b.programs is None else program_counter.take
    e.bind(op.result, next_program(e.b, lambda: acting_thread(e), e.one_thread))


@rule(IsValidProgramIdOp)
def _is_valid(e: Emitter, op: IsValidProgramIdOp) -> None:
    valid = e.b.compare("sge", e.scalar(op.program_id), integer(I64, 0))
    e.bind_one(op.result, valid)
