# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles as words of 32 bits: narrow elements lie side by side in one, as products of warpgroups read and write them."""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.llvm_types import FLOAT, I32
from libtile.codegen.stored_bits import as_integer, join
from libtile.codegen.tile import Tile
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError

BYTES = 4


def words_of(b: KernelBuilder, tile: Tile) -> list[Value]:
    """The registers of a tile, as many of them side by side in one of 32 bits as fit."""
    size = STORAGE_BYTES[tile.element]
    if size == BYTES:
        return [r if r.type in (FLOAT, I32) else as_integer(b, r) for r in tile.registers]
    per, bits = BYTES // size, [as_integer(b, r) for r in tile.registers]
    if size > BYTES or len(bits) % per:
        raise LoweringError(f"has registers of {tile.element}, which do not fill words of 32 bits")
    return [join(b, bits[i : i + per], 8 * size) for i in range(0, len(bits), per)]


def of_words(b: KernelBuilder, like: Tile, words: Sequence[Value]) -> Tile:
    """The tile of the same kind in other words."""
    size = STORAGE_BYTES[like.element]
    if size == BYTES:
        made = [b.cast("bitcast", w, r.type) for w, r in zip(words, like.registers)]
        return like.with_registers(made)
    kind = like.registers[0].type
    return like.with_registers([piece for word in words for piece in b.pieces(word, kind)])


def fills_words(tile: Tile) -> bool:
    """Whether several registers of a tile are one word, and none is left over."""
    size = STORAGE_BYTES[tile.element]
    return size < BYTES and len(tile.registers) * size % BYTES == 0 and tile.registers[0].type.bits == 8 * size
