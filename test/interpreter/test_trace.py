# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces and progress: what a run shows while it runs."""

from __future__ import annotations

import io
import sys

import ml_dtypes
import numpy as np
import pytest

from cuda_tile_run import main as cuda_tile_run
from interpreter.helpers import tile
from interpreter.programs import run_body, scalar_store
from libtile.dialects.cuda_tile.types import PointerType, TileType, TokenType, f32
from libtile.interpreter.trace import Tracer, summarise


@pytest.mark.parametrize("value, type_, want", [
    (np.float32(1.5), tile((), "f32"), "tile<f32> = 1.5"),
    (np.array([1.0, -2.5, np.nan], np.float32), tile((4,), "f32"), "tile<4xf32> in -2.5 .. 1, 1 nan"),
    (np.full(4, np.nan), tile((4,), "f64"), "tile<4xf64> = nan"),
    (np.array([2, 2], np.int8), tile((2,), "i8"), "tile<2xi8> = 2"),
    (np.array([True, False]), tile((2,), "i1"), "tile<2xi1> in False .. True"),
    (np.array([1, 4], ml_dtypes.bfloat16), tile((2,), "bf16"), "tile<2xbf16> in 1 .. 4"),
    (np.array([4096, 8192]), TileType((2,), PointerType(f32)), "tile<2xptr<f32>> in 0x1000 .. 0x2000"),
    (None, TokenType(), "token"),
])  # fmt: skip
def test_a_value_is_summarised_in_a_few_words(value, type_, want):
    assert summarise(value, type_) == want


LOOP = """
%zero = constant <i32: 0> : tile<i32>
%two = constant <i32: 2> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%r = for %i in (%zero to %two, step %one) : tile<i32> iter_values(%x = %zero) -> (tile<i32>) {
  %y = addi %x, %two : tile<i32>
  continue %y : tile<i32>
}
""" + scalar_store("r", "out", "i32")


def test_a_trace_is_called_after_each_op_with_its_results():
    seen = []
    run_body("%out: tile<ptr<i32>>", LOOP, [np.zeros(1, np.int32)], 2,
             trace=lambda block, op, values: seen.append((block.id[0], op.name.split(".")[1], *values)))  # fmt: skip
    first = [entry[1:] for entry in seen if entry[0] == 0]
    assert [(name, int(values[0])) for name, *values in first if name == "addi"] == [("addi", 2), ("addi", 4)]
    assert ("for", 4) in first
    assert first == [entry[1:] for entry in seen if entry[0] == 1]


def test_a_tracer_stops_at_its_limit():
    out = io.StringIO()
    run_body("%out: tile<ptr<i32>>", LOOP, [np.zeros(1, np.int32)], trace=Tracer(out, limit=2))
    assert out.getvalue().splitlines() == [
        "(0, 0, 0) k.mlir:5:9: constant -> %zero: tile<i32> = 0",
        "(0, 0, 0) k.mlir:6:8: constant -> %two: tile<i32> = 2",
    ]


def test_progress_appears_after_a_second_and_ends_its_line(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(cuda_tile_run.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    show = cuda_tile_run.progress_line(True)
    for done, at in ((1, 0.5), (2, 1.5), (3, 1.55), (4, 2.0)):
        now[0] = at
        show(done, 4)
    assert sys.stderr.getvalue() == "\r2 of 4 tile blocks, 2 s\r4 of 4 tile blocks, 2 s\n"
    assert cuda_tile_run.progress_line(False) is None
