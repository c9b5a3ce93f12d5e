# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every op of the declarations is read from text and written back the same, in the pretty and in the generic form."""

from __future__ import annotations

import pytest

from asm.op_texts import CASES, MODULE_LEVEL
from libtile.asm import parse, print_op
from libtile.spec import default_spec


def indented(text: str, levels: int) -> str:
    return "".join("  " * levels + line + "\n" for line in text.split("\n"))


def function(types: list[str], body: str) -> str:
    arguments = ", ".join(f"%arg{i}: {t}" for i, t in enumerate(types))
    return f"testing$func @f({arguments}) {{\n{indented(body, 1)}  return\n}}"


def module(body: str) -> str:
    return f"module {{\n  cuda_tile.module @m {{\n{indented(body, 2)}  }}\n}}\n"


NAMED = {
    **{f"{op}-{i}": function(*case) for op, cases in CASES.items() for i, case in enumerate(cases)},
    **{f"{op}-{i}": text for op, texts in MODULE_LEVEL.items() for i, text in enumerate(texts)},
}
TEXTS = [pytest.param(module(body), id=name) for name, body in NAMED.items()]


def test_every_op_has_a_text() -> None:
    missing = set(default_spec().ops) - set(CASES) - set(MODULE_LEVEL)
    assert not missing, "add a case to test/asm/op_texts.py for each of these"


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_printed_as_it_was_read(text: str) -> None:
    assert print_op(parse(text)) == text


@pytest.mark.parametrize("text", TEXTS)
def test_generic_form_says_the_same(text: str) -> None:
    generic = print_op(parse(text), generic=True)
    assert "= constant" not in generic
    assert print_op(parse(generic)) == text
    assert print_op(parse(generic), generic=True) == generic


@pytest.mark.parametrize("text", TEXTS)
def test_locations_survive(text: str) -> None:
    located = print_op(parse(text, "f.mlir"), debuginfo=True)
    assert "loc(" in located
    assert print_op(parse(located, "g.mlir"), debuginfo=True) == located
    assert print_op(parse(located)) == text


def test_a_call_with_constant_arguments_has_the_generic_form_only() -> None:
    call = '%0 = "cuda_tile.preview$call"(%arg0) <{callee = @f, const_args = [1 : i32]}> : '
    text = module(function(["tile<i32>"], call + "(!cuda_tile.tile<i32>) -> !cuda_tile.tile<i32>"))
    assert print_op(parse(text)) == text
