# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes over debug information."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation

import libtile
from libtile.dialects.cuda_tile.locations import source_location
from libtile.support.diagnostics import DiagnosticError
from libtile.transforms.debug_info_scopes import synthesize_debug_info_scopes
from libtile.transforms.symbol_names import update_symbol_name

KERNEL = """
cuda_tile.module @m {
  global @table <i32: 1> : tile<4xi32>
  global @other <i32: 2> : tile<4xi32>
  entry @kernel() {
    %p = get_global @table : tile<ptr<i32>> loc("/src/kernel.py":5:7)
    print_tko "here" -> token loc("lib"("/src/lib.py":1:2))
    %t = make_token : token
    return loc(unknown)
  } loc("/src/kernel.py":3:1)
}
"""


def find(module: libtile.Module, name: str) -> Operation:
    return next(op for op in module.op.walk() if op.name == f"cuda_tile.{name}")


def named(module: libtile.Module, symbol: str) -> Operation:
    return next(op for op in module.op.walk() if str(op.properties.get("sym_name")) == f'"{symbol}"')


def place(op: Operation) -> tuple[str, int, int] | None:
    found = source_location(op.location)
    return None if found is None else (found.filename, found.line, found.column)


def test_positions_without_a_scope_survive_bytecode_once_they_have_one() -> None:
    module = libtile.parse(KERNEL.replace('"lib"("/src/lib.py":1:2)', '"/src/lib.py":1:2'))
    assert place(find(libtile.read(libtile.write(module)), "get_global")) is None
    synthesize_debug_info_scopes(module.op)
    libtile.verify(module)
    again = libtile.read(libtile.write(module))
    assert place(find(again, "entry")) == ("/src/kernel.py", 3, 1)
    assert place(find(again, "get_global")) == ("/src/kernel.py", 5, 7)
    assert place(find(again, "print_tko")) == ("/src/lib.py", 1, 2)


def test_a_named_location_can_be_written_once_it_has_a_scope() -> None:
    module = libtile.parse(KERNEL)
    with pytest.raises(DiagnosticError, match="unsupported location, got NameLoc"):
        libtile.write(module)
    synthesize_debug_info_scopes(module.op)
    assert place(find(libtile.read(libtile.write(module)), "print_tko")) == ("/src/lib.py", 1, 2)


def test_an_op_without_a_position_gets_that_of_its_entry() -> None:
    module = libtile.parse(KERNEL)
    synthesize_debug_info_scopes(module.op)
    assert place(find(module, "return")) == ("/src/kernel.py", 3, 1)


def test_scopes_are_made_once() -> None:
    module = libtile.parse(KERNEL)
    synthesize_debug_info_scopes(module.op)
    before = libtile.print_module(module, debuginfo=True)
    synthesize_debug_info_scopes(module.op)
    assert libtile.print_module(module, debuginfo=True) == before


def test_a_renamed_global_is_found_by_its_users() -> None:
    module = libtile.parse(KERNEL)
    update_symbol_name(named(module, "table"), "constants", module.op, update_uses=True)
    libtile.verify(module)
    assert "get_global @constants" in str(module)
    assert "@table" not in str(module)


def test_a_symbol_renamed_without_its_uses_leaves_them_dangling() -> None:
    module = libtile.parse(KERNEL)
    update_symbol_name(named(module, "table"), "constants", module.op)
    with pytest.raises(DiagnosticError, match="table"):
        libtile.verify(module)


def test_a_name_that_is_taken_is_refused() -> None:
    module = libtile.parse(KERNEL)
    with pytest.raises(DiagnosticError, match="redefinition of symbol named 'other'"):
        update_symbol_name(named(module, "table"), "other", module.op, update_uses=True)
    assert "global @table" in str(module)
