# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cuda-tile-translate as a process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from libtile import bytecode
from tools.process import run

TOOL = "cuda_tile_translate"

TEXT = """\
cuda_tile.module @kernels {
  entry @main(%arg0: tile<i32>) {
    %cst_1_i32 = constant <i32: 1> : tile<i32>
    %0 = addi %arg0, %cst_1_i32 : tile<i32>
    return
  }
}
"""
BAD = TEXT.replace("addi %arg0", "addi %missing")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.mlir"
    path.write_text(TEXT)
    return path


def test_help_has_options_examples_and_statuses() -> None:
    done = run(TOOL, "--help")
    assert done.status == 0
    for part in ("--mlir-to-cudatilebc", "--bytecode-version", "Examples:", "Exit status:"):
        assert part in done.text


def test_version_names_the_tool() -> None:
    done = run(TOOL, "-version")
    assert (done.status, done.text.splitlines()[0]) == (0, "cuda-tile-translate: CUDA Tile IR translation tool")


def test_text_becomes_bytecode_and_text_again(source: Path, tmp_path: Path) -> None:
    data = tmp_path / "kernel.bc"
    assert run(TOOL, "-mlir-to-cudatilebc", source, "-o", data).status == 0
    back = run(TOOL, "-cudatilebc-to-mlir", data)
    assert (back.status, back.text, back.err) == (0, TEXT, "")


def test_stdin_and_stdout_are_the_defaults() -> None:
    data = run(TOOL, "--mlir-to-cudatilebc", stdin=TEXT.encode()).out
    assert bytecode.is_bytecode(data)
    assert run(TOOL, "--cudatilebc-to-mlir", "-", stdin=data).text == TEXT


@pytest.mark.parametrize("version", ["13.1", "13.5"])
def test_bytecode_version_is_that_asked_for(version: str) -> None:
    done = run(TOOL, "-mlir-to-cudatilebc", f"-bytecode-version={version}", stdin=TEXT.encode())
    assert str(bytecode.read(done.out).version) == version


def test_newest_version_is_the_default() -> None:
    assert str(bytecode.read(run(TOOL, "-mlir-to-cudatilebc", stdin=TEXT.encode()).out).version) == "13.5"


def test_round_trip_prints_the_text() -> None:
    assert run(TOOL, "-test-cudatile-roundtrip", stdin=TEXT.encode()).text == TEXT


def test_generic_form_is_printed_on_request() -> None:
    done = run(TOOL, "-test-cudatile-roundtrip", "-mlir-print-op-generic", stdin=TEXT.encode())
    assert '"cuda_tile.addi"' in done.text


def test_syntax_error_names_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "bad.mlir"
    path.write_text(BAD)
    output = tmp_path / "out.bc"
    done = run(TOOL, "-mlir-to-cudatilebc", path, "-o", output)
    assert done.status == 1
    assert f"{path}:4:15: error: use of undeclared SSA value name" in done.err
    assert not output.exists()


def test_invalid_module_is_refused_with_the_verifiers_words(tmp_path: Path) -> None:
    text = TEXT.replace("entry @main(%arg0: tile<i32>)", "entry @main(%arg0: tile<4xi32>)").replace("addi", "addi")
    done = run(TOOL, "-mlir-to-cudatilebc", "-o", tmp_path / "out.bc", stdin=text.encode())
    assert done.status == 1 and "<stdin>:" in done.err and "error:" in done.err
    assert os.listdir(tmp_path) == []


def test_feature_of_a_later_version_is_refused_where_it_is() -> None:
    text = TEXT.replace("addi %arg0, %cst_1_i32", "negi %arg0 overflow<no_signed_wrap>")
    done = run(TOOL, "-mlir-to-cudatilebc", "-bytecode-version=13.1", stdin=text.encode())
    assert (done.status, done.out) == (1, b"")
    assert "<stdin>:4:10: error: attribute 'overflow' requires bytecode version 13.2+, but targeting 13.1" in done.err


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "error at offset 0"),
        (b"text", "error at offset 0"),
        (b"\x7fTileIR\x00\x12\x00\x00\x00", "unsupported Tile version 18.0.0"),
    ],
)
def test_bad_bytecode_is_one_error_with_its_offset(data: bytes, message: str) -> None:
    done = run(TOOL, "-cudatilebc-to-mlir", stdin=data)
    assert (done.status, done.out) == (1, b"")
    assert done.err.startswith("<stdin>: error at offset") and message in done.err
    assert done.err.count("\n") == 1


def test_truncated_bytecode_leaves_no_output_file(tmp_path: Path) -> None:
    data = run(TOOL, "-mlir-to-cudatilebc", stdin=TEXT.encode()).out
    done = run(TOOL, "-cudatilebc-to-mlir", "-o", tmp_path / "out.mlir", stdin=data[:-20])
    assert done.status == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("arguments", [[], ["-mlir-to-cudatilebc", "-cudatilebc-to-mlir"]])
def test_exactly_one_translation_has_to_be_chosen(arguments: list[str]) -> None:
    done = run(TOOL, *arguments)
    assert done.status == 1 and "choose exactly one translation" in done.err


def test_unknown_version_is_refused() -> None:
    done = run(TOOL, "-mlir-to-cudatilebc", "-bytecode-version=12.0", stdin=TEXT.encode())
    assert done.status == 1
    assert "Invalid argument '12.0': the supported versions are [13.1 - 13.3] and [13.4 - 13.5]" in done.err


def test_missing_input_is_one_error() -> None:
    done = run(TOOL, "-mlir-to-cudatilebc", "no-such-file.mlir")
    assert (done.status, done.err) == (1, "cannot open input file 'no-such-file.mlir': No such file or directory\n")


def test_versions_are_listed_one_a_line() -> None:
    done = run(TOOL, "--list-versions")
    assert done.text.split() == ["13.1", "13.2", "13.3", "250.0", "250.1", "13.4", "13.5"]


def test_parts_are_translated_one_by_one_and_all_errors_reported() -> None:
    text = f"{BAD}// -----\n{TEXT}// -----\n{BAD}"
    done = run(TOOL, "-test-cudatile-roundtrip", "-split-input-file", stdin=text.encode())
    assert done.status == 1
    assert "<stdin>:4:15: error" in done.err and "<stdin>:20:15: error" in done.err


def test_parts_are_printed_with_the_marker_between() -> None:
    done = run(TOOL, "-test-cudatile-roundtrip", "-split-input-file", stdin=f"{TEXT}// -----\n{TEXT}".encode())
    assert (done.status, done.text) == (0, f"{TEXT}// -----\n{TEXT}")


def test_several_modules_do_not_fit_into_one_bytecode_file(tmp_path: Path) -> None:
    text = f"{TEXT}// -----\n{TEXT}".encode()
    done = run(TOOL, "-mlir-to-cudatilebc", "-split-input-file", "-o", tmp_path / "out.bc", stdin=text)
    assert done.status == 1 and "several modules do not fit" in done.err
    assert os.listdir(tmp_path) == []


def test_announced_diagnostics_make_the_run_succeed() -> None:
    text = BAD.replace("    %0 =", "    // expected-error @below {{use of undeclared SSA value name}}\n    %0 =")
    assert run(TOOL, "-mlir-to-cudatilebc", "-verify-diagnostics", stdin=text.encode()).status == 0


def test_missing_diagnostics_make_the_run_fail() -> None:
    text = "// expected-error @below {{nothing of the kind}}\n" + TEXT
    done = run(TOOL, "-mlir-to-cudatilebc", "-verify-diagnostics", stdin=text.encode())
    assert done.status == 1 and "was not produced" in done.err


def test_a_preview_file_is_read_when_its_feature_is_enabled(tmp_path: Path) -> None:
    call = "%0 = preview$call @foo(%arg0) : (!cuda_tile.tile<i32>) -> !cuda_tile.tile<i32>"
    source, made = tmp_path / "call.mlir", tmp_path / "call.bc"
    source.write_text(f"cuda_tile.module @m {{ entry @k(%arg0: tile<i32>) {{ {call} return }} }}")
    assert run(TOOL, "-mlir-to-cudatilebc", source, "-o", made).status == 0
    refused = run(TOOL, "-cudatilebc-to-mlir", made)
    assert refused.status == 1 and "requires at least one enabled preview feature" in refused.err
    assert call in run(TOOL, "-cudatilebc-to-mlir", "--preview=simt", made).text


HINTED = TEXT.replace("(%arg0: tile<i32>) {", "(%arg0: tile<i32>) optimization_hints=<default = {occupancy = 2}> {")


def test_default_hints_are_refused_by_an_old_version_with_what_can_be_done() -> None:
    done = run(TOOL, "-mlir-to-cudatilebc", "-bytecode-version=13.1", stdin=HINTED.encode())
    assert (done.status, done.out) == (1, b"")
    assert done.err.splitlines()[-2:] == [
        "note: hints change no program: --for-target=SM writes them for one target",
        "note: --drop-hints leaves out the hints that the version cannot hold",
    ]


def test_bytecode_becomes_an_older_version_with_its_hints_for_one_target(tmp_path: Path) -> None:
    newer, older = tmp_path / "newer.bc", tmp_path / "older.bc"
    assert run(TOOL, "-mlir-to-cudatilebc", "-o", newer, stdin=HINTED.encode()).status == 0
    options = "-cudatilebc-to-cudatilebc", "-bytecode-version=13.1", "--for-target=sm_90"
    done = run(TOOL, *options, newer, "-o", older)
    assert (done.status, done.err) == (0, "")
    assert str(bytecode.read(older.read_bytes()).version) == "13.1"
    text = run(TOOL, "-cudatilebc-to-mlir", older).text
    assert "optimization_hints=<sm_90 = {occupancy = 2}>" in text
    direct = run(TOOL, "-mlir-to-cudatilebc", "-bytecode-version=13.1", "-for-target", "sm_90", stdin=HINTED.encode())
    assert run(TOOL, "-cudatilebc-to-mlir", stdin=direct.out).text == text


@pytest.mark.parametrize("translation", ["-mlir-to-cudatilebc", "-cudatilebc-to-cudatilebc"])
def test_dropped_hints_are_said(translation: str) -> None:
    given = HINTED.encode()
    if translation != "-mlir-to-cudatilebc":
        given = run(TOOL, "-mlir-to-cudatilebc", stdin=given).out
    done = run(TOOL, translation, "-bytecode-version=13.2", "-drop-hints", stdin=given)
    assert done.status == 0
    assert done.err == (
        "warning: left out optimization hints for 'default' of 1 op: bytecode version 13.3+ is needed for them, "
        "but targeting 13.2\n"
    )
    assert "optimization_hints" not in run(TOOL, "-cudatilebc-to-mlir", stdin=done.out).text


def test_options_about_hints_need_bytecode_to_write() -> None:
    data = run(TOOL, "-mlir-to-cudatilebc", stdin=TEXT.encode()).out
    done = run(TOOL, "-cudatilebc-to-mlir", "-drop-hints", stdin=data)
    assert done.status == 1 and "are about the bytecode written" in done.err


def test_an_unknown_target_of_hints_is_refused() -> None:
    done = run(TOOL, "-mlir-to-cudatilebc", "-bytecode-version=13.1", "-for-target=gfx90", stdin=HINTED.encode())
    assert done.status == 1 and "optimization hints cannot be written for 'gfx90' (expected one of sm_80" in done.err


def test_options_of_mlir_translate_are_taken(tmp_path: Path) -> None:
    text = b"cuda_tile.module @m { entry @k() { %x = constant <i32: [1, 2]> : tile<2xi32>\nreturn } }\n"
    parts = text + b"// ====\n" + text
    done = run(
        TOOL, "-test-cudatile-roundtrip", "--split-input-file=// ==", "--output-split-marker=// next", "--mlir-timing",
        "--mlir-elide-elementsattrs-if-larger=1", "--mlir-disable-threading", "--error-diagnostics-only", "-",
        stdin=parts,
    )  # fmt: skip
    assert done.status == 0 and done.text.count("// next\n") == 1 and done.text.count("__elided__") == 2
    assert "round trip" in done.err
