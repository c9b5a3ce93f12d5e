# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions and globals: what `inline` copies, what `deduplicate-symbols` merges, and what both leave."""

from __future__ import annotations

import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import remarks


def run(text: str, pipeline: str) -> tuple[str, list[str]]:
    """The module behind a pipeline, and the reasons (or nothing) that its remarks give."""
    module = libtile.parse(text)
    libtile.verify(module)
    with remarks.collect() as reported:
        PassManager(parse_pipeline(pipeline)).run(module.op)
    return str(module), [dict(r.arguments).get("Reason", "") for r in reported]


NUMBER = "!cuda_tile.tile<i32>"


def calling(functions: str, callee: str = "f") -> str:
    call = f"%y = preview$call @{callee}(%x) : ({NUMBER}) -> {NUMBER}"
    kernel = f'entry @k(%x: tile<i32>) {{\n{call}\nprint_tko "%d", %y : tile<i32> -> token\nreturn }}'
    return f"cuda_tile.module @m {{\n{functions}\n{kernel}\n}}"


def function(name: str, body: str) -> str:
    return f"testing$func @{name}(%a: tile<i32>) -> tile<i32> {{\n{body}\nreturn %r : tile<i32> }}\n"


def test_bodies_are_copied_with_the_calls_in_them() -> None:
    inner = function("g", "%r = muli %a, %a : tile<i32>")
    outer = function("f", f"%b = preview$call @g(%a) : ({NUMBER}) -> {NUMBER}\n%r = addi %b, %a : tile<i32>")
    text, reasons = run(calling(inner + outer), "inline")
    kernel = text[text.index("entry @k") :]
    assert "preview$call" not in text and "muli %arg0, %arg0" in kernel and "addi %0, %arg0" in kernel
    assert set(reasons) == {""}
    small = text.replace(text[text.index("testing$func") : text.index("entry @k")], "")
    assert (
        libtile.compare_runs(
            small.encode(),
            calling("")
            .replace(
                f"%y = preview$call @f(%x) : ({NUMBER}) -> {NUMBER}",
                "%q = muli %x, %x : tile<i32>\n%y = addi %q, %x : tile<i32>",
            )
            .encode(),
            runs=3,
        ).difference
        is None
    )


@pytest.mark.parametrize(
    ("functions", "callee", "reason"),
    [
        ("", "f", "the module does not define what is called"),
        (function("f", f"%r = preview$call @f(%a) : ({NUMBER}) -> {NUMBER}"), "f", "the function calls itself"),
        (
            function("f", "%c = constant <i1: true> : tile<i1>\n%r = addi %a, %a : tile<i32>\n"
                          "if %c {\nreturn %a : tile<i32>\n}"),
            "f",
            "the function returns early",
        ),
    ],
)  # fmt: skip
def test_calls_stay_for_a_reason(functions: str, callee: str, reason: str) -> None:
    text, reasons = run(calling(functions, callee), "inline")
    assert "preview$call" in text[text.index("entry @k") :] and set(reasons) == {reason}


GLOBALS = """cuda_tile.module @m {{
  global private {flag} @a <i32: [1, 2]> : tile<2xi32>
  global {seen} constant @b <i32: [1, 2]> : tile<2xi32>
  global private constant @c <i32: [1, {last}]> : tile<2xi32>
  entry @k() {{
    %b = get_global @b : tile<ptr<i32>>
    %c = get_global @c : tile<ptr<i32>>
    %x, %t = load_ptr_tko weak %b : tile<ptr<i32>> -> tile<i32>, token
    %y, %u = load_ptr_tko weak %c : tile<ptr<i32>> -> tile<i32>, token
    print_tko "%d %d", %x, %y : tile<i32>, tile<i32> -> token
    {more}
    return
  }}
}}"""


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ({}, 1),
        ({"flag": ""}, 2),
        ({"seen": ""}, 2),
        ({"last": "3"}, 2),
        ({"more": "%n = ptr_to_int %b : tile<ptr<i32>> -> tile<i64>"}, 3),
    ],
)
def test_globals_are_merged_that_nobody_can_tell_apart(changed: dict[str, str], left: int) -> None:
    settings = {"flag": "constant", "seen": "private", "last": "2", "more": "", **changed}
    text, _ = run(GLOBALS.format(**settings), "deduplicate-symbols")
    assert text.count("\n  global ") == left, text
    original = GLOBALS.format(**settings).encode()
    assert libtile.compare_runs(original, text.encode(), runs=1).difference is None
