# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compile cache on disk: content-addressed, bounded in size, safe to share between processes.

An entry is one file, named by the digest of everything that its contents depend on. It is written to a temporary file
and renamed into place, so that a reader sees a whole entry or none, and it carries a digest of its contents, so that a
damaged one is a miss. A hit renews the entry's time; when the cache is larger than its limit, by some small entries at
most, the entries that were not used for longest go.

Environment: `LIBTILE_CACHE=0` turns it off, `LIBTILE_CACHE_DIR` says where it is (default `~/.cache/libtile`, or below
`XDG_CACHE_HOME`), `LIBTILE_CACHE_SIZE` bounds it, in bytes (K, M and G may follow; default 1G).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from libtile.errors import LibtileError

MAGIC = b"libtile cache entry 1\n"
SUFFIX = ".entry"
DEFAULT_SIZE = 1 << 30
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_OFF = frozenset({"0", "off", "false", "no"})
_STALE_SECONDS = 3600.0
_MANY = 256


class CacheError(LibtileError):
    """A setting of the cache is not understood."""


def digest(parts: Iterable[str | bytes]) -> str:
    """The name of the entry that depends on these parts and nothing else (hexadecimal)."""
    state = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        state.update(len(raw).to_bytes(8, "little") + raw)
    return state.hexdigest()


def parse_size(text: str) -> int:
    """Bytes out of `4096`, `64K`, `512M`, `2G`. CacheError for anything else."""
    unit = _UNITS.get(text[-1:].upper(), 0)
    number = text[:-1] if unit else text
    if not number.isdecimal():
        raise CacheError(f"'{text}' is not a cache size: give a number of bytes, or a number with K, M or G")
    return int(number) * (unit or 1)


def default_folder() -> Path:
    """Where the cache is when nobody says: see the environment variables above."""
    if named := os.environ.get("LIBTILE_CACHE_DIR"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "libtile"


def from_environment() -> Cache | None:
    """The user's cache; None when it is switched off. CacheError for a size that is none."""
    if os.environ.get("LIBTILE_CACHE", "").lower() in _OFF:
        return None
    return Cache(default_folder(), parse_size(os.environ.get("LIBTILE_CACHE_SIZE") or str(DEFAULT_SIZE)))


@dataclass(frozen=True)
class Cache:
    """The cache in a folder, which is made when something is stored; `limit` is its size in bytes."""

    folder: Path
    limit: int = DEFAULT_SIZE

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / (key + SUFFIX)

    def load(self, key: str) -> dict[str, bytes] | None:
        """The parts of an entry; None when there is none, or it cannot be read, or it is damaged."""
        path = self.path(key)
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        parts = _unpack(raw)
        if parts is not None:
            with contextlib.suppress(OSError):  # another process may have evicted it; what was read is good
                os.utime(path)
        return parts

    def store(self, key: str, parts: Mapping[str, bytes]) -> bool:
        """Store an entry and evict others if need be; False when it is too large or the disk refuses it."""
        raw = _pack(parts)
        path = self.path(key)
        if len(raw) > self.limit:
            return False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(raw)
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError:
            return False
        # Looking at every file takes time: among many small entries it is done for one key in sixteen.
        if len(raw) * _MANY > self.limit or key.endswith("0"):
            self.evict()
        return True

    def entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        """The files of all entries with their status; temporary files of writers that died are removed on the way."""
        newest = 0.0
        left: list[tuple[Path, float]] = []
        for path, status in self._files():
            newest = max(newest, status.st_mtime)
            if path.suffix == SUFFIX:
                yield path, status
            elif path.suffix == ".tmp":
                left.append((path, status.st_mtime))
        for path, time in left:
            if newest - time > _STALE_SECONDS:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for shelf in self.folder.glob("??"):
            with contextlib.suppress(OSError), os.scandir(shelf) as found:
                for file in found:
                    with contextlib.suppress(OSError):  # another process may have removed it
                        yield Path(file.path), file.stat()

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


def _pack(parts: Mapping[str, bytes]) -> bytes:
    names = list(parts)
    header = json.dumps([[name, len(parts[name])] for name in names]).encode() + b"\n"
    body = header + b"".join(parts[name] for name in names)
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def _unpack(raw: bytes) -> dict[str, bytes] | None:
    checksum, _, body = raw[len(MAGIC) :].partition(b"\n")
    if not raw.startswith(MAGIC) or hashlib.sha256(body).hexdigest().encode() != checksum:
        return None
    header, _, rest = body.partition(b"\n")
    parts, position = {}, 0
    for name, size in json.loads(header):
        parts[name] = rest[position : position + size]
        position += size
    return parts
