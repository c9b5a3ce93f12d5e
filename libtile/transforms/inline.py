# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`inline`: calls of functions that the module defines become the functions' bodies.

A kernel cannot be called, and what a program calls in a released version is defined elsewhere: that stays. A function
is copied in place of a call where its only `return` ends it; one that calls itself stays.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Operation

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op, replace_op


@dataclass(frozen=True)
class InlinePass(ModulePass):
    """Copy the bodies of functions of the module in place of their calls."""

    name = "inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        inline_calls(op)


def inline_calls(root: Operation) -> bool:
    """Copy bodies in every module in `root` (or in `root` itself, when it is one); returns whether any was copied."""
    modules = [op for op in ops_of(root, CudaTileOp) if is_op(op, "module")]
    changed = [_in_module(module) for module in modules]
    return True in changed


def _in_module(module: CudaTileOp) -> bool:
    functions = {
        op.attribute_value("sym_name"): op
        for op in module.regions[0].blocks[0].ops
        if isinstance(op, CudaTileOp) and is_op(op, "testing$func")
    }
    recursive = _recursive({name: set(map(_callee, _calls(op))) for name, op in functions.items()})
    pending, changed = _calls(module), False
    while pending:
        call = pending.pop()
        function = functions.get(_callee(call))
        reason = "the module does not define what is called"
        if function is not None:
            found = _reason_against(call, function)
            reason = "the function calls itself" if _callee(call) in recursive else found or ""
        if function is None or reason:
            reporting.missed(call, "Inline", "Call stays", reason)
            continue
        reporting.done(call, "Inline", "Call made the body of the function", Callee=_callee(call))
        pending += _copy(call, function)
        statistics.count("calls inlined")
        changed = True
    return changed


def _calls(root: Operation) -> list[CudaTileOp]:
    return [op for op in ops_of(root, CudaTileOp) if is_op(op, "preview$call")]


def _callee(call: CudaTileOp) -> str:
    name = call.properties["callee"]
    assert isinstance(name, SymbolRefAttr)  # as declared
    return name.string_value()


def _recursive(callees: dict[str, set[str]]) -> set[str]:
    """The functions that call themselves, directly or through others."""
    found = set()
    for name in callees:
        seen: set[str] = set()
        pending = list(callees[name])
        while pending:
            callee = pending.pop()
            if callee not in seen:
                seen.add(callee)
                pending += callees.get(callee, ())
        if name in seen:
            found.add(name)
    return found


def _reason_against(call: CudaTileOp, function: CudaTileOp) -> str | None:
    """Why a function is not copied in place of a call; None where it may be."""
    constants, block = call.properties.get("const_args"), function.regions[0].blocks[0]
    if isinstance(constants, ArrayAttr) and constants.data:
        return "it has constant arguments, and the function has no parameters for them"
    if [v.type for v in block.args] != [v.type for v in call.operands]:
        return "the function takes arguments of other types"
    end = block.last_op
    returns = [op for op in ops_of(function) if is_op(op, "return")]
    if end is None or returns != [end]:
        return "the function returns early"
    if [v.type for v in end.operands] != [v.type for v in call.results]:
        return "the function gives results of other types"
    return None


def _copy(call: CudaTileOp, function: CudaTileOp) -> list[CudaTileOp]:
    """Put a copy of the body in the call's place; returns the calls in it."""
    region = function.regions[0].clone()
    body, block = region.blocks[0], call.parent_block()
    assert block is not None and body.last_op is not None
    for argument, value in zip(body.args, call.operands):
        argument.replace_all_uses_with(value)
    end = body.last_op
    values = list(end.operands)
    moved = [op for op in body.ops if op is not end]
    for op in moved:
        op.detach()
        block.insert_op_before(op, call)
    end.detach()
    end.erase()
    replace_op(call, values)
    return [inner for op in moved for inner in _calls(op)]
