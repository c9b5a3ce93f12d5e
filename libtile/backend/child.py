# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A process that is given a text and says something: what `subprocess` does, as far as ptxas needs it.

`subprocess` brings `threading`, `selectors`, `signal` and `locale` along, a fiftieth of a small compilation. It is what
is used where there is no `posix_spawn` (Windows).
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Mapping, Sequence

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    import subprocess

_PIECE = 1 << 16
_SIGKILL, _SIGPIPE, _SIGXFSZ = 9, 13, 25
"""Python ignores the last two, and `subprocess` gives a process what they do otherwise."""


class SaysTooMuch(Exception):
    """A process says more than is asked for."""


class Child:
    """A process that has begun. `returncode` is None until it has ended, and negative where a signal has ended it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], takes_input: bool):
        """OSError where it cannot be run."""
        self.returncode: int | None = None
        self._pipes: list[int] = []
        try:
            read, self._in = self._pipe() if takes_input else (os.open(os.devnull, os.O_RDONLY), -1)
            self._out, out = self._pipe()
            self._err, err = self._pipe()
            ends = (read, out, err)
            if not takes_input:
                self._pipes.append(read)
            self._pid = os.posix_spawnp(
                command[0],
                list(command),
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(ends)],
                setsigdef=(_SIGPIPE, _SIGXFSZ),
            )
        except BaseException:
            self._close(*self._pipes)
            raise
        self._close(*ends)

    def _pipe(self) -> tuple[int, int]:
        """Both ends, above the numbers of a process's own streams, which may be closed in this one."""
        ends, low = list(os.pipe()), []
        for i in range(2):
            while ends[i] <= 2:
                low.append(ends[i])
                ends[i] = os.dup(ends[i])
        for descriptor in low:
            os.close(descriptor)
        self._pipes += ends
        return ends[0], ends[1]

    def _close(self, *descriptors: int) -> None:
        for descriptor in descriptors:
            if descriptor in self._pipes:
                self._pipes.remove(descriptor)
                os.close(descriptor)

    def communicate(self, data: bytes | None, timeout: float, most: int) -> tuple[bytes, bytes]:
        """Give it its input, and wait for what it says and for its end. TimeoutError after so many seconds, SaysTooMuch
        beyond so many bytes on a stream."""
        until = time.monotonic() + timeout
        said: dict[int, list[bytes]] = {self._out: [], self._err: []}
        heard = dict.fromkeys(said, 0)
        given = memoryview(data or b"")
        waiting = select.poll()
        for descriptor in said:
            waiting.register(descriptor, select.POLLIN)
        if self._in in self._pipes:
            os.set_blocking(self._in, False)
            waiting.register(self._in, select.POLLOUT)
        while self._pipes:
            ready = waiting.poll(max(0.0, until - time.monotonic()) * 1000)
            if not ready:
                raise TimeoutError
            for descriptor, _ in ready:
                if descriptor == self._in:
                    given, done = self._give(given)
                else:
                    piece = os.read(descriptor, _PIECE)
                    said[descriptor].append(piece)
                    heard[descriptor] += len(piece)
                    if heard[descriptor] > most:
                        raise SaysTooMuch
                    done = not piece
                if done:
                    waiting.unregister(descriptor)
                    self._close(descriptor)
        pause = 0.0005
        while self.poll() is None:
            if time.monotonic() > until:
                raise TimeoutError
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return b"".join(said[self._out]), b"".join(said[self._err])

    def _give(self, data: memoryview) -> tuple[memoryview, bool]:
        """What is left to give, and whether that is nothing, or the process takes no more."""
        try:
            data = data[os.write(self._in, data[:_PIECE]) :] if data else data
        except BlockingIOError:
            return data, False
        except BrokenPipeError:
            return data, True
        return data, not data

    def poll(self, options: int = getattr(os, "WNOHANG", 0)) -> int | None:
        """How it has ended, as `returncode`."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self._pid, options)
            except ChildProcessError:  # somebody else has waited for it, or the system is told to forget children
                pid, status = self._pid, 0
            if pid == self._pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def end(self) -> None:
        """End it, if it has not ended."""
        if self.poll() is None:
            os.kill(self._pid, _SIGKILL)
        self._close(*self._pipes[:])
        self.poll(0)


class _ByPopen(Child):
    """The same by `subprocess`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], takes_input: bool):
        import subprocess

        pipe = subprocess.PIPE
        given = pipe if takes_input else subprocess.DEVNULL
        self.returncode = None
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            command, stdin=given, stdout=pipe, stderr=pipe, env=dict(environment)
        )

    def poll(self, options: int = 0) -> int | None:
        self.returncode = self._process.poll()
        return self.returncode

    def communicate(self, data: bytes | None, timeout: float, most: int) -> tuple[bytes, bytes]:
        """The same, but that all is read first."""
        from subprocess import TimeoutExpired

        try:
            said = self._process.communicate(data, timeout=timeout)
        except TimeoutExpired:
            raise TimeoutError from None
        self.poll()
        if max(map(len, said)) > most:
            raise SaysTooMuch
        return said

    def end(self) -> None:
        process = self._process
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not written for want of a reader
                    pipe.close()
        process.wait()


def start(command: Sequence[str], environment: Mapping[str, str], *, takes_input: bool) -> Child:
    """Begin a process; with `takes_input` it reads what `communicate` gives it, else nothing. OSError where it cannot
    be run."""
    kind: type[Child] = Child if hasattr(os, "posix_spawnp") else _ByPopen
    return kind(command, environment, takes_input)
