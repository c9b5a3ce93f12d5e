# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Has a compile server do what this process was started for, where the environment asks for that.

The process gives the server its command line, its environment, its working directory and its streams, passes signals
on to the process that works for it, and ends as that one ends. Where nobody listens yet it starts a server, does its
work itself, as it does whenever a server cannot do it, and does not wait.
"""

from __future__ import annotations

# A tool loads this before anything else, to save loading the rest: what is imported here is builtin, or loaded already.
import _signal as signal  # type: ignore[import-not-found]
import _socket
import errno
import os
import sys

from libtile_tools import server_place

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import TextIOWrapper
    from typing import Any, NoReturn

    Streams = tuple[TextIOWrapper | None, TextIOWrapper | None, TextIOWrapper | None]

SWITCH = "LIBTILE_SERVER"
_ANSWERS = 10.0
"""Seconds in which a server takes a request over, unless it hangs."""
FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGCONT)
HEADER = b"libtile request\n"
"""A request begins with it and its length (8 bytes, little-endian). The rest is texts that end with zero bytes, with
numbers in digits: how long the key is, the key, what is asked for, which of stdin, stdout and stderr are open, of
each its encoding, how it treats errors and whether it is unbuffered, the numbers of further descriptors, how many
arguments there are, these, and the environment. With the header come the descriptors: of the working directory, of the
open streams, and the further ones."""
ACCEPTED, DECLINED, ENDED = b"accepted", b"declined", b"ended"
"""What lines of a server's answer begin with: `accepted`; `declined WHY`, or `ended STATUS` (below 0 by a signal)."""


def wanted() -> bool:
    """Whether the environment asks for a server; ends the process where it says neither yes nor no."""
    value = os.environ.get(SWITCH, "")
    if value in ("", "0", "1"):
        return value == "1"
    return bool(_setting("SERVER").on())


def _setting(name: str) -> Any:
    """A variable that `libtile.support.environment` declares; ends the process where one of the server's is wrong."""
    from libtile.support import environment

    try:
        environment.SERVER.on()
        environment.SERVER_IDLE.seconds()
    except environment.SettingError as problem:
        _say(f"error: {problem}\n")
        os._exit(1)
    return getattr(environment, name)


def ask(tool: str) -> None:
    """Have a server do what the process was started for, and end as it says; returns where this process has to do it.

    What is wrong with a server that was asked for is said on stderr, but not that there is none yet.
    """
    if tool not in server_place.TOOLS or not server_place.is_possible():
        return
    streams: Any = (sys.stdin, sys.stdout, sys.stderr)
    descriptors: list[int] = []
    try:
        while (descriptor := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:  # no socket takes a stream's number
            descriptors.append(descriptor)
        descriptors.append(descriptor)
        _ask(tool, streams)
    except OSError as problem:
        _say(f"{tool}: warning: no compile server: {_reason(problem)}\n")
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _reason(problem: OSError) -> str:
    name = f"'{problem.filename}': " if isinstance(problem.filename, str) else ""
    return f"{name}{problem.strerror or problem}"


def _say(text: str) -> None:
    from libtile.support.errors import visible

    if sys.stderr is not None:
        sys.stderr.write(visible(text, keep="\n"))
        sys.stderr.flush()


def _ask(tool: str, streams: Streams) -> None:
    key = server_place.key()
    name = server_place.name_of(key)
    folder = server_place.open_folder(make=True)
    try:
        connection = server_place.connected(folder, name, _ANSWERS)
    except (FileNotFoundError, ConnectionRefusedError):
        from libtile_tools import server_launch

        server_launch.start(folder, name, targets_of(sys.argv), _setting("SERVER_IDLE").seconds())
        return
    except BlockingIOError:
        _say(f"{tool}: warning: the compile server has not answered for {_ANSWERS:g} s\n")
        return
    finally:
        os.close(folder)
    try:
        answers = _answers(connection, tool, request(key, tool, streams))
    finally:
        connection.close()
    if answers is not None:
        _end_as(answers)


def targets_of(arguments: list[str]) -> list[str]:
    """The first target that a command line names, for which a server gets ready: it changes no result."""
    for argument in arguments:
        name = argument.rpartition("=")[2]
        if name.startswith("sm_") and name[3:].rstrip("af").isdigit():
            return [name]
    return []


# -- the request ------------------------------------------------------------------------------------------------------


def request(key: bytes, what: str, streams: Streams = (None, None, None)) -> tuple[bytes, list[int]]:
    """The request to do what this process was started for, and the descriptors that come with it, the first of which
    has been opened for it. OSError where there is no working directory to give."""
    opened = [number for number, stream in enumerate(streams) if stream is not None]
    descriptors = [os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), *opened]
    named = sorted({n for argument in sys.argv for n in _named(argument)} - {0, 1, 2})
    codings = [f"{s.encoding}:{s.errors}:{s.write_through:d}" if s is not None else "::" for s in streams]
    arguments = [*map(os.fsencode, sys.argv)]
    texts = [
        *(str(len(key)).encode(), key, what.encode(), "".join(map(str, opened)).encode()),
        *map(str.encode, codings),
        *(b",".join(b"%d" % number for number in named), b"%d" % len(arguments), *arguments),
        *(b"=".join(item) for item in os.environb.items()),
    ]
    body = b"".join(text + b"\0" for text in texts)
    return HEADER + len(body).to_bytes(8, "little") + body, [*descriptors, *named]


def _named(argument: str) -> list[int]:
    """The descriptor that an argument names, as a shell's `<(...)` is one, if this process has it."""
    _, found, number = argument.rpartition("/fd/")
    if not found or not number.isascii() or not number.isdigit() or len(number) > 6:
        return []
    try:
        os.fstat(int(number))
    except OSError:
        return []
    return [int(number)]


def send(connection: _socket.socket, data: bytes, descriptors: list[int]) -> None:
    """Send a request. OSError where nobody takes it."""
    numbers = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    done = connection.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
    if done < len(data):  # of nothing it would ask whether the other side still listens
        connection.sendall(data[done:])


# -- the answer -------------------------------------------------------------------------------------------------------


def _answers(connection: _socket.socket, tool: str, asked: tuple[bytes, list[int]]) -> int | None:
    """How the process that worked for this one has ended; None where nobody has worked for it."""
    data, descriptors = asked
    before = {}
    try:
        try:
            for number in FORWARDED:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, _forwarding(connection))
            send(connection, data, descriptors)
        finally:
            os.close(descriptors[0])
        answer = lines(connection)
        if next(answer) != ACCEPTED:
            return None  # the server keeps count of what it declines
        server_place.wait_at_most(connection, 0)
        try:
            kind, _, status = next(answer).partition(b" ")
            if kind == ENDED:
                return int(status)
        except ConnectionResetError as problem:  # both the server and its child have ended, which hold the connection
            _say(f"{tool}: error: {_reason(problem)}\n")
        _say(f"{tool}: error: the compile server was ended before the compilation was done\n")
        return -int(signal.SIGTERM)  # as the process was that worked for this one
    except BlockingIOError:
        _say(f"{tool}: warning: the compile server has not answered for {_ANSWERS:g} s\n")
        return None
    except (BrokenPipeError, ConnectionResetError):  # it has just ended
        return None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _forwarding(connection: _socket.socket) -> object:
    def forward(number: int, frame: object) -> None:
        try:
            connection.send(bytes([number]), _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
        except OSError as problem:
            if problem.errno not in (errno.EPIPE, errno.ECONNRESET):  # it has ended, and `_answers` is about to see it
                raise
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)

    return forward


def lines(connection: _socket.socket) -> Iterator[bytes]:
    """The lines of an answer as they come, and empty ones behind the last."""
    read = b""
    while True:
        while b"\n" not in read and (part := connection.recv(1 << 12)):
            read += part
        text, _, read = read.partition(b"\n")
        yield text


def _end_as(status: int) -> NoReturn:
    """End this process as another one has ended."""
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status if status >= 0 else 128 - status)  # where the signal is blocked
