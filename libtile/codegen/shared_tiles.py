# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles in shared memory: stores and loads through a layout of offsets, by the instructions that were chosen for them
(`libtile.atoms.shared_accesses`). None of these functions contains a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.atoms.shared_accesses import WORD_BYTES, accesses_by, normalized
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.lanes import permute_by_thread
from libtile.codegen.llvm_types import (
    ELEMENT_TYPES,
    I32,
    SHARED,
    VOID,
    IntType,
    LlvmType,
    VectorType,
    registers_type,
)
from libtile.codegen.stored_bits import as_integer, from_integer, from_storage, to_storage
from libtile.codegen.tile import Tile, linear_of_bits, owner_predicate, warp_bits_of
from libtile.layouts import LANE, REGISTER, LinearLayout
from libtile.layouts.registers import representatives, unique_registers
from libtile.layouts.renaming import without_register_copies
from libtile.layouts.shared_access import TRANSPOSED, VECTOR, SharedAccess
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError


class Addresses:
    """Byte addresses: a thread's offset, and constants that are xored to it."""

    def __init__(
        self,
        b: KernelBuilder,
        base: Value,
        lanes: Sequence[int],
        warps: Sequence[int],
        element_bytes: int,
        moved: Value | None = None,
    ):
        self.b, self.base, self.bytes = b, base, element_bytes
        lane_bytes, warp_bytes = ([v * element_bytes for v in vs] for vs in (lanes, warps))
        self.reach = 0
        for v in (*lane_bytes, *warp_bytes):
            self.reach |= v

        def make() -> Value:
            return b.xor(linear_of_bits(b, b.lane(), lane_bytes), linear_of_bits(b, b.warp(), warp_bytes))

        self.thread = b.thread_value(f"offset {tuple(lane_bytes)} {tuple(warp_bytes)}", make)
        if moved is not None:
            self.thread = b.xor(self.thread, b.mul(moved, integer(I32, element_bytes)))
            self.reach = -1
        self._starts = {0: self._add(base, self.thread)}
        """Addresses by what is xored of bits that threads have; those that none has are added, as accesses do."""

    def _add(self, pointer: Value, offset: Value) -> Value:
        if offset.constant == 0:
            return pointer
        return self.b.offset(pointer, offset)

    def at(self, start: int) -> Value:
        """The address at an offset, in elements."""
        constant = start * self.bytes
        shared = constant & self.reach
        if shared and shared not in self._starts:
            self._starts[shared] = self._add(self.base, self.b.xor(self.thread, integer(I32, shared)))
        return self._add(self._starts[shared], integer(I32, constant ^ shared))


def _storage(b: KernelBuilder, tile: Tile) -> list[Value]:
    """Registers that are not copies, as integers of whole bytes."""
    registers = [tile.registers[r] for r in unique_registers(tile.layout)]
    if tile.element == "i1":
        return [to_storage(b, r, "i1") for r in registers]
    return [as_integer(b, r) for r in registers]


def _joined(b: KernelBuilder, parts: Sequence[Value], bits: int) -> list[Value]:
    """Integers side by side in integers of `bits` bits."""
    per = bits // parts[0].type.bits
    if per <= 1:
        return list(parts)
    return [b.cast("bitcast", b.vector(parts[i : i + per]), IntType(bits)) for i in range(0, len(parts), per)]


def _parted(b: KernelBuilder, values: Sequence[Value], bits: int) -> list[Value]:
    """The inverse of `_joined`."""
    per = values[0].type.bits // bits
    if per <= 1:
        return list(values)
    return [piece for value in values for piece in b.pieces(value, IntType(bits))]


def store_shared(
    b: KernelBuilder, base: Value, shared: LinearLayout, tile: Tile, by: SharedAccess, first: int = 0
) -> None:
    """Store a tile by an instruction; where threads hold copies the owner stores. `base` is aligned to 16 bytes;
    `first` (in elements), of which no bit is one within an access, is xored to all offsets: the tile may be a part (not
    surjective). LoweringError where the instruction cannot do it."""
    layout = normalized(without_register_copies(tile.layout), warp_bits_of(b))
    size = STORAGE_BYTES[tile.element]
    is_there = b.target.has("stmatrix") and not (by.kind == TRANSPOSED and size == 1)
    if by.kind != VECTOR and (not is_there or layout.free_bits()[LANE]):
        raise LoweringError("cannot be stored by stmatrix, for the target's sake or that of copies in its lanes")
    access = accesses_by(layout, shared, size, by)
    values = permute_by_thread(b, _storage(b, tile), *access.permute)
    addresses = Addresses(b, base, access.lanes, access.warps, size)
    with b.when(owner_predicate(b, layout)):
        for start, group in zip(access.starts, access.groups):
            _store(b, access.kind, addresses.at(start ^ first), [values[r] for r in group], size)


def _store(b: KernelBuilder, kind: str, address: Value, values: Sequence[Value], size: int) -> None:
    total = size * len(values)
    parts = _joined(b, values, min(total, max(WORD_BYTES, size)) * 8)
    if kind == VECTOR:
        value = parts[0] if len(parts) == 1 else b.vector(parts)
        b.line(f"store {value.typed}, {address.typed}, align {total}")
        return
    trans = ".trans" if kind == TRANSPOSED else ""
    b.call(f"llvm.nvvm.stmatrix.sync.aligned.m8n8.x{len(parts)}{trans}.b16.p{SHARED}", VOID, [address, *parts])


def load_shared(
    b: KernelBuilder,
    base: Value,
    shared: LinearLayout,
    target: LinearLayout,
    element: str,
    by: SharedAccess,
    moved: Value | None = None,
    first: int = 0,
) -> Tile:
    """Load a tile in a layout by an instruction. `base` is aligned to 16 bytes; `moved` (an i32, in elements) and
    `first`, of which no bit is one within an access, are xored to all offsets. The target may be a part of the tile
    (not surjective). LoweringError where the instruction cannot do it."""
    layout = normalized(without_register_copies(target), warp_bits_of(b))
    size = STORAGE_BYTES[element]
    needed = "ldmatrix_bytes" if by.kind == TRANSPOSED and size == 1 else "ldmatrix"
    if by.kind != VECTOR and not b.target.has(needed):
        raise LoweringError("cannot be loaded by ldmatrix, which the target does not have")
    access = accesses_by(layout, shared, size, by)
    addresses = Addresses(b, base, access.lanes, access.warps, size, moved)
    values: list[Value] = [integer(I32, 0)] * layout.in_size(REGISTER)
    for start, group in zip(access.starts, access.groups):
        for r, value in zip(group, _load(b, access.kind, addresses.at(start ^ first), len(group), size)):
            values[r] = value
    values = permute_by_thread(b, values, *access.permute)
    if element == "i1":
        made = [from_storage(b, v, "i1") for v in values]
    else:
        made = [from_integer(b, v, ELEMENT_TYPES[element]) for v in values]
    by_register = dict(zip(unique_registers(target), made))
    return Tile(target, element, tuple(by_register[r] for r in representatives(target)))


def _load(b: KernelBuilder, kind: str, address: Value, count: int, size: int) -> list[Value]:
    total = size * count
    bits = 8 * min(total, max(WORD_BYTES, size))
    words = total * 8 // bits
    type_: LlvmType
    if kind == VECTOR:
        type_ = IntType(bits) if words == 1 else VectorType(words, IntType(bits))
        value = b.emit(type_, f"load {type_}, {address.typed}, align {total}")
    else:
        type_ = registers_type(I32, words)
        trans = ".trans" if kind == TRANSPOSED else ""
        form = f"m8n8.x{words}{trans}.b16" if kind != TRANSPOSED or size > 1 else f"m16n16.x{words // 2}.trans.b8"
        name = f"llvm.nvvm.ldmatrix.sync.aligned.{form}.p{SHARED}"
        value = b.call(name, type_, [address])
    parts = [value] if words == 1 else [b.extract(value, i, IntType(bits)) for i in range(words)]
    return _parted(b, parts, 8 * size)
