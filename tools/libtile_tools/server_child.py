# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a compile server's child does to be the process that asked: it takes over all that this one was given."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes enums of numbers, which takes a while
import fcntl
import io
import os
import resource
import sys
from ctypes import CDLL
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from libtile.support.records import dataclass
from libtile_tools import served, server_place

if TYPE_CHECKING:
    import _socket
    from collections.abc import Sequence

_STREAMS = ("stdin", "stdout", "stderr")
_PR_SET_PDEATHSIG = 1
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
_SIGNALS = [n for n in range(1, 32) if n not in (signal.SIGKILL, signal.SIGSTOP)]
_PLACES_OF_TOOLS = (b"PATH", b"CUDA_HOME", b"CUDA_PATH")
"""Variables by which programs and files of CUDA are found, which are remembered."""


class Malformed(Exception):
    """What came is no request."""


@dataclass(frozen=True)
class Request:
    """What a process asks for: see `served.HEADER`."""

    key: bytes
    what: str
    streams: tuple[int, ...]
    codings: tuple[tuple[str, str, bool], ...]
    named: tuple[int, ...]
    arguments: tuple[str, ...]
    environment: dict[bytes, bytes]


def parsed(body: bytes) -> Request:
    """The request of a text. Malformed where it is none."""
    try:
        length, _, rest = body.partition(b"\0")
        key, end, rest = rest[: _number(length)], rest[_number(length) :][:1], rest[_number(length) + 1 :]
        what, opened, *more = rest.split(b"\0")
        codings, named, count, texts, last = more[:3], more[3], _number(more[4]), more[5:-1], more[-1]
        arguments, environment = texts[:count], [text.partition(b"=") for text in texts[count:]]
        if end != b"\0" or last or len(arguments) != count or not all(name for name, _, _ in environment):
            raise Malformed("it is not whole")
        return Request(
            key,
            what.decode("ascii"),
            tuple(_number(opened[i : i + 1], 2) for i in range(len(opened))),
            tuple(_coding(text) for text in codings),
            tuple(_number(number) for number in named.split(b",") if number),
            tuple(map(os.fsdecode, arguments)),
            {name: value for name, _, value in environment},
        )
    except (ValueError, IndexError):
        raise Malformed("it is not of this protocol") from None


def _number(text: bytes, most: int = 1 << 24) -> int:
    if not text.isdigit() or int(text[:9]) > most:
        raise ValueError
    return int(text[:9])


def _coding(text: bytes) -> tuple[str, str, bool]:
    encoding, errors, whole = text.decode("ascii").split(":")
    return encoding, errors, whole == "1"


def work(
    request: Request,
    descriptors: Sequence[int],
    connection: _socket.socket,
    client: int,
    report: int,
    status: list[bytes],
) -> NoReturn:
    """Be the process that asked, whose number is `client`, and do what it was started for.

    What cannot be taken over is a reason, for the server (on `report`), which tells that process so. `status` is what
    the kernel says of that process.
    """
    try:
        _take_over(request, descriptors, connection, client, report, dict(_named_lines(status)))
    except (OSError, ValueError, LookupError) as problem:
        os.write(report, str(problem)[:1000].encode(errors="replace") or b"unknown")
        os._exit(1)
    from libtile_tools import cli

    cli.served_by = os.getppid()
    connection.send(served.ACCEPTED + b"\n")
    import_module(server_place.module_of(request.what)).main()
    os._exit(1)  # a tool's `main` does not come back


def _named_lines(status: list[bytes]) -> list[tuple[bytes, bytes]]:
    return [(name, value.strip()) for name, _, value in (line.partition(b":") for line in status)]


def _take_over(
    request: Request,
    descriptors: Sequence[int],
    connection: _socket.socket,
    client: int,
    report: int,
    status: dict[bytes, bytes],
) -> None:
    server = os.getppid()
    os.setpgid(0, 0)
    CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != server:
        raise ProcessLookupError("the server has ended")
    _take_signals(int(status[b"SigIgn"], 16), int(status[b"SigBlk"], 16))
    os.umask(int(status[b"Umask"], 8))
    _take_limits(client)
    os.sched_setaffinity(0, os.sched_getaffinity(client))
    os.fchdir(descriptors[0])
    _take_environment(request.environment)
    _take_descriptors([*request.streams, *request.named], descriptors[1:], [connection.fileno(), report])
    _make_streams(request)
    sys.argv = list(request.arguments)


def _take_signals(ignored: int, blocked: int) -> None:
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN if ignored >> (number - 1) & 1 else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [n for n in _SIGNALS if blocked >> (n - 1) & 1])


def _take_limits(client: int) -> None:
    for limit in _LIMITS:
        wanted = resource.prlimit(client, limit)
        if wanted != resource.getrlimit(limit):
            resource.setrlimit(limit, wanted)


def _take_environment(environment: dict[bytes, bytes]) -> None:
    before = [os.environb.get(name) for name in _PLACES_OF_TOOLS]
    os.environb.clear()
    os.environb.update(environment)
    if before != [os.environb.get(name) for name in _PLACES_OF_TOOLS]:
        from libtile.backend import tools

        tools.tool_path.cache_clear()
        tools.libdevice_path.cache_clear()


def _take_descriptors(numbers: list[int], given: Sequence[int], kept: list[int]) -> None:
    """Have the given descriptors get their numbers, and /dev/null that of a stream that is closed."""
    if len(numbers) != len(given):
        raise ValueError("descriptors are missing")
    if busy := [n for n in numbers if n > 2 and n not in given and _is_open(n)]:
        raise ValueError(f"the server uses descriptor {busy[0]} itself")
    if busy := [n for n in numbers if n in kept]:
        raise ValueError(f"the server uses descriptor {busy[0]} itself")
    above = max([*numbers, *given, *kept, 2]) + 1
    moved = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, above) for number in given]
    for number in given:
        os.close(number)
    for number, source in zip(numbers, moved):
        os.dup2(source, number)
        os.close(source)
    for number in {0, 1, 2} - set(numbers):
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nothing, number, inheritable=False)
        os.close(nothing)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _make_streams(request: Request) -> None:
    """The streams as Python makes them when it starts (`create_stdio`)."""
    for number, (name, (encoding, errors, whole)) in enumerate(zip(_STREAMS, request.codings)):
        stream = None
        if number in request.streams:
            mode, buffering = ("w", 0 if whole else -1) if number else ("r", -1)
            binary = os.fdopen(number, f"{mode}b", buffering, closefd=False)
            lines = not whole and (number == 2 or binary.isatty())
            stream = io.TextIOWrapper(binary, encoding, errors, newline="\n", line_buffering=lines, write_through=whole)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
