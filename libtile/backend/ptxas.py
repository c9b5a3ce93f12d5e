# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs ptxas: PTX to cubin, with what it says about registers, spills and memory."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

from libtile.backend import child
from libtile.backend.cubin import is_cubin
from libtile.backend.tools import tool_path
from libtile.backend.work import Assembled as Assembled
from libtile.backend.work import KernelReport as KernelReport
from libtile.support import timing
from libtile.support.errors import LibtileError, reason
from libtile.support.files import remove_folder, temporary_folder
from libtile.support.limits import SAID_BYTES

TIMEOUT_SECONDS = 600
_TUNABLES = "GLIBC_TUNABLES"

_FUNCTION = re.compile(r"(?:Compiling entry function|Function properties for) '?([\w$.]+)'?")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")


class PtxasError(LibtileError):
    """ptxas refused the PTX (or could not be run); `report` is all that it wrote."""

    def __init__(self, message: str, report: str):
        super().__init__(message, report)
        self.report = report

    def __str__(self) -> str:
        return str(self.args[0])


def parse_report(log: str) -> dict[str, KernelReport]:
    """The kernels' figures out of ptxas's verbose output."""
    reports: dict[str, dict[str, int]] = {}
    current: dict[str, int] | None = None
    for line in log.splitlines():
        if match := _FUNCTION.search(line):
            current = reports.setdefault(match[1], {})
        if current is None:
            continue
        if match := _FRAME.search(line):
            current.update(stack_frame=int(match[1]), spill_stores=int(match[2]), spill_loads=int(match[3]))
        if match := _USED.search(line):
            current["registers"] = int(match[1])
            barriers, shared = _BARRIERS.search(line), _SHARED.search(line)
            current.update(barriers=int(barriers[1]) if barriers else 0, shared=int(shared[1]) if shared else 0)
    zero = {"registers": 0, "stack_frame": 0, "spill_stores": 0, "spill_loads": 0, "shared": 0, "barriers": 0}
    return {name: KernelReport(**(zero | r)) for name, r in reports.items() if "registers" in r}


class Assembler:
    """A ptxas that is started before there is PTX, where it can read this from a pipe: it gets ready meanwhile.

    A context manager, which ends a ptxas that was given nothing. `has_host_object` tells whether `assemble` will be
    given one. PtxasError where ptxas cannot be run.
    """

    def __init__(
        self,
        ptx_target: str,
        *,
        opt_level: int = 3,
        line_info: bool = False,
        debug: bool = False,
        has_host_object: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        self.ptx_target = ptx_target
        # A folder that is made when ptxas has something to write: nothing is left behind until then.
        self.folder = os.path.join(temporary_folder(), f"libtile-{os.urandom(8).hex()}")
        # For a debugger it reads the PTX once more, to keep it in the cubin, which a pipe does not allow.
        piped = not (line_info or debug) and os.path.exists(_STDIN)
        self._source = _STDIN if piped else ""
        command = [tool_path("ptxas"), f"-arch={ptx_target}", f"-O{0 if debug else opt_level}", "-v"]
        if line_info:
            command.append("--generate-line-info")
        if debug:
            command.append("--device-debug")
        if has_host_object:
            command.append(f"--nv-host={self._path(_HOST_OBJECT)}")
        self._command = [*command, *options, self._source or self._path(_PTX), "-o", self._path(_CUBIN)]
        self._process: child.Child | None = None
        if self._source:
            self._start()

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _start(self) -> child.Child:
        try:
            self._process = child.start(self._command, _environment(), takes_input=bool(self._source))
        except OSError as problem:
            raise PtxasError(f"ptxas could not be run: {self._command[0]}: {reason(problem)}", "") from None
        return self._process

    def __enter__(self) -> Assembler:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.end()
        remove_folder(self.folder)

    def assemble(self, ptx: str, host_object: bytes | None = None) -> Assembled:
        """Assemble PTX, once. PtxasError holds ptxas's first error."""
        data = ptx.encode("utf-8")
        os.mkdir(self.folder, mode=0o700)
        if host_object is not None:
            _write(self._path(_HOST_OBJECT), host_object)
        if not self._source:
            _write(self._path(_PTX), data)
        with timing.stage("ptxas"):
            process = self._process or self._start()
            try:
                out, err = process.communicate(data if self._source else None, TIMEOUT_SECONDS, SAID_BYTES)
            except TimeoutError:
                raise PtxasError(f"ptxas did not end within {TIMEOUT_SECONDS} s", "") from None
            except child.SaysTooMuch:
                raise PtxasError(
                    f"ptxas failed for {self.ptx_target}: it says more than {SAID_BYTES} bytes", ""
                ) from None
        log = _text(out + err).replace(self._source or self._path(_PTX), _PTX)
        if (status := process.returncode) != 0:
            said = (x for x in log.splitlines() if "error" in x or "fatal" in x)
            first = next(said, _ending(status or 0))
            raise PtxasError(f"ptxas failed for {self.ptx_target}: {first.strip()}", log)
        cubin = _contents(self._path(_CUBIN))
        if not is_cubin(cubin):
            raise PtxasError(
                f"ptxas failed for {self.ptx_target}: it says that it is done, and has written no cubin", log
            )
        return Assembled(cubin, parse_report(log), log)


def _environment() -> Mapping[str, str]:
    """That of ptxas: this one's, and on Linux what glibc's allocator is told, if nobody has told it anything.

    In pages of 2 MiB, where the kernel gives them to who asks, ptxas touches a quarter of the pages.
    """
    if sys.platform != "linux" or _TUNABLES in os.environ:
        return os.environ
    return {**os.environ, _TUNABLES: "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=8388608"}


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def _contents(path: str) -> bytes:
    """Of a file; nothing where there is none."""
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


_STDIN = "/dev/fd/0"
_PTX, _CUBIN, _HOST_OBJECT = "kernel.ptx", "kernel.cubin", "host.o"


def assemble(
    ptx: str,
    ptx_target: str,
    *,
    opt_level: int = 3,
    line_info: bool = False,
    debug: bool = False,
    host_object: bytes | None = None,
    options: Sequence[str] = (),
) -> Assembled:
    """Assemble PTX for a target such as `sm_90a`.

    `host_object` is an ELF object carried in the cubin's `.nv.host` section. PtxasError holds ptxas's first error.
    """
    with Assembler(
        ptx_target,
        opt_level=opt_level,
        line_info=line_info,
        debug=debug,
        has_host_object=host_object is not None,
        options=options,
    ) as assembler:
        return assembler.assemble(ptx, host_object)


def _text(output: bytes) -> str:
    """What ptxas prints, which is not always UTF-8: it repeats names of the PTX, cut at any byte."""
    return output.decode("utf-8", errors="backslashreplace")


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    import signal  # which makes enums of numbers

    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"ended by signal {-status}"


def version() -> str:
    """The version line of the ptxas in use, with its path."""
    import subprocess

    tool = tool_path("ptxas")
    out = subprocess.run([tool, "--version"], capture_output=True, timeout=60, check=False).stdout
    line = next((x for x in _text(out).splitlines() if "release" in x), "unknown version")
    return f"{line.strip()} ({tool})"
