# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Machine code as nvdisasm prints it, read into records: the one place that knows the form of its text."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from libtile.backend.tools import find_tool
from libtile.support.errors import LibtileError
from libtile.support.records import dataclass

TIMEOUT = 120.0
"""Seconds that nvdisasm may take."""

PTX_FILE = ".nv_debug_ptx_txt"
"""What the names of files begin with whose lines are those of the PTX that ptxas was given."""


@dataclass(frozen=True, slots=True)
class Function:
    """What follows is the code of a function."""

    name: str


@dataclass(frozen=True, slots=True)
class End:
    """The code of a function ends."""


@dataclass(frozen=True, slots=True)
class Label:
    name: str


@dataclass(frozen=True, slots=True)
class Subroutine:
    """What follows is code behind that of a kernel, which the kernel calls by this name where operands are unusual."""

    name: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where the instructions that follow come from, and the line of the call that was inlined there (0 for none)."""

    file: str
    line: int
    caller: int = 0


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction by its words: `LDG.E.128` is the opcode `LDG` with two modifiers. `address` is in hexadecimal
    digits, `text` what is printed, with the predicate; `target` the label or subroutine that a branch or call names."""

    address: str
    text: str
    predicate: str
    opcode: str
    modifiers: tuple[str, ...]
    target: str = ""


Item = Function | End | Label | Subroutine | Place | Instruction

_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)(?: inlined at "[^"]*", line (\d+))?')
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+((?:(@!?U?P\w+)\s+)?([A-Z_]\w*)((?:\.\w+)*)[^;]*?)\s*;")
_FUNCTION = re.compile(r"\.text\.(\S+):")
_LABEL = re.compile(r"(\.L\w+):")
_SUBROUTINE = re.compile(r"(\$[\w$]+):")
_TARGET = re.compile(r"`\((\.L\w+|\$[\w$]+)\)")


def read(text: str) -> Iterator[Item]:
    """What nvdisasm printed of a cubin, in order; what is no code is passed over."""
    for line in text.splitlines():
        if found := _FUNCTION.match(line):
            yield Function(found[1])
        elif found := _INSTRUCTION.match(line):
            target = _TARGET.search(found[2])
            modifiers = tuple(found[5].split(".")[1:])
            yield Instruction(found[1], found[2], found[3] or "", found[4], modifiers, target[1] if target else "")
        elif found := _LABEL.match(line):
            yield Label(found[1])
        elif found := _SUBROUTINE.match(line):
            yield Subroutine(found[1])
        elif found := _PLACE.search(line):
            yield Place(found[1], int(found[2]), int(found[3] or 0))
        elif line.startswith("//-----"):
            yield End()


def disassemble(cubin: bytes, *options: str, timeout: float = TIMEOUT) -> Iterator[Item]:
    """The code of a cubin. ToolNotFoundError without nvdisasm, TimeoutError where it takes too long, LibtileError when
    it refuses the cubin."""
    tool = find_tool("nvdisasm")
    with tempfile.TemporaryDirectory(prefix="libtile-nvdisasm-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [tool, *options, "-c", path], capture_output=True, timeout=timeout, check=False, text=True,
                errors="replace", stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"nvdisasm took more than {timeout:.0f} seconds") from None
    if done.returncode:
        raise LibtileError(f"nvdisasm refused the cubin: {done.stderr.strip().partition(chr(10))[0]}")
    return read(done.stdout)
