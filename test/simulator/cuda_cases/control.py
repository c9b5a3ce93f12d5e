# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Control flow, against the same program written in Python."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .integer import quotient, remainder
from .table import Family, Launch, Source, per_lane

CONTROL = Family(Source("control"))

M32 = 0xFFFFFFFF


@CONTROL.add(grid=3, block=64)
def vector_add(rng: np.random.Generator) -> Launch:
    a, b = (rng.normal(size=170).astype(np.float32) for _ in range(2))
    return Launch([np.zeros(170, np.float32), a, b, 170], {0: a + b})


@CONTROL.add(grid=(2, 3, 2), block=(4, 3, 5))
def indices3d(rng: np.random.Generator) -> Launch:
    want = [
        tx | ty << 4 | tz << 8 | bx << 12 | by << 16 | bz << 20
        for bz in range(2) for by in range(3) for bx in range(2)
        for tz in range(5) for ty in range(3) for tx in range(4)
    ]  # fmt: skip
    return Launch([np.zeros(12 * 60, np.uint32)], {0: np.array(want, np.uint32)})


@CONTROL.add(block=96)
def nested_divergence(rng: np.random.Generator) -> Launch:
    a = rng.integers(-1000, 1000, 96).astype(np.int32)

    def formula(x: int, lane: int) -> list[int]:
        if x & 1:
            r = 2 * (3 if x & 2 else 5 if x & 4 else -x)
        else:
            r = 0
            if x < 0:
                r = -x ^ (0x55 if x & 8 else 0)
            r += 1
        return [-r if (x ^ lane) & 1 else r]

    return Launch([np.zeros(96, np.int32), a], {0: per_lane(formula, [a, np.arange(96)], np.int32)})


@CONTROL.add(block=64)
def divergent_loop(rng: np.random.Generator) -> Launch:
    a = rng.integers(1, 40, 64).astype(np.uint32)
    a[a == 27] = 26  # 111 steps where 26 has 10

    def formula(x: int) -> list[int]:
        steps = 0
        while x != 1:
            x, steps = (3 * x + 1 if x & 1 else x >> 1), steps + 1
        return [steps]

    return Launch([np.zeros(64, np.uint32), a], {0: per_lane(formula, [a], np.uint32)})


@CONTROL.add(block=64)
def loop_exits(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 1 << 20, 64).astype(np.int32)

    def formula(x: int) -> list[int]:
        total = 0
        for j in range(8):
            if x >> j & 3 == 3:
                continue
            for k in range(j, 12):
                if k * j > x & 31:
                    break
                total += k ^ j
            if total > 200:
                break
        return [total]

    return Launch([np.zeros(64, np.int32), a], {0: per_lane(formula, [a], np.int32)})


@CONTROL.add(block=64)
def dense_switch(rng: np.random.Generator) -> Launch:
    a = rng.integers(-2, 12, 64).astype(np.int32)
    b = rng.integers(-10000, 10000, 64).astype(np.int32)

    def formula(x: int, y: int) -> list[int]:
        arms = [
            y + 1, y * y, quotient(y, 3), y ^ 0x1234, y ^ 0x1234, remainder(y, 7), y << 5,
            (y & M32).bit_count(), min(y, 11), ~y,
        ]  # fmt: skip
        return [arms[x] if 0 <= x < 10 else -1]

    return Launch([np.zeros(64, np.int32), a, b], {0: per_lane(formula, [a, b], np.int32)})


@CONTROL.add()
def branch_table(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 4, 32).astype(np.int32)
    return Launch([np.zeros(32, np.int32), a], {0: np.array([100, 200, 300, 200], np.int32)[a]})


@CONTROL.add()
def device_calls(rng: np.random.Generator) -> Launch:
    a = rng.integers(-50, 51, 32).astype(np.float32)

    def formula(x: float) -> list[float]:
        v = (x / 2, 1.0, -0.5)
        half = quotient(int(x), 2)
        return [sum(v), (v[0] * x + v[1]) * x + v[2], half, x - 2 * half]

    return Launch([np.zeros(4 * 32, np.float32), a], {0: per_lane(formula, [a], np.float32)})


@CONTROL.add()
def recursion(rng: np.random.Generator) -> Launch:
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    def ackermann(m: int, n: int) -> int:
        return {0: n + 1, 1: n + 2, 2: 2 * n + 3}[m]

    rows = [[fibonacci(i % 11), ackermann(i % 3, i % 4), int(i % 2 == 0)] for i in range(32)]
    return Launch([np.zeros(3 * 32, np.uint32)], {0: np.array(rows, np.uint32).T.copy()})


@CONTROL.add(block=64)
def function_pointers(rng: np.random.Generator) -> Launch:
    a, b = (rng.integers(-1000, 1000, 64).astype(np.int32) for _ in range(2))
    which = rng.integers(0, 4, 64).astype(np.int32)
    functions: list[Any] = [operator.add, operator.sub, operator.mul, max]
    expected = per_lane(lambda x, y, k: [functions[k](x, y)], [a, b, which], np.int32)
    return Launch([np.zeros(64, np.int32), a, b, which], {0: expected})


@CONTROL.add()
def virtual_calls(rng: np.random.Generator) -> Launch:
    a = rng.integers(1, 100, 32).astype(np.float32)
    return Launch([np.zeros(32, np.float32), a], {0: np.where(np.arange(32) & 1, a * a, a * 3)})


@CONTROL.add(block=128)
def early_exit(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 2000, 128).astype(np.uint32)
    want = np.where(a & 1, 0xDEAD, np.where(a > 1000, a, a + 1)).astype(np.uint32)
    want[64:] = 77
    return Launch([np.full(128, 77, np.uint32), a], {0: want})


@CONTROL.add(block=64)
def predication(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 30, 64).astype(np.int32)
    return Launch([np.zeros(64, np.int32), a], {0: np.where(a > 10, np.where(a < 20, 50, 1), -1).astype(np.int32)})


@CONTROL.add(block=64)
def irreducible(rng: np.random.Generator) -> Launch:
    a = rng.integers(-20, 60, 64).astype(np.int32)

    def formula(x: int) -> list[int]:
        n, first = 0, not x & 1
        while True:
            if first:
                x, n = x + 3, n + 1
            x, n = x - 5, n + 1
            first = x > 0 and bool(x & 2)
            if not first and x <= 4:
                return [x * 64 + n]

    return Launch([np.zeros(64, np.int32), a], {0: per_lane(formula, [a], np.int32)})


@CONTROL.add()
def unrolled_loops(rng: np.random.Generator) -> Launch:
    a = rng.integers(-1000, 1000, 32).astype(np.int32)
    values = a.tolist()

    def formula(lane: int) -> list[int]:
        partial = [sum(values[(lane + k) & 31] * (k + 1) for k in range(n)) for n in (3, 16)]
        return [*partial, sum(values[:lane])]

    return Launch([np.zeros(3 * 32, np.int32), a], {0: per_lane(formula, [np.arange(32)], np.int32)})
