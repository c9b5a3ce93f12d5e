# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""y = transpose(x) for 16-bit elements, by tiles of 32x64.

Shows: `transpose` of a tile, a two-dimensional grid, and edges in both directions.
"""

from __future__ import annotations

import cuda.tile as ct
import numpy as np

from examples.signatures import array

TILE_M, TILE_N = 32, 64


@ct.kernel
def transpose(x, y, tm: ct.Constant[int], tn: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (j, i), ct.load(x, (i, j), (tm, tn)).transpose())


KERNEL = transpose
PARAMETERS = (array(ct.int16, 2), array(ct.int16, 2), TILE_M, TILE_N)


def problem(rng: np.random.Generator) -> tuple[tuple[int, int, int], list]:
    """The grid and the arguments of one launch: 75x131."""
    x = rng.integers(-(2**15), 2**15, (75, 131), dtype=np.int16)
    return (-(-75 // TILE_M), -(-131 // TILE_N), 1), [x, np.zeros((131, 75), np.int16)]


def reference(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """What the arrays that the kernel writes hold afterwards."""
    return {"y": np.ascontiguousarray(x.T)}
