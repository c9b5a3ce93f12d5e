# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cuda-tile-opt` as its users run it: options, output, errors, exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from tools.process import ROOT, run

TOOL = "cuda_tile_opt"

GOOD = "cuda_tile.module @m {\n  entry @k() {\n    %c = constant <i32: 7> : tile<i32>\n    return\n  }\n}\n"
PRINTED = (
    "module {\n  cuda_tile.module @m {\n    entry @k() {\n      %cst_7_i32 = constant <i32: 7> : tile<i32>\n"
    "      return\n    }\n  }\n}\n"
)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.mlir"
    path.write_text(GOOD)
    return path


def test_help_has_examples_and_statuses() -> None:
    done = run("cuda_tile_opt", "--help")
    assert done.status == 0
    for part in ("--pass-pipeline", "--canonicalize", "Examples", "Exit status", "-split-input-file"):
        assert part in done.text


def test_version_names_the_package() -> None:
    done = run("cuda_tile_opt", "--version")
    assert (done.status, "libtile " in done.text) == (0, True)


def test_reads_a_file_and_stdin_alike(good: Path) -> None:
    assert run("cuda_tile_opt", good).text == PRINTED
    assert run("cuda_tile_opt", "-", stdin=GOOD.encode()).text == PRINTED
    assert run("cuda_tile_opt", stdin=GOOD.encode()).text == PRINTED


@pytest.mark.parametrize("dash", ["-", "--"])
def test_options_have_one_dash_or_two(good: Path, dash: str) -> None:
    done = run("cuda_tile_opt", f"{dash}no-implicit-module", f"{dash}mlir-print-op-generic", good)
    assert done.status == 0
    assert done.text.startswith('"cuda_tile.module"() <{sym_name = "m"}> ({')


def test_output_goes_to_a_file(good: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"
    done = run("cuda_tile_opt", good, "-o", out)
    assert (done.status, done.text, out.read_text()) == (0, "", PRINTED)


def test_a_failure_leaves_no_output_and_names_the_place(tmp_path: Path) -> None:
    bad, out = tmp_path / "bad.mlir", tmp_path / "out.mlir"
    bad.write_text("cuda_tile.module @m {\n  entry @k() {\n    foo\n  }\n}\n")
    out.write_text("old")
    done = run("cuda_tile_opt", bad, "-o", out)
    assert done.status == 1
    assert done.err.splitlines() == [
        f"{bad}:3:5: error: custom op 'foo' is unknown (tried 'cuda_tile.foo' as well)",
        "    foo",
        "    ^",
    ]
    assert out.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.mlir", "out.mlir"]


def test_every_failing_op_is_reported(tmp_path: Path) -> None:
    bad = tmp_path / "bad.mlir"
    bad.write_text(
        "cuda_tile.module @m {\n  entry @k() {\n    %0 = iota : tile<i32>\n    %1 = iota : tile<2x2xi32>\n"
        "    return\n  }\n}\n"
    )
    done = run("cuda_tile_opt", bad)
    assert done.status == 1
    assert [line.split(": ")[0] for line in done.err.splitlines() if "error" in line] == [f"{bad}:3:10", f"{bad}:4:10"]


def test_parts_are_processed_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "parts.mlir"
    path.write_text(GOOD + "// -----\n" + GOOD.replace("@m", "@n"))
    done = run("cuda_tile_opt", "-split-input-file", path)
    assert (done.status, done.text) == (0, PRINTED + "// -----\n" + PRINTED.replace("@m", "@n"))


def test_no_marker_behind_the_option_is_the_usual_one(tmp_path: Path) -> None:
    """MLIR's option takes an empty marker as none."""
    path = tmp_path / "parts.mlir"
    path.write_text(GOOD + "// -----\n" + GOOD)
    done = run("cuda_tile_opt", "--split-input-file=", path)
    assert (done.status, done.text) == (0, PRINTED + "// -----\n" + PRINTED)


def test_a_bad_part_does_not_hide_the_errors_of_others(tmp_path: Path) -> None:
    path = tmp_path / "parts.mlir"
    path.write_text("foo\n// -----\n" + GOOD + "// -----\nbar\n")
    done = run("cuda_tile_opt", "-split-input-file", path)
    # On stdout the parts that are good are there, as mlir-opt has them; a file is written only when all are.
    assert (done.status, done.text) == (1, "// -----\n" + PRINTED + "// -----\n")
    assert run("cuda_tile_opt", "-split-input-file", path, "-o", tmp_path / "out").status == 1
    assert not (tmp_path / "out").exists()
    assert f"{path}:1:1: error" in done.err and f"{path}:{GOOD.count(chr(10)) + 4}:1: error" in done.err


def test_expected_diagnostics(tmp_path: Path) -> None:
    path = tmp_path / "expected.mlir"
    path.write_text("// expected-error @below {{is unknown}}\nfoo\n")
    assert run("cuda_tile_opt", "-verify-diagnostics", path).status == 0
    path.write_text("// expected-error @below {{something else}}\nfoo\n")
    done = run("cuda_tile_opt", "-verify-diagnostics", path)
    assert done.status == 1
    assert "unexpected error: custom op 'foo' is unknown" in done.err
    assert 'expected error "something else" was not produced' in done.err


def test_hints_warn_or_fail_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "hints.mlir"
    path.write_text(GOOD.replace("entry @k()", "entry @k() optimization_hints=<sm_100 = {nonsense = 1}>"))
    assert run("cuda_tile_opt", path).err == ""
    done = run("cuda_tile_opt", "-Wunsupported-hints", path)
    assert (done.status, "warning: " in done.err) == (0, True)
    done = run("cuda_tile_opt", "-Wunsupported-hints", "-Werr-hints", path)
    assert (done.status, "error: " in done.err) == (1, True)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nonsense"], "Unknown command line argument '--nonsense'"),
        (["/no/such/file"], "cannot open input file '/no/such/file'"),
        (["-p", "builtin.module(", "-"], "expected a closing parenthesis"),
        (["--loop-split=split-threshold=x", "-"], "'x' is no value for option 'split-threshold' of pass 'loop-split'"),
        (["--test-debuginfo-update-symbol-name", "-"], "needs option 'symbol-to-rename'"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str], message: str) -> None:
    done = run("cuda_tile_opt", *arguments, stdin=GOOD.encode())
    assert done.status == 1
    assert message in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"", b"\x00" * 100, "é".encode()])
def test_any_bytes_are_taken(data: bytes) -> None:
    assert run("cuda_tile_opt", stdin=data).status in (0, 1)


def test_bytecode_in_place_of_text_is_refused_with_a_hint() -> None:
    done = run("cuda_tile_opt", ROOT / "examples" / "vector_add.bc")
    assert done.status == 1
    assert done.err.startswith(
        "error: the input is Tile IR bytecode, not text: 'cuda-tile-translate -cudatilebc-to-mlir'"
    )


TABLE = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>) {
    %x = constant <i32: [1, 2, 3, 4]> : tile<4xi32>
    %s = constant <i32: 7> : tile<4xi32>
    %y = addi %x, %s : tile<4xi32>
    print_tko "%d", %y : tile<4xi32> -> token
    return
  }
}
"""


def test_options_of_mlir_opt_are_taken(tmp_path: Path) -> None:
    text = TABLE.encode()
    elided = run(TOOL, "--mlir-elide-elementsattrs-if-larger=3", "-", stdin=text).text
    assert "<i32: __elided__>" in elided and "<i32: 7>" in elided
    assert "[1, 2, 3, 4]" in run(TOOL, "--mlir-elide-elementsattrs-if-larger=4", "-", stdin=text).text
    assert run(TOOL, "--mlir-elide-elementsattrs-if-larger=x", "-", stdin=text).status == 1
    done = run(TOOL, "--emit-bytecode", "--mlir-disable-threading", "-", "-o", tmp_path / "k.bc", stdin=text)
    assert (done.status, done.err) == (0, "")
    assert libtile.diff(tmp_path / "k.bc", text) == []
    parts = text + b"// ====\n" + text
    done = run(TOOL, "--split-input-file=// ==", "--output-split-marker=// next", "-", stdin=parts)
    assert done.text.count("// next\n") == 1 and done.text.count("entry @k") == 2
    assert "several modules" in run(TOOL, "--emit-bytecode", "--split-input-file=// ==", "-", stdin=parts).err
    assert run(TOOL, "--show-dialects").text == "Available Dialects: builtin,cuda_tile,nv_tileaa,nv_tileas\n"
    assert run(TOOL, "--help-hidden").text == run(TOOL, "--help").text
    assert run(TOOL, "--verify-roundtrip", "-", stdin=text).status == 0


def test_warnings_are_left_out_when_only_errors_are_asked_for() -> None:
    hinted = TABLE.replace("{\n    %x", "optimization_hints=<sm_1 = {}> {\n    %x").encode()
    assert "warning" in run(TOOL, "--Wunsupported-hints", "-", stdin=hinted).err
    assert run(TOOL, "--Wunsupported-hints", "--error-diagnostics-only", "-", stdin=hinted).err == ""


@pytest.mark.parametrize("tool", ["cuda_tile_opt", "cuda_tile_optimize", "cuda_tile_translate"])
def test_a_line_of_the_input_is_shown_for_places_in_it_only(tmp_path: Path, tool: str) -> None:
    """The IR may say that an op comes from a file that the tool has not read."""
    path = tmp_path / "k.mlir"
    wrong = "assume div_by<3>, %x : tile<i32>"
    path.write_text(
        f'cuda_tile.module @m {{\n  entry @k(%x: tile<i32>) {{\n    %a = {wrong} loc("kernel.py":2:3)\n'
        f"    %b = {wrong}\n    return\n  }}\n}}\n"
    )
    options = ("--mlir-to-cudatilebc", "-o", "/dev/null") if tool.endswith("translate") else ()
    done = run(tool, *options, path)
    first, second, shown, caret = done.err.splitlines()
    assert first.startswith("kernel.py:2:3: error: ") and second.startswith(f"{path}:4:10: error: ")
    assert (shown, caret) == (f"    %b = {wrong}", "         ^")
