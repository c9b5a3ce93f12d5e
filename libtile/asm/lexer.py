# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens of the textual form, and positions in its source.

One regular expression reads a token and the white space before it. Token rules: MLIR language reference,
"Identifiers and keywords" and "Top level productions".
"""

from __future__ import annotations

import re
from bisect import bisect_right

from libtile.diagnostics import SourceLocation

# Possessive quantifiers: a failed match must not be retried in other ways, so that hostile text costs linear time.
_PATTERN = r"""
(?:[ \t\r\n]++|//[^\r\n]*+)*+
(?:
  (?P<bare>[A-Za-z_][A-Za-z0-9_$.]*+)
| (?P<percent>%(?:[0-9]++|[A-Za-z$._-][A-Za-z0-9$._-]*+))
| (?P<float>[0-9]++\.[0-9]*+(?:[eE][-+]?[0-9]++)?+)
| (?P<int>0x[0-9a-fA-F]++|[0-9]++)
| (?P<string>"(?:[^"\\\n\r\v\f]|\\(?:["\\nt]|[0-9A-Fa-f]{2}))*+")
| (?P<at>@(?:[A-Za-z_][A-Za-z0-9_$.]*+|"(?:[^"\\\n\r\v\f]|\\(?:["\\nt]|[0-9A-Fa-f]{2}))*+"))
| (?P<caret>\^(?:[0-9]++|[A-Za-z$._-][A-Za-z0-9$._-]*+))
| (?P<hash>\#(?!-\})(?:[0-9]++|[A-Za-z$._-][A-Za-z0-9$._-]*+))
| (?P<bang>!(?:[0-9]++|[A-Za-z$._-][A-Za-z0-9$._-]*+))
| (?P<punct>->|\.\.\.|\{-\#|\#-\}|[:,=<>{}()\[\]?*+|/-])
| (?P<eof>\Z)
| (?P<error>.)
)
"""

next_token = re.compile(_PATTERN, re.VERBOSE | re.DOTALL | re.ASCII).match

_ESCAPE = re.compile(rb'\\(["\\nt]|[0-9A-Fa-f]{2})')
_SIMPLE = {b'"': b'"', b"\\": b"\\", b"n": b"\n", b"t": b"\t"}


def error_message(text: str, position: int) -> str:
    """What is wrong at a position where no token starts."""
    char = text[position]
    if char == '"' or text[position : position + 2] == '@"':
        bad = re.compile(r'@?"(?:[^"\\\n\r\v\f]|\\(?:["\\nt]|[0-9A-Fa-f]{2}))*+').match(text, position)
        end = bad.end() if bad else position
        return "unknown escape in string literal" if text[end : end + 1] == "\\" else "expected '\"' in string literal"
    return {
        "@": "@ identifier expected to start with letter or '_'",
        "%": "invalid SSA name",
        "^": "invalid block name",
        "#": "invalid attribute name",
        "!": "invalid type identifier",
        ".": "expected three consecutive dots for an ellipsis",
    }.get(char, "unexpected character")


def unquote(token: str) -> str:
    """The value of a string token, quotes included. Bytes that are not UTF-8 become lone surrogates."""
    body = token[1:-1]
    if "\\" not in body:
        return body
    raw = _ESCAPE.sub(
        lambda m: _SIMPLE.get(m[1]) or bytes([int(m[1], 16)]), body.encode("utf-8", errors="surrogateescape")
    )
    return raw.decode("utf-8", errors="surrogateescape")


def quote(value: str) -> str:
    """The string token for a value: two backslashes for one, hexadecimal digits for all that is not printable ASCII."""
    if value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    data = value.encode("utf-8", errors="surrogateescape")
    return '"' + "".join(map(_escape, data)) + '"'


def _escape(byte: int) -> str:
    if byte == 0x5C:
        return "\\\\"
    return chr(byte) if 0x20 <= byte < 0x7F and byte != 0x22 else f"\\{byte:02X}"


_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z", re.ASCII)


def is_bare_identifier(name: str) -> bool:
    return _BARE.match(name) is not None


def symbol_text(name: str) -> str:
    """`@name`, or `@"na me"` when the name is not a bare identifier."""
    return f"@{name}" if is_bare_identifier(name) else "@" + quote(name)


class Source:
    """A text with its name; maps offsets to lines and columns. `first_line` is the number of its first line."""

    __slots__ = ("filename", "first_line", "starts", "text")

    def __init__(self, text: str, filename: str, first_line: int = 1):
        self.text = text
        self.filename = filename
        self.first_line = first_line
        self.starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        index = bisect_right(self.starts, offset) - 1
        return index + self.first_line, offset - self.starts[index] + 1

    def location(self, offset: int) -> SourceLocation:
        line, column = self.line_column(offset)
        return SourceLocation(self.filename, line, column)
