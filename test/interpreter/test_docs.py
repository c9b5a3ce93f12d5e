# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What docs/interpreter.md shows works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cuda_tile_run.main import command

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "interpreter.md").read_text(encoding="utf-8")


def test_the_python_example_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"(?:^    .*\n|^\n)+", TEXT, re.M)
    examples = [b for b in blocks if b.lstrip().startswith("import")]
    assert len(examples) == 1
    exec("\n".join(line[4:] for line in examples[0].splitlines()), {})


@pytest.mark.parametrize("option", sorted(set(re.findall(r"(--[a-z][a-z-]*)", TEXT))))
def test_every_option_named_exists(option):
    assert option in {o for p in command.params for o in p.opts}


def test_every_file_named_exists():
    for name in re.findall(r"`((?:libtile|bench)/[\w/]+\.py)`", TEXT):
        assert (ROOT / name).is_file(), name
