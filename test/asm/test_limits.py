# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text that nests deeply, or is large in other hostile ways, gives a diagnostic; what the limits allow works."""

from __future__ import annotations

import sys

import pytest

from libtile.asm import parse, print_op
from libtile.asm.recursion import MAX_NESTING
from libtile.support.diagnostics import DiagnosticError

HEAD = "cuda_tile.module @m { entry @k(%c: tile<i1>) {\n"


def nested_ifs(depth: int) -> str:
    return HEAD + "if %c {\n" * depth + "}" * depth + "}\n}\n"


def test_nesting_up_to_the_limit_is_read_and_printed() -> None:
    depth = MAX_NESTING - 3  # the modules and the entry are levels as well
    before = sys.getrecursionlimit()
    module = parse(nested_ifs(depth))
    assert print_op(module).count("if %arg0") == depth
    assert print_op(parse(print_op(module, generic=True))) == print_op(module)
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize(
    "text",
    [
        nested_ifs(MAX_NESTING),
        nested_ifs(20_000),
        "#a = " + "[" * 20_000,
        "#a = " + "{a = " * 20_000,
        "#a = loc(" + 'callsite("a" at ' * 20_000,
        "!t = " + "!cuda_tile.tile<" * 20_000,
        "!t = " + "(" * 20_000,
        "#a = " + "#cuda_tile.di_lexical_block<scope = " * 20_000,
        HEAD + "%0 = constant <i8: " + "[" * 20_000,
        '"cuda_tile.if"() (' + '{ "cuda_tile.if"() (' * 20_000,
        "module {" * 20_000,
    ],
    ids=lambda text: text[-24:].strip(),
)
def test_deeper_nesting_is_refused(text: str) -> None:
    with pytest.raises(DiagnosticError, match=rf"nesting is deeper than the limit of {MAX_NESTING}"):
        parse(text)


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["#a0 = [1, 1]", *(f"#a{i + 1} = [#a{i}, #a{i}]" for i in range(40))]
    with pytest.raises(DiagnosticError, match="alias stands for too large a value"):
        parse("\n".join(lines))


def test_chains_of_aliases_are_bounded() -> None:
    lines = ["#a0 = loc(unknown)", *(f'#a{i + 1} = loc("n"(#a{i}))' for i in range(5000))]
    with pytest.raises(DiagnosticError, match="alias stands for too large a value"):
        parse("\n".join(lines))


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "%0 = constant <i64: " + "9" * 100_000 + "> : tile<i64>",
        HEAD + "%0 = constant <f32: 1." + "9" * 100_000 + "e99999999999> : tile<f32>\n}\n}",
        HEAD + "%0:" + "9" * 5000 + " = constant",
        HEAD + "%0 = absi %c#" + "9" * 5000 + " : tile<i1>",
        "!t = i" + "9" * 5000,
        "!t = !cuda_tile.tile<" + "9" * 5000 + "xf32>",
    ],
    ids=["integer", "float", "result count", "result number", "width", "size"],
)
def test_numbers_of_many_digits_are_no_trouble(text: str) -> None:
    try:
        parse(text)
    except DiagnosticError as failed:
        assert len(failed.diagnostics) >= 1


def test_an_unfinished_string_behind_a_foreign_attribute_ends_soon() -> None:
    with pytest.raises(DiagnosticError):
        parse('#a = #foo.bar "' + "x" * 5000 + "\\q")


def test_time_grows_with_the_text_only_linearly() -> None:
    """A long text is read in pieces that do not look back: counted in tokens, as time is no measure in a test."""
    from libtile.asm.lexer import Source
    from libtile.asm.parser import Parser

    def tokens(ops: int) -> int:
        count = 0

        class Counting(Parser):
            def advance(self) -> None:
                nonlocal count
                count += 1
                super().advance()

        body = "".join(f"%{i} = constant <i32: {i}> : tile<i32>\n" for i in range(ops))
        Counting(Source(f"cuda_tile.module @m {{ entry @k() {{\n{body}}}\n}}", "-")).top_level()
        return count

    small, large = tokens(50), tokens(500)
    assert large < 10.5 * small
