# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mma.sync: which instruction takes a product, and the fragments of its operands.

All mma.sync atoms with 8 columns share one structure (PTX ISA, "Matrix Fragments for mma.m16n8k*" and "m8n8k4"). With
p the number of elements in a 32-bit register (1 for f64), a lane's bits and registers move

    A    registers k = 1 .. p/2,  lane bits 0, 1 k = p, 2p,  lane bits 2-4 m = 1, 2, 4,  registers m = 8, k = 4p ..
    B    registers k = 1 .. p/2,  lane bits 0, 1 k = p, 2p,  lane bits 2-4 n = 1, 2, 4,  registers k = 4p ..
    C    register n = 1,          lane bits 0, 1 n = 2, 4,   lane bits 2-4 m = 1, 2, 4,  register m = 8

Warps lie side by side by the columns of one atom, or of two: then a thread has columns that are 8 apart, as `ldmatrix`
gives them that transposes bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from libtile.atoms.mma_moves import NOWHERE, Grid, Moves, moves, powers, tile_layout, warp_moves
from libtile.atoms.operand_types import packed_elements
from libtile.layouts import LinearLayout
from libtile.targets import MmaAtom, Target

FAMILY = "mma_sync"
COLUMNS = 8
TRANSPOSED_COLUMNS = 16
"""Of a warp, side by side, where bytes of its right operand are transposed by `ldmatrix`."""


def extents(atom: MmaAtom) -> tuple[int, int]:
    """Rows and columns of the result that one instruction computes."""
    return atom.m, COLUMNS


def choose(target: Target, types: tuple[str, str, str], shape: tuple[int, int, int]) -> MmaAtom | None:
    """The atom for PTX's names of the types and for a product of this shape (m, n, k): the smallest depth that covers
    the tile's, or the largest."""
    rows, _, depth = shape
    found = [atom for atom in target.mma(*types) if not atom.kind]
    tall = [atom for atom in found if atom.m == 16]
    if tall and (rows >= 16 or len(tall) == len(found)):
        found = tall
    elif found and len(tall) < len(found):
        found = [atom for atom in found if atom.m != 16]
    covering = [atom for atom in found if atom.k >= depth]
    if covering:
        return min(covering, key=lambda atom: atom.k)
    return max(found, key=lambda atom: atom.k, default=None)


def fragments(
    atom: MmaAtom, grid: Grid, shapes: Sequence[Sequence[int]], columns: int = COLUMNS
) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
    """The layouts of A, B and C for an atom and for so many warps along batches, rows and columns, which have so many
    columns each side by side."""
    a_shape, b_shape, c_shape = map(tuple, shapes)
    return _fragments(atom, grid, (a_shape, b_shape, c_shape), columns)


@lru_cache(maxsize=256)
def _fragments(
    atom: MmaAtom, grid: Grid, shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], columns: int
) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
    packed = packed_elements(atom.a)
    a_shape, b_shape, c_shape = shapes
    batches, down, across = grid
    most = NOWHERE
    k_low, k_high = powers(1, packed), powers(4 * packed, most)
    m_high, n_high = powers(atom.m * down, most), [*powers(COLUMNS, columns), *powers(columns * across, most)]
    upper = [8] if atom.m == 16 else []
    batch: Moves = [(0, d) for d in powers(batches, most)]

    a = tile_layout(
        a_shape,
        moves(2, k_low) + moves(1, upper) + moves(2, k_high) + moves(1, m_high) + batch,
        moves(2, [packed, 2 * packed]) + moves(1, [1, 2, 4]),
        warp_moves(grid, atom.m, columns, a=True),
    )
    b = tile_layout(
        b_shape,
        moves(1, k_low) + moves(1, k_high) + moves(2, n_high) + batch,
        moves(1, [packed, 2 * packed]) + moves(2, [1, 2, 4]),
        warp_moves(grid, atom.m, columns, b=True),
    )
    c = tile_layout(
        c_shape,
        moves(2, [1]) + moves(1, upper) + moves(2, n_high) + moves(1, m_high) + batch,
        moves(2, [2, 4]) + moves(1, [1, 2, 4]),
        warp_moves(grid, atom.m, columns),
    )
    return a, b, c
