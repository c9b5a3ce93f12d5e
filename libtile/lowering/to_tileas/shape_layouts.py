# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts that assignment starts from, and those through ops: the ones that only rename elements, and reductions.

Layouts have the input dimensions register, lane, warp and the output dimensions dim0, dim1, ... in the tile's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.builders import blocked, dim_names, without_copies_in_registers
from libtile.layouts.renaming import grown, inverse_permutation, permuted, reshaped, shrunk

__all__ = [
    "grown", "inverse_permutation", "permuted", "reshaped", "scalar_layout", "shrunk", "sliced", "spread",
    "without_copies_in_registers",
]  # fmt: skip

WARP_SIZE = 32


@lru_cache(maxsize=64)
def scalar_layout(warps: int) -> LinearLayout:
    """The layout of a tile of rank 0: every thread holds it."""
    return LinearLayout.of({REGISTER: [], LANE: [()] * 5, WARP: [()] * (warps.bit_length() - 1)}, {})


def spread(shape: Sequence[int], warps: int, vector: int, order: Sequence[int]) -> LinearLayout:
    """A blocked layout: each thread holds `vector` elements along order[0], lanes and then warps tile these.

    Threads go along the dimensions in `order`; those that find no element left hold copies.
    """
    return _spread(tuple(shape), warps, vector, tuple(order))


@lru_cache(maxsize=1024)
def _spread(shape: tuple[int, ...], warps: int, vector: int, order: tuple[int, ...]) -> LinearLayout:
    if not shape:
        return scalar_layout(warps)
    rank = len(shape)
    per_thread = [1] * rank
    per_thread[order[0]] = min(vector, shape[order[0]])
    left = [size // mine for size, mine in zip(shape, per_thread)]
    grids = []
    for count in (WARP_SIZE, warps):
        grid = [1] * rank
        for d in order:
            grid[d] = min(left[d], count // prod(grid))
            left[d] //= grid[d]
        grid[order[0]] *= count // prod(grid)  # threads without an element of their own
        grids.append(grid)
    return _padded(blocked(shape, per_thread, grids[0], grids[1], order), warps)


def _padded(layout: LinearLayout, warps: int) -> LinearLayout:
    """All lane and warp bits present: missing ones hold copies."""
    zero = (0,) * len(layout.outs)
    rows = {LANE: 5, WARP: warps.bit_length() - 1}
    bases = {
        name: [*vectors, *([zero] * (rows[name] - len(vectors)))] if name in rows else list(vectors)
        for name, vectors in layout.bases
    }
    return LinearLayout.of(bases, {n: 1 << b for n, b in layout.outs})


def sliced(layout: LinearLayout, dim: int) -> LinearLayout:
    """The layout of a reduction's result: without a dimension; the threads along it hold copies."""
    bases = {n: [v[:dim] + v[dim + 1 :] for v in vs] for n, vs in layout.bases}
    sizes = [s for d, s in enumerate(layout.shape) if d != dim]
    return without_copies_in_registers(LinearLayout.of(bases, dict(zip(dim_names(len(sizes)), sizes))))
