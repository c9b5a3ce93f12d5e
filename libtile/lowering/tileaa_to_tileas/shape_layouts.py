# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts through ops that only rename elements: what the result has when the source has one, and the reverse.

Layouts have the input dimensions register, lane, warp and the output dimensions dim0, dim1, ... in the tile's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.builders import blocked, dim_names, fit_to_shape

WARP_SIZE = 32


def scalar_layout(warps: int) -> LinearLayout:
    """The layout of a tile of rank 0: every thread holds it."""
    return LinearLayout.of({REGISTER: [], LANE: [()] * 5, WARP: [()] * (warps.bit_length() - 1)}, {})


def spread(shape: Sequence[int], warps: int, vector: int, order: Sequence[int]) -> LinearLayout:
    """A blocked layout: each thread holds `vector` elements along order[0], lanes and then warps tile these.

    Threads go along the dimensions in `order`; those that find no element left hold copies.
    """
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


def without_copies_in_registers(layout: LinearLayout) -> LinearLayout:
    """Drop register bits that do not move to another element."""
    return LinearLayout(
        tuple((n, tuple(v for v in vs if any(v)) if n == REGISTER else vs) for n, vs in layout.bases), layout.outs
    )


def shrunk(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The layout of a tile that broadcasts to one with this layout: dimensions of size 1 have no bits left."""
    return fit_to_shape(layout, shape)


def grown(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The layout of a broadcast's result whose threads keep the elements that they have: copies in registers."""
    outs = dict(zip(layout.out_dims, layout.shape))
    extra = LinearLayout.empty()
    for name, size in zip(reversed(dim_names(len(shape))), reversed(list(shape))):
        if outs[name] < size:
            extra = extra * LinearLayout.identity(size, REGISTER, name)
    return (layout * extra).transpose_outs(dim_names(len(shape)))


def reshaped(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The layout after a row-major reshape. It goes both ways: the source's from the result's is the same function."""
    rank = len(shape)
    flat = layout.transpose_outs(list(reversed(layout.out_dims)))
    names = {f"dim{i}": f"new{i}" for i in range(rank)}
    cut = flat.reshape_outs({f"new{i}": shape[i] for i in reversed(range(rank))})
    return cut.transpose_outs(list(names.values())).rename_outs({new: old for old, new in names.items()})


def permuted(layout: LinearLayout, permutation: Sequence[int]) -> LinearLayout:
    """The layout of a permute's result: its dimension i is the source's `permutation[i]`."""
    moved = layout.transpose_outs([f"dim{p}" for p in permutation])
    temporary = moved.rename_outs({f"dim{p}": f"new{i}" for i, p in enumerate(permutation)})
    return temporary.rename_outs({f"new{i}": f"dim{i}" for i in range(len(permutation))})


def inverse_permutation(permutation: Sequence[int]) -> list[int]:
    result = [0] * len(permutation)
    for i, p in enumerate(permutation):
        result[p] = i
    return result


def sliced(layout: LinearLayout, dim: int) -> LinearLayout:
    """The layout of a reduction's result: without a dimension; the threads along it hold copies."""
    bases = {n: [v[:dim] + v[dim + 1 :] for v in vs] for n, vs in layout.bases}
    sizes = [s for d, s in enumerate(layout.shape) if d != dim]
    return without_copies_in_registers(LinearLayout.of(bases, dict(zip(dim_names(len(sizes)), sizes))))
