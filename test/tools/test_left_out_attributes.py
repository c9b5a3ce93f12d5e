# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes that ops do not declare, which bytecode has no place for: every route that writes it says so, once for
each name, and writes the same bytes as without them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import libtile
from tools.process import run

TEXT = """\
module attributes {outer = 1 : i32} {
cuda_tile.module @m attributes {mod = "x"} {
  entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
    %0 = constant <i32: 0> : tile<i32>
    %1 = constant <i32: 1> : tile<i32>
    for %i in (%0 to %n, step %1) : tile<i32> {
      %t = store_ptr_tko weak %p, %i {foo = 1 : i32} : tile<ptr<i32>>, tile<i32> -> token
      %u = store_ptr_tko weak %p, %1 {foo = 2 : i32} : tile<ptr<i32>>, tile<i32> -> token
    } {cuda_tile.loop_unroll = 2 : i32}
    return
  }
}
}
"""
BARE = TEXT.replace(" attributes {outer = 1 : i32}", "").replace(' attributes {mod = "x"}', "")
BARE = (
    BARE.replace(" {foo = 1 : i32}", "")
    .replace(" {foo = 2 : i32}", "")
    .replace(" {cuda_tile.loop_unroll = 2 : i32}", "")
)

LEFT_OUT = [
    (1, 1, "outer", "1 op"), (2, 1, "mod", "1 op"), (6, 5, "cuda_tile.loop_unroll", "1 op"), (7, 12, "foo", "2 ops"),
]  # fmt: skip
"""Line and column of the first op, the attribute, how many ops have it."""

WAYS = {
    "cuda_tile_translate": ("-mlir-to-cudatilebc",),
    "cuda_tile_opt": ("--emit-bytecode",),
    "cuda_tile_optimize": ("-O0", "--emit-bytecode"),
}


def sentence(name: str, ops: str) -> str:
    return f"left out attribute '{name}' of {ops}: bytecode has no place for it"


@pytest.mark.parametrize("tool", WAYS)
def test_a_tool_that_writes_bytecode_says_what_it_leaves_out(tool: str, tmp_path: Path) -> None:
    given, bare = tmp_path / "k.mlir", tmp_path / "bare.mlir"
    given.write_text(TEXT)
    bare.write_text(BARE)
    done = run(tool, *WAYS[tool], given, "-o", tmp_path / "k.bc")
    assert done.status == 0
    said = [line for line in done.err.splitlines() if "warning: " in line]
    assert said == [f"{given}:{line}:{column}: warning: {sentence(*rest)}" for line, column, *rest in LEFT_OUT]
    done = run(tool, *WAYS[tool], bare, "-o", tmp_path / "bare.bc")
    assert (done.status, done.err) == (0, "")
    assert (tmp_path / "k.bc").read_bytes() == (tmp_path / "bare.bc").read_bytes()


def test_a_reduction_by_bytecode_says_what_its_candidates_have_not(tmp_path: Path) -> None:
    given = tmp_path / "k.mlir"
    given.write_text(TEXT)
    done = run("cuda_tile_reduce", "-q", "--bytecode", "--test", "true", given, "-o", tmp_path / "small.mlir")
    assert done.status == 0
    assert done.err.splitlines() == [
        f"{given}:{line}:{column}: warning: {sentence(*rest)}" for line, column, *rest in LEFT_OUT
    ]


def test_the_library_warns_where_it_is_called() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = libtile.write(libtile.parse(TEXT, "k.mlir"), "13.4")
    assert {(w.category, w.filename) for w in caught} == {(libtile.AttributesDroppedWarning, __file__)}
    assert [str(w.message) for w in caught] == [
        f"k.mlir:{line}:{column}: {sentence(*rest)}" for line, column, *rest in LEFT_OUT
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert libtile.write(libtile.parse(BARE), "13.4") == data


def test_a_difference_of_what_stands_around_a_module_is_one_among_others() -> None:
    data = libtile.write(libtile.parse(BARE), "13.4")
    found = [str(one).splitlines()[0] for one in libtile.diff(libtile.parse(TEXT), libtile.read(data))]
    assert found == [
        "the module: attribute 'outer' of 'builtin.module'",
        "the module: attribute 'mod' of 'cuda_tile.module'",
        "entry @k: attribute 'cuda_tile.loop_unroll' of 'cuda_tile.for'",
    ]
    assert libtile.diff(libtile.parse(BARE), libtile.read(data)) == []
