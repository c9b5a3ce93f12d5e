# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What all tools have in common: options' spellings, output files, exit statuses."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import click
import pytest

from libtile.support.errors import LibtileError
from libtile_tools import cli


def make(**callback: object) -> click.Command:
    seen: dict[str, object] = {}

    @click.command("tool", cls=cli.Command)
    @click.argument("input_", required=False)
    @click.option("-o", "output", default="-")
    @click.option("--long-flag", is_flag=True)
    @click.option("--value")
    @click.option("-p", "--pass-pipeline", "pipeline")
    @click.option("--check", cls=cli.OptionalValue, implied="all")
    def command(**given: object) -> None:
        seen.update(given)

    command.seen = seen  # type: ignore[attr-defined]
    return command


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-long-flag"], {"long_flag": True}),
        (["--long-flag"], {"long_flag": True}),
        (["-long-flag=true"], {"long_flag": True}),
        (["--long-flag=false"], {"long_flag": False}),
        (["-value=x=y"], {"value": "x=y"}),
        (["--value", "-x"], {"value": "-x"}),
        (["-ofile"], {"output": "file"}),
        (["-o", "file"], {"output": "file"}),
        (["-p=a(b)"], {"pipeline": "a(b)"}),
        (["-p", "a(b)"], {"pipeline": "a(b)"}),
        (["--pass-pipeline=a(b)"], {"pipeline": "a(b)"}),
        (["-check", "file"], {"check": "all", "input_": "file"}),
        (["-check=some", "file"], {"check": "some", "input_": "file"}),
        (["-"], {"input_": "-"}),
        (["--", "-long-flag"], {"input_": "-long-flag", "long_flag": False}),
    ],
)
def test_llvm_spellings_are_understood(arguments: list[str], expected: dict[str, object]) -> None:
    command = make()
    assert cli.call(command, arguments) == cli.OK
    assert {name: command.seen[name] for name in expected} == expected  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-unknown"], "tool: Unknown command line argument '-unknown'.  Try: 'tool --help'"),
        (["--long-flg"], "tool: Did you mean '--long-flag'?"),
        (["-long-flag=maybe"], "for the --long-flag option: 'maybe' is invalid value for boolean argument! Try 0 or 1"),
        (["--long-flg=1"], "tool: Did you mean '--long-flag=1'?"),
        (["--value"], "tool: for the --value option: requires a value!"),
        (["a", "b"], "unexpected extra argument"),
    ],
)
def test_wrong_command_line_is_one_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.call(make(), arguments) == cli.FAILED
    assert message in capsys.readouterr().err


def test_library_errors_become_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command("tool")
    def command() -> None:
        raise LibtileError("nothing works")

    assert cli.call(command, []) == cli.FAILED
    assert capsys.readouterr().err == "error: nothing works\n"


def test_output_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o640)
    cli.write_output(str(path), "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out"]


def test_output_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    cli.write_output(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_output_through_links_in_a_circle_is_an_error_and_keeps_them(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(cli.ToolError, match=f"cannot open output file '.*one': {os.strerror(errno.ELOOP)}"):
        cli.write_output(str(tmp_path / "one"), "x")
    assert (tmp_path / "one").is_symlink() and (tmp_path / "two").is_symlink()


def test_output_over_a_file_that_may_not_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder would let it be replaced, and who made it read-only did not mean that."""
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda name, mode: not (name == str(path) and mode == os.W_OK))  # root may all
    with pytest.raises(cli.ToolError, match=f"cannot open output file '.*out': {os.strerror(errno.EACCES)}"):
        cli.write_output(str(path), "new")
    assert path.read_text() == "old"


def test_output_into_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(cli.ToolError, match="cannot open output file"):
        cli.write_output(str(tmp_path / "missing" / "out"), "x")


def test_device_is_written_not_replaced() -> None:
    cli.write_output("/dev/null", "x")
    assert not os.path.isfile("/dev/null")


def test_split_parts_keep_the_positions_of_the_file() -> None:
    parts = cli.split_input("a\nb\n// -----\nc\n// ----- more\nd")
    assert [part.split("\n") for part in parts] == [["a", "b"], ["", "", "", "c"], ["", "", "", "", "", "d"]]


def test_a_fault_of_the_tool_is_one_line_unless_its_traceback_is_wanted(capsys, monkeypatch) -> None:
    @click.command("tool", cls=cli.Command)
    def broken() -> None:
        raise ZeroDivisionError("division\nby zero")

    assert cli.call(broken, []) == cli.FAILED
    error = capsys.readouterr().err
    assert re.fullmatch(
        r"tool: error: internal error of the tool at test_cli.py:\d+: ZeroDivisionError: division by zero\n", error
    )
    monkeypatch.setenv("LIBTILE_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        cli.call(broken, [])
    monkeypatch.setenv("LIBTILE_TRACEBACK", "maybe")
    assert cli.call(broken, []) == cli.FAILED
    assert "; environment variable LIBTILE_TRACEBACK is 'maybe', and must be 1, on" in capsys.readouterr().err
