# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that are bound by memory, compared by their speed: rows, sums and transposes."""

from __future__ import annotations

import cuda.tile as ct
import numpy as np
from perf_products import dense

from examples.signatures import scalar
from kernels.model import Kernel, Problem, Tolerance

Constant = ct.Constant[int]


@ct.kernel
def softmax(x, y, tile: Constant):
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, tile), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
    powers = ct.exp(values - ct.max(values, axis=1, keepdims=True))
    ct.store(y, (row, 0), (powers / ct.sum(powers, axis=1, keepdims=True)).astype(y.dtype))


@ct.kernel
def layer_norm(x, weight, bias, y, epsilon: float, tile: Constant):
    row, columns = ct.bid(0), x.shape[1]
    total = ct.zeros((1, tile), ct.float32)
    squares = ct.zeros((1, tile), ct.float32)
    for step in range(ct.num_tiles(x, 1, (1, tile))):
        part = ct.load(x, (row, step), (1, tile), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        total = total + part
        squares = squares + part * part
    mean = ct.sum(total, axis=1, keepdims=True) / columns
    variance = ct.sum(squares, axis=1, keepdims=True) / columns - mean * mean
    factor = ct.rsqrt(variance + epsilon)
    for step in range(ct.num_tiles(x, 1, (1, tile))):
        part = ct.load(x, (row, step), (1, tile), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        w = ct.load(weight, (step,), (tile,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        b = ct.load(bias, (step,), (tile,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        ct.store(y, (row, step), ((part - mean) * factor * w + b).astype(y.dtype))


@ct.kernel
def rms_norm(x, weight, y, epsilon: float, tile: Constant):
    row, columns = ct.bid(0), x.shape[1]
    squares = ct.zeros((1, tile), ct.float32)
    for step in range(ct.num_tiles(x, 1, (1, tile))):
        part = ct.load(x, (row, step), (1, tile), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        squares = squares + part * part
    factor = ct.rsqrt(ct.sum(squares, axis=1, keepdims=True) / columns + epsilon)
    for step in range(ct.num_tiles(x, 1, (1, tile))):
        part = ct.load(x, (row, step), (1, tile), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        w = ct.load(weight, (step,), (tile,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        ct.store(y, (row, step), (part * factor * w).astype(y.dtype))


@ct.kernel
def vector_add(a, b, c, tile: Constant):
    block = ct.bid(0)
    ct.store(c, (block,), ct.load(a, (block,), (tile,)) + ct.load(b, (block,), (tile,)))


@ct.kernel
def transpose(x, y, tm: Constant, tn: Constant):
    row, column = ct.bid(0), ct.bid(1)
    ct.store(y, (column, row), ct.transpose(ct.load(x, (row, column), (tm, tn))))


EPSILON = 1e-5


def _softmax(rng: np.random.Generator) -> Problem:
    return Problem((2, 1, 1), [rng.standard_normal((2, 4000)).astype(np.float16), np.zeros((2, 4000), np.float16)])


def _softmax_reference(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    power = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return {"y": (power / power.sum(axis=1, keepdims=True)).astype(np.float16)}


def _norm(arrays: int):
    def problem(rng: np.random.Generator) -> Problem:
        given = [rng.standard_normal((2, 2000)).astype(np.float16)]
        given += [rng.standard_normal(2000).astype(np.float16) for _ in range(arrays)]
        return Problem((2, 1, 1), [*given, np.zeros((2, 2000), np.float16), EPSILON])

    return problem


def _layer_norm_reference(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, y: np.ndarray, epsilon: float
) -> dict[str, np.ndarray]:
    wide = x.astype(np.float64)
    factor = 1 / np.sqrt(wide.var(axis=1, keepdims=True) + epsilon)
    return {"y": ((wide - wide.mean(axis=1, keepdims=True)) * factor * weight + bias).astype(np.float16)}


def _rms_norm_reference(x: np.ndarray, weight: np.ndarray, y: np.ndarray, epsilon: float) -> dict[str, np.ndarray]:
    wide = x.astype(np.float64)
    return {"y": (wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + epsilon) * weight).astype(np.float16)}


def _vectors(rng: np.random.Generator) -> Problem:
    a, b = rng.standard_normal((2, 1616)).astype(np.float32)
    return Problem((2, 1, 1), [a, b, np.zeros_like(a)])


def _transpose(name: str, dtype: ct.DType, stored: type, side: int) -> Kernel:
    rows, columns = 2 * side - 16, side + 16

    def problem(rng: np.random.Generator) -> Problem:
        x = rng.standard_normal((rows, columns)).astype(stored)
        return Problem((2, 2, 1), [x, np.zeros((columns, rows), stored)])

    return Kernel(name, transpose, (dense(dtype, 2), dense(dtype, 2), side, side), problem,
                  lambda x, y: {"y": x.T}, Tolerance())  # fmt: skip


_HALF, _LINE = dense(ct.float16, 2), dense(ct.float16, 1)
KERNELS = (
    Kernel("softmax_f16_4096", softmax, (_HALF, _HALF, 4096), _softmax, _softmax_reference, Tolerance(2e-3, 1e-6)),
    Kernel("layer_norm_f16_1024", layer_norm, (_HALF, _LINE, _LINE, _HALF, scalar(ct.float32), 1024), _norm(2),
           _layer_norm_reference, Tolerance(2e-3, 2e-3)),
    Kernel("rms_norm_f16_1024", rms_norm, (_HALF, _LINE, _HALF, scalar(ct.float32), 1024), _norm(1),
           _rms_norm_reference, Tolerance(2e-3, 2e-3)),
    Kernel("vector_add_f32_1024", vector_add, (*[dense(ct.float32, 1)] * 3, 1024), _vectors,
           lambda a, b, c: {"c": a + b}, Tolerance()),
    _transpose("transpose_f16_64x64", ct.float16, np.float16, 64),
    _transpose("transpose_f32_128x128", ct.float32, np.float32, 128),
)  # fmt: skip
