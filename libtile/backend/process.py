# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend in a process of its own, which loads LLVM and ptxas's driver while this one still reads its input.

The process is a fork of this one, and waits behind a pipe for one piece of work; its answer comes back through another.
It is for a process of one thread that has little in memory, as that of a tool is when it starts: not for a library.
A fatal error of LLVM, which ends a process, ends that one alone.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

from libtile.backend.work import BackendEndedError, Made, Work
from libtile.support import timing
from libtile.support.errors import LibtileError
from libtile.support.internal_errors import internal_error, shows_traceback

_GAVE_UP = 70
"""The exit status of a process that LLVM has ended, and that has said why on stderr."""


class BackendFaultError(LibtileError):
    """A fault of the backend itself; the message says where."""


def is_useful() -> bool:
    """Whether this system can fork a process, and has a second processor for it."""
    return hasattr(os, "fork") and hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


class BackendProcess:
    """A context manager, which gives the function that has one piece of work done.

    `at_end` is called in the other process behind its work. On the way out of the block by an exception, the other
    process is asked to end, cleans up behind itself, and is waited for.
    """

    def __init__(self, at_end: Callable[[], None] = lambda: None):
        self._at_end = at_end
        self._process = 0
        self._requests = self._answers = -1
        self._asked = False

    def __enter__(self) -> Callable[[Work], Made]:
        theirs, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        self._process = os.fork()
        if self._process == 0:
            os.close(self._requests)
            os.close(self._answers)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # as Ctrl-C goes to both, and the first one passes it on
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            _serve(theirs, answers, self._at_end)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(theirs)
        os.close(answers)
        return self.build

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in (self._requests, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        if self._process:
            # One that was asked for nothing has nothing to clean up, and may be in the middle of loading LLVM.
            os.kill(self._process, signal.SIGTERM if self._asked else signal.SIGKILL)
            self._wait()

    def _wait(self) -> int:
        """The exit code of the process, negative for a signal; 0 where the system does not say."""
        process, self._process = self._process, 0
        try:
            return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        except ChildProcessError:  # SIGCHLD is ignored: nobody is told how children end
            return 0

    def build(self, work: Work) -> Made:
        """`libtile.backend.build.build` in the other process, with its errors; BackendEndedError when that ends."""
        self._asked = True
        with timing.stage("LLVM"):  # what is not of the other one's stages is waiting for it
            requests, self._requests = self._requests, -1
            with contextlib.suppress(BrokenPipeError), open(requests, "wb") as file:  # it may have answered already
                pickle.dump(work, file, pickle.HIGHEST_PROTOCOL)
            answers, self._answers = self._answers, -1
            with open(answers, "rb") as file:
                data = file.read()
            status = self._wait()
            try:
                made, stages = pickle.loads(data)
            except (EOFError, pickle.UnpicklingError):  # it ended before it had written anything, or all
                raise BackendEndedError(_ending(status), explained=status == _GAVE_UP) from None
            timing.book(stages)
        if isinstance(made, Exception):
            raise made
        assert isinstance(made, Made)
        return made


def _ending(status: int) -> str:
    try:
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
    except ValueError:
        how = f"by signal {-status}"
    return f"the process that runs LLVM has ended {how}"


def _serve(requests: int, answers: int, at_end: Callable[[], None]) -> NoReturn:
    """The life of the other process."""
    status = 1
    try:
        answer = _answer(requests)
        if answer is not None:
            data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)  # all of it, or nothing
            with contextlib.suppress(BrokenPipeError), open(answers, "wb") as file:  # the first one may have ended
                file.write(data)
            at_end()
        status = 0
    except Exception:  # the first process says that this one has ended, and how
        if shows_traceback():
            import traceback

            traceback.print_exc()
    finally:
        os._exit(status)


def _answer(requests: int) -> tuple[Made | Exception, dict[str, float]] | None:
    """What becomes of the work, and the seconds of its stages; None where no work comes."""
    try:
        from libtile.backend import fatal
        from libtile.backend.build import build, prepare

        fatal.end_with(_GAVE_UP)
        prepare()
        with open(requests, "rb") as file:
            data = file.read()
        if not data:
            return None
        with timing.collect() as report:
            made = build(pickle.loads(data))
        return made, report.stages
    except (LibtileError, OSError) as error:
        return error, {}
    except Exception as error:
        return BackendFaultError(internal_error(error, "backend")), {}
