# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/quickstart.md: its examples run, one after the other, and print what it says.

`python test/cutile/test_quickstart.py` puts what they print now into the page.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from patience import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"
PRINTED = re.compile(r"```text\n(.*?)```\n", re.DOTALL)
MARK = "---- the next block ----\n"


def printed(folder: Path) -> list[str]:
    """What each block of Python prints, those that print nothing left out."""
    blocks = re.findall(r"```python\n(.*?)```\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (folder / "kernels.py").write_text(f"\nprint({MARK.strip()!r})\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "kernels.py"], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return [text.replace(f"{folder}/", "") for text in done.stdout.split(MARK) if text]


def test_the_examples_print_what_the_page_shows(tmp_path: Path) -> None:
    pytest.importorskip("cuda.tile", reason="the kernels are cuTile's (pip install cuda-tile)")
    stale = "docs/quickstart.md is stale: run `python test/cutile/test_quickstart.py`"
    assert printed(tmp_path) == PRINTED.findall(PAGE.read_text(encoding="utf-8")), stale


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        texts = iter(printed(Path(made)))
    page = PRINTED.sub(lambda _: f"```text\n{next(texts)}```\n", PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")
