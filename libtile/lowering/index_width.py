# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How wide the arithmetic on element offsets within a memref has to be.

A tile's last element may lie beyond the tensor's end by all but one element of the tile, so the largest offset that an
access computes is the sum over the dimensions of (size - 1 + tile - 1) * stride. `assume` bounds sizes and strides; an
i32 is at most 2**31 - 1. The reference assembler counts the same way, and in elements, not in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.pointers import GetDimSizeOp
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType, TiledViewType
from libtile.lowering.to_tileas.accesses import numbers

WIDE, NARROW = 64, 32


def index_bits(memref: Operation) -> int:
    """The bits of a signed number that holds every offset of the accesses through a `make_memref`, at most 64.

    0 for one without accesses.
    """
    type_ = memref.results[0].type
    assert isinstance(type_, MemRefType)
    sizes = _bounds(type_.shape, numbers(memref, "size_bounds"))
    strides = _bounds(type_.strides, numbers(memref, "stride_bounds"))
    largest = 0
    for use in memref.results[0].uses:
        view = use.operation.results[0] if use.operation.results else None
        if view is None or not isinstance(view.type, TiledViewType):
            continue
        if any(not isinstance(user.operation, GetDimSizeOp) for user in view.uses):
            largest = max(largest, _largest_number(view.type, sizes, strides))
    return min(largest.bit_length() + 1, WIDE) if largest else 0


def _bounds(static: Sequence[int], dynamic: Sequence[int]) -> list[int]:
    """The largest value of each size or stride."""
    known = list(dynamic) or [1 << 62] * len(static)
    return [known[d] if value == DYNAMIC else value for d, value in enumerate(static)]


def _largest_number(view: TiledViewType, sizes: Sequence[int], strides: Sequence[int]) -> int:
    """The largest of the numbers that an access computes: an offset, or (where a stride is 0) a position."""
    tiles = dict(zip(view.dim_map, view.shape))
    ends = [size - 1 + tiles.get(d, 1) - 1 for d, size in enumerate(sizes)]
    return max(sum(end * stride for end, stride in zip(ends, strides)), *ends, 1)
