# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels whose tiles take more registers than threads have where products read registers."""

from __future__ import annotations

import cuda.tile as ct
import numpy as np

from libtile import cutile

Size = ct.Constant[int]


@ct.kernel(occupancy=2)
def attention(Q, K, V, Out, LSE, scale: float, TM: Size, TN: Size, D: Size):
    """For two blocks of a multiprocessor, with the logarithms of the sums through pointers."""
    bx = ct.bid(0)
    q = ct.load(Q, index=(bx, 0), shape=(TM, D))
    m = ct.full((TM, 1), -1.0e30, dtype=ct.float32)
    total = ct.full((TM, 1), 0.0, dtype=ct.float32)
    acc = ct.full((TM, D), 0.0, dtype=ct.float32)
    for j in range(ct.num_tiles(K, axis=0, shape=(TN, D))):
        k = ct.load(K, index=(j, 0), shape=(TN, D))
        s = ct.mma(q, ct.transpose(k), ct.full((TM, TN), 0.0, dtype=ct.float32)) * scale
        mn = max(m, ct.max(s, axis=1, keepdims=True))
        p = ct.exp2(s - mn)
        al = ct.exp2(m - mn)
        total = total * al + ct.sum(p, axis=1, keepdims=True)
        v = ct.load(V, index=(j, 0), shape=(TN, D))
        acc = ct.mma(ct.astype(p, Q.dtype), v, acc * al)
        m = mn
    ct.store(Out, index=(bx, 0), tile=ct.astype(acc / total, Out.dtype))
    row = bx * TM + ct.arange(TM, dtype=ct.int32)
    ct.scatter(LSE, row, (m + ct.log2(total)).reshape((TM,)))


@ct.kernel
def product(A, B, C, tm: Size, tn: Size, tk: Size):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(A, axis=1, shape=(tm, tk))):
        a = ct.load(A, index=(i, k), shape=(tm, tk), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, index=(k, j), shape=(tk, tn), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(a, b, acc)
    ct.store(C, index=(i, j), tile=acc)


@ct.kernel
def some_products(A, B, Wanted, C, tm: Size, tn: Size, tk: Size):
    """Tile after tile, of those that are wanted: in a branch of a loop."""
    columns = ct.num_tiles(B, axis=1, shape=(tk, tn))
    for t in range(ct.bid(0), ct.num_tiles(A, axis=0, shape=(tm, tk)) * columns, ct.num_blocks(0)):
        i, j = t // columns, t % columns
        if ct.load(Wanted, index=(t,), shape=(1,)).item() > 0:
            acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
            for k in range(ct.num_tiles(A, axis=1, shape=(tm, tk))):
                a = ct.load(A, index=(i, k), shape=(tm, tk))
                b = ct.load(B, index=(k, j), shape=(tk, tn))
                acc = ct.mma(a, b, acc)
            ct.store(C, index=(i, j), tile=acc)


@ct.kernel
def added(A, B, C, tm: Size, tn: Size, tk: Size):
    """Each element of C is loaded in front of its store, which a token orders."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.load(C, index=(i, j), shape=(tm, tn))
    for k in range(ct.num_tiles(A, axis=1, shape=(tm, tk))):
        a = ct.load(A, index=(i, k), shape=(tm, tk))
        b = ct.load(B, index=(k, j), shape=(tk, tn))
        acc = ct.mma(a, b, acc)
    ct.store(C, index=(i, j), tile=acc)


KERNELS = {"attention": attention, "product": product, "some_products": some_products, "added": added}


def arguments(name: str, tiles: tuple[int, int, int], size: tuple[int, int, int]) -> list:
    """A kernel's arguments: of a product of so many rows, columns and steps, or of attention of so many queries and
    keys of one length."""
    rng, (m, n, k) = np.random.default_rng(1), size
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    if name == "attention":
        keys, values = (rng.standard_normal((n, k)).astype(np.float16) for _ in range(2))
        lse = np.zeros(m, np.float32)
        return [a, keys, values, np.zeros((m, k), np.float16), lse, 1.4426950408889634 / k**0.5, *tiles]
    if name == "some_products":
        count = -(-m // tiles[0]) * -(-n // tiles[1])
        wanted = (np.arange(count) % 3 != 1).astype(np.int32)
        return [a, b, wanted, np.full((m, n), 7, np.float32), *tiles]
    c = np.ones((m, n), np.float32) if name == "added" else np.zeros((m, n), np.float32)
    return [a, b, c, *tiles]


def bytecode(name: str, tiles: tuple[int, int, int], size: tuple[int, int, int], gpu_name: str) -> bytes:
    return cutile.bytecode_for(KERNELS[name], tuple(arguments(name, tiles, size)), gpu_name=gpu_name)[0]


def run(name: str, tiles: tuple[int, int, int], size: tuple[int, int, int], gpu_name: str, **options) -> None:
    """Run a kernel, and compare with numpy."""
    args, (m, n, _) = arguments(name, tiles, size), size
    rows, columns = -(-m // tiles[0]), -(-n // tiles[1])
    grid = {"some_products": (2,), "attention": (rows,)}.get(name, (rows, columns))
    cutile.launch(KERNELS[name], grid, tuple(args), backend="simulator", gpu_name=gpu_name, **options)
    a = args[0].astype(np.float32)
    if name == "attention":
        scores = a @ args[1].astype(np.float32).T * args[5]
        most = scores.max(1, keepdims=True)
        p = np.exp2(scores - most)
        total = p.sum(1, keepdims=True)
        np.testing.assert_allclose(args[3].astype(np.float32), p @ args[2].astype(np.float32) / total, atol=4e-3)
        np.testing.assert_allclose(args[4], (most + np.log2(total))[:, 0], rtol=1e-4, atol=1e-4)
        return
    wanted = a @ args[1].astype(np.float32)
    if name == "added":
        wanted += 1
    if name == "some_products":
        for t, is_wanted in enumerate(args[2]):
            if not is_wanted:
                i, j = t // columns, t % columns
                wanted[i * tiles[0] : (i + 1) * tiles[0], j * tiles[1] : (j + 1) * tiles[1]] = 7
    np.testing.assert_allclose(args[3 if name == "some_products" else 2], wanted, rtol=1e-4, atol=1e-3)
