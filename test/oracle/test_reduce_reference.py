# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuda-tile-reduce with the reference assembler as what judges: bytecode goes in, and a few ops come out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import libtile
from oracle import require_tool, run_tileiras
from tools.process import run

pytestmark = pytest.mark.oracle

SCALED = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f8E8M0FNU>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<16xf32>
    %i = iota : tile<16xi32>
    %p1 = reshape %p : tile<ptr<f8E8M0FNU>> -> tile<1xptr<f8E8M0FNU>>
    %ps = broadcast %p1 : tile<1xptr<f8E8M0FNU>> -> tile<16xptr<f8E8M0FNU>>
    %at = offset %ps, %i : tile<16xptr<f8E8M0FNU>>, tile<16xi32> -> tile<16xptr<f8E8M0FNU>>
    %sum = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%s = %start) -> (tile<16xf32>) {
      %v, %t = load_ptr_tko weak %at : tile<16xptr<f8E8M0FNU>> -> tile<16xf8E8M0FNU>, token
      %w = ftof %v : tile<16xf8E8M0FNU> -> tile<16xf32>
      %next = addf %s, %w : tile<16xf32>
      continue %next : tile<16xf32>
    }
    %q1 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
    %qs = broadcast %q1 : tile<1xptr<f32>> -> tile<16xptr<f32>>
    %to = offset %qs, %i : tile<16xptr<f32>>, tile<16xi32> -> tile<16xptr<f32>>
    %u = store_ptr_tko weak %to, %sum : tile<16xptr<f32>>, tile<16xf32> -> token
    return
  }
}
"""
REFUSAL = "unsupported type 'f8E8M0FNU'"


def test_what_the_reference_refuses_is_reduced_to_the_type(tmp_path: Path) -> None:
    tool = require_tool("tileiras")
    (tmp_path / "k.bc").write_bytes(libtile.write(libtile.parse(SCALED), "13.3"))
    assert REFUSAL in run_tileiras((tmp_path / "k.bc").read_bytes(), "sm_80").stderr
    judge = f"{tool} --gpu-name=sm_80 {{}} -o /dev/null"
    done = run(
        "cuda_tile_reduce", "-q", "--output", REFUSAL, "--test", judge, tmp_path / "k.bc", "-o", tmp_path / "small.bc"
    )
    assert done.status == 0, done.err
    small = libtile.read(tmp_path / "small.bc")
    assert REFUSAL in run_tileiras((tmp_path / "small.bc").read_bytes(), "sm_80").stderr
    assert sum(1 for _ in small.op.walk()) <= 5, str(small)


@pytest.mark.slow
def test_a_crash_of_the_reference_is_reduced(tmp_path: Path) -> None:
    """The reference with a fault of the wrapper's own, which ends by a signal on every program with a loop in it."""
    tool = require_tool("tileirdisasm")
    script = tmp_path / "crashing.py"
    script.write_text(
        "import os, signal, subprocess, sys\n"
        f"text = subprocess.run([{str(tool)!r}, sys.argv[1]], capture_output=True, text=True).stdout\n"
        "if ' for ' in text:\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
    )
    (tmp_path / "k.bc").write_bytes(libtile.write(libtile.parse(SCALED), "13.3"))
    judge = f"{sys.executable} {script}"
    done = run("cuda_tile_reduce", "-q", "--crash", "--test", judge, tmp_path / "k.bc", "-o", tmp_path / "small.mlir")
    assert done.status == 0, done.err
    text = (tmp_path / "small.mlir").read_text()
    assert " for " in text and "load" not in text and len(text.splitlines()) <= 10, text
