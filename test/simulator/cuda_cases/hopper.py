# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""sm_90: elect, mbarrier, bulk copies and clusters."""

from __future__ import annotations

import numpy as np

from .memory import bits
from .table import Array, Family, Launch, Source

HOPPER = Family(Source("hopper", archs=("sm_90",)))

M32 = 0xFFFFFFFF


@HOPPER.add(block=64)
def elect_one(rng: np.random.Generator) -> Launch:
    def check(got: Array) -> str | None:
        leader, chosen, count = got.reshape(3, 2, 32)
        if (count != 1).any() or (leader != leader[:, :1]).any():
            return "not one leader per warp"
        return None if (np.argmax(chosen, axis=1) == leader[:, 0]).all() else "the predicate is not the leader's"

    return Launch([np.zeros(3 * 64, np.uint32)], {0: check}, varies=True)


@HOPPER.add(block=64)
def mbarrier_phases(rng: np.random.Generator) -> Launch:
    rounds = 3
    source = rng.integers(-1000, 1000, (rounds, 64)).astype(np.int32)
    lane = np.arange(64)
    total = np.zeros(64, np.int64)
    for r in range(rounds):
        total = total * 5 + source[r][(lane * 3 + r) & 63]
    want = np.concatenate([total, np.ones(64)]).astype(np.int32)
    return Launch([np.zeros(128, np.int32), source, rounds], {0: want})


@HOPPER.add(block=64)
def bulk_copy(rng: np.random.Generator) -> Launch:
    source = bits(rng, 256, np.uint32)
    return Launch([np.zeros(256, np.uint32), source], {0: source * np.uint32(2) + np.uint32(1)})


@HOPPER.add(block=64)
def bulk_ring(rng: np.random.Generator) -> Launch:
    tiles = 7
    source = bits(rng, (tiles, 128), np.uint32)
    lane = np.arange(32)
    total = np.zeros(32, np.int64)
    for tile in source.astype(np.int64):
        for k in range(4):
            total = (total * 7 + tile[(lane * 5 + k * 32) & 127]) & M32
    return Launch([np.zeros(32, np.uint32), source, tiles], {0: total.astype(np.uint32)})


@HOPPER.add(block=64)
def async_copy_barrier(rng: np.random.Generator) -> Launch:
    source = bits(rng, 64, np.uint32)
    return Launch([np.zeros(64, np.uint32), source], {0: source[::-1].copy()})


@HOPPER.add(block=32, grid=4, cluster=2)
def cluster_exchange(rng: np.random.Generator) -> Launch:
    source = bits(rng, (4, 32), np.uint32)
    want = source[[1, 0, 3, 2]] + np.uint32(2000)
    return Launch([np.zeros((4, 32), np.uint32), source], {0: want})


@HOPPER.add()
def dependent_launch(rng: np.random.Generator) -> Launch:
    return Launch([np.zeros(32, np.uint32)], {0: np.arange(32, dtype=np.uint32)})


@HOPPER.add(block=32, grid=(4, 2), cluster=(2, 2))
def cluster_registers(rng: np.random.Generator) -> Launch:
    rows = [
        [x // 2, y // 2, 2, 1, x % 2, y % 2, 0, 2, 2, 1, y % 2 * 2 + x % 2, 4, 1] for y in range(2) for x in range(4)
    ]
    return Launch([np.zeros(8 * 13, np.uint32)], {0: np.array(rows, np.uint32)})


@HOPPER.add(block=32, grid=8, cluster=4)
def cluster_reduction(rng: np.random.Generator) -> Launch:
    source = bits(rng, (2, 4, 32), np.uint32)
    return Launch([np.zeros((2, 32), np.uint32), source], {0: source.sum(axis=1, dtype=np.uint32)})
