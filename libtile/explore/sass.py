# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Machine code: what nvdisasm prints of a cubin, the op that each instruction was made for, and the loops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from libtile.backend import nvdisasm
from libtile.backend.nvdisasm import End, Function, Instruction, Item, Label, Place, Subroutine
from libtile.backend.tools import ToolNotFoundError
from libtile.explore.listings import NONE, Listing
from libtile.support.records import dataclass, field

HOW_TO_GET_IT = "nvdisasm was not found: pip install nvidia-cuda-nvdisasm brings it"


_SPIN = 6
"""Instructions at most of a loop that asks a barrier object: the question, its address and phase, and the branch."""


@dataclass(frozen=True)
class Loop:
    """Instructions from a label back to which a branch leads: lines of the listing, from 0, both included."""

    first: int
    last: int
    instructions: int
    counts: Mapping[str, int]
    """Instructions by kind, those that tell most of a loop's work."""

    @property
    def spins(self) -> bool:
        """Whether all that it does is to ask a barrier object in shared memory again."""
        return self.instructions <= _SPIN and "asynchronous waits" in self.counts


@dataclass
class Code:
    """The machine code of a module, and by kernel its instructions, each behind its line of the listing (from 0), and
    its innermost loops."""

    listing: Listing
    instructions: dict[str, list[tuple[int, Instruction]]] = field(default_factory=dict)
    loops: dict[str, list[Loop]] = field(default_factory=dict)
    apart: set[int] = field(default_factory=set)
    """Lines of the listing with instructions that are not executed as often as the line of PTX in front of them:
    subroutines for unusual operands, of a division as an example, and what fills a kernel's end."""


_WARPGROUP_PRODUCTS = ("HGMMA", "IGMMA", "QGMMA")
"""What ptxas makes of wgmma.mma_async; the first modifier is the shape, as in `64x128x16`."""

LOCAL = "local memory"

KINDS = {
    "matrix products": r"[HIQDB]MMA|[HIQ]GMMA|UTC\w*MMA",
    "arithmetic": r"[FHI]FMA|[FHID](ADD|MUL|MNMX)2?|IMAD|IADD3|LEA|LOP3|SHF|VIADD|I2F|F2F|F2I|FSEL|SEL",
    "special functions": r"MUFU",
    "global memory": r"LDG|STG|LDGSTS|ATOMG?|REDG?|UTMA\w+|UBLKCP",
    "shared memory": r"LDS|STS|LDSM|STSM|ATOMS",
    LOCAL: r"LDL|STL",
    "barriers": r"BAR|WARPSYNC|DEPBAR|LDGDEPBAR|FENCE|MEMBAR",
    "asynchronous waits": r"SYNCS|WARPGROUP",
    "shuffles": r"SHFL|REDUX|VOTEU?",
    "branches": r"BRA|BRX|EXIT|CALL|RET|BSSY|BSYNC",
}
"""Kinds of instructions by their opcodes."""

_PLURAL = re.compile("(ch)es$|s$")

_KIND_OF = {kind: re.compile(rf"U?(?:{opcodes})") for kind, opcodes in KINDS.items()}


def kind_of(instruction: Instruction) -> str:
    """The kind of an instruction, `other` where no kind names its opcode."""
    return next((kind for kind, opcode in _KIND_OF.items() if opcode.fullmatch(instruction.opcode)), "other")


def amount(count: int, kind: str) -> str:
    """So many of a kind, as in `2 branches` and `1 branch`."""
    one = _PLURAL.sub(r"\1", kind)
    return f"{count} {one if count == 1 else kind}"


def disassembled(
    cubin: bytes, op_of_ptx_line: Mapping[int, int], op_of_product: Mapping[str, int] | None = None
) -> Code:
    """The machine code of a cubin with line information.

    `op_of_ptx_line` says what lines of the PTX were made for, which ptxas's own table leads to, and `op_of_product`
    what products of wgmma were, by their shapes: that table has no lines for them. The listing is empty, with a note,
    where there is no nvdisasm. LibtileError when nvdisasm refuses the cubin.
    """
    try:
        return listed(nvdisasm.disassemble(cubin, "-g", "-gp"), op_of_ptx_line, op_of_product)
    except ToolNotFoundError:
        return Code(Listing("sass", note=HOW_TO_GET_IT))
    except TimeoutError as error:
        return Code(Listing("sass", note=str(error)))


def listed(
    items: Iterable[Item], op_of_ptx_line: Mapping[int, int], op_of_product: Mapping[str, int] | None = None
) -> Code:
    """The machine code that these items are; see `disassembled`."""
    code, products = Code(Listing("sass")), op_of_product or {}
    kernel, op, apart = "", NONE, False
    labels: dict[str, int] = {}
    callers: dict[str, set[int]] = {}
    for item in items:
        match item:
            case Function(name):
                _close(code, kernel, labels)
                kernel, op, apart, labels, callers = name, NONE, False, {}, {}
                code.listing.add(f"{kernel}:")
                code.instructions[kernel] = []
            case Place(file, line) if file.startswith(nvdisasm.PTX_FILE):
                op = op_of_ptx_line.get(line, NONE)
            case Subroutine(name) if kernel:
                # One that is there for several ops was made for none of them in particular.
                made_for_all = callers.get(name, set())
                op, apart = next(iter(made_for_all)) if len(made_for_all) == 1 else NONE, True
                code.listing.add(f"{name}:", op)
            case Instruction(address, text) if kernel:
                at = len(code.listing.lines)
                if item.opcode == "BRA" and not item.predicate and labels.get(item.target) == at - 1:
                    op, apart = NONE, True  # the loop into which nothing runs; only what fills the rest is behind it
                if apart:
                    code.apart.add(at)
                if item.opcode == "CALL":
                    callers.setdefault(item.target, set()).add(op)
                code.instructions[kernel].append((at, item))
                made_for = products.get(item.modifiers[0], op) if item.opcode in _WARPGROUP_PRODUCTS else op
                code.listing.add(f"  {address}  {text}", made_for)
            case Label(name) if kernel:
                labels[name] = len(code.listing.lines)
                code.listing.add(f"{name}:")
            case End():
                _close(code, kernel, labels)
                kernel = ""
    _close(code, kernel, labels)
    return code


def _close(code: Code, kernel: str, labels: Mapping[str, int]) -> None:
    """The innermost loops of a kernel whose code has come to its end."""
    if not kernel:
        return
    instructions = code.instructions[kernel]
    branches = [(at, i.target) for at, i in instructions if i.opcode == "BRA" and i.target]
    found = [(labels[label], at) for at, label in branches if labels.get(label, at) < at]
    inner = [(a, b) for a, b in found if not any((c, d) != (a, b) and a <= c and d <= b for c, d in found)]
    loops = []
    for first, last in sorted(inner):
        inside = [i for at, i in instructions if first <= at <= last]
        counts: dict[str, int] = {}
        for instruction in inside:
            kind = kind_of(instruction)
            counts[kind] = counts.get(kind, 0) + 1
        if len(inside) > 1:  # the loop behind the kernel's end, into which nothing runs, is one branch
            loops.append(Loop(first, last, len(inside), dict(sorted(counts.items(), key=lambda item: -item[1]))))
    code.loops[kernel] = loops
