# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""sm_100: pairs of binary32, three-operand minimum, 256-bit accesses, float reductions over a warp."""

from __future__ import annotations

import math

import numpy as np

from . import exact
from .exact import F32, flush
from .floating import spread
from .memory import bits
from .table import Family, Launch, Source, per_lane

BLACKWELL = Family(Source("blackwell", archs=("sm_100a",)))


@BLACKWELL.add()
def f32_pairs(rng: np.random.Generator) -> Launch:
    a, b, c = (spread(rng, 64, np.float32, -10, 10) for _ in range(3))
    a[:8], b[:8], c[:8] = (spread(rng, 8, np.float32, -140, -110) for _ in range(3))

    def formula(x: float, y: float, z: float) -> list[float]:
        fx, fy, fz = (flush(value, F32) for value in (x, y, z))
        return [
            exact.add(x, y, F32), exact.add(x, -y, F32, "rz"), exact.mul(x, y, F32, "rp"),
            flush(exact.fma(fx, fy, fz, F32), F32),
        ]  # fmt: skip

    return Launch([np.zeros(4 * 64, np.float32), a, b, c], {0: per_lane(formula, [a, b, c], np.float32)})


@BLACKWELL.add(block=64)
def f32_min3(rng: np.random.Generator) -> Launch:
    a, b, c = (spread(rng, 64, np.float32, -2, 2) for _ in range(3))
    a[3], b[9], c[20], c[21] = math.nan, math.nan, math.nan, math.inf

    def formula(x: float, y: float, z: float) -> list[float]:
        numbers = [value for value in (x, y, z) if not math.isnan(value)]
        missing = len(numbers) < 3
        return [min(numbers), math.nan if missing else max(map(abs, numbers))]

    return Launch([np.zeros(2 * 64, np.float32), a, b, c], {0: per_lane(formula, [a, b, c], np.float32)})


@BLACKWELL.add()
def wide_vectors(rng: np.random.Generator) -> Launch:
    source = bits(rng, (32, 8), np.uint32)
    return Launch([np.zeros((32, 8), np.uint32), source], {0: source[:, ::-1].copy()})


@BLACKWELL.add(block=64)
def redux_f32(rng: np.random.Generator) -> Launch:
    a = spread(rng, 64, np.float32, -3, 6)
    a[40] = np.nan  # .NaN passes it on, the plain form skips it
    low = [a[:32].min(), np.nanmin(a[32:])]
    high = [np.abs(a[:32]).max(), np.float32(np.nan)]
    want = np.repeat(np.array([low, high], np.float32), 32, axis=1)
    return Launch([np.zeros(2 * 64, np.float32), a], {0: want})


@BLACKWELL.add()
def load_bytes_transposed(rng: np.random.Generator) -> Launch:
    tiles = bits(rng, (2, 16, 16), np.uint8)
    lane = np.arange(32)

    def register(tile: np.ndarray, half: int) -> np.ndarray:
        rows = tile[4 * (lane % 4)[:, None] + np.arange(4), (lane // 4 + 8 * half)[:, None]]
        return np.ascontiguousarray(rows).view(np.uint32).ravel()

    both = [register(tile, half) for tile in tiles for half in range(2)]
    want = np.concatenate([*both[:2], *both])
    return Launch([np.zeros(6 * 32, np.uint32), tiles.view(np.uint32)], {0: want})
