# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels that are compared by their speed: products, attention, rows, copies, in cuTile.

Each is a `kernels.model.Kernel` with a small problem, ragged where its tiles allow it, for the simulator. The names say
the types and the tile: `gemm_f16nt_128x256x64` multiplies f16 tiles of 128x64 by 64x256, of which the second lies n x k
in memory.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import cuda.tile as ct
import ml_dtypes
import numpy as np
from cuda.tile.compilation import ArrayConstraint

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [p for p in (str(ROOT), str(ROOT / "test")) if p not in sys.path]

from examples.signatures import array, scalar  # noqa: E402
from kernels.model import Kernel, Problem, Tolerance  # noqa: E402

Constant = ct.Constant[int]
LOG2_E = math.log2(math.e)


def _array(dtype: ct.DType, rank: int) -> ArrayConstraint:
    """A dense array: its address, sizes and strides are multiples of 16 bytes and 16 elements."""
    return array(dtype, rank, multiple_of=16)


@ct.kernel
def gemm(a, b, c, tm: Constant, tn: Constant, tk: Constant):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (row, column), total.astype(c.dtype))


@ct.kernel
def gemm_persistent(a, b, c, tm: Constant, tn: Constant, tk: Constant):
    """Each block goes through the tiles from its number on, in steps of the grid."""
    columns = ct.num_tiles(c, 1, (tm, tn))
    for tile in range(ct.bid(0), ct.num_tiles(c, 0, (tm, tn)) * columns, ct.num_blocks(0)):
        row, column = tile // columns, tile % columns
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(a, 1, (tm, tk))):
            left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
            right = ct.load(b, (k, column), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
            total = ct.mma(left, right, total)
        ct.store(c, (row, column), total.astype(c.dtype))


@ct.kernel
def gemm_nt(a, b, c, tm: Constant, tn: Constant, tk: Constant):
    row, column = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (row, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, column), (tk, tn), order=(1, 0), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (row, column), total.astype(c.dtype))


@ct.kernel
def attention(
    q, k, v, out, scale: float, tm: Constant, tn: Constant, depth: Constant, causal: ct.Constant[bool]
):  # fmt: skip
    block, head = ct.bid(0), ct.bid(1)
    queries = ct.load(q, (head, block, 0), (1, tm, depth)).reshape((tm, depth))
    top = ct.full((tm, 1), -math.inf, ct.float32)
    weight = ct.zeros((tm, 1), ct.float32)
    total = ct.zeros((tm, depth), ct.float32)
    steps = ct.num_tiles(k, 1, (1, tn, depth))
    if causal:
        steps = min(steps, ct.cdiv((block + 1) * tm, tn))
    for step in range(steps):
        keys = ct.load(k, (head, 0, step), (1, depth, tn), order=(0, 2, 1)).reshape((depth, tn))
        score = ct.mma(queries, keys, ct.zeros((tm, tn), ct.float32))
        if causal and (step + 1) * tn > block * tm:
            line = block * tm + ct.arange(tm, dtype=ct.int32)[:, None]
            place = step * tn + ct.arange(tn, dtype=ct.int32)[None, :]
            score = score + ct.where(line >= place, 0.0, -math.inf)
        score = score * (scale * LOG2_E)
        higher = max(top, ct.max(score, axis=-1, keepdims=True))
        part = ct.exp2(score - higher, flush_to_zero=True)
        fading = ct.exp2(top - higher, flush_to_zero=True)
        weight = weight * fading + ct.sum(part, axis=-1, keepdims=True)
        values = ct.load(v, (head, step, 0), (1, tn, depth)).reshape((tn, depth))
        total = ct.mma(part.astype(q.dtype), values, total * fading)
        top = higher
    total = ct.truediv(total, weight, flush_to_zero=True, rounding_mode=ct.RoundingMode.APPROX)
    ct.store(out, (head, block, 0), total.astype(out.dtype).reshape((1, tm, depth)))


@ct.kernel
def softmax(x, y, tile: Constant):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, tile), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
    powers = ct.exp(values - ct.max(values, axis=1, keepdims=True))
    ct.store(y, (row, 0), (powers / ct.sum(powers, axis=1, keepdims=True)).astype(y.dtype))


@ct.kernel
def vector_add(a, b, c, tile: Constant):
    block = ct.bid(0)
    ct.store(c, (block,), ct.load(a, (block,), (tile,)) + ct.load(b, (block,), (tile,)))


@ct.kernel
def transpose(x, y, tm: Constant, tn: Constant):
    row, column = ct.bid(0), ct.bid(1)
    ct.store(y, (column, row), ct.transpose(ct.load(x, (row, column), (tm, tn))))


def _gemm(name: str, kind: str, tile: tuple[int, int, int], transposed: bool = False) -> Kernel:
    element, dtype = {"f16": (ct.float16, np.float16), "fp8": (ct.float8_e4m3fn, ml_dtypes.float8_e4m3fn)}[kind]
    m, n, depth = tile[0], tile[1], 2 * tile[2] + tile[2] // 2

    def problem(rng: np.random.Generator) -> Problem:
        shapes = (m, depth), (n, depth) if transposed else (depth, n)
        a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in shapes)
        return Problem((1, 1, 1), [a, b, np.zeros((m, n), np.float16)])

    def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> dict[str, np.ndarray]:
        right = b.astype(np.float64)
        return {"c": (a.astype(np.float64) @ (right.T if transposed else right)).astype(np.float16)}

    arrays = _array(element, 2), _array(element, 2), _array(ct.float16, 2)
    return Kernel(name, gemm_nt if transposed else gemm, (*arrays, *tile), problem, reference, Tolerance())


def _persistent(name: str, tile: tuple[int, int, int]) -> Kernel:
    m, n, depth = tile[0] + 16, 2 * tile[1] - 16, 2 * tile[2] + tile[2] // 2

    def problem(rng: np.random.Generator) -> Problem:
        a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, depth), (depth, n)))
        return Problem((2, 1, 1), [a, b, np.zeros((m, n), np.float16)])

    def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> dict[str, np.ndarray]:
        return {"c": (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)}

    return Kernel(name, gemm_persistent, (*[_array(ct.float16, 2)] * 3, *tile), problem, reference, Tolerance())


def _attention(name: str, causal: bool) -> Kernel:
    heads, rows, depth = 1, 256, 128

    def problem(rng: np.random.Generator) -> Problem:
        q, k, v = (rng.standard_normal((heads, rows, depth)).astype(np.float16) for _ in range(3))
        out = np.zeros((heads, rows, depth), np.float16)
        return Problem((rows // 128, heads, 1), [q, k, v, out, depth**-0.5])

    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, out: np.ndarray, scale: float) -> dict[str, np.ndarray]:
        score = np.einsum("hqd,hkd->hqk", q.astype(np.float64), k.astype(np.float64)) * scale
        if causal:
            score = np.where(np.arange(rows)[:, None] >= np.arange(rows), score, -np.inf)
        power = np.exp(score - score.max(axis=-1, keepdims=True))
        return {"out": (power / power.sum(axis=-1, keepdims=True) @ v.astype(np.float64)).astype(np.float16)}

    half = _array(ct.float16, 3)
    given = (half, half, half, half, scalar(ct.float32), 128, 128, depth, causal)
    return Kernel(name, attention, given, problem, reference, Tolerance(4e-3, 4e-3))


def _softmax(rng: np.random.Generator) -> Problem:
    return Problem((2, 1, 1), [rng.standard_normal((2, 4000)).astype(np.float16), np.zeros((2, 4000), np.float16)])


def _softmax_reference(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    power = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return {"y": (power / power.sum(axis=1, keepdims=True)).astype(np.float16)}


def _vectors(rng: np.random.Generator) -> Problem:
    a, b = rng.standard_normal((2, 1616)).astype(np.float32)
    return Problem((2, 1, 1), [a, b, np.zeros_like(a)])


def _matrix(rng: np.random.Generator) -> Problem:
    return Problem((2, 2, 1), [rng.standard_normal((112, 80)).astype(np.float16), np.zeros((80, 112), np.float16)])


_TILES = ((128, 128, 64), (128, 256, 64), (256, 128, 64))
KERNELS = {
    kernel.name: kernel
    for kernel in (
        *(_gemm("gemm_f16_{}x{}x{}".format(*tile), "f16", tile) for tile in _TILES),
        _gemm("gemm_f16nt_128x256x64", "f16", (128, 256, 64), True),
        *(_persistent("persistent_f16_{}x{}x{}".format(*tile), tile) for tile in _TILES[:2]),
        _gemm("gemm_fp8nt_128x256x128", "fp8", (128, 256, 128), True),
        _attention("attention_f16_d128", False),
        _attention("attention_f16_d128_causal", True),
        Kernel("softmax_f16_4096", softmax, (_array(ct.float16, 2), _array(ct.float16, 2), 4096), _softmax,
               _softmax_reference, Tolerance(2e-3, 1e-6)),
        Kernel("vector_add_f32_1024", vector_add, (*[_array(ct.float32, 1)] * 3, 1024), _vectors,
               lambda a, b, c: {"c": a + b}, Tolerance()),
        Kernel("transpose_f16_64x64", transpose, (_array(ct.float16, 2), _array(ct.float16, 2), 64, 64), _matrix,
               lambda x, y: {"y": x.T}, Tolerance()),
    )
}  # fmt: skip
"""By name."""
