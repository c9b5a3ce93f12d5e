# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floating-point arithmetic, comparisons, rounding modes and flush-to-zero, with exact expected values."""

from __future__ import annotations

import math
from typing import Any

import cuda.tile as ct
import numpy as np
from cuda.tile import RoundingMode

from examples.signatures import array
from kernels import numerics
from kernels.dtypes import FLOATS, Dtype, random_floats, special_floats
from kernels.model import EXACT, Kernel, Problem, Tolerance
from kernels.numerics import elementwise

TILE = 64
SIZE = 128
RN, RZ, RM, RP = RoundingMode.RN, RoundingMode.RZ, RoundingMode.RM, RoundingMode.RP


def put(out, row, block, tile):
    """Store a 1-D tile into one row of a 2-D array."""
    ct.store(out, (row, block), tile.reshape((1, tile.shape[0])))


@ct.kernel
def arithmetic(x, y, z, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    c = ct.load(z, (block,), (tile,))
    put(out, 0, block, a + b)
    put(out, 1, block, a - b)
    put(out, 2, block, a * b)
    put(out, 3, block, a / b)
    put(out, 4, block, a * b + c)
    put(out, 5, block, a * b - c)
    put(out, 6, block, c - a * b)
    put(out, 7, block, -a)
    put(out, 8, block, ct.abs(a))


def _arithmetic_reference(name: str):
    def reference(x, y, z, out):
        rows = [
            elementwise(numerics.add, x, y, format_name=name),
            elementwise(numerics.sub, x, y, format_name=name),
            elementwise(numerics.mul, x, y, format_name=name),
            elementwise(numerics.div, x, y, format_name=name),
            # The frontend fuses a product with the sum or difference that it feeds.
            elementwise(numerics.fma, x, y, z, format_name=name),
            elementwise(numerics.fma, x, y, -z, format_name=name),
            elementwise(numerics.fma, -x, y, z, format_name=name),
            -x.astype(np.float64),
            np.abs(x.astype(np.float64)),
        ]
        return {"out": np.stack(rows).astype(x.dtype)}

    return reference


@ct.kernel
def extremes(x, y, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    put(out, 0, block, ct.minimum(a, b))
    put(out, 1, block, ct.maximum(a, b))
    put(out, 2, block, ct.minimum(a, b, propagate_nan=True))
    put(out, 3, block, ct.maximum(a, b, propagate_nan=True))


def extremes_reference(x, y, out):
    a, b = x.astype(np.float64), y.astype(np.float64)
    rows = [np.fmin(a, b), np.fmax(a, b), np.minimum(a, b), np.maximum(a, b)]
    return {"out": np.stack(rows).astype(x.dtype)}


@ct.kernel
def comparisons(x, y, flags, chosen, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    put(flags, 0, block, a < b)
    put(flags, 1, block, a <= b)
    put(flags, 2, block, a > b)
    put(flags, 3, block, a >= b)
    put(flags, 4, block, a == b)
    put(flags, 5, block, a != b)
    put(flags, 6, block, ct.isnan(a))
    ct.store(chosen, (block,), ct.where(a < b, a, b))


def comparisons_reference(x, y, flags, chosen):
    a, b = x.astype(np.float64), y.astype(np.float64)
    rows = [a < b, a <= b, a > b, a >= b, a == b, a != b, np.isnan(a)]
    return {"flags": np.stack(rows), "chosen": np.where(a < b, x, y)}


@ct.kernel
def rounding(x, y, z, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    c = ct.load(z, (block,), (tile,))
    row = 0
    for mode in ct.static_iter((RN, RZ, RM, RP)):
        put(out, row, block, ct.add(a, b, rounding_mode=mode))
        put(out, row + 1, block, ct.sub(a, b, rounding_mode=mode))
        put(out, row + 2, block, ct.mul(a, b, rounding_mode=mode))
        put(out, row + 3, block, ct.truediv(a, b, rounding_mode=mode))
        put(out, row + 4, block, ct.sqrt(ct.abs(a), rounding_mode=mode))
        put(out, row + 5, block, ct.add(ct.mul(a, b, rounding_mode=mode), c, rounding_mode=mode))
        row += 6


def _rounding_reference(name: str):
    def reference(x, y, z, out):
        rows = []
        for mode in ("RN", "RZ", "RM", "RP"):
            rows += [
                elementwise(numerics.add, x, y, format_name=name, mode=mode),
                elementwise(numerics.sub, x, y, format_name=name, mode=mode),
                elementwise(numerics.mul, x, y, format_name=name, mode=mode),
                elementwise(numerics.div, x, y, format_name=name, mode=mode),
                elementwise(numerics.sqrt, np.abs(x), format_name=name, mode=mode),
                elementwise(numerics.fma, x, y, z, format_name=name, mode=mode),
            ]
        return {"out": np.stack(rows).astype(x.dtype)}

    return reference


@ct.kernel
def flush_to_zero(x, y, z, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    c = ct.load(z, (block,), (tile,))
    put(out, 0, block, ct.add(a, b, flush_to_zero=True))
    put(out, 1, block, ct.sub(a, b, flush_to_zero=True))
    put(out, 2, block, ct.mul(a, b, flush_to_zero=True))
    put(out, 3, block, ct.truediv(a, b, flush_to_zero=True))
    put(out, 4, block, ct.sqrt(ct.abs(a), flush_to_zero=True))
    put(out, 5, block, ct.add(ct.mul(a, b, flush_to_zero=True), c, flush_to_zero=True))
    put(out, 6, block, ct.add(a, b, rounding_mode=RP, flush_to_zero=True))


def flush_to_zero_reference(x, y, z, out):
    options: dict[str, Any] = {"format_name": "f32", "ftz": True}
    rows = [
        elementwise(numerics.add, x, y, **options),
        elementwise(numerics.sub, x, y, **options),
        elementwise(numerics.mul, x, y, **options),
        elementwise(numerics.div, x, y, **options),
        elementwise(numerics.sqrt, np.abs(x), **options),
        elementwise(numerics.fma, x, y, z, **options),
        elementwise(numerics.add, x, y, mode="RP", **options),
    ]
    return {"out": np.stack(rows).astype(np.float32)}


@ct.kernel
def flushing_extremes(x, y, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    put(out, 0, block, ct.minimum(a, b, flush_to_zero=True))
    put(out, 1, block, ct.maximum(a, b, flush_to_zero=True))


def flushing_extremes_reference(x, y, out):
    flushed = [elementwise(numerics.convert, v, format_name="f32", ftz=True) for v in (x, y)]
    return {"out": np.stack([np.minimum(*flushed), np.maximum(*flushed)]).astype(np.float32)}


@ct.kernel
def division(x, y, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    put(out, 0, block, a // b)
    put(out, 1, block, a % b)
    put(out, 2, block, ct.floor(a))
    put(out, 3, block, ct.ceil(a))


def _division_reference(name: str):
    def reference(x, y, out):
        pairs = list(zip(x.astype(np.float64).tolist(), y.astype(np.float64).tolist(), strict=True))
        quotients = np.floor(elementwise(numerics.div, x, y, format_name=name))
        remainders = []
        for a, b in pairs:
            rest = math.fmod(a, b)
            # The remainder of the truncated quotient, moved to the divisor's sign.
            remainders.append(numerics.add(rest, b, name) if rest != 0 and (rest < 0) != (b < 0) else rest)
        rows = [quotients, np.array(remainders), np.floor(x.astype(np.float64)), np.ceil(x.astype(np.float64))]
        return {"out": np.stack(rows).astype(x.dtype)}

    return reference


@ct.kernel
def approximate(x, y, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    a = ct.load(x, (block,), (tile,))
    b = ct.load(y, (block,), (tile,))
    put(out, 0, block, ct.truediv(a, b, rounding_mode=RoundingMode.APPROX))
    put(out, 1, block, ct.truediv(a, b, rounding_mode=RoundingMode.FULL))
    put(out, 2, block, ct.sqrt(a, rounding_mode=RoundingMode.APPROX))
    put(out, 3, block, ct.truediv(a, b, rounding_mode=RoundingMode.APPROX, flush_to_zero=True))


def approximate_reference(x, y, out):
    a, b = x.astype(np.float64), y.astype(np.float64)
    return {"out": np.stack([a / b, a / b, np.sqrt(a), a / b]).astype(np.float32)}


def _problem(dtype: Dtype, operands: int, outputs: tuple[tuple[int, type | None], ...], data=special_floats):
    def problem(rng: np.random.Generator) -> Problem:
        values = [data(rng, dtype.numpy, SIZE) for _ in range(operands)]
        values += [np.zeros((rows, SIZE) if rows > 1 else SIZE, kind or dtype.numpy) for rows, kind in outputs]
        return Problem((SIZE // TILE, 1, 1), values)

    return problem


def _without_zeros(rng: np.random.Generator, dtype: np.dtype, size: int) -> np.ndarray:
    """Special values, but no zeros: which of two zeros is the lesser is not promised."""
    values = special_floats(rng, dtype, size)
    values[values == 0] = 1
    return values


def _near_one(rng: np.random.Generator, dtype: np.dtype, size: int) -> np.ndarray:
    values = (random_floats(rng, np.dtype(np.float64), size) * 8).astype(dtype)
    values[values == 0] = 1
    return values


def _positive(rng: np.random.Generator, dtype: np.dtype, size: int) -> np.ndarray:
    return rng.uniform(0.1, 10, size).astype(dtype)


def _small(rng: np.random.Generator, dtype: np.dtype, size: int) -> np.ndarray:
    """Numbers about the least normal one and about 1, so that many results are subnormal."""
    exponents = rng.choice([-128, -127, -126, -125, -124, 0, 1, -60, -66], size)
    values = rng.choice([-1.0, 1.0], size) * rng.uniform(1, 2, size) * 2.0**exponents
    return values.astype(np.float32)


def _kernels() -> list[Kernel]:
    tags = frozenset({"elementwise", "float"})
    result = []
    for name, dtype in FLOATS.items():
        one, two = array(dtype.tile, multiple_of=16), array(dtype.tile, 2, multiple_of=16, shape_divisible_by=(1, 16))
        flags = array(ct.bool_, 2, multiple_of=16, shape_divisible_by=(1, 16))
        result += [
            Kernel(f"float_arithmetic_{name}", arithmetic, (one, one, one, two, TILE), _problem(dtype, 3, ((9, None),)),
                   _arithmetic_reference(name), EXACT, tags=tags),
            Kernel(f"float_extremes_{name}", extremes, (one, one, two, TILE),
                   _problem(dtype, 2, ((4, None),), _without_zeros), extremes_reference, EXACT, tags=tags),
            Kernel(f"float_comparisons_{name}", comparisons, (one, one, flags, one, TILE),
                   _problem(dtype, 2, ((7, np.bool_), (1, None))), comparisons_reference, EXACT, tags=tags),
            Kernel(f"float_division_{name}", division, (one, one, two, TILE),
                   _problem(dtype, 2, ((4, None),), _near_one), _division_reference(name), EXACT, tags=tags),
        ]  # fmt: skip
        if name in ("f32", "f64"):
            result.append(Kernel(f"rounding_modes_{name}", rounding, (one, one, one, two, TILE),
                                 _problem(dtype, 3, ((24, None),)), _rounding_reference(name), EXACT,
                                 tags=tags | {"rounding"}))  # fmt: skip
    one, two = array(ct.float32, multiple_of=16), array(ct.float32, 2, multiple_of=16, shape_divisible_by=(1, 16))
    f32 = FLOATS["f32"]
    result.append(Kernel("flush_to_zero", flush_to_zero, (one, one, one, two, TILE),
                         _problem(f32, 3, ((7, None),), _small), flush_to_zero_reference, EXACT,
                         tags=tags | {"rounding"}))  # fmt: skip
    result.append(Kernel("flush_to_zero_extremes", flushing_extremes, (one, one, two, TILE),
                         _problem(f32, 2, ((2, None),), _small), flushing_extremes_reference,
                         Tolerance(signed_zero=False), tags=tags | {"rounding"}))  # fmt: skip
    result.append(Kernel("approximate_division", approximate, (one, one, two, TILE),
                         _problem(f32, 2, ((4, None),), _positive), approximate_reference, Tolerance(4e-7),
                         tags=tags | {"rounding"}))  # fmt: skip
    return result


KERNELS = _kernels()
