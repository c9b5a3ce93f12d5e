# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wmma in its shapes, types and memory layouts, with leading dimensions wider than the matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from .half import bfloat16
from .memory import bits
from .mma import ELEMENTS
from .table import Array, Close, Family, Launch, Source

WMMA = Family(Source("wmma"))


def stored(matrix: Array, by_row: bool, leading: int) -> Array:
    """The matrix as it lies in memory, rows (or columns) `leading` elements apart; the gaps are marked with 99."""
    lines = matrix if by_row else matrix.T
    padded = np.full((lines.shape[0], leading), 99, matrix.dtype)
    padded[:, : lines.shape[1]] = lines
    return padded


def product(
    rng: np.random.Generator, shape: tuple[int, int, int], dtype: Any, acc: Any, layouts: str, low: int, high: int
) -> Launch:
    """`layouts` has a letter, r or c, for each of A, B and C."""
    m, n, k = shape
    a, b = (rng.integers(low, high, s, endpoint=True).astype(dtype) for s in ((m, k), (k, n)))
    c = rng.integers(-100, 101, (m, n)).astype(acc)
    want = (a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)).astype(acc)
    rows = [letter == "r" for letter in layouts]
    pad = 16 // np.dtype(dtype).itemsize
    lda, ldb = (k if rows[0] else m) + pad, (n if rows[1] else k) + pad
    ldc = (n if rows[2] else m) + 8
    out = stored(np.zeros((m, n), acc), rows[2], ldc)
    args = [out, stored(a, rows[0], lda), stored(b, rows[1], ldb), stored(c, rows[2], ldc), lda, ldb, ldc]
    return Launch(args, {0: stored(want, rows[2], ldc)})


def _add(
    entry: str, shape: tuple[int, int, int], dtype: Any, acc: Any, layouts: str, low: int = -8, high: int = 8
) -> None:
    WMMA.add(entry=entry)(lambda rng: product(rng, shape, dtype, acc, layouts, low, high))


_add("wmma_16_16_16_f32", (16, 16, 16), np.float16, np.float32, "rcr")
_add("wmma_16_16_16_f16", (16, 16, 16), np.float16, np.float16, "crc")
_add("wmma_32_8_16_f32", (32, 8, 16), np.float16, np.float32, "rrr")
_add("wmma_8_32_16_f32", (8, 32, 16), np.float16, np.float32, "ccc")
_add("wmma_16_16_16_bf16", (16, 16, 16), bfloat16, np.float32, "rcr")
_add("wmma_16_16_16_s8", (16, 16, 16), np.int8, np.int32, "rcr", -128, 127)
_add("wmma_32_8_16_u8", (32, 8, 16), np.uint8, np.int32, "crr", 0, 255)
_add("wmma_8_8_4_f64", (8, 8, 4), np.float64, np.float64, "rcr", -100000, 100000)
_add("wmma_16_16_8_tf32", (16, 16, 8), np.float32, np.float32, "rcr", -500, 500)


def sub_byte(rng: np.random.Generator, element: str, k: int) -> Launch:
    kind = ELEMENTS[element]
    a, b = kind.draw(rng, (8, k)), kind.draw(rng, (8, k))
    c = bits(rng, (8, 8), np.int32) // 2
    want = (a.astype(np.int64) @ b.astype(np.int64).T + c).astype(np.int32)
    return Launch([np.zeros((8, 8), np.int32), kind.pack(a), kind.pack(b), c, k, k, 8], {0: want})


WMMA.add(entry="wmma_8_8_32_s4")(lambda rng: sub_byte(rng, "s4", 32))
WMMA.add(entry="wmma_8_8_32_u4")(lambda rng: sub_byte(rng, "u4", 32))
WMMA.add(entry="wmma_8_8_128_b1")(lambda rng: sub_byte(rng, "b1", 128))


@WMMA.add(block=128)
def wmma_gemm(rng: np.random.Generator) -> Launch:
    depth, alpha, beta = 48, 0.75, -1.5
    a, b = rng.normal(size=(32, depth)).astype(np.float16), rng.normal(size=(depth, 32)).astype(np.float16)
    c = rng.normal(size=(32, 32)).astype(np.float32)
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    want = alpha * (a64 @ b64) + beta * c
    # Each of `depth` additions may lose an ulp of the largest partial sum, which sum |a||b| bounds.
    bound = depth * 2.0**-22 * float((np.abs(a64) @ np.abs(b64)).max())
    args = [c.copy(), a, b, depth, np.float32(alpha), np.float32(beta)]
    return Launch(args, {0: Close(want, absolute=bound)}, varies=True)
