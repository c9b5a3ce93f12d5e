# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops whose products compute operands of each other, and of what they carry, in cuTile."""

from __future__ import annotations

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
def carried(q, k, v, e, tm: Constant, d: Constant):
    """Causal attention without a softmax: what earlier blocks add is read from a state, and that of this one masked."""
    state = ct.zeros((d, d), ct.float32)
    row, column = ct.arange(tm, dtype=ct.int32)[:, None], ct.arange(tm, dtype=ct.int32)[None, :]
    for j in range(ct.num_tiles(q, 0, (tm, d))):
        a = ct.load(q, (j, 0), (tm, d), padding_mode=ZERO)
        b = ct.load(k, (j, 0), (tm, d), padding_mode=ZERO)
        c = ct.load(v, (j, 0), (tm, d), padding_mode=ZERO)
        s = ct.mma(a, ct.transpose(b), ct.zeros((tm, tm), ct.float32))
        s = ct.where(row >= column, s, 0.0)
        o = ct.mma(a, state.astype(ct.float16), ct.zeros((tm, d), ct.float32))
        o = ct.mma(s.astype(ct.float16), c, o)
        state = ct.mma(ct.transpose(b), c, state)
        ct.store(e, (j, 0), o.astype(e.dtype))


@ct.kernel
def fading(q, k, v, e, tm: Constant, d: Constant):
    """As `carried`, of whole blocks, where the state is halved first, and read when this block is in it."""
    state = ct.zeros((d, d), ct.float32)
    for j in range(ct.num_tiles(q, 0, (tm, d))):
        a = ct.load(q, (j, 0), (tm, d), padding_mode=ZERO)
        b = ct.load(k, (j, 0), (tm, d), padding_mode=ZERO)
        c = ct.load(v, (j, 0), (tm, d), padding_mode=ZERO)
        state = ct.mma(ct.transpose(b), c, state * 0.5)
        ct.store(e, (j, 0), ct.mma(a, state.astype(ct.float16), ct.zeros((tm, d), ct.float32)))


HEADS = 3


@ct.kernel
def heads(q, k, v, e, tm: Constant, d: Constant):
    """As `carried`, for several heads, whose rows stand behind each other: one after the other by each tile block."""
    row, column = ct.arange(tm, dtype=ct.int32)[:, None], ct.arange(tm, dtype=ct.int32)[None, :]
    each = ct.num_tiles(q, 0, (tm, d)) // HEADS
    for h in range(ct.bid(0), HEADS, ct.num_blocks(0)):
        state = ct.zeros((d, d), ct.float32)
        for j in range(each):
            a = ct.load(q, (h * each + j, 0), (tm, d), padding_mode=ZERO)
            b = ct.load(k, (h * each + j, 0), (tm, d), padding_mode=ZERO)
            c = ct.load(v, (h * each + j, 0), (tm, d), padding_mode=ZERO)
            s = ct.mma(a, ct.transpose(b), ct.zeros((tm, tm), ct.float32))
            s = ct.where(row >= column, s, 0.0)
            o = ct.mma(a, state.astype(ct.float16), ct.zeros((tm, d), ct.float32))
            o = ct.mma(s.astype(ct.float16), c, o)
            state = ct.mma(ct.transpose(b), c, state)
            ct.store(e, (h * each + j, 0), o.astype(e.dtype))


@ct.kernel
def keys_first(q, k, v, e, tm: Constant, d: Constant):
    """What attention's gradients are made of: a block of keys, and two sums over all queries, half as many in a step as
    there are keys."""
    b = ct.load(k, (0, 0), (tm, d), padding_mode=ZERO)
    total, other = ct.zeros((tm, d), ct.float32), ct.zeros((tm, d), ct.float32)
    for j in range(ct.num_tiles(q, 0, (tm // 2, d))):
        a = ct.load(q, (j, 0), (tm // 2, d), padding_mode=ZERO)
        c = ct.load(v, (j, 0), (tm // 2, d), padding_mode=ZERO)
        s = ct.mma(b, ct.transpose(a), ct.zeros((tm, tm // 2), ct.float32))
        t = ct.mma(b, ct.transpose(c), ct.zeros((tm, tm // 2), ct.float32))
        total = ct.mma(s.astype(ct.float16), c, total)
        other = ct.mma(ct.minimum(ct.maximum(s * t, -8.0), 8.0).astype(ct.float16), a, other)
    ct.store(e, (0, 0), (total + other).astype(e.dtype))


@ct.kernel
def at_once(q, k, v, e, tm: Constant, d: Constant):
    """As `keys_first`, with what queries get of it in the same step, in half as many rows: those behind the first block
    keep it."""
    b = ct.load(k, (0, 0), (tm, d), padding_mode=ZERO)
    total, other = ct.zeros((tm, d), ct.float32), ct.zeros((tm, d), ct.float32)
    for j in range(ct.num_tiles(q, 0, (tm // 2, d))):
        a = ct.load(q, (j, 0), (tm // 2, d), padding_mode=ZERO)
        c = ct.load(v, (j, 0), (tm // 2, d), padding_mode=ZERO)
        s = ct.mma(b, ct.transpose(a), ct.zeros((tm, tm // 2), ct.float32))
        t = ct.mma(b, ct.transpose(c), ct.zeros((tm, tm // 2), ct.float32))
        total = ct.mma(s.astype(ct.float16), c, total)
        slope = ct.minimum(ct.maximum(s * t, -8.0), 8.0).astype(ct.float16)
        other = ct.mma(slope, a, other)
        ct.store(e, (j, 0), ct.mma(ct.transpose(slope), b, ct.zeros((tm // 2, d), ct.float32)).astype(e.dtype))
    ct.store(e, (0, 0), (total + other).astype(e.dtype))


GROUPS = 2


@ct.kernel(occupancy=2)
def groups(q, k, v, e, tm: Constant, d: Constant):
    """As `keys_first`, of keys that groups of heads share, whose queries stand behind each other: what all of them add
    is carried from one to the next, and each begins at a row of its own."""
    b = ct.load(k, (0, 0), (tm, d), padding_mode=ZERO)
    total, other = ct.zeros((tm, d), ct.float32), ct.zeros((tm, d), ct.float32)
    each = ct.num_tiles(q, 0, (tm // 2, d)) // GROUPS
    for h in range(GROUPS):
        for j in range(h, each):
            a = ct.load(q, (h * each + j, 0), (tm // 2, d), padding_mode=ZERO)
            c = ct.load(v, (h * each + j, 0), (tm // 2, d), padding_mode=ZERO)
            s = ct.mma(b, ct.transpose(a), ct.zeros((tm, tm // 2), ct.float32))
            t = ct.mma(b, ct.transpose(c), ct.zeros((tm, tm // 2), ct.float32))
            total = ct.mma(s.astype(ct.float16), c, total)
            other = ct.mma(ct.minimum(ct.maximum(s * t, -8.0), 8.0).astype(ct.float16), a, other)
    ct.store(e, (0, 0), (total + other).astype(e.dtype))


def _carried(q: np.ndarray, k: np.ndarray, v: np.ndarray, tm: int) -> np.ndarray:
    return np.tril(q @ k.T) @ v


def _fading(q: np.ndarray, k: np.ndarray, v: np.ndarray, tm: int) -> np.ndarray:
    state, found = np.zeros((q.shape[1], v.shape[1])), []
    for first in range(0, len(q), tm):
        rows = slice(first, first + tm)
        state = state * 0.5 + k[rows].T @ v[rows]
        found.append(q[rows] @ state)
    return np.concatenate(found)


def _keys_first(q: np.ndarray, k: np.ndarray, v: np.ndarray, tm: int) -> np.ndarray:
    found, b = np.full(k.shape, 7.0), k[:tm]
    s, t = b @ q.T, b @ v.T
    found[:tm] = s @ v + np.clip(s * t, -8, 8) @ q
    return found


def _at_once(q: np.ndarray, k: np.ndarray, v: np.ndarray, tm: int) -> np.ndarray:
    b = k[:tm]
    found = np.clip((b @ q.T) * (b @ v.T), -8, 8).T @ b
    found[:tm] = _keys_first(q, k, v, tm)[:tm]
    return found


def _groups(q: np.ndarray, k: np.ndarray, v: np.ndarray, tm: int) -> np.ndarray:
    found = np.full(k.shape, 7.0)
    taken = [
        (x[tm // 2 * h :], y[tm // 2 * h :]) for h, (x, y) in enumerate(zip(np.split(q, GROUPS), np.split(v, GROUPS)))
    ]
    found[:tm] = sum(_keys_first(x, k, y, tm)[:tm] for x, y in taken)
    return found


def _heads(q: np.ndarray, k: np.ndarray, v: np.ndarray, tm: int) -> np.ndarray:
    parts = (np.split(x, HEADS) for x in (q, k, v))
    return np.concatenate([_carried(a, b, c, tm) for a, b, c in zip(*parts)])


KERNELS: dict[str, tuple[Any, Callable[..., np.ndarray]]] = {
    "carried": (carried, _carried),
    "fading": (fading, _fading),
    "at_once": (at_once, _at_once),
    "groups": (groups, _groups),
    "heads": (heads, _heads),
    "keys_first": (keys_first, _keys_first),
}
"""By name: the function, and what it gives of queries, keys and values for blocks of so many rows."""


def bytecode(name: str, tile: tuple[int, int], gpu_name: str, type_: Any = ct.float32) -> bytes:
    """A kernel for blocks of rows of d, which gives numbers of a type."""
    half, result = (array(t, 2, multiple_of=16, shape_divisible_by=(1, 16)) for t in (ct.float16, type_))
    kernel = Kernel(name, KERNELS[name][0], (half, half, half, result, *tile), None, None, EXACT)
    return run_frontend(kernel, "13.3", gpu_name)


def arguments(name: str, tile: tuple[int, int], rows: int) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """A launch's arguments for so many rows, the result among them, and what that is to be: small integers, so that
    everything is exact but where a state is rounded."""
    rng = np.random.default_rng(rows)
    given = [rng.integers(-1, 2, (rows, tile[1])).astype(np.float16) for _ in range(3)]
    result = np.full((rows, tile[1]), 7, np.float32)
    args = [v for x in (*given, result) for v in (x, *x.shape, x.shape[1], 1)]
    return args, result, KERNELS[name][1](*(x.astype(np.float64) for x in given), tile[0])


def run(name: str, tile: tuple[int, int], rows: int, gpu_name: str, order: int | None = None) -> None:
    """Run a kernel in the simulator, with all checks, and compare with numpy."""
    args, result, wanted = arguments(name, tile, rows)
    libtile.run(
        bytecode(name, tile, gpu_name), name, grid=(1, 1, 1), args=args, backend="simulator", gpu_name=gpu_name,
        check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_allclose(result, wanted, rtol=0, atol=0.3 if name == "fading" else 0)
