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


@ATOMICS.add(block=96, grid=2)
def atomic_ranks(rng: np.random.Generator) -> Launch:
    key = rng.integers(0, 7, 192).astype(np.uint32)
    weight = rng.integers(1, 1000, 192).astype(np.uint32)
    counts = np.bincount(key, minlength=7).astype(np.uint32)
    sums = np.bincount(key, weight, minlength=7).astype(np.uint32)

    def each_rank_once(got: np.ndarray) -> str | None:
        good = all(sorted(got[key == k].tolist()) == list(range(counts[k])) for k in range(7))
        return None if good else "the old values of a cell are not 0..n-1"

    def running_totals(got: np.ndarray) -> str | None:
        """Sorted, each old value and its weight make the next old value; the last makes the cell's sum."""
        for k in range(7):
            steps = sorted(zip(got[key == k].tolist(), weight[key == k].tolist(), strict=True))
            after = 0
            for old, amount in steps:
                if old != after:
                    return f"cell {k} went from {after} to {old}"
                after = old + amount
        return None

    args = [np.zeros(192, np.uint32), np.zeros(192, np.uint32), np.zeros(7, np.uint32), np.zeros(7, np.uint32)]
    expected = {0: each_rank_once, 1: running_totals, 2: counts, 3: sums}
    return Launch([*args, key, weight], expected, varies=True)


@ATOMICS.add(block=64)
def atomic_histories(rng: np.random.Generator) -> Launch:
    key = rng.integers(0, 3, 64).astype(np.uint32)
    a = rng.integers(-1000, 1000, 64).astype(np.int32)
    minima = np.array([min(50, *a[key == k].tolist()) for k in range(3)], np.int32)
    counts = np.bincount(key, minlength=3)

    def each_was_there(got: np.ndarray) -> str | None:
        for k in range(3):
            possible = {50, *a[key == k].tolist()}
            if not set(got[key == k].tolist()) <= possible or 50 not in got[key == k]:
                return f"cell {k} never held one of its old values"
        return None

    def counts_to_four(got: np.ndarray) -> str | None:
        for k in range(3):
            if sorted(got[key == k].tolist()) != sorted(step % 5 for step in range(counts[k])):
                return f"the old values of cell {k} do not count 0..4 in turn"
        return None

    args = [np.zeros(64, np.int32), np.zeros(64, np.uint32), np.full(3, 50, np.int32), np.zeros(3, np.uint32)]
    expected = {0: each_was_there, 1: counts_to_four, 2: minima, 3: (counts % 5).astype(np.uint32)}
    return Launch([*args, key, a], expected, varies=True)


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


@ATOMICS90.add()
def red_half_vector(rng: np.random.Generator) -> Launch:
    a = rng.uniform(-8, 8, 32).astype(np.float16)
    following = np.roll(a, -1)
    as_brain = a.view(ml_dtypes.bfloat16)
    low = np.array([0.5, -0.5], np.float16)
    high = np.array([0.25, -0.25, 1e-3, -1e-3, 3, -3, 0.5, -0.5], ml_dtypes.bfloat16)
    old = np.zeros(128, np.float16)
    old[64:] = rng.uniform(-8, 8, 64)
    pairs = np.stack([a, following], axis=1).ravel()
    top, bottom = as_brain.astype(np.float64).max(), as_brain.astype(np.float64).min()
    want_high = [max(v, top) for v in high[:4].astype(float)] + [min(v, bottom) for v in high[4:].astype(float)]
    want_old = np.concatenate([old[64:], np.maximum(old[64:], pairs)])
    return Launch(
        [low, high, old, a],
        {0: np.minimum(low, a.min()), 1: np.array(want_high, ml_dtypes.bfloat16), 2: want_old},
    )
