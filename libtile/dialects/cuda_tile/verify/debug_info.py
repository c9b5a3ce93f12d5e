# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules about debug scopes of locations.

1. A function that has a scope has a subprogram.
2. The subprogram's linkage name is the function's name.
3. Ops of a function without a scope have none.
4. Ops of a function have its subprogram.
5. Globals have no scope.
6. A function's location is not a call site.
7. Scopes and call sites of a function and its ops are nested no deeper than a file of bytecode can say.
"""

from __future__ import annotations

from libtile.bytecode.limits import DEBUG_DEPTH
from libtile.dialects.cuda_tile.forms import CudaTileOp, DebugAttr, DILexicalBlockAttr, DILocAttr, DISubprogramAttr
from libtile.dialects.cuda_tile.verify.report import fail, fail_plain
from libtile.ir.forms import ArrayAttr, Attribute, CallSiteLoc, FusedLoc, NameLoc, Operation
from libtile.ir.places import ops_of


def debug_location(location: Attribute) -> DILocAttr | None:
    """The location with a debug scope that `location` is or leads to: that of the caller, of the first fused one."""
    pending = [location]
    while pending:
        current = pending.pop()
        if isinstance(current, DILocAttr):
            return current
        if isinstance(current, CallSiteLoc):
            pending.append(current.caller)
        elif isinstance(current, NameLoc):
            pending.append(current.location)
        elif isinstance(current, FusedLoc) and isinstance(current.locations, ArrayAttr):
            pending.extend(reversed(current.locations.data))
    return None


def subprogram_of(scope: Attribute) -> DISubprogramAttr | None:
    """The subprogram that a local scope is in."""
    while isinstance(scope, DILexicalBlockAttr):
        scope = scope.scope
    return scope if isinstance(scope, DISubprogramAttr) else None


def nesting(location: Attribute, known: dict[int, int]) -> int:
    """How many records of debug information are in one another in a location; those known by the attributes' identity
    are counted once."""
    stack = [location]
    while stack:
        inner = _records(stack[-1])
        pending = [part for part in inner if id(part) not in known]
        if pending:
            stack += pending
        else:
            top = stack.pop()
            known[id(top)] = isinstance(top, DebugAttr | CallSiteLoc) + max((known[id(p)] for p in inner), default=0)
    return known[id(location)]


def _records(attr: Attribute) -> list[Attribute]:
    if isinstance(attr, CallSiteLoc):
        return [attr.callee, attr.caller]
    return [part for part in attr.data if isinstance(part, DebugAttr)] if isinstance(attr, DebugAttr) else []


def _check_nesting(op: Operation, known: dict[int, int]) -> None:
    if isinstance(op.location, DebugAttr | CallSiteLoc) and nesting(op.location, known) > DEBUG_DEPTH:
        fail_plain(op, f"debug info is nested more than {DEBUG_DEPTH} deep")


def verify_function_scope(op: CudaTileOp) -> None:
    """Rules 1, 2, 6 and 7."""
    _check_nesting(op, {})
    if isinstance(op.location, CallSiteLoc):
        fail(
            op,
            f"invalid function debug info location: {_location_text(op.location)}. "
            "Function location must not be a CallSiteLoc.",
        )
    location = debug_location(op.location)
    if location is None:
        return
    scope, name = location.scope, op.attribute_value("sym_name")
    if not isinstance(scope, DISubprogramAttr):
        fail(
            op,
            f"invalid function debug info scope: {scope}. "
            "Function location must have cuda_tile.di_subprogram debug info scope.",
        )
    if scope.linkage_name != name:
        fail(
            op,
            f'invalid function debug info scope: {scope}. Function name "{name}" does not match '
            f'subprogram scope linkage name "{scope.linkage_name}".',
        )


def _location_text(location: Attribute) -> str:
    from libtile.dialects.cuda_tile.attribute_text import location_text

    return location_text(location)


def verify_body_scopes(op: CudaTileOp) -> None:
    """Rules 3, 4 and 7; the function itself is one of the ops."""
    location = debug_location(op.location)
    expected = subprogram_of(location.scope) if location is not None else None
    checked: dict[int, DISubprogramAttr | None] = {}  # by the scope's identity
    known: dict[int, int] = {}
    right: set[int] = set()  # by the location's identity
    for inner in ops_of(op):
        if id(inner.location) not in right:
            _check_nesting(inner, known)
            _check_scope(inner, expected, checked)
            right.add(id(inner.location))


def _check_scope(op: Operation, expected: DISubprogramAttr | None, checked: dict[int, DISubprogramAttr | None]) -> None:
    location = debug_location(op.location)
    if location is None:
        return
    # Many ops share few scopes: each is followed to its subprogram once.
    key = id(location.scope)
    if key not in checked:
        checked[key] = subprogram_of(location.scope)
    found = checked[key]
    if found is None or found is expected or found == expected:
        return
    if expected is None:
        fail(
            op,
            f"invalid operation debug info scope: {found}. "
            "Operation has debug info scope, but function debug info scope is undefined.",
        )
    fail_plain(
        op,
        f"invalid operation debug info scope: {found}. "
        f"Operation debug info scope does not match function debug info scope: {expected}.",
    )


def verify_module_scopes(module: CudaTileOp) -> None:
    """Rule 5."""
    block = module.regions[0].first_block
    for op in block.ops if block is not None else ():
        if isinstance(op, CudaTileOp) and op.spec.has_trait("function"):
            continue
        location = debug_location(op.location)
        if location is not None:
            fail(op, f"invalid operation debug info scope: {location}. Global variables must not have scope.")
