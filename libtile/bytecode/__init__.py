# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tile IR bytecode: read, write, validate and migrate files of every version (see docs/bytecode-format.md).

module = bytecode.read(data)
data = bytecode.write(module, "13.1")
"""

from __future__ import annotations

from libtile.bytecode.errors import (
    BytecodeError,
    InvalidError,
    MalformedError,
    MigrationError,
    UnsupportedVersionError,
)
from libtile.bytecode.model import Module
from libtile.bytecode.reader import IS_TEXT, is_bytecode, is_text, read, validate

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from libtile.bytecode.writer import migrate, write

__all__ = [
    "IS_TEXT",
    "BytecodeError",
    "InvalidError",
    "MalformedError",
    "MigrationError",
    "Module",
    "UnsupportedVersionError",
    "is_bytecode",
    "is_text",
    "migrate",
    "read",
    "validate",
    "write",
]

_WRITER = ("migrate", "write")


def __getattr__(name: str) -> object:
    """What writes is loaded when it is asked for: most tools only read."""
    if name not in _WRITER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from libtile.bytecode import writer

    return getattr(writer, name)
