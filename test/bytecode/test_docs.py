# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The generated documentation is that of the declarations, and covers all of them."""

from __future__ import annotations

import re
from pathlib import Path

from libtile import bytecode
from libtile.bytecode.reference import format_page, main, migration_page
from libtile.spec import default_spec

ROOT = Path(__file__).resolve().parents[2]
STALE = "docs are stale: run python -m libtile.bytecode.reference"
SPEC = default_spec()


def test_the_migration_page_is_fresh() -> None:
    assert (ROOT / "docs" / "migration.md").read_text(encoding="utf-8") == migration_page(SPEC), STALE


def test_the_format_page_is_fresh() -> None:
    text = (ROOT / "docs" / "bytecode-format.md").read_text(encoding="utf-8")
    assert text == format_page(text, SPEC, ROOT), STALE
    assert text.count("<!-- generated: ") == 5


def test_the_migration_page_names_every_newer_member() -> None:
    page = migration_page(SPEC)
    for op in SPEC.ops.values():
        if SPEC.is_testing_op(op):
            continue
        if op.since > SPEC.versions[0]:
            assert f"op `{op.name}`" in page
        elif op.name not in ("entry", "global", "module"):
            for member in (*op.attributes, *op.operands, *op.results):
                assert member.since == op.since or f"`{member.name}` of `{op.name}`" in page


def test_the_examples_run() -> None:
    page = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 1
    scope = {"data": (ROOT / "examples" / "vector_add.bc").read_bytes()}
    for block in blocks:
        exec(block, scope)
    assert bytecode.read(scope["older"]).version == SPEC.versions[0]


def test_the_command_writes_both_pages(tmp_path: Path) -> None:
    for name in ("docs/bytecode-format.md", "examples/vector_add.bc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    assert main([str(tmp_path)]) == 0
    for name in ("bytecode-format.md", "migration.md"):
        assert (tmp_path / "docs" / name).read_bytes() == (ROOT / "docs" / name).read_bytes(), STALE
