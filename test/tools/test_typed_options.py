# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every option that users of mlir-opt and mlir-translate type, once for each tool that takes it: what is seen of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cuda_tile_opt.main
import cuda_tile_optimize.main
import cuda_tile_translate.main
import libtile
import tileiras.main
from libtile_tools import cli

TEXT = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>) {
    %x = constant <i32: [1, 2, 3, 4]> : tile<4xi32>
    %y = constant <i32: [1, 2, 3, 4]> : tile<4xi32>
    %z = addi %x, %y : tile<4xi32> loc("there.py":7:1)
    print_tko "%d", %z : tile<4xi32> -> token
    return
  }
}
"""
BROKEN = TEXT.replace("print_tko", "no_op")
TOOLS = {
    "opt": (cuda_tile_opt.main.command, ("k.mlir", "--cse")),
    "translate": (cuda_tile_translate.main.command, ("k.mlir", "-mlir-to-cudatilebc", "-o", "o.bc")),
    "disassemble": (cuda_tile_translate.main.command, ("k.bc", "-cudatilebc-to-mlir")),
    "optimize": (cuda_tile_optimize.main.command, ("k.mlir", "-o", "o.mlir")),
    "tileiras": (tileiras.main.command, ("k.bc", "--gpu-name=sm_90", "--emit=ptx", "-o", "o.ptx", "--no-cache")),
}
PASSES = ("opt", "optimize", "tileiras")

LISTED = {
    "--list-passes": (PASSES, r"\n  cse +Compute each value once.\n"),
    "--show-dialects": (("opt", "translate", "optimize"), "Available Dialects: builtin,cuda_tile,nv_tileaa,nv_tileas"),
    "--help-list": (("opt", "translate", "optimize", "tileiras"), "^Usage: "),
    "--help-hidden": (("opt", "translate", "optimize", "tileiras"), "^Usage: "),
}
"""Options that print something on stdout in place of the tool's work."""

SAID = {
    "--dump-pass-pipeline": r"^Pass Manager with \d+ passes:\nbuiltin\.module\(.*cse.*\)$",
    "--mlir-print-ir-before=cse": r"// IR Dump Before cse //",
    "--mlir-print-ir-after=cse": r"// IR Dump After cse //",
    "--print-ir-after=cse": r"// IR Dump After cse //",
    "--mlir-print-ir-before-all": r"// IR Dump Before cse //",
    "--mlir-print-ir-after-all": r"// IR Dump After cse //",
    "--mlir-print-ir-after-change": r"// IR Dump After c",
    "--mlir-print-ir-after-all --mlir-elide-elementsattrs-if-larger=3": r"constant <i32: __elided__>",
    "--mlir-print-ir-after-all --mlir-print-local-scope": r"(?s)IR Dump(?!.*#loc)",
    "--mlir-timing": r"seconds +share +stage",
    "--mlir-pass-statistics": r"count  pass: statistic",
    "--pass-statistics": r"cse: ops before",
    "--opt-bisect-limit=0": r"BISECT: NOT running pass \(1\)",
}
"""What options make the tools that run passes say on stderr."""

ACCEPTED = {
    "--mlir-disable-threading": tuple(TOOLS),
    "--verify-each": PASSES,
    "--mlir-print-ir-after-failure": PASSES,
    "--mlir-print-debuginfo": ("opt", "disassemble"),
    "--error-diagnostics-only": tuple(TOOLS),
    "--verify-roundtrip": ("opt",),
    "--inline": ("opt",),
    "--mlir-pass-pipeline-crash-reproducer=r.mlir": PASSES,
}
"""Options of which nothing is seen where nothing is wrong."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "k.mlir").write_text(TEXT)
    (tmp_path / "k.bc").write_bytes(libtile.write(libtile.parse(TEXT)))
    (tmp_path / "broken.mlir").write_text(BROKEN)
    (tmp_path / "parts.mlir").write_text(f"{TEXT}// -----\n{TEXT}")
    (tmp_path / "marked.mlir").write_text(f"{TEXT}// ====\n{TEXT}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(tool: str, *options: str, line: tuple[str, ...] | None = None) -> int:
    command, usual = TOOLS[tool]
    return cli.call(command, [*(usual if line is None else line), *options])


@pytest.mark.parametrize(("option", "tool"), [(o, t) for o, (tools, _) in LISTED.items() for t in tools])
def test_a_list_is_printed(option: str, tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(tool, option) == 0
    out = capsys.readouterr().out
    assert re.search(LISTED[option][1], out), out


@pytest.mark.parametrize("tool", PASSES)
@pytest.mark.parametrize("options", SAID)
def test_passes_are_watched(options: str, tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(tool, *options.split()) == 0
    err = capsys.readouterr().err
    assert re.search(SAID[options], err, re.MULTILINE), err


@pytest.mark.parametrize("tool", PASSES)
def test_one_dash_and_values_that_stand_apart_are_read_as_well(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = "-mlir-print-ir-before cse -mlir-print-ir-after cse -mlir-print-ir-after-all -mlir-pass-statistics"
    assert typed(tool, *options.split(), "-mlir-elide-elementsattrs-if-larger", "3", "-mlir-disable-threading") == 0
    err = capsys.readouterr().err
    for seen in ("IR Dump Before cse", "IR Dump After cse", "__elided__", "pass: statistic"):
        assert seen in err


@pytest.mark.parametrize(("option", "tool"), [(o, t) for o, tools in ACCEPTED.items() for t in tools])
def test_an_option_changes_nothing_where_nothing_is_wrong(
    option: str, tool: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(tool, option) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("tool", PASSES)
def test_the_ir_goes_into_a_tree_of_files(tool: str, folder: Path) -> None:
    assert typed(tool, "--mlir-print-ir-after-all", "--mlir-print-ir-tree-dir=tree") == 0
    assert list((folder / "tree").rglob("*_cse.mlir"))


@pytest.mark.parametrize("tool", ["opt", "translate"])
def test_a_part_by_a_mark_of_ones_own(tool: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = () if tool == "opt" else ("-test-cudatile-roundtrip",)
    for name, mark in (("parts.mlir", ""), ("marked.mlir", "=// ==")):
        assert typed(tool, f"--split-input-file{mark}", "--output-split-marker=// next", name, line=line) == 0
        out = capsys.readouterr().out
        assert out.count("// next\n") == 1 and out.count("entry @k") == 2


def test_bytecode_is_written(folder: Path) -> None:
    for tool in ("opt", "optimize"):
        assert typed(tool, "--emit-bytecode", "k.mlir", "-o", f"{tool}.bc", line=()) == 0
        assert libtile.read(folder / f"{tool}.bc")


@pytest.mark.parametrize("tool", ["opt", "disassemble"])
def test_constants_are_elided_and_locations_stand_in_place(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(tool, "--mlir-elide-elementsattrs-if-larger=3") == 0
    assert "<i32: __elided__>" in capsys.readouterr().out
    assert typed(tool, "--mlir-print-debuginfo", "--mlir-print-local-scope") == 0
    out = capsys.readouterr().out
    assert "#loc" not in out and ('loc("there.py":7:1)' in out or "loc(unknown)" in out)


@pytest.mark.parametrize("value", ["x", "-1", "9" * 5000])
def test_a_number_that_is_none_is_one_error(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("opt", f"--mlir-elide-elementsattrs-if-larger={value}") == 1
    assert "is not a whole number" in capsys.readouterr().err


@pytest.mark.parametrize("tool", ["opt", "optimize", "tileiras"])
def test_a_failure_leaves_a_reproducer_that_runs(
    tool: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from libtile.support.errors import LibtileError
    from libtile.transforms.canonicalize import CanonicalizePass

    def fail(self: object, ctx: object, op: object) -> None:
        raise LibtileError("it does not work")

    monkeypatch.setattr(CanonicalizePass, "apply", fail)
    options = ("--canonicalize",) if tool == "opt" else ()
    assert typed(tool, *options, "--mlir-pass-pipeline-crash-reproducer=r.mlir", "--mlir-print-ir-after-failure") != 0
    err = capsys.readouterr().err
    assert "it does not work" in err and "IR Dump After canonicalize Failed" in err
    assert typed("opt", "--run-reproducer", "r.mlir", line=()) != 0
    assert "it does not work" in capsys.readouterr().err


@pytest.mark.parametrize("tool", PASSES)
def test_only_failures_are_printed_where_only_failures_are_asked_for(
    tool: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(tool, "--mlir-print-ir-after-all", "--mlir-print-ir-after-failure") == 0
    assert capsys.readouterr().err == ""


def test_passes_of_the_command_line_run_behind_those_of_a_reproducer(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = '{-#\n external_resources: {\n mlir_reproducer: {\n pipeline: "builtin.module(cse)"\n }\n }\n#-}\n'
    (folder / "r.mlir").write_text(TEXT + record)
    assert typed("opt", "--run-reproducer", "r.mlir", "--dce", "--dump-pass-pipeline", line=()) == 0
    assert "builtin.module(cse,dce)" in capsys.readouterr().err


@pytest.mark.parametrize("tool", ["opt", "translate"])
def test_a_line_that_nearly_splits_has_a_warning(tool: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = {"opt": ("near.mlir",), "translate": ("near.mlir", "-test-cudatile-roundtrip")}[tool]
    for mark, said in (("// ---- \n", "near.mlir:1:1: warning: near miss with file split marker"), ("// --\n", "")):
        (folder / "near.mlir").write_text(mark + TEXT)
        assert typed(tool, "--split-input-file", line=line) == 0
        err = capsys.readouterr().err
        assert err.startswith(said) and bool(err) == bool(said)
    (folder / "near.mlir").write_text("// ----\n" + TEXT)
    assert typed(tool, "--split-input-file", "--error-diagnostics-only", line=line) == 0
    assert capsys.readouterr().err == ""


def test_functions_for_tests_make_the_round_trip_as_well(folder: Path) -> None:
    (folder / "f.mlir").write_text("cuda_tile.module @m {\n testing$func @f(%x: tile<i32>) {\n return\n }\n}\n")
    assert typed("opt", "--verify-roundtrip", "f.mlir", line=()) == 0


COPY = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>) {
    %p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %p4 = broadcast %p1 : tile<1xptr<i32>> -> tile<4xptr<i32>>
    %x, %t = load_ptr_tko weak %p4 : tile<4xptr<i32>> -> tile<4xi32>, token
    store_ptr_tko weak %p4, %x token=%t : tile<4xptr<i32>>, tile<4xi32> -> token
    return
  }
}
"""


@pytest.mark.parametrize("tool", PASSES)
def test_errors_alone_are_no_remarks(tool: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "k.bc").write_bytes(libtile.write(libtile.parse(COPY)))
    said = []
    for options in (("--remarks=all",), ("--remarks=all", "--error-diagnostics-only")):
        assert typed(tool, *options) == 0
        captured = capsys.readouterr()
        said.append("remark" in captured.out + captured.err)
    assert said == [True, False]
