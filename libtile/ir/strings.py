# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strings and symbols as MLIR's text spells them. Bytes that are not UTF-8 are lone surrogates in Python's strings."""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb'\\(["\\nt]|[0-9A-Fa-f]{2})')
_SIMPLE = {b'"': b'"', b"\\": b"\\", b"n": b"\n", b"t": b"\t"}


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
    """Whether a name needs no quotes."""
    return _BARE.match(name) is not None


def symbol_text(name: str) -> str:
    """`@name`, or `@"na me"` when the name is not a bare identifier."""
    return f"@{name}" if is_bare_identifier(name) else "@" + quote(name)
