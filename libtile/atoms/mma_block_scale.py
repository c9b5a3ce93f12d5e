# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mma.sync with block_scale: which instruction takes a product with scale factors, and where these lie.

Operands and accumulators lie as `mma_sync` has them. Of the factors, a byte for each block of 32 elements along k
(`scale_vec::1X`), two lanes of a quad name those of their rows, and one those of a column (PTX ISA, "Scale Factor A
matrix", "Scale Factor B matrix", with the thread selectors 0):

    factors of A    lane bit 0 m = 8,  lane bits 2-4 m = 1, 2, 4,  registers blocks, m = 16 ..
    factors of B    lane bits 2-4 n = 1, 2, 4,  registers blocks, n = 8 ..
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.atoms import mma_sync
from libtile.atoms.mma_moves import NOWHERE, Grid, moves, powers, tile_layout, warp_moves
from libtile.layouts import LinearLayout
from libtile.targets import MMA_BLOCK_SCALE, MmaAtom, Target

FAMILY = MMA_BLOCK_SCALE
FACTORS = "f8E8M0FNU"
"""The element type of the factors."""

extents = mma_sync.extents
fragments = mma_sync.fragments


def choose(target: Target, types: tuple[str, str, str], shape: tuple[int, int, int]) -> MmaAtom | None:
    """None: a product without factors is not computed with them."""
    return None


def choose_scaled(
    target: Target, types: tuple[str, str, str], shape: tuple[int, int, int], factors: str, blocks: int
) -> MmaAtom | None:
    """The atom for PTX's names of the types, for a product of this shape (m, n, k) with factors of an element type for
    so many blocks along k; None where there is none."""
    rows, columns, depth = shape
    for atom in target.mma(*types, FAMILY):
        if factors == FACTORS and rows >= atom.m and columns >= atom.n and depth == blocks * atom.k:
            return atom
    return None


def factors(atom: MmaAtom, grid: Grid, lhs: Sequence[int], rhs: Sequence[int]) -> tuple[LinearLayout, LinearLayout]:
    """The layouts of the factors of A (m x blocks) and of B (blocks x n)."""
    _, down, across = grid
    left = tile_layout(
        lhs,
        moves(2, powers(1, lhs[-1])) + moves(1, powers(atom.m * down, NOWHERE)),
        [(1, 8), (1, NOWHERE), *moves(1, [1, 2, 4])],
        warp_moves(grid, atom.m, atom.n, a=True),
    )
    right = tile_layout(
        rhs,
        moves(1, powers(1, rhs[-2])) + moves(2, powers(atom.n * across, NOWHERE)),
        [(2, NOWHERE), (2, NOWHERE), *moves(2, [1, 2, 4])],
        warp_moves(grid, atom.m, atom.n, b=True),
    )
    return left, right
