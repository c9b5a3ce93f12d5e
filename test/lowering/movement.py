# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of data movement share: random layouts, and kernels that read tiles, move them, and write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from memory_kernels import DTYPES, OneAfterTheOther, kernel, pointers, put, run

from libtile.atoms.conversions import AsWhole, conversion
from libtile.codegen import mma, shapes
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.convert_layout import through_shared, within_warps
from libtile.codegen.llvm_types import GLOBAL_POINTER, I32
from libtile.codegen.memory import load
from libtile.codegen.tile import Tile
from libtile.layouts.convert import Conversion, Plan
from libtile.layouts.linear import LinearLayout
from libtile.layouts.parts import part_layout
from libtile.layouts.renaming import shrunk
from libtile.lowering.tileas.exchanges.exchange_sizes import Kernel
from libtile.lowering.tileas.exchanges.explicit_conversions import product_slices, sliceable, staged, taken_part
from libtile.lowering.tileas.exchanges.shared_atoms import between
from libtile.numerics.elements import STORAGE_BYTES
from libtile.simulator import RunResult


def kernel_of(b: KernelBuilder) -> Kernel:
    """What passes know of a builder's kernel."""
    return Kernel(b.target, b.threads // b.target.warp_size)


def room_of(b: KernelBuilder) -> int:
    """The shared memory of a builder's exchanges, in bytes."""
    assert isinstance(b.exchanges, OneAfterTheOther)
    return b.exchanges.room


def convert_layout(b: KernelBuilder, tile: Tile, target: LinearLayout) -> Tile:
    """A tile in another layout, the way that `tileas-materialize-convert-layout` chooses."""
    size, kernel = STORAGE_BYTES[tile.element], kernel_of(b)
    found = conversion(tile.layout, target, size, kernel.warp_bits, room_of(b))
    if isinstance(found, Plan):
        return within_warps(b, tile, target, Conversion.REGISTERS if found.kind is Conversion.NONE else found.kind)
    if isinstance(found, AsWhole):
        way = between(tile.layout, target.transpose_outs(tile.layout.out_dims), size, kernel)
        return through_shared(b, tile, target, way)
    for trip in found.trips:
        way = between(trip.pieces.source, trip.pieces.target, size, kernel)
        tile = through_shared(b, tile, trip.target, way, len(trip.pieces.registers))
    return tile


def convert_all(b: KernelBuilder, tiles: Sequence[Tile], targets: Sequence[LinearLayout]) -> list[Tile]:
    """Tiles in other layouts, one after the other."""
    return [convert_layout(b, tile, target) for tile, target in zip(tiles, targets, strict=True)]


def extract(
    b: KernelBuilder, tile: Tile, indices: Sequence[Value], shape: Sequence[int], wanted: LinearLayout | None = None
) -> Tile:
    """A part of a tile in a layout, as the passes have it."""
    target = wanted if wanted is not None else shrunk(tile.layout, shape)
    if tuple(shape) == tile.shape:
        return convert_layout(b, tile, target)
    found = taken_part(tile.layout, shape, target, STORAGE_BYTES[tile.element], kernel_of(b), room_of(b))
    part = shapes.extract(b, convert_layout(b, tile, found.source), indices, found.result, found.way)
    return convert_layout(b, part, target)


def multiply_add(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile) -> Tile:
    """A product by fused multiply-adds, in slices along the depth where there is little room, as the passes have it."""
    sizes, kernel = [STORAGE_BYTES[t.element] for t in (lhs, rhs)], kernel_of(b)
    count = product_slices([lhs.shape, rhs.shape], sizes, room_of(b))
    dims = len(lhs.shape) - 1, len(rhs.shape) - 2
    sides = [convert_layout(b, t, sliceable(t.layout, d, count)) if count > 1 else t for t, d in zip((lhs, rhs), dims)]
    for number in range(count):
        places = [[integer(I32, number if d == dim else 0) for d in range(len(t.shape))] for t, dim in zip(sides, dims)]
        cut = [[s // count if d == dim else s for d, s in enumerate(t.shape)] for t, dim in zip(sides, dims)]
        own = [shapes.extract(b, t, at, part_layout(t.layout, s), None) for t, at, s in zip(sides, places, cut)]
        ways, steps = staged(acc.layout, [t.layout for t in own], sizes, kernel)
        acc = mma.multiply_add(b, own[0], own[1], acc, ways, steps)
    return acc


def move(
    arrays: Sequence[tuple[str, np.ndarray, LinearLayout]],
    build: Callable[..., Tile | Sequence[Tile]],
    *,
    gpu: str = "sm_90",
    threads: int = 128,
) -> tuple[list[np.ndarray], RunResult]:
    """Load each (element, array, layout), give the tiles to `build`, and return what its results hold."""
    b, bases = kernel(gpu, threads, len(arrays))
    tiles = [load(b, pointers(b, p, layout, e), e) for p, (e, _, layout) in zip(bases, arrays)]
    made = build(b, *tiles)
    results = []
    for tile in [made] if isinstance(made, Tile) else made:
        out = np.zeros(tile.shape, DTYPES[tile.element])
        results.append(out)
        put(b, b.add_parameter(GLOBAL_POINTER), tile)
    done = run(b, *[a for _, a, _ in arrays], *results)
    return results, done


@st.composite
def layouts(
    draw: Any, shape: Sequence[int], *, units: bool = False, warps: int = 4, min_warp_bits: int = 0
) -> LinearLayout:
    """A surjective layout of a tile: unit vectors spread over registers, lanes and warps, mixed unless `units`, with
    copies filling the lanes and warps that are left."""
    bits = [int(s).bit_length() - 1 for s in shape]
    total = sum(bits)
    columns: list[int] = list(draw(st.permutations([1 << i for i in range(total)])))
    if not units:
        for _ in range(draw(st.integers(0, 5))):
            i, j = draw(st.integers(0, max(total - 1, 0))), draw(st.integers(0, max(total - 1, 0)))
            if total > 1 and i != j:
                columns = [c ^ columns[j] if k == i else c for k, c in enumerate(columns)]
    extra = [0] if units else [0, *columns[:2]]
    warp_bits = warps.bit_length() - 1
    in_warps = min(draw(st.integers(min_warp_bits, warp_bits)), total)
    in_lanes = draw(st.integers(min(5, max(total - in_warps - 4, 0)), min(5, total - in_warps)))
    rest = columns[in_warps + in_lanes :]
    copies = st.sampled_from(extra)
    lanes = draw(st.permutations([*columns[in_warps : in_warps + in_lanes], *[draw(copies)] * (5 - in_lanes)]))
    on_warps = draw(st.permutations([*columns[:in_warps], *[draw(copies)] * (warp_bits - in_warps)]))
    if draw(st.booleans()):
        rest = [*rest, draw(copies)]
    frame = LinearLayout.of({}, {f"dim{i}": int(s) for i, s in enumerate(shape)})
    bases = {n: [frame._unpack(c) for c in cs] for n, cs in (("register", rest), ("lane", lanes), ("warp", on_warps))}
    return LinearLayout.of(bases, dict(zip(frame.out_dims, frame.shape)))
