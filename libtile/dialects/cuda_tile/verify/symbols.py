# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Symbols: unique names in a table, and their uses (Tile IR specification, section Operations, get_global)."""

from __future__ import annotations

from libtile.dialects.cuda_tile.forms import CudaTileOp, DenseElementsAttr, PointerType, TileType
from libtile.dialects.cuda_tile.verify.report import fail, fail_plain, quoted
from libtile.ir.forms import Operation, StringAttr


def symbols_of(table: Operation) -> dict[str, Operation]:
    """The ops of a symbol table by their names. Raises Violation when two have the same one."""
    if len(table.regions) != 1:
        fail(table, "Operations with a 'SymbolTable' must have exactly one region")
    symbols: dict[str, Operation] = {}
    block = table.regions[0].first_block
    for op in block.ops if block is not None else ():
        name = op.properties.get("sym_name", op.attributes.get("sym_name"))
        if not isinstance(name, StringAttr):
            continue
        first = symbols.setdefault(name.data, op)
        if first is not op:
            note = (first, "see existing symbol definition here")
            fail_plain(op, f"redefinition of symbol named '{name.data}'", note)
    return symbols


def check_symbol_use(op: CudaTileOp, symbols: dict[str, Operation]) -> None:
    """`get_global` names a global whose element type its result points to."""
    name = op.attribute_value("name")
    target = symbols.get(name)
    value = target.properties.get("value") if isinstance(target, CudaTileOp) and target.spec.name == "global" else None
    if not isinstance(value, DenseElementsAttr):
        fail(op, f"'{name}' does not reference a valid global")
    element = value.type.element_type
    result = op.results[0].type
    pointer = result.element_type if isinstance(result, TileType) else result
    if not isinstance(pointer, PointerType) or pointer.pointee != element:
        fail(
            op,
            f"pointee type of result type {quoted(pointer)} does not match type {quoted(element)} "
            f"of the global @{name}",
        )
