# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Input that is a path, or the bytes themselves."""

from __future__ import annotations

import os

from libtile.support.errors import LibtileError

Bytes = bytes | bytearray | memoryview
Path = str | os.PathLike[str]


def file_bytes(source: Path | Bytes) -> bytes:
    """What a file holds, or the bytes given. LibtileError for a file that cannot be opened, and for anything else."""
    if isinstance(source, Bytes):
        return bytes(source)
    if not isinstance(source, str | os.PathLike):  # `open` takes numbers, too
        raise LibtileError(f"expected a path or bytes, but got {type(source).__name__}")
    try:
        with open(source, "rb") as file:
            return file.read()
    except OSError as error:
        raise LibtileError(f"cannot open input file '{os.fspath(source)}': {error.strerror}") from None
