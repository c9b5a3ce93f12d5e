# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The container: header, section headers and tables, declared with `construct`.

`construct` is lax where a file is hostile (unbounded varints, unchecked counts), so the fields that hold a length use
the checked constructs below, and the only way in is `parse`, which turns every failure into a BytecodeError.
"""

from __future__ import annotations

import io
from enum import IntEnum
from typing import Any

import construct as c

from libtile.bytecode.cursor import pack_unsigned, put, unpack_unsigned
from libtile.bytecode.errors import BytecodeError, MalformedError
from libtile.bytecode.limits import VARINT_BYTES
from libtile.spec.model import BYTECODE_MAGIC

MAGIC = BYTECODE_MAGIC
PADDING = 0xCB
"""Fills the gaps that alignment leaves."""

PREVIEW_BIT = 1
"""Bit of the header's version tag that marks a file with preview content."""

ALIGNED = 0x80
"""Bit of a section's id byte: an alignment and padding follow."""


class SectionId(IntEnum):
    """Numbers of the sections (frozen)."""

    END = 0
    STRING = 1
    FUNC = 2
    DEBUG = 3
    CONSTANT = 4
    TYPE = 5
    GLOBAL = 6
    PRODUCER = 7

    @property
    def label(self) -> str:
        """The section's name in error paths."""
        return self.name.capitalize()


REQUIRED_ALIGNMENT = {
    SectionId.STRING: 4,
    SectionId.TYPE: 4,
    SectionId.CONSTANT: 8,
    SectionId.DEBUG: 8,
    SectionId.FUNC: 8,
}
"""A reader may map these sections' arrays in place, so that their alignment is part of the format."""


class FunctionFlag:
    """Bits of a function record's flag byte (frozen)."""

    PRIVATE = 0x01
    ENTRY = 0x02
    HINTS = 0x04
    """Before ENTRY_HINTS_MANDATORY only."""


class _Problem(c.ConstructError):
    def __init__(self, message: str, expected: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected


class _Varint(c.Construct):
    """An unsigned number in groups of 7 bits, lowest first; at most 64 bits."""

    def _parse(self, stream: Any, context: Any, path: Any) -> int:
        result = 0
        for count in range(VARINT_BYTES):
            byte = c.stream_read(stream, 1, path)[0]
            result |= (byte & 0x7F) << (7 * count)
            if byte < 0x80:
                if result >> 64:
                    raise _Problem("varint does not fit in 64 bits")
                return result
        raise _Problem(f"varint is longer than {VARINT_BYTES} bytes")

    def _build(self, obj: int, stream: Any, context: Any, path: Any) -> int:
        out = bytearray()
        put(out, obj)
        stream.write(bytes(out))
        return obj


class _Gap(c.Construct):
    """Padding up to a multiple of `alignment` from the start of the stream."""

    def __init__(self, alignment: int) -> None:
        super().__init__()
        self.alignment = alignment
        self.flagbuildnone = True

    def _parse(self, stream: Any, context: Any, path: Any) -> None:
        c.stream_read(stream, -stream.tell() % self.alignment, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: Any) -> None:
        stream.write(bytes([PADDING]) * (-stream.tell() % self.alignment))


class _Offsets(c.Construct):
    """`count` unsigned numbers of `width` bytes; the count is checked against what is left before anything is read."""

    def __init__(self, width: int, what: str) -> None:
        super().__init__()
        self.width = width
        self.what = what

    def _parse(self, stream: Any, context: Any, path: Any) -> tuple[int, ...]:
        left = len(stream.getbuffer()) - stream.tell()
        if context.count > left // self.width:
            raise _Problem(
                f"number of {self.what} ({context.count}) exceeds the maximum of {left // self.width} that can fit in "
                f"the remaining payload of {left} bytes"
            )
        return unpack_unsigned(stream.read(context.count * self.width), self.width)

    def _build(self, obj: list[int], stream: Any, context: Any, path: Any) -> list[int]:
        stream.write(pack_unsigned(obj, self.width))
        return obj


VARINT = _Varint()

HEADER = c.Struct("magic" / c.Bytes(8), "major" / c.Int8ul, "minor" / c.Int8ul, "tag" / c.Int16ul)

_KNOWN = frozenset(int(s) for s in SectionId if s != SectionId.END)

SECTION = c.Struct(
    "mark" / c.Int8ul,
    "id" / c.Computed(c.this.mark & ~ALIGNED),
    "aligned" / c.Computed(c.this.mark & ALIGNED != 0),
    "length" / c.If(lambda this: this.mark & ~ALIGNED in _KNOWN, VARINT),
    "alignment" / c.If(lambda this: this.mark & ~ALIGNED in _KNOWN and this.mark & ALIGNED, VARINT),
)


def table(width: int, what: str) -> c.Construct:
    """A count, a gap, and as many offsets of `width` bytes; the entries' data follows."""
    return c.Struct("count" / VARINT, "gap" / _Gap(width), "offsets" / _Offsets(width, what))


STRINGS = table(4, "strings")
TYPES = table(4, "types")
CONSTANTS = table(8, "constants")
DEBUG_RECORDS = table(4, "debug info attributes")
DEBUG_FUNCTIONS = table(4, "functions with debug info")
DEBUG_INDICES = table(8, "debug info indices")
DEBUG = c.Struct(
    "functions" / DEBUG_FUNCTIONS,
    "indices" / DEBUG_INDICES,
    "records" / DEBUG_RECORDS,
)
"""Per function its first index, the indices (one for the function, then one per op), the records' table."""


def parse(construct: c.Construct, data: bytes | memoryview, base: int, section: str) -> tuple[Any, int]:
    """Parse the front of `data`; gives the result and the position behind it. `base` is the absolute offset."""
    stream = io.BytesIO(data)
    try:
        return construct.parse_stream(stream), stream.tell()
    except _Problem as problem:
        raise MalformedError(
            problem.message, offset=base + stream.tell(), section=section, expected=problem.expected
        ) from None
    except c.StreamError:
        raise MalformedError(
            "unexpected end of data", offset=base + len(data), section=section, expected="more bytes"
        ) from None
    except c.ConstructError as error:
        raise BytecodeError(str(error), offset=base + stream.tell(), section=section) from None


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


def build_table(construct: c.Construct, items: list[bytes]) -> bytes:
    """A whole table: head and the entries' data."""
    offsets = []
    running = 0
    for item in items:
        offsets.append(running)
        running += len(item)
    return construct.build({"count": len(items), "offsets": offsets}) + b"".join(items)


def build_header(major: int, minor: int, tag: int) -> bytes:
    return HEADER.build({"magic": MAGIC, "major": major, "minor": minor, "tag": tag})


def append_section(out: bytearray, section: int, alignment: int, payload: bytes) -> None:
    """Append a section; the payload starts at a multiple of `alignment` in the file."""
    out.append(section | (ALIGNED if alignment > 1 else 0))
    put(out, len(payload))
    if alignment > 1:
        put(out, alignment)
        out += bytes([PADDING]) * (-len(out) % alignment)
    out += payload
