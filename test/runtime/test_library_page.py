# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/library.md: its examples run, one after the other; and what notebooks show of modules, compilations, layouts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import libtile
from libtile.layouts.builders import mma_accumulator, row_major

ROOT = Path(__file__).resolve().parents[2]


def test_the_examples_of_the_page_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```\n", (ROOT / "docs" / "library.md").read_text(), re.DOTALL):
        exec(compile(block, "docs/library.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith("cuda_tile.module @") and printed.endswith("threads, True\n")
    module, compiled, result = names["module"], names["compiled"], names["result"]
    assert isinstance(module, libtile.Module) and "mulf" in module._repr_html_()
    assert "&lt;f32&gt;" in module._repr_html_() and "... and" not in module._repr_html_()
    assert "<td>vector_add</td>" in compiled._repr_html_()  # type: ignore[attr-defined]
    assert "<td>warp_instructions</td>" in result._repr_html_()  # type: ignore[attr-defined]


def test_a_layout_is_a_picture_unless_it_is_too_large() -> None:
    assert mma_accumulator()._repr_html_().startswith("<svg") and "t31:3" in mma_accumulator()._repr_html_()
    assert row_major((512, 512))._repr_html_().startswith("<pre>offset: ")


def test_a_wrong_argument_is_an_error_of_the_library() -> None:
    from libtile.dialects.cuda_tile.ops import build

    with pytest.raises(libtile.LibtileError, match=r"there is no op 'cuda_tile\.nosuch'"):
        build("nosuch")
    with pytest.raises(libtile.LibtileError, match=r"'overflow' of 'cuda_tile\.addi': 'never' is not a case of"):
        build("addi", attributes={"overflow": "never"})
    with pytest.raises(libtile.LibtileError, match="'up' is not a block order"):
        libtile.run("examples/vector_add.bc", block_order="up")
