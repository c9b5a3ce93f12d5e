# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The file metadata dictionary, `{-# dialect_resources: {...}, external_resources: {...} #-}`.

MLIR's tools write one behind a module when it has resources, or for a reproducer. Tile IR has no resources: the text is
checked and its values are dropped. Grammar: MLIR language reference, "Resources" and "Top level productions".
"""

from __future__ import annotations

from collections.abc import Callable

from libtile.asm.cursor import Cursor
from libtile.ir.strings import unquote

BEGIN, END = "{-#", "#-}"


def skip_metadata(p: Cursor) -> None:
    """Read a metadata dictionary, whose opening token is the current one; ParseError when it is malformed."""
    p.advance()
    _list_until(p, END, lambda: _section(p))


def _list_until(p: Cursor, end: str, element: Callable[[], None]) -> None:
    """Elements with commas between, up to and with the token `end`."""
    if p.accept(end):
        return
    p.comma_list(element)
    p.expect(end)


def _section(p: Cursor) -> None:
    start, key = p.start, p.token
    if p.kind != "bare":
        p.fail("expected identifier key in file metadata dictionary")
    p.advance()
    p.expect(":")
    if key not in ("dialect_resources", "external_resources"):
        p.fail(f"unknown key '{key}' in file metadata dictionary", start)
    p.expect("{")
    _list_until(p, "}", lambda: _group(p, of_dialects=key == "dialect_resources"))


def _group(p: Cursor, of_dialects: bool) -> None:
    """The resources of one dialect, or of one external user."""
    start = p.start
    name = _key(p)
    if of_dialects and name != "builtin":
        p.fail(f"unexpected 'resource' section for dialect '{name}'", start)
    p.expect(":")
    p.expect("{")
    _list_until(p, "}", lambda: _entry(p))


def _entry(p: Cursor) -> None:
    """`name: true`, `name: "text or hexadecimal blob"`."""
    _key(p)
    p.expect(":")
    if p.kind != "string" and not (p.kind == "bare" and p.token in ("true", "false")):
        p.fail("expected 'true', 'false' or a string as the value of a resource")
    p.advance()


def _key(p: Cursor) -> str:
    name = unquote(p.token) if p.kind == "string" else p.token
    if p.kind not in ("bare", "string"):
        p.fail("expected identifier key for 'resource' entry")
    p.advance()
    return name
