# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pieces of HTML for notebooks: what `_repr_html_` of modules, compilations and results are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SHOWN_LINES = 200
"""Lines of a text that a notebook shows."""


def escaped(text: object) -> str:
    """A value as text between tags."""
    return str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def preformatted(lines: Sequence[str], left_out: int = 0) -> str:
    """Lines of code, and how many more there are."""
    more = f"\n... and {left_out} more lines" if left_out > 0 else ""
    return f"<pre>{escaped(chr(10).join(lines) + more)}</pre>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table with a head, which is left out when all its cells are empty."""
    head = "".join(f"<th>{escaped(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    return f"<table><caption>{escaped(caption)}</caption>{top}<tbody>{body}</tbody></table>"
