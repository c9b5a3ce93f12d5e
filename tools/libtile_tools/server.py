# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compile server: a process with a tool's modules loaded, which forks a child for each process that asks it.

It is one thread, that waits: for connections, for what comes on them, and for the ends of its children. A child takes
over what the process that asks was given (`libtile_tools.server_child`) and runs the tool's own `main`. So a
compilation is the same as without a server, and one that crashes ends itself alone.

It gets ready before it listens: by compiling a small module for the targets that it is told of, and for another one
when somebody has asked for that. It ends when it had nothing to do for a while, when it is told to, when its socket is
gone, and when a file that it has loaded is another one now.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

from libtile.support import environment
from libtile.support.errors import LibtileError
from libtile_tools import cli, served, server_child, server_files, server_place, startup, warming
from libtile_tools.server_place import FOLDER_NUMBER as FOLDER
from libtile_tools.server_place import LOCK_NUMBER as LOCK

STATUS, STOP = "status", "stop"
"""What is asked for beside tools."""
_LONGEST_REQUEST = 64 << 20
_SLOWEST_REQUEST = 10.0
_LOOKS = 5.0
"""Seconds after which a server looks whether its socket is there."""
_PATIENCE = 2.0
"""Seconds that a child has to clean up in when the process that it works for has ended."""
_BACKLOG = 4096
_OWN = ("LIBTILE_", "TILEIR_")
_MOST_DESCRIPTORS = 253
"""As many as the kernel hands over at once."""


class Connection:
    """A process that asks, and the child that works for it."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.since = time.monotonic()
        self.client, self.user = server_place.peer(connected)
        self.data = bytearray()
        self.descriptors: list[int] = []
        self.child = 0
        self.report = -1
        self.left_at = 0.0
        """When the process had ended that asked, while its child still works."""

    def say(self, line: bytes) -> None:
        """Send a line; one whom it does not reach has ended."""
        with suppress(OSError):
            self.socket.send(line + b"\n", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def close_descriptors(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []

    def close(self) -> None:
        self.close_descriptors()
        if self.report >= 0:
            os.close(self.report)
        self.socket.close()


class Server:
    """The server of a name, that ends after `idle` seconds without work."""

    def __init__(self, name: str, key: bytes, idle: float):
        self.name = name
        self.key = key
        self.idle = idle
        self.surroundings = server_place.surroundings("self")
        self.began = self.last = time.monotonic()
        self.connections: dict[int, Connection] = {}
        self.children: dict[int, Connection] = {}
        self.waiting_for_end: list[Connection] = []
        self.targets: list[str] = []
        self.wanted: list[str] = []
        self.ended: Counter[str] = Counter()
        self.declined: Counter[str] = Counter()
        self.processor = 0.0
        self.stopping = ""
        self.poll = select.poll()
        self.listener: socket.socket | None = None
        self.socket_number = 0
        self.wakes, self.wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.files = server_files.Files()

    # -- getting ready ------------------------------------------------------------------------------------------------

    def prepare(self, targets: list[str]) -> None:
        """Have a small module compiled for targets, and keep all that is there by now out of the collector's sight."""
        for target in targets:
            if target not in self.targets:
                self.targets.append(target)
                warming.warm(target)
        startup.keep_no_more()
        self.files.note()
        gc.collect()
        gc.freeze()

    def listen(self) -> None:
        """Begin to take requests. OSError where that cannot be."""
        path = self._path(server_place.SOCKET)
        with suppress(FileNotFoundError):  # of a server that was killed: nobody else is here, by the lock
            os.unlink(path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self.listener.bind(path)
        self.listener.listen(_BACKLOG)
        self.socket_number = os.stat(path).st_ino
        self.last = time.monotonic()
        self.poll.register(self.listener, select.POLLIN)
        self.poll.register(self.wakes, select.POLLIN)
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, lambda number, frame: self.stop("a signal"))

    def _path(self, ending: str) -> str:
        return server_place.within(FOLDER, self.name + ending)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Take requests until the end."""
        while not self.stopping or self.children:
            ready = self.poll.poll(0 if self.wanted else self._until_next() * 1000)
            if not ready and self.wanted:
                self._get_ready_for(self.wanted.pop())
            for descriptor, events in ready:
                if descriptor == self.wakes:
                    with suppress(BlockingIOError):
                        os.read(self.wakes, 1 << 12)
                elif self.listener is not None and descriptor == self.listener.fileno():
                    self._accept()
                elif (connection := self.connections.get(descriptor)) is not None:
                    self._hear(connection, events)
            self._reap()
            self._look()

    def _until_next(self) -> float:
        """Seconds to the next time at which there is something to look at."""
        now = time.monotonic()
        times = [c.since + _SLOWEST_REQUEST for c in self.connections.values() if not c.child]
        times += [c.left_at + _PATIENCE for c in self.children.values() if c.left_at]
        times += [now + _LOOKS, *([self.last + self.idle] if not self.children else [])]
        return max(min(times) - now, 0.01)

    def _look(self) -> None:
        now = time.monotonic()
        for connection in [c for c in self.connections.values() if not c.child and now > c.since + _SLOWEST_REQUEST]:
            self._decline(connection, "the request is not whole after a while")
        for child in [pid for pid, c in self.children.items() if c.left_at and now > c.left_at + _PATIENCE]:
            _send(os.killpg, child, signal.SIGKILL)
        if self.stopping:
            return
        if not self.children and now > self.last + self.idle:
            self.stop("it had nothing to do")
        try:
            here = os.stat(self._path(server_place.SOCKET)).st_ino == self.socket_number
        except OSError:
            here = False
        if not here:
            self.stop("its socket is gone")

    def stop(self, why: str) -> None:
        """Take no more requests, and end when the children have ended. Another server may begin at once."""
        if self.stopping or self.listener is None:
            return
        self.stopping = why
        self.poll.unregister(self.listener)
        self.listener.close()
        with suppress(OSError):
            if os.stat(self._path(server_place.SOCKET)).st_ino == self.socket_number:
                os.unlink(self._path(server_place.SOCKET))
        for ending in (server_place.LOG, server_place.LOCK):
            with suppress(OSError):
                if ending != server_place.LOCK or os.path.samestat(os.stat(self._path(ending)), os.fstat(LOCK)):
                    os.unlink(self._path(ending))
        os.close(LOCK)
        for connection in [c for c in self.connections.values() if not c.child]:
            self._decline(connection, f"the server ends: {why}")

    def _get_ready_for(self, target: str) -> None:
        self.prepare([target])
        self.last = time.monotonic()

    # -- requests -----------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self.listener is not None
        try:
            connection = Connection(self.listener.accept()[0])
        except OSError as problem:
            if problem.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                time.sleep(0.05)  # others end meanwhile
            return
        connection.socket.setblocking(False)
        self.connections[connection.socket.fileno()] = connection
        self.poll.register(connection.socket, select.POLLIN)
        if connection.user != os.geteuid():
            self._decline(connection, "another user")
            return
        self._hear(connection, select.POLLIN)

    def _hear(self, connection: Connection, events: int) -> None:
        """Take what has come on a connection: a part of the request, or signals for the child, or its end."""
        try:
            room = socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS)
            data, extra, _, _ = connection.socket.recvmsg(1 << 20, room, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, extra = b"", []
        for level, kind, numbers in extra:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = [numbers[i : i + 4] for i in range(0, len(numbers) - 3, 4)]
                connection.descriptors += [int.from_bytes(number, sys.byteorder) for number in found]
        if connection.child:
            connection.close_descriptors()
            self._pass_on(connection, data)
        elif not data:
            self._decline(connection, "the request is not whole")
        else:
            connection.data += data
            self._try_request(connection)

    def _pass_on(self, connection: Connection, numbers: bytes) -> None:
        """Signals for a child; nothing: the process has ended that it works for."""
        if not numbers:
            self.poll.unregister(connection.socket)
            del self.connections[connection.socket.fileno()]
            connection.left_at = time.monotonic()
            _send(os.kill, connection.child, signal.SIGTERM)
            _send(os.killpg, connection.child, signal.SIGCONT)
        for number in numbers:
            if number == signal.SIGTSTP:
                _send(os.killpg, connection.child, signal.SIGSTOP)
            elif number == signal.SIGCONT:
                _send(os.killpg, connection.child, signal.SIGCONT)
            elif number in served.FORWARDED:
                _send(os.kill, connection.child, number)

    def _try_request(self, connection: Connection) -> None:
        start = len(served.HEADER) + 8
        data = connection.data
        if not data.startswith(served.HEADER[: len(data)]):
            self._decline(connection, "it is no request")
            return
        if len(data) < start:
            return
        length = int.from_bytes(data[len(served.HEADER) : start], "little")
        if length > _LONGEST_REQUEST or len(data) > start + length:
            self._decline(connection, "the request is too long")
        elif len(data) == start + length:
            try:
                asked = server_child.parsed(bytes(data[start:]))
            except server_child.Malformed as problem:
                self._decline(connection, f"the request is wrong: {problem}")
                return
            self._do(connection, asked)

    def _do(self, connection: Connection, asked: server_child.Request) -> None:
        if asked.what == STATUS:
            self._answer(connection, "\n".join(self.status_lines()))
        elif asked.what == STOP:
            connection.child = -1  # it is told by the end of the connection, when all is done
            self.poll.unregister(connection.socket)
            del self.connections[connection.socket.fileno()]
            self.waiting_for_end.append(connection)
            self.stop("it was told to")
        elif (why := self._why_not(connection, asked)) is not None:
            self._decline(connection, why)
        else:
            self._fork(connection, asked)

    def _why_not(self, connection: Connection, asked: server_child.Request) -> str | None:
        """Why a request cannot be served; None where it can."""
        if asked.what not in server_place.TOOLS:
            return "there is no such tool"
        if asked.key != self.key:
            return "another Python, installation or environment"
        if (changed := self.files.changed()) is not None:
            self.stop(f"{changed} has changed")
            return "its own files have changed"
        try:
            alike = server_place.surroundings(str(connection.client)) == self.surroundings
        except OSError:
            alike = False
        return None if alike else "other rights, limits or name spaces"

    def _fork(self, connection: Connection, asked: server_child.Request) -> None:
        status = server_place.status_lines(str(connection.client))
        report, given = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            child = os.fork()
        except OSError as problem:
            os.close(report)
            os.close(given)
            self._decline(connection, f"no process can be made: {problem.strerror}")
            return
        if child == 0:
            self._leave_to_child(connection, given)
            server_child.work(asked, connection.descriptors, connection.socket, connection.client, given, status)
        os.close(given)
        connection.child, connection.report = child, report
        connection.close_descriptors()
        connection.data.clear()
        self.children[child] = connection
        with suppress(OSError):  # it has done so itself, and may have ended
            os.setpgid(child, child)
        self._want(asked.arguments)

    def _leave_to_child(self, connection: Connection, report: int) -> None:
        """Close what is the server's, in the child."""
        for other in {*self.connections.values(), *self.children.values(), *self.waiting_for_end}:
            if other is not connection:
                other.close()
        if self.listener is not None:
            self.listener.close()
        for descriptor in (self.wakes, self.wake, FOLDER, *([] if self.stopping else [LOCK])):
            os.close(descriptor)

    def _want(self, arguments: tuple[str, ...]) -> None:
        for target in served.targets_of(list(arguments)):
            if target not in self.targets and target not in self.wanted:
                self.wanted.append(target)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        while self.children:
            child, status, used = os.wait4(-1, os.WNOHANG)
            if not child:
                return
            if (connection := self.children.pop(child, None)) is None:
                continue
            self.last = time.monotonic()
            self.processor += used.ru_utime + used.ru_stime
            why = os.read(connection.report, 1 << 12) if _has_said(connection.report) else b""
            if why:
                self._count_declined(why.decode(errors="replace"))
                connection.say(served.DECLINED)
            else:
                code = os.waitstatus_to_exitcode(status)
                self.ended["by a signal" if code < 0 else "with an error" if code else "well"] += 1
                connection.say(b"%s %d" % (served.ENDED, code))
            self._forget(connection)

    def _decline(self, connection: Connection, why: str) -> None:
        self._count_declined(why)
        connection.say(served.DECLINED)
        self._forget(connection)

    def _count_declined(self, why: str) -> None:
        self.declined[why if why in self.declined or len(self.declined) < 100 else "others"] += 1

    def _answer(self, connection: Connection, text: str) -> None:
        connection.say(text.encode(errors="replace"))
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        if self.connections.pop(connection.socket.fileno(), None) is not None:
            self.poll.unregister(connection.socket)
        connection.close()

    def status_lines(self) -> Iterator[str]:
        """What `libtile server status` shows."""
        total = sum(self.ended.values())
        how = ", ".join(f"{number} {what}" for what, number in sorted(self.ended.items()))
        yield f"compile server {os.getpid()}, for {time.monotonic() - self.began:.0f} s, {_resident() >> 20} MiB"
        yield f"  Python: {sys.executable}, libtile: {os.path.dirname(environment.__file__).rpartition('/')[0]}"
        yield f"  ready for: {', '.join(self.targets) or 'no target yet'}"
        yield f"  served: {total}{f' (ended {how})' if how else ''}, running: {len(self.children)}"
        yield f"  processor time of what was served: {self.processor:.2f} s"
        yield f"  declined: {sum(self.declined.values())}"
        for why, number in self.declined.most_common():
            yield f"    {number}: {why}"
        yield f"  ends after {self.idle:g} s without work"


def _send(how: Callable[[int, int], None], child: int, number: int) -> None:
    """Send a signal to a child or to its group, which may have ended just now."""
    with suppress(ProcessLookupError):
        how(child, number)


def _has_said(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main(name: str, targets: list[str], idle: int) -> None:
    """The life of a server's process. What is wrong goes to its log."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of no terminal; each is for who asks
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.umask(0o077)
    key = server_place.key(sys.path)
    if server_place.name_of(key) != name:
        cli.say("error: the server's process is not like the one that has started it")
        return
    for variable in [v for v in os.environ if v.startswith(_OWN)]:
        del os.environ[variable]  # each request has its own
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in a tool: a process that forks has one thread
    startup.install("server")
    try:
        server = Server(name, key, idle)
        warming.load()
        server.prepare(targets)
        server.listen()
        server.serve()
    except (OSError, LibtileError) as problem:
        cli.say(f"error: {problem}")
