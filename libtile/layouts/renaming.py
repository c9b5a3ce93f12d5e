# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts through ops that only rename elements: what the result has when the source has one, and the reverse.

Output dimensions are dim0, dim1, ... in the tile's order. Nothing moves: every thread keeps the elements that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from libtile.layouts.builders import dim_names, fit_to_shape
from libtile.layouts.linear import OFFSET, REGISTER, LinearLayout


def shrunk(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The layout of a smaller tile that is repeated to one with this layout (a broadcast's source, a part): bits that
    leave the smaller tile hold copies."""
    return _shrunk(layout, tuple(shape))


# A kernel asks the same of its few layouts at each of its ops, and so does the next kernel.
@lru_cache(maxsize=1024)
def _shrunk(layout: LinearLayout, shape: tuple[int, ...]) -> LinearLayout:
    return fit_to_shape(layout, shape)


def grown(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The layout of a broadcast's result whose threads keep the elements that they have: copies in registers."""
    names = dim_names(len(shape))
    extra = LinearLayout.empty()
    for name, size, held in zip(reversed(names), reversed(list(shape)), reversed(layout.shape)):
        if held < size:
            extra = extra * LinearLayout.identity(size, REGISTER, name)
    return (layout * extra).transpose_outs(names)


def reshaped(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """The layout after a row-major reshape. It goes both ways: the source's from the result's is the same function."""
    return _reshaped(layout, tuple(shape))


@lru_cache(maxsize=1024)
def _reshaped(layout: LinearLayout, shape: tuple[int, ...]) -> LinearLayout:
    rank = len(shape)
    flat = layout.transpose_outs(list(reversed(layout.out_dims)))
    cut = flat.reshape_outs({f"new{i}": shape[i] for i in reversed(range(rank))})
    renamed = cut.transpose_outs([f"new{i}" for i in range(rank)])
    return renamed.rename_outs({f"new{i}": f"dim{i}" for i in range(rank)})


def permuted(layout: LinearLayout, permutation: Sequence[int]) -> LinearLayout:
    """The layout of a permute's result: its dimension i is the source's `permutation[i]`."""
    moved = layout.transpose_outs([f"dim{p}" for p in permutation])
    temporary = moved.rename_outs({f"dim{p}": f"new{i}" for i, p in enumerate(permutation)})
    return temporary.rename_outs({f"new{i}": f"dim{i}" for i in range(len(permutation))})


def without_register_copies(layout: LinearLayout) -> LinearLayout:
    """The layout without those bits of registers that change no index which other bits do not change."""
    free = layout.free_bits().get(REGISTER, 0)
    kept = tuple(v for i, v in enumerate(layout.basis(REGISTER)) if not free >> i & 1)
    return LinearLayout(tuple((n, kept if n == REGISTER else vs) for n, vs in layout.bases), layout.outs)


def inverse_permutation(permutation: Sequence[int]) -> list[int]:
    result = [0] * len(permutation)
    for i, p in enumerate(permutation):
        result[p] = i
    return result


def halved(layout: LinearLayout) -> LinearLayout:
    """The layout of offsets of the two halves of each element, which lie side by side along the last dimension."""
    (*first, last), basis = layout.shape, layout.basis(OFFSET)
    unit = (*(0 for _ in first), 1)
    vectors = [unit, *((*v[:-1], 2 * v[-1]) for v in basis)]
    return LinearLayout.of({OFFSET: vectors}, dict(zip(dim_names(len(layout.shape)), (*first, 2 * last))))


def joined(layout: LinearLayout) -> LinearLayout | None:
    """The layout of offsets of elements whose halves lie side by side along a dimension; None where they do not."""
    unit, *basis = layout.basis(OFFSET)
    dim = next((d for d, n in enumerate(unit) if n == 1 and sum(unit) == 1), None)
    if dim is None or any(v[dim] % 2 for v in basis):
        return None
    vectors = [tuple(n // 2 if d == dim else n for d, n in enumerate(v)) for v in basis]
    shape = [n // 2 if d == dim else n for d, n in enumerate(layout.shape)]
    return LinearLayout.of({OFFSET: vectors}, dict(zip(layout.out_dims, shape)))
