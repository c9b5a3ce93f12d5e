# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Atomics: totals that hold in every order, and per-thread cells where each old value is known."""

from __future__ import annotations

import functools
import operator

import ml_dtypes
import numpy as np

from .memory import bits
from .table import Family, Launch, Source, slots

ATOMICS = Family(Source("atomics"))
ATOMICS90 = Family(Source("atomics90", archs=("sm_90",)))


@ATOMICS.add(block=64, grid=2)
def atomic_int32(rng: np.random.Generator) -> Launch:
    a = bits(rng, 128, np.uint32)
    values, signed = a.tolist(), a.view(np.int32).tolist()
    start = [5, 7, 100, -100, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0x80000000, 1, 0, 4, 0, 0]
    # inc wraps to 0 after 12, dec wraps to 9 after 0: 128 steps each.
    incremented = 128 % 13
    decremented = (4 - 128) % 10
    want = [
        5 + sum(values), 7 - sum(values), min(100, *signed), max(-100, *signed), min(values), max(values),
        functools.reduce(operator.and_, (v | 0x00FF00FF for v in values)),
        functools.reduce(operator.or_, (v & 0x0F0F0F0F for v in values)) | 0x80000000,
        functools.reduce(operator.xor, values) ^ 1, incremented, decremented, 128, 256,
    ]  # fmt: skip
    cells = np.array([value & 0xFFFFFFFF for value in start], np.uint32)
    return Launch([cells, a], {0: np.array([value & 0xFFFFFFFF for value in want], np.uint32)})


@ATOMICS.add(block=64)
def atomic_int64(rng: np.random.Generator) -> Launch:
    a = bits(rng, 64, np.uint64)
    values, signed = a.tolist(), a.view(np.int64).tolist()
    mask = (1 << 64) - 1
    start = [9, 0, 0, mask, 0, mask, 1, 2]
    want = [
        9 + sum(values), min(0, *signed), max(0, *signed), min(values), max(values),
        functools.reduce(operator.and_, (v | 0xFF for v in values)),
        functools.reduce(operator.or_, (v & 0x0F0F0F0F0F0F0F0F for v in values)) | 1,
        functools.reduce(operator.xor, values) ^ 2,
    ]  # fmt: skip
    return Launch([np.array(start, np.uint64), a], {0: np.array([value & mask for value in want], np.uint64)})


@ATOMICS.add(block=64)
def atomic_float(rng: np.random.Generator) -> Launch:
    a = rng.integers(-2, 3, 64).astype(np.int32)  # partial sums stay exact even in bfloat16's eight bits
    total = int(a.sum())
    halves = np.array([total, 0, total, -total, total, 0, 64, 64], np.float16)
    brains = np.array([total, 0, 64, -64], ml_dtypes.bfloat16)
    f, d = np.zeros(1, np.float32), np.zeros(1, np.float64)
    return Launch(
        [f, d, np.zeros(8, np.float16), np.zeros(4, ml_dtypes.bfloat16), a],
        {0: np.array([total], np.float32), 1: np.array([total], np.float64), 2: halves, 3: brains},
    )


@ATOMICS.add(block=64, grid=2)
def atomic_returns(rng: np.random.Generator) -> Launch:
    cells, ticket, seen = np.zeros(2, np.uint32), np.zeros(128, np.uint32), np.zeros(128, np.uint32)

    def each_once(got: np.ndarray) -> str | None:
        return None if sorted(got.tolist()) == list(range(128)) else "a ticket was given twice"

    def one_chain(got: np.ndarray) -> str | None:
        """Exchanges form one chain: every value but the last one written is seen by exactly one thread."""
        chain = sorted([*got.tolist(), int(cells[1])])
        return None if chain == list(range(129)) else "an exchanged value was lost or duplicated"

    return Launch([cells, ticket, seen], {1: each_once, 2: one_chain}, varies=True)


@ATOMICS.add()
def atomic_orders(rng: np.random.Generator) -> Launch:
    cell, wide = bits(rng, 32, np.uint32), bits(rng, 32, np.uint64) >> np.uint64(40)
    lane = np.arange(32)
    added = cell + np.uint32(3)
    box = 15 + lane
    full = np.full(32, 0xFFFFFFFF)
    # inc: 0xffffffff >= 7 wraps to 0; dec: 0 wraps to 7.
    expected = slots(
        [
            cell, added, np.full(32, 50), np.full(32, 51), 10 + lane, box, full, np.zeros(32), np.full(32, 7 | 64),
            np.full(32, 1051), wide & np.uint64(0xFFFFFFFF), np.full(32, 7), np.full(32, 1 << 8),
        ],
        np.uint32,
    )  # fmt: skip
    return Launch([np.zeros(13 * 32, np.uint32), cell.copy(), wide.copy()], {0: expected})


@ATOMICS.add(block=64)
def atomic_cas_loops(rng: np.random.Generator) -> Launch:
    a = rng.normal(size=64).astype(np.float32)
    return Launch(
        [np.full(1, -1e30, np.float32), np.array([1, 2], np.uint16), a],
        {0: a.max().reshape(1), 1: np.array([1 + 3 * 32, 2 + 3 * 32], np.uint16)},
    )


@ATOMICS.add(block=64, grid=2)
def spin_lock(rng: np.random.Generator) -> Launch:
    a = rng.integers(-1000, 1000, 128).astype(np.int32)
    return Launch(
        [np.zeros(1, np.int32), np.zeros(1, np.int32), a],
        {0: np.zeros(1, np.int32), 1: a.sum(dtype=np.int32).reshape(1)},
    )


@ATOMICS.add(block=32, grid=4)
def last_block(rng: np.random.Generator) -> Launch:
    a = rng.integers(-1000, 1000, 128).astype(np.int32)
    partial = a.reshape(4, 32).sum(axis=1, dtype=np.int32)
    return Launch([np.zeros(4, np.int32), np.zeros(1, np.int32), a], {0: partial, 1: partial.sum(dtype=np.int32)})


@ATOMICS.add(block=64, grid=2)
def shared_histogram(rng: np.random.Generator) -> Launch:
    data = bits(rng, 777, np.uint8)
    want = np.bincount(data >> 2, minlength=64).astype(np.uint32)
    return Launch([np.zeros(64, np.uint32), data, np.int32(777)], {0: want})


@ATOMICS90.add()
def atomic_b128(rng: np.random.Generator) -> Launch:
    cell = bits(rng, (32, 2), np.uint64)
    lane = np.arange(32, dtype=np.uint64)
    exchanged = np.stack([lane + np.uint64(100), ~lane], axis=1)
    swapped = np.where((np.arange(32) % 2 == 1)[:, None], np.array([7, 8], np.uint64), exchanged)
    expected = slots([cell[:, 0], cell[:, 1], exchanged[:, 0], exchanged[:, 1]], np.uint64)
    return Launch([np.zeros(4 * 32, np.uint64), cell.copy()], {0: expected, 1: swapped})


@ATOMICS90.add()
def red_vector(rng: np.random.Generator) -> Launch:
    a = rng.integers(-8, 9, 32).astype(np.float32)
    cells = np.zeros(8 + 64 + 32, np.float32)
    cells[8:72] = rng.integers(-8, 9, 64)
    want = cells.copy()
    want[:4] = [a.sum(), 32, -a.sum(), 64]
    want[72:] = cells[8:72:2] + cells[9:72:2]
    want[8:72:2] += a
    want[9:72:2] += 0.5
    halves = np.zeros(4 + 64, np.uint32)
    # f16x2 words, low half first: (2, 1) and (-1, 4), 32 times each.
    want_halves = np.zeros_like(halves)
    want_halves[:2] = np.array([64, 32, -32, 128], np.float16).view(np.uint32)
    want_halves[4:36] = 1
    return Launch([cells, halves, a], {0: want, 1: want_halves})
