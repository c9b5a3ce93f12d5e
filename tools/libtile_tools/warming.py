# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Has this process do what the commands of a compile server do, so that its children find it done."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module

from libtile_tools import cli, server_place

_MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "warming.mlir")


def load() -> None:
    """Load the commands, and have each but the compiler work once."""
    for tool in server_place.TOOLS:
        import_module(server_place.module_of(tool))
    bytecode = _path(_bytecode())
    _do("tileirdisasm", [bytecode])
    _do("cuda-tile-translate", ["-cudatilebc-to-mlir", bytecode, "-o", os.devnull])
    _do("cuda-tile-opt", ["--canonicalize", "--cse", _MODULE, "-o", os.devnull])


def warm(target: str) -> None:
    """Have a module compiled for a target. What is wrong is said on stderr, and keeps nobody from using the rest."""
    from libtile.targets import targets

    if target in targets():
        _do("tileiras", [f"--gpu-name={target}", "--no-cache", _path(_bytecode()), "-o", os.devnull])


def _do(tool: str, arguments: Sequence[str]) -> None:
    command = import_module(server_place.module_of(tool)).command
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        status = cli.call(command, arguments)
    if status != cli.OK:
        cli.say(f"warning: {tool} {' '.join(arguments)} has ended with {status}")


@lru_cache(maxsize=1)
def _bytecode() -> bytes:
    from libtile.api import write
    from libtile.asm.module import parse

    with open(_MODULE, encoding="utf-8") as file:
        return write(parse(file.read(), filename=_MODULE))


_files: dict[bytes, int] = {}


def _path(data: bytes) -> str:
    """A path that has some bytes, in memory."""
    if data not in _files:
        _files[data] = os.memfd_create("libtile")
        os.write(_files[data], data)
    return f"/proc/self/fd/{_files[data]}"
