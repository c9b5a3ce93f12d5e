# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`flatten-kernel-parameters`: a kernel that takes memrefs takes their addresses, sizes and strides instead.

What a launch gives is numbers and addresses (`libtile.dialects.nv_tileaa.kernels`). An op `nv_tileaa.make_memref` at
the begin of the kernel makes the memref of them again; kernels that come from Tile IR have no such parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.ir import Block, BlockArgument, Operation

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.kernels import FlatParameter, flat_parameters, kernels_of
from libtile.dialects.nv_tileaa.pointers import MakeMemRefOp
from libtile.dialects.nv_tileaa.types import MemRefType
from libtile.ir.locations import set_location
from libtile.ir.module_pass import ModulePass
from libtile.support.records import dataclass


@dataclass(frozen=True)
class FlattenKernelParametersPass(ModulePass):
    """Replace the memrefs that kernels take by what a launch can give."""

    name = "flatten-kernel-parameters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in kernels_of(op):
            flatten(kernel)


def flatten(kernel: FuncOp) -> None:
    """Replace the memrefs that a kernel takes, in place."""
    block = kernel.body.first_block
    if block is None or not any(isinstance(a.type, MemRefType) for a in block.args):
        return
    parts: dict[int, list[FlatParameter]] = {}
    for parameter in flat_parameters(kernel):
        parts.setdefault(parameter.argument, []).append(parameter)
    attributes: list[DictionaryAttr] = []
    first = block.first_op
    for number, argument in enumerate(list(block.args)):
        own = DictionaryAttr(kernel.argument_attributes(number))
        attributes += [own, *[DictionaryAttr({})] * (len(parts[number]) - 1)]
        if isinstance(argument.type, MemRefType):
            _replace(block, argument, argument.type, parts[number], first)
    kernel.properties["function_type"] = FunctionType.from_lists([a.type for a in block.args], [])
    if kernel.arg_attrs is not None:
        kernel.properties["arg_attrs"] = ArrayAttr(attributes)


def _replace(
    block: Block, argument: BlockArgument, type_: MemRefType, parts: Sequence[FlatParameter], first: Operation | None
) -> None:
    """Put new arguments in place of one, and the op that makes a memref of them in front of the first op."""
    made: dict[str, list[BlockArgument]] = {"base": [], "size": [], "stride": []}
    for part in parts:
        new = block.insert_arg(part.type, argument.index)
        new.name_hint = part.name
        set_location(new, argument.location)
        made[part.part].append(new)
    (base,) = made["base"]
    memref = MakeMemRefOp.make(base, None, made["size"], made["stride"], results=[type_], location=argument.location)
    memref.result.name_hint = argument.name_hint
    if first is None:
        block.add_op(memref)
    else:
        block.insert_op_before(memref, first)
    argument.replace_all_uses_with(memref.result)
    block.erase_arg(argument)
