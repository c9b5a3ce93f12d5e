# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hints, assumptions, printing, assertions, dependent launches, and helper functions."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np

from examples.signatures import array, scalar
from kernels.model import Kernel, Problem

TILE = 64


@ct.kernel(num_ctas=2, occupancy=4)
def entry_hints(x, out, tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (tile,)) + 1)


@ct.kernel(num_ctas=ct.ByTarget(sm_90=1, sm_100=2, default=1), occupancy=ct.ByTarget(sm_100=2), num_worker_warps=4)
def hints_by_target(x, out, tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (tile,)) + 1)


@ct.kernel
def access_hints(x, places, out, tile: ct.Constant[int]):
    block = ct.bid(0)
    tile_a = ct.load(x, (block,), (tile,), latency=8)
    tile_b = ct.load(x, (block,), (tile,), allow_tma=False)
    tile_c = ct.load(x, (block,), (tile,), latency=1, allow_tma=True)
    where = ct.load(places, (block,), (tile,), latency=2, allow_tma=False)
    gathered = ct.gather(x, where, latency=5)
    ct.store(out, (0, block), (tile_a + tile_b)[None, :], latency=3)
    ct.store(out, (1, block), (tile_c + gathered)[None, :], allow_tma=False)
    ct.scatter(out, (2, where), gathered, latency=10)


def access_hints_reference(x, places, out):
    result = out.copy()
    result[0], result[1] = x + x, x + x[places]
    result[2, places] = x[places]
    return {"out": result}


@ct.kernel
def assumptions(x, out, offset: int):
    start = ct.assume_divisible_by(offset, 16)
    where = start + ct.arange(32, dtype=ct.int32)
    ct.scatter(out, where, ct.gather(x, where) * 2)


def assumptions_reference(x, out, offset):
    result = out.copy()
    result[offset : offset + 32] = x[offset : offset + 32] * 2
    return {"out": result}


@ct.kernel
def prints(x, out, factor: float):
    tile = ct.load(x, (0,), (4,))
    ct.printf("block %d: %d%% done\n", ct.bid(0), 100)
    ct.printf("tile %i %5.2f\n", tile, factor)
    print("sum", ct.sum(tile), "of", f"{tile:#x}")
    ct.store(out, (0,), tile)


@ct.kernel
def checks(x, out):
    tile = ct.load(x, (0,), (32,))
    ct.assert_(tile >= 0, "x has a negative element")
    ct.assert_(ct.num_tiles(x, 0, (32,)) == 1)
    ct.store(out, (0,), tile + 1)


@ct.kernel
def dependent_launch(x, out):
    ct.grid_dependency_control_wait()
    tile = ct.load(x, (ct.bid(0),), (32,))
    ct.grid_dependency_control_launch_dependents()
    ct.store(out, (ct.bid(0),), tile * 2)


def polynomial(x, coefficients):
    """Horner's rule, unrolled when the kernel is compiled."""
    result = ct.zeros(x.shape, x.dtype)
    for coefficient in ct.static_iter(coefficients):
        result = result * x + coefficient
    return result


def twice(function, x):
    return function(function(x))


@ct.kernel
def helpers(x, out):
    tile = ct.load(x, (0,), (32,))
    half = twice(lambda t: t / 2, tile)
    ct.store(out, (0,), polynomial(half, (1.0, -2.0, 0.5)))


def helpers_reference(x, out):
    half = x.astype(np.float64) / 4
    # Each step is one fused multiply-add; the first two are exact.
    inner = (half - 2).astype(np.float32).astype(np.float64)
    return {"out": (inner * half + 0.5).astype(np.float32)}


def _copy_problem(rng: np.random.Generator) -> Problem:
    return Problem((3, 1, 1), [rng.integers(0, 99, 3 * TILE, dtype=np.int32), np.zeros(3 * TILE, np.int32)])


def _access_problem(rng: np.random.Generator) -> Problem:
    size = 2 * TILE
    x = rng.integers(0, 1000, size, dtype=np.int32)
    return Problem((2, 1, 1), [x, rng.permutation(size).astype(np.int32), np.full((3, size), -9, np.int32)])


def _pair(size: int, dtype: type, *last: Any, blocks: int = 1):
    def problem(rng: np.random.Generator) -> Problem:
        return Problem((blocks, 1, 1), [rng.integers(0, 50, size).astype(dtype), np.full(size, -9, dtype), *last])

    return problem


def _kernels() -> list[Kernel]:
    tags = frozenset({"misc"})
    i1, f1, i2 = array(ct.int32), array(ct.float32), array(ct.int32, 2)
    return [
        Kernel("entry_hints", entry_hints, (i1, i1, TILE), _copy_problem, lambda x, out: {"out": x + 1},
               tags=tags | {"hint"}),
        Kernel("hints_by_target", hints_by_target, (i1, i1, TILE), _copy_problem, lambda x, out: {"out": x + 1},
               tags=tags | {"hint"}),
        Kernel("access_hints", access_hints, (i1, i1, i2, TILE), _access_problem, access_hints_reference,
               tags=tags | {"hint"}),
        Kernel("assumptions", assumptions, (i1, i1, scalar(ct.int32)), _pair(100, np.int32, 48),
               assumptions_reference, tags=tags | {"assume"}),
        Kernel("prints", prints, (i1, i1, scalar(ct.float32)), _pair(4, np.int32, 2.5), lambda x, out, f: {"out": x},
               tags=tags | {"print"}),
        Kernel("checks", checks, (i1, i1), _pair(32, np.int32), lambda x, out: {"out": x + 1},
               tags=tags | {"assert"}),
        Kernel("dependent_launch", dependent_launch, (f1, f1), _pair(96, np.float32, blocks=3),
               lambda x, out: {"out": x * 2}, min_version="13.4",
               refusal="grid_dependency_control_wait requires tileiras 13.4", tags=tags),
        Kernel("helpers", helpers, (f1, f1), _pair(32, np.float32), helpers_reference, tags=tags),
    ]  # fmt: skip


KERNELS = _kernels()
