# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""c = a @ b with f16 operands and an f32 accumulator, one 64x64 tile of c for each tile block.

Shows: `mma` in a loop over tiles of the inner dimension, blocks grouped so that neighbours share rows of a in the
cache, and sizes that the tile does not divide (zero padding adds nothing to a sum).
"""

from __future__ import annotations

import cuda.tile as ct
import numpy as np

from examples.signatures import array

TILE_M, TILE_N, TILE_K = 64, 64, 32
GROUP = 4


@ct.kernel
def gemm(a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int], group: ct.Constant[int]):
    # Walk c in groups of `group` rows of tiles, column by column inside a group.
    rows = ct.cdiv(c.shape[0], tm)
    columns = ct.cdiv(c.shape[1], tn)
    block = ct.bid(0)
    first = block // (group * columns) * group
    height = min(rows - first, group)
    within = block % (group * columns)
    row = first + within % height
    column = within // height

    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (row, column), total.astype(c.dtype))


KERNEL = gemm
PARAMETERS = (
    array(ct.float16, 2, multiple_of=8),
    array(ct.float16, 2, multiple_of=8),
    array(ct.float32, 2, multiple_of=4),
    TILE_M,
    TILE_N,
    TILE_K,
    GROUP,
)


def problem(rng: np.random.Generator) -> tuple[tuple[int, int, int], list]:
    """The grid and the arguments of one launch: 200x136 times 136x152."""
    m, n, k = 200, 152, 136
    a = rng.standard_normal((m, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    return (-(-m // TILE_M) * -(-n // TILE_N), 1, 1), [a, b, np.zeros((m, n), np.float32)]


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> dict[str, np.ndarray]:
    """What the arrays that the kernel writes hold afterwards."""
    return {"c": (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)}
