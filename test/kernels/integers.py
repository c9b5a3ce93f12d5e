# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integer arithmetic, comparisons, selection, bit operations and shifts, for every integer type and i1."""

from __future__ import annotations

import cuda.tile as ct
import numpy as np

from examples.signatures import array, scalar
from kernels.dtypes import BOOL, INTEGERS, SIGNED, UNSIGNED, Dtype, random_integers
from kernels.model import Kernel, Problem

TILE = 64
SIZE = 128


def put(out, row, block, tile):
    """Store a 1-D tile into one row of a 2-D array."""
    ct.store(out, (row, block), tile.reshape((1, tile.shape[0])))


@ct.kernel
def arithmetic(x, y, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    put(out, 0, block, a + b)
    put(out, 1, block, a - b)
    put(out, 2, block, a * b)
    put(out, 3, block, ct.minimum(a, b))
    put(out, 4, block, ct.maximum(a, b))
    put(out, 5, block, a * 3 + 1)


def arithmetic_reference(x, y, out):
    with np.errstate(over="ignore"):
        rows = [x + y, x - y, x * y, np.minimum(x, y), np.maximum(x, y), x * x.dtype.type(3) + x.dtype.type(1)]
    return {"out": np.stack(rows)}


@ct.kernel
def signed_only(x, y, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    put(out, 0, block, a // b)
    put(out, 1, block, ct.cdiv(a, b))
    put(out, 2, block, a % b)
    put(out, 3, block, -a)
    put(out, 4, block, ct.abs(a))


def signed_only_reference(x, y, out):
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    rows = [
        [a // b for a, b in pairs],
        [-(-a // b) for a, b in pairs],
        [a % b for a, b in pairs],
        [-a for a, _ in pairs],
        [abs(a) for a, _ in pairs],
    ]
    return {"out": np.array(rows, x.dtype)}


@ct.kernel
def unsigned_remainder(x, y, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    ct.store(out, (block,), a % b)


@ct.kernel
def comparisons(x, y, flags, chosen, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    put(flags, 0, block, a < b)
    put(flags, 1, block, a <= b)
    put(flags, 2, block, a > b)
    put(flags, 3, block, a >= b)
    put(flags, 4, block, a == b)
    put(flags, 5, block, a != b)
    ct.store(chosen, (block,), ct.where((a < b) & (a != 0), a, b))


def comparisons_reference(x, y, flags, chosen):
    rows = [x < y, x <= y, x > y, x >= y, x == y, x != y]
    return {"flags": np.stack(rows), "chosen": np.where((x < y) & (x != 0), x, y)}


@ct.kernel
def bits(x, y, amount, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    by = ct.load(amount, (block,), (tile,))
    put(out, 0, block, a & b)
    put(out, 1, block, a | b)
    put(out, 2, block, a ^ b)
    put(out, 3, block, ~a)
    put(out, 4, block, a << by)
    put(out, 5, block, a >> by)


def bits_reference(x, y, amount, out):
    return {"out": np.stack([x & y, x | y, x ^ y, ~x, x << amount, x >> amount])}


@ct.kernel
def booleans(x, y, out, any_out, tile: ct.Constant[int]):
    a = ct.load(x, (0,), (tile,))
    b = ct.load(y, (0,), (tile,))
    put(out, 0, 0, a & b)
    put(out, 1, 0, a | b)
    put(out, 2, 0, a ^ b)
    put(out, 3, 0, ct.bitwise_not(a))
    put(out, 4, 0, ct.where(a, b, ct.full((tile,), True, ct.bool_)))
    ct.store(any_out, (0,), ct.sum(a.astype(ct.int32) * 2 + b.astype(ct.int32), 0, keepdims=True))


def booleans_reference(x, y, out, any_out):
    rows = [x & y, x | y, x ^ y, ~x, np.where(x, y, True)]
    return {"out": np.stack(rows), "any_out": np.array([2 * int(x.sum()) + int(y.sum())], np.int32)}


@ct.kernel
def scalars(small: int, large, out):
    value = small * 7 - 3
    value = max(value, -100) if small > 0 else min(value, 100)
    wide = large + value
    ct.scatter(out, 0, wide // 10)
    ct.scatter(out, 1, wide % 10)
    ct.scatter(out, 2, wide ^ 0x55AA)
    ct.scatter(out, 3, wide << 3)
    ct.scatter(out, 4, abs(wide))


def scalars_reference(small, large, out):
    value = small * 7 - 3
    value = max(value, -100) if small > 0 else min(value, 100)
    wide = large + value
    return {"out": np.array([wide // 10, wide % 10, wide ^ 0x55AA, wide << 3, abs(wide)], np.int64)}


def _two(dtype: Dtype, rows: int, nonzero: bool = False):
    def problem(rng: np.random.Generator) -> Problem:
        x, y = (random_integers(rng, dtype.numpy, SIZE) for _ in range(2))
        rng.shuffle(y)
        if nonzero:
            y[y == 0] = 3
            # The most negative value has no counterpart: its negation and its quotient by -1 overflow.
            x[x == np.iinfo(dtype.numpy).min] = 0 if dtype.numpy.kind == "u" else -5
        return Problem((SIZE // TILE, 1, 1), [x, y, np.zeros((rows, SIZE) if rows > 1 else SIZE, dtype.numpy)])

    return problem


def _comparison_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        x, y = (random_integers(rng, dtype.numpy, SIZE) for _ in range(2))
        rng.shuffle(y)
        y[::5] = x[::5]
        return Problem((SIZE // TILE, 1, 1), [x, y, np.zeros((6, SIZE), np.bool_), np.zeros(SIZE, dtype.numpy)])

    return problem


def _bits_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        x, y = (random_integers(rng, dtype.numpy, SIZE) for _ in range(2))
        amount = rng.integers(0, 8 * dtype.numpy.itemsize, SIZE).astype(dtype.numpy)
        return Problem((SIZE // TILE, 1, 1), [x, y, amount, np.zeros((6, SIZE), dtype.numpy)])

    return problem


def _booleans_problem(rng: np.random.Generator) -> Problem:
    x, y = rng.integers(0, 2, (2, TILE)).astype(np.bool_)
    return Problem((1, 1, 1), [x, y, np.zeros((5, TILE), np.bool_), np.zeros(1, np.int32)])


def _scalars_problem(rng: np.random.Generator) -> Problem:
    return Problem((1, 1, 1), [int(rng.integers(-50, 50)), int(rng.integers(-(2**40), 2**40)), np.zeros(5, np.int64)])


def _kernels() -> list[Kernel]:
    tags = frozenset({"elementwise", "integer"})
    result = []
    for name, dtype in INTEGERS.items():
        one, two = array(dtype.tile, multiple_of=16), array(dtype.tile, 2, multiple_of=16, shape_divisible_by=(1, 16))
        flags = array(ct.bool_, 2, multiple_of=16, shape_divisible_by=(1, 16))
        result += [
            Kernel(f"integer_arithmetic_{name}", arithmetic, (one, one, two, TILE), _two(dtype, 6),
                   arithmetic_reference, tags=tags),
            Kernel(f"integer_comparisons_{name}", comparisons, (one, one, flags, one, TILE),
                   _comparison_problem(dtype), comparisons_reference, tags=tags),
            Kernel(f"bits_{name}", bits, (one, one, one, two, TILE), _bits_problem(dtype), bits_reference, tags=tags),
        ]  # fmt: skip
        if name in SIGNED:
            result.append(Kernel(f"integer_signed_{name}", signed_only, (one, one, two, TILE),
                                 _two(dtype, 5, nonzero=True), signed_only_reference, tags=tags))  # fmt: skip
        if name in UNSIGNED:
            result.append(Kernel(f"unsigned_remainder_{name}", unsigned_remainder, (one, one, one, TILE),
                                 _two(dtype, 1, nonzero=True), lambda x, y, out: {"out": x % y},
                                 tags=tags))  # fmt: skip
    flag, flags = array(BOOL["i1"].tile), array(BOOL["i1"].tile, 2)
    result.append(Kernel("booleans", booleans, (flag, flag, flags, array(ct.int32), TILE), _booleans_problem,
                         booleans_reference, tags=tags | {"i1"}))  # fmt: skip
    result.append(Kernel("integer_scalars", scalars, (scalar(ct.int32), scalar(ct.int64), array(ct.int64)),
                         _scalars_problem, scalars_reference, tags=tags | {"scalar"}))  # fmt: skip
    return result


KERNELS = _kernels()
