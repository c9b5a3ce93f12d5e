# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How texts stand in LLVM IR: the one place that quotes and escapes for it (LLVM Language Reference, "Identifiers",
"String constants").

Texts of an input can be any bytes. In memory they are `str`, with bytes that are no UTF-8 as surrogate escapes.
"""

from __future__ import annotations

import re

_IDENTIFIER = re.compile(r"[A-Za-z_$.-][\w$.-]*", re.ASCII)
_LONE_SURROGATE = "[\ud800-\udc7f\udd00-\udfff]"
_ESCAPES = {byte: f"\\{byte:02X}" for byte in range(256) if not 0x20 <= byte < 0x7F or byte in b'"\\'}
"""How bytes stand in quotes that are not plain."""


def to_bytes(text: str) -> bytes:
    """The bytes that a text stands for; code points that no encoding has become U+FFFD."""
    if text.isascii():
        return text.encode()
    return re.sub(_LONE_SURROGATE, "\ufffd", text).encode("utf-8", errors="surrogateescape")


def quoted(text: str | bytes) -> str:
    """A string in quotes, any byte in it that is not plain as `\\XX`."""
    raw = to_bytes(text) if isinstance(text, str) else text
    return f'"{raw.decode("latin-1").translate(_ESCAPES)}"'


def byte_array(data: bytes) -> str:
    """Bytes as an array constant with its type, e.g. `[2 x i8] c"a\\00"`."""
    return f"[{len(data)} x i8] " + (f"c{quoted(data)}" if any(data) else "zeroinitializer")


def symbol(name: str) -> str:
    """A global name with its `@`, in quotes where it must be."""
    return f"@{name}" if _IDENTIFIER.fullmatch(name) else f"@{quoted(name)}"
