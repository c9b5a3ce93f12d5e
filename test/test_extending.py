# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/extending.md: each change touches as many files as it says, and works on a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^## [^\n]*: (\d+) files?\n(.*?)(?=^## |\Z)", re.M | re.S)
BLOCK = re.compile(r"^```(diff|python)\n(.*?)^```", re.M | re.S)
IMPORTS = """
import ml_dtypes
import numpy as np
import libtile
from libtile import bytecode
from libtile.dialects.cuda_tile.to_bytecode import to_bytecode
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import statistics
"""


def test_each_change_of_the_page_touches_what_it_says_and_works(tmp_path: Path) -> None:
    for folder in ("libtile", "spec"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    sections = SECTION.findall((ROOT / "docs/extending.md").read_text())
    program = IMPORTS + f"assert libtile.__file__.startswith({str(tmp_path)!r}), libtile.__file__\n"
    for files, body in sections:
        for kind, text in BLOCK.findall(body):
            if kind == "python":
                program += text
                continue
            assert text.count("diff --git ") == int(files), body.splitlines()[0]
            applied = subprocess.run(
                ["git", "apply", "-C1", "--unsafe-paths", "-"], input=text, cwd=tmp_path, capture_output=True, text=True
            )
            assert not applied.returncode, f"the diff does not apply any more: {applied.stderr}\n{text}"
    assert len(sections) == 6
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert not done.returncode, done.stderr
