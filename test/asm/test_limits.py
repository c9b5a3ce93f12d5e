# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text that nests deeply, or is large in other hostile ways, gives a diagnostic; what the limits allow works."""

from __future__ import annotations

import contextlib
import sys

import pytest

import libtile
from libtile import bytecode
from libtile.asm import parse, print_op
from libtile.asm.cursor import ParseError
from libtile.asm.recursion import MAX_NESTING
from libtile.bytecode.limits import ATTRIBUTE_DEPTH, DEBUG_DEPTH, REGION_DEPTH
from libtile.support.diagnostics import DiagnosticError

HEAD = "cuda_tile.module @kernels { entry @k(%c: tile<i1>) {\n"


def nested_ifs(depth: int) -> str:
    return HEAD + "if %c {\n" * depth + "}" * depth + "}\n}\n"


def test_nesting_up_to_the_limit_is_read_and_printed() -> None:
    depth = MAX_NESTING - 4  # the modules and the entry are levels as well
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


def nested_attribute(lines: int) -> str:
    """A module with an attribute of so many levels, each of which is an alias of its own."""
    aliases = "".join(f"#a{i + 1} = [#a{i}]\n" for i in range(lines))
    return f"#a0 = 1 : i32\n{aliases}cuda_tile.module @m attributes {{x = #a{lines}}} {{ }}"


def test_what_aliases_hold_counts_as_nested_where_they_stand() -> None:
    """It is written out there when it is printed, and what is printed is read again."""
    module = parse(nested_attribute(MAX_NESTING - 3))  # a module is printed around it; a dictionary is a level
    for generic in (False, True):
        assert print_op(parse(print_op(module, generic=generic))) == print_op(module)
    with pytest.raises(DiagnosticError, match=rf"nesting is deeper than the limit of {MAX_NESTING}"):
        parse(nested_attribute(MAX_NESTING - 2))
    with pytest.raises(DiagnosticError, match=rf"nesting is deeper than the limit of {MAX_NESTING}"):
        parse(f"!t = tuple<i32>\nmodule attributes {{x = {'[' * (MAX_NESTING - 1)}!t{']' * (MAX_NESTING - 1)}}} {{ }}")


def test_regions_are_valid_up_to_the_depth_that_bytecode_has() -> None:
    deepest = libtile.parse(nested_ifs(REGION_DEPTH).replace("}}\n", "} return }\n"))
    libtile.verify(deepest)
    again = libtile.read(libtile.write(deepest))
    assert libtile.print_module(libtile.parse(libtile.print_module(again))) == libtile.print_module(deepest)
    with pytest.raises(DiagnosticError, match=rf"-:{REGION_DEPTH + 2}:1: .* op is nested in more than {REGION_DEPTH}"):
        libtile.verify(libtile.parse(nested_ifs(REGION_DEPTH + 1).replace("}}\n", "} return }\n")))


def test_the_deepest_file_is_printed_as_text_that_is_read() -> None:
    hints = "[" * (ATTRIBUTE_DEPTH - 2) + "1 : i32" + "]" * (ATTRIBUTE_DEPTH - 2)
    hinted = f"optimization_hints=<sm_90 = {{a = {hints}}}>"
    store = f"%t = store_ptr_tko weak %p, %x {hinted} : tile<ptr<i1>>, tile<i1> -> token"
    text = nested_ifs(REGION_DEPTH - 1).replace("}" * (REGION_DEPTH - 1), store + "}" * (REGION_DEPTH - 1), 1)
    module = libtile.parse(
        text.replace("%c", "%x").replace("tile<i1>)", "tile<i1>, %p: tile<ptr<i1>>)").replace("}}\n", "} return }\n")
    )
    libtile.verify(module)
    module = libtile.read(libtile.write(module))
    for generic in (False, True):
        text = libtile.print_module(module, generic=generic, debuginfo=True)
        assert libtile.print_module(libtile.parse(text)) == libtile.print_module(module)


def hinted(opening: str, levels: int) -> libtile.Module:
    value = opening * levels + "1 : i32" + {"[": "]", "{a = ": "}"}[opening] * levels
    return libtile.parse(
        f"cuda_tile.module @kernels {{ entry @k() optimization_hints=<sm_90 = {{a = {value}}}> {{ return }} }}"
    )


@pytest.mark.parametrize("opening", ["[", "{a = "])
def test_attributes_are_valid_up_to_the_depth_that_bytecode_has(opening: str) -> None:
    deepest = hinted(opening, ATTRIBUTE_DEPTH - 2)  # the architectures and the keys are levels as well
    libtile.verify(deepest)
    assert libtile.print_module(libtile.read(libtile.write(deepest))) == libtile.print_module(deepest)
    with pytest.raises(DiagnosticError, match=rf"'optimization_hints' is nested more than {ATTRIBUTE_DEPTH} deep"):
        libtile.verify(hinted(opening, ATTRIBUTE_DEPTH - 1))


def test_no_attribute_is_written_that_is_too_deep_to_be_read() -> None:
    module = bytecode.read(libtile.write(hinted("[", ATTRIBUTE_DEPTH - 2)))
    (function,) = module.functions
    (sm_90,) = function.hints.items
    (a,) = sm_90[1].items
    deeper = bytecode.model.OptimizationHints(
        ((sm_90[0], bytecode.model.Dictionary(((a[0], bytecode.model.Array((a[1],))),))),)
    )
    function.hints = deeper
    with pytest.raises(bytecode.BytecodeError, match=f"attributes are nested more than {ATTRIBUTE_DEPTH} deep"):
        bytecode.write(module)


def inlined(calls: int) -> str:
    lines = "".join(f"#l{i + 1} = loc(callsite(#l{i} at #l0))\n" for i in range(calls))
    return f'#l0 = loc("a":1:1)\n{lines}cuda_tile.module @m {{ entry @k() {{ return loc(#l{calls}) }} }}'


def test_chains_of_calls_are_printed_and_read_up_to_the_depth_that_bytecode_has() -> None:
    module = libtile.read(libtile.write(libtile.parse(inlined(DEBUG_DEPTH))))
    text = libtile.print_module(module, debuginfo=True)
    assert libtile.print_module(libtile.parse(text), debuginfo=True) == text
    with pytest.raises(DiagnosticError, match="alias stands for too large a value"):
        libtile.parse(inlined(DEBUG_DEPTH + 1))


def test_call_sites_on_top_of_aliases_are_valid_up_to_the_depth_that_bytecode_has() -> None:
    """The text may say more: what an alias stands for is as deep by itself."""
    aliases = inlined(DEBUG_DEPTH)
    last = f"loc(#l{DEBUG_DEPTH}) }} }}"
    libtile.write(libtile.parse(aliases))
    module = libtile.parse(aliases.replace(last, f"loc(callsite(#l{DEBUG_DEPTH} at #l0)) }} }}"))
    with pytest.raises(DiagnosticError, match=f"debug info is nested more than {DEBUG_DEPTH} deep") as caught:
        libtile.verify(module)
    assert caught.value.diagnostics[0].location is not None


def scoped(blocks: int, entry: int) -> libtile.Module:
    """Lexical blocks in one another: a kernel whose scope is that of number `entry` (0: its subprogram)."""
    lines = "".join(
        f"#s{i + 1} = #cuda_tile.di_lexical_block<scope = #s{i}, file = #f, line = 1, column = 1>\n"
        for i in range(blocks)
    )
    return libtile.parse(
        f"""#f = #cuda_tile.di_file<"a" in "b">
#c = #cuda_tile.di_compile_unit<file = #f>
#s0 = #cuda_tile.di_subprogram<file = #f, line = 1, name = "k", linkageName = "k", compileUnit = #c, scopeLine = 1>
{lines}#l0 = loc("a":1:1)
#l = loc(#cuda_tile.di_loc<#l0 in #s{blocks}>)
#e = loc(#cuda_tile.di_loc<#l0 in #s{entry}>)
cuda_tile.module @m {{ entry @k() {{ return loc(#l) }} loc(#e) }}"""
    )


def test_scopes_are_valid_up_to_the_depth_that_bytecode_has() -> None:
    deepest = DEBUG_DEPTH - 4  # the location, the subprogram, its unit and the file are records as well
    module = scoped(deepest, 0)
    libtile.verify(module)
    text = libtile.print_module(libtile.read(libtile.write(module)), debuginfo=True)
    assert libtile.print_module(libtile.parse(text), debuginfo=True) == text
    for entry in (0, deepest + 1):
        with pytest.raises(DiagnosticError, match=f"a:1:1: error: debug info is nested more than {DEBUG_DEPTH} deep"):
            libtile.verify(scoped(deepest + 1, entry))


def test_deep_scopes_are_shown_in_messages() -> None:
    with pytest.raises(DiagnosticError, match=r"invalid function debug info scope: #cuda_tile\.di_lexical_block"):
        libtile.verify(scoped(DEBUG_DEPTH - 4, DEBUG_DEPTH - 4))


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


@pytest.mark.parametrize("shape", ["tile<{}f32>", "tensor_view<{}f32, strides=[]>"])
def test_a_shape_is_read_once_however_many_dimensions_it_has(shape: str) -> None:
    """Counted in characters of tokens: `x1x1x1xf32` is one."""
    from libtile.asm.lexer import Source
    from libtile.asm.parser import Parser

    def characters(rank: int) -> int:
        count = 0

        class Counting(Parser):
            def advance(self) -> None:
                nonlocal count
                super().advance()
                count += len(self.token)

        parser = Counting(Source("!t = !cuda_tile." + shape.format("1x" * rank), "-"))
        with contextlib.suppress(ParseError):  # the strides are too few
            parser.top_level()
        return count

    assert characters(1000) < 10.5 * characters(100)


def test_sizes_inside_of_a_long_shape_are_those_of_a_short_one() -> None:
    text = "tile<2x1x4x1x0x8x1xf32>"
    with pytest.raises(DiagnosticError, match=r"-:1:\d+: error: .*all dimensions must be"):
        parse("!t = !cuda_tile." + text)
    assert str(parse("!t = tuple<!cuda_tile." + text.replace("0x", "") + ">\nmodule { }").name) == "builtin.module"
    with pytest.raises(DiagnosticError, match=r"-:1:26: error: invalid dimension"):
        parse(f"!t = !cuda_tile.tile<1x2x{1 << 63}x1xf32>")
