# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/tools.md shows what the tools print: its commands are run, one after the other, on the files that it shows.

`python test/tools/test_docs.py` puts what the tools print now into the page.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.transcripts import CONSOLE, ROOT, output, refresh, transcript

PAGE = ROOT / "docs" / "tools.md"
FILE = re.compile(r"```mlir\n// (\w+\.mlir)\n.*?```", re.DOTALL)
SECONDS = re.compile(r"\d+\.\d{3} s$", re.MULTILINE)


def prepare(folder: Path, text: str) -> None:
    """Write the files that the page's commands read."""
    for match in FILE.finditer(text):
        (folder / match[1]).write_text(match[0].removeprefix("```mlir\n").removesuffix("```"))
    np.save(folder / "x.npy", np.arange(16, dtype=np.float32))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tour")
    prepare(made, PAGE.read_text())
    return made


def test_every_command_prints_what_the_page_shows(folder: Path) -> None:
    blocks = CONSOLE.findall(PAGE.read_text())
    assert len(blocks) > 5
    for block in blocks:
        found = transcript(block, folder)
        stale = "docs/tools.md is stale: run `python test/tools/test_docs.py`"
        assert SECONDS.sub("", found) == SECONDS.sub("", block), stale
    assert np.load(folder / "y.npy").tolist() == [3.0 * i for i in range(16)]
    assert not (folder / "newer.bc").exists(), "a refused module left a file"


def test_the_python_example_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    output("cuda-tile-translate -mlir-to-cudatilebc -bytecode-version=13.1 scale.mlir -o scale.bc", folder)
    monkeypatch.chdir(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert "entry @scale(" in printed.getvalue()


def test_every_installed_tool_is_in_the_tour() -> None:
    scripts = re.search(r"\[project\.scripts\]\n(.*?)\n\n", (ROOT / "pyproject.toml").read_text(), re.DOTALL)
    assert scripts is not None
    text = PAGE.read_text() + (ROOT / "README.md").read_text()
    for line in scripts[1].splitlines():
        assert f"`{line.split()[0]}`" in text, line


if __name__ == "__main__":
    refresh(PAGE, prepare)
