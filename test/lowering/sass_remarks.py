# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the remarks about a kernel with the machine instructions that its line table gives to their lines."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import libtile
from libtile.support import remarks
from libtile.support.remarks import Kind, Remark
from oracle import sass

SHAPES = {
    # (instruction, shape) of a remark: the opcodes that say so. nvdisasm spells shapes of DMMA with and without `x`.
    ("Tensor-core SM80", "[16, 8, 16]"): ("HMMA.16816.", "IMMA.16816."),
    ("Tensor-core SM80", "[16, 8, 8]"): ("HMMA.1688.",),
    ("Tensor-core SM80", "[16, 8, 4]"): ("HMMA.1684.",),
    ("Tensor-core SM80", "[16, 8, 32]"): ("IMMA.16832.",),
    ("Tensor-core SM80", "[8, 8, 4]"): ("DMMA.884", "DMMA.8x8x4"),
    ("Tensor-core SM89", "[16, 8, 16]"): ("QMMA.16816.",),
    ("Tensor-core SM89", "[16, 8, 32]"): ("QMMA.16832.",),
    ("Tensor-core SM120", "[16, 8, 32]"): ("QMMA.SF.16832.", "QMMA.16832."),
    ("Tensor-core SM90", "[16, 8, 4]"): ("DMMA.16x8x4",),
    ("Tensor-core SM90", "[16, 8, 8]"): ("DMMA.16x8x8",),
    ("Tensor-core SM90", "[16, 8, 16]"): ("DMMA.16x8x16",),
}
ASYNCHRONOUS = {"Tensor-core SM90": ("HGMMA", "QGMMA", "IGMMA"), "Tensor-core SM100": ("UTCHMMA", "UTCQMMA", "UTCIMMA")}
"""Of products by wgmma, whose opcodes have the shape, and by tcgen05, whose operands have it."""
MULTIPLY_ADDS = ("FFMA", "DFMA", "HFMA2", "FMUL", "HMUL2", "FFMA2")
MEMORY = {
    remarks.GLOBAL_LOAD: "LDG", remarks.ASYNC_COPY: "LDGSTS", remarks.GLOBAL_STORE: "STG", remarks.TMA_LOAD: "UTMALDG",
    remarks.TMA_STORE: "UTMASTG",
}  # fmt: skip
_BITS = re.compile(r"\.[US]?(8|16|64|128)(?=\.|$)")


def problems(module: libtile.Module | bytes, target: str) -> list[str]:
    """What remarks say of a line that its instructions do not show, and the other way round."""
    made = libtile.compile(module, gpu_name=target, line_info=True)
    lines = {line: sass.opcodes(found) for line, found in sass.by_line(made.cubin).items()}
    said: dict[int, list[Remark]] = defaultdict(list)
    for remark in made.remarks:
        if remark.location is not None:
            said[remark.location.line].append(remark)
    found = [f"line {line}: {text}" for line, of in said.items() for text in _of_line(of, lines.get(line, []))]
    return found + [f"line {line}: no remark about {code}" for line, code in _unsaid(said, lines)]


def _arguments(remark: Remark) -> dict[str, str]:
    return dict(remark.arguments)


def _codes(instruction: str, shape: str) -> tuple[str, ...]:
    """Beginnings of the opcodes of a product by an instruction of a shape."""
    if (instruction, shape) in SHAPES:
        return SHAPES[instruction, shape]
    names = ASYNCHRONOUS[instruction]
    if instruction == "Tensor-core SM100":
        return names
    return tuple(f"{name}.{shape[1:-1].replace(', ', 'x')}." for name in names)


def _is_product(code: str) -> bool:
    return code.split(".")[0].endswith("MMA")


def _of_line(said: list[Remark], codes: list[str]) -> Iterator[str]:
    products = [r for r in said if r.name == "RemarkTensorCoreMMA"]
    expected = tuple(
        code for r in products if r.kind is Kind.PASSED
        for code in _codes(_arguments(r)["Instruction"], _arguments(r)["Shape"])
    )  # fmt: skip
    done = [code for code in codes if _is_product(code)]
    for remark in products:
        if remark.kind is Kind.FAILED and not any(code.startswith(MULTIPLY_ADDS) for code in codes):
            yield f"no multiply-adds, but {sorted(set(codes))}"
    if expected and not done:
        yield f"a product by {expected}, but no tensor core in {sorted(set(codes))}"
    yield from (f"{code}, but a product by {expected} is said" for code in set(done) if not code.startswith(expected))
    yield from _of_memory(said, codes)


def _of_memory(said: list[Remark], codes: list[str]) -> Iterator[str]:
    """Every access that is said is there; the widest and, where a check decides, the narrower width are those said."""
    chosen = [r for r in said if r.name.startswith("RemarkMemory") and r.name.endswith("InstructionSelected")]
    opcodes = {MEMORY[_arguments(r)["Instruction"]] for r in chosen} | _otherwise(said)
    seen = {code: {_bits(c) for c in codes if c.split(".")[0] == code} for code in opcodes}
    for code in opcodes:
        if not seen[code]:
            yield f"{code} is said, but there are {sorted(set(codes))}"
    widths = [r for r in said if r.name == "RemarkMemoryAccessWidth"]
    every = set().union(*seen.values())
    if not every:
        return
    widest = max((int(_arguments(remark)["Width"]) for remark in widths), default=0)
    for remark in widths:
        width = int(_arguments(remark)["Width"])
        if width not in every or (len(chosen) == 1 and max(every) > widest):
            yield f"{width} bits are said, but there are {seen}"
        if remark.kind is Kind.ANALYSIS and int(_arguments(remark)["Otherwise"]) not in every:
            yield f"{_arguments(remark)['Otherwise']} bits otherwise are said, but there are {seen}"


def _otherwise(said: list[Remark]) -> set[str]:
    """Opcodes of accesses where a check fails, if they are others."""
    return {MEMORY[i] for r in said if (i := _arguments(r).get("OtherwiseInstruction"))}


def _bits(code: str) -> int:
    """The width of an access by its opcode: 32 bits unless it says another."""
    found = _BITS.findall(code)
    return int(found[-1]) if found else 32


def _unsaid(said: dict[int, list[Remark]], lines: dict[int, list[str]]) -> Iterator[tuple[int, str]]:
    """Tensor-core instructions and global accesses at lines without a remark about them."""
    for line, codes in lines.items():
        of = said.get(line, [])
        opcodes = {MEMORY[i] for r in of if (i := _arguments(r).get("Instruction")) in MEMORY} | _otherwise(of)
        products = any(r.name == "RemarkTensorCoreMMA" for r in of)
        for code in sorted(set(codes)):
            first = code.split(".")[0]
            if (first in MEMORY.values() and first not in opcodes) or (_is_product(code) and not products):
                yield line, code
