# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads a cubin: the kernels in it, their registers, shared and local memory, parameters, and the host object.

A cubin is a little-endian ELF64 file for machine 190. A kernel `k` has its code in `.text.k`, its static shared
memory in `.nv.shared.k`, and a list of attributes in `.nv.info.k`: records of a format byte, an attribute byte, and two
bytes that are the value (formats 1 to 3) or the length of what follows (format 4). What is known by symbol, such as
the number of registers, is in `.nv.info`. The attributes are those that `cuobjdump -elf` names EIATTR_*.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from libtile.support.errors import LibtileError
from libtile.support.records import dataclass

MACHINE = 190
_ABI = 8
_LONG_FORMAT = 4

# EIATTR numbers.
_FRAME_SIZE = 0x11
_KPARAM_INFO = 0x17
_KPARAM_INFO_V2 = 0x45
_REGCOUNT = 0x2F
_REQNTID = 0x10
_PARAM_CBANK = 0x0A
_CTA_PER_CLUSTER = 0x3D

_TEXT = ".text."


class CubinError(LibtileError):
    """The data is no cubin, or is damaged; the message says what was expected."""


@dataclass(frozen=True)
class CubinParameter:
    """A kernel's parameter: its number, its offset in the parameter block, and its size, in bytes."""

    number: int
    offset: int
    size: int


@dataclass(frozen=True)
class CubinKernel:
    """A kernel of a cubin. Memory is in bytes; `threads` is what the code requires of a block, if anything.

    `shared` is static shared memory as the driver counts it: from sm_90 on, with the 1024 bytes that are reserved
    in a kernel that has any. `parameters_at` is where parameters begin in the constant bank, 0 where there are none;
    `cluster` is how many CTAs a cluster has.
    """

    name: str
    code_size: int
    registers: int
    shared: int
    frame: int
    parameters: tuple[CubinParameter, ...]
    threads: tuple[int, int, int] | None
    parameters_at: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclass(frozen=True)
class Cubin:
    """A cubin: the number of the architecture (90), its kernels by name, its sections' sizes, the host object."""

    architecture: int
    kernels: dict[str, CubinKernel]
    sections: dict[str, int]
    host_object: bytes


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int


_NOBITS = 8
_IN_FIRST = 0xFFFF


def _unpack(layout: str, data: bytes, offset: int, what: str) -> tuple[int, ...]:
    try:
        return struct.unpack_from("<" + layout, data, offset)
    except struct.error:
        raise CubinError(f"the file ends inside {what} at offset {offset}") from None


def _string(data: bytes, offset: int, what: str) -> str:
    end = data.find(b"\0", offset)
    if offset >= len(data) or end < 0:
        raise CubinError(f"{what} has a name outside its table, at {offset}")
    return data[offset:end].decode("utf-8", errors="replace")


def _sections(data: bytes) -> list[_Section]:
    if data[:4] != b"\x7fELF" or len(data) < 64:
        raise CubinError("not an ELF file")
    if data[4:6] != b"\x02\x01":
        raise CubinError("not a little-endian 64-bit ELF file")
    (machine,) = _unpack("H", data, 18, "the ELF header")
    if machine != MACHINE:
        raise CubinError(f"an ELF file for machine {machine}, and not for {MACHINE}, a GPU")
    (start,) = _unpack("Q", data, 40, "the ELF header")
    size, count, names = _unpack("HHH", data, 58, "the ELF header")
    if start and not count:  # more than 16 bits can say, which the first header has
        first = _unpack("IIQQQQIIQQ", data, start, "section header 0")
        count, names = first[5], first[6] if names == _IN_FIRST else names
    if count and size < 64:
        raise CubinError(f"section headers of {size} bytes")
    headers = [_unpack("IIQQQQIIQQ", data, start + i * size, f"section header {i}") for i in range(count)]
    if count and names >= count:
        raise CubinError(f"the table of section names is section {names} of {count}")
    sections = []
    for header in headers:
        if header[1] != _NOBITS and header[4] + header[5] > len(data):
            raise CubinError(f"a section reaches from {header[4]} to {header[4] + header[5]}, beyond the file's end")
    table = data[headers[names][4] : headers[names][4] + headers[names][5]] if headers else b""
    for header in headers:
        name = _string(table, header[0], "a section") if header[1] else ""
        sections.append(_Section(name, header[1], header[4], header[5], header[6]))
    return sections


def _contents(data: bytes, section: _Section) -> bytes:
    return b"" if section.kind == _NOBITS else data[section.offset : section.offset + section.size]


def _attributes(raw: bytes, where: str) -> Iterator[tuple[int, bytes]]:
    """The (attribute, value) records of a `.nv.info` section."""
    position = 0
    while position < len(raw):
        format_, attribute, length = _unpack("BBH", raw, position, where)
        position += 4
        if format_ != _LONG_FORMAT:
            yield attribute, length.to_bytes(2, "little")
            continue
        if position + length > len(raw):
            raise CubinError(f"an attribute of {length} bytes reaches beyond the end of {where}")
        yield attribute, raw[position : position + length]
        position += length


def _symbols(data: bytes, sections: list[_Section]) -> list[str]:
    table = next((s for s in sections if s.name == ".symtab"), None)
    if table is None or table.link >= len(sections):
        return []
    names, raw = _contents(data, sections[table.link]), _contents(data, table)
    return [_string(names, struct.unpack_from("<I", raw, i)[0], "a symbol") for i in range(0, len(raw) - 23, 24)]


def _by_symbol(data: bytes, sections: list[_Section], wanted: int) -> dict[str, int]:
    """An attribute of the common `.nv.info`, (symbol, number) pairs, by the symbols' names."""
    found: dict[str, int] = {}
    symbols = _symbols(data, sections)
    for section in sections:
        if section.name == ".nv.info":
            for attribute, value in _attributes(_contents(data, section), ".nv.info"):
                if attribute == wanted and len(value) == 8:
                    index, number = struct.unpack("<II", value)
                    if index < len(symbols):
                        found[symbols[index]] = number
    return found


def _architecture(data: bytes) -> int:
    """The architecture's number, the flags' second byte. CubinError for an older ABI, which has it elsewhere."""
    (flags,) = _unpack("I", data, 48, "the ELF header")
    if data[8] < _ABI:
        raise CubinError(f"a cubin of ABI version {data[8]}; the oldest that is read is {_ABI}")
    return (flags >> 8) & 0xFF


def is_cubin(data: bytes) -> bool:
    """Whether data has the header of a cubin, and its sections lie in it."""
    try:
        return bool(_sections(data))
    except CubinError:
        return False


def read_cubin(data: bytes) -> Cubin:
    """What a cubin holds. CubinError for anything else."""
    sections = _sections(data)
    by_name = {s.name: s for s in sections}
    registers = _by_symbol(data, sections, _REGCOUNT)
    frames = _by_symbol(data, sections, _FRAME_SIZE)
    kernels = {}
    for section in sections:
        name = section.name.removeprefix(_TEXT)
        information = by_name.get(f".nv.info.{name}")
        if not section.name.startswith(_TEXT) or information is None:
            continue
        parameters: list[CubinParameter] = []
        threads, parameters_at, cluster = None, 0, (1, 1, 1)
        for attribute, value in _attributes(_contents(data, information), information.name):
            if attribute == _KPARAM_INFO and len(value) == 12:
                _, number, offset, packed = struct.unpack("<IHHI", value)
                parameters.append(CubinParameter(number, offset, packed >> 18))
            elif attribute == _KPARAM_INFO_V2 and len(value) == 12:
                _, number, offset, size = struct.unpack("<IHHHxx", value)
                parameters.append(CubinParameter(number, offset, size))
            elif attribute == _REQNTID and len(value) == 12:
                x, y, z = struct.unpack("<III", value)
                threads = (x, y, z)
            elif attribute == _CTA_PER_CLUSTER and len(value) == 12:
                x, y, z = struct.unpack("<III", value)
                cluster = (x, y, z)
            elif attribute == _PARAM_CBANK and len(value) == 8:
                _, parameters_at, _ = struct.unpack("<IHH", value)
        shared = by_name.get(f".nv.shared.{name}")
        kernels[name] = CubinKernel(
            name,
            section.size,
            registers.get(name, 0),
            shared.size if shared is not None else 0,
            frames.get(name, 0),
            tuple(sorted(parameters, key=lambda p: p.number)),
            threads,
            parameters_at,
            cluster,
        )
    host = by_name.get(".nv.host")
    sizes = {s.name: s.size for s in sections if s.name}
    return Cubin(_architecture(data), kernels, sizes, _contents(data, host) if host is not None else b"")
