# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the TMA passes share: finding functions and descriptors, failing, editing arguments."""

from __future__ import annotations

from typing import NoReturn

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, IntegerAttr, UnitAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects.cuda_tile.locations import source_location
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.kernels import HOST_CODE as HOST_CODE
from libtile.dialects.nv_tileas.tma import GetTmaDescOp, MakeTiledTmaDescOp
from libtile.ir.places import ops_of
from libtile.support.diagnostics import DiagnosticError, error

NUM_DEVICE = "nv_tileas.num-device-tmas"
NUM_HOST = "nv_tileas.num-host-tmas"
GRID_CONSTANT = "cute_nvgpu.grid_constant"
HIDDEN = "nv_tileas.hidden"
OF_DESCRIPTORS = frozenset({GRID_CONSTANT, HIDDEN})
"""What `attach-tma-descriptor-args` says of the parameters that it adds."""


def fail(op: Operation, message: str) -> NoReturn:
    """Raise DiagnosticError at an op, with its name in front of the message."""
    raise DiagnosticError([error(source_location(op.location), f"'{op.name}' op {message}")])


def functions(root: Operation) -> list[FuncOp]:
    """The functions with a body below (or at) an op; no function stands in another."""
    if isinstance(root, FuncOp):
        return [root] if root.body.first_block is not None else []
    return [found for region in root.regions for b in region.blocks for op in b.ops for found in functions(op)]


def descriptors(function: Operation) -> list[MakeTiledTmaDescOp | GetTmaDescOp]:
    """The ops that give a descriptor, in the order of the program."""
    return ops_of(function, MakeTiledTmaDescOp, GetTmaDescOp)


def is_on_device(op: MakeTiledTmaDescOp | GetTmaDescOp) -> bool:
    """Whether the kernel makes the descriptor itself."""
    return isinstance(op, MakeTiledTmaDescOp) and op.on_device is not None


def index_of(op: Operation) -> int | None:
    """The descriptor index of an op; None when it has none."""
    attr = op.properties.get("tmaIdx")
    return attr.value.data if isinstance(attr, IntegerAttr) else None


def count_attribute(function: Operation, name: str) -> int | None:
    """A count of descriptors that is recorded on a function."""
    attr = function.attributes.get(name)
    return attr.value.data if isinstance(attr, IntegerAttr) else None


def set_count(function: Operation, name: str, count: int) -> None:
    function.attributes[name] = IntegerAttr(count, i32)


def append_argument(function: FuncOp, type_: Attribute, *flags: str) -> SSAValue:
    """Add an argument behind the others, with flags as its attributes."""
    block = function.body.block
    inputs, outputs = list(function.function_type.inputs.data), list(function.function_type.outputs.data)
    attributes = [DictionaryAttr(function.argument_attributes(i)) for i in range(len(inputs))]
    attributes.append(DictionaryAttr({flag: UnitAttr() for flag in flags}))
    function.properties["function_type"] = FunctionType.from_lists([*inputs, type_], outputs)
    function.properties["arg_attrs"] = ArrayAttr(attributes)
    return block.insert_arg(type_, len(block.args))
