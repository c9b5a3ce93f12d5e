# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where compile servers listen, and which of them a process may ask: what both sides have to agree on.

A server is a process that has a tool's modules loaded (`libtile_tools.server`), and does what the process that asks it
would do (`libtile_tools.served`). So the two have to be alike in all that a process is given when it starts and cannot
take over later: its `key`, a digest of which is the name of the server's socket. The folder of the sockets is its
user's alone, and each side asks the kernel who the other is.
"""

from __future__ import annotations

# A tool loads this before anything else, to save loading the rest: what is imported here is builtin, or loaded already.
import _imp
import _socket
import errno
import os
import sys

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "LIBTILE_SERVER_DIR"
TOOLS = ("tileiras", "tileirdisasm", "cuda-tile-translate", "cuda-tile-opt")
"""The commands that a server does; the others have no use for it, or run what is not theirs."""
SOCKET, LOCK, LOG = ".socket", ".lock", ".log"
"""What the names of a server's files end with."""
LOCK_NUMBER, FOLDER_NUMBER = 3, 4
"""The descriptors of the lock and of the folder that a server's process begins with."""
PROTOCOL = "libtile compile server 1"
_PEER = 12
"""Bytes of what the kernel says of the other side: its number, its user and its group, of four bytes each."""


def module_of(tool: str) -> str:
    """The module whose `main` a command is."""
    return f"{tool.replace('-', '_')}.main"


def is_possible() -> bool:
    """Whether there can be servers: they need Linux's sockets, and what it tells of a process."""
    return sys.platform == "linux"


def folder_path() -> str:
    """The folder of this user's servers, which need not be there."""
    if named := os.environ.get(FOLDER):
        return named
    user, runtime = os.geteuid(), os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime) and os.stat(runtime).st_uid == user:
        return f"{runtime}/libtile"
    return f"/tmp/libtile-{user}"


def open_folder(*, make: bool = False) -> int:
    """A descriptor of the folder. OSError where there is none, or it is not this user's alone."""
    path = folder_path()
    if make and not os.path.isdir(path):
        os.makedirs(path, 0o700, exist_ok=True)  # another process may be faster
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "it has to be this user's, with mode 0700", path)
    return descriptor


def within(folder: int, name: str) -> str:
    """The path of a file in an open folder: short enough for a socket, and of that folder whatever becomes of its
    path."""
    return f"/proc/self/fd/{folder}/{name}"


def peer(connection: _socket.socket) -> tuple[int, int]:
    """The number of the process at the other side, 0 where this one cannot see it, and its user."""
    said = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEER)
    return int.from_bytes(said[:4], sys.byteorder), int.from_bytes(said[4:8], sys.byteorder)


def connected(folder: int, name: str, seconds: float) -> _socket.socket:
    """A connection to the server of a name; what it does takes so many seconds at most. OSError where nobody listens,
    PermissionError where it is another user."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        wait_at_most(connection, seconds)
        connection.connect(within(folder, f"{name}{SOCKET}"))
        if peer(connection)[1] != os.geteuid():
            raise PermissionError(errno.EPERM, "another user listens there", folder_path())
    except BaseException:
        connection.close()
        raise
    return connection


def wait_at_most(connection: _socket.socket, seconds: float) -> None:
    """Have the kernel end what waits on a connection after so many seconds, by BlockingIOError; 0 is no limit."""
    time = int(seconds).to_bytes(8, sys.byteorder) + int(seconds % 1 * 1e6).to_bytes(8, sys.byteorder)
    connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, time)
    connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, time)


# -- the key ----------------------------------------------------------------------------------------------------------


def key(path: list[str] | None = None) -> bytes:
    """What this process and a server have to have in common, before they are the same code (which a server looks at in
    each request): Python, how it was started, where it looks for modules (`path`), and its surroundings."""
    facts = [
        *(PROTOCOL, os.path.dirname(os.path.abspath(__file__)), sys.version, os.path.realpath(sys.executable)),
        sys.prefix,
        *(repr(sys.flags), repr(sys._xoptions), repr(sys.warnoptions), sys.getfilesystemencoding()),
        os.pathsep.join(modules_path() if path is None else path),
    ]
    environment = [b"=".join(item) for item in os.environb.items() if item[0].startswith(_AT_START)]
    return b"\0".join([*map(os.fsencode, facts), *sorted(environment), *surroundings("self")])


def modules_path() -> list[str]:
    """Where this process looks for modules, without the folder of its command, or the working directory, that Python
    puts before the rest, if that has nothing of ours."""
    path = [*map(os.path.abspath, sys.path)]
    if path and not sys.flags.safe_path and not _has_modules(path[0]):
        del path[0]
    return [*dict.fromkeys(path)]


_AT_START = (b"PYTHON", b"LANG", b"LC_", b"LD_", b"GLIBC_", b"MALLOC_")
"""How the names of variables begin that act when a process starts, or when it loads a library."""

_MODULES = ("libtile", "libtile_tools", "xdsl", "llvmlite", "numpy", "ml_dtypes", "construct", "click", "nvidia")


def _has_modules(folder: str) -> bool:
    """Whether a folder of the path has anything of what tools are made of."""
    return any(
        os.path.isdir(os.path.join(folder, name)) or os.path.exists(os.path.join(folder, f"{name}.py"))
        for name in _MODULES
    )


def name_of(key_: bytes) -> str:
    """What the names of the files of a key's server begin with. (A server compares the key itself.)"""
    return _imp.source_hash(0, key_).hex()


def surroundings(process: str) -> list[bytes]:
    """What a process has been given and cannot change, but for what a server's child takes over: who it is, what it may
    do, what it sees of the file system and of other processes, and how it shares the machine with them.

    `process` is its number, or `self`. OSError where that is not for this process to know.
    """
    place = f"/proc/{process}"
    number = 0 if process == "self" else int(process)
    root = os.stat(f"{place}/root")
    facts = [*(os.readlink(f"{place}/ns/{name}") for name in ("mnt", "pid", "user")), f"{root.st_dev}:{root.st_ino}"]
    facts.append(f"{os.getpriority(os.PRIO_PROCESS, number)} {os.sched_getscheduler(number)}")
    lines = [line for line in status_lines(process) if line.startswith(_GIVEN)]
    return [*map(os.fsencode, facts), *lines, _contents(f"{place}/cgroup")]


_GIVEN = (b"Uid:", b"Gid:", b"Groups:", b"Cap", b"NoNewPrivs:", b"Seccomp")


def status_lines(process: str) -> list[bytes]:
    """The lines of what the kernel says of a process."""
    return _contents(f"/proc/{process}/status").split(b"\n")


def _contents(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(_parts(descriptor))
    finally:
        os.close(descriptor)


def _parts(descriptor: int) -> Iterator[bytes]:
    while part := os.read(descriptor, 1 << 14):
        yield part
