# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of xDSL's dialects in our text: read and printed by their own forms, around and inside of ours."""

from __future__ import annotations

import pytest

from libtile.asm import parse, print_op
from libtile.support.diagnostics import DiagnosticError

TEXT = """\
module attributes {bar = [1, 2.000000e+00, "x"], foo = 3 : i64} {
  func.func private @ext(i32) -> i32
  func.func @f(%arg0: i32, %arg1: memref<4xf32>, %arg2: !cuda_tile.tile<4xf32>) -> i32 {
    %0 = arith.constant 5 : i32
    %1 = arith.addi %arg0, %0 : i32
    %2 = arith.constant 0 : index
    %3 = memref.load %arg1[%2] : memref<4xf32>
    %4 = scf.for %arg3 = %2 to %2 step %2 iter_args(%arg4 = %1) -> (i32) {
      %7 = arith.muli %arg4, %arg4 : i32
      %8 = arith.cmpi slt, %7, %arg4 : i32
      scf.if %8 {
        %10 = arith.constant 1.500000e+00 : f32
      }
      %9 = cuda_tile.absf %arg2 : tile<4xf32>
      scf.yield %7 : i32
    }
    %5 = "test.op"(%4) {map = affine_map<(d0) -> (d0)>, t = vector<4xf32>} : (i32) -> !cuda_tile.tile<4xf32>
    cf.br ^bb1(%4 : i32)
  ^bb1(%6: i32):
    func.return %6 : i32
  }
}
"""


def test_ops_of_other_dialects_keep_their_forms() -> None:
    assert print_op(parse(TEXT, allow_unregistered=True)) == TEXT


def test_ops_of_other_dialects_have_a_generic_form() -> None:
    generic = print_op(parse(TEXT, allow_unregistered=True), generic=True)
    assert '"arith.addi"(%arg0, %0)' in generic
    assert print_op(parse(generic, allow_unregistered=True)) == TEXT


def test_their_parse_errors_are_diagnostics_with_a_place() -> None:
    with pytest.raises(DiagnosticError) as failed:
        parse("func.func @f() {\n  %0 = arith.addi %1 : i32\n}", "f.mlir")
    place = failed.value.diagnostics[0].location
    assert place is not None and place.line == 2


def test_unregistered_ops_need_leave() -> None:
    with pytest.raises(DiagnosticError, match="allow-unregistered-dialect"):
        parse('"foo.bar"() : () -> ()')
    text = 'module {\n  "foo.bar"() {a = !foo.t<1>} : () -> ()\n}\n'
    assert print_op(parse(text, allow_unregistered=True)) == text


def test_types_and_attributes_by_alias() -> None:
    text = '!t = vector<4xf32>\n#a = [1 : i8]\n"foo.bar"() {x = #a} : () -> !t'
    printed = print_op(parse(text, allow_unregistered=True))
    assert '%0 = "foo.bar"() {x = [1 : i8]} : () -> vector<4xf32>' in printed
