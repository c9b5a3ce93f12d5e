# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cooperative groups and libcu++ as their headers expand them, against numpy."""

from __future__ import annotations

import numpy as np

from .table import Array, Family, Launch, Source, slots

LIBRARY = Family(Source("library"))


@LIBRARY.add(block=64)
def group_tiles(rng: np.random.Generator) -> Launch:
    a = rng.integers(-100, 100, 64).astype(np.int32)
    tiles = a.reshape(4, 16)
    lane = np.arange(64)
    ballots = [sum(int(x > 0) << k for k, x in enumerate(tile)) for tile in tiles.tolist()]
    expected = slots(
        [
            np.repeat(tiles.sum(axis=1), 16), np.repeat(tiles.max(axis=1), 16), np.cumsum(tiles, axis=1),
            np.repeat(tiles[:, 3], 16), lane // 16 * 100 + lane % 16, np.repeat(ballots, 16),
            np.repeat((tiles > 95).any(axis=1), 16), np.full(64, 64),
        ],
        np.int32,
    )  # fmt: skip
    return Launch([np.zeros(8 * 64, np.int32), a], {0: expected})


@LIBRARY.add(block=96)
def group_coalesced(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 100, 96).astype(np.int32)
    chosen = a % 3 == 0

    def check(got: Array) -> str | None:
        """Tickets are all different; those of one warp are consecutive, in lane order."""
        if (got[~chosen] != -1).any() or sorted(got[chosen].tolist()) != list(range(int(chosen.sum()))):
            return "tickets are not 0..n-1, once each"
        for warp in range(3):
            part = slice(32 * warp, 32 * warp + 32)
            if (np.diff(got[part][chosen[part]]) != 1).any():
                return f"the tickets of warp {warp} are not consecutive"
        return None

    args = [np.zeros(96, np.int32), np.zeros(1, np.int32), a]
    return Launch(args, {0: check, 1: np.array([chosen.sum()], np.int32)}, varies=True)


@LIBRARY.add(block=64)
def group_copy(rng: np.random.Generator) -> Launch:
    a = rng.integers(-1000, 1000, 256).astype(np.int32)
    return Launch([np.zeros(64, np.int32), a], {0: a[::-1][:64] + a[:64]})


@LIBRARY.add(block=64, grid=2)
def standard_atomics(rng: np.random.Generator) -> Launch:
    a = rng.integers(-100, 100, 128).astype(np.int32)
    cells = np.zeros(10, np.int32)
    cells[1:3], cells[8] = 1000, 1
    want = cells.copy()
    want[0], want[1:3], want[9] = a.sum(), a.reshape(2, 64).min(axis=1), 7
    product = 1
    for value in a.tolist():
        product = product * (value | 1) & 0xFFFFFFFF
    want[8] = np.uint32(product).view(np.int32)
    sums = np.array([a.sum()], np.float32)
    return Launch([cells, np.zeros(1, np.float32), a], {0: want, 1: sums})


@LIBRARY.add(block=64)
def standard_barrier(rng: np.random.Generator) -> Launch:
    a = rng.integers(-1000, 1000, 64).astype(np.int32)
    others = a[(np.arange(64) * 7 + 1) & 63]
    want = sum(a * r + others + r for r in range(4))
    return Launch([np.zeros(64, np.int32), a], {0: np.asarray(want, np.int32)})


@LIBRARY.add(block=64)
def standard_pipeline(rng: np.random.Generator) -> Launch:
    a = rng.integers(-1000, 1000, (5, 64)).astype(np.int32)
    total = np.zeros(64, np.int64)
    for tile in a:
        total = total * 3 + tile[::-1]
    return Launch([np.zeros(64, np.int32), a, 5], {0: total.astype(np.int32)})
