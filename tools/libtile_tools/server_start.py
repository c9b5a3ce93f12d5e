# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The start of a compile server's process: by the file's path, so that a list of processes says what it is."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from typing import NoReturn

LOCK, FOLDER = 3, 4
"""Descriptors that the process begins with, beside what it is told on stdin and its log."""


def execute(folder: int, lock: int, name: str, targets: list[str], idle: int) -> NoReturn:
    """Have this process become a server, which gets ready for some targets and ends after `idle` seconds without work.

    It is the same Python, started with the same options, and looks for modules in the same places. OSError where it
    cannot be run.
    """
    import fcntl
    import subprocess

    from libtile_tools import server_place

    told = os.memfd_create(name)
    texts = [name, str(idle), ",".join(targets), *server_place.modules_path()]
    os.write(told, b"\0".join(map(os.fsencode, texts)))
    os.lseek(told, 0, os.SEEK_SET)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
    log = os.open(server_place.within(folder, f"{name}{server_place.LOG}"), flags, 0o600)
    given = [fcntl.fcntl(number, fcntl.F_DUPFD, 16) for number in (told, log, log, lock, folder)]
    for number, descriptor in enumerate(given):
        os.dup2(descriptor, number)
    os.closerange(len(given), os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    options = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as `multiprocessing` does
    os.execv(sys.executable, [sys.executable, *options, os.path.abspath(__file__), name])


def _main() -> None:
    told = b""
    while part := os.read(0, 1 << 16):
        told += part
    name, idle, targets, *path = map(os.fsdecode, told.split(b"\0"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.path[:] = path

    from libtile_tools import server

    server.main(name, [target for target in targets.split(",") if target], int(idle))


if __name__ == "__main__":
    _main()
