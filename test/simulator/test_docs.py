# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example of docs/simulator.md does what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"


def test_example_of_the_page_prints_what_the_page_shows() -> None:
    text = PAGE.read_text()
    program = re.search(r"```python\n(import numpy.*?)```", text, re.DOTALL)
    shown = re.search(r"prints\n\n```text\n(.*?)```", text, re.DOTALL)
    assert program is not None and shown is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program[1], str(PAGE), "exec"), {})
    assert printed.getvalue() == shown[1]
