# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recurrences over chunks of rows, in cuTile: five products in a step, most of whose operands are computed, and a state
that the loop carries. All numbers are small integers, so that every product is exact."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np

import libtile
from examples.signatures import array
from kernels.corpus import run_frontend
from kernels.model import EXACT, Kernel

Constant = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


def _cut(x, most):
    return ct.minimum(ct.maximum(x, -most), most)


@ct.kernel
def corrected(w, q, k, v, e, last, tm: Constant, d: Constant, n: Constant, words: ct.Constant[bool]):
    """What the state says of a chunk is taken from its values, and what is left of them is added to the state."""
    state = ct.zeros((d, n), ct.float32)
    row, column = ct.arange(tm, dtype=ct.int32)[:, None], ct.arange(tm, dtype=ct.int32)[None, :]
    kind = ct.tfloat32 if words else ct.bfloat16
    for j in range(ct.num_tiles(q, 0, (tm, d))):
        a = ct.load(w, (j, 0), (tm, d), padding_mode=ZERO).astype(ct.float32)
        b = ct.load(q, (j, 0), (tm, d), padding_mode=ZERO).astype(ct.float32)
        c = ct.load(k, (j, 0), (tm, d), padding_mode=ZERO).astype(ct.float32)
        x = ct.load(v, (j, 0), (tm, n), padding_mode=ZERO).astype(ct.float32)
        held = state.astype(kind)
        x = _cut(x - ct.matmul(a.astype(kind), held).astype(ct.float32), 2.0)
        o = ct.matmul((b * 2.0).astype(kind), held).astype(ct.float32)
        s = ct.matmul(b.astype(kind), ct.transpose(c.astype(kind))).astype(ct.float32)
        s = ct.where(row >= column, _cut(s, 4.0), 0.0)
        o = o + ct.matmul(s.astype(kind), x.astype(kind)).astype(ct.float32)
        ct.store(e, (j, 0), o)
        added = ct.matmul(ct.transpose((c * (1.0 + row)).astype(kind)), x.astype(kind)).astype(ct.float32)
        state = _cut(state + added, 8.0)
    ct.store(last, (0, 0), state)


def bytecode(tile: tuple[int, int, int], words: bool, gpu_name: str) -> bytes:
    """The kernel for chunks of so many rows, of so many columns and columns of values; `words`: of 32-bit operands."""
    half, whole = (array(t, 2, multiple_of=16, shape_divisible_by=(1, 16)) for t in (ct.bfloat16, ct.float32))
    parameters = (half, half, half, half, whole, whole, *tile, words)
    return run_frontend(Kernel("corrected", corrected, parameters, None, None, EXACT), "13.3", gpu_name)


def wanted(w: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, tm: int) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel gives of operands: for each row, and of the state at the end."""
    state, found = np.zeros((q.shape[1], v.shape[1])), [np.zeros((0, v.shape[1]))]
    for first in range(0, len(q), tm):
        a, b, c, x = (of[first : first + tm] for of in (w, q, k, v))
        x = np.clip(x - a @ state, -2, 2)
        found.append(2 * b @ state + np.tril(np.clip(b @ c.T, -4, 4)) @ x)
        state = np.clip(state + (c * (1 + np.arange(len(c))[:, None])).T @ x, -8, 8)
    return np.concatenate(found), state


def arguments(
    tile: tuple[int, int, int], rows: int
) -> tuple[list[Any], list[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """A launch's arguments for so many rows, the results among them, and what these are to be."""
    import ml_dtypes

    tm, d, n = tile
    rng = np.random.default_rng(rows)
    given = [rng.integers(-1, 2, (rows, size)).astype(ml_dtypes.bfloat16) for size in (d, d, d, n)]
    results = [np.full(shape, 7, np.float32) for shape in ((rows, n), (d, n))]
    args = [v for x in (*given, *results) for v in (x, *x.shape, x.shape[1], 1)]
    return args, results, wanted(*(x.astype(np.float64) for x in given), tm)


def run(
    tile: tuple[int, int, int], rows: int, gpu_name: str, *, words: bool, order: int | None = None,
    backend: str = "simulator",
) -> None:  # fmt: skip
    """Run the kernel, in the simulator with all checks, and compare with numpy."""
    args, results, right = arguments(tile, rows)
    more = {"gpu_name": gpu_name, "check": "full", "block_order": order} if backend == "simulator" else {}
    libtile.run(bytecode(tile, words, gpu_name), "corrected", grid=(1, 1, 1), args=args, backend=backend, **more)
    for found, value in zip(results, right):
        np.testing.assert_array_equal(found, value)


@ct.kernel(occupancy=2)
def beside(w, q, k, v, e, tm: Constant, d: Constant):
    """Products of tiles that are copied alone, also of the next rows, and of one that the kernel's warps compute: it is
    loaded first."""
    total = ct.zeros((tm, tm), ct.float32)
    for j in range(ct.num_tiles(q, 0, (tm, d))):
        y = ct.load(w, (j, 0), (tm, d), padding_mode=ZERO)
        a = ct.load(q, (j, 0), (tm, d), padding_mode=ZERO)
        b = ct.load(k, (j, 0), (tm, d), padding_mode=ZERO)
        c = ct.load(v, (j, 0), (tm, d), padding_mode=ZERO)
        x = ct.load(v, (j + 1, 0), (tm, d), padding_mode=ZERO)
        s = ct.mma(a, ct.transpose(b), ct.zeros((tm, tm), ct.float32))
        s = ct.mma(x, ct.transpose(ct.load(k, (j + 1, 0), (tm, d), padding_mode=ZERO)), s)
        t = ct.mma(c, ct.transpose(y * y + y), ct.zeros((tm, tm), ct.float32))
        total = _cut(total + s * t, 8.0)
    ct.store(e, (0, 0), total)


def run_beside(tile: tuple[int, int], rows: int, gpu_name: str, order: int | None = None) -> None:
    """Run `beside` in the simulator with all checks, and compare with numpy."""
    rng = np.random.default_rng(rows)
    given = [rng.integers(-1, 2, (rows, tile[1])).astype(np.float16) for _ in range(4)]
    result = np.full((tile[0], tile[0]), 7, np.float32)
    args = [v for x in (*given, result) for v in (x, *x.shape, x.shape[1], 1)]
    total = np.zeros(result.shape)
    for first in range(0, rows, tile[0]):
        y, a, b, c = (x[first : first + tile[0]].astype(np.float64) for x in given)
        _, _, f, g = (np.zeros(y.shape) if first + tile[0] == rows else x[first + tile[0] :][: tile[0]] for x in given)
        total = np.clip(total + (a @ b.T + g @ np.float64(f).T) * (c @ (y * y + y).T), -8, 8)
    libtile.run(
        beside_bytecode(tile, gpu_name), "beside", grid=(1, 1, 1), args=args, backend="simulator", gpu_name=gpu_name,
        check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_array_equal(result, total)


def beside_bytecode(tile: tuple[int, int], gpu_name: str) -> bytes:
    half, whole = (array(t, 2, multiple_of=16, shape_divisible_by=(16, 16)) for t in (ct.float16, ct.float32))
    return run_frontend(Kernel("beside", beside, (half,) * 4 + (whole, *tile), None, None, EXACT), "13.3", gpu_name)
