# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products in loops that compute their operands of what they load, in cuTile: narrow weights with factors, tiles that
are rounded, gated or masked on their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np

import libtile
from examples.signatures import array
from kernels.corpus import run_frontend
from kernels.model import EXACT, Kernel

Constant = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def channels(a, b, s, e, tm: Constant, tn: Constant, tk: Constant):
    """e = a (b s): 8-bit floats with a factor for each column, which is loaded once."""
    row, column = ct.bid(0), ct.bid(1)
    factors = ct.load(s, (0, column), (1, tn), padding_mode=ZERO)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ZERO).astype(ct.float16) * factors
        total = ct.mma(left, right, total)
    ct.store(e, (row, column), total)


@ct.kernel
def groups(a, b, s, e, tm: Constant, tn: Constant, tk: Constant):
    """e = a (b s)^T: integers of 8 bits, stored by columns, with factors for each step; one tile after the other."""
    tiles = ct.num_tiles(e, 1, (tm, tn))
    for tile in range(ct.bid(0), ct.num_tiles(e, 0, (tm, tn)) * tiles, ct.num_blocks(0)):
        row, column = tile // tiles, tile % tiles
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(a, 1, (tm, tk))):
            left = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
            right = ct.load(b, (column, k), (tn, tk), padding_mode=ZERO).astype(ct.float16)
            right = right * ct.load(s, (column, k), (tn, 1), padding_mode=ZERO)
            total = ct.mma(left, ct.transpose(right), total)
        ct.store(e, (row, column), total)


@ct.kernel
def rounded(a, b, e, tm: Constant, tn: Constant, tk: Constant):
    """e = a b, of which both are rounded to bf16."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO).astype(ct.bfloat16)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ZERO).astype(ct.bfloat16)
        total = ct.mma(left, right, total)
    ct.store(e, (row, column), total)


@ct.kernel
def gated(a, c, b, e, tm: Constant, tn: Constant, tk: Constant):
    """e = (silu(a) c) b: the second layer of a gated network, whose activation is applied on the way."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        gate = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO).astype(ct.float32)
        left = gate / (1.0 + ct.exp(-gate)) * ct.load(c, (row, k), (tm, tk), padding_mode=ZERO)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ZERO)
        total = ct.mma(left.astype(ct.float16), right, total)
    ct.store(e, (row, column), total)


@ct.kernel
def lower(a, b, e, tm: Constant, tn: Constant, tk: Constant):
    """e = tril(a) b: what is masked depends on the step."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    rows = row * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        columns = k * tk + ct.arange(tk, dtype=ct.int32)[None, :]
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
        left = ct.where(rows >= columns, left, ct.zeros((tm, tk), ct.float16))
        total = ct.mma(left, ct.load(b, (k, column), (tk, tn), padding_mode=ZERO), total)
    ct.store(e, (row, column), total)


@ct.kernel
def nibbles(a, b, s, e, tm: Constant, tn: Constant, tk: Constant):
    """e = a (b s), where a byte of b holds two numbers of 4 bits for rows that are tk apart: two products a step."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(b, 0, (tk, tn))):
        both = ct.load(b, (k, column), (tk, tn), padding_mode=ZERO)
        factors = ct.load(s, (k, column), (1, tn), padding_mode=ZERO)
        low = (ct.astype(both & 15, ct.float16) - 8) * factors
        high = (ct.astype((both >> 4) & 15, ct.float16) - 8) * factors
        total = ct.mma(ct.load(a, (row, 2 * k), (tm, tk), padding_mode=ZERO), low, total)
        total = ct.mma(ct.load(a, (row, 2 * k + 1), (tm, tk), padding_mode=ZERO), high, total)
    ct.store(e, (row, column), total)


@ct.kernel
def interleaved(a, b, s, e, tm: Constant, tn: Constant, tk: Constant):
    """e = (a b) s, where a byte of b holds two numbers of 4 bits for rows beside each other: one product a step."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        both = ct.load(b, (k, column), (tk // 2, tn), padding_mode=ZERO)
        low = (ct.astype(both & 15, ct.float16) - 8).reshape((tk // 2, 1, tn))
        high = (ct.astype(both >> 4, ct.float16) - 8).reshape((tk // 2, 1, tn))
        right = ct.cat((low, high), 1).reshape((tk, tn))
        total = ct.mma(ct.load(a, (row, k), (tm, tk), padding_mode=ZERO), right, total)
    ct.store(e, (row, column), total * ct.load(s, (0, column), (1, tn), padding_mode=ZERO))


@ct.kernel
def joined(a, b, c, e, tm: Constant, tn: Constant, tk: Constant):
    """e = a (b over c), where each step has as many rows of either, one tile after the other."""
    tiles = ct.num_tiles(e, 1, (tm, tn))
    for tile in range(ct.bid(0), ct.num_tiles(e, 0, (tm, tn)) * tiles, ct.num_blocks(0)):
        row, column = tile // tiles, tile % tiles
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(a, 1, (tm, tk))):
            first = ct.load(b, (k, column), (tk // 2, tn), padding_mode=ZERO).astype(ct.float16)
            second = ct.load(c, (k, column), (tk // 2, tn), padding_mode=ZERO).astype(ct.float16)
            left = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO)
            total = ct.mma(left, ct.cat((first, second), 0), total)
        ct.store(e, (row, column), total)


@ct.kernel
def quantized(a, b, e, tm: Constant, tn: Constant, tk: Constant):
    """e = a b^T of 8-bit floats, to which the left operand is rounded on its way."""
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ZERO).astype(ct.float8_e4m3fn)
        total = ct.mma(left, ct.load(b, (k, column), (tk, tn), order=(1, 0), padding_mode=ZERO), total)
    ct.store(e, (row, column), total)


Arrays = list[np.ndarray]
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def _exactly(*arrays: np.ndarray) -> Arrays:
    return [x.astype(np.float64) for x in arrays]


def _small(rng: np.random.Generator, shape: tuple[int, int], type_: Any) -> np.ndarray:
    return rng.integers(-3, 4, shape).astype(type_)


def _factors(rng: np.random.Generator, shape: tuple[int, int], type_: Any = np.float16) -> np.ndarray:
    return (2.0 ** rng.integers(-2, 2, shape)).astype(type_)


@dataclass(frozen=True)
class Made:
    """A kernel, its arrays but the result for m, n, k and tiles along k, what it gives, how far from that it may be,
    and whether one block goes through several tiles."""

    function: Any
    arrays: Callable[[np.random.Generator, int, int, int, int], Arrays]
    wanted: Callable[..., np.ndarray]
    tolerance: float = 0
    persistent: bool = False


def _channels(a: np.ndarray, b: np.ndarray, s: np.ndarray) -> np.ndarray:
    a, b, s = _exactly(a, b, s)
    return a @ (b * s)


def _groups(a: np.ndarray, b: np.ndarray, s: np.ndarray, tk: int) -> np.ndarray:
    a, b, s = _exactly(a, b, s)
    return a @ (b * np.repeat(s, tk, 1)[:, : b.shape[1]]).T


def _rounded(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = _exactly(a.astype(BF16), b.astype(BF16))
    return a @ b


def _gated(a: np.ndarray, c: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, c, b = _exactly(a, c, b)
    return (a / (1 + np.exp(-a)) * c) @ b


def _lower(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = _exactly(a, b)
    return np.tril(a) @ b


def _transposed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = _exactly(a, b)
    return a @ b.T


def _nibbles(a: np.ndarray, b: np.ndarray, s: np.ndarray, tk: int) -> np.ndarray:
    a, s = _exactly(a, s)
    weights = np.zeros((a.shape[1], b.shape[1]))
    for row, group in enumerate(b):
        first = row // tk * 2 * tk + row % tk
        for place, numbers in ((first, group & 15), (first + tk, group >> 4 & 15)):
            if place < len(weights):
                weights[place] = (numbers.astype(np.float64) - 8) * s[row // tk]
    return a @ weights


def _interleaved(a: np.ndarray, b: np.ndarray, s: np.ndarray) -> np.ndarray:
    a, s = _exactly(a, s)
    weights = np.stack([b & 15, b >> 4], 1).reshape(-1, b.shape[1])[: a.shape[1]].astype(np.float64) - 8
    return a @ weights * s


def _joined(a: np.ndarray, b: np.ndarray, c: np.ndarray, tk: int) -> np.ndarray:
    a, b, c = _exactly(a, b, c)
    weights, half = np.zeros((a.shape[1], b.shape[1])), tk // 2
    for k in range(len(weights)):
        source = b if k % tk < half else c
        weights[k] = source[k // tk * half + k % half]
    return a @ weights


F16, F32 = np.float16, np.float32
KERNELS = {
    "channels": Made(
        channels,
        lambda r, m, n, k, _: [_small(r, (m, k), F16), _small(r, (k, n), E4M3), _factors(r, (1, n))],
        lambda given, _: _channels(*given),
    ),
    "groups": Made(
        groups,
        lambda r, m, n, k, tk: [_small(r, (m, k), F16), _small(r, (n, k), np.int8), _factors(r, (n, -(-k // tk)))],
        lambda given, tk: _groups(*given, tk),
        persistent=True,
    ),
    "rounded": Made(
        rounded,
        lambda r, m, n, k, _: [r.standard_normal((m, k)).astype(F32), r.standard_normal((k, n)).astype(F32)],
        lambda given, _: _rounded(*given),
        2e-3,
    ),
    "gated": Made(
        gated,
        lambda r, m, n, k, _: [_small(r, (m, k), F16), _small(r, (m, k), F16), _small(r, (k, n), F16)],
        lambda given, _: _gated(*given),
        0.2,
    ),
    "lower": Made(
        lower,
        lambda r, m, n, k, _: [_small(r, (m, k), F16), _small(r, (k, n), F16)],
        lambda given, _: _lower(*given),
    ),
    "quantized": Made(
        quantized,
        lambda r, m, n, k, _: [_small(r, (m, k), F16), _small(r, (n, k), E4M3)],
        lambda given, _: _transposed(*given),
    ),
    "interleaved": Made(
        interleaved,
        lambda r, m, n, k, _: [
            _small(r, (m, k), F16),
            r.integers(0, 256, (k // 2, n)).astype(np.uint8),
            _factors(r, (1, n)),
        ],
        lambda given, _: _interleaved(*given),
    ),
    "joined": Made(
        joined,
        lambda r, m, n, k, tk: [
            _small(r, (m, k), F16),
            *(_small(r, (-(-k // tk) * tk // 2, n), np.int8) for _ in range(2)),
        ],
        lambda given, tk: _joined(*given, tk),
        persistent=True,
    ),
    "nibbles": Made(
        nibbles,
        lambda r, m, n, k, tk: [
            _small(r, (m, k), F16),
            r.integers(-128, 128, (-(-k // (2 * tk)) * tk, n)).astype(np.int8),
            _factors(r, (-(-k // (2 * tk)), n)),
        ],
        lambda given, tk: _nibbles(*given, tk),
    ),
}
"""By name."""
TYPES = {
    F16: ct.float16,
    F32: ct.float32,
    np.int8: ct.int8,
    np.uint8: ct.uint8,
    BF16: ct.bfloat16,
    E4M3: ct.float8_e4m3fn,
}


def bytecode(name: str, tile: Sequence[int], gpu_name: str) -> bytes:
    """A kernel for tiles of m x n x k."""
    made = KERNELS[name]
    types = [x.dtype.type for x in made.arrays(np.random.default_rng(0), 16, 16, 16, 16)]
    arrays = [array(TYPES[t], 2, multiple_of=16, shape_divisible_by=(1, 1)) for t in (*types, F32)]
    kernel = Kernel(name, made.function, (*arrays, *tile), None, None, EXACT)
    return run_frontend(kernel, "13.3", gpu_name)


def arguments(name: str, tile: Sequence[int], size: Sequence[int]) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """A launch's arguments for a problem of m x n x k, of which the second is the result, and what it is to be. Rows of
    arrays begin at multiples of 16 bytes."""
    made, (m, n, k) = KERNELS[name], size
    given = made.arrays(np.random.default_rng(sum(size)), m, n, k, tile[2])
    result = np.full((m, n), 7, np.float32)
    held = [_aligned(x) for x in (*given, result)]
    args = [v for x, all_ in zip((*given, result), held) for v in (all_, *x.shape, all_.shape[1], 1)]
    return args, held[-1][:, :n], made.wanted(given, tile[2])


def _aligned(x: np.ndarray) -> np.ndarray:
    each = 16 // x.itemsize
    whole = np.zeros((x.shape[0], -(-x.shape[1] // each) * each), x.dtype)
    whole[:, : x.shape[1]] = x
    return whole


def run(
    name: str, tile: Sequence[int], size: Sequence[int], gpu_name: str, *, order: int | None = None, blocks: int = 2
) -> None:
    """Run a kernel in the simulator, with all checks, and compare with numpy."""
    made, (m, n, _) = KERNELS[name], size
    args, result, wanted = arguments(name, tile, size)
    grid = (-(-m // tile[0]), -(-n // tile[1]), 1)
    libtile.run(
        bytecode(name, tile, gpu_name), name, grid=(blocks, 1, 1) if made.persistent else grid, args=args,
        backend="simulator", gpu_name=gpu_name, check="full", block_order=order,
    )  # fmt: skip
    np.testing.assert_allclose(result, wanted, rtol=0, atol=made.tolerance)
