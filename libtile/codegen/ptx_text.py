# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How texts stand in PTX: the one place that escapes strings for it, and that knows its identifiers.

A string of PTX has no escapes: it ends at the next quote, and ptxas takes no byte beyond ASCII (observed on 13.5). LLVM
writes C's escapes into strings all the same, and debuggers know that form (`\\303\\251` for an e with an acute accent,
`\\\\` for a backslash). It is kept, but for the escaped quote, which would end the string: that is written `\\042`.
"""

from __future__ import annotations

import re
from itertools import accumulate, takewhile

MAX_STRING = 4096
"""Characters of the longest string that is written; ptxas crashes on strings of 16,000."""

_CUT = "..."
"""What stands for the beginning of a string that is cut."""

_IDENTIFIER = re.compile(r"[A-Za-z][\w$]*|[_$][\w$]+", re.ASCII)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def is_identifier(name: str) -> bool:
    """Whether PTX can have a variable or function of this name (PTX ISA, "Identifiers"); ptxas refuses `_` and `$`."""
    return _IDENTIFIER.fullmatch(name) is not None


_LEXEMES = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|/\*|["{}]', re.DOTALL)


_LEAVES = "PTX that ends what it did not begin, or does not end what it began: { }, /* */ or a string"
_CHOICES = re.compile(r"\$\$|(?P<choice>\$[(|)]|\$\{:|\0)")
"""What LLVM prints otherwise: a dollar; alternatives (`$(a$|b$)`), words of its own (`${:comment}`) and the end."""


def inline_problem(code: str) -> str:
    """What code is that must not stand within a function's body, as inline assembly of LLVM's; empty for any other.

    It has to stay there: each brace that it closes it has opened before, and at its end no brace, comment or string is
    open. What LLVM prints of it must be what was looked at.
    """
    if any(found["choice"] for found in _CHOICES.finditer(code)):
        return "PTX of which LLVM prints something else: $( $| $), ${:...} or a NUL"
    depth = 0
    for lexeme in _LEXEMES.findall(code):
        depth += (lexeme == "{") - (lexeme == "}")
        if depth < 0 or lexeme in ('"', "/*"):
            return _LEAVES
    return _LEAVES if depth else ""


def string(data: bytes) -> str:
    """A string in quotes; of one that is too long the end is kept, which of a path says most."""
    characters = [_character(b) for b in data]
    if sum(map(len, characters)) > MAX_STRING:
        room = MAX_STRING - len(_CUT)
        kept = takewhile(lambda length: length <= room, accumulate(map(len, reversed(characters))))
        characters = [_CUT, *characters[len(characters) - len(list(kept)) :]]
    return f'"{"".join(characters)}"'


def _character(byte: int) -> str:
    if byte == ord("\\"):
        return "\\\\"
    return chr(byte) if 0x20 <= byte < 0x7F and byte != ord('"') else f"\\{byte:03o}"


def bytes_of_llvm_string(body: str) -> bytes:
    """What a string stands for that LLVM has printed between quotes, with C's escapes."""

    def decoded(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _LETTERS.get(code, code)

    return _ESCAPE.sub(decoded, body.encode())
