# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Device printf and assert (CUDA Programming Guide, "Formatted Output", "Assertion").

`vprintf` gets a format string and a buffer in which each argument has its natural alignment: 4 bytes for int, 8 for
long, pointers and double.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from libtile.support.limits import PRINTED

from .access import AccessInfo
from .ir import Instruction
from .limits import MAX_PRINT_WIDTH

if TYPE_CHECKING:
    from .access import Access
    from .group import ThreadGroup

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<prec>\*|\d+)?)?"
    r"(?P<len>hh|h|ll|l|j|z|t|L)?(?P<conv>[diouxXcsfFeEgGaApn%])"
)


def vprintf(M: Access, g: ThreadGroup, ins: Instruction, formats: np.ndarray, buffers: np.ndarray) -> np.ndarray:
    """Format for every thread, in thread order, into the launch's output. Returns the number of arguments."""
    counts = np.zeros(g.n, dtype=np.int32)
    texts: dict[int, bytes] = {}
    for k in range(g.n):
        thread = g.threads[k : k + 1]
        pointer = int(formats[k])
        if pointer not in texts:
            texts[pointer] = read_string(M, ins, pointer, thread)
        text, counts[k] = _format(M, ins, texts[pointer], int(buffers[k]), thread)
        M.launch.printed += len(text)
        if M.launch.printed > PRINTED:
            M.fault("output-limit", f"more than {PRINTED} characters were printed", ins, thread)
        M.launch.output.append(text)
    return counts


def read_string(M: Access, ins: Instruction, pointer: int, thread: np.ndarray) -> bytes:
    """A zero-terminated string at a generic address, with the checks of a load."""
    info = AccessInfo(ins, "generic", "u1")
    out = bytearray()
    while byte := int(M.load_at(info, np.array([pointer + len(out)], dtype=np.uint64), thread)[0]):
        out.append(byte)
    return bytes(out)


class _Arguments:
    def __init__(self, M: Access, ins: Instruction, pointer: int, thread: np.ndarray) -> None:
        self.M, self.ins, self.at, self.thread = M, ins, pointer, thread
        self.count = 0

    def take(self, size: int) -> int:
        self.at = (self.at + size - 1) // size * size
        info = AccessInfo(self.ins, "generic", f"u{size}")
        value = int(self.M.load_at(info, np.array([self.at], dtype=np.uint64), self.thread)[0])
        self.at += size
        self.count += 1
        return value


def _format(M: Access, ins: Instruction, text: bytes, pointer: int, thread: np.ndarray) -> tuple[str, int]:
    args = _Arguments(M, ins, pointer, thread)
    source = text.decode("utf-8", "surrogateescape")

    def convert(m: re.Match[str]) -> str:
        conv = m["conv"]
        if conv == "%":
            return "%"
        width = m["width"] or ""
        if width == "*":
            width = str(_signed(args.take(4), 32))
        precision = m["prec"]
        if precision == "*":
            precision = str(_signed(args.take(4), 32))
        if precision is not None and precision.startswith("-"):
            precision = None  # as if there were none (C, fprintf)
        for number in (width.lstrip("-"), precision or ""):
            if len(number) > 9 or int(number or "0") > MAX_PRINT_WIDTH:
                M.fault("illegal-instruction", f"printf with a width or precision above {MAX_PRINT_WIDTH}", ins, thread)
        spec = "%" + m["flags"] + width + ("." + precision if precision is not None else "")
        long = (m["len"] or "") in ("l", "ll", "j", "z", "t")
        if conv in "di":
            bits = 64 if long else 32
            return (spec + "d") % _narrow_signed(_signed(args.take(bits // 8), bits), m["len"])
        if conv in "ouxX":
            value = args.take(8 if long else 4)
            return (spec + conv) % (value & {"h": 0xFFFF, "hh": 0xFF}.get(m["len"] or "", ~0))
        if conv == "c":
            return (spec + "c") % chr(args.take(4) & 0xFF)
        if conv == "s":
            return (spec + "s") % read_string(M, ins, args.take(8), thread).decode("utf-8", "surrogateescape")
        if conv == "p":
            return ("%" + m["flags"] + width + "s") % hex(args.take(8))
        if conv in "aA":
            return float.hex(_double(args.take(8)))
        if conv in "fFeEgG":
            return (spec + conv) % _double(args.take(8))
        return m[0]

    return _CONVERSION.sub(convert, source), args.count


def _narrow_signed(value: int, length: str | None) -> int:
    bits = {"h": 16, "hh": 8}.get(length or "")
    return value if bits is None else _signed(value & ((1 << bits) - 1), bits)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _double(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value


def assert_fail(M: Access, g: ThreadGroup, ins: Instruction, args: list[Any]) -> NoReturn:
    """`__assertfail(message, file, line, function, char size)`: the launch ends with an assert fault."""
    thread = g.threads[:1]
    message = read_string(M, ins, int(args[0][0]), thread).decode("utf-8", "surrogateescape")
    file = read_string(M, ins, int(args[1][0]), thread).decode("utf-8", "surrogateescape")
    function = read_string(M, ins, int(args[3][0]), thread).decode("utf-8", "surrogateescape")
    M.fault("assert", f"{file}:{int(args[2][0])}: {function}: assertion `{message}` failed", ins, g.threads)
