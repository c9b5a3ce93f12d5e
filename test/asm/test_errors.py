# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a malformed text is told: MLIR's words, at MLIR's places. `@` in a text marks the place of the error."""

# ruff: noqa: E501  (messages in one piece)
from __future__ import annotations

import pytest

from libtile.asm import parse
from libtile.support.diagnostics import DiagnosticError, SourceLocation

OPS = {
    # places: a missing token is reported behind the one before it, also across lines and comments
    "%0 = addi %a@ %a : tile<i32>": "expected ','",
    "%0 = addi %a, %a@\n // why\n}": "expected ':'",
    "@foo %a : tile<i32>": "custom op 'foo' is unknown (tried 'cuda_tile.foo' as well)",
    "@cuda_tile.foo %a": "custom op 'cuda_tile.foo' is unknown",
    "%0 = absi @%b : tile<i32>": "use of undeclared SSA value name",
    "%0 = absi @%a : tile<i64>": "use of value '%a' expects different type than prior uses: '!cuda_tile.tile<i64>' vs "
    "'!cuda_tile.tile<i32>'",
    "@%a = absi %a : tile<i32>": "redefinition of SSA value '%a'",
    "%0 = absi @%a#1 : tile<i32>": "reference to invalid result number",
    "@%0:2 = absi %a : tile<i32>": "operation defines 1 results but was provided 2 to bind",
    "@%0 = return": "cannot name an operation with no results",
    "%0:@0 = absi %a : tile<i32>": "expected named operation to have at least 1 result",
    "%0 = absi %a : tilo@<i32>": "custom op 'cuda_tile.absi' unknown type: tilo",
    "%0 = absi %a : @": "custom op 'cuda_tile.absi' expected valid keyword",
    "%0 = absi %a : tile<@?xi32>": "custom op 'cuda_tile.absi' expected static shape",
    "%0 = absi %a : tile@<3xi32>": "custom op 'cuda_tile.absi' all dimensions must be powers of two, got 3",
    "%0 = absi %a : @!cuda_tile.foo": "unknown  type `foo` in dialect `cuda_tile`",
    "%0 = absi %a : @!foo": "undefined symbol alias id 'foo'",
    '%0 = @"cuda_tile.foo"(%a) : (!cuda_tile.tile<i32>) -> ()': "unregistered operation 'cuda_tile.foo' found in dialect "
    "('cuda_tile') that does not allow unknown operations",
    '"cuda_tile.absi"(%a) : @(!cuda_tile.tile<i32>, i32) -> ()': "expected 1 operand type but had 2",
    '"cuda_tile.absi"(%a) : @!cuda_tile.tile<i32>': "expected function type",
    '"a.b"@() : () -> ()': "operation being parsed with an unregistered dialect. If this is intended, please use "
    "-allow-unregistered-dialect with the MLIR tool used",
    "%0 = exti %a @: tile<i32> -> tile<i64>": "custom op 'cuda_tile.exti' expected valid keyword",
    "%0 = constant <i8: @256> : tile<i8>": "custom op 'cuda_tile.constant' integer constant out of range for type",
    "%0 = constant <i64: @9223372036854775808> : tile<i64>": "custom op 'cuda_tile.constant' integer value too large",
    "%0 = constant <f32: @1> : tile<f32>": "custom op 'cuda_tile.constant' unexpected decimal integer literal for a "
    "floating point value",
    "%0 = constant <f16: @0x12345> : tile<f16>": "custom op 'cuda_tile.constant' float constant out of range for type",
    "%0 = constant <i8: [1, [2]@]> : tile<2xi8>": "custom op 'cuda_tile.constant' tensor literal is invalid; ranks are not "
    "consistent between elements",
    "%0 = assume @foo<1>, %a : tile<i32>": "custom op 'cuda_tile.assume' unknown assume predicate attribute: foo "
    "(expected 'div_by', 'same_elements', or 'bounded')",
    "if @%a {\n}": "use of value '%a' expects different type than prior uses: '!cuda_tile.tile<i1>' vs "
    "'!cuda_tile.tile<i32>'",
    "%0 = absi %a : tile<i32> loc(@#nowhere)": "operation location alias was never defined",
    '%0 = absi %a : tile<i32> loc("k.py":1:2 to@ x)': "expected either integer or `:` post `to` in FileLineColRange",
    '%0 = absi %a : tile<i32> loc("k.py":1:@x)': "expected integer column number in FileLineColRange",
    "%0 = absi %a {x = @0x00 : fnv8E5M3FNU} : tile<i32>": "custom op 'cuda_tile.absi' fnv8E5M3FNU, "
    "a preview type, has no float attributes",
    "%0 = absi %a {x@": "expected '}' in attribute dictionary",
    "%0 = absi %a {x = 1, @x = 2} : tile<i32>": "duplicate key 'x' in dictionary attribute",
    "%0 = absi %a @; : tile<i32>": "unexpected character",
    'print_tko @"abc -> token': "expected '\"' in string literal",
    "cf.br @^nowhere": "reference to an undefined block",
    "loop iter_values(@%a = %a) : tile<i32> {\n}": "region entry argument '%a' is already in use",
    "%0 = maxf %f, %f flush_to_zero @flush_to_zero : tile<f32>": "custom op 'cuda_tile.maxf' `flush_to_zero` clause can "
    "appear at most once in the expansion of the oilist directive",
}


@pytest.mark.parametrize("line", OPS)
def test_error_in_an_op(line: str) -> None:
    offset = line.index("@") if not line.startswith("get_global") else 0
    body = line[:offset] + line[offset + 1 :]
    head = "cuda_tile.module @m {\nentry @k(%a: tile<i32>, %f: tile<f32>) {\n"
    text = f"{head}{body}\n}}\n}}\n"
    if line.endswith(("@", "{x@")):
        text = head + body
    with pytest.raises(DiagnosticError) as failed:
        parse(text, "f.mlir")
    found = failed.value.diagnostics[0]
    before = (head + body)[: len(head) + offset]
    place = SourceLocation("f.mlir", before.count("\n") + 1, len(before) - before.rfind("\n"))
    assert found.message == OPS[line]
    if not line.endswith("@"):
        assert found.location == place


TOP = {
    "#a = 1\n#a = 2": "redefinition of attribute alias id 'a'",
    "!t = i32\n!t = i32": "redefinition of type alias id 't'",
    "#a.b = 1": "attribute names with a '.' are reserved for dialect-defined names",
    "123": "expected operation name in quotes",
    '"": () -> ()': "empty operation name is invalid",
    "#a = #cuda_tile.nothing<1>": "unknown attribute `nothing` in dialect `cuda_tile`",
    "#a = #cuda_tile.div_by<x>": "expected integer value",
    "#a = #cuda_tile.di_compile_unit<>": "expected a parameter name in struct",
    '#f = #cuda_tile.di_file<"a" in "b">\n#a = #cuda_tile.di_subprogram<file = #f>': "struct is missing required "
    "parameter: line",
    "#a = array<i8: 300>": "integer value too large",
    "#a = 256 : i8": "integer constant out of range for attribute",
    "#a = loc(nothing)": "expected location instance",
    "cuda_tile.module @m {": "expected operation name in quotes",
    "cuda_tile.module @m { testing$func @f(i32) { ^a(%x: i32, %y: i32): } }": "entry block arguments were already "
    "defined",
    "{-# x: {} #-}": "unknown key 'x' in file metadata dictionary",
    "{-# dialect_resources: {foo: {}} #-}": "unexpected 'resource' section for dialect 'foo'",
    "{-# external_resources: {x: {y: 1}} #-}": "expected 'true', 'false' or a string as the value of a resource",
    "{-# external_resources: {} ": "expected '#-}'",
    "foo.bar": "Dialect `foo' not found for custom op 'foo.bar'",
}


@pytest.mark.parametrize("text", TOP)
def test_error_at_the_top_level(text: str) -> None:
    with pytest.raises(DiagnosticError) as failed:
        parse(text)
    assert failed.value.diagnostics[0].message == TOP[text]


def test_every_undeclared_name_is_reported() -> None:
    text = "cuda_tile.module @m {\nentry @k() {\n%0 = absi %x : tile<i32>\n%1 = absi %y : tile<i32>\n}\n}"
    with pytest.raises(DiagnosticError) as failed:
        parse(text)
    assert [(d.location.line, d.message) for d in failed.value.diagnostics if d.location] == [
        (3, "use of undeclared SSA value name"),
        (4, "use of undeclared SSA value name"),
    ]


def test_notes_say_where_a_value_was_used_before() -> None:
    text = "cuda_tile.module @m {\nentry @k(%a: tile<i32>) {\n%0 = absi %a : tile<i64>\n}\n}"
    with pytest.raises(DiagnosticError) as failed:
        parse(text, "f.mlir")
    (note,) = failed.value.diagnostics[0].notes
    assert (str(note.location), note.message) == ("f.mlir:2:10", "prior use here")


def test_a_text_for_one_op_must_hold_one() -> None:
    with pytest.raises(DiagnosticError, match="source must contain a single top-level operation, found: 2"):
        parse("cuda_tile.module @a {}\ncuda_tile.module @b {}", implicit_module=False)
    assert parse("cuda_tile.module @a {}", implicit_module=False).name == "cuda_tile.module"


def test_lines_count_from_the_first_line_given() -> None:
    with pytest.raises(DiagnosticError) as failed:
        parse("\n123", "f.mlir", first_line=40)
    assert str(failed.value.diagnostics[0].location) == "f.mlir:41:1"
