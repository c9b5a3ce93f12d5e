# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Matrix multiply-accumulate in every operand and accumulator type, batched, and block-scaled.

Operands are small whole numbers, so that every product and sum is exact in the accumulator whatever the order.
"""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np

from examples.signatures import array
from kernels.dtypes import FLOAT8, FLOATS, INTEGERS, Dtype
from kernels.model import Kernel, Problem

M, N, K = 64, 32, 64

#: Left, right and accumulator types.
TYPES = (
    ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("f32", "f32", "f32"),
    ("f64", "f64", "f64"), ("f8e4m3fn", "f8e4m3fn", "f32"), ("f8e5m2", "f8e5m2", "f32"),
    ("f8e4m3fn", "f8e4m3fn", "f16"), ("i8", "i8", "i32"), ("u8", "u8", "i32"), ("i8", "u8", "i32"),
)  # fmt: skip


@ct.kernel
def multiply(a, b, c, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    x = ct.load(a, (0, 0), (m, k))
    y = ct.load(b, (0, 0), (k, n))
    ct.store(out, (0, 0), ct.mma(x, y, ct.load(c, (0, 0), (m, n))))


@ct.kernel
def multiply_tf32(a, b, c, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    x = ct.load(a, (0, 0), (m, k)).astype(ct.tfloat32)
    y = ct.load(b, (0, 0), (k, n)).astype(ct.tfloat32)
    ct.store(out, (0, 0), ct.mma(x, y, ct.load(c, (0, 0), (m, n))))


@ct.kernel
def multiply_fast(a, b, c, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    x = ct.load(a, (0, 0), (m, k))
    y = ct.load(b, (0, 0), (k, n))
    ct.store(out, (0, 0), ct.mma(x, y, ct.load(c, (0, 0), (m, n)), use_fast_acc=True))


@ct.kernel
def multiply_batched(a, b, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    x = ct.load(a, (0, 0, 0), (2, m, k))
    y = ct.load(b, (0, 0), (k, n))
    # The two-dimensional right side is used for both batches.
    ct.store(out, (0, 0, 0), ct.mma(x, y, ct.zeros((2, m, n), ct.float32)))


@ct.kernel
def chained(a, b, c, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    x = ct.load(a, (0, 0), (m, k))
    y = ct.load(b, (0, 0), (k, n))
    z = ct.load(c, (0, 0), (n, k))
    first = ct.mma(x, y, ct.zeros((m, n), ct.float32))
    ct.store(out, (0, 0), ct.matmul(first.astype(ct.float16), z).astype(ct.float16))


@ct.kernel
def scaled(a, a_scale, b, b_scale, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int],
           block: ct.Constant[int]):  # fmt: skip
    x = ct.load(a, (0, 0), (m, k))
    x_scale = ct.load(a_scale, (0, 0), (m, k // block))
    y = ct.load(b, (0, 0), (k, n))
    y_scale = ct.load(b_scale, (0, 0), (k // block, n))
    ct.store(out, (0, 0), ct.mma_scaled(x, x_scale, y, y_scale, ct.zeros((m, n), ct.float32)))


@ct.kernel
def scaled_f4(a, a_scale, b, b_scale, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int],
              block: ct.Constant[int]):  # fmt: skip
    x = ct.unpack_from_bytes(ct.load(a, (0,), (m * k // 2,)), ct.float4_e2m1fn).reshape((m, k))
    x_scale = ct.load(a_scale, (0, 0), (m, k // block))
    y = ct.unpack_from_bytes(ct.load(b, (0,), (n * k // 2,)), ct.float4_e2m1fn).reshape((n, k)).transpose()
    y_scale = ct.load(b_scale, (0, 0), (k // block, n))
    ct.store(out, (0, 0), ct.mma_scaled(x, x_scale, y, y_scale, ct.zeros((m, n), ct.float32)))


def _small(rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    low = 0 if dtype.kind == "u" else -3
    return rng.integers(low, 4, shape).astype(dtype)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


def _problem(left: Dtype, right: Dtype, acc: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        a, b = _small(rng, left.numpy, (M, K)), _small(rng, right.numpy, (K, N))
        if left.numpy.kind in "iu":
            # Integer accumulation is exact anywhere: use the whole range.
            a = rng.integers(*_range(left.numpy), (M, K)).astype(left.numpy)
            b = rng.integers(*_range(right.numpy), (K, N)).astype(right.numpy)
        return Problem((1, 1, 1), [a, b, _small(rng, acc.numpy, (M, N)), np.zeros((M, N), acc.numpy)])

    return problem


def _range(dtype: np.dtype) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1


def multiply_reference(a, b, c, out):
    return {"out": (_product(a, b) + c.astype(np.float64)).astype(out.dtype)}


def _batched_problem(rng: np.random.Generator) -> Problem:
    half = np.dtype(np.float16)
    a, b = _small(rng, half, (2, M, K)), _small(rng, half, (K, N))
    return Problem((1, 1, 1), [a, b, np.zeros((2, M, N), np.float32)])


def _chained_problem(rng: np.random.Generator) -> Problem:
    half = np.dtype(np.float16)
    a, b, c = (rng.integers(-1, 2, shape).astype(half) for shape in ((M, K), (K, N), (N, K)))
    return Problem((1, 1, 1), [a, b, c, np.zeros((M, K), half)])


def chained_reference(a, b, c, out):
    return {"out": (_product(a, b) @ c.astype(np.float64)).astype(np.float16)}


def _scales(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return (2.0 ** rng.integers(-2, 3, shape)).astype(dtype)


def _scaled_problem(dtype: Dtype, block: int):
    def problem(rng: np.random.Generator) -> Problem:
        scale = ml_dtypes.float8_e8m0fnu
        values = [_small(rng, dtype.numpy, (M, K)), _scales(rng, (M, K // block), scale)]
        values += [_small(rng, dtype.numpy, (K, N)), _scales(rng, (K // block, N), scale)]
        return Problem((1, 1, 1), [*values, np.zeros((M, N), np.float32)])

    return problem


def _spread(scale: np.ndarray, axis: int, length: int) -> np.ndarray:
    return np.repeat(scale.astype(np.float64), length // scale.shape[axis], axis=axis)


def scaled_reference(a, a_scale, b, b_scale, out):
    left = a.astype(np.float64) * _spread(a_scale, 1, K)
    right = b.astype(np.float64) * _spread(b_scale, 0, K)
    return {"out": (left @ right).astype(np.float32)}


_F4_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def _scaled_f4_problem(block: int, scale: type):
    def problem(rng: np.random.Generator) -> Problem:
        a, b = (rng.integers(0, 256, rows * K // 2).astype(np.uint8) for rows in (M, N))
        scales = [_scales(rng, shape, scale) for shape in ((M, K // block), (K // block, N))]
        return Problem((1, 1, 1), [a, scales[0], b, scales[1], np.zeros((M, N), np.float32)])

    return problem


def scaled_f4_reference(a, a_scale, b, b_scale, out):
    left, right = (_F4_VALUES[np.stack([x & 15, x >> 4], axis=1)].reshape(-1, K) for x in (a, b))
    product = (left * _spread(a_scale, 1, K)) @ (right.T * _spread(b_scale, 0, K))
    return {"out": product.astype(np.float32)}


def _kernels() -> list[Kernel]:
    tags = frozenset({"mma"})
    types = FLOATS | FLOAT8 | INTEGERS
    result = []
    for names in TYPES:
        left, right, acc = (types[name] for name in names)
        arrays = tuple(array(dtype.tile, 2, multiple_of=16) for dtype in (left, right, acc, acc))
        result.append(Kernel("mma_" + "_".join(names), multiply, (*arrays, M, N, K), _problem(left, right, acc),
                             multiply_reference, tags=tags))  # fmt: skip
    f32, f16 = array(ct.float32, 2, multiple_of=16), array(ct.float16, 2, multiple_of=16)
    f8, scale = array(ct.float8_e4m3fn, 2, multiple_of=16), array(ct.float8_e8m0fnu, 2)
    single = FLOATS["f32"]
    since_133: dict[str, Any] = {"min_version": "13.3", "refusal": "requires tileiras 13", "gpu_code": "sm_100"}
    result += [
        Kernel("mma_tf32_tf32_f32", multiply_tf32, (f32, f32, f32, f32, M, N, K), _problem(single, single, single),
               multiply_reference, tags=tags | {"tf32"}),
        Kernel("mma_fast_accumulation", multiply_fast, (f8, f8, f32, f32, M, N, K),
               _problem(FLOAT8["f8e4m3fn"], FLOAT8["f8e4m3fn"], single), multiply_reference, min_version="13.3",
               refusal="use_fast_acc requires tileiras 13.3", tags=tags),
        Kernel("mma_batched", multiply_batched, (array(ct.float16, 3), f16, array(ct.float32, 3), M, N, K),
               _batched_problem, lambda a, b, out: {"out": _product(a, b).astype(np.float32)}, tags=tags),
        Kernel("mma_chained", chained, (f16, f16, f16, f16, M, N, K), _chained_problem, chained_reference, tags=tags),
    ]  # fmt: skip
    for name, dtype in FLOAT8.items():
        operand = array(dtype.tile, 2, multiple_of=16)
        result.append(Kernel(f"mma_scaled_{name}", scaled, (operand, scale, operand, scale, f32, M, N, K, 32),
                             _scaled_problem(dtype, 32), scaled_reference, tags=tags | {"scale"},
                             **since_133))  # fmt: skip
    packed, scale_f8 = array(ct.uint8), array(ct.float8_e4m3fn, 2)
    for block, scale_name, parameter, kind in (
        (16, "f8e8m0fnu", scale, ml_dtypes.float8_e8m0fnu),
        (32, "f8e8m0fnu", scale, ml_dtypes.float8_e8m0fnu),
        (16, "f8e4m3fn", scale_f8, ml_dtypes.float8_e4m3fn),
    ):
        result.append(Kernel(f"mma_scaled_f4_{scale_name}_{block}", scaled_f4,
                             (packed, parameter, packed, parameter, f32, M, N, K, block),
                             _scaled_f4_problem(block, kind), scaled_f4_reference, tags=tags | {"scale", "f4"},
                             **since_133))  # fmt: skip
    scale_f8u = array(ct.float8_e5m3fnu, 2)
    result.append(Kernel("mma_scaled_f4_f8e5m3fnu_16", scaled_f4,
                         (packed, scale_f8u, packed, scale_f8u, f32, M, N, K, 16), None, None, gpu_code="sm_107",
                         min_version="13.4", refusal="requires tileiras 13",
                         compile_only="the element type has no numpy counterpart",
                         tags=tags | {"scale", "f4"}))  # fmt: skip
    return result


KERNELS = _kernels()
