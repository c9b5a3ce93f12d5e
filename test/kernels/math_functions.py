# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mathematical functions on every float type, and their approximate forms.

Expected values are numpy's in float64.  The tolerances are a few units in the last place of the narrow types, and
the loosest bound that CUDA's library gives for f32 and f64 (two to four units in the last place) with some room.
"""

from __future__ import annotations

import cuda.tile as ct
import numpy as np
from cuda.tile import RoundingMode

from examples.signatures import array
from kernels.dtypes import FLOATS, Dtype
from kernels.model import Kernel, Problem, Tolerance

TILE = 128

TOLERANCES = {
    "f16": Tolerance(2e-3, 1e-3),
    "bf16": Tolerance(1.6e-2, 8e-3),
    "f32": Tolerance(1e-6, 1e-6),
    "f64": Tolerance(2e-15, 2e-15),
}


def put(out, row, tile):
    """Store a 1-D tile into one row of a 2-D array."""
    ct.store(out, (row, 0), tile.reshape((1, tile.shape[0])))


@ct.kernel
def functions(x, out, tile: ct.Constant[int]):
    a = ct.load(x, (0,), (tile,))
    put(out, 0, ct.exp(a))
    put(out, 1, ct.exp2(a))
    put(out, 2, ct.log(a))
    put(out, 3, ct.log2(a))
    put(out, 4, ct.sqrt(a))
    put(out, 5, ct.rsqrt(a))
    put(out, 6, ct.sin(a))
    put(out, 7, ct.cos(a))
    put(out, 8, ct.tan(a / 4))
    put(out, 9, ct.sinh(a))
    put(out, 10, ct.cosh(a))
    put(out, 11, ct.tanh(a))


def functions_reference(x, out):
    a = x.astype(np.float64)
    quarter = (x / np.asarray(4, x.dtype)).astype(np.float64)
    rows = [np.exp(a), np.exp2(a), np.log(a), np.log2(a), np.sqrt(a), 1 / np.sqrt(a), np.sin(a), np.cos(a)]
    rows += [np.tan(quarter), np.sinh(a), np.cosh(a), np.tanh(a)]
    return {"out": np.stack(rows).astype(x.dtype)}


@ct.kernel
def power(x, y, n, out, tile: ct.Constant[int]):
    a = ct.load(x, (0,), (tile,))
    b = ct.load(y, (0,), (tile,))
    whole = ct.load(n, (0,), (tile,))
    put(out, 0, ct.pow(a, b))
    put(out, 1, a**whole)


def power_reference(x, y, n, out):
    a, b = x.astype(np.float64), y.astype(np.float64)
    return {"out": np.stack([a**b, a ** n.astype(np.float64)]).astype(x.dtype)}


@ct.kernel
def angle(y, x, out, tile: ct.Constant[int]):
    ct.store(out, (0,), ct.atan2(ct.load(y, (0,), (tile,)), ct.load(x, (0,), (tile,))))


def angle_reference(y, x, out):
    return {"out": np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(out.dtype)}


@ct.kernel
def approximate_tanh(x, out, tile: ct.Constant[int]):
    ct.store(out, (0,), ct.tanh(ct.load(x, (0,), (tile,)), rounding_mode=RoundingMode.APPROX))


@ct.kernel
def approximate_exp(x, out, tile: ct.Constant[int]):
    ct.store(out, (0,), ct.exp(ct.load(x, (0,), (tile,)), rounding_mode=RoundingMode.APPROX))


@ct.kernel
def flushing(x, out, tile: ct.Constant[int]):
    a = ct.load(x, (0,), (tile,))
    put(out, 0, ct.exp2(a, flush_to_zero=True))
    put(out, 1, ct.rsqrt(ct.exp2(a), flush_to_zero=True))


def flushing_reference(x, out):
    power_of_two = np.exp2(x.astype(np.float64)).astype(np.float32)
    least = np.finfo(np.float32).smallest_normal
    with np.errstate(divide="ignore"):
        flushed = np.where(power_of_two < least, 0, power_of_two)
        return {"out": np.stack([flushed, (1 / np.sqrt(flushed.astype(np.float64))).astype(np.float32)])}


def _problem(dtype: Dtype, rows: int, low: float = 0.1, high: float = 5.0):
    def problem(rng: np.random.Generator) -> Problem:
        x = rng.uniform(low, high, TILE).astype(dtype.numpy)
        return Problem((1, 1, 1), [x, np.zeros((rows, TILE) if rows > 1 else TILE, dtype.numpy)])

    return problem


def _power_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        x = rng.uniform(0.25, 3.0, TILE).astype(dtype.numpy)
        y = rng.uniform(-3, 3, TILE).astype(dtype.numpy)
        n = rng.integers(-4, 5, TILE).astype(np.int32)
        return Problem((1, 1, 1), [x, y, n, np.zeros((2, TILE), dtype.numpy)])

    return problem


def _angle_problem(dtype: Dtype):
    def problem(rng: np.random.Generator) -> Problem:
        y, x = rng.standard_normal((2, TILE)).astype(dtype.numpy)
        y[:4], x[:4] = [0, 1, 0, -1], [1, 0, -1, 0]
        return Problem((1, 1, 1), [y, x, np.zeros(TILE, dtype.numpy)])

    return problem


def _flushing_problem(rng: np.random.Generator) -> Problem:
    # Whole exponents on both sides of the least normal number, 2**-126.
    x = rng.permutation(np.arange(-148, -148 + TILE)).astype(np.float32)
    return Problem((1, 1, 1), [x, np.zeros((2, TILE), np.float32)])


def _kernels() -> list[Kernel]:
    tags = frozenset({"elementwise", "float", "math"})
    result = []
    for name, dtype in FLOATS.items():
        one, two = array(dtype.tile), array(dtype.tile, 2)
        tolerance = TOLERANCES[name]
        result += [
            Kernel(f"math_functions_{name}", functions, (one, two, TILE), _problem(dtype, 12), functions_reference,
                   tolerance, tags=tags),
            Kernel(f"atan2_{name}", angle, (one, one, one, TILE), _angle_problem(dtype), angle_reference, tolerance,
                   min_version="13.2", refusal="atan2 requires tileiras 13.2", tags=tags),
            # From 13.4 on a whole exponent gives fpowi; before, it is converted and gives fpowf.
            Kernel(f"power_{name}", power, (one, one, array(ct.int32), two, TILE), _power_problem(dtype),
                   power_reference, Tolerance(4 * tolerance.relative, tolerance.absolute), tags=tags),
        ]  # fmt: skip
    one, two, f32 = array(ct.float32), array(ct.float32, 2), FLOATS["f32"]
    result += [
        Kernel("approximate_tanh", approximate_tanh, (one, one, TILE), _problem(f32, 1, -4, 4),
               lambda x, out: {"out": np.tanh(x.astype(np.float64)).astype(np.float32)}, Tolerance(6e-4, 6e-4),
               min_version="13.2", refusal="tanh rounding_mode=approx requires tileiras 13.2", tags=tags),
        Kernel("approximate_exp", approximate_exp, (one, one, TILE), _problem(f32, 1, -4, 4),
               lambda x, out: {"out": np.exp(x.astype(np.float64)).astype(np.float32)}, Tolerance(2e-6),
               min_version="13.3", refusal="exp rounding_mode=approx requires tileiras 13.3", tags=tags),
        Kernel("flush_to_zero_functions", flushing, (one, two, TILE), _flushing_problem, flushing_reference,
               Tolerance(1e-6), tags=tags),
    ]  # fmt: skip
    return result


KERNELS = _kernels()
