# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""counts[v] += 1 for each value v of an array of bytes.

Shows: atomic addition at computed addresses, with many elements of a tile hitting the same address, `gather` with
a bounds check, and a mask made by pushing unwanted indices out of bounds.
"""

from __future__ import annotations

import cuda.tile as ct
import numpy as np

from examples.signatures import array

TILE = 512


@ct.kernel
def histogram(values, counts, tile: ct.Constant[int]):
    where = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    found = ct.gather(values, where).astype(ct.int32)
    # An atomic on an index out of bounds does nothing.
    bins = ct.where(where < values.shape[0], found, counts.shape[0])
    ct.atomic_add(counts, bins, 1, memory_order=ct.MemoryOrder.RELAXED)


KERNEL = histogram
PARAMETERS = (array(ct.uint8), array(ct.int32), TILE)


def problem(rng: np.random.Generator) -> tuple[tuple[int, int, int], list]:
    """The grid and the arguments of one launch: 3000 values, counts that do not start at zero."""
    values = np.minimum(rng.geometric(0.02, 3000), 255).astype(np.uint8)
    return (-(-3000 // TILE), 1, 1), [values, rng.integers(0, 10, 256, dtype=np.int32)]


def reference(values: np.ndarray, counts: np.ndarray) -> dict[str, np.ndarray]:
    """What the arrays that the kernel writes hold afterwards."""
    return {"counts": counts + np.bincount(values, minlength=256).astype(np.int32)}
