# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""c = a + b, one tile of 256 elements for each tile block.

Shows: tile views of 1-D arrays, and that a length which the tile does not divide needs no mask: what a load
reads past the end is padding, and what a store writes past the end is dropped.
"""

from __future__ import annotations

import cuda.tile as ct
import numpy as np

from examples.signatures import array

TILE = 256


@ct.kernel
def vector_add(a, b, c, tile: ct.Constant[int]):
    block = ct.bid(0)
    x = ct.load(a, (block,), (tile,))
    y = ct.load(b, (block,), (tile,))
    ct.store(c, (block,), x + y)


KERNEL = vector_add
PARAMETERS = (array(ct.float32), array(ct.float32), array(ct.float32), TILE)


def problem(rng: np.random.Generator) -> tuple[tuple[int, int, int], list]:
    """The grid and the arguments of one launch: 1000 elements, so that the last tile is not full."""
    n = 1000
    a, b = rng.standard_normal((2, n), dtype=np.float32)
    return (-(-n // TILE), 1, 1), [a, b, np.zeros(n, np.float32)]


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> dict[str, np.ndarray]:
    """What the arrays that the kernel writes hold afterwards."""
    return {"c": a + b}
