# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that reduce each product along its rows, and keep rows from one to the next, in cuTile: losses, searches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np

import libtile
from examples.signatures import array
from kernels.corpus import run_frontend
from kernels.model import EXACT, Kernel

Constant = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def cross_entropy(x, w, target, e, f, tm: Constant, tn: Constant, tk: Constant):
    """The logarithm of the sum of the exponentials of the rows of x @ w^T, and what stands at the target, for one
    tile of w after the other."""
    i = ct.bid(0)
    most = ct.full((tm, 1), -math.inf, ct.float32)
    total, found = ct.zeros((tm, 1), ct.float32), ct.zeros((tm, 1), ct.float32)
    wanted = ct.load(target, (i,), (tm,))[:, None]
    for v in range(ct.num_tiles(w, 0, (tn, tk))):
        score = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(x, 1, (tm, tk))):
            a = ct.load(x, (i, k), (tm, tk), padding_mode=ZERO)
            b = ct.load(w, (v, k), (tn, tk), padding_mode=ZERO)
            score = ct.mma(a, b.transpose(), score)
        column = (v * tn + ct.arange(tn, dtype=ct.int32))[None, :]
        score = ct.where(column < w.shape[0], score, -math.inf)
        more = ct.maximum(most, ct.max(score, axis=1, keepdims=True))
        total = total * ct.exp(most - more) + ct.sum(ct.exp(score - more), axis=1, keepdims=True)
        most = more
        found += ct.sum(ct.where(column == wanted, score, 0.0), axis=1, keepdims=True)
    ct.store(e, (i,), (most + ct.log(total)).reshape((tm,)))
    ct.store(f, (i,), found.reshape((tm,)))


@ct.kernel
def nearest(x, w, target, e, f, tm: Constant, tn: Constant, tk: Constant):
    """The squared distance of each row of x to the nearest row of w, and which one that is. Rows are as long as tiles;
    warps read those of w from where products do."""
    i = ct.bid(0)
    a = ct.load(x, (i, 0), (tm, tk), padding_mode=ZERO)
    least, which = ct.full((tm,), math.inf, ct.float32), ct.zeros((tm,), ct.int32)
    for j in range(ct.num_tiles(w, 0, (tn, tk))):
        b = ct.load(w, (j, 0), (tn, tk), padding_mode=ZERO)
        wide = b.astype(ct.float32)
        far = ct.sum(wide * wide, axis=1)[None, :] - 2.0 * ct.mma(a, b.transpose(), ct.zeros((tm, tn), ct.float32))
        far = ct.where((j * tn + ct.arange(tn, dtype=ct.int32))[None, :] < w.shape[0], far, math.inf)
        here = ct.min(far, axis=1)
        which = ct.where(here < least, ct.argmin(far, axis=1) + j * tn, which)
        least = ct.minimum(here, least)
    own = a.astype(ct.float32)
    ct.store(e, (i,), least + ct.sum(own * own, axis=1))
    ct.store(f, (i,), which.astype(ct.float32))


@ct.kernel
def nearest_of_all(x, w, target, e, f, tm: Constant, tn: Constant, tk: Constant):
    """As `nearest`, for one tile of rows after the other by each tile block."""
    for i in range(ct.bid(0), ct.num_tiles(x, 0, (tm, tk)), 2):
        a = ct.load(x, (i, 0), (tm, tk), padding_mode=ZERO)
        least, which = ct.full((tm,), math.inf, ct.float32), ct.zeros((tm,), ct.int32)
        for j in range(ct.num_tiles(w, 0, (tn, tk))):
            b = ct.load(w, (j, 0), (tn, tk), padding_mode=ZERO)
            wide = b.astype(ct.float32)
            far = ct.sum(wide * wide, axis=1)[None, :] - 2.0 * ct.mma(a, b.transpose(), ct.zeros((tm, tn), ct.float32))
            far = ct.where((j * tn + ct.arange(tn, dtype=ct.int32))[None, :] < w.shape[0], far, math.inf)
            here = ct.min(far, axis=1)
            which = ct.where(here < least, ct.argmin(far, axis=1) + j * tn, which)
            least = ct.minimum(here, least)
        own = a.astype(ct.float32)
        ct.store(e, (i,), least + ct.sum(own * own, axis=1))
        ct.store(f, (i,), which.astype(ct.float32))


@ct.kernel
def normed(x, w, target, e, f, tm: Constant, tn: Constant, tk: Constant):
    """The largest of each row of x @ w^T, of as many rows of w as a tile has, and the sum of squares of each row of x,
    of which products and warps read the same tiles."""
    i = ct.bid(0)
    score, total = ct.zeros((tm, tn), ct.float32), ct.zeros((tm,), ct.float32)
    for k in range(ct.num_tiles(x, 1, (tm, tk))):
        a = ct.load(x, (i, k), (tm, tk), padding_mode=ZERO)
        score = ct.mma(a, ct.load(w, (0, k), (tn, tk), padding_mode=ZERO).transpose(), score)
        wide = a.astype(ct.float32)
        total += ct.sum(wide * wide, axis=1)
    ct.store(e, (i,), ct.max(score, axis=1))
    ct.store(f, (i,), total)


@ct.kernel
def led(x, w, target, e, f, tm: Constant, tn: Constant, tk: Constant):
    """Rows of tiles of w, of which each says by its first score which one is next."""
    i, here, most = ct.bid(0), ct.zeros((1,), ct.int32), ct.zeros((tm,), ct.float32)
    for _ in range(3):
        score = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(x, 1, (tm, tk))):
            a = ct.load(x, (i, k), (tm, tk), padding_mode=ZERO)
            b = ct.load(w, (here.item(), k), (tn, tk), padding_mode=ZERO)
            score = ct.mma(a, b.transpose(), score)
        here = ct.extract(score, (0, 0), (1, 1)).reshape((1,)).astype(ct.int32)
        most = ct.maximum(most, ct.max(score, axis=1))
    ct.store(e, (i,), most)


def _cross_entropy(x: np.ndarray, w: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    score = x @ w.T
    most = score.max(1)
    return most + np.log(np.exp(score - most[:, None]).sum(1)), score[np.arange(len(x)), target]


def _nearest(x: np.ndarray, w: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    far = ((x[:, None] - w[None]) ** 2).sum(2)
    return far.min(1), far.argmin(1)


def _normed(x: np.ndarray, w: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (x @ w.T).max(1), (x * x).sum(1)


KERNELS: dict[str, Any] = {
    "cross_entropy": cross_entropy,
    "nearest": nearest,
    "nearest_of_all": nearest_of_all,
    "normed": normed,
    "led": led,
}
WANTED: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "cross_entropy": _cross_entropy,
    "nearest": _nearest,
    "nearest_of_all": _nearest,
    "normed": _normed,
}
"""By name: the function, and what it gives of rows, others, and a number for each row."""


def bytecode(name: str, tile: tuple[int, ...], gpu_name: str) -> bytes:
    """A kernel for tiles of these sizes."""
    half = array(ct.float16, 2, multiple_of=16, shape_divisible_by=(1, 8))
    numbers, result = array(ct.int32, 1), array(ct.float32, 1)
    kernel = Kernel(name, KERNELS[name], (half, half, numbers, result, result, *tile), None, None, EXACT)
    return run_frontend(kernel, "13.3", gpu_name)


def run(name: str, tile: tuple[int, ...], size: tuple[int, int, int], gpu_name: str, order: int | None = None) -> None:
    """Run a kernel for so many rows, others, and numbers in each, in the simulator with all checks, and compare with
    numpy."""
    rng = np.random.default_rng(size)
    rows, others, depth = size
    x, w = (rng.integers(-3, 4, (n, depth)).astype(np.float16) / 4 for n in (rows, others))
    target = rng.integers(0, others, rows).astype(np.int32)
    results = [np.full(rows, 7, np.float32) for _ in range(2)]
    args = [
        v
        for given in (x, w, target, *results)
        for v in (given, *given.shape, *(s // given.itemsize for s in given.strides))
    ]
    libtile.run(
        bytecode(name, tile, gpu_name), name, grid=(min(-(-rows // tile[0]), 2), 1, 1), args=args, backend="simulator",
        gpu_name=gpu_name, check="full", block_order=order,
    )  # fmt: skip
    wanted = WANTED[name](x.astype(np.float64), w.astype(np.float64), target)
    for result, value in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-5)
