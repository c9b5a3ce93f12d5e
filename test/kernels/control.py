# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Control flow: if, for, while, break, continue, return, nested, with values carried through; queries of the grid."""

from __future__ import annotations

import cuda.tile as ct
import numpy as np

from examples.signatures import array, scalar
from kernels.model import Kernel, Problem, Tolerance


@ct.kernel
def branches(x, out, threshold: int):
    block = ct.bid(0)
    tile = ct.load(x, (block,), (32,))
    value = 0
    if block < threshold:
        tile = tile * 2
        value = 1
    elif block == threshold:
        tile = tile + 100
        value = 2
    else:
        if block % 2 == 0:
            value = 3
        else:
            tile = -tile
    ct.store(out, (block,), tile + value)


def branches_reference(x, out, threshold):
    rows = []
    for block, tile in enumerate(x.reshape(-1, 32)):
        if block < threshold:
            rows.append(tile * 2 + 1)
        elif block == threshold:
            rows.append(tile + 102)
        else:
            rows.append(tile + 3 if block % 2 == 0 else -tile)
    return {"out": np.concatenate(rows).astype(np.int32)}


@ct.kernel
def counted_loops(out, start: int, stop: int, step: int):
    total, count = 0, 0
    for i in range(start, stop, step):
        total += i * i
        count += 1  # noqa: SIM113 - the language has no enumerate
    for i in range(stop):
        for j in range(i, stop, 2):
            total ^= i * 7 + j
    for _ in range(stop, start):
        count = -1000  # not reached
    ct.scatter(out, 0, total)
    ct.scatter(out, 1, count)


def counted_loops_reference(out, start, stop, step):
    steps = range(start, stop, step)
    total = sum(i * i for i in steps)
    for i in range(stop):
        for j in range(i, stop, 2):
            total ^= i * 7 + j
    return {"out": np.array([total, len(steps)], np.int32)}


@ct.kernel
def collatz(x, steps, peak):
    # One number for each block: a loop whose end is not known before.
    n = ct.gather(x, ct.bid(0)).item()
    count, highest = 0, n
    while n != 1:
        if n % 2 == 0:
            n = n >> 1
        else:
            n = n * 3 + 1
        highest = max(highest, n)
        count += 1
    ct.scatter(steps, ct.bid(0), count)
    ct.scatter(peak, ct.bid(0), highest)


def collatz_reference(x, steps, peak):
    results = []
    for n in x.tolist():
        count, highest = 0, n
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count, highest = count + 1, max(highest, n)
        results.append((count, highest))
    return {"steps": np.array(results)[:, 0].astype(np.int32), "peak": np.array(results)[:, 1].astype(np.int64)}


@ct.kernel
def breaks(x, out):
    limit = ct.gather(x, ct.bid(0)).item()
    total = 0
    i = 0
    while True:
        i += 1
        if i % 3 == 0:
            continue
        if i > limit:
            break
        inner = 0
        for j in range(20):
            if j * j > i:
                break
            if j == 2:
                continue
            inner += j
        total += inner * i
    ct.scatter(out, ct.bid(0), total)


def breaks_reference(x, out):
    results = []
    for limit in x.tolist():
        total = i = 0
        while True:
            i += 1
            if i % 3 == 0:
                continue
            if i > limit:
                break
            total += i * sum(j for j in range(20) if j * j <= i and j != 2)
        results.append(total)
    return {"out": np.array(results, np.int32)}


@ct.kernel
def early_return(x, out, limit: int):
    block = ct.bid(0)
    if block >= limit:
        return
    for i in range(ct.num_tiles(x, 1, (1, 8))):
        tile = ct.load(x, (block, i), (1, 8))
        if ct.min(tile) < 0:
            # A negative number ends the row: what follows is not written.
            return
        ct.store(out, (block, i), tile + 1)


def early_return_reference(x, out, limit):
    result = out.copy()
    for row in range(limit):
        for start in range(0, x.shape[1], 8):
            part = x[row, start : start + 8]
            if part.min() < 0:
                break
            result[row, start : start + 8] = part + 1
    return {"out": result}


@ct.kernel
def persistent(x, out, seen):
    # Fewer blocks than tiles: each takes every num_blocks-th.
    count = 0
    for i in range(ct.bid(0), ct.num_tiles(x, 0, (32,)), ct.num_blocks(0)):
        ct.store(out, (i,), ct.load(x, (i,), (32,)) * 2)
        count += 1
    ct.scatter(seen, ct.bid(0), count)


def persistent_reference(x, out, seen):
    tiles, blocks = -(-len(x) // 32), len(seen)
    counts = [len(range(block, tiles, blocks)) for block in range(blocks)]
    return {"out": x * 2, "seen": np.array(counts, np.int32)}


@ct.kernel
def grid_queries(out, sizes, x):
    i, j, k = ct.bid(0), ct.bid(1), ct.bid(2)
    ct.scatter(out, (i, j, k), i * 100 + j * 10 + k)
    if i == 0 and j == 0 and k == 0:
        ct.scatter(sizes, 0, ct.num_blocks(0))
        ct.scatter(sizes, 1, ct.num_blocks(1))
        ct.scatter(sizes, 2, ct.num_blocks(2))
        ct.scatter(sizes, 3, x.shape[0] * 1000 + x.shape[1])
        ct.scatter(sizes, 4, x.strides[0])
        ct.scatter(sizes, 5, ct.num_tiles(x, 0, (4, 8)))
        ct.scatter(sizes, 6, ct.num_tiles(x, 1, (4, 8)))
        ct.scatter(sizes, 7, ct.num_tiles(x, 0, (8, 4), order="F"))


def grid_queries_reference(out, sizes, x):
    i, j, k = np.indices(out.shape)
    rows, columns = x.shape
    numbers = [*out.shape, rows * 1000 + columns, columns, -(-rows // 4), -(-columns // 8), -(-columns // 8)]
    return {"out": (i * 100 + j * 10 + k).astype(np.int32), "sizes": np.array(numbers, np.int32)}


@ct.kernel
def newton(x, out, tolerance: float):
    # A loop over tiles that ends when all elements have converged.
    a = ct.load(x, (ct.bid(0),), (64,), padding_mode=ct.PaddingMode.ZERO) + 1.0
    guess = a
    rounds = 0
    while rounds < 50:
        better = 0.5 * (guess + a / guess)
        change = ct.max(ct.abs(better - guess))
        guess = better
        rounds += 1
        if change < tolerance:
            break
    ct.store(out, (ct.bid(0),), guess)


def newton_reference(x, out, tolerance):
    return {"out": np.sqrt(x.astype(np.float64) + 1).astype(np.float32)}


def _branches_problem(rng: np.random.Generator) -> Problem:
    return Problem((6, 1, 1), [rng.integers(-99, 99, 192, dtype=np.int32), np.zeros(192, np.int32), 2])


def _loops_problem(rng: np.random.Generator) -> Problem:
    return Problem((1, 1, 1), [np.zeros(2, np.int32), -7, int(rng.integers(10, 30)), int(rng.integers(1, 5))])


def _collatz_problem(rng: np.random.Generator) -> Problem:
    x = np.concatenate([[1, 27], rng.integers(2, 500, 6)]).astype(np.int64)
    return Problem((8, 1, 1), [x, np.zeros(8, np.int32), np.zeros(8, np.int64)])


def _breaks_problem(rng: np.random.Generator) -> Problem:
    return Problem((6, 1, 1), [np.array([0, 1, 2, 3, 17, 60], np.int32), np.full(6, -1, np.int32)])


def _return_problem(rng: np.random.Generator) -> Problem:
    x = rng.integers(0, 100, (6, 40), dtype=np.int32)
    x[1, 20], x[3, 0], x[4, 39] = -1, -5, -2
    return Problem((6, 1, 1), [x, np.full((6, 40), -9, np.int32), 5])


def _persistent_problem(rng: np.random.Generator) -> Problem:
    return Problem((5, 1, 1), [rng.standard_normal(500).astype(np.float32), np.zeros(500, np.float32),
                               np.zeros(5, np.int32)])  # fmt: skip


def _queries_problem(rng: np.random.Generator) -> Problem:
    return Problem((3, 2, 4), [np.zeros((3, 2, 4), np.int32), np.zeros(8, np.int32), np.zeros((13, 21), np.float32)])


def _newton_problem(rng: np.random.Generator) -> Problem:
    return Problem((2, 1, 1), [rng.uniform(0, 50, 100).astype(np.float32), np.zeros(100, np.float32), 1e-3])


def _kernels() -> list[Kernel]:
    tags = frozenset({"control"})
    f1, f2 = array(ct.float32), array(ct.float32, 2)
    i1, i2, i3 = (array(ct.int32, rank) for rank in (1, 2, 3))
    i64, n = array(ct.int64), scalar(ct.int32)
    return [
        Kernel("branches", branches, (i1, i1, n), _branches_problem, branches_reference, tags=tags),
        Kernel("counted_loops", counted_loops, (i1, n, n, n), _loops_problem, counted_loops_reference, tags=tags),
        Kernel("collatz", collatz, (i64, i1, i64), _collatz_problem, collatz_reference, tags=tags),
        Kernel("breaks", breaks, (i1, i1), _breaks_problem, breaks_reference, tags=tags),
        Kernel("early_return", early_return, (i2, i2, n), _return_problem, early_return_reference, tags=tags),
        Kernel("persistent", persistent, (f1, f1, i1), _persistent_problem, persistent_reference, tags=tags),
        Kernel("grid_queries", grid_queries, (i3, i1, f2), _queries_problem, grid_queries_reference, tags=tags),
        Kernel("newton", newton, (f1, f1, scalar(ct.float32)), _newton_problem, newton_reference, Tolerance(1e-6),
               tags=tags),
    ]  # fmt: skip


KERNELS = _kernels()
