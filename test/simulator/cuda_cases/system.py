# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""printf, assert, trap, clocks and special registers."""

from __future__ import annotations

import numpy as np

from .table import Family, Launch, Source

SYSTEM = Family(Source("system"))


@SYSTEM.add()
def print_formats(rng: np.random.Generator) -> Launch:
    n, d = 42, -3.14159265
    text = (
        "plain\n"
        "int -42 unsigned 3000000000 hex ff HEX 0000BEEF octal 10 char q percent %\n"
        f"long {-n * 1000000007} 18446744073709551615 feedfacecafebeef\n"
        f"double {d:f} {d:.3f} {d:10.2f}| {d:<10.1f}| {d:e} {d:g}\n"
        "string abc    de| fg   | hi\n"
        "padded    42|42   |00042|+42\n"
    )
    return Launch([n, d], output=text)


@SYSTEM.add(block=4, grid=2)
def print_lanes(rng: np.random.Generator) -> Launch:
    a = np.array([0.5, -1.25, 100.0, 3.0], np.float32)
    lines = [f"block {b} thread {t} value {a[t]:.2f}\n" for b in range(2) for t in range(4)]
    return Launch([a], output="".join(lines))


@SYSTEM.add()
def assert_holds(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 100, 32).astype(np.int32)
    return Launch([np.zeros(32, np.int32), a], {0: a + 1})


@SYSTEM.add(fault="assert")
def assert_fails(rng: np.random.Generator) -> Launch:
    a = rng.integers(0, 100, 32).astype(np.int32)
    a[19] = -1
    return Launch([np.zeros(32, np.int32), a])


@SYSTEM.add(fault="trap")
def trap_when(rng: np.random.Generator) -> Launch:
    a = np.arange(32, dtype=np.int32)
    return Launch([np.zeros(32, np.int32), a])


@SYSTEM.add()
def clocks(rng: np.random.Generator) -> Launch:
    def moved_forward(got: np.ndarray) -> str | None:
        cycles, _, cycles32 = got.reshape(3, 32)
        return None if (cycles > 0).all() and (cycles32 > 0).all() else "a clock did not advance"

    return Launch([np.zeros(3 * 32, np.uint64)], {0: moved_forward}, varies=True)


@SYSTEM.add(block=64, grid=2)
def special_registers(rng: np.random.Generator) -> Launch:
    rows = []
    for block in range(2):
        columns = [[i, 0, 64, 1, block, 2, 1, i & 31, 1, 1, 1] for i in range(64)]
        rows.append(np.array(columns, np.uint32).T)
    return Launch([np.zeros(2 * 11 * 64, np.uint32)], {0: np.stack(rows)})
