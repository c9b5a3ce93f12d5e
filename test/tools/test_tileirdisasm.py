# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tileirdisasm as a process: the original's options, text and exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from libtile import bytecode
from tools.process import ROOT, run

TOOL = "tileirdisasm"
KERNEL = ROOT / "examples" / "vector_add.bc"


def test_help_has_the_originals_options_examples_and_statuses() -> None:
    done = run(TOOL, "--help")
    assert done.status == 0
    for part in ("-g", "--print-debug-info", "--preview", "--version", "Examples:", "Exit status:"):
        assert part in done.text


@pytest.mark.parametrize("option", ["-h", "-help", "--help-list", "--help-hidden", "--help-list-hidden"])
def test_every_spelling_of_help_works(option: str) -> None:
    assert run(TOOL, option).text == run(TOOL, "--help").text


def test_version_names_the_tool() -> None:
    done = run(TOOL, "--version")
    assert (done.status, done.text.splitlines()[0]) == (0, "tileirdisasm: CUDA Tile IR disassembler")


def test_text_starts_with_the_entry_and_has_no_module() -> None:
    done = run(TOOL, KERNEL)
    assert (done.status, done.err) == (0, "")
    assert done.text.startswith("entry @vector_add(%arg0: tile<ptr<f32>>")
    assert done.text.endswith("}\n")


@pytest.mark.parametrize("option", ["-g", "--print-debug-info", "-print-debug-info"])
def test_debug_information_is_printed_on_request(option: str) -> None:
    done = run(TOOL, option, KERNEL)
    assert "loc(#loc" in done.text and "#di_subprogram = " in done.text
    assert "loc(" not in run(TOOL, KERNEL).text


def test_flag_may_be_switched_off() -> None:
    assert run(TOOL, "-g=false", KERNEL).text == run(TOOL, KERNEL).text


@pytest.mark.parametrize("option", ["--print-options", "--print-all-options"])
def test_hidden_options_of_the_original_change_nothing(option: str) -> None:
    assert run(TOOL, option, KERNEL).text == run(TOOL, KERNEL).text


def test_stdin_is_read_for_a_dash() -> None:
    assert run(TOOL, "-", stdin=KERNEL.read_bytes()).text == run(TOOL, KERNEL).text


def test_no_input_is_an_error_of_its_own() -> None:
    done = run(TOOL)
    assert (done.status, done.err) == (2, "error: no input file provided\n")


def test_missing_file_is_an_error_of_its_own() -> None:
    done = run(TOOL, "no-such-file.bc")
    assert (done.status, done.out) == (2, b"")
    assert done.err == "error: unable to read input file 'no-such-file.bc': No such file or directory\n"


@pytest.mark.parametrize("data", [b"", b"garbage"])
def test_other_file_is_no_bytecode(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.bc"
    path.write_bytes(data)
    done = run(TOOL, path)
    assert (done.status, done.out, done.err) == (3, b"", "error: input does not correspond to Tile IR bytecode\n")


def test_a_text_of_tile_ir_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "x.mlir"
    path.write_text("cuda_tile.module @m {}")
    done = run(TOOL, path)
    assert (done.status, done.err.splitlines()[1:]) == (3, [bytecode.IS_TEXT])


def test_bad_bytecode_prints_nothing_but_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.bc"
    path.write_bytes(KERNEL.read_bytes()[:-50])
    done = run(TOOL, path)
    assert (done.status, done.out) == (3, b"")
    lines = done.err.splitlines()
    assert all(line.startswith("error: ") for line in lines)
    assert lines[-1] == "error: failed to read provided Tile IR bytecode"


def test_unknown_preview_feature_is_refused() -> None:
    done = run(TOOL, "--preview=warp_drive", KERNEL)
    assert done.status == 1
    assert "unknown preview feature 'warp_drive'; supported features: simt" in done.err


def test_known_preview_feature_is_accepted() -> None:
    assert run(TOOL, "--preview=simt", KERNEL).status == 0
