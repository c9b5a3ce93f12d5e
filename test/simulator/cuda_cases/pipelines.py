# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""cp.async: what lands in shared memory, and pipelines that overlap it."""

from __future__ import annotations

import numpy as np

from .memory import bits
from .table import Family, Launch, Source

PIPELINES = Family(Source("pipelines"))


@PIPELINES.add()
def async_copies(rng: np.random.Generator) -> Launch:
    source = bits(rng, 32 * 16, np.uint8)
    want = np.full((7, 32, 16), 0x55, np.uint8)
    lines = source.reshape(32, 16)
    for i in range(32):
        want[0, i, :4] = lines[i, :4]
        want[1, i, :8] = lines[i, :8]
        want[2, i] = lines[i]
        want[3, i] = np.where(np.arange(16) < i % 17, lines[i], 0)
        want[4, i, :8] = lines[i, :8] if i & 1 else 0
        want[5, i] = 0 if i & 1 else lines[i]
    return Launch([np.zeros(7 * 128, np.uint32), source], {0: want})


@PIPELINES.add(block=64)
def double_buffer(rng: np.random.Generator) -> Launch:
    source = rng.integers(-1000, 1000, (5, 256)).astype(np.int32)
    lane = np.arange(64)
    want = sum(source[t][(lane + k * 64 + t) & 255] * (k + 1) for t in range(5) for k in range(4))
    return Launch([np.zeros(64, np.int32), source, 5], {0: np.asarray(want, np.int32)})


@PIPELINES.add(block=32, dynamic_shared=4 * 128 * 4)
def four_stages(rng: np.random.Generator) -> Launch:
    count, tiles = 6 * 128 + 77, 7
    source = rng.integers(-1000, 1000, count).astype(np.int32)
    padded = np.zeros(tiles * 128, np.int64)
    padded[:count] = source
    total = np.zeros(32, np.int64)
    lane = np.arange(32)
    for tile in padded.reshape(tiles, 128):
        for k in range(4):
            total = (total * 3 + tile[(lane * 5 + k * 32) & 127]) & 0xFFFFFFFF
    return Launch([np.zeros(32, np.int32), source, count, tiles], {0: total.astype(np.uint32)})


def gemm(rng: np.random.Generator, m: int, n: int, depth: int) -> Launch:
    a, b = rng.integers(-4, 5, (m, depth)).astype(np.float16), rng.integers(-4, 5, (depth, n)).astype(np.float16)
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    return Launch([np.zeros((m, n), np.float16), a, b, depth], {0: want})


PIPELINES.add(entry="staged_gemm_32x64", block=64)(lambda rng: gemm(rng, 32, 64, 96))
PIPELINES.add(entry="staged_gemm_128x128", block=128)(lambda rng: gemm(rng, 128, 128, 64))
