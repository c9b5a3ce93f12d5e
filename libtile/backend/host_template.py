# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The host object of one kernel without LLVM: what LLVM made for a kernel of another name, with this name in it.

The templates in `hosts/` are objects that LLVM made (`host_object.made`) for a kernel called `NAME`. From kernel to
kernel only its characters differ, and where what is behind them lies. A test holds the result against LLVM's for many
names, and says how to make the templates anew.
"""

from __future__ import annotations

import os
import struct

NAME = "kernel"
FOLDER = os.path.join(os.path.dirname(__file__), "hosts")
HOSTS = [(arch, system) for arch in ("x86_64", "aarch64") for system in ("linux", "windows")]

# ELF-64, little-endian: offsets into the header, the rows of the section and symbol tables.
_SECTIONS_AT, _SECTION_COUNT_AT = 40, 60
_SECTION = struct.Struct("<IIQQQQIIQQ")
_OFFSET, _SIZE, _ALIGNMENT = 4, 5, 8
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _NOBITS = 2, 8

_LARGE, _LARGE_ALIGNMENT = 16, 16
"""LLVM aligns constants of more bytes than these."""


def path(arch: str, system: str) -> str:
    """Where the template of a host is."""
    return os.path.join(FOLDER, f"{arch}-{system}.o")


def named(arch: str, system: str, name: bytes) -> bytes:
    """The host object of one kernel of this name."""
    with open(path(arch, system), "rb") as file:
        template = file.read()
    return _renamed(template, NAME.encode() + bytes(1), name + bytes(1))


def _renamed(template: bytes, old: bytes, new: bytes) -> bytes:
    """An object with other characters, in a section of their own, and everything behind them moved."""
    start, count = _field("<Q", template, _SECTIONS_AT), _field("<H", template, _SECTION_COUNT_AT)
    rows = [list(_SECTION.unpack_from(template, start + _SECTION.size * n)) for n in range(count)]
    parts = [b"" if r[1] == _NOBITS else template[r[_OFFSET] : r[_OFFSET] + r[_SIZE]] for r in rows]
    place = parts.index(old)
    parts[place] = new
    rows[place][_SIZE] = len(new)
    if len(new) > _LARGE:
        rows[place][_ALIGNMENT] = _LARGE_ALIGNMENT
    for number, row in enumerate(rows):
        if row[1] == _SYMTAB:
            parts[number] = _with_size(parts[number], place, len(old), len(new))
    data = bytearray(template[: min(row[_OFFSET] for row in rows[1:])])  # the header
    for number in sorted(range(1, count), key=lambda n: (rows[n][_OFFSET], n)):
        row = rows[number]
        data += bytes(-len(data) % max(row[_ALIGNMENT], 1))
        row[_OFFSET] = len(data)
        data += parts[number]
    data += bytes(-len(data) % 8)
    struct.pack_into("<Q", data, _SECTIONS_AT, len(data))
    return bytes(data) + b"".join(_SECTION.pack(*row) for row in rows)


def _with_size(symbols: bytes, section: int, old: int, new: int) -> bytes:
    """A symbol table in which what has the old size in a section has the new one."""
    found = [_SYMBOL.unpack_from(symbols, at) for at in range(0, len(symbols), _SYMBOL.size)]
    return b"".join(_SYMBOL.pack(*s[:5], new if (s[3], s[5]) == (section, old) else s[5]) for s in found)


def _field(format_: str, data: bytes, at: int) -> int:
    value: int = struct.unpack_from(format_, data, at)[0]
    return value
