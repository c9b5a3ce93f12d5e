# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that rename the elements of tiles: broadcast, reshape, permute, extract, insert, cat.

They are renamings of registers, in layouts that are chosen for that before: each function has the result layout in
which nothing moves. A part that registers do not tell apart goes through shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I1, I32
from libtile.codegen.shared_tiles import load_shared, store_shared
from libtile.codegen.tile import Tile, index, linear_of_bits
from libtile.layouts import OFFSET, REGISTER, LinearLayout, parts
from libtile.layouts.renaming import grown, permuted, reshaped
from libtile.layouts.shared_access import SharedWay, padded
from libtile.numerics.elements import STORAGE_BYTES

# -- renaming -------------------------------------------------------------------------------------------------------


def reshape(tile: Tile, shape: Sequence[int]) -> Tile:
    """The same elements in row-major order in another shape."""
    return Tile(reshaped(tile.layout, shape), tile.element, tile.registers)


def permute(tile: Tile, permutation: Sequence[int]) -> Tile:
    """Dimension i of the result is dimension `permutation[i]` of the tile."""
    return Tile(permuted(tile.layout, permutation), tile.element, tile.registers)


def expand_dims(tile: Tile, dim: int) -> Tile:
    """The tile with a dimension of size 1 inserted before dimension `dim`."""
    shape = list(tile.shape)
    return reshape(tile, [*shape[:dim], 1, *shape[dim:]])


def broadcast(tile: Tile, shape: Sequence[int]) -> Tile:
    """Repeat a tile along its dimensions of size 1; the rank stays."""
    return select_registers(tile, grown(tile.layout, shape))


def select_registers(tile: Tile, result: LinearLayout) -> Tile:
    """The tile in a layout, every register of which is one of the thread's own: that at the same index, which counts
    modulo the tile's shape. ValueError when the thread does not hold it."""
    held = {tuple(tile.layout(register=r).values()): v for r, v in enumerate(tile.registers)}
    registers = []
    for r in range(result.in_size(REGISTER)):
        place = tuple(i & (s - 1) for i, s in zip(result(register=r).values(), tile.shape))
        if place not in held:
            raise ValueError(f"a thread with element {place} in register {r} of the result does not hold it before")
        registers.append(held[place])
    return Tile(result, tile.element, tuple(registers))


# -- parts ----------------------------------------------------------------------------------------------------------


def extract(
    b: KernelBuilder, tile: Tile, indices: Sequence[Value], target: LinearLayout, through: SharedWay | None
) -> Tile:
    """The part at `indices` (i32), which count parts, not elements (Tile IR specification, "extract"), in a layout.

    In registers, where these tell parts apart and the target is the layout that such a part has, or by a way through
    shared memory. What an index beyond the tile gives is undefined. The target may have fewer dimensions, the last.
    """
    shape = (1,) * (len(tile.shape) - len(target.shape)) + target.shape
    number, bits = _part_number(b, tile.shape, indices, shape), parts.part_bits(tile.layout, shape)
    if through is None:
        return _from_registers(b, tile, number, bits, target)
    return _from_shared(b, tile, number, bits, target, through)


def _part_number(b: KernelBuilder, whole: Sequence[int], indices: Sequence[Value], shape: Sequence[int]) -> Value:
    """The row-major number of a part (an i32)."""
    number = integer(I32, 0)
    for size, part, position in zip(whole, shape, indices):
        count = size // part
        own = b.and_(position, integer(I32, count - 1)) if position.constant is None else position
        if number.constant is not None and own.constant is not None:
            number = integer(I32, number.constant * count + own.constant % count)
        else:
            number = b.add(b.mul(number, integer(I32, count)), own)
    return number


def _from_registers(
    b: KernelBuilder, tile: Tile, number: Value, bits: Sequence[tuple[int, ...]], part: LinearLayout
) -> Tile:
    """Select among the registers, one bit of the part's number after the other."""
    values = dict(enumerate(tile.registers))
    for i, vector in enumerate(bits):
        position = tile.layout.basis(REGISTER).index(vector)
        if number.constant is not None:
            odd = integer(I1, number.constant >> i & 1)
        else:
            odd = b.compare("ne", b.and_(number, integer(I32, 1 << i)), integer(I32, 0))
        values = {r: b.select(odd, values[r | 1 << position], v) for r, v in values.items() if not r & 1 << position}
    return Tile(part, tile.element, tuple(values[r] for r in sorted(values)))


def embedded(part: LinearLayout, whole: LinearLayout) -> LinearLayout:
    """A part's layout as one of the first part of the whole, of which it may have only the last dimensions."""
    zeros = (0,) * (len(whole.outs) - len(part.outs))
    bases = {name: [(*zeros, *vector) for vector in vectors] for name, vectors in part.bases}
    return LinearLayout.of(bases, dict(zip(whole.out_dims, whole.shape)))


def part_offset(shared: LinearLayout, corner: Sequence[int]) -> int:
    """Where the part of a tile with this corner begins in shared memory, in elements."""
    inverse = shared.inverse()
    return inverse(**dict(zip(inverse.in_dims, corner)))[OFFSET]


def part_offsets(shared: LinearLayout, bits: Sequence[tuple[int, ...]]) -> list[int]:
    """By how many elements each bit of a part's number moves it in shared memory."""
    return [part_offset(shared, vector) for vector in bits]


def _from_shared(
    b: KernelBuilder,
    tile: Tile,
    number: Value,
    bits: Sequence[tuple[int, ...]],
    target: LinearLayout,
    way: SharedWay,
) -> Tile:
    """Store the whole tile, load the part: its number moves all offsets alike."""
    base = b.exchange_pointer(b.exchange(padded(STORAGE_BYTES[tile.element] << way.layout.out_bits)))
    store_shared(b, base, way.layout, tile, way.store)
    b.barrier()
    moved = linear_of_bits(b, number, part_offsets(way.layout, bits))
    whole = embedded(target, tile.layout)
    return Tile(target, tile.element, load_shared(b, base, way.layout, whole, tile.element, way.load, moved).registers)


def insert(b: KernelBuilder, tile: Tile, part: Tile, indices: Sequence[Value]) -> Tile:
    """The tile with a part replaced, at `indices` (i32) that count parts: a part in the tile's layout, as `shrunk` has
    it. The result has the tile's layout."""
    spread = select_registers(part, tile.layout)
    registers = []
    for r, (old, new) in enumerate(zip(tile.registers, spread.registers)):
        inside = integer(I1, 1)
        for d, position in enumerate(indices):
            if part.shape[d] < tile.shape[d]:
                own = b.binary("lshr", index(b, tile.layout, r, d), integer(I32, part.shape[d].bit_length() - 1))
                inside = b.and_(inside, b.compare("eq", own, position))
        registers.append(b.select(inside, new, old))
    return tile.with_registers(registers)


def cat(lhs: Tile, rhs: Tile, dim: int) -> Tile:
    """Two tiles of one layout, one after the other along a dimension (Tile IR specification, "cat")."""
    return Tile(parts.cat_layout(lhs.layout, dim), lhs.element, (*lhs.registers, *rhs.registers))
