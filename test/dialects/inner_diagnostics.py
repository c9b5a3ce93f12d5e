# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/inner-diagnostics.md from the lit tests: `PYTHONPATH=test python -m dialects.inner_diagnostics`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "inner-diagnostics.md"
LIT = ROOT / "test" / "lit"
FOLDERS = ("nv_tileaa", "nv_tileas", "lowering")

_EXPECTED = re.compile(r"expected-error(?:-re)? @\S+ \{\{(.*)\}\}\s*$")
_OP = re.compile(r"'(nv_tilea[as]\.[\w.]+)' op (.*)")

INTRODUCTION = """# Diagnostics of the inner dialects

What the verifier of nv_tileaa and nv_tileas says of an op, and what the passes on them say. Each file holds, for every
row of its table, an op that is refused with this message and, where there is one, its right twin. `...` stands for
what depends on the program. Written by `PYTHONPATH=test python -m dialects.inner_diagnostics` from these files.
"""


def files() -> list[Path]:
    """The lit tests of the inner dialects."""
    return sorted(path for folder in FOLDERS for path in (LIT / folder).glob("*.mlir"))


def expected(path: Path) -> Iterator[str]:
    """The errors that a test announces, in its order."""
    for line in path.read_text().splitlines():
        match = _EXPECTED.search(line)
        if match is not None:
            yield match[1]


def page() -> str:
    lines = [INTRODUCTION]
    for path in files():
        rows = []
        for text in expected(path):
            match = _OP.fullmatch(re.sub(r"\{\{.*?\}\}", "...", text))
            if match is not None and (row := f"| `{match[1]}` | {match[2].replace('|', chr(92) + '|')} |") not in rows:
                rows.append(row)
        if rows:
            title = path.read_text().splitlines()[0].removeprefix("// ")
            name = path.relative_to(ROOT).as_posix()
            lines += [f"## {path.stem}", "", f"{title} [{name}](../{name})", ""]
            lines += ["| op | message |", "|---|---|", *rows, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
