# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`inline-calls`: a kernel calls no function and names no fragment any more; functions that are no kernels are gone.

Layouts are chosen for a kernel as a whole, and a tile has no place in which it could be handed over.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import Operation, SSAValue

from libtile.dialects.nv_tileaa.functions import RESOURCES, CallOp, FuncOp, LaunchFuncOp, PluginOp, find_symbol
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase
from libtile.lowering.errors import unsupported
from libtile.support.records import dataclass

MAX_INLINED = 10_000
"""Calls that may be inlined into one kernel: functions that call others twice grow without end otherwise."""


@dataclass(frozen=True)
class InlineCallsPass(ModulePass):
    """Put the bodies of functions in place of their calls."""

    name = "inline-calls"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in op.body.block.ops if isinstance(f, FuncOp)]
        _show_launched(functions)
        for function in functions:
            if function.is_entry:
                _inline_into(function)
                _check_launches(function)
        kernels = [f for f in functions if f.is_entry]
        named = {name for kernel in kernels for op in ops_of(kernel) for name in _names(op)}
        for function in functions:
            if kernels and not function.is_entry and function.sym_name.data not in named:
                erase(function)


def _names(op: Operation) -> list[str]:
    """The symbols that an op refers to."""
    return [a.root_reference.data for a in op.properties.values() if isinstance(a, SymbolRefAttr)]


def _show_launched(functions: list[FuncOp]) -> None:
    """What launches a kernel leaves the module with the host's functions: the kernel is public from here on."""
    launches = [op for f in functions if not f.is_entry for op in ops_of(f, LaunchFuncOp)]
    launched = {op.kernel.root_reference.data for op in launches}
    for function in functions:
        if function.is_entry and function.sym_name.data in launched:
            function.properties.pop("sym_visibility", None)


def _check_launches(kernel: FuncOp) -> None:
    """LoweringError for a launch in a kernel."""
    spec = kernel.kernel_spec
    for op in ops_of(kernel):
        if isinstance(op, LaunchFuncOp):
            problem = (
                f"launches @{op.kernel.root_reference.data} from a kernel: only host functions launch kernels, as a "
                "launch on the device needs the device runtime of CUDA, which modules of kernels are not linked with"
            )
            raise unsupported(op, problem, spec.target or "" if spec is not None else "")


def _check_fragment(op: PluginOp, callee: FuncOp) -> None:
    """LoweringError for what a fragment needs beside its function."""
    if callee.body.first_block is None:
        problem = f"names the fragment @{callee.sym_name.data}, which has no body: no plugins are loaded"
        raise unsupported(op, problem)
    for name in (*RESOURCES, "layouts"):
        if name in op.properties:
            raise unsupported(op, f"has '{name}', which nobody gives a fragment: it is compiled as part of its kernel")


def _inline_into(kernel: FuncOp) -> None:
    """Inline every call and fragment in a kernel, those in what is inlined as well."""
    callers: dict[Operation, tuple[str, ...]] = {}
    work = ops_of(kernel, CallOp, PluginOp)
    count = 0
    while work:
        call = work.pop()
        name = call.called.root_reference.data
        chain = callers.get(call, ())
        if name in chain:
            raise unsupported(call, f"cannot be compiled: @{name} calls itself")
        callee = find_symbol(call, name)
        assert isinstance(callee, FuncOp)  # as the verifier has it
        if isinstance(call, PluginOp):
            _check_fragment(call, callee)
        if len(callee.body.blocks) != 1:
            raise unsupported(call, f"cannot be compiled: the body of @{name} is not one block")
        count += 1
        if count > MAX_INLINED:
            raise unsupported(call, f"cannot be compiled: the kernel would have more than {MAX_INLINED} calls inlined")
        for op in _inline(call, callee):
            for inner in ops_of(op):
                if isinstance(inner, CallOp | PluginOp):
                    callers[inner] = (*chain, name)
                    work.append(inner)


def _inline(call: CallOp | PluginOp, callee: FuncOp) -> list[Operation]:
    """Put a copy of a function's body in front of a call, and its results in place of the call's."""
    block = callee.body.block
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, call.arguments, strict=True))
    made: list[Operation] = []
    at, last = call.parent, block.last_op
    assert at is not None and last is not None
    for op in block.ops:
        if op is last:
            continue
        copy = op.clone(value_mapper=values)
        at.insert_op_before(copy, call)
        made.append(copy)
    for result, value in zip(call.outputs, last.operands, strict=True):
        result.replace_all_uses_with(values.get(value, value))
    erase(call)
    return made
