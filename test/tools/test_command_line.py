# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plain command line is read without click, and as click reads it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cuda_tile_opt.main
import cuda_tile_translate.main
import tileiras.main
import tileirdisasm.main
from libtile.support.errors import LibtileError
from libtile_tools import cli, command_line
from patience import PATIENCE
from tools.process import ROOT

TOOLS = {
    "tileiras": tileiras.main.command,
    "tileirdisasm": tileirdisasm.main.command,
    "cuda-tile-opt": cuda_tile_opt.main.command,
    "cuda-tile-translate": cuda_tile_translate.main.command,
}

WORDS = ("kernel.bc", "-", "--", "", "sm_90", "sm_9", "-x", "all", "13.4", "=", "a=b", "true", "simt", "3")
VALUES = (
    "",
    "=",
    "=true",
    "=false",
    "=maybe",
    "=sm_90",
    "=all",
    "=tensorcore",
    "=ptx",
    "=3",
    "3",
    "=0x2",
    "x",
    "=13.4",
)


def arguments(command: command_line.Command) -> st.SearchStrategy[list[str]]:
    names = [opt.lstrip("-") for declaration in command.declarations for opt in declaration.opts]
    option = st.builds(
        lambda dashes, name, value: f"{dashes}{name}{value}",
        st.sampled_from(("-", "--")), st.sampled_from([*names, "unknown", "h", "help"]), st.sampled_from(VALUES),
    )  # fmt: skip
    return st.lists(option | st.sampled_from(WORDS), max_size=5)


def by_click(command: command_line.Command, given_: list[str]) -> dict[str, Any] | str:
    """What click calls the function with, or the kind of its exception."""
    made = command.made()
    try:
        return made.make_context(command.name, list(given_)).params
    except (click.ClickException, click.exceptions.Exit, command_line.Exit, LibtileError) as error:
        return type(error).__name__


@settings(deadline=None)
@given(st.data())
@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_plain_is_read_as_click_reads_it(tool: str, data: st.DataObject) -> None:
    command = TOOLS[tool]
    line = data.draw(arguments(command))
    try:
        plain = command.plain(line)
    except command_line.Exit:
        assert by_click(command, line) == "Exit"
        return
    if plain is not None:
        assert by_click(command, line) == plain


@pytest.mark.parametrize(
    ("tool", "line", "expected"),
    [
        ("tileiras", "--gpu-name=sm_90 k.bc -o k.cubin", {"gpu_name": "sm_90", "inputs": ("k.bc",), "opt_level": 3}),
        ("tileiras", "-gpu-name sm_90 -O0 -g k.bc", {"opt_level": 0, "device_debug": True, "output_file": None}),
        ("tileiras", "--print-ir-after=a --print-ir-after b --lineinfo=false", {"print_after": ("a", "b")}),
        ("cuda-tile-opt", "--cse k.mlir", {"input_": "k.mlir", "verify_each": None}),
        ("cuda-tile-opt", "--cse=x=1 -p=y --verify-each=0", {"pipeline": ("y",), "verify_each": False}),
        ("tileirdisasm", "-g -", {"input_": "-", "debuginfo": True, "previews": frozenset()}),
        ("tileirdisasm", "", {"input_": None, "debuginfo": False}),
        ("cuda-tile-translate", "-mlir-to-cudatilebc k.mlir", {"mlir_to_cudatilebc": True, "input_": "k.mlir"}),
        ("cuda-tile-translate", "-verify-diagnostics", {"verify_diagnostics": "all", "input_": "-"}),
        ("cuda-tile-translate", "-verify-diagnostics=only-expected", {"verify_diagnostics": "only-expected"}),
    ],
)
def test_plain_lines(tool: str, line: str, expected: dict[str, Any]) -> None:
    plain = TOOLS[tool].plain(line.split())
    assert plain is not None
    assert {name: plain[name] for name in expected} == expected
    assert plain == by_click(TOOLS[tool], line.split())


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        ("tileiras", "--gpu-name=sm_9"), ("tileiras", "-O x"), ("tileiras", "--help"), ("tileiras", "--bogus"),
        ("tileiras", "--gpu-name"), ("tileiras", "-gO0"), ("tileiras", "-- k.bc"), ("tileiras", "--O2 k.bc"),
        ("tileirdisasm", "a b"), ("tileirdisasm", "--preview=nothing"),
        ("cuda-tile-translate", "-verify-diagnostics=x"),
    ],
)  # fmt: skip
def test_the_rest_is_left_to_click(tool: str, line: str) -> None:
    assert TOOLS[tool].plain(line.split()) is None


def test_a_command_declared_with_click_has_the_shared_options(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command("tool", cls=cli.Command)
    @cli.version_option("a tool")
    def command() -> None:
        print("ran")

    assert cli.call(command, ["--version"]) == cli.call(command, []) == cli.OK
    assert capsys.readouterr().out.splitlines()[::2] == ["tool: a tool", "ran"]


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        ("tileiras", ["--version"]), ("tileirdisasm", ["--version"]), ("cuda_tile_translate", ["--version"]),
        ("cuda_tile_opt", ["--canonicalize", "--cse=", "/dev/null"]),
        ("tileirdisasm", ["examples/vector_add.bc"]), ("tileiras", ["--list-versions"]),
    ],
)  # fmt: skip
def test_click_is_loaded_when_it_is_needed(tool: str, line: list[str]) -> None:
    code = (
        f"import sys; from libtile_tools import cli; from {tool}.main import command;"
        f"assert not cli.call(command, {line});"
        "assert 'click' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=PATIENCE, capture_output=True)
