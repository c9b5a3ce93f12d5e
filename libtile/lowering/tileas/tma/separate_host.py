# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`separate-host-tma`: descriptors that the host can make move to a host module beside the kernel.

For a kernel with such descriptors a module `NAME_host` is made, with a function of the kernel's arguments that makes
all of them; the kernel refers to them by index. What a descriptor depends on is copied along, so it may consist only of
the kernel's arguments and of ops that a host function can run: no control flow, no float functions.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from libtile.dialects import scf
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.kernels import host_module_name
from libtile.dialects.nv_tileaa.pointers import BlockTileOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.target import gpu_name_of
from libtile.dialects.nv_tileaa.terminators import ReturnOp
from libtile.dialects.nv_tileas.tma import GetTmaDescOp, MakeTiledTmaDescOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase
from libtile.lowering.tileas.copies.common import HOST_CODE, descriptors, fail, functions, index_of, is_on_device
from libtile.support.records import dataclass

MAX_DEVICE_DESCRIPTORS = 32
"""How many descriptors a kernel may make itself: each takes 128 bytes of the launch's scratch memory."""


@dataclass(frozen=True)
class SeparateHostTmaPass(ModulePass):
    """Move descriptor construction to host modules. A kernel may make at most so many descriptors itself."""

    name = "separate-host-tma"

    max_device_descriptors: int = MAX_DEVICE_DESCRIPTORS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if function.is_entry and HOST_CODE not in function.attributes:
                _separate(op, function, self.max_device_descriptors)
        for function in functions(op):
            if HOST_CODE not in function.attributes:
                _check_gone(function)


def _separate(module: ModuleOp, kernel: FuncOp, most: int) -> None:
    made = [op for op in descriptors(kernel) if isinstance(op, MakeTiledTmaDescOp)]
    if sum(is_on_device(op) for op in made) > most:
        fail(kernel, "too many device TMA descriptors")
    host = [op for op in made if not is_on_device(op)]
    if not host:
        return
    if gpu_name_of(kernel) is None:
        fail(kernel, "expects a compute_capability on a kernel with host TMA descriptors")
    block = Block(arg_types=[a.type for a in kernel.body.block.args])
    copies: dict[SSAValue, SSAValue] = dict(zip(kernel.body.block.args, block.args))
    for op in host:
        if index_of(op) is None:
            fail(op, "not find tmaIdx.")
        _copy(op, kernel, block, copies)
        named = GetTmaDescOp.make(results=[op.result.type], tmaIdx=index_of(op), location=op.location)
        parent = op.parent
        assert parent is not None  # found by a walk of the kernel
        parent.insert_op_before(named, op)
        op.result.replace_all_uses_with(named.results[0])
        erase(op)
    _erase_unused(kernel)
    block.add_op(ReturnOp.make())
    _add_host_module(module, kernel, block)


def _check_gone(function: FuncOp) -> None:
    """No descriptor of the host's is left: one in a function that is no kernel has no host side."""
    for left in descriptors(function):
        if isinstance(left, MakeTiledTmaDescOp) and not is_on_device(left):
            fail(left, "expect lower MakeTiledTMADescOp")


def _add_host_module(module: ModuleOp, kernel: FuncOp, block: Block) -> None:
    name = kernel.sym_name.data
    function = FuncOp.of(f"{name}_descriptors", [a.type for a in block.args], body=Region(block))
    function.attributes[HOST_CODE] = UnitAttr()
    function.location = kernel.location
    host = ModuleOp([function], {HOST_CODE: UnitAttr()}, sym_name=StringAttr(host_module_name(kernel)))
    module.body.block.add_op(host)


def _copy(op: Operation, kernel: FuncOp, block: Block, copies: dict[SSAValue, SSAValue]) -> None:
    """Copy an op, and before it what it depends on, to the end of a block. DiagnosticError for what cannot be there."""
    stack: list[tuple[Operation, bool]] = [(op, False)]
    while stack:
        at, ready = stack.pop()
        if at.results and at.results[0] in copies:
            continue
        _check_captured(at, op)
        if not ready:
            stack.append((at, True))
            for operand in at.operands:
                if operand not in copies:
                    stack.append((_owner(operand, op, kernel), False))
            continue
        copy = at.clone(value_mapper=copies)
        copy.location = at.location
        block.add_op(copy)
        for old, new in zip(at.results, copy.results):
            copies[old] = new


def _owner(value: SSAValue, op: Operation, kernel: FuncOp) -> Operation:
    """The op that makes a value that a descriptor depends on."""
    owner = value.owner
    if isinstance(owner, Operation):
        return owner
    parent = owner.parent_op()
    if isinstance(value, BlockArgument) and parent is not None and parent.dialect_name() == "scf":
        if not isinstance(parent, scf.ForOp) or value.index > 0:
            name = value.name_hint or f"argument {value.index}"
            fail(
                op,
                f"values depended by MakeTiledTMADescOp are not supportedbecause {name} matches more than 1 captured "
                "values.",
            )
        fail(op, "expected MakeTiledTMADescOp not depends on scf")
    fail(op, f"depends on a value that is no argument of '{kernel.sym_name.data}'")


def _check_captured(at: Operation, op: Operation) -> None:
    dialect = at.dialect_name()
    if dialect == "math":
        fail(op, "math dialect not suppourt in separateHostTMA pass in the moment.")
    if at.regions or dialect == "scf":
        fail(op, "expected MakeTiledTMADescOp not depends on scf")


def _erase_unused(kernel: FuncOp) -> None:
    """Erase views and memrefs that only the descriptors used."""
    for op in reversed(ops_of(kernel.body)):
        if isinstance(op, MakeMemRefOp | BlockTileOp) and not any(list(r.uses) for r in op.results):
            erase(op)
