# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that rename the elements of tiles: broadcast, reshape, permute, extract, insert, cat.

Where the layouts agree they are renamings of registers. Each function has a *natural* result layout, in which nothing
moves; a `wanted` layout is reached by a conversion, of the smaller of the two tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.conversion_plan import exchange_sizes
from libtile.codegen.convert_layout import convert_layout
from libtile.codegen.exchange import padded, piece_bytes
from libtile.codegen.llvm_types import I1, I32
from libtile.codegen.shared_tiles import (
    load_shared,
    normalized,
    store_shared,
)
from libtile.codegen.tile import Tile, index, linear_of_bits, warp_bits_of
from libtile.layouts import LANE, OFFSET, REGISTER, WARP, LinearLayout
from libtile.layouts.builders import dim_names
from libtile.layouts.collectives import unit_layout
from libtile.layouts.convert import conflict_free_shared
from libtile.layouts.renaming import grown, permuted, reshaped, shrunk, without_register_copies
from libtile.numerics.elements import STORAGE_BYTES

# -- layouts --------------------------------------------------------------------------------------------------------


def in_registers(layout: LinearLayout, vectors: Sequence[tuple[int, ...]]) -> LinearLayout:
    """A layout near this one in which registers, and nothing else, move the index by each of these single bits."""
    unit = unit_layout(layout)
    bases = {name: list(unit.basis(name)) for name in (REGISTER, LANE, WARP)}
    spare = [v for v in bases[REGISTER] if v not in vectors and any(v)]
    for vector in vectors:
        for name in (LANE, WARP):
            if vector in bases[name]:
                # A register's bit goes where this one was, or copies do when there is none left.
                given = spare.pop() if spare else (0,) * len(vector)
                bases[name][bases[name].index(vector)] = given
                bases[REGISTER] = [v for v in bases[REGISTER] if v != given] + [vector]
    return LinearLayout.of(bases, dict(zip(layout.out_dims, layout.shape)))


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


def broadcast(b: KernelBuilder, tile: Tile, shape: Sequence[int], wanted: LinearLayout | None = None) -> Tile:
    """Repeat a tile along its dimensions of size 1; the rank stays."""
    if wanted is None:
        result = grown(tile.layout, shape)
        return select_registers(tile, result)
    return select_registers(convert_layout(b, tile, shrunk(wanted, tile.shape)), wanted)


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


def _part_bits(layout: LinearLayout, shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Index vectors that count parts of a shape, of the last dimension first."""
    vectors = []
    for d in reversed(range(len(shape))):
        bit = shape[d]
        while bit < layout.shape[d]:
            vectors.append(tuple(bit if i == d else 0 for i in range(len(shape))))
            bit *= 2
    return vectors


@dataclass(frozen=True)
class Extraction:
    """How a part is taken out of a tile: converted to `source` first; then in registers, or through shared memory in an
    exchange of `bytes`; and converted to `target`."""

    source: LinearLayout
    in_registers: bool
    natural: LinearLayout
    target: LinearLayout
    bytes: int


def extraction(
    layout: LinearLayout, shape: Sequence[int], target: LinearLayout, element_bytes: int, room: int
) -> Extraction:
    """How to take a part of a shape, which all but covers the tile, out of a tile in a layout: in registers where these
    tell parts apart, or where the tile is too large for an exchange; else through shared memory."""
    bits = _part_bits(layout, shape)
    size = padded(element_bytes * prod(layout.shape))
    if size > piece_bytes(room):
        layout = in_registers(layout, bits)
    if all(v in layout.basis(REGISTER) for v in bits) and _bits_apart(layout, bits):
        return Extraction(layout, True, _without_registers(layout, bits, shape), target, 0)
    return Extraction(layout, False, target, target, size)


def extract_sizes(
    layout: LinearLayout, shape: Sequence[int], target: LinearLayout, element_bytes: int, warp_bits: int, room: int
) -> tuple[int, ...]:
    """The bytes of each exchange of `extract`."""

    def conversion(source: LinearLayout, wanted: LinearLayout) -> tuple[int, ...]:
        return exchange_sizes([source], [wanted], [element_bytes], warp_bits, room)

    if tuple(shape) == layout.shape:
        return conversion(layout, target)
    found = extraction(layout, shape, target, element_bytes, room)
    inside = (found.bytes,) if found.bytes else ()
    return (*conversion(layout, found.source), *inside, *conversion(found.natural, target))


def extract(
    b: KernelBuilder, tile: Tile, indices: Sequence[Value], shape: Sequence[int], wanted: LinearLayout | None = None
) -> Tile:
    """The part of a shape at `indices` (i32), which count parts, not elements (Tile IR specification, "extract").

    In registers where these tell parts apart and the part keeps its layout, else through shared memory. What an index
    beyond the tile gives is undefined.
    """
    target = wanted if wanted is not None else shrunk(tile.layout, shape)
    if tuple(shape) == tile.shape:
        return convert_layout(b, tile, target)
    number = _part_number(b, tile.shape, indices, shape)
    bits = _part_bits(tile.layout, shape)
    found = extraction(tile.layout, shape, target, STORAGE_BYTES[tile.element], b.exchanges.room)
    tile = convert_layout(b, tile, found.source)
    if not found.in_registers:
        return _from_shared(b, tile, number, bits, found)
    return convert_layout(b, _from_registers(b, tile, number, bits, found.natural), target)


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


def _bits_apart(layout: LinearLayout, bits: Sequence[tuple[int, ...]]) -> bool:
    """Whether no other bit of a place moves the index by these bits, too."""
    used = [0] * len(layout.outs)
    for vector in bits:
        used = [u | c for u, c in zip(used, vector)]
    others = [v for name in layout.in_dims for v in layout.basis(name)]
    for vector in bits:
        others.remove(vector)
    return not any(c & u for v in others for c, u in zip(v, used))


def _without_registers(layout: LinearLayout, bits: Sequence[tuple[int, ...]], shape: Sequence[int]) -> LinearLayout:
    """The layout of a part of a shape: without the registers that move the index by these bits."""
    used = {layout.basis(REGISTER).index(vector) for vector in bits}
    bases = {n: [v for i, v in enumerate(vs) if n != REGISTER or i not in used] for n, vs in layout.bases}
    return LinearLayout.of(bases, dict(zip(layout.out_dims, shape)))


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


def _from_shared(
    b: KernelBuilder, tile: Tile, number: Value, bits: Sequence[tuple[int, ...]], found: Extraction
) -> Tile:
    """Store the whole tile, load the part: its number moves all offsets alike."""
    size, target = STORAGE_BYTES[tile.element], found.target
    warps = warp_bits_of(b)
    outs = dict(zip(tile.layout.out_dims, tile.shape))
    embedded = LinearLayout(target.bases, tuple((n, outs[n].bit_length() - 1) for n in tile.layout.out_dims))
    source = normalized(without_register_copies(tile.layout), warps)
    shared, _ = conflict_free_shared(source, normalized(without_register_copies(embedded), warps), size)
    inverse = shared.inverse()
    columns = [inverse(**dict(zip(tile.layout.out_dims, v)))[OFFSET] for v in bits]
    base = b.exchange_pointer(b.exchange(found.bytes))
    store_shared(b, base, shared, tile)
    b.barrier()
    moved = linear_of_bits(b, number, columns)
    moved_bits = 0
    for column in columns:
        moved_bits |= column
    part = load_shared(b, base, shared, embedded, tile.element, moved, moved_bits)
    return Tile(target, tile.element, part.registers)


def insert(b: KernelBuilder, tile: Tile, part: Tile, indices: Sequence[Value]) -> Tile:
    """The tile with a part replaced, at `indices` (i32) that count parts. The result has the tile's layout."""
    moved = convert_layout(b, part, shrunk(tile.layout, part.shape))
    spread = select_registers(moved, tile.layout)
    registers = []
    for r, (old, new) in enumerate(zip(tile.registers, spread.registers)):
        inside = integer(I1, 1)
        for d, position in enumerate(indices):
            if part.shape[d] < tile.shape[d]:
                own = b.binary("lshr", index(b, tile.layout, r, d), integer(I32, part.shape[d].bit_length() - 1))
                inside = b.and_(inside, b.compare("eq", own, position))
        registers.append(b.select(inside, new, old))
    return tile.with_registers(registers)


def cat_layout(layout: LinearLayout, dim: int) -> LinearLayout:
    """The layout of two tiles of one layout, one after the other along a dimension: the second in further registers."""
    names = dim_names(len(layout.outs))
    return (layout * LinearLayout.identity(2, REGISTER, f"dim{dim}")).transpose_outs(names)


def cat(b: KernelBuilder, lhs: Tile, rhs: Tile, dim: int, wanted: LinearLayout | None = None) -> Tile:
    """Two tiles of one shape, one after the other along a dimension (Tile IR specification, "cat")."""
    second = convert_layout(b, rhs, lhs.layout)
    result = Tile(cat_layout(lhs.layout, dim), lhs.element, (*lhs.registers, *second.registers))
    return result if wanted is None else convert_layout(b, result, wanted)
