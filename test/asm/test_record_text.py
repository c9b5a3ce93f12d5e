# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The text made from a file's records is that of the IR, and there is none of a module that does not verify."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dialects.verify_cases import CASES
from dialects.verify_cases.case import Case
from libtile import asm, bytecode
from libtile.asm.disasm_names import disassembly
from libtile.asm.module import diagnose
from libtile.asm.record_text import disassembled
from libtile.dialects.cuda_tile.bridge import from_bytecode
from libtile.dialects.cuda_tile.to_bytecode import to_bytecode
from libtile.support.diagnostics import has_errors

NESTED = """
cuda_tile.module @kernels {
  global @table <f32: 1.0> : tile<4xf32>
  entry @f(%n: tile<i32>, %p: tile<ptr<f32>>) {
    %known = assume div_by<16>, %p : tile<ptr<f32>>
    %again = assume bounded<0, ?>, %n : tile<i32>
    %third = assume div_by<4>, %again : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %shape = reshape %one : tile<i32> -> tile<1xi32>
    %broad = broadcast %shape : tile<1xi32> -> tile<8xi32>
    %guess = assume bounded<0, 9>, %broad : tile<8xi32>
    %sum, %extra = for %i in (%zero to %third, step %one) : tile<i32>
        iter_values(%a = %zero, %b = %one) -> (tile<i32>, tile<i32>) {
      %less = cmpi less_than %i, %third, signed : tile<i32> -> tile<i1>
      %chosen = if %less -> (tile<i32>) {
        %twice = addi %a, %a : tile<i32>
        yield %twice : tile<i32>
      } else {
        %same = addi %a, %one : tile<i32>
        yield %same : tile<i32>
      }
      continue %chosen, %b : tile<i32>, tile<i32>
    }
    %total = reduce %guess dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>
      (%x: tile<i32>, %y: tile<i32>) {
        %s = addi %x, %y : tile<i32>
        yield %s : tile<i32>
      }
    %address = get_global @table : tile<ptr<f32>>
    %value, %token = load_ptr_tko weak %address : tile<ptr<f32>> -> tile<f32>, token
    print_tko "%d, 100 %%\\n", %total : tile<i32> -> token
    return
  }
}
"""


def test_text_of_regions_names_and_symbols_is_that_of_the_ir() -> None:
    data = bytecode.write(to_bytecode(asm.parse(NESTED, implicit_module=False)), "13.5")
    text = disassembly(from_bytecode(bytecode.read(data)))
    assert "%assume_assume = assume" in text and "%reduce = reduce" in text
    assert disassembled(bytecode.read(data)) == text


def text_or_error(make: Callable[[bytecode.Module], str | None], data: bytes) -> str | None:
    try:
        return make(bytecode.read(data))
    except bytecode.BytecodeError as error:
        return f"error: {error}"


def over_the_ir(module: bytecode.Module) -> str | None:
    op = from_bytecode(module)
    return None if has_errors(diagnose(op)) else disassembly(op)


WRITTEN = [case for case in CASES if case.oracle != "absent"]


@pytest.mark.parametrize("cases", [WRITTEN[::8], pytest.param(WRITTEN, marks=pytest.mark.slow)], ids=["some", "all"])
def test_what_does_not_verify_has_no_text(cases: list[Case]) -> None:
    for case in cases:
        data = bytecode.write(to_bytecode(case.make()), "13.5")
        assert text_or_error(disassembled, data) == text_or_error(over_the_ir, data), case.name
