# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An op that an overlay of the declarations adds is read and printed with no code of its own."""

from __future__ import annotations

import pytest

from libtile import bytecode
from libtile.asm import parse, print_op
from libtile.asm.format import FormatError, parse_format
from libtile.asm.format_parse import compile_parser
from libtile.dialects.cuda_tile import bridge
from libtile.dialects.cuda_tile.to_bytecode import to_bytecode
from libtile.spec import load
from libtile.support.diagnostics import DiagnosticError

OVERLAY = """
[version."99.1"]

[op.twist]
opcode = 0x3fff
group = "Made up"
since = "99.1"
operands = ["source: tile", "more: tile*", "mask: i1_tile?"]
attributes = ["amount: i64 = 3", "mode: RoundingMode?", "fast: unit"]
results = ["result: tile", "result_token: token"]
traits = ["same_type(source, result)", "operand_segments"]
format = '''$source (`and` $more^ `:` type($more))? (`mask` `=` $mask^)? (`by` $amount^)? (`mode` `` $mode^)? \\
(`fast` $fast^)? attr-dict `:` type($source) (`,` type($mask)^)? `->` type($result_token)'''
"""


def spec():
    return load([OVERLAY.replace("\\\n", "")])


@pytest.mark.parametrize(
    "line",
    [
        "%result, %result_token = twist %arg0 : tile<2xf32> -> token",
        "%result, %result_token = twist %arg0 by 7 mode<zero> fast : tile<2xf32> -> token",
        "%result, %result_token = twist %arg0 and %arg0, %arg1 : tile<2xf32>, tile<2xi1> mask = %arg1 {note = 1 : i64} "
        ": tile<2xf32>, tile<2xi1> -> token",
    ],
)
def test_made_up_op_is_read_and_printed(line: str) -> None:
    text = (
        "module {\n  cuda_tile.module @m {\n    testing$func @f(%arg0: tile<2xf32>, %arg1: tile<2xi1>) {\n"
        f"      {line}\n      return\n    }}\n  }}\n}}\n"
    )
    made_up = spec()
    module = parse(text, spec=made_up)
    assert print_op(module) == text
    assert print_op(parse(print_op(module, generic=True), spec=made_up)) == text


def test_a_default_is_not_printed() -> None:
    made_up = spec()
    text = "cuda_tile.module @m { testing$func @f(%a: tile<2xf32>) { %0:2 = twist %a by 3 : tile<2xf32> -> token } }"
    assert "twist %arg0 : tile<2xf32>" in print_op(parse(text, spec=made_up))


@pytest.mark.parametrize(
    "format_, problem",
    [
        ("$source $nothing", "no member is called 'nothing'"),
        ("$source `:` type($nothing)", "no operand or result is called 'nothing'"),
        ("(`x` $fast)?", "an optional group has no anchor"),
        ("$source custom<Nothing>($mode)", "custom<Nothing> has no parser"),
        ("$source attr-dict", "does not fix the type of 'source'"),
        ("$source )", "unexpected ')'"),
    ],
)
def test_a_bad_format_is_refused_by_name(format_: str, problem: str) -> None:
    start = OVERLAY.index("format = ")
    made_up = load([OVERLAY[:start] + f"format = '''{format_}'''\n"])
    op = made_up.ops["twist"]
    with pytest.raises(FormatError) as refused:
        parse_format(op)
        compile_parser(op, made_up)
    assert "op 'twist'" in str(refused.value) and problem in str(refused.value)


NEW_CASES = """
[version."99.1"]

[enum.Twist]
attr = "twist"
since = "99.1"
cases = ["left = 0", "right = 1"]
doc = "Which way."

[enum.IntegerOverflow]
extend = true
cases = ["saturates = 30 @99.1"]

[enum.PaddingValue]
extend = true
cases = ["seven = 7 @99.1"]

[enum.RoundingMode]
extend = true
cases = ["stochastic = 8 @99.1"]
subset.IEEERoundingMode = { cases = ["stochastic"] }
subset.ExpOpRoundingMode = { default = "approx" }

[enum.ComparisonPredicate]
extend = true
cases = ["unlike = 6 @99.1"]

[op.curl]
opcode = 0x3ffe
group = "Made up"
since = "99.1"
operands = ["source: tile"]
attributes = ["way: Twist = left"]
results = ["result: tile"]
traits = ["same_type(source, result)"]
format = "$source (`way` `` $way^)? attr-dict `:` type($source)"
"""


@pytest.mark.parametrize(
    "line",
    [
        "%0 = curl %cst_1_i32 : tile<2xi32>",
        "%0 = curl %cst_1_i32 way<right> : tile<2xi32>",
        "%0 = addi %cst_1_i32, %cst_1_i32 overflow<saturates> : tile<2xi32>",
        "%0 = itof %cst_1_i32 signed rounding<stochastic> : tile<2xi32> -> tile<2xf32>",
        "%0 = cmpi unlike %cst_1_i32, %cst_1_i32, signed : tile<2xi32> -> tile<2xi1>",
    ],
)
def test_new_enums_and_new_cases_of_old_enums_go_through_text_and_bytecode(line: str) -> None:
    text = (
        "module {\n  cuda_tile.module @m {\n    entry @f() {\n      %cst_1_i32 = constant <i32: 1> : tile<2xi32>\n"
        f"      {line}\n      return\n    }}\n  }}\n}}\n"
    )
    made_up = load([NEW_CASES])
    module = parse(text, spec=made_up)
    assert print_op(module) == text
    assert print_op(parse(print_op(module, generic=True), spec=made_up)) == text
    data = bytecode.write(to_bytecode(module.body.block.first_op, spec=made_up), version="99.1")
    assert line in print_op(bridge.from_bytecode(bytecode.read(data, spec=made_up)))


def test_diagnostics_list_the_new_cases() -> None:
    def message(op: str) -> str:
        text = f"cuda_tile.module @m {{ testing$func @f(%a: tile<2xi32>, %b: tile<2xf32>) {{ {op} }} }}"
        with pytest.raises(DiagnosticError) as refused:
            parse(text, spec=load([NEW_CASES]))
        return refused.value.diagnostics[-1].message

    assert message("%0 = itof %a signed rounding<full> : tile<2xi32> -> tile<2xf32>").endswith(
        "expected rounding mode to be one of: 'nearest_even', 'zero', 'negative_inf', 'positive_inf', 'stochastic', "
        "got: 'full'"
    )
    assert "'greater_than_or_equal', 'unlike'}" in message("%0 = cmpi odd %a, %a, signed : tile<2xi32> -> tile<2xi1>")


def test_the_default_that_text_leaves_out_is_the_specs() -> None:
    text = "cuda_tile.module @m { testing$func @f(%b: tile<2xf32>) { %0 = exp %b : tile<2xf32> } }"
    assert "#cuda_tile.rounding<approx>" in print_op(parse(text, spec=load([NEW_CASES])), generic=True)
    assert "#cuda_tile.rounding<full>" in print_op(parse(text), generic=True)


def test_a_new_padding_value_of_a_view_is_read_and_printed() -> None:
    view = "partition_view<tile=(4), padding_value = seven, tensor_view<8xf32, strides=[1]>>"
    text = f"cuda_tile.module @m {{ testing$func @f(%a: {view}) {{ return }} }}"
    assert view in print_op(parse(text, spec=load([NEW_CASES])))
    with pytest.raises(DiagnosticError, match="seven"):
        parse(text)
