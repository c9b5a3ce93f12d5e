# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Descriptors that host code makes of a kernel's parameters before its launch (`separate-host-tma`): the kernel names
one by its number, or has it as a hidden argument behind its own (`attach-tma-descriptor-args`).

They are functions of the parameters, so that the kernel makes them here where it takes them: the host's ops run in
place, with the kernel's parameters as theirs.
"""

from __future__ import annotations

from typing import Protocol

from xdsl.ir import BlockArgument, Operation, SSAValue

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.kernels import host_function_of
from libtile.dialects.nv_tileas.tma import GetTmaDescOp, MakeTiledTmaDescOp
from libtile.dialects.nv_tileas.types import TmaDescType
from libtile.interpreter.faults import FaultKind, InterpreterFault
from libtile.interpreter.location import source_location
from libtile.ir.places import ops_of
from libtile.ir.tile_form import integer_of


class Emits(Protocol):
    """What writes a kernel's program, as far as it is asked here: `inner_codegen.InnerEmitter`."""

    names: dict[SSAValue, str]

    def define(self, value: SSAValue) -> str: ...
    def line(self, text: str, op: Operation | None = None) -> None: ...
    def op(self, op: Operation) -> None: ...


def named_descriptor(emitter: Emits, op: Operation) -> None:
    """`get_tma_desc`: the descriptor with a number."""
    assert isinstance(op, GetTmaDescOp)
    kernel: Operation | None = op
    while kernel is not None and not isinstance(kernel, FuncOp):
        kernel = kernel.parent_op()
    number = integer_of(op.tma_index)
    made = _made_by_host(kernel).get(number) if kernel is not None else None
    if made is None or kernel is None:
        problem = f"no host code makes descriptor {number}"
        raise InterpreterFault(FaultKind.UNSUPPORTED, problem, op.name, source_location(op))
    text = _in_place(emitter, kernel, made)
    emitter.line(f"{emitter.define(op.results[0])} = {text}", op)


def hidden_descriptors(emitter: Emits, kernel: FuncOp) -> None:
    """Name the hidden arguments of a kernel, which stand for the host's descriptors in the order of their numbers."""
    hidden = [argument for argument in kernel.body.block.args if isinstance(argument.type, TmaDescType)]
    if not hidden:
        return
    made = [op for _, op in sorted(_made_by_host(kernel).items())]
    if len(hidden) != len(made):
        problem = f"{len(hidden)} descriptors as arguments, and host code for {len(made)}"
        raise InterpreterFault(FaultKind.UNSUPPORTED, problem, kernel.name, source_location(kernel))
    for argument, op in zip(hidden, made, strict=True):
        text = _in_place(emitter, kernel, op)
        emitter.line(f"{emitter.define(argument)} = {text}")


def _made_by_host(kernel: FuncOp) -> dict[int, MakeTiledTmaDescOp]:
    """The descriptors that a kernel's host code makes, by number."""
    host = host_function_of(kernel)
    found = [] if host is None else ops_of(host, MakeTiledTmaDescOp)
    return {integer_of(op.tma_index): op for op in found}


def _in_place(emitter: Emits, kernel: FuncOp, made: MakeTiledTmaDescOp) -> str:
    """Run what a descriptor is made by; its name."""
    needed: dict[Operation, None] = {}

    def need(value: SSAValue) -> None:
        owner = value.owner
        if isinstance(value, BlockArgument):
            emitter.names[value] = emitter.names[kernel.body.block.args[value.index]]
        elif isinstance(owner, Operation) and owner not in needed:
            for operand in owner.operands:
                need(operand)
            needed[owner] = None

    need(made.result)
    for op in needed:
        emitter.op(op)
    return emitter.names[made.result]
