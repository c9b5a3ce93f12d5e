# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operations that move or make elements: reshape, permute, broadcast, cat, extract, insert, arange, full."""

from __future__ import annotations

import cuda.tile as ct
import ml_dtypes
import numpy as np

from examples.signatures import array, scalar
from kernels.model import Kernel, Problem


@ct.kernel
def reshapes(x, flat, cube, swapped):
    tile = ct.load(x, (0, 0), (8, 16))
    ct.store(flat, (0,), tile.reshape((128,)))
    ct.store(cube, (0, 0, 0), ct.reshape(tile, (4, 2, -1)))
    ct.store(swapped, (0, 0), tile.reshape((16, 8)))


def reshapes_reference(x, flat, cube, swapped):
    return {"flat": x.ravel(), "cube": x.reshape(4, 2, 16), "swapped": x.reshape(16, 8)}


@ct.kernel
def permutes(x, out_021, out_210, out_120, out_swapped):
    tile = ct.load(x, (0, 0, 0), (4, 8, 16))
    ct.store(out_021, (0, 0, 0), ct.permute(tile, (0, 2, 1)))
    ct.store(out_210, (0, 0, 0), ct.permute(tile, (2, 1, 0)))
    ct.store(out_120, (0, 0, 0), ct.permute(tile, (1, 2, 0)))
    ct.store(out_swapped, (0, 0, 0), ct.transpose(tile, 0, 1))


def permutes_reference(x, out_021, out_210, out_120, out_swapped):
    orders = {"out_021": (0, 2, 1), "out_210": (2, 1, 0), "out_120": (1, 2, 0), "out_swapped": (1, 0, 2)}
    return {name: np.ascontiguousarray(x.transpose(order)) for name, order in orders.items()}


@ct.kernel
def broadcasts(row, column, out, spread, value: float):
    r = ct.load(row, (0,), (16,))
    c = ct.load(column, (0,), (8,))
    ct.store(out, (0, 0), r[None, :] * ct.expand_dims(c, 1) + value)
    ct.store(spread, (0, 0, 0), ct.broadcast_to(r, (2, 8, 16)))


def broadcasts_reference(row, column, out, spread, value):
    exact = row.astype(np.float64)[None, :] * column.astype(np.float64)[:, None] + np.float32(value).astype(np.float64)
    return {"out": exact.astype(np.float32), "spread": np.ascontiguousarray(np.broadcast_to(row, (2, 8, 16)))}


@ct.kernel
def cats(x, y, below, beside, flat):
    a = ct.load(x, (0, 0), (8, 8))
    b = ct.load(y, (0, 0), (8, 8))
    ct.store(below, (0, 0), ct.cat((a, b), 0))
    ct.store(beside, (0, 0), ct.cat((a, b), 1))
    ct.store(flat, (0,), ct.cat((a.reshape((64,)), b.reshape((64,))), -1))


def cats_reference(x, y, below, beside, flat):
    return {
        "below": np.concatenate([x, y], 0),
        "beside": np.concatenate([x, y], 1),
        "flat": np.concatenate([x.ravel(), y.ravel()]),
    }


@ct.kernel
def extracts(x, quarter, row, element, which: int):
    tile = ct.load(x, (0, 0), (16, 16))
    ct.store(quarter, (0, 0), ct.extract(tile, (1, 0), (8, 8)))
    ct.store(row, (0, 0), tile.extract((which, 0), (1, 16)))
    ct.scatter(element, 0, ct.extract(tile, (which, which), (1, 1)).item())


def extracts_reference(x, quarter, row, element, which):
    return {"quarter": x[8:, :8].copy(), "row": x[which : which + 1].copy(), "element": x[which, which : which + 1]}


@ct.kernel
def inserts(x, y, out, which: int):
    tile = ct.load(x, (0, 0), (16, 16))
    part = ct.load(y, (0, 0), (4, 16))
    ct.store(out, (0, 0), ct.insert(ct.insert(tile, (0, 0), part), (which, 0), part * 2))


def inserts_reference(x, y, out, which):
    result = x.copy()
    result[:4] = y
    result[4 * which : 4 * which + 4] = y * 2
    return {"out": result}


@ct.kernel
def makes(counts, halves, ones_out, flags, bytes_out):
    ct.store(counts, (0,), ct.arange(64, dtype=ct.int32))
    ct.store(counts, (1,), ct.arange(64, dtype=ct.int32, start=100, step=-3))
    ct.store(halves, (0, 0), ct.full((4, 8), 0.1, ct.float16))
    ct.store(halves, (1, 0), ct.zeros((4, 8), ct.float16))
    ct.store(ones_out, (0,), ct.ones((16,), ct.bfloat16))
    ct.store(flags, (0,), ct.arange(16, dtype=ct.int32) % 3 == 0)
    ct.store(bytes_out, (0,), ct.full((16,), 200, ct.uint8))


def makes_reference(counts, halves, ones_out, flags, bytes_out):
    filled = np.zeros((8, 8), np.float16)
    filled[:4] = np.float16(0.1)
    return {
        "counts": np.concatenate([np.arange(64), 100 - 3 * np.arange(64)]).astype(np.int32),
        "halves": filled,
        "ones_out": np.ones(16, ml_dtypes.bfloat16),
        "flags": np.arange(16) % 3 == 0,
        "bytes_out": np.full(16, 200, np.uint8),
    }


TABLE = (3, 1, 4, 1, 5, 9, 2, 6)


@ct.kernel
def constant_table(out):
    # Sixteen columns of a table that is known when the kernel is compiled.
    for i in ct.static_iter(range(8)):
        ct.store(out, (i, 0), ct.full((1, 16), TABLE[i], ct.int32) * ct.arange(16, dtype=ct.int32)[None, :])


def constant_table_reference(out):
    return {"out": np.outer(TABLE, np.arange(16)).astype(np.int32)}


def _problem(*shapes: tuple[int, ...] | int, inputs: int = 1, dtype: type = np.float32, last: tuple = ()):
    def problem(rng: np.random.Generator) -> Problem:
        given: list[np.ndarray] = [rng.standard_normal(shape).astype(dtype) for shape in shapes[:inputs]]
        if np.dtype(dtype).kind in "iu":
            given = [rng.integers(-100, 100, shape).astype(dtype) for shape in shapes[:inputs]]
        return Problem((1, 1, 1), [*given, *(np.zeros(shape, dtype) for shape in shapes[inputs:]), *last])

    return problem


def _makes_problem(rng: np.random.Generator) -> Problem:
    bf16 = ml_dtypes.bfloat16
    values: list[np.ndarray] = [np.zeros(128, np.int32), np.ones((8, 8), np.float16), np.zeros(16, bf16)]
    return Problem((1, 1, 1), [*values, np.ones(16, np.bool_), np.zeros(16, np.uint8)])


def _kernels() -> list[Kernel]:
    tags = frozenset({"shape"})
    f1, f2, f3 = (array(ct.float32, rank) for rank in (1, 2, 3))
    i1, i2, i3 = (array(ct.int16, rank) for rank in (1, 2, 3))
    return [
        Kernel("reshape", reshapes, (i2, i1, i3, i2), _problem((8, 16), 128, (4, 2, 16), (16, 8), dtype=np.int16),
               reshapes_reference, tags=tags),
        Kernel("permute", permutes, (i3,) * 5,
               _problem((4, 8, 16), (4, 16, 8), (16, 8, 4), (8, 16, 4), (8, 4, 16), dtype=np.int16),
               permutes_reference, tags=tags),
        Kernel("permute_f64", permutes, (array(ct.float64, 3),) * 5,
               _problem((4, 8, 16), (4, 16, 8), (16, 8, 4), (8, 16, 4), (8, 4, 16), dtype=np.float64),
               permutes_reference, tags=tags),
        Kernel("broadcast", broadcasts, (f1, f1, f2, f3, scalar(ct.float32)),
               _problem(16, 8, (8, 16), (2, 8, 16), inputs=2, last=(0.3,)), broadcasts_reference, tags=tags),
        Kernel("cat", cats, (f2, f2, f2, f2, f1), _problem((8, 8), (8, 8), (16, 8), (8, 16), 128, inputs=2),
               cats_reference, tags=tags),
        Kernel("extract", extracts, (i2, i2, i2, i1, scalar(ct.int32)),
               _problem((16, 16), (8, 8), (1, 16), 1, dtype=np.int16, last=(5,)), extracts_reference, tags=tags),
        Kernel("insert", inserts, (f2, f2, f2, scalar(ct.int32)),
               _problem((16, 16), (4, 16), (16, 16), inputs=2, last=(2,)), inserts_reference, min_version="13.4",
               refusal="insert requires tileiras 13.4", tags=tags),
        Kernel("make_tiles", makes,
               (array(ct.int32), array(ct.float16, 2), array(ct.bfloat16), array(ct.bool_), array(ct.uint8)),
               _makes_problem, makes_reference, tags=tags),
        Kernel("constant_table", constant_table, (array(ct.int32, 2),),
               _problem((8, 16), inputs=0, dtype=np.int32), constant_table_reference, tags=tags),
    ]  # fmt: skip


KERNELS = _kernels()
