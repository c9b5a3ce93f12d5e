# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled code that tools keep from one run to the next, in one file: a bundle.

It holds the code of modules, each with the time and the size of the source that it was compiled from, and the code of
texts that are compiled in every run, with the programs of regular expressions among them. Python itself keeps a file
for each module, which it looks for in several folders and reads one by one; a tool needs some hundred of them. Each
tool has a bundle of its own, since what all of them need has an index that takes as long to read as some modules.

    file  = MAGIC, length of the index (8 bytes, little-endian), index, code...
    index = marshal of (Python's version, length of the code, {source: (time, size, start, end)}, {text: (start, end)})

Starts and ends are relative to the first byte behind the index, and between them is the marshal of a module's code and
of what it imports first (`libtile_tools.kept_imports`), of a text's code, or of the numbers of a program; the texts'
come first. A bundle of another Python, or one that is not whole, is as good as
none, and so is the code of a source that has changed. A bundle is written to a file of its own and renamed into place:
a reader sees a whole one, and whoever reads the one before it goes on with that.
"""

from __future__ import annotations

# This comes before there is a bundle: what is imported here is builtin or frozen.
import marshal
import os
import sys

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType
    from typing import Any

    NewModule = tuple[os.stat_result, CodeType, tuple[str, ...]]
    """The state of a source when it was compiled, its code, and the names of what it imports first."""

MAGIC = b"libtile bundle 3\n"
_START = len(MAGIC) + 8
_BLOCK = 1 << 15
"""Bytes of texts that are read at once."""

MOST_TEXTS = 10_000
"""A bundle with more texts, most of them of classes of older releases, begins anew; a tool needs up to 2000."""

_OF_ALL_TOOLS = "tools."
"""What the name of a bundle of all tools began with."""

_LEFT = 3600
"""Seconds after which a bundle that is still being written is not written any more."""

_BY_OTHERS = 0o022
"""The bits of a mode by which the group or others may write."""


class Bundle:
    """The bundle in a file, which need not be there; what is asked for is read, checked and remembered."""

    def __init__(self, path: str, *, private: bool = False):
        """`private`: as it is in a place that is not the installation's, it has to be this user's alone."""
        self.path = path
        self.private = private
        self._modules: dict[str, tuple[int, int, int, int]] = {}
        self._texts: dict[str, tuple[int, int]] = {}
        self._blocks: dict[int, bytes] = {}
        self._descriptor = -1
        self._first = 0
        try:
            self._read()
        except (OSError, ValueError, EOFError, TypeError):
            self._modules, self._texts = {}, {}

    def __bool__(self) -> bool:
        return bool(self._modules or self._texts)

    def _read(self) -> None:
        self._descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        status = os.fstat(self._descriptor)
        if self.private and (status.st_uid != os.geteuid() or status.st_mode & _BY_OTHERS):
            raise PermissionError
        start = os.read(self._descriptor, _START)
        if not start.startswith(MAGIC) or len(start) < _START:
            raise ValueError
        length = int.from_bytes(start[len(MAGIC) :], "little")
        if length > status.st_size:
            raise ValueError
        version, size, modules, texts = marshal.loads(os.read(self._descriptor, length))
        self._first = _START + length
        if version != sys.version or self._first + size != status.st_size:
            raise ValueError
        self._modules, self._texts = modules, texts

    def _part(self, start: int, end: int) -> bytes:
        # Each by itself, and not the file as a whole: much of it is for other inputs.
        if hasattr(os, "pread"):
            return os.pread(self._descriptor, end - start, self._first + start)
        os.lseek(self._descriptor, self._first + start, os.SEEK_SET)
        return os.read(self._descriptor, end - start)

    def module(self, source: str) -> tuple[CodeType, tuple[str, ...]] | None:
        """The code of a source file as it is now, with the names of what it imports first; None when it is not here."""
        if not self.has_module(source):
            return None
        _, _, start, end = self._modules[source]
        found: tuple[CodeType, tuple[str, ...]] = marshal.loads(self._part(start, end))
        return found

    def has_module(self, source: str) -> bool:
        """Whether the code of a source file as it is now is here."""
        found = self._modules.get(source)
        if found is None:
            return False
        try:
            status = os.stat(source)
        except OSError:
            return False
        return (status.st_mtime_ns, status.st_size) == found[:2]

    def text(self, text: str) -> Any:
        """The code of a text, or what was saved in its place; None when it is not here."""
        found = self._texts.get(text)
        return None if found is None else marshal.loads(self._text(*found))

    def _text(self, start: int, end: int) -> bytes:
        # Some at once: they are small and many, and those that are asked for together have been added together.
        number = start // _BLOCK
        first = number * _BLOCK
        if end > first + _BLOCK:
            return self._part(start, end)
        if number not in self._blocks:
            self._blocks[number] = self._part(first, first + _BLOCK)
        return self._blocks[number][start - first : end - first]

    def save(self, modules: Mapping[str, NewModule], texts: Mapping[str, Any]) -> bool:
        """Write the bundle with what is new: sources with their states when they were compiled, and texts.

        What another process has added since this one read the bundle stays. False for a place that cannot be written
        to, which is left as it is.
        """
        now = Bundle(self.path, private=self.private)
        try:
            return now._save(modules, texts)
        finally:
            if now._descriptor >= 0:
                os.close(now._descriptor)

    def _save(self, modules: Mapping[str, NewModule], texts: Mapping[str, Any]) -> bool:
        parts: list[bytes] = []
        size = 0

        def put(part: bytes) -> tuple[int, int]:
            nonlocal size
            parts.append(part)
            size += len(part)
            return size - len(part), size

        all_modules: dict[str, tuple[int, int, int, int]] = {}
        all_texts: dict[str, tuple[int, int]] = {}
        if len(self._texts) < MOST_TEXTS:
            all_texts = {x: put(self._text(start, end)) for x, (start, end) in self._texts.items()}
        for text, code in texts.items():
            all_texts[text] = put(marshal.dumps(code))
        for source, (time, bytes_, start, end) in self._modules.items():
            if source not in modules and os.path.exists(source):
                all_modules[source] = (time, bytes_, *put(self._part(start, end)))
        for source, (status, code, imports) in modules.items():
            all_modules[source] = (status.st_mtime_ns, status.st_size, *put(marshal.dumps((code, imports))))
        index = marshal.dumps((sys.version, size, all_modules, all_texts))
        return self._write(b"".join([MAGIC, len(index).to_bytes(8, "little"), index, *parts]))

    def _write(self, data: bytes) -> bool:
        folder = os.path.dirname(self.path)
        temporary = f"{self.path}.{os.getpid()}"
        try:
            os.makedirs(folder, mode=0o700 if self.private else 0o777, exist_ok=True)
            if self.private:
                status = os.stat(folder)
                if status.st_uid != os.geteuid() or status.st_mode & _BY_OTHERS:
                    return False
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if self.private else 0o666)
        except OSError:
            return False
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            os.replace(temporary, self.path)
        except OSError:  # the disk is full
            os.unlink(temporary)
            return False
        self._clear(folder)
        return True

    def _clear(self, folder: str) -> None:
        """Remove what nobody will read: the bundle that all tools had in earlier versions, and what a process that was
        killed has left of one."""
        from contextlib import suppress

        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            old = name.startswith(_OF_ALL_TOOLS) and name.endswith(".bundle") and path != self.path
            with suppress(OSError):  # somebody else's, or somebody else has removed it
                if old or (".bundle." in name and os.stat(path).st_mtime < os.stat(self.path).st_mtime - _LEFT):
                    os.unlink(path)


def bundle(tool: str = "tools") -> Bundle | None:
    """The bundle of a tool: beside the code of this module where Python keeps that, or else in the user's cache.

    None when this Python keeps no code at all. An installation that others made and that cannot be written to has one
    in the cache of each user; a user without a home has none.
    """
    tag = sys.implementation.cache_tag
    if tag is None:
        return None
    name = f"{tool}.{tag}{f'.opt-{sys.flags.optimize}' if sys.flags.optimize else ''}.bundle"
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.pycache_prefix is not None:
        folder = os.path.join(sys.pycache_prefix, os.path.splitdrive(here)[1].lstrip(os.sep))
    else:
        folder = os.path.join(here, "__pycache__")
    beside = Bundle(os.path.join(folder, name))
    if beside or _writable(folder) or not hasattr(os, "geteuid"):
        return beside
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(os.path.join("~", ".cache"))
    if not os.path.isabs(home):  # neither HOME nor an entry of the user in passwd
        return beside
    return Bundle(os.path.join(home, "libtile", "tools", name), private=True)


def _writable(folder: str) -> bool:
    """Whether files can be made in a folder, which may have to be made itself."""
    while not os.path.exists(folder):
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return os.access(folder, os.W_OK | os.X_OK)
