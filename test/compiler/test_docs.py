# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/tileiras.md: its commands print what it shows, its tables name the options and statuses that there are.

`python test/compiler/test_docs.py` puts what the commands print now into the page.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import click

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import libtile
from tileiras import main as tileiras
from tools.transcripts import CONSOLE, ROOT, refresh, transcript

PAGE = ROOT / "docs" / "tileiras.md"
TEXT = PAGE.read_text(encoding="utf-8")


def prepare(folder: Path, text: str) -> None:
    """Write the files that the page's commands read."""
    (folder / "examples").mkdir()
    for name in ("vector_add", "gemm", "attention"):
        shutil.copy(ROOT / "examples" / f"{name}.bc", folder / "examples")
    refused = "cuda_tile.module @m { entry @k() { %a = constant <i32: 1> : tile<i32>\n"
    refused += "%b = divi %a, %a unsigned rounding<negative_inf> : tile<i32>\n return } }"
    (folder / "refused.bc").write_bytes(libtile.write(libtile.parse(refused, "kernel.mlir"), "13.4"))


def test_every_command_prints_what_the_page_shows(tmp_path):
    prepare(tmp_path, TEXT)
    blocks = CONSOLE.findall(TEXT)
    assert len(blocks) >= 7
    for block in blocks:
        assert transcript(block, tmp_path) == block, (
            "docs/tileiras.md is stale: run `python test/compiler/test_docs.py`"
        )


def test_the_page_names_every_option():
    hidden = {"help_list", "help_hidden", "help_list_hidden", "print_options", "print_all_options"}
    for parameter in tileiras.command.params:
        if isinstance(parameter, click.Option) and parameter.name not in hidden:
            names = [*parameter.opts, *(f"-{o.removeprefix('--remarks-')}" for o in parameter.opts)]
            assert any(re.search(rf"`{re.escape(name)}[`=]", TEXT) for name in names), parameter.opts


def test_the_page_names_every_exit_status():
    stated = {int(line.split()[0]) for line in tileiras.command.statuses}
    assert set(map(int, re.findall(r"^\| (\d)\D*? \|", TEXT, re.MULTILINE))) == stated


if __name__ == "__main__":
    refresh(PAGE, prepare)
