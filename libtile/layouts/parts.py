# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts of parts of tiles, and of tiles that parts make: where registers tell parts apart, and nothing moves.

The parts of a tile are of one shape, which divides the tile's, and are counted along each dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.layouts.builders import dim_names
from libtile.layouts.collectives import unit_layout
from libtile.layouts.linear import LANE, REGISTER, WARP, LinearLayout

Vector = tuple[int, ...]


def part_bits(layout: LinearLayout, shape: Sequence[int]) -> list[Vector]:
    """Index vectors that count parts of a shape, of the last dimension first."""
    vectors = []
    for d in reversed(range(len(shape))):
        bit = shape[d]
        while bit < layout.shape[d]:
            vectors.append(tuple(bit if i == d else 0 for i in range(len(shape))))
            bit *= 2
    return vectors


def are_told_apart(layout: LinearLayout, vectors: Sequence[Vector]) -> bool:
    """Whether registers move the index by these vectors, and nothing else moves it by these bits."""
    if not all(v in layout.basis(REGISTER) for v in vectors):
        return False
    used = [0] * len(layout.outs)
    for vector in vectors:
        used = [u | c for u, c in zip(used, vector)]
    others = [v for name in layout.in_dims for v in layout.basis(name)]
    for vector in vectors:
        others.remove(vector)
    return not any(c & u for v in others for c, u in zip(v, used))


def part_layout(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The layout of a part of a shape that stays in its registers: without those that tell parts apart."""
    used = {layout.basis(REGISTER).index(vector) for vector in part_bits(layout, shape)}
    bases = {n: [v for i, v in enumerate(vs) if n != REGISTER or i not in used] for n, vs in layout.bases}
    return LinearLayout.of(bases, dict(zip(layout.out_dims, shape)))


def whole_layout(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The layout of a whole of a shape of which registers tell parts apart that have this layout."""
    bits = part_bits(LinearLayout.of({}, dict(zip(layout.out_dims, shape))), layout.shape)
    bases = {n: [*vs, *bits] if n == REGISTER else list(vs) for n, vs in layout.bases}
    return LinearLayout.of(bases, dict(zip(layout.out_dims, shape)))


def in_registers(layout: LinearLayout, vectors: Sequence[Vector]) -> LinearLayout:
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


def cat_layout(layout: LinearLayout, dim: int) -> LinearLayout:
    """The layout of two tiles of one layout, one after the other along a dimension: the second in further registers."""
    names = dim_names(len(layout.outs))
    return (layout * LinearLayout.identity(2, REGISTER, f"dim{dim}")).transpose_outs(names)
