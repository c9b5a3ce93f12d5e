# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The line tables of cubins, read back: which source line each machine instruction leads to.

`.debug_line` leads to the source, `.nv.tileir.debug_line` to the text of the Tile IR, which the cubin holds. Both are
DWARF line programs of version 3; NVIDIA's own extended opcodes (inlined calls) are skipped.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from oracle import run_tool

elffile = pytest.importorskip("elftools.elf.elffile", reason="reads cubins with pyelftools (pip install pyelftools)")

SOURCE, TILE_IR = ".debug_line", ".nv.tileir.debug_line"
TEXT = ".nv.tileir.debug_txt."
ACCESSES = r"(LDG|STG|LDGSTS|ATOMG?|REDG?|LD|ST|UTMALDG|UTMASTG|UTMAREDG|UBLKCP)\b"
"""Instructions that access global memory, those of tensor maps and bulk copies among them."""


class Row(NamedTuple):
    """A line from an address on."""

    address: int
    file: str
    line: int


def sections(cubin: bytes) -> dict[str, bytes]:
    """The contents of a cubin's sections by name."""
    return {s.name: s.data() for s in elffile.ELFFile(io.BytesIO(cubin)).iter_sections()}


def dwarf(cubin: bytes) -> Any:
    """The debug information of a cubin, for pyelftools."""
    return elffile.ELFFile(io.BytesIO(cubin)).get_dwarf_info(relocate_dwarf_sections=False)


def rows(cubin: bytes, table: str = SOURCE) -> dict[str, list[Row]]:
    """The rows of a line table by kernel, in the order of their addresses."""
    elf = elffile.ELFFile(io.BytesIO(cubin))
    section = elf.get_section_by_name(table)
    program = _program(elf, section)
    kernels = _kernels(elf, table)
    found: dict[str, list[Row]] = {}
    current: list[Row] = []
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if state.end_sequence:
            found[kernels[len(found)]] = sorted(current, key=lambda row: row.address)
            current = []
        else:
            current.append(Row(state.address, _path(program, state.file), state.line))
    return found


def _program(elf: Any, section: Any) -> Any:
    from elftools.common.utils import struct_parse
    from elftools.dwarf.lineprogram import LineProgram
    from elftools.dwarf.structs import DWARFStructs

    structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8, dwarf_version=3)
    stream = io.BytesIO(section.data())
    header = struct_parse(structs.Dwarf_lineprog_header, stream, 0)
    return LineProgram(header, stream, structs, stream.tell(), header["unit_length"] + 4)


def _path(program: Any, number: int) -> str:
    entry = program.header["file_entry"][number - 1]
    folder = program.header["include_directory"][entry.dir_index - 1].decode() if entry.dir_index else ""
    return f"{folder}/{entry.name.decode()}" if folder else str(entry.name.decode())


def _kernels(elf: Any, table: str) -> list[str]:
    """The kernels in the order of their sequences: each begins with an address that is relocated."""
    relocations = elf.get_section_by_name(f".rela{table}") or elf.get_section_by_name(f".rel{table}")
    symbols = elf.get_section(relocations["sh_link"])
    ordered = sorted(relocations.iter_relocations(), key=lambda r: int(r["r_offset"]))
    names = (symbols.get_symbol(r["r_info_sym"]) for r in ordered)
    return [elf.get_section(s["st_shndx"]).name.removeprefix(".text.") for s in names]


def instructions(cubin: bytes, folder: Path, *options: str) -> dict[str, list[tuple[int, str]]]:
    """(address, text) of the instructions by kernel, as the disassembler prints them; its notes have address -1."""
    path = folder / "k.cubin"
    path.write_bytes(cubin)
    found: dict[str, list[tuple[int, str]]] = {}
    for line in run_tool("nvdisasm", "-c", *options, path).stdout.splitlines():
        if match := re.match(r"\.text\.(\S+):", line):
            current = found.setdefault(match[1], [])
        elif match := re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*);", line):
            current.append((int(match[1], 16), match[2].strip()))
        elif line.strip().startswith("//## File"):
            current.append((-1, line.strip()))
    return found


def lines_of(cubin: bytes, folder: Path, pattern: str = ACCESSES, table: str = SOURCE) -> set[tuple[str, int]]:
    """(file, line) of the instructions that match a pattern, whatever guards them."""
    wanted = re.compile(r"(?:@!?U?P\w+ )?(?:" + pattern + ")")
    found = set()
    tables = rows(cubin, table)
    for kernel, listing in instructions(cubin, folder).items():
        table_rows = tables.get(kernel, [])  # ptxas's own functions and libdevice's have none
        starts = [row.address for row in table_rows]
        for address, text in listing:
            if wanted.match(text) and (at := bisect_right(starts, address)):
                found.add((table_rows[at - 1].file, table_rows[at - 1].line))
    return found
