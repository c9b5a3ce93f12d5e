# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every pass over cuda_tile counts what it does, and says what it did, what it missed and why.

What it does is shown by its example in docs/passes.md or docs/lowering-passes.md; what it misses, by a change to that
example.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.passes.registry import CUDA_TILE, PASSES
from libtile.support import remarks, statistics
from libtile.support.remarks import Category, Kind, Remark
from transforms.test_docs import EXAMPLE, TEXT

REMARKS = (Path(__file__).parents[2] / "docs" / "remarks.md").read_text()
NEVER_MISSES = {
    "strip-debug-info": "every op has a location, and each can be taken off",
    "test-debuginfo-update-symbol-name": "what cannot be renamed is an error",
}
"""Passes that can do all that they are for, and why."""
NOT_OPTIONAL = {
    "convert-cuda-tile-to-tileaa": "it converts a whole module or fails; what it knows of accesses, remarks say later",
}
"""Passes that transform nothing which could stay as it is."""

Edits = dict[str, str]
MISSED: dict[str, tuple[str, Edits, str]] = {
    "canonicalize": ("{max-iterations=1}", {}, "the bound of 1 sweeps is reached"),
    "cse": (
        "",
        {
            "%a = muli %x, %x : tile<i32>": "%a = if %in -> (tile<i32>) {\n%s = muli %x, %x : tile<i32>\n"
            "yield %s : tile<i32>\n} else {\nyield %x : tile<i32>\n}",
            "%x: tile<i32>)": "%x: tile<i32>, %in: tile<i1>)",
        },
        "the one before it stands in a branch or a loop",
    ),
    "dce": (
        "",
        {"store_ptr_tko weak %out, %sum :": "store_ptr_tko weak %out, %sum token=%token :"},
        "others wait for its token",
    ),
    "licm": ("", {}, "no iteration is certain to reach it"),
    "loop-split": ("", {"cmpi less_than %i": "cmpi equal %i"}, "its condition does not compare"),
    "loop-unsplit": (
        "",
        {"%a, %half, %sum : tile<8x8xf32>, tile<8x8xf32>, tile<8x8xf32>\n      %next":
             "%a, %a, %sum : tile<8x8xf32>, tile<8x8xf32>, tile<8x8xf32>\n      %next"},
        "their bodies load, store or multiply differently",
    ),
    "loop-unguard": (
        "",
        {"yield %a : tile<8x8xf32>": "%b = addf %a, %a : tile<8x8xf32>\nyield %b : tile<8x8xf32>"},
        "it gives something else where its condition does not hold",
    ),
    "loop-once": ("", {"break %half : tile<i32>": "continue"}, "it may go on with another iteration"),
    "loop-unroll": ("{max-ops=1}", {}, "2 copies of 2 ops are more than 1 ops"),
    "loop-peel": ("{max-ops=1}", {}, "copies of 2 ops are more than 1 ops"),
    "loop-interchange": (
        "",
        {"muli %j, %width": "muli %i, %width", "addi %row, %i": "addi %row, %j"},
        "the inner loop walks through memory in steps that are no larger",
    ),
    "keep-tiles": ("{max-bytes=1}", {}, "which is more than 1"),
    "merge-loads": ("{adjacent=true max-elements=16}", {}, "together they have more than 16 elements"),
    "strength-reduce": ("", {" overflow<no_signed_wrap> : tile<64": " : tile<64"}, "addi of 32 bits may wrap around"),
    "fuse-fma": ("", {"subf %p, %c": "subf %p, %p"}, "something else uses the product as well"),
    "sccp": (
        "",
        {
            "%product = muli %last, %count": "%d = constant <i32: [1, 2]> : tile<2xi32>\n"
            '%e = addi %d, %d : tile<2xi32>\nprint_tko "%d", %e : tile<2xi32> -> token\n'
            "%product = muli %last, %count"
        },
        "its elements are different constants",
    ),
    "reorder-broadcast": (
        "",
        {"%at = muli %rows, %stride : tile<8x4xi32>":
             "%at = for %i in (%n to %n, step %n) : tile<i32> iter_values(%x = %stride) -> (tile<8x4xi32>) {\n"
             "%y = muli %x, %x : tile<8x4xi32>\ncontinue %y : tile<8x4xi32>\n}"},
        "an operand is the same along a dimension",
    ),
    "simplify-integers": (
        "",
        {"%moved = addi %r, %width": "%moved = divi %n, %width signed rounding<negative_inf>"},
        "its dividend may be negative",
    ),
    "eliminate-redundant-tokens": (
        "{every-store=false}",
        {
            "return": "%one = constant <i32: 1> : tile<i32>\n"
            "%next = offset %a, %one : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>\n"
            "%t3 = store_ptr_tko weak %next, %s token=%t2 : tile<ptr<f32>>, tile<f32> -> token\nreturn"
        },
        "a barrier less is not worth",
    ),
    "if-to-select": ("{max-ops=1}", {}, "the branches have more than 1 ops"),
    "recover-views": ("", {"addi %start, %count overflow<no_signed_wrap>": "addi %start, %count"}, "may wrap around"),
    "expand-views": ("", {"load_view_tko weak": "load_view_tko relaxed device"}, "the access is not weak"),
    "contract-views": ("", {"load_ptr_tko weak": "load_ptr_tko relaxed device"}, "the access is not weak"),
    "infer-in-bounds": ("", {}, "the index ends beyond what is known of the size"),
    "infer-assumptions": ("", {"weak %view[%i]": "weak %view[%n]"}, "it comes from a parameter"),
    "inline": ("", {"preview$call @twice": "preview$call @other"}, "the module does not define what is called"),
    "deduplicate-symbols": ("", {"global private constant @b": "global private @b"}, "it can be written"),
    "symbol-dce": ("", {}, "the host can see it"),
    "synthesize-debug-info-scopes": ("", {'return loc("/src/kernel.py":4:5)': "return loc(unknown)"}, "no position"),
    "view-operands": ("", {"constant <f16: 0.0>": "constant <f16: 1.0>"}, "it is padded by what no view is padded by"),
    "collapse-loops": ("", {"bounded<0, 4096>": "bounded<?, 4096>"}, "a number of iterations may be negative"),
    "strip-mine": (
        "",
        {"return": 'print_tko "%f", %y : tile<4194304xf32> -> token\nreturn'},
        "a large tile is needed whole",
    ),
}  # fmt: skip
"""For each pass: its options, what is changed in its example, and a part of the reason that it gives."""

EXAMPLES: dict[str, tuple[str, str]] = {}
"""Each pass's program, and the options with which the page runs the pass."""
for before, command, _ in EXAMPLE.findall(TEXT):
    name, _, given = shlex.split(command)[0].removeprefix("--").partition("=")
    EXAMPLES.setdefault(name, (before, f"{{{given}}}" if given else ""))
OVER_CUDA_TILE = sorted(name for name, entry in PASSES.items() if CUDA_TILE in entry.works_on)


def run(text: str, pipeline: str) -> tuple[list[Remark], dict[str, int]]:
    """What a pass says, and what it counts."""
    module = libtile.parse(text)
    libtile.verify(module)
    with remarks.collect() as said, statistics.collect() as counted:
        PassManager(parse_pipeline(pipeline)).run(ModuleOp([module.op]))
    assert {remark.category for remark in said} <= {Category.PASSES}
    return said, counted


@pytest.mark.parametrize("name", [name for name in OVER_CUDA_TILE if name not in NOT_OPTIONAL])
def test_a_pass_counts_and_says_what_it_did(name: str) -> None:
    text, options = EXAMPLES[name]
    said, counted = run(text, name + options)
    assert sum(counted.values()) > 0
    done = [remark for remark in said if remark.kind is Kind.PASSED]
    assert done and all(f"`{remark.name}`" in REMARKS for remark in done)


@pytest.mark.parametrize("name", [name for name in OVER_CUDA_TILE if name not in NOT_OPTIONAL | NEVER_MISSES])
def test_a_pass_says_what_it_missed_and_why(name: str) -> None:
    options, edits, reason = MISSED[name]
    text = EXAMPLES[name][0]
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    said, _ = run(text, name + options)
    missed = [dict(remark.arguments)["Reason"] for remark in said if remark.kind is Kind.MISSED]
    assert any(reason in found for found in missed), missed


KERNEL = """cuda_tile.module @m {{
  global private constant @a <i32: [1, 2]> : tile<2xi32>
  global {flag} @b <i32: [1, 2]> : tile<2xi32>
  entry @k(%p: tile<ptr<i32>>, %c: tile<i1>) {{
    {body}
    return
  }}
}}"""
LOAD = "%x, %t = load_ptr_tko {} %p : tile<ptr<i32>> -> tile<i32>, token"
TWICE = "%{0} = if %c -> (tile<i32>) {{\n{1}\nyield %s : tile<i32>\n}} else {{\n{2}\nyield %s : tile<i32>\n}}"
SQUARE = "%s = muli %z, %z : tile<i32>"
NUMBER = "%z = constant <i32: 3> : tile<i32>\n"
SHOWN = '\nprint_tko "%d", %{} : tile<i32> -> token'


@pytest.mark.parametrize(
    ("name", "body", "reasons"),
    [
        ("dce", LOAD.format("relaxed device"), ["others can tell that it reads: it is not weak"]),
        ("dce", LOAD.format("weak"), []),
        ("dce", "loop {\nif %c {\nbreak\n}\ncontinue\n}", ["it may never end"]),
        ("dce", 'loop {\nprint_tko "x" -> token\nif %c {\nbreak\n}\ncontinue\n}', []),
        ("cse", NUMBER + TWICE.format("r", SQUARE, SQUARE) + SHOWN.format("r"), []),  # no run computes both
        (
            "cse",
            NUMBER + TWICE.format("r", SQUARE, "%s = addi %z, %z : tile<i32>") + SHOWN.format("r") + "\n" + SQUARE
            + SHOWN.format("s"),
            ["the one before it stands in a branch or a loop, and what it gives is not known here"],
        ),
        ("deduplicate-symbols", "", ["the host can see it, since it is not private"]),
        (
            "deduplicate-symbols",
            "%n = ptr_to_int %p : tile<ptr<i32>> -> tile<i64>",
            ["the module looks at addresses as numbers, and these are different ones"],
        ),
        ("symbol-dce", "%b = get_global @b : tile<ptr<i32>>", []),
    ],
)  # fmt: skip
def test_more_reasons(name: str, body: str, reasons: list[str]) -> None:
    said, _ = run(KERNEL.format(flag="constant", body=body), name)
    assert [dict(remark.arguments)["Reason"] for remark in said if remark.kind is Kind.MISSED] == reasons


def test_a_load_again_in_nv_tileaa_names_what_may_have_written_in_between() -> None:
    twice = LOAD.format("weak") + "\nstore_ptr_tko weak %p, %x token=%t : tile<ptr<i32>>, tile<i32> -> token\n"
    twice += LOAD.format("weak").replace("%x, %t", "%y, %u") + SHOWN.format("y")
    said, _ = run(KERNEL.format(flag="constant", body=twice), "convert-cuda-tile-to-tileaa,cse")
    (missed,) = [remark for remark in said if remark.kind is Kind.MISSED]
    assert "may write in between what both read" in dict(missed.arguments)["Reason"]
