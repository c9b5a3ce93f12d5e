# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens of PTX (PTX ISA, "Syntax": comments, identifiers, constants)."""

from __future__ import annotations

import re
from typing import NamedTuple

from libtile.ptx.errors import PtxFormatError

MAX_DIGITS = 160
"""Of a number."""


class Token(NamedTuple):
    """`kind`: id, dir (.word), int, float, str, punct or eof. `value` is the number for literals."""

    kind: str
    text: str
    pos: int
    value: int | float | None = None
    bits: int = 0

    @property
    def end(self) -> int:
        """The offset behind the token."""
        return self.pos + len(self.text)


_TOKEN = re.compile(
    r"""
    \s*(?:
    (?P<comment>//[^\n]*|/\*.*?\*/|\.source_begin[ \t]*\n(?:.*?\n)??[ \t]*\.source_end(?=\s|$))
  | (?P<hexfloat>0[fF][0-9a-fA-F]{8}(?![0-9a-zA-Z_$])|0[dD][0-9a-fA-F]{16}(?![0-9a-zA-Z_$]))
  | (?P<float>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?(?![a-zA-Z_0-9])|\d+[eE][+-]?\d+)
  | (?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<id>[a-zA-Z][a-zA-Z0-9_$]*|[_$%][a-zA-Z0-9_$]+)
  | (?P<dir>\.[a-zA-Z0-9_][a-zA-Z0-9_$]*(?:::[a-zA-Z0-9_]+)*)
  | (?P<str>"[^"\n]*")
  | (?P<open>/\*)
  | (?P<punct><<|>>|<=|>=|==|!=|&&|\|\||[{}()\[\],;:@!|+\-*/%<>=~&^?_\#])
  | (?P<end>\Z)
  | (?P<unexpected>.)
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
"""A match is one token with the space before it; the last one is `end`. Nothing lies between two matches."""


class LineMap:
    """Maps offsets of a text to lines and columns, both from 1."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0] + [m.end() for m in re.finditer("\n", text)]

    def position(self, pos: int) -> tuple[int, int]:
        from bisect import bisect_right  # which only errors need

        line = bisect_right(self.starts, pos)
        return line, pos - self.starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return self.text[self.starts[line - 1] : end].strip()


def tokenize(text: str) -> list[Token]:
    """All tokens of `text`, ending in one eof token. Raises PtxFormatError on a character that starts no token."""
    tokens: list[Token] = []
    append, make = tokens.append, tuple.__new__
    known: dict[str, tuple[str, int | float | None, int]] = {}  # PTX says the same words again and again
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        assert kind is not None  # every alternative is a group
        if kind == "comment":
            continue
        body = match[kind]
        position = match.end() - len(body)
        meaning = known.get(body)
        if meaning is None:
            try:
                meaning = known[body] = _meaning(kind, body)
            except ValueError as error:
                raise PtxFormatError(str(error), position) from None
        append(make(Token, (meaning[0], body, position, meaning[1], meaning[2])))
        if kind == "end":
            break
    return tokens


def token_at(text: str, position: int) -> Token:
    """The first token from an offset on; that of kind eof at the end. Raises PtxFormatError where there is none."""
    while True:
        match = _TOKEN.match(text, position)
        assert match is not None and match.lastgroup is not None  # there is an alternative for every character
        kind, position = match.lastgroup, match.end()
        if kind != "comment":
            break
    body = match[kind]
    try:
        meaning, value, bits = _meaning(kind, body)
    except ValueError as error:
        raise PtxFormatError(str(error), match.start(kind)) from None
    return Token(meaning, body, match.start(kind), value, bits)


def _meaning(kind: str, body: str) -> tuple[str, int | float | None, int]:
    """Kind, value and bits of the token with this text. Raises ValueError where it is none."""
    match kind:
        case "int" if len(body) > MAX_DIGITS:
            raise ValueError(f"a number of {len(body)} digits")
        case "int":
            return "int", _integer(body), 0
        case "hexfloat":  # the bits are kept, because a float object would lose the payload of a NaN
            return "float", int(body[2:], 16), 32 if body[1] in "fF" else 64
        case "float":
            return "float", float(body), 0
        case "open":
            raise ValueError("unterminated comment")
        case "unexpected":
            raise ValueError(f"unexpected character {body!r}")
        case "end":
            return "eof", None, 0
    return kind, None, 0


def _integer(body: str) -> int:
    digits = body.rstrip("U")
    if digits[:2] in ("0x", "0X"):
        return int(digits, 16)
    if digits[:2] in ("0b", "0B"):
        return int(digits[2:], 2)
    if len(digits) > 1 and digits[0] == "0" and digits.isdigit() and not set(digits) & set("89"):
        return int(digits, 8)
    return int(digits, 10)
