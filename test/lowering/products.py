# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of tiles in any layout: the operands are first brought to where the instruction wants them."""

from __future__ import annotations

from movement import convert_all, multiply_add

from libtile.atoms.mma_layouts import dot_layouts, scaled_layouts
from libtile.codegen import mma, mma_scaled
from libtile.codegen.builder import KernelBuilder
from libtile.codegen.tile import Tile


def dot(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, *, signed_a: bool = True, signed_b: bool = True) -> Tile:
    """lhs times rhs plus acc, by the instruction of the builder's target."""
    found = dot_layouts(
        lhs.shape, rhs.shape, lhs.element, rhs.element, acc.element, b.target, b.threads // 32,
        signed_a=signed_a, signed_b=signed_b,
    )  # fmt: skip
    if found.atom is None:
        return multiply_add(b, lhs, rhs, *convert_all(b, [acc], [found.c]))
    return mma.dot(b, *convert_all(b, [lhs, rhs, acc], [found.a, found.b, found.c]), found.atom)


def dot_scaled(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, lhs_scale: Tile, rhs_scale: Tile) -> Tile:
    """lhs times rhs plus acc with factors along the depth."""
    shapes = [t.shape for t in (lhs, rhs, lhs_scale, rhs_scale)]
    found = scaled_layouts(*shapes, b.target, b.threads // 32)
    assert found.dot.atom is not None
    wanted = [found.dot.a, found.dot.b, found.dot.c, found.lhs_scale, found.rhs_scale]
    tiles = convert_all(b, [lhs, rhs, acc, lhs_scale, rhs_scale], wanted)
    return mma_scaled.dot_scaled(b, *tiles, found.dot.atom)
