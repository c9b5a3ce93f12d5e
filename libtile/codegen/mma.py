# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix products of tiles (Tile IR, "mmaf", "mmai"): by the instruction of a family, which the module of its name
spells, or by fused multiply-adds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol, cast

from libtile.codegen import floats
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.control import for_loop
from libtile.codegen.llvm_types import I32
from libtile.codegen.places import by_place, in_element, place_of
from libtile.codegen.shared_tiles import load_shared, store_shared
from libtile.codegen.tile import Tile, linear_of_bits
from libtile.layouts import LANE, OFFSET, REGISTER, WARP, LinearLayout
from libtile.layouts.shared_access import SharedWay, padded
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


def staged_bytes(ways: Sequence[SharedWay], element_bytes: Sequence[int]) -> tuple[int, int]:
    """Where the right operand of a product of single elements lies in its exchange, and the size of that, in bytes."""
    sizes = [size << way.layout.out_bits for way, size in zip(ways, element_bytes, strict=True)]
    start = padded(sizes[0])
    return start, padded(start + sizes[1])


def multiply_add(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, ways: Sequence[SharedWay], steps: int) -> Tile:
    """lhs (m x k) times rhs (k x n) plus acc by fused multiply-adds in the accumulator's type and layout. All threads
    of the block must come here: both operands go to shared memory, and each thread reads, for so many steps along k at
    a time, its rows and columns, in `operand_part`."""
    depth = lhs.shape[-1]
    start, size = staged_bytes(ways, [STORAGE_BYTES[t.element] for t in (lhs, rhs)])
    place = b.exchange(size)
    readers: list[Callable[[Value], Tile]] = []
    for side, (tile, way) in enumerate(zip((lhs, rhs), ways)):
        base = b.exchange_pointer(place, start * side)
        readers.append(_stored(b, tile, base, operand_part(acc.layout, tile.shape, steps, side), steps, side, way))
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


def operand_part(c: LinearLayout, shape: Sequence[int], steps: int, side: int) -> LinearLayout:
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


def step_offsets(shared: LinearLayout, shape: Sequence[int], steps: int, side: int) -> list[int]:
    """By how many elements each bit of the number of a turn of the loop moves an operand's part in shared memory."""
    depth_dim = len(shape) - 1 if side == 0 else len(shape) - 2
    inverse, columns = shared.inverse(), []
    distance = steps
    while distance < shape[depth_dim]:
        columns.append(inverse(**{f"dim{depth_dim}": distance})[OFFSET])
        distance *= 2
    return columns


def _stored(
    b: KernelBuilder, tile: Tile, base: Value, part: LinearLayout, steps: int, side: int, way: SharedWay
) -> Callable[[Value], Tile]:
    """Store an operand; the function returned loads the part with a number."""
    store_shared(b, base, way.layout, tile, way.store)
    columns = step_offsets(way.layout, tile.shape, steps, side)

    def read(number: Value) -> Tile:
        moved = linear_of_bits(b, number, columns) if columns else None
        return load_shared(b, base, way.layout, part, tile.element, way.load, moved)

    return read
