# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mma.sync with block_scale: which instruction takes a product with scale factors, and where these lie.

Operands and accumulators lie as `mma_sync` has them; operands of 4 bits lie two to a byte, and bytes as those of 8
bits. An instruction multiplies 32 bytes along k. Of the factors, a byte for each block of elements (one for each
instruction is `scale_vec::1X`, two are `2X`, four `4X`), two lanes of a quad name those of their rows, and one those of
a column (PTX ISA, "Scale Factor A matrix", "Scale Factor B matrix", with the thread selectors 0):

    factors of A    lane bit 0 m = 8,  lane bits 2-4 m = 1, 2, 4,  registers blocks, m = 16 ..
    factors of B    lane bits 2-4 n = 1, 2, 4,  registers blocks, n = 8 ..
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.atoms import mma_sync
from libtile.atoms.mma_moves import NOWHERE, Grid, moves, powers, tile_layout, warp_moves
from libtile.layouts import LinearLayout
from libtile.support.records import dataclass
from libtile.targets import MMA_BLOCK_SCALE, MmaAtom, Target

FAMILY = MMA_BLOCK_SCALE
WORD_BLOCKS = 4
"""Blocks whose factors share a word."""


@dataclass(frozen=True)
class Kind:
    """What an instruction is called, and PTX's type of the factors; it takes so many of a row or column."""

    name: str
    factors: str
    count: int


_KINDS = {
    (32, "f8E8M0FNU", False): Kind("mxf8f6f4", "ue8m0", 1),
    (32, "f8E8M0FNU", True): Kind("mxf4", "ue8m0", 2),
    (16, "f8E4M3FN", True): Kind("mxf4nvf4", "ue4m3", 4),
    (16, "f8E8M0FNU", True): Kind("mxf4nvf4", "ue8m0", 4),
}
"""By elements of a block, the factors' element type, and whether operands lie two to a byte."""

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
        if rows < atom.m or columns < atom.n or depth % atom.k or depth % blocks:
            continue
        if (depth // blocks, factors, shares_bytes(atom)) in _KINDS:
            return atom
    return None


def shares_bytes(atom: MmaAtom) -> bool:
    """Whether operands lie two to a byte."""
    return atom.a == "e2m1"


def depth_bytes(atom: MmaAtom) -> int:
    """Bytes of a row of A, or a column of B, that an instruction multiplies."""
    return atom.k // 2 if shares_bytes(atom) else atom.k


def kind(atom: MmaAtom, block: int, factors: str) -> Kind:
    """What an instruction is called that takes a factor of an element type for each `block` elements along k; KeyError
    where there is none."""
    return _KINDS[block, factors, shares_bytes(atom)]


def blocks_at_once(atom: MmaAtom) -> int:
    """Blocks that are multiplied one behind the other, so that factors come in few words: those of
    a word where operands lie two to a byte, else two."""
    return WORD_BLOCKS if shares_bytes(atom) else 2


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
