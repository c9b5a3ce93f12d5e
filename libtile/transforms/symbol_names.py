# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Renaming a function together with its debug information."""

from __future__ import annotations

from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    DictionaryAttr,
    FusedLoc,
    ModuleOp,
    NameLoc,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Operation

from libtile.dialects.cuda_tile.attributes import DebugAttr, DILocAttr, DISubprogramAttr
from libtile.dialects.cuda_tile.locations import call_site_loc, source_location
from libtile.ir.locations import set_location
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.diagnostics import DiagnosticError, error
from libtile.support.records import dataclass
from libtile.transforms import reporting


@dataclass(frozen=True)
class UpdateSymbolNamePass(ModulePass):
    """Rename a symbol, and the linkage name of the debug subprogram that its location is in.

    `symbol_to_rename` and `scope` are paths such as `kernels::main`; `scope` (default: the whole module) bounds where
    debug information is rewritten and has to enclose the symbol.
    """

    name = "test-debuginfo-update-symbol-name"

    symbol_to_rename: str
    new_name: str
    scope: str = ""
    update_uses: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scope = _lookup(op, self.scope) if self.scope else op
        symbol = _lookup(op, self.symbol_to_rename)
        update_symbol_name(symbol, self.new_name, scope, self.update_uses)


def _symbol_name(op: Operation) -> str | None:
    attr = op.properties.get("sym_name") or op.attributes.get("sym_name")
    return attr.data if isinstance(attr, StringAttr) else None


def _lookup(root: Operation, path: str) -> Operation:
    """The op that a path of symbol names leads to; DiagnosticError when there is none."""
    op = root
    for part in path.split("::"):
        children = (child for region in op.regions for block in region.blocks for child in block.ops)
        found = next((child for child in children if _symbol_name(child) == part), None)
        if found is None:
            message = f"could not find symbol op with name '@{'::@'.join(path.split('::'))}'"
            raise DiagnosticError([error(source_location(root.location), message)])
        op = found
    return op


def update_symbol_name(symbol: Operation, new_name: str, scope: Operation, update_uses: bool = False) -> None:
    """Rename `symbol`; within `scope`, its debug subprogram gets the new name as linkage name.

    With `update_uses`, references to the symbol in its symbol table follow. Raises DiagnosticError when `scope` does
    not enclose the symbol, or when the table has another symbol of the new name.
    """
    parent = symbol.parent_op()
    if parent is not None and not scope.is_ancestor(symbol):
        problem = error(
            source_location(symbol.location),
            "attempted to update symbol names in a scope that did not enclose the symbol itself",
        )
        raise DiagnosticError([problem.note(source_location(scope.location), "scope defined here")])
    if update_uses and parent is not None:
        _rename_uses(symbol, new_name, parent)
    reporting.done(symbol, "DebugInfo", "Symbol got another name", Symbol=_symbol_name(symbol), Name=new_name)
    statistics.count("symbols renamed")
    symbol.properties["sym_name"] = StringAttr(new_name)
    location: Attribute = symbol.location
    if isinstance(location, DILocAttr) and isinstance(location.scope, DISubprogramAttr):
        old = location.scope
        values: list[Any] = [new_name if name == "linkage_name" else v for name, v in zip(old.fields, old.data)]
        _Replacer(old, DISubprogramAttr(*values)).run(scope)


def _rename_uses(symbol: Operation, new_name: str, table: Operation) -> None:
    old_name = _symbol_name(symbol)
    for op in symbol.parent.ops if symbol.parent is not None else ():
        if op is not symbol and _symbol_name(op) == new_name:
            raise DiagnosticError(
                [error(source_location(symbol.location), f"redefinition of symbol named '{new_name}'")]
            )
    for op in ops_of(table):
        for members in (op.properties, op.attributes):
            for key, attr in members.items():
                if isinstance(attr, SymbolRefAttr) and attr.root_reference.data == old_name:
                    members[key] = SymbolRefAttr(new_name, attr.nested_references)


class _Replacer:
    """Replaces one debug record by another wherever it occurs; equal parts are rewritten once."""

    def __init__(self, old: DISubprogramAttr, new: DISubprogramAttr) -> None:
        self._known: dict[Attribute, Attribute] = {old: new}

    def run(self, scope: Operation) -> None:
        for op in ops_of(scope):
            set_location(op, self._replace(op.location))
            for members in (op.properties, op.attributes):
                for key, attr in members.items():
                    members[key] = self._replace(attr)
            for region in op.regions:
                for block in region.blocks:
                    for argument in block.args:
                        argument.location = self._replace(argument.location)

    def _replace(self, attr: Attribute) -> Attribute:
        found = self._known.get(attr)
        if found is None:
            found = self._known[attr] = self._rebuilt(attr)
        return found

    def _rebuilt(self, attr: Attribute) -> Attribute:
        match attr:
            case DebugAttr():
                return type(attr)(*(self._replace(v) if isinstance(v, Attribute) else v for v in attr.data))
            case CallSiteLoc():
                return call_site_loc(self._replace(attr.callee), self._replace(attr.caller))
            case NameLoc():
                return NameLoc(attr.desc, self._replace(attr.location))
            case FusedLoc(locations=ArrayAttr() as parts):
                return FusedLoc(ArrayAttr([self._replace(part) for part in parts]), self._replace(attr.metadata))
            case ArrayAttr():
                return ArrayAttr([self._replace(element) for element in attr.data])
            case DictionaryAttr():
                return DictionaryAttr({key: self._replace(value) for key, value in attr.data.items()})
            case _:
                return attr
