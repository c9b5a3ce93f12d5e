# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products of tiles (Tile IR, "mmaf", "mmai"): by the instruction of a family, which the module of its name
spells, or by fused multiply-adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import Protocol, cast

from libtile.codegen import conversion_plan, floats, shapes
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.control import for_loop
from libtile.codegen.convert_layout import convert_all
from libtile.codegen.exchange import padded
from libtile.codegen.llvm_types import I32
from libtile.codegen.places import by_place, in_element, place_of
from libtile.codegen.shared_tiles import (
    load_shared,
    normalized,
    store_shared,
)
from libtile.codegen.tile import Tile, linear_of_bits, warp_bits_of
from libtile.layouts import LANE, OFFSET, REGISTER, WARP, LinearLayout
from libtile.layouts.convert import conflict_free_shared
from libtile.layouts.renaming import without_register_copies
from libtile.numerics.elements import STORAGE_BYTES
from libtile.targets import MmaAtom


class Family(Protocol):
    """What is asked of the module of a family of instructions."""

    def dot(self, b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, atom: MmaAtom) -> Tile:
        """lhs (m x k) times rhs (k x n) plus acc, in the accumulator's layout. The operands are in the atom's fragments
        (`mma_layouts.fragments`), and of its element types or of narrower floats."""


def dot(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, atom: MmaAtom) -> Tile:
    """lhs (m x k) times rhs (k x n) plus acc by an instruction of a family: see `Family.dot`."""
    family = cast(Family, import_module(f"libtile.codegen.{atom.family}"))
    return family.dot(b, lhs, rhs, acc, atom)


# -- fused multiply-adds --------------------------------------------------------------------------------------------

_BODY_PRODUCTS = 512
"""How many multiply-adds of a thread stand in one iteration of the loop over k, about."""


_OPERAND_BYTES = 49152
"""The most shared memory that the operands take at a time, where there is room for it."""


@dataclass(frozen=True)
class Slices:
    """How the operands of a product of single elements go to shared memory: `count` slices along k, of which each takes
    `bytes`, the right operand's from `start` on."""

    count: int
    start: int
    bytes: int


def product_slices(shapes: Sequence[Sequence[int]], element_bytes: Sequence[int], room: int) -> Slices:
    """How operands of these shapes, of elements of so many bytes, are cut along k so that a slice finds room."""
    depth = shapes[0][-1]
    sizes = [size * prod(shape) for size, shape in zip(element_bytes, shapes)]
    most = min(_OPERAND_BYTES, room)
    count = 1
    while sum(sizes) > count * most and count < depth:
        count *= 2
    start = padded(sizes[0] // count)
    return Slices(count, start, padded(start + sizes[1] // count))


def exchange_sizes(
    layouts: Sequence[LinearLayout], element_bytes: Sequence[int], warp_bits: int, room: int
) -> tuple[int, ...]:
    """The bytes of each exchange of `multiply_add` on operands in these layouts, of elements of so many bytes."""
    shapes = [layout.shape for layout in layouts]
    found = product_slices(shapes, element_bytes, room)
    sizes: tuple[int, ...] = ()
    if found.count > 1:
        for layout, size, dim in zip(layouts, element_bytes, (len(shapes[0]) - 1, len(shapes[1]) - 2)):
            cut = _sliceable_layout(layout, dim, found.count)
            sizes += conversion_plan.exchange_sizes([layout], [cut], [size], warp_bits, room)
    return (*sizes, *[found.bytes] * found.count)


def multiply_add(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile) -> Tile:
    """lhs (m x k) times rhs (k x n) plus acc by fused multiply-adds in the accumulator's type and layout; the operands
    may be in any layout. All threads of the block must come here: slices along k that fit go to shared memory."""
    sizes = [STORAGE_BYTES[t.element] for t in (lhs, rhs)]
    found = product_slices((lhs.shape, rhs.shape), sizes, b.exchanges.room)
    if found.count == 1:
        return _multiply_add_slice(b, lhs, rhs, acc, found)
    dims = len(lhs.shape) - 1, len(rhs.shape) - 2
    sides = [convert_all(b, [t], [_sliceable_layout(t.layout, d, found.count)])[0] for t, d in zip((lhs, rhs), dims)]
    for number in range(found.count):
        left, right = (_slice(b, t, d, found.count, number) for t, d in zip(sides, dims))
        acc = _multiply_add_slice(b, left, right, acc, found)
    return acc


def _sliceable_layout(layout: LinearLayout, dim: int, count: int) -> LinearLayout:
    """A layout near this one whose registers tell `count` slices along a dimension apart."""
    size, rank = layout.shape[dim], len(layout.shape)
    wanted = [tuple(size >> i + 1 if d == dim else 0 for d in range(rank)) for i in range(count.bit_length() - 1)]
    return shapes.in_registers(layout, wanted)


def _slice(b: KernelBuilder, tile: Tile, dim: int, count: int, number: int) -> Tile:
    shape = [s // count if d == dim else s for d, s in enumerate(tile.shape)]
    return shapes.extract(b, tile, [integer(I32, number if d == dim else 0) for d in range(len(shape))], shape)


def _multiply_add_slice(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, found: Slices) -> Tile:
    """Both operands go to shared memory; each thread reads, for some steps along k at a time, its rows and columns."""
    depth = lhs.shape[-1]
    steps = max(min(depth, 4, _BODY_PRODUCTS // max(len(acc.registers), 1)), 1)
    place = b.exchange(found.bytes)
    readers: list[Callable[[Value], Tile]] = []
    for side, tile in enumerate((lhs, rhs)):
        base = b.exchange_pointer(place, found.start * side)
        readers.append(_stored(b, tile, base, _operand_part(acc.layout, tile.shape, steps, side), steps, side))
    b.barrier()

    def step(number: Value, result: Tile) -> Tile:
        parts = [by_place(in_element(b, read(number), acc.element)) for read in readers]
        places = [place_of(tuple(result.layout(register=r).values())) for r in range(len(result.registers))]
        values = list(result.registers)
        for k in range(steps):
            for r, (g, m, n) in enumerate(places):
                values[r] = floats.fma(b, parts[0][g, m, k], parts[1][g, k, n], values[r])
        return result.with_registers(values)

    if steps == depth:
        result = step(integer(I32, 0), acc)
    else:
        bounds = [integer(I32, n) for n in (0, depth // steps, 1)]

        def body(number: Value, carried: list[Tile | Value]) -> list[Tile | Value]:
            (held,) = carried
            assert isinstance(held, Tile)  # what the loop carries is the accumulator
            return [step(number, held)]

        (carried,) = for_loop(b, bounds[0], bounds[1], bounds[2], [acc], body)
        assert isinstance(carried, Tile)
        result = carried
    return result


def _operand_part(c: LinearLayout, shape: Sequence[int], steps: int, side: int) -> LinearLayout:
    """What a thread reads of an operand in one iteration: `steps` elements along k of the lines that its part of the
    result needs; as a layout of the whole operand."""
    rank = len(shape)
    depth_dim, line_dim = (rank - 1, rank - 2) if side == 0 else (rank - 2, rank - 1)

    def vector(v: Sequence[int]) -> tuple[int, ...]:
        return tuple(0 if d == depth_dim else v[line_dim] if d == line_dim else v[d] for d in range(rank))

    low = [tuple(s if d == depth_dim else 0 for d in range(rank)) for s in (1, 2, 4, 8) if s < steps]
    bases = {n: [vector(v) for v in c.basis(n)] for n in (REGISTER, LANE, WARP)}
    bases[REGISTER] = [*low, *(v for v in bases[REGISTER] if any(v))]
    return LinearLayout.of(bases, dict(zip(c.out_dims, shape)))


def _stored(
    b: KernelBuilder, tile: Tile, base: Value, part: LinearLayout, steps: int, side: int
) -> Callable[[Value], Tile]:
    """Store an operand; the function returned loads the part with a number."""
    size, warps, rank = STORAGE_BYTES[tile.element], warp_bits_of(b), len(tile.shape)
    depth_dim = rank - 1 if side == 0 else rank - 2
    source = normalized(without_register_copies(tile.layout), warps)
    shared, _ = conflict_free_shared(source, normalized(without_register_copies(part), warps), size)
    store_shared(b, base, shared, tile)
    inverse = shared.inverse()
    columns = []
    distance = steps
    while distance < tile.shape[depth_dim]:
        columns.append(inverse(**{f"dim{depth_dim}": distance})[OFFSET])
        distance *= 2
    reach = 0
    for column in columns:
        reach |= column

    def read(number: Value) -> Tile:
        moved = linear_of_bits(b, number, columns) if columns else None
        return load_shared(b, base, shared, part, tile.element, moved, reach)

    return read
