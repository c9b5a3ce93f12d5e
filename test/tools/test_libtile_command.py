# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a new user sees of `libtile`: help that is whole, commands that call themselves what they were called, and
errors that name the file."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from libtile_cli.main import TOOLS
from libtile_tools import cli

from .process import run

MODULES = sorted({tool.module for tool in TOOLS.values()})


def test_without_a_command_there_is_the_list_of_them() -> None:
    done = run("libtile_cli")
    assert done.status == 2 and done.err.startswith("Usage: libtile ")
    listed = done.err.partition("Commands:\n")[2]
    assert [line.split()[0] for line in listed.splitlines()] == list(TOOLS)
    assert "..." not in listed, "a summary is too long for its line"


@pytest.mark.parametrize("module", MODULES)
def test_help_names_the_values_of_options(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.call(importlib.import_module(module).command, ["--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Usage: ")
    assert not re.search(r"--(?!output TEXT)[\w-]+ (INTEGER|TEXT|FLOAT)\b", said), "no metavar"


def test_a_command_calls_itself_what_it_was_called() -> None:
    assert run("libtile_cli", "run").err.startswith("libtile run: Missing argument")
    assert run("libtile_cli", "compile", "--help").text.startswith("Usage: libtile compile ")
    assert run("tileiras", "--help").text.startswith("Usage: tileiras ")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "junk.bc").write_text("hello\n")
    (tmp_path / "empty.bc").write_bytes(b"")
    (tmp_path / "script.py").write_text("import cuda.tile as ct\n\n@ct.kernel\ndef scale(x):\n    pass\n")
    (tmp_path / "fails.py").write_text("x = 1\nraise ValueError('no such thing')\n")
    return tmp_path


@pytest.mark.parametrize("command", ["explore", "explain", "estimate", "tune", "run"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.bc", "error: cannot open input file 'none.bc': No such file or directory\n"),
        ("junk.bc", "error: 'junk.bc' is no Tile IR, neither bytecode nor text\n"),
        ("empty.bc", "error: 'empty.bc' is empty: no Tile IR, neither bytecode nor text\n"),
        (".", "error: cannot open input file '.': Is a directory\n"),
    ],
)
def test_a_wrong_file_is_one_error_that_names_it(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    name: str,
    said: str,
) -> None:
    monkeypatch.chdir(folder)
    assert cli.call(importlib.import_module(TOOLS[command].module).command, [name]) == 1
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("command", "name", "said"),
    [
        ("tune", "script.py", "error: say which kernel, as 'script.py:NAME' (its kernels: scale)\n"),
        ("tune", "script.py:scala", "error: 'script.py' has no @ct.kernel 'scala' (its kernels: scale)\n"),
        ("tune", "fails.py:scale", "error: fails.py:2: ValueError: no such thing\n"),
        ("estimate", "script.py", "error: say which kernel, as 'script.py:NAME' (its kernels: scale)\n"),
        ("estimate", "script.py:scale", "error: Kernel expects 1 argument but 0 were given\n"),
        ("explain", "fails.py", "error: fails.py:2: ValueError: no such thing\n"),
        ("explain", "script.py", "error: script.py: the script launches no kernel"),
    ],
)
def test_a_wrong_script_is_one_error_that_says_what_there_is(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    name: str,
    said: str,
) -> None:
    pytest.importorskip("cuda.tile", reason="the kernels are cuTile's (pip install cuda-tile)")
    monkeypatch.chdir(folder)
    assert cli.call(importlib.import_module(TOOLS[command].module).command, [name]) == 1
    assert capsys.readouterr().err.startswith(said)


def test_a_module_without_kernels_has_none_to_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "none.mlir").write_text("cuda_tile.module @m {\n}\n")
    assert cli.call(importlib.import_module("cuda_tile_run.main").command, [str(folder / "none.mlir")]) == 1
    assert capsys.readouterr().err == "error: the module has no kernel\n"


def test_an_output_without_a_name_is_an_error_of_explore_too(tmp_path: Path) -> None:
    kernel = tmp_path / "k.mlir"
    kernel.write_text("cuda_tile.module @m { entry @k() { return } }")
    done = run("libtile_cli", "explore", kernel, "-o", "")
    assert (done.status, done.err) == (1, "cannot open output file '': No such file or directory\n")
    assert list(tmp_path.iterdir()) == [kernel]
