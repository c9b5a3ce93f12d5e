# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions and scans, built in and with functions of their own.

Float operands are small whole numbers (powers of two for products), so that the order of a sum does not matter.
"""

from __future__ import annotations

import cuda.tile as ct
import numpy as np
from cuda.tile import RoundingMode

from examples.signatures import array
from kernels.dtypes import FLOATS, INTEGERS, Dtype, random_integers
from kernels.model import Kernel, Problem, Tolerance

ROWS, COLUMNS = 16, 32

REDUCED = {name: (FLOATS | INTEGERS)[name] for name in ("f16", "bf16", "f32", "f64", "i8", "i32", "u32", "i64", "u16")}
SCANNED = {name: (FLOATS | INTEGERS)[name] for name in ("f16", "f32", "f64", "i32", "u8", "i64")}


@ct.kernel
def reduce_axes(x, by_column, by_row, whole, rows: ct.Constant[int], columns: ct.Constant[int]):
    tile = ct.load(x, (0, 0), (rows, columns))
    ct.store(by_column, (0, 0), ct.sum(tile, 0, keepdims=True).astype(x.dtype))
    ct.store(by_column, (1, 0), ct.max(tile, 0, keepdims=True))
    ct.store(by_column, (2, 0), ct.min(tile, 0, keepdims=True))
    ct.store(by_row, (0, 0), ct.sum(tile, 1).astype(x.dtype)[None, :])
    ct.store(by_row, (1, 0), ct.max(tile, 1)[None, :])
    ct.store(by_row, (2, 0), ct.min(tile, -1)[None, :])
    ct.scatter(whole, 0, ct.sum(tile).astype(x.dtype))
    ct.scatter(whole, 1, ct.max(tile, (0, 1)))
    ct.scatter(whole, 2, ct.min(tile, None))


def reduce_axes_reference(x, by_column, by_row, whole):
    wide = x if x.dtype.kind in "iu" else x.astype(np.float64)
    with np.errstate(over="ignore"):
        results = [
            np.stack([np.sum(wide, axis=axis, dtype=wide.dtype), wide.max(axis=axis), wide.min(axis=axis)])
            for axis in (0, 1, None)
        ]
    names = ("by_column", "by_row", "whole")
    return {name: result.astype(x.dtype) for name, result in zip(names, results, strict=True)}


@ct.kernel
def products(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    tile = ct.load(x, (0, 0), (rows, columns))
    ct.store(out, (0,), ct.prod(tile, 0).astype(x.dtype))


@ct.kernel
def positions(x, by_column, by_row, whole, rows: ct.Constant[int], columns: ct.Constant[int]):
    tile = ct.load(x, (0, 0), (rows, columns))
    ct.store(by_column, (0, 0), ct.argmax(tile, 0, keepdims=True))
    ct.store(by_column, (1, 0), ct.argmin(tile, 0, keepdims=True))
    ct.store(by_row, (0, 0), ct.argmax(tile, 1)[None, :])
    ct.store(by_row, (1, 0), ct.argmin(tile, 1)[None, :])
    ct.scatter(whole, 0, ct.argmax(tile))
    ct.scatter(whole, 1, ct.argmin(tile))


def positions_reference(x, by_column, by_row, whole):
    # Of equal elements, the first one's position.
    results = [np.stack([np.argmax(x, axis=axis), np.argmin(x, axis=axis)]) for axis in (0, 1, None)]
    names = ("by_column", "by_row", "whole")
    return {name: result.astype(np.int32) for name, result in zip(names, results, strict=True)}


@ct.kernel
def nan_reductions(x, out, positions_out, rows: ct.Constant[int], columns: ct.Constant[int]):
    tile = ct.load(x, (0, 0), (rows, columns))
    ct.store(out, (0, 0), ct.max(tile, 1)[None, :])
    ct.store(out, (1, 0), ct.max(tile, 1, propagate_nan=True)[None, :])
    ct.store(out, (2, 0), ct.min(tile, 1)[None, :])
    ct.store(out, (3, 0), ct.min(tile, 1, propagate_nan=True)[None, :])
    ct.store(positions_out, (0,), ct.argmax(tile, 1, propagate_nan=True))


def nan_reductions_reference(x, out, positions_out):
    rows = [np.nanmax(x, axis=1), np.max(x, axis=1), np.nanmin(x, axis=1), np.min(x, axis=1)]
    return {"out": np.stack(rows), "positions_out": np.argmax(x, axis=1).astype(np.int32)}


def larger_magnitude(a, b):
    return ct.where(ct.abs(a) >= ct.abs(b), a, b)


def mean_and_spread(count_a, mean_a, spread_a, count_b, mean_b, spread_b):
    count = count_a + count_b
    difference = mean_b - mean_a
    share = ct.where(count > 0, count_b / count, 0.0)
    return count, mean_a + difference * share, spread_a + spread_b + difference * difference * count_a * share


@ct.kernel
def own_reductions(x, exclusive_or, magnitude, mean, spread, rows: ct.Constant[int], columns: ct.Constant[int]):
    tile = ct.load(x, (0, 0), (rows, columns))
    ct.store(exclusive_or, (0,), ct.reduce(tile, 0, lambda a, b: a ^ b, 0))
    values = tile.astype(ct.float32)
    ct.store(magnitude, (0,), ct.reduce(values, 1, larger_magnitude, 0.0))
    ones, zeros = ct.full((rows, columns), 1.0, ct.float32), ct.full((rows, columns), 0.0, ct.float32)
    _, means, spreads = ct.reduce((ones, values, zeros), 1, mean_and_spread, (0.0, 0.0, 0.0))
    ct.store(mean, (0,), means)
    ct.store(spread, (0,), spreads / columns)


def own_reductions_reference(x, exclusive_or, magnitude, mean, spread):
    wide = x.astype(np.float64)
    largest = np.take_along_axis(wide, np.argmax(np.abs(wide), axis=1)[:, None], axis=1)[:, 0]
    return {
        "exclusive_or": np.bitwise_xor.reduce(x, axis=0),
        "magnitude": largest.astype(np.float32),
        "mean": wide.mean(axis=1).astype(np.float32),
        "spread": wide.var(axis=1).astype(np.float32),
    }


@ct.kernel
def rounded_sums(x, out, scanned, rows: ct.Constant[int], columns: ct.Constant[int]):
    tile = ct.load(x, (0, 0), (rows, columns))
    ct.store(out, (0,), ct.sum(tile, 1, rounding_mode=RoundingMode.RZ, flush_to_zero=True))
    ct.store(scanned, (0, 0), ct.cumsum(tile, 1, rounding_mode=RoundingMode.RM))


def rounded_sums_reference(x, out, scanned):
    # The numbers are such that no sum is rounded: the modes must change nothing.
    return {"out": x.sum(axis=1, dtype=np.float32), "scanned": np.cumsum(x, axis=1, dtype=np.float32)}


@ct.kernel
def scans(x, sums, products_out, rows: ct.Constant[int], columns: ct.Constant[int]):
    tile = ct.load(x, (0, 0), (rows, columns))
    ct.store(sums, (0, 0, 0), ct.cumsum(tile, 0)[None, :, :])
    ct.store(sums, (1, 0, 0), ct.cumsum(tile, 1)[None, :, :])
    ct.store(sums, (2, 0, 0), ct.cumsum(tile, 0, reverse=True)[None, :, :])
    ct.store(sums, (3, 0, 0), ct.cumsum(tile, 1, reverse=True)[None, :, :])
    ct.store(products_out, (0, 0), ct.cumprod(tile, 0))


def scans_reference(x, sums, products_out):
    with np.errstate(over="ignore"):
        forward = [np.cumsum(x, axis=axis, dtype=x.dtype) for axis in (0, 1)]
        backward = [np.flip(np.cumsum(np.flip(x, axis), axis=axis, dtype=x.dtype), axis) for axis in (0, 1)]
        return {"sums": np.stack(forward + backward), "products_out": np.cumprod(x, axis=0, dtype=x.dtype)}


def compose(scale_a, shift_a, scale_b, shift_b):
    """The affine map a, then b: the composition is associative and does not commute."""
    return scale_a * scale_b, shift_a * scale_b + shift_b


@ct.kernel
def own_scans(scale, shift, out, largest, size: ct.Constant[int]):
    maps = ct.load(scale, (0,), (size,)), ct.load(shift, (0,), (size,))
    forward = ct.scan(maps, 0, compose, (1, 0))
    backward = ct.scan(maps, 0, compose, (1, 0), reverse=True)
    ct.store(out, (0, 0), forward[0][None, :])
    ct.store(out, (1, 0), forward[1][None, :])
    ct.store(out, (2, 0), backward[0][None, :])
    ct.store(out, (3, 0), backward[1][None, :])
    ct.store(largest, (0,), ct.scan(maps[1], 0, lambda a, b: max(a, b), -(2**31)))


def own_scans_reference(scale, shift, out, largest):
    rows = []
    # The function is called with what is accumulated first, forward and in reverse.
    for order in (range(len(scale)), range(len(scale) - 1, -1, -1)):
        scales, shifts = np.zeros_like(scale), np.zeros_like(shift)
        a, b = 1, 0
        for i in order:
            a, b = a * int(scale[i]), b * int(scale[i]) + int(shift[i])
            scales[i], shifts[i] = (np.array([a, b]) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
            a, b = int(scales[i]), int(shifts[i])
        rows += [scales, shifts]
    return {"out": np.stack(rows), "largest": np.maximum.accumulate(shift)}


def _values(rng: np.random.Generator, dtype: Dtype, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.numpy.kind in "iu":
        return random_integers(rng, dtype.numpy, shape)
    # bf16 keeps whole numbers up to 256 only.
    limit = 2 if dtype.numpy.itemsize == 2 else 100
    return rng.integers(-limit, limit + 1, shape).astype(dtype.numpy)


def _axes_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        x = _values(rng, dtype, (ROWS, COLUMNS))
        if dtype.numpy.kind not in "iu" and dtype.numpy.itemsize == 2:
            # The sum of the whole tile has to be small, too: each row against its neighbour's negative.
            x[1::2] = -x[::2]
        outputs = [np.zeros(shape, dtype.numpy) for shape in ((3, COLUMNS), (3, ROWS), 3)]
        return Problem((1, 1, 1), [x, *outputs])

    return problem


def _products_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        x = rng.choice([-1, 1, 2, 0.5] if dtype.numpy.kind not in "iu" else [1, 2, 3, 5], (ROWS, COLUMNS))
        return Problem((1, 1, 1), [x.astype(dtype.numpy), np.zeros(COLUMNS, dtype.numpy)])

    return problem


def products_reference(x, out):
    wide = x if x.dtype.kind in "iu" else x.astype(np.float64)
    with np.errstate(over="ignore"):
        return {"out": np.prod(wide, axis=0, dtype=wide.dtype).astype(x.dtype)}


def _positions_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        x = rng.integers(0, 12, (ROWS, COLUMNS)).astype(dtype.numpy)
        outputs = [np.zeros(shape, np.int32) for shape in ((2, COLUMNS), (2, ROWS), 2)]
        return Problem((1, 1, 1), [x, *outputs])

    return problem


def _nan_problem(rng: np.random.Generator) -> Problem:
    x = rng.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    x[rng.random((ROWS, COLUMNS)) < 0.05] = np.nan
    return Problem((1, 1, 1), [x, np.zeros((4, ROWS), np.float32), np.zeros(ROWS, np.int32)])


def _own_problem(rng: np.random.Generator) -> Problem:
    # Odd magnitudes that are all different in a row, so that the largest is one element.
    x = np.stack([rng.permutation(np.arange(1, COLUMNS + 1)) for _ in range(ROWS)]).astype(np.int32)
    x *= rng.choice([-1, 1], x.shape).astype(np.int32)
    outputs = [np.zeros(COLUMNS, np.int32), *(np.zeros(ROWS, np.float32) for _ in range(3))]
    return Problem((1, 1, 1), [x, *outputs])


def _rounded_problem(rng: np.random.Generator) -> Problem:
    x = rng.integers(1, 100, (ROWS, COLUMNS)).astype(np.float32)
    return Problem((1, 1, 1), [x, np.zeros(ROWS, np.float32), np.zeros_like(x)])


def _scans_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        if dtype.numpy.kind in "iu":
            x = random_integers(rng, dtype.numpy, (ROWS, COLUMNS))
        else:
            x = rng.choice([-2, -1, 1, 2], (ROWS, COLUMNS)).astype(dtype.numpy)
            if dtype.numpy.itemsize == 2:
                x[2::2] = np.sign(x[2::2])  # at most 2**8 and its products stay in range
        return Problem((1, 1, 1), [x, np.zeros((4, ROWS, COLUMNS), dtype.numpy), np.zeros_like(x)])

    return problem


def _own_scans_problem(rng: np.random.Generator) -> Problem:
    scale, shift = rng.integers(-9, 10, (2, 64), dtype=np.int32)
    return Problem((1, 1, 1), [scale, shift, np.zeros((4, 64), np.int32), np.zeros(64, np.int32)])


def _kernels() -> list[Kernel]:
    tags = frozenset({"reduce"})
    result = []
    for name, dtype in REDUCED.items():
        one, two = array(dtype.tile), array(dtype.tile, 2)
        result += [
            Kernel(f"reduce_{name}", reduce_axes, (two, two, two, one, ROWS, COLUMNS), _axes_problem(dtype),
                   reduce_axes_reference, Tolerance(signed_zero=False), tags=tags),
            Kernel(f"product_{name}", products, (two, one, ROWS, COLUMNS), _products_problem(dtype),
                   products_reference, tags=tags),
            Kernel(f"argmax_{name}", positions,
                   (two, array(ct.int32, 2), array(ct.int32, 2), array(ct.int32), ROWS, COLUMNS),
                   _positions_problem(dtype), positions_reference, tags=tags),
        ]  # fmt: skip
    one, two = array(ct.float32), array(ct.float32, 2)
    i32, i32_2 = array(ct.int32), array(ct.int32, 2)
    result += [
        Kernel("reduce_nan", nan_reductions, (two, two, i32, ROWS, COLUMNS), _nan_problem, nan_reductions_reference,
               tags=tags),
        Kernel("reduce_own_function", own_reductions, (i32_2, i32, one, one, one, ROWS, COLUMNS), _own_problem,
               own_reductions_reference, Tolerance(1e-5, 1e-5), tags=tags | {"region"}),
        Kernel("reduce_rounding", rounded_sums, (two, one, two, ROWS, COLUMNS), _rounded_problem,
               rounded_sums_reference, tags=tags | {"scan", "rounding"}),
        Kernel("scan_own_function", own_scans, (i32, i32, i32_2, i32, 64), _own_scans_problem, own_scans_reference,
               tags=frozenset({"scan", "region"})),
    ]  # fmt: skip
    for name, dtype in SCANNED.items():
        two, three = array(dtype.tile, 2), array(dtype.tile, 3)
        result.append(Kernel(f"scan_{name}", scans, (two, three, two, ROWS, COLUMNS), _scans_problem(dtype),
                             scans_reference, Tolerance(signed_zero=False), tags=frozenset({"scan"})))  # fmt: skip
    return result


KERNELS = _kernels()
