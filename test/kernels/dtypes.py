# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types by their IR name, in the frontend's and in numpy's terms, and random data for them."""

from __future__ import annotations

from typing import NamedTuple

import cuda.tile as ct
import ml_dtypes
import numpy as np


class Dtype(NamedTuple):
    """One element type: the frontend's, and the numpy type that its memory has."""

    tile: ct.DType
    numpy: np.dtype


def _dtype(tile: ct.DType, numpy: type) -> Dtype:
    return Dtype(tile, np.dtype(numpy))


SIGNED = {
    "i8": _dtype(ct.int8, np.int8),
    "i16": _dtype(ct.int16, np.int16),
    "i32": _dtype(ct.int32, np.int32),
    "i64": _dtype(ct.int64, np.int64),
}
UNSIGNED = {
    "u8": _dtype(ct.uint8, np.uint8),
    "u16": _dtype(ct.uint16, np.uint16),
    "u32": _dtype(ct.uint32, np.uint32),
    "u64": _dtype(ct.uint64, np.uint64),
}
INTEGERS = SIGNED | UNSIGNED
FLOATS = {
    "f16": _dtype(ct.float16, np.float16),
    "bf16": _dtype(ct.bfloat16, ml_dtypes.bfloat16),
    "f32": _dtype(ct.float32, np.float32),
    "f64": _dtype(ct.float64, np.float64),
}
FLOAT8 = {
    "f8e4m3fn": _dtype(ct.float8_e4m3fn, ml_dtypes.float8_e4m3fn),
    "f8e5m2": _dtype(ct.float8_e5m2, ml_dtypes.float8_e5m2),
}
SCALES = {"f8e8m0fnu": _dtype(ct.float8_e8m0fnu, ml_dtypes.float8_e8m0fnu)}
BOOL = {"i1": _dtype(ct.bool_, np.bool_)}


def random_integers(rng: np.random.Generator, dtype: np.dtype, size: int | tuple[int, ...]) -> np.ndarray:
    """Any value of the type, with its extremes, 0, 1 and -1 at the start."""
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, size, dtype=dtype, endpoint=True)
    special = np.array([info.min, info.max, 0, 1, info.max // 2, info.min + 1], dtype)
    flat = values.reshape(-1)
    count = min(len(special), flat.size)
    flat[:count] = special[:count]
    return values


def random_floats(rng: np.random.Generator, dtype: np.dtype, size: int | tuple[int, ...]) -> np.ndarray:
    """Normally distributed values, rounded to the type."""
    return rng.standard_normal(size).astype(dtype)


def special_floats(rng: np.random.Generator, dtype: np.dtype, size: int) -> np.ndarray:
    """Values of either sign over the type's exponents, with zeros, infinities, NaN, extremes and denormals mixed in."""
    info = ml_dtypes.finfo(dtype)
    exponents = rng.uniform(info.minexp, info.maxexp, size)
    with np.errstate(over="ignore", under="ignore"):
        values = (rng.choice([-1.0, 1.0], size) * rng.uniform(1, 2, size) * 2.0**exponents).astype(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]
    special += [float(x) for x in (info.max, info.min, info.smallest_normal, info.smallest_subnormal)]
    special += [-float(info.smallest_subnormal), float(info.smallest_normal) - float(info.smallest_subnormal)]
    values[: len(special)] = np.array(special, np.float64).astype(dtype)
    rng.shuffle(values)
    return values
