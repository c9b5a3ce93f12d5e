# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compile cache on disk: content-addressed, bounded in size, safe to share between processes.

An entry is one file, named by the digest of its key: a text of everything that its contents depend on. It holds the key
and a digest of all that it holds, and both are checked, so that a file which is damaged, or is an answer to another
question, is a miss. So is one that another user may have written: an entry is a regular file, in folders that are no
links, of this user, and nobody else can write it. No file in the cache makes a compilation fail or wait.

An entry is written to a temporary file and renamed into place: a reader sees a whole entry or none, whenever a writer
dies. What a writer that died left behind goes when the cache is next tidied. A hit renews the entry's time; when the
cache is larger than its limit, by some small entries at most, the entries that were not used for longest go.

    file  = MAGIC, SHA-256 of the rest (hexadecimal), newline, field (the key), number of parts, (field, field)...
    field = length in 8 bytes, bytes; numbers are little-endian; a part is a name and its contents

`libtile.support.environment` declares the variables that say whether there is a cache, where, and how large it may be.
Without a home there is none.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from libtile.support import environment
from libtile.support.errors import reason
from libtile.support.records import dataclass

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"libtile cache entry 2\n"
SUFFIX = ".entry"
_STALE_SECONDS = 60.0
"""A temporary file that was not written to for so long has no writer; one that was only stopped stores nothing."""
_MANY = 256
_SHELF = re.compile(r"[0-9a-f]{2}")
_ENTRY = re.compile(r"[0-9a-f]{64}\.entry")
_TEMPORARY = re.compile(r"[0-9a-f]{64}\.\w+\.tmp")
_NOT_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def digest(parts: Iterable[str | bytes]) -> str:
    """The name of the entry that depends on these parts and nothing else (hexadecimal)."""
    import hashlib  # it loads OpenSSL, which nobody needs where the cache is off

    state = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little") + raw)
    return state.hexdigest()


@dataclass(frozen=True)
class Key:
    """Everything that an entry depends on, as a text; two keys are the same when their texts are."""

    text: str

    @staticmethod
    def of(facts: Mapping[str, object]) -> Key:
        """The key of facts that JSON can express."""
        import json

        return Key(json.dumps(facts, sort_keys=True))

    @cached_property
    def name(self) -> str:
        """The digest that an entry of this key is filed under."""
        return digest([self.text])


def default_folder() -> Path | None:
    """Where the cache is when nobody says: see the environment variables above. None for a user without a home."""
    from pathlib import Path  # which takes as long to import as reading a kernel, and only where there is a cache

    if named := environment.CACHE_FOLDER.text():
        return Path(named)
    if os.path.isabs(base := os.environ.get("XDG_CACHE_HOME", "")):  # others are invalid, as its specification says
        return Path(base) / "libtile"
    try:
        return Path.home() / ".cache" / "libtile"
    except RuntimeError:  # neither HOME nor an entry of the user in passwd
        return None


def from_environment(place: str | None = None) -> Cache | None:
    """The user's cache, at `place` or its usual place; None when it is switched off, or has no place.

    SettingError for variables of the environment that are neither.
    """
    if not environment.CACHE.on():
        return None
    from pathlib import Path

    folder = Path(place) if place else default_folder()
    return None if folder is None else Cache(folder, environment.CACHE_SIZE.bytes())


@dataclass(frozen=True)
class Cache:
    """The cache in a folder, which is made when something is stored; `limit` is its size in bytes."""

    folder: Path
    limit: int = environment.CACHE_SIZE.default

    def obstacle(self) -> str | None:
        """Why nothing can be kept in the folder, which is made if need be; None where it can."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK | os.X_OK):
                return os.strerror(errno.EACCES)
            return None if _is_safe_folder(os.stat(self.folder)) else "others may write to it, or it is another user's"
        except OSError as error:
            return reason(error)

    def path(self, key: Key) -> Path:
        return self.folder / key.name[:2] / (key.name + SUFFIX)

    def load(self, key: Key) -> dict[str, bytes] | None:
        """The parts of the entry of this key; None when there is none that can be trusted."""
        path = self.path(key)
        try:
            raw = self._read(path)
        except OSError:
            return None
        parts = None if raw is None else _unpack(raw, key)
        if parts is not None:
            with contextlib.suppress(OSError):  # another process may have evicted it; what was read is good
                os.utime(path, follow_symlinks=False)
        return parts

    def store(self, key: Key, parts: Mapping[str, bytes]) -> bool:
        """Store an entry and evict others if need be; False when it is too large or the disk refuses it."""
        raw = _pack(key, parts)
        path = self.path(key)
        if len(raw) > self.limit:
            return False
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not self._is_safe(path.parent):
                return False
            _write(path, raw)
        except OSError:
            return False
        # Looking at every file takes time: among many small entries it is done for one key in sixteen.
        if len(raw) * _MANY > self.limit or key.name.endswith("0"):
            self.evict()
        return True

    def _is_safe(self, shelf: Path) -> bool:
        """Whether nobody else can put files into the cache or this folder of it. OSError if there is none."""
        return _is_safe_folder(os.stat(self.folder)) and _is_safe_folder(os.lstat(shelf))

    def _read(self, path: Path) -> bytes | None:
        """A file's contents; None for what is no entry that this user wrote. OSError if it cannot be read."""
        if not self._is_safe(path.parent) or not stat.S_ISREG(os.lstat(path).st_mode):
            return None
        with open(os.open(path, _FLAGS), "rb") as file:  # a pipe that was put there just now does not block, either
            status = os.fstat(file.fileno())
            trusted = stat.S_ISREG(status.st_mode) and _is_own(status) and not status.st_mode & _NOT_OTHERS
            return file.read() if trusted and status.st_size <= self.limit else None

    def entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        """The files of all entries with their status; temporary files of writers that died are removed on the way."""
        now = time.time()
        for path, status in self._files():
            if _ENTRY.fullmatch(path.name):
                yield path, status
            elif _TEMPORARY.fullmatch(path.name) and now - status.st_mtime > _STALE_SECONDS:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """The regular files below the cache's folder; others, which somebody else put there, are left alone."""
        with contextlib.suppress(OSError):
            for shelf in sorted(name for name in os.listdir(self.folder) if _SHELF.fullmatch(name)):
                with contextlib.suppress(OSError):
                    yield from _files_in(self.folder / shelf)

    def evict(self) -> int:
        """Remove the entries that were not used for longest until the cache is within its limit; how many went."""
        found = sorted(self.entries(), key=lambda e: e[1].st_mtime_ns, reverse=True)
        kept = removed = 0
        for path, status in found:
            kept += status.st_size
            if kept > self.limit:
                with contextlib.suppress(OSError):
                    path.unlink()
                    removed += 1
        return removed


def _is_own(status: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or status.st_uid == os.geteuid()


def _is_safe_folder(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and _is_own(status) and not status.st_mode & stat.S_IWOTH


def _files_in(shelf: Path) -> Iterator[tuple[Path, os.stat_result]]:
    from pathlib import Path

    if not stat.S_ISDIR(os.lstat(shelf).st_mode):
        return
    with os.scandir(shelf) as found:
        for file in found:
            with contextlib.suppress(OSError):  # another process may have removed it
                status = file.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield Path(file.path), status


def _write(path: Path, raw: bytes) -> None:
    """The file appears whole or not at all. OSError if it cannot be written; nothing is left then."""
    temporary = path.parent / f"{path.stem}.{os.urandom(8).hex()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _field(raw: bytes) -> bytes:
    return len(raw).to_bytes(8, "little") + raw


def _pack(key: Key, parts: Mapping[str, bytes]) -> bytes:
    body = _field(key.text.encode()) + len(parts).to_bytes(8, "little")
    body += b"".join(_field(name.encode()) + _field(part) for name, part in parts.items())
    return MAGIC + _checksum(body) + b"\n" + body


def _checksum(body: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(body).hexdigest().encode()


def _unpack(raw: bytes, key: Key) -> dict[str, bytes] | None:
    """The parts of an entry; None unless it is a whole entry of this key."""
    start = len(MAGIC) + 64
    body = raw[start + 1 :]
    question = _field(key.text.encode())
    if raw[: start + 1] != MAGIC + _checksum(body) + b"\n" or not body.startswith(question):
        return None
    position = len(question)
    fields: list[bytes] = []
    count = int.from_bytes(body[position : position + 8], "little")
    position += 8
    while position + 8 <= len(body):
        size = int.from_bytes(body[position : position + 8], "little")
        fields.append(body[position + 8 : position + 8 + size])
        position += 8 + size
    if position != len(body) or len(fields) != 2 * count:
        return None
    return {name.decode(errors="replace"): part for name, part in zip(fields[::2], fields[1::2])}
