# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packing: 4-bit and boolean elements into bytes, 1-d tiles as bytes and back (Tile IR specification, pack, unpack).

Elements are packed without gaps, the first in the lowest bits. In a tile every byte must be made of what one thread
holds, so the layout decides whether a tile can be packed as it is: `packed_layout` and `unpacked_layout` give the
layout of the result, or None when another layout must be chosen first.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import ELEMENT_TYPES, I32, IntType
from libtile.codegen.narrow_floats import TF32_MASK
from libtile.codegen.stored_bits import as_integer, join, split
from libtile.codegen.tile import Tile
from libtile.layouts import REGISTER, LinearLayout
from libtile.numerics.elements import ELEMENTS
from libtile.support.diagnostics import UnsupportedError


def element_bits(element: str) -> int:
    """Bits that one element takes in a packed tile."""
    return 1 if element == "i1" else ELEMENTS[element].storage_bits


# -- layouts --------------------------------------------------------------------------------------------------------


def _rescaled(layout: LinearLayout, registers: Sequence[int], up: int, down: int) -> LinearLayout:
    """A 1-d layout with all indices times up / down and these register vectors."""
    bases = {dim: [v[0] * up // down for v in layout.basis(dim)] for dim in layout.in_dims}
    bases[REGISTER] = list(registers)
    return LinearLayout.of(bases, {layout.out_dims[0]: layout.shape[0] * up // down})


def _low_registers(layout: LinearLayout, count: int) -> list[int] | None:
    """The register bits that count through `count` neighbours, lowest first; None when other bits move these too."""
    wanted = [1 << i for i in range(count.bit_length() - 1)]
    vectors = [v[0] for v in layout.basis(REGISTER)]
    found = [vectors.index(w) if w in vectors else -1 for w in wanted]
    if -1 in found:
        return None
    others = [v for i, v in enumerate(vectors) if i not in found]
    others += [v[0] for dim in layout.in_dims if dim != REGISTER for v in layout.basis(dim)]
    return found if all(v % count == 0 for v in others) else None


def _check_rank(layout: LinearLayout) -> None:
    if len(layout.out_dims) != 1:
        raise UnsupportedError(f"only 1-d tiles are packed, not {len(layout.out_dims)}-d ones")


def packed_layout(layout: LinearLayout, element: str) -> LinearLayout | None:
    """The layout of `pack`'s result for a tile of this layout, or None when a thread lacks parts of its bytes."""
    return _regrouped(layout, element_bits(element), 8)


def unpacked_layout(layout: LinearLayout, element: str) -> LinearLayout | None:
    """The layout of `unpack`'s result for bytes of this layout, or None when a thread lacks bytes of its elements."""
    return _regrouped(layout, 8, element_bits(element))


def _regrouped(layout: LinearLayout, bits: int, to: int) -> LinearLayout | None:
    _check_rank(layout)
    vectors = [v[0] for v in layout.basis(REGISTER)]
    if bits >= to:
        count = bits // to
        fresh = [1 << i for i in range(count.bit_length() - 1)]
        return _rescaled(layout, fresh + [v * count for v in vectors], count, 1)
    count = to // bits
    low = _low_registers(layout, count)
    if low is None:
        return None
    return _rescaled(layout, [v // count for i, v in enumerate(vectors) if i not in low], 1, count)


# -- tiles ----------------------------------------------------------------------------------------------------------


def pack(b: KernelBuilder, tile: Tile) -> Tile:
    """A 1-d tile as the i8 tile of its bytes. ValueError when `packed_layout` is None."""
    layout = packed_layout(tile.layout, tile.element)
    bits = element_bits(tile.element)
    values = [as_integer(b, r) for r in tile.registers]
    if tile.element == "tf32":
        values = [b.and_(v, integer(I32, TF32_MASK)) for v in values]
    return _convert(b, tile, layout, "i8", values, bits, 8)


def unpack(b: KernelBuilder, tile: Tile, element: str) -> Tile:
    """An i8 tile read as elements of another type. ValueError when `unpacked_layout` is None."""
    layout = unpacked_layout(tile.layout, element)
    bits = element_bits(element)
    out = _convert(b, tile, layout, element, list(tile.registers), 8, bits)
    type_ = ELEMENT_TYPES[element]
    return out if isinstance(type_, IntType) else out.map(lambda r: b.cast("bitcast", r, type_))


def _convert(
    b: KernelBuilder, tile: Tile, layout: LinearLayout | None, element: str, values: list[Value], bits: int, to: int
) -> Tile:
    if layout is None:
        raise UnsupportedError(f"a thread does not hold whole groups of {to // bits} elements in layout\n{tile.layout}")
    if bits >= to:
        parts = [part for v in values for part in split(b, v, to, bits // to)]
        return Tile(layout, element, tuple(parts))
    count = to // bits
    low = _low_registers(tile.layout, count) or []
    rest = [i for i in range(len(tile.layout.basis(REGISTER))) if i not in low]
    joined = []
    for register in range(layout.in_size(REGISTER)):
        base = sum((register >> k & 1) << bit for k, bit in enumerate(rest))
        group = [base + sum((n >> k & 1) << bit for k, bit in enumerate(low)) for n in range(count)]
        joined.append(join(b, [values[g] for g in group], bits))
    return Tile(layout, element, tuple(joined))
