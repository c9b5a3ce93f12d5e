# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/cutile.md: its examples run, one after the other, and print what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from patience import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "cutile.md"


def test_the_examples_of_the_page_run(tmp_path: Path):
    blocks = re.findall(r"```python\n(.*?)```\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "kernels.py").write_text("\n".join(blocks))
    done = subprocess.run(
        [sys.executable, "kernels.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace(f"{tmp_path}/", "") == re.sub(r"kernels.py:\d+", _line(blocks), printed)


def _line(blocks: list[str]) -> str:
    """The place of the store that fails, in the file that the examples make."""
    lines = "\n".join(blocks).split("\n")
    return f"kernels.py:{1 + next(i for i, line in enumerate(lines) if 'ct.scatter' in line)}"
