# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading and writing the primitive encodings at a position of some bytes.

`data[p]` past the end raises IndexError, which the callers that decode in bulk turn into one end-of-data error: a
bounds check per byte would cost more than all the rest. Positions never go below zero.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from libtile.bytecode.errors import Fault, InvalidError, MalformedError
from libtile.bytecode.limits import VARINT_BYTES

MASK64 = (1 << 64) - 1
_PACK = {(1, False): "b", (4, False): "i", (8, False): "q", (4, True): "I", (8, True): "Q"}


def more(data: bytes, p: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte, with its high bit set, was `first`; `p` is behind that byte."""
    result = first & 0x7F
    shift = 7
    while True:
        byte = data[p]
        p += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= 7 * VARINT_BYTES:
            raise Fault(p, f"varint is longer than {VARINT_BYTES} bytes")
    if result > MASK64:
        raise Fault(p, "varint does not fit in 64 bits")
    return result, p


def varint(data: bytes, p: int) -> tuple[int, int]:
    byte = data[p]
    return (byte, p + 1) if byte < 0x80 else more(data, p + 1, byte)


def raw_varint(data: bytes, p: int) -> tuple[int, int]:
    """A varint of up to 70 bits, for the one place where the frontend writes 65 (see attributes.py)."""
    result = 0
    for count in range(VARINT_BYTES):
        byte = data[p + count]
        result |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return result, p + count + 1
    raise Fault(p + VARINT_BYTES, f"varint is longer than {VARINT_BYTES} bytes")


def unzigzag(value: int) -> int:
    """The signed number that a zigzag number stands for: 0 -1 1 -2 2 ..."""
    return (value >> 1) ^ -(value & 1)


def zigzag(value: int) -> int:
    return ((value << 1) ^ (value >> 63)) & MASK64


def signed_varint(data: bytes, p: int) -> tuple[int, int]:
    value, p = varint(data, p)
    return unzigzag(value), p


def int_array(data: bytes, p: int, width: int) -> tuple[tuple[int, ...], int]:
    """A counted array of little-endian signed integers of `width` bytes."""
    count, p = varint(data, p)
    if count > (len(data) - p) // width:
        raise Fault(
            p, f"array of {count} elements of {width} bytes does not fit", expected=f"at most {len(data) - p} bytes"
        )
    return struct.unpack_from(f"<{count}{_PACK[width, False]}", data, p), p + count * width


def put(out: bytearray, value: int) -> None:
    """Append a varint; `value` is not negative and below 2**64 (or 2**70 for a wide float)."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_int_array(out: bytearray, values: tuple[int, ...], width: int) -> None:
    """Append a counted array of signed integers of `width` bytes; InvalidError when a value does not fit."""
    put(out, len(values))
    try:
        out += struct.pack(f"<{len(values)}{_PACK[width, False]}", *values)
    except struct.error as error:
        raise InvalidError(f"an array of {8 * width}-bit integers cannot be encoded: {error}") from None


def pack_unsigned(values: list[int], width: int) -> bytes:
    return struct.pack(f"<{len(values)}{_PACK[width, True]}", *values)


def unpack_unsigned(data: bytes, width: int) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // width}{_PACK[width, True]}", data)


@contextmanager
def located(base: int, section: str, end: int) -> Iterator[None]:
    """Turn Faults inside into BytecodeErrors: `base` is the absolute offset of position 0, `end` of the data's end."""
    try:
        yield
    except Fault as fault:
        path = " > ".join([section, *fault.path])
        raise fault.kind(fault.message, offset=base + fault.p, section=path, expected=fault.expected) from None
    except IndexError:
        raise MalformedError("unexpected end of data", offset=end, section=section, expected="more bytes") from None


def end_of_data(data: bytes, where: str) -> Fault:
    """The fault behind an IndexError while `where` was read from `data`."""
    fault = Fault(len(data), "unexpected end of data", expected="more bytes")
    fault.path.insert(0, where)
    return fault
