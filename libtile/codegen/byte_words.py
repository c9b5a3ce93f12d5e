# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bytes four at a time, in the words in which they came: bits, shifts by constants, sums and differences.

A thread's registers have 32 bits, and an op on a byte takes one as an op on a word does. Where bytes are pieces of
words (`KernelBuilder.pieces`), what is computed of them stays in words, not taken apart and joined again. Sums do
not carry from one byte into the next one: the highest bits are left out and added without a carry (Warren, Hacker's
Delight, "Multibyte add, subtract").
"""

from __future__ import annotations

from collections.abc import Callable

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I8, I32
from libtile.codegen.tile import Tile

PER_WORD = 4
_ONES = 0x01010101

WordOp = Callable[[KernelBuilder, Value, Value], Value | None]
"""A function of two words; None where it does not know one for these."""


def on_words(b: KernelBuilder, op: WordOp, x: Tile, y: Tile) -> Tile | None:
    """What an op gives of two tiles of bytes in one layout, word by word. None where registers of theirs are no pieces
    of words, or bytes of one word are shifted by different numbers."""
    if any(r.type is not I8 for tile in (x, y) for r in tile.registers):
        return None
    starts = range(0, len(x.registers), PER_WORD)
    words = [[b.as_word(tile.registers[i : i + PER_WORD]) for tile in (x, y)] for i in starts]
    registers: list[Value] = []
    for one, other in words:
        if one is None or other is None or (one.constant is not None and other.constant is not None):
            return None
        made = op(b, one, other)
        if made is None:
            return None
        registers += b.pieces(made, I8)
    return x.with_registers(registers)


def bits_and(b: KernelBuilder, x: Value, y: Value) -> Value:
    return b.and_(x, y)


def bits_or(b: KernelBuilder, x: Value, y: Value) -> Value:
    return b.or_(x, y)


def bits_xor(b: KernelBuilder, x: Value, y: Value) -> Value:
    return b.xor(x, y)


def add(b: KernelBuilder, x: Value, y: Value) -> Value:
    """Sums modulo 256."""
    high, rest = integer(I32, 0x80 * _ONES), integer(I32, 0x7F * _ONES)
    return b.xor(b.add(b.and_(x, rest), b.and_(y, rest)), b.and_(b.xor(x, y), high))


def sub(b: KernelBuilder, x: Value, y: Value) -> Value:
    """Differences modulo 256."""
    high, rest = integer(I32, 0x80 * _ONES), integer(I32, 0x7F * _ONES)
    differ = b.xor(b.xor(x, y), high)
    return b.xor(b.binary("sub", b.or_(x, high), b.and_(y, rest)), b.and_(differ, high))


def shift_left(b: KernelBuilder, x: Value, by: Value) -> Value | None:
    count = _count(by)
    if count is None:
        return None
    return b.and_(b.binary("shl", x, integer(I32, count)), integer(I32, (0xFF << count & 0xFF) * _ONES))


def shift_right_unsigned(b: KernelBuilder, x: Value, by: Value) -> Value | None:
    count = _count(by)
    if count is None:
        return None
    return b.and_(b.binary("lshr", x, integer(I32, count)), integer(I32, (0xFF >> count) * _ONES))


def shift_right_signed(b: KernelBuilder, x: Value, by: Value) -> Value | None:
    """The sign's bit comes to where it is shifted to, from where a difference extends it."""
    moved, count = shift_right_unsigned(b, x, by), _count(by)
    if moved is None or count is None:
        return None
    sign = integer(I32, (0x80 >> count) * _ONES)
    return sub(b, b.xor(moved, sign), sign)


def _count(by: Value) -> int | None:
    """By how many bits all bytes of a word are shifted; None if that is no constant, or no number of bits of a byte."""
    if by.constant is None:
        return None
    count = by.constant & 0xFF
    return count if by.constant & 0xFFFFFFFF == count * _ONES and count < I8.bits else None
