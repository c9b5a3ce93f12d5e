# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small texts that once made the parser, the printer or the verifier fail instead of saying what is wrong."""

# ruff: noqa: E501  (texts and messages in one piece)
from __future__ import annotations

import pytest

import libtile
from libtile.asm import parse, print_op
from libtile.asm.module import diagnose as verify
from libtile.support.diagnostics import DiagnosticError, has_errors

MALFORMED = {
    "cuda_tile.module @s { %0:02": "f:1:27: error: expected '=' after SSA name",
    "cuda_tile.module @s { %0:00 = ": "f:1:26: error: expected named operation to have at least 1 result",
    "!v = !nv_tileaa.tiled_view!f": "expected '<' and the parameters of 'nv_tileaa.tiled_view'",
    "!p = !nv_tileas.pipeline<3, (!nv_tileas.buffer": "expected '<' and the parameters of 'nv_tileas.buffer'",
    '"x"() {a = #nv_tileas.copy_atom} : () -> ()': "expected '<' and the parameters of 'nv_tileas.copy_atom'",
    '"x"() {a = #nv_tileaa.div_by} : () -> ()': "expected '<' and the parameters of 'nv_tileaa.div_by'",
    "\x1b[31m": "f:1:1: error: unexpected character",
    '"x"() {a = array<i65: 1>} : () -> ()': "f:1:18: error: expected integers of at most 64 bits in dense array, got i65",
    "!\x1b": "f:1:1: error: invalid type identifier",
    "func.func @f(%a : i\udcff)": "f:1:",
    "#w = #nv_tileas.layout<lane=[[\u00b9]] : 2>": "f:1:31: error: unexpected character",
    '"x"() {a = array<i64: \u00b2>} : () -> ()': "f:1:",
    '"x"() {a = dense<\u0663> : tensor<2xi32>} : () -> ()': "f:1:",
    'builtin.module { "x"(%a#\u00b9) : (i32) -> () }': "f:1:",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_text_is_a_diagnostic(text: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse(text, "f", allow_unregistered=True)
    assert MALFORMED[text] in str(caught.value)
    assert str(caught.value).isprintable()


INVALID = {
    "bytes that are no UTF-8 in an attribute of the wrong kind": (
        """!desc = !nv_tileas.tma_desc<!nv_tileaa.memref<?x?xf32, 1>, []> !shared = !nv_tileas.buffer<4xf32, shared>
nv_tileaa.func @s(%d : !desc, %s : !shared, %i : index) attributes {k = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  nv_tileas.async.tiled_tma_load %d[%i, %i], %s {atom = #nv_tileas.copy_atom<tma_load, box=[8]>, tmaIdx = "\\FF"}
    : !desc, index, index, !shared -> !nv_tileas.async_token
  nv_tileaa.return }""",
        'failed to satisfy its constraint: got "\\FF"',
    ),
    "a builtin.module with operands and without a region": (
        """cuda_tile.module @s { cuda_tile.entry @c() { %a = cuda_tile.constant <f16: 2.0> : !cuda_tile.tile<f16>
  "builtin.module"(%a) {e = #cuda_tile.comparison_predicate<greater_than>} : (!cuda_tile.tile<f16>) -> !cuda_tile.tile<i1> } }""",
        "'builtin.module' op Expected 0 operand",
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_module_is_printed_and_gets_diagnostics(name: str) -> None:
    text, message = INVALID[name]
    op = parse(text, "f", allow_unregistered=True)
    for options in ({}, {"generic": True}, {"debuginfo": True}):
        assert print_op(op, **options)
    found = verify(op)
    assert has_errors(found) and message in found[0].message


@pytest.mark.parametrize("raw", ["\udc95", "\\95", "ü", "\\C3\\BC"])
def test_strings_in_ops_of_other_dialects_are_any_bytes(raw: str) -> None:
    text = f'module {{\n  func.func private @"{raw}"() -> () attributes {{a = "{raw}"}}\n}}\n'
    op = parse(text, "f")
    assert print_op(parse(print_op(op), "f")) == print_op(op)


@pytest.mark.parametrize(
    "text",
    [
        '"arith.constant"() {value = "STRING"} : () -> i32',
        '"arith.addi"() {overflowFlags = "STRING"} : () -> i32',
        'func.func @f() attributes {sym_visibility = 3 : i32, a = "STRING"} { func.return }',
        '"func.func"() ({}) {sym_name = 3 : i32, function_type = "STRING"} : () -> ()',
        'nv_tileaa.func @f() attributes {kernel_spec = "STRING"} { nv_tileaa.return }',
    ],
)
@pytest.mark.parametrize("raw", ["\udc95", "\\95"])
def test_a_string_of_any_bytes_in_the_wrong_place_is_one_error(text: str, raw: str) -> None:
    try:
        found = verify(parse(text.replace("STRING", raw), "f"))
    except libtile.DiagnosticError as error:
        found = error.diagnostics
    assert has_errors(found)
    assert all(diagnostic.message for diagnostic in found)


def test_keys_of_hints_are_quoted_where_they_have_to_be() -> None:
    text = 'cuda_tile.module @m { entry @k() optimization_hints=<"a\\00b" = {}, sm_90 = {"x y" = 1}> { return } }'
    printed = print_op(parse(text, "f"))
    assert 'optimization_hints=<"a\\00b" = {}, sm_90 = {"x y" = 1}>' in printed
    assert print_op(parse(printed, "f")) == printed


@pytest.mark.parametrize("alignment", [-(1 << 63), -1, 0, (1 << 63) - 1])
def test_the_alignment_of_a_global_is_any_64_bits(alignment: int) -> None:
    text = f"cuda_tile.module @m {{ global @g alignment = {alignment} <f32: [1.0]> : tile<1xf32> }}"
    module = libtile.parse(text)
    libtile.verify(module)
    assert (
        libtile.print_module(libtile.read(libtile.write(module))).partition("{")[2]
        == (libtile.print_module(module).partition("{")[2])
    )


def test_a_list_of_no_operands_has_no_types():
    text = """cuda_tile.module @m {
  testing$func @f(%arg0: token) {
    %0 = testing$bytecode_test_evolution( : ) token = %arg0 : token -> token
    return
  }
}
"""
    assert libtile.print_module(libtile.parse(text)).strip() == text.strip()


def test_a_module_in_a_function_is_refused_at_its_place_when_it_is_written():
    text = "cuda_tile.module @m {\n  entry @f() {\n    cuda_tile.module @inner {\n    }\n    return\n  }\n}\n"
    with pytest.raises(DiagnosticError) as caught:
        libtile.write(libtile.parse(text, filename="f.mlir"))
    assert str(caught.value) == "f.mlir:3:5: error: 'cuda_tile.module' op cannot stand in a function body"
