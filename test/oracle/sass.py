# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The machine instructions of a cubin by source line, as nvdisasm prints them for line tables."""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from pathlib import Path

from oracle import OracleError, run_tool

Lines = dict[int, list[str]]
"""By source line, the instructions that the line table gives it, without predicates: opcode and operands."""

_PLACE = re.compile(r'//## File "(?P<file>[^"]*)", line (?P<line>\d+)(?: inlined at "[^"]*", line (?P<caller>\d+))?')
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(?P<text>[A-Z][A-Z0-9_.]*[^;]*?)\s*;")


def by_line(cubin: bytes, timeout: float = 120.0) -> Lines:
    """The instructions of all functions of a cubin with line information. OracleError when nvdisasm refuses it."""
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        path = Path(folder) / "k.cubin"
        path.write_bytes(cubin)
        done = run_tool("nvdisasm", "-g", "-c", path, timeout=timeout)
    if done.rc:
        raise OracleError(f"nvdisasm: {done.stderr}")
    found: Lines = defaultdict(list)
    line = 0
    for text in done.stdout.splitlines():
        if place := _PLACE.search(text):
            line = int(place["line"])
        elif instruction := _INSTRUCTION.search(text):
            found[line].append(instruction["text"])
    return dict(found)


def opcodes(instructions: list[str]) -> list[str]:
    """The opcodes with their modifiers."""
    return [text.split()[0] for text in instructions]
