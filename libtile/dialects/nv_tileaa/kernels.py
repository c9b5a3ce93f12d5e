# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of the inner dialects as programs: at which stage of a compilation they are, their kernels, and what a launch
gives a kernel.

A launch gives numbers and addresses. A parameter that is a scalar, or a tile of rank 0, is one of them; a memref is
several: its base address, then the sizes and then the strides that its type leaves open, each an `index`, in the order
in which `nv_tileaa.make_memref` takes them. No other type can be the parameter of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IndexType, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType, PtrType
from libtile.ir.places import ops_of
from libtile.ir.tile_form import layout_of, type_text
from libtile.support.records import dataclass

TILEAA, TILEAS = "tileaa", "tileas"
"""The stages of a compilation at which its module is in one of the inner dialects."""

HOST_CODE = "nv_tileas.host-code"
"""On what runs on the host before a launch: a module beside a kernel, and its function that makes descriptors."""


def stage_of(module: Operation) -> str | None:
    """The stage that a module is at: `tileas` when an op of nv_tileas, a buffer or a tile with a layout is in it,
    `tileaa` for any other with functions of nv_tileaa; None for a module without such functions. Agents and turns of
    pipelines whose stages hold tiles are what `lower-tileaa-queues` makes of nv_tileaa, which it may be as well."""
    if not isinstance(module, ModuleOp) or not any(isinstance(op, FuncOp) for op in module.body.block.ops):
        return None
    return TILEAS if any(_is_operational(op) for op in ops_of(module)) else TILEAA


_TURNS, _BUFFER, _DESCRIPTOR = "nv_tileas.async.pipeline.", "nv_tileas.buffer", "nv_tileas.tma_desc"


def _is_operational(op: Operation) -> bool:
    if op.name.startswith("nv_tileas.") and not op.name.startswith(_TURNS):
        return True
    arguments = (a for region in op.regions for block in region.blocks for a in block.args)
    return any(layout_of(v.type) is not None or v.type.name == _BUFFER for v in (*op.results, *arguments))


def kernels_of(module: Operation) -> Iterator[FuncOp]:
    """The kernels of a module, in order."""
    return (op for op in ops_of(module, FuncOp) if op.is_entry)


def host_module_name(kernel: FuncOp) -> str:
    """The name of the module with a kernel's host code."""
    return f"{kernel.sym_name.data}_host"


def host_function_of(kernel: FuncOp) -> FuncOp | None:
    """The function that makes the descriptors of a kernel on the host, of its parameters; None where there is none."""
    for op in ops_of(kernel.get_toplevel_object()):
        name = op.sym_name if isinstance(op, ModuleOp) and HOST_CODE in op.attributes else None
        if name is not None and name.data == host_module_name(kernel):
            return next(iter(ops_of(op, FuncOp)), None)
    return None


@dataclass(frozen=True)
class FlatParameter:
    """One number or address that a launch gives a kernel. `argument` is the function's argument that it is, or is part
    of; `part` says what of a memref it is: "base", "size" or "stride" (empty for an argument that is no memref)."""

    argument: int
    type: Attribute
    name: str = ""
    part: str = ""

    @property
    def text(self) -> str:
        """The type as it is written; a tile of rank 0 like the scalar that it holds."""
        return type_text(scalar_type(self.type) or self.type)


def scalar_type(type_: Attribute) -> Attribute | None:
    """The type of the number or address that a parameter of a type is; None for what no launch can give."""
    if isinstance(type_, TensorType):
        return None if type_.get_shape() else scalar_type(type_.element_type)
    return type_ if isinstance(type_, PtrType | IndexType) or type_ in NUMBER_NAMES else None


def flat_parameters(function: FuncOp) -> list[FlatParameter]:
    """What a launch gives a kernel, in order. A type that no launch can give is listed as it is."""
    found: list[FlatParameter] = []
    block = function.body.first_block
    for number, type_ in enumerate(function.function_type.inputs.data):
        hint = block.args[number].name_hint if block is not None else None
        name = hint or f"arg{number}"
        if not isinstance(type_, MemRefType):
            found.append(FlatParameter(number, type_, hint or ""))
            continue
        found.append(FlatParameter(number, PtrType(type_.element_type, type_.space), name, "base"))
        for part, numbers in (("size", type_.shape), ("stride", type_.strides)):
            found += [
                FlatParameter(number, IndexType(), f"{name}_{part}{dim}", part)
                for dim, value in enumerate(numbers)
                if value == DYNAMIC
            ]
    return found


def launched_parameters(function: FuncOp) -> list[FlatParameter]:
    """`flat_parameters` without descriptors, which a launch makes of the others."""
    return [parameter for parameter in flat_parameters(function) if parameter.type.name != _DESCRIPTOR]
