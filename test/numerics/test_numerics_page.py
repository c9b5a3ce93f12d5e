# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each line of docs/numerics.md names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "numerics.md"
_TEST = re.compile(r"`(test/[\w/]+\.py)::(test_\w+)`")


def _rows() -> list[str]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    return [line for line in lines if not line.startswith(("| promise", "|---"))]


def test_each_promise_has_a_test() -> None:
    rows = _rows()
    assert rows
    assert [row for row in rows if not _TEST.search(row.split("|")[3])] == []


def test_the_tests_that_are_named_are_there() -> None:
    named = set(_TEST.findall(PAGE.read_text()))
    assert {(path, name) for path, name in named if f"def {name}(" not in (ROOT / path).read_text()} == set()
