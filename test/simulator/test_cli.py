# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile.simulator`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from .ptx import OUT, module

ADD = (
    OUT
    + "ld.param.u64 %rd2, [p1]; mul.wide.u32 %rd3, %r0, 4; add.u64 %rd2, %rd2, %rd3; ld.global.f32 %f1, [%rd2];"
    + "ld.param.f32 %f2, [p2]; add.f32 %f1, %f1, %f2; st.global.f32 [%rd1], %f1;"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = module(ADD, params=".param .u64 out, .param .u64 p1, .param .f32 p2")
    (tmp_path / "add.ptx").write_text(text)
    np.save(tmp_path / "a.npy", np.arange(32, dtype=np.float32))
    return tmp_path


def simulate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "libtile.simulator", "add.ptx", "--entry", "k", *arguments]
    root = Path(__file__).parents[2]
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )


GOOD = ("--block", "32", "--arg", "zeros:f32:4x8", "--arg", "a.npy", "--arg", "f32:1.5")


def test_arrays_come_from_files_and_go_back_to_files(folder: Path) -> None:
    done = simulate(folder, *GOOD, "--out", "0:c.npy", "--stats")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(folder / "c.npy"), (np.arange(32, dtype=np.float32) + 1.5).reshape(4, 8))
    assert "warp instructions" in done.stderr


def test_trace_prints_warps_lanes_and_instructions(folder: Path) -> None:
    done = simulate(folder, *GOOD, "--trace")
    assert "(0,0,0) w0  ffffffff" in done.stderr
    assert "add.f32 %f1, %f1, %f2;" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--block", "33", *GOOD[2:]), 1, "error: out-of-bounds: "),
        (("--block", "32"), 1, "error: k has 3 parameters, got 0 arguments"),
        (("--entry", "q"), 1, "error: there is no entry q"),
        ((*GOOD[:-1], "f99:1"), 2, "--arg f99:1: expected FILE.npy"),
        ((*GOOD[:-1], "f32:x"), 2, "--arg f32:x"),
        ((*GOOD[:-1], "missing.npy"), 2, "missing.npy"),
        ((*GOOD, "--out", "7:x.npy"), 2, "--out 7:x.npy"),
        ((*GOOD, "--grid", "0"), 2, "positive"),
    ],
)
def test_errors_are_one_line_and_set_the_exit_status(
    folder: Path, arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = simulate(folder, *arguments)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_of_the_ptx_text_name_file_and_line(folder: Path) -> None:
    (folder / "add.ptx").write_text(".version 9.0\n.entry k() { frob; }\n")
    done = simulate(folder)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("add.ptx:2:14: error: instruction frob is not simulated")


def test_help_has_examples_and_exit_status(folder: Path) -> None:
    done = simulate(folder, "--help")
    assert "Examples:" in done.stdout and "Exit status" in done.stdout
