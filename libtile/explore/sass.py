# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Machine code: what nvdisasm prints of a cubin, the op that each instruction was made for, and the loops."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from libtile.backend.tools import ToolNotFoundError, find_tool
from libtile.explore.listings import NONE, Listing
from libtile.support.errors import LibtileError

HOW_TO_GET_IT = "nvdisasm was not found: pip install nvidia-cuda-nvdisasm brings it"
TIMEOUT = 120.0
"""Seconds that nvdisasm may take."""

_PTX_LINE = re.compile(r'//## File "\.nv_debug_ptx_txt[^"]*", line (\d+)')
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_TEXT = re.compile(r"\.text\.(\S+):")
_LABEL = re.compile(r"(\.L_\w+):")
_BRANCH = re.compile(r"\bBRA\b.*`\((\.L_\w+)\)")


@dataclass(frozen=True)
class Loop:
    """Instructions from a label back to which a branch leads: lines of the listing, from 0, both included."""

    first: int
    last: int
    instructions: int
    counts: Mapping[str, int]
    """Instructions by kind, those that tell most of a loop's work."""


@dataclass
class Code:
    """The machine code of a module, and by kernel its instructions and its innermost loops."""

    listing: Listing
    instructions: dict[str, int] = field(default_factory=dict)
    loops: dict[str, list[Loop]] = field(default_factory=dict)


KINDS = {
    "matrix products": r"[HIQDB]MMA|[HIQ]GMMA|UTC\w*MMA",
    "arithmetic": r"[FHI]FMA|[FHID](ADD|MUL|MNMX)2?|IMAD|IADD3|LEA|LOP3|SHF|VIADD|I2F|F2F|F2I|FSEL|SEL",
    "special functions": r"MUFU",
    "global memory": r"LDG|STG|LDGSTS|ATOMG?|REDG?|UTMA\w+|UBLKCP",
    "shared memory": r"LDS|STS|LDSM|STSM|ATOMS",
    "local memory": r"LDL|STL",
    "barriers": r"BAR|WARPSYNC|DEPBAR|LDGDEPBAR|FENCE|MEMBAR",
    "asynchronous waits": r"SYNCS|WARPGROUP",
    "shuffles": r"SHFL|REDUX|VOTEU?",
    "branches": r"BRA|BRX|EXIT|CALL|RET|BSSY|BSYNC",
}
"""Kinds of instructions by their opcodes."""

_KIND_OF = {kind: re.compile(rf"(?:@!?U?P\w+\s+)?U?(?:{opcodes})\b") for kind, opcodes in KINDS.items()}


def kind_of(instruction: str) -> str:
    """The kind of an instruction, `other` where no kind names its opcode."""
    return next((kind for kind, opcode in _KIND_OF.items() if opcode.match(instruction)), "other")


def disassembled(cubin: bytes, op_of_ptx_line: Mapping[int, int]) -> Code:
    """The machine code of a cubin with line information.

    `op_of_ptx_line` says what lines of the PTX were made for, which ptxas's own table leads to. The listing is empty,
    with a note, where there is no nvdisasm. LibtileError when nvdisasm refuses the cubin.
    """
    try:
        tool = find_tool("nvdisasm")
    except ToolNotFoundError:
        return Code(Listing("sass", note=HOW_TO_GET_IT))
    with tempfile.TemporaryDirectory(prefix="libtile-explore-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [tool, "-g", "-gp", "-c", path], capture_output=True, timeout=TIMEOUT, check=False, text=True,
                errors="replace", stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Code(Listing("sass", note=f"nvdisasm took more than {TIMEOUT:.0f} seconds"))
    if done.returncode:
        raise LibtileError(f"nvdisasm refused the cubin: {done.stderr.strip().partition(chr(10))[0]}")
    return _listed(done.stdout, op_of_ptx_line)


def _listed(text: str, op_of_ptx_line: Mapping[int, int]) -> Code:
    code = Code(Listing("sass"))
    kernel, op = "", NONE
    labels: dict[str, int] = {}
    branches: list[tuple[int, str]] = []
    for line in text.splitlines():
        if found := _TEXT.match(line):
            _close(code, kernel, labels, branches)
            kernel, op, labels, branches = found[1], NONE, {}, []
            code.listing.add(f"{kernel}:")
            code.instructions[kernel] = 0
        elif found := _PTX_LINE.search(line):
            op = op_of_ptx_line.get(int(found[1]), NONE)
        elif found := _INSTRUCTION.match(line):
            if kernel:
                if branch := _BRANCH.search(found[2]):
                    branches.append((len(code.listing.lines), branch[1]))
                code.listing.add(f"  {found[1]}  {found[2]}", op)
                code.instructions[kernel] += 1
        elif kernel and (found := _LABEL.match(line)):
            labels[found[1]] = len(code.listing.lines)
            code.listing.add(f"{found[1]}:")
        elif line.startswith("//-----"):
            _close(code, kernel, labels, branches)
            kernel = ""
    _close(code, kernel, labels, branches)
    return code


def _close(code: Code, kernel: str, labels: Mapping[str, int], branches: list[tuple[int, str]]) -> None:
    """The innermost loops of a kernel whose code has come to its end."""
    if not kernel:
        return
    found = [(labels[label], at) for at, label in branches if labels.get(label, at) < at]
    inner = [(a, b) for a, b in found if not any((c, d) != (a, b) and a <= c and d <= b for c, d in found)]
    loops = []
    for first, last in sorted(inner):
        texts = [line.split(maxsplit=1)[1] for line in code.listing.lines[first : last + 1] if line.startswith("  ")]
        counts: dict[str, int] = {}
        for text in texts:
            kind = kind_of(text)
            counts[kind] = counts.get(kind, 0) + 1
        if len(texts) > 1:  # the loop behind the kernel's end, into which nothing runs, is one branch
            loops.append(Loop(first, last, len(texts), dict(sorted(counts.items(), key=lambda item: -item[1]))))
    code.loops[kernel] = loops
