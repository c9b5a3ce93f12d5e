# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The grid: which program this is, how many there are, and programs that were taken from others."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType, TensorType
from xdsl.ir import SSAValue

from libtile.codegen import launch_control
from libtile.codegen.builder import Value, integer
from libtile.codegen.launch_control import AXES, NO_PROGRAM
from libtile.codegen.llvm_types import I32, I64, IntType
from libtile.dialects.nv_tileaa.functions import (
    CancelNextProgramIdOp,
    GetCtaRankOp,
    GetNumProgramsOp,
    GetProgramIdOp,
    IsValidProgramIdOp,
)
from libtile.dialects.nv_tileaa.types import ProgramIdType
from libtile.lowering.to_llvm.agents import acting_thread
from libtile.lowering.to_llvm.emitter import Emitter, rule


@rule(GetProgramIdOp)
def _program(e: Emitter, op: GetProgramIdOp) -> None:
    axis = op.axis.value.data
    if isinstance(op.result.type, ProgramIdType):
        e.bind(op.result, launch_control.own_number(e.b))
    elif op.program is not None:
        _bind(e, op.result, launch_control.index_of(e.b, e.scalar(op.program), axis))
    else:
        _bind(e, op.result, e.b.block_id(AXES[axis]))


@rule(GetNumProgramsOp)
def _programs(e: Emitter, op: GetNumProgramsOp) -> None:
    _bind(e, op.result, e.b.num_blocks(AXES[op.axis.value.data]))


@rule(GetCtaRankOp)
def _rank(e: Emitter, op: GetCtaRankOp) -> None:
    _bind(e, op.result, e.b.cta_rank() if e.b.target.has("cluster") else integer(I32, 0))


def _bind(e: Emitter, result: SSAValue, value: Value) -> None:
    """A number of 32 bits as a result of an integer type, or a tile of one."""
    tile, type_ = isinstance(result.type, TensorType), result.type
    if isinstance(type_, TensorType):
        type_ = type_.element_type
    if isinstance(type_, IntegerType) and type_.width.data < I32.bits:
        value = e.b.cast("trunc", value, IntType(type_.width.data))
    elif isinstance(type_, IndexType) or (isinstance(type_, IntegerType) and type_.width.data > I32.bits):
        value = e.b.cast("zext", value, I64)
    e.bind(result, e.as_tile(value, type_) if tile else value)


@rule(CancelNextProgramIdOp)
def _cancel_next(e: Emitter, op: CancelNextProgramIdOp) -> None:
    """Without launch control no program is handed over: a launch has a tile block for each, which runs it."""
    if not e.b.target.has("launch_control"):
        e.bind(op.result, integer(I64, NO_PROGRAM))
        return
    e.bind(op.result, launch_control.cancel_next(e.b, lambda: acting_thread(e), e.one_thread))


@rule(IsValidProgramIdOp)
def _is_valid(e: Emitter, op: IsValidProgramIdOp) -> None:
    valid = e.b.compare("sge", e.scalar(op.program_id), integer(I64, 0))
    type_ = op.result.type
    e.bind(op.result, e.as_tile(valid, type_.element_type) if isinstance(type_, TensorType) else valid)
