# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Starts a compile server: a process of its own, with no parent, no terminal, and one for each key."""

from __future__ import annotations

import fcntl
import os
import sys

from libtile_tools import server_place

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from typing import NoReturn

_START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "server_start.py")


def start(folder: int, name: str, targets: list[str], idle: int) -> bool:
    """Start a server in the background, unless there is one, or another process is starting it; whether it did."""
    path = server_place.within(folder, f"{name}{server_place.LOCK}")
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.stat(path), os.fstat(lock)):
                return False
        except (BlockingIOError, FileNotFoundError):  # locked, or removed by one that has just ended
            return False
        child = os.fork()
        if child == 0:
            _become_server(folder, lock, name, targets, idle)
        os.waitpid(child, 0)
        return True
    finally:
        os.close(lock)


def _become_server(folder: int, lock: int, name: str, targets: list[str], idle: int) -> NoReturn:
    """What the first of two children does: the second has no parent, no terminal, and nothing of this process."""
    try:
        os.setsid()
        if os.fork() == 0:
            _execute(folder, lock, name, targets, idle)
    except OSError as problem:
        from libtile.support.errors import reason
        from libtile_tools import cli

        cli.say(f"error: no compile server can be started: {reason(problem)}")
    finally:
        os._exit(0)


def _execute(folder: int, lock: int, name: str, targets: list[str], idle: int) -> NoReturn:
    """Have this process become a server, which gets ready for some targets and ends after `idle` seconds without work.

    It is the same Python, started with the same options, and looks for modules in the same places. OSError where it
    cannot be run.
    """
    import subprocess  # for the server's process alone: what starts it goes on meanwhile

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
    os.execv(sys.executable, [sys.executable, *options, _START, name])
