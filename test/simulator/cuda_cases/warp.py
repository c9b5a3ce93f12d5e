# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Warp-wide instructions, lane by lane from their definitions (PTX ISA: shfl.sync, vote.sync, match.sync, redux)."""

from __future__ import annotations

import functools
import operator

import numpy as np

from .memory import bits
from .table import Array, Close, Family, Launch, Source, slots

WARP = Family(Source("warp"))

M32 = 0xFFFFFFFF


def shfl(values: list[int], mode: str, b: int | list[int], c: int) -> tuple[list[int], list[int]]:
    """shfl.sync of one full warp: results and in-range predicates. `c` is clamp (bits 4:0) and segment mask (12:8)."""
    results, inside = [], []
    clamp, segment = c & 31, c >> 8 & 31
    for lane in range(32):
        amount = (b[lane] if isinstance(b, list) else b) & 31
        low, high = lane & segment, lane & segment | clamp & ~segment
        source = {
            "up": lane - amount,
            "down": lane + amount,
            "bfly": lane ^ amount,
            "idx": low | amount & ~segment,
        }[mode]
        good = source >= high if mode == "up" else source <= high
        results.append(values[source if good else lane])
        inside.append(int(good))
    return results, inside


def by_warp(values: Array) -> list[list[int]]:
    return values.reshape(-1, 32).tolist()


def segment_mask(width: int) -> int:
    """The upper half of the control operand that CUDA builds for a sub-warp width."""
    return (32 - width) << 8


@WARP.add(block=64)
def shuffles(rng: np.random.Generator) -> Launch:
    a = bits(rng, 64, np.uint32)
    plan: list[tuple[str, int | None, int]] = [
        ("idx", 5, 32), ("idx", None, 32), ("up", 3, 32), ("down", 4, 32), ("bfly", 9, 32), ("idx", 2, 8),
        ("up", 1, 4), ("down", 2, 16), ("bfly", 3, 8), ("bfly", 12, 8),
    ]  # fmt: skip
    columns: list[list[int]] = [[] for _ in range(12)]
    for warp, values in enumerate(by_warp(a)):
        for slot, (mode, amount, width) in enumerate(plan):
            b = amount if amount is not None else [((32 * warp + lane) * 7 + 3) & 63 for lane in range(32)]
            control = segment_mask(width) | (0 if mode == "up" else 31)
            columns[slot] += shfl(values, mode, b, control)[0]
        for lane in range(32):
            other = 31 - lane
            columns[10].append(((values[other] << 32 | 32 * warp + other) >> 16) & M32)
            columns[11].append(values[min(lane + 1, 31)] & 0x3FFFFFFF)
    return Launch([np.zeros(12 * 64, np.uint32), a], {0: slots(columns, np.uint32)})


@WARP.add(block=64)
def shuffle_predicate(rng: np.random.Generator) -> Launch:
    a = bits(rng, 64, np.uint32)
    plan: list[tuple[str, int | None, int]] = [
        ("up", 5, 0), ("down", 6, 31), ("bfly", 17, 31), ("idx", None, 31),
        ("up", 2, 0x1800), ("down", 3, 0x1807), ("bfly", 1, 0x181F), ("idx", 13, 0x1C03),
    ]  # fmt: skip
    columns: list[list[int]] = [[] for _ in range(16)]
    for values in by_warp(a):
        for slot, (mode, amount, control) in enumerate(plan):
            results, inside = shfl(values, mode, list(range(32)) if amount is None else amount, control)
            columns[2 * slot] += results
            columns[2 * slot + 1] += inside
    return Launch([np.zeros(16 * 64, np.uint32), a], {0: slots(columns, np.uint32)})


def mask_of(flags: list[bool]) -> int:
    return sum(bool(flag) << lane for lane, flag in enumerate(flags))


@WARP.add(block=64)
def votes(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 99, 64).astype(np.uint32)
    a[7], a[40] = 99, 95
    a[:32] = np.minimum(a[:32], 90)
    columns: list[list[int]] = [[] for _ in range(8)]
    for warp, values in enumerate(by_warp(a)):
        row = [
            any(v > 90 for v in values), all(v < 100 for v in values), all(v < 99 for v in values),
            mask_of([v & 1 == 1 for v in values]), M32, warp == 1, True, any(v >= 50 for v in values),
        ]  # fmt: skip
        for column, value in zip(columns, row, strict=True):
            column += [int(value)] * 32
    return Launch([np.zeros(8 * 64, np.uint32), a], {0: slots(columns, np.uint32)})


@WARP.add(block=64)
def partial_votes(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 100, 64).astype(np.uint32)
    want = []
    for values in by_warp(a):
        odd = [v for v in values if v & 1]
        ballot = mask_of([v & 1 == 1 and v > 50 for v in values])
        evens = sum(v for v in values if not v & 1)
        want += [(ballot + odd[0]) & M32 if v & 1 else evens for v in values]
    return Launch([np.zeros(64, np.uint32), a], {0: np.array(want, np.uint32)})


@WARP.add(block=64)
def matches(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 6, 64).astype(np.uint32)
    a[32:] = 4
    b = rng.integers(0, 3, 64).astype(np.uint64) << np.uint64(33)
    columns: list[list[int]] = [[] for _ in range(6)]
    for first, second in zip(by_warp(a), by_warp(b), strict=True):
        columns[0] += [mask_of([v == w for w in first]) for v in first]
        columns[1] += [mask_of([v == w for w in second]) for v in second]
        same = len(set(first)) == 1
        for column, value in zip(columns[2:], [M32 * same, int(same), M32, 1], strict=True):
            column += [value] * 32
    return Launch([np.zeros(6 * 64, np.uint32), a, b], {0: slots(columns, np.uint32)})


@WARP.add(block=64)
def redux(rng: np.random.Generator) -> Launch:
    a = bits(rng, 64, np.uint32)
    columns: list[list[int]] = [[] for _ in range(11)]
    for values in by_warp(a):
        signed = np.array(values, np.uint32).view(np.int32).tolist()
        row = [
            sum(values), sum(values), min(values), max(values), min(signed), max(signed),
            functools.reduce(operator.and_, (v | 0x10 for v in values)),
            functools.reduce(operator.or_, (v & 0x00FF00FF for v in values)), functools.reduce(operator.xor, values),
            sum(values),
        ]  # fmt: skip
        for column, value in zip(columns, row, strict=False):
            column += [value & M32] * 32
        columns[10] += [sum(values[:16]) & M32] * 16 + [max(values[16:])] * 16
    return Launch([np.zeros(11 * 64, np.uint32), a], {0: slots(columns, np.uint32)})


@WARP.add(block=256, grid=2)
def warp_reduce(rng: np.random.Generator) -> Launch:
    a = rng.normal(size=512).astype(np.float32)
    # Eight levels of additions of magnitudes near 1: each adds at most half an ulp of the running sum.
    want = a.astype(np.float64).reshape(2, 256).sum(axis=1)
    return Launch([np.zeros(2, np.float32), a], {0: Close(want, absolute=256 * 2.0**-20)})


@WARP.add(block=64)
def warp_scan(rng: np.random.Generator) -> Launch:
    a = rng.integers(-1000, 1000, 64).astype(np.int32)
    return Launch([np.zeros(64, np.int32), a], {0: np.cumsum(a.reshape(2, 32), axis=1, dtype=np.int32)})


@WARP.add(block=64)
def lane_registers(rng: np.random.Generator) -> Launch:
    rows = []
    for i in range(64):
        lane = i & 31
        one = 1 << lane
        rows.append([lane, one, one - 1, 2 * one - 1, M32 & ~(2 * one - 1), M32 & ~(one - 1), 32])
    return Launch([np.zeros(7 * 64, np.uint32)], {0: np.array(rows, np.uint32).T.copy()})


@WARP.add(block=96)
def bitonic_sort(rng: np.random.Generator) -> Launch:
    a = rng.integers(-50, 50, 96).astype(np.int32)
    return Launch([np.zeros(96, np.int32), a], {0: np.sort(a.reshape(3, 32), axis=1)})
