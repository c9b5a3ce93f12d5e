# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels that a script launches: what tools take from a `.py` file in place of bytecode."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TextIO
from unittest import mock

from libtile.cutile.launching import DEFAULT_TARGET, require_cutile
from libtile.cutile.replacement import on_host
from libtile.support.errors import LibtileError, Stopped
from libtile.support.files import Bytes, file_bytes
from libtile.support.files import Path as AnyPath
from libtile.support.records import dataclass
from libtile.support.signatures import checked

_ENDS = (KeyboardInterrupt, GeneratorExit, Stopped)
"""What is not the script's, but ends the process that runs it."""


@dataclass(frozen=True)
class Launched:
    """A kernel that was launched: its name in Python, the one in its bytecode, that, and the first launch's grid.

    One Python function is several of these where it was launched with arguments of several kinds.
    """

    name: str
    symbol: str
    bytecode: bytes
    grid: tuple[int, ...]


@checked
def launched_kernels(
    script: AnyPath, arguments: Sequence[str] = (), *, gpu_name: str = DEFAULT_TARGET, out: TextIO | None = None
) -> list[Launched]:
    """Run a script on this machine's CPU, and give the kernels that it launched, in the order of their first launches.

    The script is `__main__`, with `arguments` in `sys.argv`. `ct.launch` runs kernels in the interpreter, so that what
    the script checks afterwards is right; `gpu_name` is the GPU that it finds. What it prints goes to `out`, by default
    stderr. Raises LibtileError, with the script's line, for a script that fails, and for one that launches nothing.
    """
    require_cutile()
    path = _readable(script)
    found: dict[tuple[str, bytes], Launched] = {}

    def watch(name: str, symbol: str, data: bytes, grid: tuple[int, ...]) -> None:
        found.setdefault((symbol, data), Launched(name, symbol, data, grid))

    argv = mock.patch.object(sys, "argv", [path, *arguments])
    folder = mock.patch.object(sys, "path", [str(Path(path).resolve().parent), *sys.path])
    with argv, folder, redirect_stdout(out or sys.stderr), on_host(gpu_name=gpu_name, watch=watch):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise LibtileError(f"{path}: the script ended with status {end.code}") from None
        except (LibtileError, *_ENDS):
            raise  # a fault of a kernel says its line itself
        except BaseException as error:  # pytest's `skip` is no Exception either
            raise LibtileError(_failure(path, error)) from error
    if not found:
        raise LibtileError(f"{path}: the script launches no kernel: what ct.launch gets is what there is to look at")
    return list(found.values())


def kernel_in(script: AnyPath, name: str | None) -> Any:
    """The `@ct.kernel` of a name at the top level of a Python file, which is imported, not run as a program.

    LibtileError, with the script's line, for a file that fails, and with the names that there are for any other name.
    """
    require_cutile()
    from cuda.tile import kernel as kernel_type

    path = _readable(script)
    with mock.patch.object(sys, "path", [str(Path(path).resolve().parent), *sys.path]):
        try:
            found = runpy.run_path(path, run_name=Path(path).stem)
        except (LibtileError, *_ENDS):
            raise
        except BaseException as error:
            raise LibtileError(_failure(path, error)) from error
    kernels = {key: value for key, value in found.items() if isinstance(value, kernel_type)}
    if name not in kernels:
        what = f"'{path}' has no @ct.kernel{'' if name is None else f' {name!r}'}" if name or not kernels else ""
        listed = f"its kernels: {', '.join(kernels)}" if kernels else "none at its top level"
        raise LibtileError(f"{what} ({listed})" if what else f"say which kernel, as '{path}:NAME' ({listed})")
    return kernels[name]


def chosen(kernels: Iterable[Launched], name: str | None) -> Launched:
    """The kernel of this name, in Python or in bytecode; without one, the only kernel that there is.

    LibtileError that lists the names where there is no such kernel, or more than one.
    """
    kernels = list(kernels)
    matching = [kernel for kernel in kernels if name in (None, kernel.name, kernel.symbol)]
    if len(matching) == 1:
        return matching[0]
    times = Counter(kernel.name for kernel in matching)
    names = ", ".join(dict.fromkeys(k.symbol if times[k.name] > 1 else k.name for k in matching or kernels))
    what = f"more than one kernel{'' if name is None else f' named {name}'}" if matching else f"no kernel named {name}"
    raise LibtileError(f"the script launches {what}: choose one of {names}")


def _readable(script: AnyPath) -> str:
    """The path of a script. LibtileError for what is none, and where it cannot be read."""
    if isinstance(script, Bytes):
        raise LibtileError(f"a script is given by its path, not as {type(script).__name__}")
    file_bytes(script)
    return os.fspath(script)


def _failure(path: str, error: BaseException) -> str:
    """What a script died of, at its own last line."""
    if isinstance(error, SyntaxError):
        place = f"{error.filename or path}:{error.lineno or 0}"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if os.path.abspath(frame.filename) == os.path.abspath(path)]
        place = f"{path}:{own[-1].lineno}" if own else path
    text = " ".join(str(error).split())
    return f"{place}: {type(error).__name__}{f': {text}' if text else ''}"
