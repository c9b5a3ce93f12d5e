# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuda-tile-optimize as a process: the open project's options, outputs and messages."""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from tools.process import ROOT, run

TOOL = "cuda_tile_optimize"
KERNEL = ROOT / "examples" / "gemm.bc"


def test_help_has_the_originals_options_examples_and_statuses() -> None:
    done = run(TOOL, "--help")
    assert done.status == 0
    for part in (
        "--before",
        "--after",
        "--opt-level",
        "--emit-bytecode",
        "--fuse-fma",
        "--enable-multithread",
        "Examples:",
    ):
        assert part in done.text


def test_text_goes_to_stdout() -> None:
    done = run(TOOL, KERNEL)
    assert (done.status, done.err) == (0, "")
    assert libtile.diff(done.out, libtile.optimize(KERNEL)) == []
    assert run(TOOL, "-", stdin=done.out).status == 0
    assert run(TOOL, "-q", KERNEL).out == b""


@pytest.mark.parametrize("level", ["-O0", "-O=0", "--opt-level=0", "-opt-level=0"])
def test_level_0_changes_nothing(level: str) -> None:
    assert libtile.diff(run(TOOL, level, KERNEL).out, KERNEL) == []


@pytest.mark.parametrize("option", ["-o", "--output-file", "-output-file"])
def test_files_are_text_or_bytecode(tmp_path: Path, option: str) -> None:
    done = run(TOOL, KERNEL, option, tmp_path / "a.mlir")
    assert (done.status, done.out, done.err) == (0, b"", "")
    assert run(TOOL, "--emit-bytecode", KERNEL, option, tmp_path / "a.bc").status == 0
    assert libtile.diff(libtile.read(tmp_path / "a.bc"), (tmp_path / "a.mlir").read_bytes()) == []


def test_verbose_shows_the_pipeline_and_the_text(tmp_path: Path) -> None:
    done = run(TOOL, "-v", "-O1", "--before", "licm", "--after=dce", "--fuse-fma", KERNEL, "-o", tmp_path / "a.mlir")
    assert done.status == 0 and done.text == (tmp_path / "a.mlir").read_text()
    assert done.err.startswith("Pipeline: licm, fuse-fma, canonicalize, cse") and done.err.endswith("dce\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'INPUT'"),
        (["missing.bc"], "cannot open input file 'missing.bc'"),
        (["-O4", str(KERNEL)], "4 is not in the range 0<=x<=3"),
        (["--before=canonicalize{", str(KERNEL)], "missing closing '}'"),
        (["--emit-bytecode", str(KERNEL)], "--emit-bytecode needs an output file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments: list[str], message: str) -> None:
    done = run(TOOL, *arguments)
    assert (done.status, done.out) == (1, b"")
    assert message in done.err


def test_an_invalid_program_is_refused_with_its_line() -> None:
    op = '"cuda_tile.negi"(%x) : (tile<f32>) -> tile<f32>'
    text = f"cuda_tile.module @m {{\n entry @k(%x: tile<f32>) {{\n {op}\n return }} }}".encode()
    done = run(TOOL, "-", stdin=text)
    assert done.status == 1 and done.err.startswith("-:3:2: error: 'cuda_tile.negi' op operand #0")
