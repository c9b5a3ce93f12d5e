# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The container: header, section headers and tables.

They are declared with `construct`, in `container_declared`. A reader in a hurry does not load that: what is regular is
read here, and anything else is left to the declarations, which say what is wrong and where.
"""

from __future__ import annotations

from typing import NamedTuple

from libtile.bytecode.container_numbers import (
    ALIGNED,
    DEBUG_FUNCTIONS,
    DEBUG_INDICES,
    DEBUG_RECORDS,
    KNOWN_SECTIONS,
    MAGIC,
    PADDING,
    Table,
)
from libtile.bytecode.cursor import put, unpack_unsigned, varint
from libtile.bytecode.errors import Fault, MalformedError


class SectionHeader(NamedTuple):
    """`length` is None for the end section and for one of an unknown id."""

    id: int
    aligned: bool
    length: int | None
    alignment: int | None


def _offsets(kind: Table, data: bytes, p: int) -> tuple[tuple[int, ...], int]:
    """The offsets of a table and the position behind them; gaps are counted from the start of `data`."""
    count, p = varint(data, p)
    p += -p % kind.width
    end = p + count * kind.width
    if end > len(data):
        raise Fault(p, "unexpected end of data")
    return unpack_unsigned(data[p:end], kind.width), end


def read_header(data: bytes) -> tuple[tuple[int, int, int], int]:
    """Major and minor version and tag, and the position behind them."""
    end = len(MAGIC) + 4
    if len(data) >= end:
        major, minor, *tag = data[len(MAGIC) : end]
        return (major, minor, int.from_bytes(tag, "little")), end
    from libtile.bytecode import container_declared as declared

    found, end = declared.parse(declared.HEADER, data, 0, "header")
    return (found.major, found.minor, found.tag), end


def read_section_header(data: bytes, offset: int) -> tuple[SectionHeader, int]:
    """The header of the section at an offset, and the offset behind it."""
    mark = data[offset]
    number, aligned = mark & ~ALIGNED, bool(mark & ALIGNED)
    if number not in KNOWN_SECTIONS:
        return SectionHeader(number, aligned, None, None), offset + 1
    try:
        length, p = varint(data, offset + 1)
        alignment, p = varint(data, p) if aligned else (None, p)
        return SectionHeader(number, aligned, length, alignment), p
    except (Fault, IndexError):
        from libtile.bytecode import container_declared as declared

        found, length = declared.parse(declared.SECTION, data[offset : offset + 32], offset, "section header")
        return SectionHeader(found.id, found.aligned, found.length, found.alignment), offset + length


def read_table(kind: Table, data: bytes, base: int, section: str) -> tuple[tuple[int, ...], int]:
    """The offsets of the table at the front of a section, and the position behind; `base` is the section's offset."""
    try:
        return _offsets(kind, data, 0)
    except (Fault, IndexError):
        from libtile.bytecode import container_declared as declared

        found, end = declared.parse(declared.TABLES[kind], data, base, section)
        return found.offsets, end


def read_debug_tables(data: bytes, base: int, section: str) -> tuple[tuple[tuple[int, ...], ...], int]:
    """The offsets of the three tables of the debug section (functions, indices, records), and the position behind."""
    try:
        functions, p = _offsets(DEBUG_FUNCTIONS, data, 0)
        indices, p = _offsets(DEBUG_INDICES, data, p)
        records, p = _offsets(DEBUG_RECORDS, data, p)
        return (functions, indices, records), p
    except (Fault, IndexError):
        from libtile.bytecode import container_declared as declared

        found, end = declared.parse(declared.DEBUG, data, base, section)
        return (found.functions.offsets, found.indices.offsets, found.records.offsets), end


def entries(data: bytes, offsets: tuple[int, ...], base: int, section: str, what: str) -> list[tuple[int, int]]:
    """The (start, end) of each entry in the table's `data`, checked: from 0, never decreasing, inside of the data."""
    result = []
    previous = 0
    for index, start in enumerate(offsets):
        end = offsets[index + 1] if index + 1 < len(offsets) else len(data)
        if (index == 0 and start != 0) or start < previous:
            raise MalformedError(f"{what} 0 does not start at offset 0", offset=base, section=section)
        if end < start:
            raise MalformedError(
                f"invalid {what} start indices: end ({end}) is less than start ({start}) for {what} {index}",
                offset=base,
                section=section,
            )
        if end > len(data):
            raise MalformedError(
                f"{what} {index} extends beyond available data: size={end - start}, start={start}, "
                f"total data size={len(data)}",
                offset=base,
                section=section,
            )
        previous = start
        result.append((start, end))
    if not offsets and data.strip(bytes([PADDING])):
        raise MalformedError(f"{len(data)} bytes follow an empty table", offset=base, section=section)
    return result


def append_section(out: bytearray, section: int, alignment: int, payload: bytes) -> None:
    """Append a section; the payload starts at a multiple of `alignment` in the file."""
    out.append(section | (ALIGNED if alignment > 1 else 0))
    put(out, len(payload))
    if alignment > 1:
        put(out, alignment)
        out += bytes([PADDING]) * (-len(out) % alignment)
    out += payload
