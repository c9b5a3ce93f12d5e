# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Causal attention without the score matrix in memory ("flash" attention), f16 in and out, f32 inside.

out = softmax(scale * q @ transpose(k), causal) @ v for each batch and head.

Shows: two chained `mma`s, running maximum and sum that are rescaled in each step, loading a transposed tile by
`order`, 4-D arrays, and a loop that ends at the diagonal.
"""

from __future__ import annotations

import cuda.tile as ct
import numpy as np

from examples.signatures import array, scalar

TILE_Q, TILE_K, HEAD = 64, 32, 64
LOG2_E = 1.4426950408889634


@ct.kernel(occupancy=2)
def attention(
    q, k, v, out, scale: float, heads: int, tq: ct.Constant[int], tk: ct.Constant[int], width: ct.Constant[int]
):
    block = ct.bid(0)
    batch = ct.bid(1) // heads
    head = ct.bid(1) % heads
    length = k.shape[2]
    factor = scale * LOG2_E  # exp(x) is computed as exp2(x * log2(e))

    rows = (block * tq + ct.arange(tq, dtype=ct.int32))[:, None]
    queries = ct.load(q, (batch, head, block, 0), (1, 1, tq, width)).reshape((tq, width))
    best = ct.full((tq, 1), -np.inf, ct.float32)
    total = ct.zeros((tq, 1), ct.float32)
    result = ct.zeros((tq, width), ct.float32)

    for j in range(ct.cdiv(min((block + 1) * tq, length), tk)):
        keys = ct.load(k, (batch, head, 0, j), (1, 1, width, tk), order=(0, 1, 3, 2), latency=2)
        scores = ct.mma(queries, keys.reshape((width, tk)), ct.zeros((tq, tk), ct.float32))
        columns = (j * tk + ct.arange(tk, dtype=ct.int32))[None, :]
        scores = ct.where((columns <= rows) & (columns < length), scores * factor, -np.inf)

        higher = max(best, ct.max(scores, 1, keepdims=True))
        weights = ct.exp2(scores - higher)
        correction = ct.exp2(best - higher)
        total = total * correction + ct.sum(weights, 1, keepdims=True)
        values = ct.load(v, (batch, head, j, 0), (1, 1, tk, width), padding_mode=ct.PaddingMode.ZERO, latency=4)
        result = ct.mma(weights.astype(v.dtype), values.reshape((tk, width)), result * correction)
        best = higher

    final = (result / total).astype(out.dtype)
    ct.store(out, (batch, head, block, 0), final.reshape((1, 1, tq, width)))


KERNEL = attention
PARAMETERS = (
    *(array(ct.float16, 4, stride_divisible_by=(8, 8, 8, 1)) for _ in range(4)),
    scalar(ct.float32),
    scalar(ct.int32),
    TILE_Q,
    TILE_K,
    HEAD,
)


def problem(rng: np.random.Generator) -> tuple[tuple[int, int, int], list]:
    """The grid and the arguments of one launch: 2 batches of 2 heads, 100 positions."""
    batches, heads, length = 2, 2, 100
    q, k, v = rng.standard_normal((3, batches, heads, length, HEAD)).astype(np.float16)
    grid = (-(-length // TILE_Q), batches * heads, 1)
    return grid, [q, k, v, np.zeros_like(q), HEAD**-0.5, heads]


def reference(q, k, v, out, scale, heads) -> dict[str, np.ndarray]:
    """What the arrays that the kernel writes hold afterwards."""
    length = q.shape[2]
    scores = scale * np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k.astype(np.float64))
    scores[..., np.triu(np.ones((length, length), bool), 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return {"out": (weights @ v.astype(np.float64)).astype(np.float16)}
