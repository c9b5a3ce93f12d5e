# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The machine instructions of a cubin by source line, as nvdisasm prints them for line tables."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

from libtile.backend import nvdisasm
from libtile.backend.nvdisasm import Instruction, Place
from oracle import OracleError, run_tool
from patience import PATIENCE

Lines = dict[int, list[str]]
"""By source line, the instructions that the line table gives it, without predicates: opcode and operands."""


def by_line(cubin: bytes, timeout: float = PATIENCE) -> Lines:
    """The instructions of all functions of a cubin with line information. OracleError when nvdisasm refuses it."""
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        path = Path(folder) / "k.cubin"
        path.write_bytes(cubin)
        done = run_tool("nvdisasm", "-g", "-c", path, timeout=timeout)
    if done.rc:
        raise OracleError(f"nvdisasm: {done.stderr}")
    found: Lines = defaultdict(list)
    line = 0
    for item in nvdisasm.read(done.stdout):
        match item:
            case Place(line=line):
                pass
            case Instruction(text=text, predicate=predicate):
                found[line].append(text.removeprefix(predicate).lstrip())
    return dict(found)


def opcodes(instructions: list[str]) -> list[str]:
    """The opcodes with their modifiers."""
    return [text.split()[0] for text in instructions]
