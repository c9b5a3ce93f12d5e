# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Input that is a path, or the bytes themselves."""

from __future__ import annotations

import os

from libtile.support.errors import LibtileError

Bytes = bytes | bytearray | memoryview
Path = str | os.PathLike[str]


def file_bytes(source: Path | Bytes) -> bytes:
    """What a file holds, or the bytes given. LibtileError for a file that cannot be opened."""
    if isinstance(source, Bytes):
        return bytes(source)
    try:
        with open(source, "rb") as file:
            return file.read()
    except OSError as error:
        raise LibtileError(f"cannot open input file '{os.fspath(source)}': {error.strerror}") from None
