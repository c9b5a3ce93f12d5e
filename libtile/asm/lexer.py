# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens of the textual form, and positions in its source.

One regular expression reads a token and the white space before it. Token rules: MLIR language reference,
"Identifiers and keywords" and "Top level productions".
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right

from libtile.support.diagnostics import SourceLocation

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


class Source:
    """A text with its name; maps offsets to lines and columns. `first_line` is the number of its first line."""

    __slots__ = ("filename", "first_line", "starts", "text")

    def __init__(self, text: str, filename: str, first_line: int = 1):
        self.text = text
        self.filename = filename
        self.first_line = first_line
        self.starts = array("L", [0])
        self.starts.extend(m.end() for m in re.finditer("\n", text))

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        index = bisect_right(self.starts, offset) - 1
        return index + self.first_line, offset - self.starts[index] + 1

    def location(self, offset: int) -> SourceLocation:
        line, column = self.line_column(offset)
        return SourceLocation(self.filename, line, column)
