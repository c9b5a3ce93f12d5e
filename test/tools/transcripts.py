# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pages that show what commands print: their console blocks are run in a shell and compared, or written anew.

A command stands behind `$ `, and what it prints on both of its streams below it. Pipes, `ls` and `echo $?` work as in a
shell; the tools are those of this tree.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
TOOLS = (
    "cuda-tile-translate",
    "cuda-tile-opt",
    "cuda-tile-run",
    "cuda-tile-diff",
    "cuda-tile-reduce",
    "cuda-tile-optimize",
    "tileirdisasm",
    "tileiras",
    "libtile",
)
MODULES = {"libtile": "libtile_cli"}


def _tools_folder(folder: Path) -> Path:
    """Commands of the tools' names that run this tree's."""
    bin_ = folder / ".bin"
    bin_.mkdir(exist_ok=True)
    for name, run in [("python", ""), *((tool, f"-m {MODULES.get(tool, tool.replace('-', '_'))} ") for tool in TOOLS)]:
        (bin_ / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {run}"$@"\n')
        (bin_ / name).chmod(0o755)
    return bin_


def tools_environment(folder: Path) -> dict[str, str]:
    """The environment in which the tools of this tree run by their names."""
    path = f"{_tools_folder(folder)}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, "LIBTILE_CACHE": "0", "COLUMNS": "110"}


def output(line: str, folder: Path, seconds: float = PATIENCE) -> str:
    """What a command line prints on both of its streams."""
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=tools_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    return done.stdout


def transcript(block: str, folder: Path) -> str:
    """The commands of a console block, each with what it prints now."""
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{output(command, folder)}" for command in commands)


def refresh(page: Path, prepare: Callable[[Path, str], None]) -> None:
    """Write the page anew, with what its commands print now; `prepare` makes the files that they read."""
    text = page.read_text()
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name), text)
        blocks = CONSOLE.sub(lambda match: f"```console\n{transcript(match[1], Path(name))}```", text)
    page.write_text(blocks)
