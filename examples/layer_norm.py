# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""y = (x - mean) / sqrt(variance + epsilon) * weight + bias along rows, in tiles of 256 columns.

Shows: a row that is longer than a tile, with partial sums kept as a tile and reduced once at the end; a mask for
the columns past the end, where zero padding would be wrong; a scalar argument; outputs of another rank.
"""

from __future__ import annotations

import cuda.tile as ct
import numpy as np

from examples.signatures import array, scalar

TILE = 256


@ct.kernel
def layer_norm(x, weight, bias, y, mean_out, rstd_out, epsilon: float, tile: ct.Constant[int]):
    row = ct.bid(0)
    count = x.shape[1]
    steps = ct.num_tiles(x, 1, (1, tile))

    sums = ct.zeros((1, tile), ct.float32)
    for j in range(steps):
        sums += ct.load(x, (row, j), (1, tile), padding_mode=ct.PaddingMode.ZERO)
    mean = ct.sum(sums, 1, keepdims=True) / count

    squares = ct.zeros((1, tile), ct.float32)
    for j in range(steps):
        part = ct.load(x, (row, j), (1, tile), padding_mode=ct.PaddingMode.ZERO)
        inside = (j * tile + ct.arange(tile, dtype=ct.int32))[None, :] < count
        centred = ct.where(inside, part - mean, 0.0)
        squares += centred * centred
    rstd = ct.rsqrt(ct.sum(squares, 1, keepdims=True) / count + epsilon)

    ct.store(mean_out, (row,), mean.reshape((1,)))
    ct.store(rstd_out, (row,), rstd.reshape((1,)))
    for j in range(steps):
        part = ct.load(x, (row, j), (1, tile))
        scale = ct.load(weight, (j,), (tile,))
        shift = ct.load(bias, (j,), (tile,))
        ct.store(y, (row, j), (part - mean) * rstd * scale + shift)


KERNEL = layer_norm
PARAMETERS = (
    array(ct.float32, 2, multiple_of=4),
    array(ct.float32),
    array(ct.float32),
    array(ct.float32, 2, multiple_of=4),
    array(ct.float32),
    array(ct.float32),
    scalar(ct.float32),
    TILE,
)


def problem(rng: np.random.Generator) -> tuple[tuple[int, int, int], list]:
    """The grid and the arguments of one launch: 12 rows of 700."""
    rows, columns = 12, 700
    x = (3 + 2 * rng.standard_normal((rows, columns))).astype(np.float32)
    weight, bias = rng.standard_normal((2, columns), dtype=np.float32)
    outputs = [np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)]
    return (rows, 1, 1), [x, weight, bias, *outputs, 1e-5]


def reference(x, weight, bias, y, mean_out, rstd_out, epsilon) -> dict[str, np.ndarray]:
    """What the arrays that the kernel writes hold afterwards."""
    wide = x.astype(np.float64)
    mean = wide.mean(axis=1)
    rstd = 1 / np.sqrt(wide.var(axis=1) + epsilon)
    result = (wide - mean[:, None]) * rstd[:, None] * weight + bias
    results = {"y": result, "mean_out": mean, "rstd_out": rstd}
    return {name: value.astype(np.float32) for name, value in results.items()}
