# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens of PTX (PTX ISA, "Syntax": comments, identifiers, constants)."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from .errors import PtxError
from .limits import MAX_DIGITS


class Token(NamedTuple):
    """`kind`: id, dir (.word), int, float, str, punct or eof. `value` is the number for literals."""

    kind: str
    text: str
    pos: int
    value: int | float | None = None
    bits: int = 0


_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|//[^\n]*|/\*.*?\*/|\.source_begin[ \t]*\n(?:.*?\n)??[ \t]*\.source_end(?=\s|$))
  | (?P<hexfloat>0[fF][0-9a-fA-F]{8}(?![0-9a-zA-Z_$])|0[dD][0-9a-fA-F]{16}(?![0-9a-zA-Z_$]))
  | (?P<float>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?(?![a-zA-Z_0-9])|\d+[eE][+-]?\d+)
  | (?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<id>[a-zA-Z][a-zA-Z0-9_$]*|[_$%][a-zA-Z0-9_$]+)
  | (?P<dir>\.[a-zA-Z0-9_][a-zA-Z0-9_$]*(?:::[a-zA-Z0-9_]+)*)
  | (?P<str>"[^"\n]*")
  | (?P<open>/\*)
  | (?P<punct><<|>>|<=|>=|==|!=|&&|\|\||[{}()\[\],;:@!|+\-*/%<>=~&^?_\#])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class LineMap:
    """Maps offsets of a text to lines and columns, both from 1."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0] + [m.end() for m in re.finditer("\n", text)]

    def position(self, pos: int) -> tuple[int, int]:
        line = bisect_right(self.starts, pos)
        return line, pos - self.starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return self.text[self.starts[line - 1] : end].strip()


def tokenize(text: str, filename: str = "<ptx>") -> tuple[list[Token], LineMap]:
    """All tokens of `text`, ending in one eof token. Raises PtxError on a character that starts no token."""
    lines = LineMap(text)
    tokens: list[Token] = []
    pos, end = 0, len(text)
    match = _TOKEN.match
    append = tokens.append
    while pos < end:
        m = match(text, pos)
        if m is None or m.lastgroup == "open":
            line, column = lines.position(pos)
            what = "unterminated comment" if m is not None else f"unexpected character {text[pos]!r}"
            raise PtxError(what, line, column, lines.line_text(line), filename)
        kind = m.lastgroup
        body = m.group()
        if kind == "skip":
            pass
        elif kind == "int" and len(body) > MAX_DIGITS:
            line, column = lines.position(pos)
            raise PtxError(f"a number of {len(body)} digits", line, column, "", filename)
        elif kind == "int":
            append(_integer(body, pos))
        elif kind == "hexfloat":
            append(_hexfloat(body, pos))
        elif kind == "float":
            append(Token("float", body, pos, float(body)))
        elif kind is not None:
            append(Token(kind, body, pos))
        pos = m.end()
    append(Token("eof", "", end))
    return tokens, lines


def _integer(body: str, pos: int) -> Token:
    digits = body.rstrip("U")
    if digits[:2] in ("0x", "0X"):
        value = int(digits, 16)
    elif digits[:2] in ("0b", "0B"):
        value = int(digits[2:], 2)
    elif len(digits) > 1 and digits[0] == "0" and digits.isdigit() and not set(digits) & set("89"):
        value = int(digits, 8)
    else:
        value = int(digits, 10)
    return Token("int", body, pos, value)


def _hexfloat(body: str, pos: int) -> Token:
    # The bits are kept, because a float object would lose the payload of a NaN.
    return Token("float", body, pos, int(body[2:], 16), 32 if body[1] in "fF" else 64)
