# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of few queries, in cuTile: keys stand in rows and queries in columns, so that products have rows for
warpgroups. All scores are small integers, and weights powers of two."""

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
PLACES = 64
"""Columns that say where a key stands."""


def _fold(state, s, values, shown):
    """A step of the softmax over scores, by powers of two, and of what it weights, from a state on."""
    total, most, weights = state
    s = ct.where(shown, s, -1.0e6)
    now = ct.maximum(most, ct.max(s, 0))
    p = ct.exp2(s - now[None, :])
    fades = ct.exp2(most - now)
    total = ct.mma(ct.transpose(values), p.astype(ct.float16), total * fades[None, :])
    return total, now, weights * fades[None, :] + p


@ct.kernel(occupancy=2)
def latent(q, r, k, v, z, e, n: Constant, d: Constant, heads: Constant):
    """Keys and values, each as large as half of shared memory, beside tiles that say where they stand."""
    a = ct.transpose(ct.load(q, (0, 0), (heads, d), padding_mode=ZERO))
    b = ct.transpose(ct.load(r, (0, 0), (heads, PLACES), padding_mode=ZERO))
    total, weights = ct.zeros((d, heads), ct.float32), ct.zeros((n, heads), ct.float32)
    state = (total, ct.full((heads,), -8.0, ct.float32), weights)
    rows = ct.arange(n, dtype=ct.int32)
    for j in range(ct.num_tiles(k, 0, (n, d))):
        s = ct.mma(ct.load(k, (j, 0), (n, d), padding_mode=ZERO), a, ct.zeros((n, heads), ct.float32))
        s = ct.mma(ct.load(z, (j, 0), (n, PLACES), padding_mode=ZERO), b, s)
        values = ct.load(v, (j, 0), (n, d), padding_mode=ZERO)
        state = _fold(state, s, values, (j * n + rows < k.shape[0])[:, None])
    ct.store(e, (0, 0), ct.transpose(state[0] / ct.sum(state[2], 0)[None, :]))


@ct.kernel
def split(q, k, v, e, most_of, first: Constant, n: Constant, d: Constant, heads: Constant):
    """One tile of keys, if there are any: no loop is left."""
    a = ct.transpose(ct.load(q, (0, 0), (heads, d), padding_mode=ZERO))
    total, weights = ct.zeros((d, heads), ct.float32), ct.zeros((n, heads), ct.float32)
    state = (total, ct.full((heads,), -8.0, ct.float32), weights)
    rows = ct.arange(n, dtype=ct.int32)
    if k.shape[0] > first * n:
        s = ct.mma(ct.load(k, (first, 0), (n, d), padding_mode=ZERO), a, ct.zeros((n, heads), ct.float32))
        values = ct.load(v, (first, 0), (n, d), padding_mode=ZERO)
        state = _fold(state, s, values, (first * n + rows < k.shape[0])[:, None])
    ct.store(e, (0, 0), ct.transpose(state[0]))
    ct.store(most_of, (0,), state[1] + ct.log2(ct.sum(state[2], 0) + 1.0))


def bytecode(name: str, sizes: tuple[int, ...], gpu_name: str) -> bytes:
    """`latent` for tiles of n keys of d columns, and so many queries; `split` for one of these tiles."""
    half, whole = (array(t, 2, multiple_of=16, shape_divisible_by=(1, 16)) for t in (ct.float16, ct.float32))
    if name == "latent":
        parameters: tuple[Any, ...] = (half, half, half, half, half, whole, *sizes)
    else:
        parameters = (half, half, half, whole, array(ct.float32, 1, multiple_of=16, shape_divisible_by=8), *sizes)
    function = {"latent": latent, "split": split}[name]
    return run_frontend(Kernel(name, function, parameters, None, None, EXACT), "13.3", gpu_name)


def _arguments(*arrays: np.ndarray) -> list[Any]:
    return [v for x in arrays for v in (x, *x.shape, *(x.shape[1:] or ()), 1)]


def _softmax(s: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What keys by queries weight, the sum of the weights, and the largest score."""
    most = np.maximum(s.max(axis=0, initial=-8), -8)
    p = np.exp2(s - most)
    return values.T @ p, p.sum(axis=0), most


def run_latent(
    sizes: tuple[int, int, int], rows: int, gpu_name: str, order: int | None = None, backend: str = "simulator"
) -> None:
    """Run `latent` over so many keys, in the simulator with all checks, and compare with numpy."""
    _, d, heads = sizes
    rng = np.random.default_rng(rows)
    k, v, z = (rng.integers(-1, 2, (rows, c)).astype(np.float16) for c in (d, d, PLACES))
    q, r = (rng.integers(-1, 2, (heads, c)).astype(np.float16) for c in (d, PLACES))
    q[:, 16:] = 0  # few columns make scores
    result = np.full((heads, d), 7, np.float32)
    more = {"gpu_name": gpu_name, "check": "full", "block_order": order} if backend == "simulator" else {}
    libtile.run(bytecode("latent", sizes, gpu_name), "latent", grid=(1, 1, 1), args=_arguments(q, r, k, v, z, result),
                backend=backend, **more)  # fmt: skip
    scores = k.astype(float) @ q.T.astype(float) + z.astype(float) @ r.T.astype(float)
    total, weights, _ = _softmax(scores, v.astype(float))
    np.testing.assert_allclose(result, (total / weights).T, rtol=2e-6, atol=2e-6)


def run_split(
    first: int, sizes: tuple[int, int, int], rows: int, gpu_name: str, order: int | None = None,
    backend: str = "simulator",
) -> None:  # fmt: skip
    """Run `split` over the tile of a number, of so many keys, in the simulator with all checks, and compare with
    numpy."""
    n, d, heads = sizes
    rng = np.random.default_rng(rows)
    k, v = (rng.integers(-1, 2, (rows, d)).astype(np.float16) for _ in range(2))
    q = rng.integers(-1, 2, (heads, d)).astype(np.float16)
    q[:, 16:] = 0
    result, most = np.full((heads, d), 7, np.float32), np.full(heads, 7, np.float32)
    more = {"gpu_name": gpu_name, "check": "full", "block_order": order} if backend == "simulator" else {}
    libtile.run(bytecode("split", (first, *sizes), gpu_name), "split", grid=(1, 1, 1),
                args=_arguments(q, k, v, result, most), backend=backend, **more)  # fmt: skip
    mine = slice(first * n, (first + 1) * n)
    total, weights, largest = _softmax(k[mine].astype(float) @ q.T.astype(float), v[mine].astype(float))
    np.testing.assert_allclose(result, total.T, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(most, largest + np.log2(weights + 1), rtol=2e-6, atol=2e-6)
