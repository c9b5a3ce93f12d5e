# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether a compile server is still what is installed: the files that it has loaded, and their states."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

_State = tuple[int, int, int, int]


class Files:
    """The files of the modules and libraries of this process, of the programs that it runs, and the folders of
    packages, where one that comes or goes may stand before others."""

    def __init__(self) -> None:
        self._began = time.time_ns()
        self._states: dict[str, _State] = {}
        self._changed: str | None = None

    def note(self) -> None:
        """Take in what has been loaded since. What is younger than this process may be another file than was loaded."""
        for path in {*_modules(), *_libraries(), *_data(), *_folders()} - self._states.keys():
            try:
                status = os.stat(path)
            except OSError:  # no file: a module's own name for where it is
                continue
            self._states[path] = _state(status)
            if status.st_ctime_ns > self._began and status.st_mtime_ns > self._began:
                self._changed = path

    def changed(self) -> str | None:
        """A file that is not what it was; None where there is none."""
        if self._changed is None:
            stat = os.stat
            try:
                for path, state in self._states.items():
                    status = stat(path)
                    if (status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev) != state:
                        self._changed = path
                        break
            except OSError:
                self._changed = path
        return self._changed


def _state(status: os.stat_result) -> _State:
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev


def _modules() -> Iterator[str]:
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.has_location and spec.origin:
            yield spec.origin
    yield os.path.abspath(__file__)


def _libraries() -> Iterator[str]:
    """What is mapped into memory, the interpreter among it."""
    with open("/proc/self/maps", "rb") as file:
        for line in file:
            path = line.split(maxsplit=5)[5:]
            if path and path[0].startswith(b"/"):
                yield os.fsdecode(path[0].rstrip(b"\n"))


def _data() -> Iterator[str]:
    from functools import partial

    from libtile.backend.tools import ToolNotFoundError, libdevice_path, tool_path
    from libtile.spec.loader import DATA

    yield from (os.path.join(DATA, name) for name in os.listdir(DATA) if not name.startswith("_"))
    for find in (partial(tool_path, "ptxas"), libdevice_path):
        try:
            yield find()
        except ToolNotFoundError:  # a compilation that needs it says so
            continue


def _folders() -> Iterator[str]:
    return (folder for folder in sys.path if os.path.basename(folder) in ("site-packages", "dist-packages"))
