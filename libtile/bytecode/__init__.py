# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tile IR bytecode: read, write, validate and migrate files of every version (see docs/bytecode-format.md).

module = bytecode.read(data)
data = bytecode.write(module, "13.1")
"""

from libtile.bytecode.errors import (
    BytecodeError,
    InvalidError,
    MalformedError,
    MigrationError,
    UnsupportedVersionError,
)
from libtile.bytecode.model import Module
from libtile.bytecode.reader import is_bytecode, read, validate
from libtile.bytecode.writer import migrate, write

__all__ = [
    "BytecodeError",
    "InvalidError",
    "MalformedError",
    "MigrationError",
    "Module",
    "UnsupportedVersionError",
    "is_bytecode",
    "migrate",
    "read",
    "validate",
    "write",
]
