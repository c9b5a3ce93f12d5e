# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""y = softmax(x) along rows, one row for each tile block, the whole row in one tile.

Shows: reductions along an axis, `exp`, and padding with -inf, so that what lies past the end of a row of 1000
elements neither is the maximum nor adds to the sum.
"""

from __future__ import annotations

import cuda.tile as ct
import numpy as np

from examples.signatures import array

WIDTH = 1024


@ct.kernel
def softmax(x, y, width: ct.Constant[int]):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, width), padding_mode=ct.PaddingMode.NEG_INF)
    powers = ct.exp(values - ct.max(values, 1, keepdims=True))
    ct.store(y, (row, 0), powers / ct.sum(powers, 1, keepdims=True))


KERNEL = softmax
PARAMETERS = (array(ct.float32, 2, multiple_of=4), array(ct.float32, 2, multiple_of=4), WIDTH)


def problem(rng: np.random.Generator) -> tuple[tuple[int, int, int], list]:
    """The grid and the arguments of one launch: 12 rows of 1000."""
    x = (4 * rng.standard_normal((12, 1000))).astype(np.float32)
    return (12, 1, 1), [x, np.zeros_like(x)]


def reference(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """What the arrays that the kernel writes hold afterwards."""
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return {"y": (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)}
