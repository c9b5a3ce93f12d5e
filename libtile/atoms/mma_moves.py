# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts of the tiles of a product, by what each bit of the number of a register, a lane or a warp moves."""

from __future__ import annotations

from collections.abc import Sequence

from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.builders import dim_names

Moves = list[tuple[int, int]]
"""(dimension, distance) for each bit of a place; the dimension is 0 batch, 1 rows, 2 columns."""

NOWHERE = 1 << 30
"""A distance that leaves every tile: the bit holds copies."""

Grid = tuple[int, int, int]
"""Warps along batches, rows and columns."""


def powers(start: int, end: int) -> list[int]:
    """start, 2 start, 4 start, ... below end."""
    found = []
    while start < end:
        found.append(start)
        start *= 2
    return found


def moves(dim: int, distances: Sequence[int]) -> Moves:
    """Steps along one dimension."""
    return [(dim, d) for d in distances]


def tile_layout(shape: Sequence[int], registers: Moves, lanes: Moves, warps: Moves) -> LinearLayout:
    """The layout of a tile of rank 2 or 3; what leaves the tile is no register, and copies in lanes and warps."""
    box = (1, *shape) if len(shape) == 2 else tuple(shape)

    def vector(move: tuple[int, int]) -> tuple[int, ...]:
        dim, distance = move
        moved = tuple(distance if d == dim and distance < box[dim] else 0 for d in range(3))
        return moved[3 - len(shape) :]

    kept = [v for v in map(vector, registers) if any(v)]
    bases = {REGISTER: kept, LANE: [vector(m) for m in lanes], WARP: [vector(m) for m in warps]}
    return LinearLayout.of(bases, dict(zip(dim_names(len(shape)), shape)))


def warp_moves(grid: Grid, rows: int, columns: int, *, a: bool = False, b: bool = False) -> Moves:
    """What warps move, each of which has so many rows and columns: their number counts columns, then rows, then
    batches; along what an operand lacks it moves nothing."""
    batches, down, across = grid
    moves: Moves = [(2, NOWHERE if a else d) for d in powers(columns, columns * across)]
    moves += [(1, NOWHERE if b else d) for d in powers(rows, rows * down)]
    return moves + [(0, d) for d in powers(1, batches)]


def choose_grid(c_shape: Sequence[int], rows: int, columns: int, warps: int, whole_rows: bool) -> Grid:
    """Warps along batches, rows and columns: as many with work of their own as can be, then (if wanted) such that a
    warp has all columns of its rows, then those that read least."""
    batches = c_shape[0] if len(c_shape) == 3 else 1
    down, across = max(c_shape[-2] // rows, 1), max(c_shape[-1] // columns, 1)
    candidates = [
        (g, m, warps // g // m) for g in powers(1, warps + 1) for m in powers(1, warps // g + 1)
    ]  # fmt: skip

    def order(grid: Grid) -> tuple[int, bool, float, int]:
        g, m, n = grid
        busy = min(g, batches) * min(m, down) * min(n, across)
        # Batches share no operands; elements of a and b that a warp reads, for each of its batches.
        read = max(batches / g, 1) * (max(c_shape[-2] / m, rows) + max(c_shape[-1] / n, columns))
        return -busy, whole_rows and n > 1, read, -m

    return min(candidates, key=order)
