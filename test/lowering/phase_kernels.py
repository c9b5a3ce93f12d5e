# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels with products in several loops, or in none, in cuTile: layers of a network, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cuda.tile as ct
import numpy as np

import libtile
from examples.signatures import array
from kernels.corpus import run_frontend
from kernels.model import EXACT, Kernel

Constant = ct.Constant[int]
Reference = Callable[..., np.ndarray]


@ct.kernel
def layers(a, b, c, e, tm: Constant, tn: Constant, tk: Constant):
    """e = relu(a b) c, without a loop."""
    row = ct.bid(0)
    x = ct.mma(ct.load(a, (row, 0), (tm, tk)), ct.load(b, (0, 0), (tk, tn)), ct.zeros((tm, tn), ct.float32))
    x = ct.maximum(x, 0).astype(ct.float16)
    y = ct.mma(x, ct.load(c, (0, 0), (tn, tk)), ct.zeros((tm, tk), ct.float32))
    ct.store(e, (row, 0), y)


@ct.kernel
def adapter(a, b, c, d, e, tm: Constant, tn: Constant, tk: Constant):
    """e = a b + (a c) d: a product with a change of low rank, in two loops and a product behind them."""
    row, column = ct.bid(0), ct.bid(1)
    small = ct.zeros((tm, 16), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        small = ct.mma(left, ct.load(c, (k, 0), (tk, 16), padding_mode=ct.PaddingMode.ZERO), small)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO), total)
    total = ct.mma(small.astype(ct.float16), ct.load(d, (0, column), (16, tn)), total)
    ct.store(e, (row, column), total)


@ct.kernel
def low_rank(a, b, c, d, e, tm: Constant, tn: Constant, tk: Constant):
    """As `adapter`, in one loop, whose products share the left operand."""
    row, column = ct.bid(0), ct.bid(1)
    total, small = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, 16), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO), total)
        small = ct.mma(left, ct.load(c, (k, 0), (tk, 16), padding_mode=ct.PaddingMode.ZERO), small)
    total = ct.mma(small.astype(ct.float16), ct.load(d, (0, column), (16, tn)), total)
    ct.store(e, (row, column), total)


@ct.kernel
def sums(a, b, c, d, e, tm: Constant, tn: Constant, tk: Constant):
    """e = a b + c d: two loops that add to one sum, with tiles of the same shapes."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO), total)
    for k in range(ct.num_tiles(c, 1, (tm, tk))):
        left = ct.load(c, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, ct.load(d, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(e, (row, column), total)


@ct.kernel
def gates(a, b, c, d, e, tm: Constant, tn: Constant, tk: Constant):
    """e = tanh(a b + c d) + a b^ + c d^, with b and b^, d and d^ side by side: two loops with two sums each."""
    row, column = ct.bid(0), ct.bid(1)
    total, other = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, tn), ct.float32)
    half = ct.num_tiles(e, 1, (tm, tn))
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO), total)
        other = ct.mma(left, ct.load(b, (k, column + half), (tk, tn), padding_mode=ct.PaddingMode.ZERO), other)
    for k in range(ct.num_tiles(c, 1, (tm, tk))):
        left = ct.load(c, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, ct.load(d, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO), total)
        other = ct.mma(left, ct.load(d, (k, column + half), (tk, tn), padding_mode=ct.PaddingMode.ZERO), other)
    ct.store(e, (row, column), ct.tanh(total) + other)


@ct.kernel
def scores(a, b, c, e, tm: Constant, tn: Constant, tk: Constant):
    """e = softmax(a b^T) c of one block of keys, for several tiles a block."""
    for row in range(ct.bid(0), ct.num_tiles(a, 0, (tm, tk)), ct.num_blocks(0)):
        left = ct.load(a, (row, 0), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        x = ct.mma(left, ct.load(b, (0, 0), (tk, tn), order=(1, 0)), ct.zeros((tm, tn), ct.float32))
        x = ct.exp(x - ct.max(x, 1, keepdims=True))
        total = ct.sum(x, 1, keepdims=True)
        y = ct.mma(x.astype(ct.float16), ct.load(c, (0, 0), (tn, tk)), ct.zeros((tm, tk), ct.float32))
        ct.store(e, (row, 0), y / total)


@ct.kernel
def perceptron(a, b, c, e, tm: Constant, tn: Constant, tk: Constant):
    """e = relu(a b) c, of which a block makes the hidden layer tile by tile: a loop with a product in a loop with
    another one, whose sum that carries."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for hidden in range(ct.num_tiles(b, 1, (tk, tk))):
        x = ct.zeros((tm, tk), ct.float32)
        for k in range(ct.num_tiles(a, 1, (tm, tk))):
            left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
            x = ct.mma(left, ct.load(b, (k, hidden), (tk, tk), padding_mode=ct.PaddingMode.ZERO), x)
        x = ct.maximum(x, 0).astype(ct.float16)
        total = ct.mma(x, ct.load(c, (hidden, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO), total)
    ct.store(e, (row, column), total)


@ct.kernel
def gated_perceptron(a, b, c, d, e, tm: Constant, tn: Constant, tk: Constant):
    """e = (max(a b, 0) (a c)) d for several rows of tiles a block: the inner loop has two sums, and another loop is
    around both."""
    for row in range(ct.bid(0), ct.num_tiles(a, 0, (tm, tk)), ct.num_blocks(0)):
        total = ct.zeros((tm, tn), ct.float32)
        for hidden in range(ct.num_tiles(b, 1, (tk, tk))):
            x, gate = ct.zeros((tm, tk), ct.float32), ct.zeros((tm, tk), ct.float32)
            for k in range(ct.num_tiles(a, 1, (tm, tk))):
                left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
                gate = ct.mma(left, ct.load(b, (k, hidden), (tk, tk), padding_mode=ct.PaddingMode.ZERO), gate)
                x = ct.mma(left, ct.load(c, (k, hidden), (tk, tk), padding_mode=ct.PaddingMode.ZERO), x)
            x = (ct.maximum(gate, 0) * x / 64).astype(ct.float16)
            total = ct.mma(x, ct.load(d, (hidden, 0), (tk, tn), padding_mode=ct.PaddingMode.ZERO), total)
        ct.store(e, (row, 0), total)


def _exactly(*arrays: np.ndarray) -> list[np.ndarray]:
    return [x.astype(np.float64) for x in arrays]


def _layers(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    a, b, c = _exactly(a, b, c)
    return np.maximum(a @ b, 0) @ c


def _adapter(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    a, b, c, d = _exactly(a, b, c, d)
    return a @ b + (a @ c) @ d


def _sums(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    a, b, c, d = _exactly(a, b, c, d)
    return a @ b + c @ d


def _gates(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    both, n = _sums(a, b, c, d), b.shape[1] // 2
    return np.tanh(both[:, :80]) + both[:, n:][:, :80]


def _scores(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    a, b, c = _exactly(a, b, c)
    x = np.exp((s := a @ b.T) - s.max(axis=1, keepdims=True))
    return x @ c / x.sum(axis=1, keepdims=True)


def _gated_perceptron(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    a, b, c, d = _exactly(a, b, c, d)
    return (np.maximum(a @ b, 0) * (a @ c) / 64).astype(np.float16).astype(np.float64) @ d


Shapes = tuple[tuple[int, int], ...]
KERNELS: dict[str, tuple[Any, Reference, Callable[[int, int, int, int], Shapes]]] = {
    "layers": (layers, _layers, lambda m, n, k, _: ((m, k), (k, n), (n, k), (m, k))),
    "adapter": (adapter, _adapter, lambda m, n, k, _: ((m, k), (k, n), (k, 16), (16, n), (m, n))),
    "low_rank": (low_rank, _adapter, lambda m, n, k, _: ((m, k), (k, n), (k, 16), (16, n), (m, n))),
    "sums": (sums, _sums, lambda m, n, k, more: ((m, k), (k, n), (m, more), (more, n), (m, n))),
    "gates": (gates, _gates, lambda m, n, k, more: ((m, k), (k, 256), (m, more), (more, 256), (m, n))),
    "scores": (scores, _scores, lambda m, n, k, _: ((m, k), (n, k), (n, k), (m, k))),
    "perceptron": (perceptron, _layers, lambda m, n, k, more: ((m, k), (k, more), (more, n), (m, n))),
    "gated_perceptron": (
        gated_perceptron,
        _gated_perceptron,
        lambda m, n, k, more: ((m, k), (k, more), (k, more), (more, n), (m, n)),
    ),
}
"""By name: the function, what it computes, and the shapes of its arrays for m, n, k, and a second k."""


def bytecode(name: str, tile: tuple[int, int, int], gpu_name: str) -> bytes:
    """A kernel for tiles of m x n x k."""
    function, _, shapes = KERNELS[name]
    half = array(ct.float16, 2, multiple_of=16, shape_divisible_by=(1, 1))
    arrays = [half] * (len(shapes(1, 1, 1, 1)) - 1)
    result = array(ct.float32, 2, multiple_of=16, shape_divisible_by=(1, 1))
    return run_frontend(Kernel(name, function, (*arrays, result, *tile), None, None, EXACT), "13.3", gpu_name)


def run(
    name: str, tile: tuple[int, int, int], size: Sequence[int], gpu_name: str, *,
    order: int | None = None, blocks: int = 0,
) -> None:  # fmt: skip
    """Run a kernel on problems of m x n x k (and a second k) in the simulator, and compare with numpy."""
    m, n, k, more = (*size, size[2])[:4]
    _, reference, shapes = KERNELS[name]
    rng = np.random.default_rng(sum(size))
    *given, (rows, columns) = shapes(m, n, k, more)
    arrays = [rng.integers(-2, 3, shape).astype(np.float16) / (8 if name == "scores" else 1) for shape in given]
    result = np.full((rows, columns), 7, np.float32)
    args = [v for x in (*arrays, result) for v in (x, *x.shape, *(s // x.itemsize for s in x.strides))]
    grid = (blocks or -(-rows // tile[0]), 1 if blocks or name == "layers" else -(-columns // tile[1]), 1)
    libtile.run(
        bytecode(name, tile, gpu_name), name, grid=grid, args=args, backend="simulator", gpu_name=gpu_name,
        check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_allclose(result, reference(*arrays), atol=2e-3 if name == "scores" else 1e-3)
