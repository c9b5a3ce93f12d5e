# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Triton's kernels beside ours: products, softmax and sums, written as its tutorials do, with its choice of a tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import triton
import triton.language as tl

_TILES = [
    triton.Config({"M": m, "N": n, "K": k}, num_stages=stages, num_warps=warps)
    for m, n, k, stages, warps in (
        (128, 128, 64, 3, 4), (128, 128, 64, 4, 8), (128, 256, 64, 3, 8), (256, 128, 64, 3, 8), (128, 256, 128, 3, 8),
    )
]  # fmt: skip
_GROUP = 8


@triton.autotune(configs=_TILES, key=["m", "n", "k", "right_row"])
@triton.jit
def _product(a, b, c, m, n, k, right_row, right_column, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
             GROUP: tl.constexpr):  # fmt: skip
    block = tl.program_id(0)
    rows, columns = tl.cdiv(m, M), tl.cdiv(n, N)
    group = block // (GROUP * columns)
    first = group * GROUP
    size = min(rows - first, GROUP)
    row = first + (block % (GROUP * columns)) % size
    column = (block % (GROUP * columns)) // size
    lines = row * M + tl.arange(0, M)
    places = column * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    left = a + lines[:, None] * k + depth[None, :]
    right = b + depth[:, None] * right_row + places[None, :] * right_column
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(tl.cdiv(k, K)):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += K
        right += K * right_row
    tl.store(c + lines[:, None] * n + places[None, :], total.to(tl.float16))


@triton.jit
def _softmax(x, y, columns: tl.constexpr):
    place = tl.program_id(0) * columns + tl.arange(0, columns)
    values = tl.load(x + place).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + place, (powers / tl.sum(powers, axis=0)).to(tl.float16))


@triton.jit
def _add(a, b, c, count, SIZE: tl.constexpr):
    place = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = place < count
    tl.store(c + place, tl.load(a + place, mask=inside) + tl.load(b + place, mask=inside), mask=inside)


def product(arrays: Sequence[Any], transposed: bool = False) -> None:
    a, b, c = arrays
    (m, n), k = c.shape, a.shape[1]
    strides = (1, k) if transposed else (n, 1)
    _product[lambda tile: (triton.cdiv(m, tile["M"]) * triton.cdiv(n, tile["N"]),)](
        a, b, c, m, n, k, *strides, GROUP=_GROUP
    )


def softmax(arrays: Sequence[Any]) -> None:
    x, y = arrays
    _softmax[(x.shape[0],)](x, y, x.shape[1], num_warps=8)


def add(arrays: Sequence[Any]) -> None:
    a, b, c = arrays
    _add[(triton.cdiv(a.numel(), 1024),)](a, b, c, a.numel(), SIZE=1024)


KERNELS: dict[str, Callable[[Sequence[Any]], None]] = {
    "product": product,
    "product_nt": lambda arrays: product(arrays, transposed=True),
    "softmax": softmax,
    "add": add,
}
"""By what a launch computes."""
