# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module as one of MLIR's, and back: over MLIR's own parser and printer, in the generic form."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr

from libtile.asm.module import Module, op_of, unwrapped, verify
from libtile.asm.reading import parse
from libtile.asm.recursion import room_for_nesting
from libtile.mlir.bindings import current_context, errors_of, message_of, require_bindings
from libtile.mlir.reading import MlirParser
from libtile.mlir.spelling import MlirPrinter
from libtile.mlir.structure import from_structure, is_structure, to_structure
from libtile.spec import Version
from libtile.support.errors import LibtileError
from libtile.support.signatures import checked

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation

FORMS = ("exact", "structural")

VERSION = "libtile.version"
"""The attribute that says which bytecode a module was read from: `libtile.write` writes no older one."""

PASSES = ("canonicalize", "cse", "inline", "loop-invariant-code-motion", "sccp", "symbol-dce")
"""MLIR's passes that leave unregistered ops as they are, and were tried on the structural form of every kernel."""


@checked
def to_mlir(module: Module | Operation, ir: Any, form: str = "exact") -> Any:
    """The module as an `ir.Module` of MLIR, verified by it.

    `module` is of any of the three dialects, `ir` the module of that name of MLIR's Python bindings (`jaxlib.mlir.ir`,
    `iree.compiler.ir`, `mlir.ir`). The result lives in the context that is entered (`with context:`), which has to
    allow unregistered dialects, or in one of its own, in which every dialect is loaded that the bindings bring.
    `form` is "exact", in which each op stays what it is, or "structural", in which MLIR's passes (`PASSES`) have
    something to work on: see `libtile.mlir.structure`. Raises LibtileError for another form, and for what MLIR refuses.
    """
    if form not in FORMS:
        raise LibtileError(f"unknown form '{form}', expected one of {', '.join(FORMS)}")
    op = op_of(module)
    context = current_context(ir)
    with room_for_nesting():
        text = MlirPrinter(to_structure(op) if form == "structural" else op).text()
    try:
        made = ir.Module.parse(text, context)
    except errors_of(ir) as error:
        raise LibtileError(f"MLIR refuses the module: {message_of(error)}") from None
    if isinstance(module, Module) and module.version is not None:
        made.operation.attributes[VERSION] = ir.StringAttr.get(str(module.version), made.context)
    return made


def from_mlir(module: Any, ir: Any) -> Module:
    """The Module that an `ir.Module` of MLIR holds, in either form of `to_mlir`.

    The structural form is verified when it is back, as MLIR's passes know nothing of our rules; the exact one is what
    it was, and is not: see `libtile.verify`. Raises DiagnosticError for what is no module of our dialects, or breaks a
    rule of theirs, LibtileError for an op that stands for none of ours.
    """
    require_bindings(ir)
    if not isinstance(module, ir.Module):
        raise LibtileError(f"expected an ir.Module of {ir.__name__}, but got {type(module).__name__}")
    text = module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)
    op = parse(text, "mlir", allow_unregistered=True, reader=MlirParser)
    version = _version(op.attributes.pop(VERSION, None))
    if not is_structure(op):
        return Module(unwrapped(op), version)
    found = Module(from_structure(op), version)
    verify(found)
    return found


def _version(attribute: Attribute | None) -> Version | None:
    """The version of bytecode that an attribute names. LibtileError for what is none."""
    if attribute is None:
        return None
    try:
        return Version.parse(attribute.data if isinstance(attribute, StringAttr) else str(attribute))
    except ValueError:
        raise LibtileError(f"{VERSION} is no version of the bytecode: {attribute}") from None


@checked
def run_passes(module: Module | Operation, ir: Any, passes: Sequence[str] = ("canonicalize", "cse")) -> Module:
    """The module behind passes of MLIR (of `PASSES`), which run on its structural form, one after the other.

    Raises LibtileError for another pass, or one that these bindings do not have, and when one fails.
    """
    require_bindings(ir)
    manager = import_module(f"{ir.__name__.rpartition('.')[0]}.passmanager").PassManager
    for name in passes:
        if name not in PASSES:
            raise LibtileError(f"'{name}' is no pass that leaves Tile IR alone; there are {', '.join(PASSES)}")
    made = to_mlir(module, ir, "structural")
    try:
        with made.context:
            manager.parse(f"builtin.module({','.join(passes)})").run(made.operation)
    except errors_of(ir) as error:
        raise LibtileError(f"MLIR's passes fail: {message_of(error)}") from None
    return from_mlir(made, ir)
