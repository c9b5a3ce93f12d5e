# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""y[i] = x[0] + ... + x[i], by one tile block that walks along the array.

Shows: a scan inside a tile, and a value carried from one step of a loop to the next.
"""

from __future__ import annotations

import cuda.tile as ct
import numpy as np

from examples.signatures import array

TILE = 128


@ct.kernel
def prefix_sum(x, y, tile: ct.Constant[int]):
    before = ct.zeros((1,), x.dtype)
    for i in range(ct.num_tiles(x, 0, (tile,))):
        part = ct.load(x, (i,), (tile,), padding_mode=ct.PaddingMode.ZERO)
        ct.store(y, (i,), ct.cumsum(part, 0) + before)
        before += ct.sum(part, 0, keepdims=True)


KERNEL = prefix_sum
PARAMETERS = (array(ct.float32), array(ct.float32), TILE)


def problem(rng: np.random.Generator) -> tuple[tuple[int, int, int], list]:
    """The grid and the arguments of one launch: 1000 elements."""
    x = rng.random(1000, dtype=np.float32)
    return (1, 1, 1), [x, np.zeros_like(x)]


def reference(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """What the arrays that the kernel writes hold afterwards."""
    return {"y": np.cumsum(x, dtype=np.float64).astype(np.float32)}
