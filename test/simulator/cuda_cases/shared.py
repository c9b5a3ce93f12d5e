# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shared memory and barriers: block algorithms against numpy's one-liners."""

from __future__ import annotations

import numpy as np

from .table import Family, Launch, Source, slots

SHARED = Family(Source("shared"))


def small(rng: np.random.Generator, shape: int | tuple[int, ...]) -> np.ndarray:
    """Integers in float32: sums of their products are exact in every order."""
    return rng.integers(-8, 9, shape).astype(np.float32)


@SHARED.add(block=128, grid=3)
def block_reduce(rng: np.random.Generator) -> Launch:
    a = rng.integers(-10000, 10000, 700).astype(np.int32)
    want = np.pad(a, (0, 68)).reshape(3, 256).sum(axis=1, dtype=np.int32)
    return Launch([np.zeros(3, np.int32), a, 700], {0: want})


@SHARED.add(block=128)
def block_scan(rng: np.random.Generator) -> Launch:
    a = rng.integers(-10000, 10000, 128).astype(np.int32)
    return Launch([np.zeros(128, np.int32), a], {0: np.cumsum(a, dtype=np.int32)})


@SHARED.add(block=64, dynamic_shared=512)
def tree_scan(rng: np.random.Generator) -> Launch:
    a = rng.integers(-10000, 10000, 128).astype(np.int32)
    want = np.concatenate([[0], np.cumsum(a, dtype=np.int32)[:-1]]).astype(np.int32)
    return Launch([np.zeros(128, np.int32), a, 128], {0: want})


def transposed(rng: np.random.Generator) -> Launch:
    a = rng.normal(size=(40, 56)).astype(np.float32)
    return Launch([np.zeros((56, 40), np.float32), a, 56, 40], {0: a.T.copy()})


SHARED.add(entry="transpose_conflicts", block=(32, 8), grid=(2, 2))(transposed)
SHARED.add(entry="transpose_padded", block=(32, 8), grid=(2, 2))(transposed)


@SHARED.add(block=(16, 16), grid=(2, 2))
def tiled_gemm(rng: np.random.Generator) -> Launch:
    m, n, k = 27, 30, 37
    a, b = small(rng, (m, k)), small(rng, (k, n))
    return Launch([np.zeros((m, n), np.float32), a, b, m, n, k], {0: a @ b})


@SHARED.add(block=128)
def named_barriers(rng: np.random.Generator) -> Launch:
    a = rng.integers(-1000, 1000, (5, 64)).astype(np.int32)
    want = sum(np.roll(2 * a[r], -r) for r in range(5))
    return Launch([np.zeros(64, np.int32), a, 5], {0: np.asarray(want, np.int32)})


@SHARED.add(block=64)
def barrier_reductions(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 99, 64).astype(np.uint32)
    a[50] = 99
    row = [np.count_nonzero(a & 1), 1, 1, np.count_nonzero(a < 50)]
    # The predicates of bar.red.and and .or reach C as 0 or non-zero.
    return Launch([np.zeros(4 * 64, np.uint32), a], {0: slots([np.full(64, v) for v in row], np.uint32)})


@SHARED.add(block=64)
def barrier_in_branches(rng: np.random.Generator) -> Launch:
    a = rng.integers(-1000, 1000, 64).astype(np.int32)
    return Launch([np.zeros(64, np.int32), a], {0: np.concatenate([-a[32:], a[:32]])})


@SHARED.add(block=(8, 8), grid=(3, 3))
def stencil(rng: np.random.Generator) -> Launch:
    a = small(rng, (24, 24))
    p = np.pad(a, 1)
    want = 4 * a - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]
    return Launch([np.zeros((24, 24), np.float32), a, 24], {0: want})


@SHARED.add(block=32, dynamic_shared=32 * 4 + 32 * 8)
def dynamic_shared(rng: np.random.Generator) -> Launch:
    a = small(rng, 32)
    want = slots([3 * np.roll(a, -1) - np.roll(a, -2), np.full(32, 384)], np.float32)
    return Launch([np.zeros(2 * 32, np.float32), a, 32], {0: want})


@SHARED.add(block=32)
def odd_even_sort(rng: np.random.Generator) -> Launch:
    data = rng.integers(-100, 100, 64).astype(np.int32)
    return Launch([data], {0: np.sort(data)})
