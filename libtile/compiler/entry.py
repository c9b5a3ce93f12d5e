# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where a module enters the compilation: a Tile IR module at its begin, one of the inner dialects at its own stage.

A module of nv_tileaa or nv_tileas runs through the passes from its stage on, as if those before had made it. What these
leave in a module that comes from Tile IR is made here: the target, and kernels that take numbers and addresses only.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from libtile.asm.module import diagnose
from libtile.codegen.symbols import kernel_problem
from libtile.dialects.cuda_tile.one_module import tile_module_in
from libtile.dialects.nv_tileaa.attributes import ComputeCapabilityAttr, KernelSpecAttr, TargetSpecAttr
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.kernels import TILEAA, TILEAS, kernels_of, launched_parameters, scalar_type, stage_of
from libtile.dialects.nv_tileaa.types import GLOBAL, PtrType
from libtile.dialects.nv_tileas.layout import linear_layout
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.ir.places import ops_of
from libtile.ir.tile_form import type_text
from libtile.layouts import WARP
from libtile.lowering.discardable import is_foreign
from libtile.lowering.errors import unsupported
from libtile.lowering.legality import check
from libtile.lowering.tile_registers import check_inner_registers
from libtile.lowering.tileas.copies.common import HOST_CODE
from libtile.lowering.to_tileas.legality import PIPELINED
from libtile.lowering.to_tileas.legality import STAGE as LAID_OUT
from libtile.support.diagnostics import LoweringError, Severity
from libtile.targets import Target

TARGET_SPEC = "nv_tileaa.target_spec"
EARLIER = {TILEAA: (), TILEAS: (TILEAA,)}
"""By the stage that a module is at, those that it is past: their text cannot be asked for."""
_TOP_LEVEL = ("nv_tileaa.func", "nv_tileaa.global")


def program_of(op: Operation) -> Operation:
    """The program that a loaded file holds: its one `cuda_tile.module`, or a module of the inner dialects.

    DiagnosticError for anything else.
    """
    return op if stage_of(op) is not None else tile_module_in(op)


def entered(module: ModuleOp, stage: str, gpu: Target, emit: str) -> ModuleOp:
    """A copy of a verified module of the inner dialects as the passes behind its stage want it.

    LoweringError, with the place in the source, for what cannot stand in a program at that stage, for a module of
    another target, and for the text of a stage that the module is past.
    """
    if emit in EARLIER[stage]:
        first = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
        raise unsupported(first, f"is in nv_{stage} already, and cannot be emitted as nv_{emit}", gpu.name)
    _check_attributes(module, gpu)
    _check_target(module, gpu)
    stated = _stated(module)
    for op in module.body.block.ops:
        if stage == TILEAS and isinstance(op, ModuleOp) and HOST_CODE in op.attributes:
            continue
        if op.name not in _TOP_LEVEL:
            raise unsupported(op, f"cannot stand beside functions of nv_{stage} in a module that is compiled", gpu.name)
        if stage == TILEAS and isinstance(op, FuncOp) and not op.is_entry:
            raise unsupported(op, "is no kernel, and functions are not called in nv_tileas", gpu.name)
    if next(kernels_of(module), None) is None:
        first = next(op for op in module.body.block.ops if isinstance(op, FuncOp))
        raise unsupported(first, "is no kernel (an entry by its kernel_spec), and the module has no other", gpu.name)
    made = module.clone()
    made.attributes.setdefault(TARGET_SPEC, TargetSpecAttr(ComputeCapabilityAttr(gpu.name)))
    for kernel in kernels_of(made):
        _check_kernel(kernel, gpu)
        spec = kernel.kernel_spec
        if spec is not None and spec.target is None:
            kernel.properties["kernel_spec"] = KernelSpecAttr(
                spec.entry, spec.num_warps, spec.num_ctas, spec.occupancy, gpu.name
            )
        if stage == TILEAS:
            _check_warps(kernel, gpu)
        check(LAID_OUT if stage == TILEAS else PIPELINED, kernel, gpu.name, attributes=True)
    _check_sizes(made, gpu)
    if not stated:
        _check_for_target(made, gpu)
    return made


def _check_attributes(module: ModuleOp, gpu: Target) -> None:
    """LoweringError for discardable attributes of the module itself, and of what stands in it beside kernels."""
    for name, attr in module.attributes.items():
        if name == TARGET_SPEC and not isinstance(attr, TargetSpecAttr):
            raise unsupported(
                module, f"has the attribute '{name}' ({attr}), which is an #nv_tileaa.target_spec", gpu.name
            )
        if name != TARGET_SPEC and not is_foreign(name):
            raise unsupported(module, f"has the attribute '{name}' ({attr}), which means nothing of a module", gpu.name)
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.is_entry:
            continue
        table = LAID_OUT if isinstance(op, ModuleOp) else PIPELINED  # what the host runs is in nv_tileas
        for inner in ops_of(op):
            if (found := table.attribute_problem(inner)) is not None:
                raise unsupported(inner, found, gpu.name)


def _check_sizes(module: ModuleOp, gpu: Target) -> None:
    """LoweringError for a tile that no thread could hold its part of, before LLVM is asked for it. Functions are called
    by kernels of as many warps as any has."""
    warps = [kernel.kernel_spec.num_warps for kernel in kernels_of(module) if kernel.kernel_spec is not None]
    for function in module.body.block.ops:
        if isinstance(function, FuncOp):
            spec = function.kernel_spec
            own = function.is_entry and spec is not None
            check_inner_registers(function, spec.num_warps if own and spec is not None else max(warps, default=1), gpu)


def _check_warps(kernel: FuncOp, gpu: Target) -> None:
    """LoweringError for a tile that more warps hold than the kernel has. Agents have warps of their own."""
    spec, ops = kernel.kernel_spec, ops_of(kernel)
    if spec is None or any(isinstance(op, AgentSwitchOp) for op in ops):
        return
    for op in ops:
        for value in op.results:
            layout = linear_layout(value.type)
            warps = 1 if layout is None or WARP not in layout.in_dims else layout.in_size(WARP)
            if warps > spec.num_warps:
                raise unsupported(op, f"gives a tile that {warps} warps hold, of {spec.num_warps}", gpu.name)


def _check_for_target(module: ModuleOp, gpu: Target) -> None:
    """LoweringError for what is valid, but not on this target, of which the module did not say that it is its own."""
    for found in diagnose(module):
        if found.severity is Severity.ERROR:
            where = f"{found.location}: " if found.location is not None else ""
            message = f"{found.message} on {gpu.name}"
            raise LoweringError(f"{where}{message}", found.location, message)


def target_name_of(module: Operation) -> str | None:
    """The target that a module of the inner dialects is for, as the module or its first kernel says; None when neither
    does, and for a module of Tile IR."""
    if stage_of(module) is None:
        return None
    stated = _stated(module)
    return stated[0][1] if stated else None


def _stated(module: Operation) -> list[tuple[Operation, str]]:
    """The targets that a module and its functions name, each with the op that names it."""
    spec = module.attributes.get(TARGET_SPEC)
    found = [(module, spec.capability.gpu_name)] if isinstance(spec, TargetSpecAttr) else []
    for op in module.regions[0].block.ops:
        if isinstance(op, FuncOp):
            if op.kernel_spec is not None and op.kernel_spec.target is not None:
                found.append((op, op.kernel_spec.target))
            if op.compute_capability is not None:
                found.append((op, op.compute_capability.gpu_name))
    return found


def _check_target(module: ModuleOp, gpu: Target) -> None:
    for op, name in _stated(module):
        if name != gpu.name:
            raise unsupported(op, f"is for {name}, and code is asked for", gpu.name)


def _check_kernel(kernel: FuncOp, gpu: Target) -> None:
    """LoweringError for a name that no kernel can have, a kernel without a body, and what no launch can give."""
    name = kernel.sym_name.data
    if problem := kernel_problem(name):
        raise unsupported(kernel, f"has the name {name!r}, which {problem}: no kernel can have it", gpu.name)
    if kernel.body.first_block is None:
        raise unsupported(kernel, "is a kernel without a body", gpu.name)
    for parameter in launched_parameters(kernel):
        type_ = scalar_type(parameter.type)
        what = f"takes a {type_text(parameter.type)} (parameter {parameter.argument})"
        if type_ is None:
            raise unsupported(kernel, f"{what}, and a launch gives scalars, pointers and memrefs", gpu.name)
        if isinstance(type_, PtrType) and type_.space != GLOBAL:
            raise unsupported(kernel, f"{what}, and a launch gives addresses of global memory", gpu.name)
