# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile server`: starts, shows and stops this user's compile servers."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

import click

from libtile.support import environment
from libtile.support.errors import LibtileError, reason
from libtile_tools import cli, served, server, server_launch, server_place

_MISUSE = 2
_PATIENCE = 60.0
"""Seconds that one who waits for a server waits."""


@click.command("libtile server", cls=cli.Command, examples=(
    "export LIBTILE_SERVER=1                     have tools ask a server, and start one where there is none",
    "libtile server start --gpu-name=sm_90       start one now, and wait until it is ready",
    "libtile server status                       which there are, and what they have done",
    "libtile server stop                         end them when they have done what they do",
), statuses=(
    "0  done; of status: there is a server",
    "1  it could not be started or stopped; of status: there is none",
    f"{_MISUSE}  the command line is wrong",
))  # fmt: skip
@click.argument("action", type=click.Choice(("start", "status", "stop")))
@click.option(
    "--gpu-name", "targets", multiple=True, metavar="sm_NN", help="A target to get ready for, before it is asked for."
)
@click.option(
    "--idle",
    type=click.IntRange(1, 10**9 - 1),
    metavar="SECONDS",
    help="When to end without work; default LIBTILE_SERVER_IDLE's.",
)
@cli.version_option("compile server")
def command(action: str, targets: tuple[str, ...], idle: int | None) -> None:
    """Start, show or stop the compile servers of this user.

    A server does the work of tileiras, tileirdisasm, cuda-tile-translate and cuda-tile-opt where LIBTILE_SERVER is 1,
    in the same way, without what they take to start. Which one a tool asks depends on its Python and its environment.
    """
    if not server_place.is_possible():
        raise cli.ToolError("error: a compile server needs Linux")
    if action != "start" and (targets or idle is not None):
        raise click.UsageError("--gpu-name and --idle are for 'start'")
    try:
        {"start": lambda: _start(targets, idle), "status": _status, "stop": _stop}[action]()
    except OSError as problem:
        where = f"'{problem.filename}': " if isinstance(problem.filename, str) else ""
        raise cli.ToolError(f"error: {where}{reason(problem)}") from None


def _start(targets: tuple[str, ...], idle: int | None) -> None:
    from libtile.targets import targets as known

    if unknown := [name for name in targets if name not in known()]:
        raise cli.ToolError(f"error: there is no target '{unknown[0]}'; there are {', '.join(known())}")
    name = server_place.name_of(server_place.key())
    folder = server_place.open_folder(make=True)
    if _said(folder, name, server.STATUS):
        cli.show("a compile server is there already\n")
        return
    seconds = idle if idle is not None else environment.SERVER_IDLE.seconds()
    until = time.monotonic() + _PATIENCE
    server_launch.start(folder, name, list(targets), seconds)
    while not (said := _said(folder, name, server.STATUS)):
        if _free(folder, name):
            raise cli.ToolError(f"error: the compile server has not started: {_log(folder, name)}")
        if time.monotonic() > until:
            raise cli.ToolError(f"error: the compile server is not ready after {_PATIENCE:g} s")
        time.sleep(0.05)
    cli.show(f"started {said.splitlines()[0].partition(',')[0]}\n")


def _status() -> None:
    found = False
    with _folder() as folder:
        for name in _names(folder):
            if said := _said(folder, name, server.STATUS):
                found = True
                cli.show(said)
    if not found:
        cli.show("there is no compile server\n")
        raise cli.Failed


def _stop() -> None:
    stopped = 0
    with _folder() as folder:
        for name in _names(folder):
            stopped += _said(folder, name, server.STOP) is not None
    cli.show(f"stopped {stopped} compile server{'' if stopped == 1 else 's'}\n")


@contextlib.contextmanager
def _folder() -> Iterator[int]:
    """The folder of the servers; below 0 where there is none."""
    try:
        folder = server_place.open_folder()
    except FileNotFoundError:
        yield -1
        return
    try:
        yield folder
    finally:
        os.close(folder)


def _names(folder: int) -> list[str]:
    found = os.listdir(folder) if folder >= 0 else []
    return sorted(name.removesuffix(server_place.SOCKET) for name in found if name.endswith(server_place.SOCKET))


def _said(folder: int, name: str, what: str) -> str | None:
    """What a server says; None where there is none. LibtileError for one that does not answer."""
    try:
        connection = server_place.connected(folder, name, _PATIENCE)
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    with contextlib.closing(connection):
        try:
            data, descriptors = served.request(b"", what)
            try:
                served.send(connection, data, descriptors)
            finally:
                os.close(descriptors[0])
            said = b""
            while part := connection.recv(1 << 16):
                said += part
        except BlockingIOError:
            raise LibtileError(f"the compile server {name} does not answer") from None
        except (BrokenPipeError, ConnectionResetError):  # it has just ended
            return None
    return said.decode(errors="replace")


def _free(folder: int, name: str) -> bool:
    """Whether nobody is a server of this name, or about to be one."""
    import fcntl

    try:
        lock = os.open(server_place.within(folder, f"{name}{server_place.LOCK}"), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _log(folder: int, name: str) -> str:
    try:
        with open(server_place.within(folder, f"{name}{server_place.LOG}"), encoding="utf-8", errors="replace") as file:
            return file.read().strip() or "it says nothing"
    except OSError as problem:
        return reason(problem)


def main() -> None:
    """The command's entry point."""
    cli.run(command, misuse=_MISUSE)
