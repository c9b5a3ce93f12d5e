# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Input that is a path, or the bytes themselves; temporary files; and what kernels print."""

from __future__ import annotations

import errno
import os
from typing import BinaryIO, TextIO

from libtile.support.errors import LibtileError, reason
from libtile.support.limits import INPUT_BYTES

Bytes = bytes | bytearray | memoryview
Path = str | os.PathLike[str]
_PART = 1 << 20


def file_bytes(source: Path | Bytes) -> bytes:
    """What a file holds, or the bytes given. LibtileError for a file that cannot be opened, and for anything else."""
    if isinstance(source, Bytes):
        return bytes(source)
    if not isinstance(source, str | os.PathLike):  # `open` takes numbers, too
        raise LibtileError(f"expected a path or bytes, but got {type(source).__name__}")
    try:
        with open(source, "rb") as file:
            return read_bounded(file)
    except TypeError:  # a class whose objects give no path
        raise LibtileError(f"expected a path or bytes, but got a {type(source).__name__} of no path") from None
    except (OSError, ValueError) as error:  # ValueError: a path that is none, with a zero byte or half a character
        raise LibtileError(f"cannot open input file {os.fspath(source)!r}: {reason(error)}") from None


def read_bounded(file: BinaryIO) -> bytes:
    """What is left of a file. OSError for more than the limit of an input, as a device without an end gives."""
    parts, length = [], 0
    while part := file.read(_PART):
        parts.append(part)
        length += len(part)
        if length > INPUT_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {INPUT_BYTES} bytes, the limit of an input")
    return b"".join(parts)


def temporary_folder() -> str:
    """The folder for temporary files: `tempfile.gettempdir()`, without that module where what the environment names, or
    else /tmp, can be written to. With what compresses files and makes random numbers it takes 4 ms to import."""
    named = [folder for name in ("TMPDIR", "TEMP", "TMP") if (folder := os.environ.get(name))]
    first = named[0] if named else "/tmp"
    first = first if first == os.curdir else os.path.abspath(first)
    if os.path.isdir(first) and os.access(first, os.W_OK | os.X_OK):
        return first
    import tempfile

    return tempfile.gettempdir()


def remove_folder(folder: Path) -> None:
    """Remove a folder of files, and what else somebody put there; nothing is said where that cannot be."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                os.unlink(entry.path)
        os.rmdir(folder)
    except FileNotFoundError:
        return
    except OSError:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def print_text(out: TextIO, text: str) -> None:
    """Write what a kernel prints to a stream, at once. What the stream's encoding does not have, and bytes that are no
    UTF-8 (surrogates in the text) where it takes none, is written in escapes."""
    try:
        out.write(text)
    except UnicodeEncodeError:
        encoding = out.encoding or "ascii"
        out.write(text.encode(encoding, errors="backslashreplace").decode(encoding))
    out.flush()
