# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The container's header, section headers and tables, declared with `construct`.

The writer builds them by these, and they say what is wrong with those that a reader cannot make out.

`construct` is lax where a file is hostile (unbounded varints, unchecked counts), so the fields that hold a length use
the checked constructs below, and the only way in is `parse`, which turns every failure into a BytecodeError.
"""

from __future__ import annotations

import io
from typing import Any

import construct as c

from libtile.bytecode import container_numbers
from libtile.bytecode.container_numbers import ALIGNED, MAGIC, PADDING, Table
from libtile.bytecode.cursor import pack_unsigned, put, unpack_unsigned
from libtile.bytecode.errors import BytecodeError, MalformedError
from libtile.bytecode.limits import VARINT_BYTES


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

SECTION = c.Struct(
    "mark" / c.Int8ul,
    "id" / c.Computed(c.this.mark & ~ALIGNED),
    "aligned" / c.Computed(c.this.mark & ALIGNED != 0),
    "length" / c.If(lambda this: this.mark & ~ALIGNED in container_numbers.KNOWN_SECTIONS, VARINT),
    "alignment"
    / c.If(lambda this: this.mark & ~ALIGNED in container_numbers.KNOWN_SECTIONS and this.mark & ALIGNED, VARINT),
)


def _table(kind: Table) -> c.Construct:
    """A count, a gap, and as many offsets; the entries' data follows."""
    return c.Struct("count" / VARINT, "gap" / _Gap(kind.width), "offsets" / _Offsets(kind.width, kind.what))


TABLES = {kind: _table(kind) for kind in container_numbers.TABLES}

DEBUG = c.Struct(
    "functions" / TABLES[container_numbers.DEBUG_FUNCTIONS],
    "indices" / TABLES[container_numbers.DEBUG_INDICES],
    "records" / TABLES[container_numbers.DEBUG_RECORDS],
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


def build_table(kind: Table, items: list[bytes]) -> bytes:
    """A whole table: head and the entries' data."""
    offsets = []
    running = 0
    for item in items:
        offsets.append(running)
        running += len(item)
    return TABLES[kind].build({"count": len(items), "offsets": offsets}) + b"".join(items)


def build_header(major: int, minor: int, tag: int) -> bytes:
    return HEADER.build({"magic": MAGIC, "major": major, "minor": minor, "tag": tag})
