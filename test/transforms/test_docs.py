# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/passes.md and docs/lowering-passes.md show what the passes do: their examples are run, their tables are compared
with the registry.

`python test/transforms/test_docs.py` puts what the tool prints now into the pages.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from libtile.passes.pipeline import pass_options
from libtile.passes.registry import PASSES

PAGES = [Path(__file__).parents[2] / "docs" / name for name in ("passes.md", "lowering-passes.md")]
EXAMPLE = re.compile(r"```mlir\n// before\n(.*?)```\n```mlir\n// after: cuda-tile-opt ([^\n]*)\n(.*?)```", re.DOTALL)
TEXT = "".join(page.read_text() for page in PAGES)


def output(before: str, command: str) -> str:
    """What the command prints for the text on its standard input."""
    tool = [sys.executable, "-m", "cuda_tile_opt"]
    done = subprocess.run([*tool, *shlex.split(command), "-"], input=before, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("before", "command", "after"), EXAMPLE.findall(TEXT), ids=lambda v: v.split(" ")[0][:40])
def test_an_example_shows_the_real_output(before: str, command: str, after: str) -> None:
    found = output(before, command)
    assert found == after, "a page of passes is stale: run `python test/transforms/test_docs.py`"


def test_every_pass_has_a_section_and_an_example() -> None:
    words = (word for _, command, _ in EXAMPLE.findall(TEXT) for word in command.split())
    examples = {word.split("=")[0].removeprefix("--") for word in words}
    for name in PASSES:
        assert f"\n## {name}\n" in TEXT
        assert name in examples


def test_the_table_names_every_option_with_its_default() -> None:
    for name in PASSES:
        (row,) = [line for line in TEXT.splitlines() if line.startswith(f"| [`{name}`]")]
        for option, default in pass_options(name).items():
            assert f"`{option}`" + (f" ({default})" if default not in ("", "False") else "") in row


def refresh() -> None:
    """Write the pages anew, with the output that its commands have now."""

    def example(match: re.Match[str]) -> str:
        before, command, _ = match.groups()
        return (
            f"```mlir\n// before\n{before}```\n```mlir\n// after: cuda-tile-opt {command}\n{output(before, command)}```"
        )

    for page in PAGES:
        page.write_text(EXAMPLE.sub(example, page.read_text()))


if __name__ == "__main__":
    refresh()
