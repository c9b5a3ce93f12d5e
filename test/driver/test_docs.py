# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/tileiras.md: its commands work, its tables name the options and statuses that there are."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
from tools.process import run

from libtile.tools import tileiras

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "tileiras.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ tileiras (.*)$", TEXT, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page_work(command, tmp_path, monkeypatch):
    monkeypatch.setenv("LIBTILE_CACHE", "0")
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "vector_add.bc", tmp_path / "examples")
    arguments = shlex.split(command)
    done = run("tileiras", *arguments, cwd=tmp_path)
    assert done.status == 0, done.err
    assert (tmp_path / arguments[arguments.index("-o") + 1]).stat().st_size > 0


def test_the_page_names_every_option():
    hidden = {"help_list", "help_hidden", "help_list_hidden", "print_options", "print_all_options"}
    for parameter in tileiras.command.params:
        if isinstance(parameter, click.Option) and parameter.name not in hidden:
            names = [*parameter.opts, *(f"-{o.removeprefix('--remarks-')}" for o in parameter.opts)]
            assert any(re.search(rf"`{re.escape(name)}[`=]", TEXT) for name in names), parameter.opts


def test_the_page_names_every_exit_status():
    stated = {int(line.split()[0]) for line in tileiras.command.statuses}
    assert set(map(int, re.findall(r"^\| (\d) \|", TEXT, re.MULTILINE))) == stated
