# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads and stores: tile views with padding, strided and gather/scatter views, pointers with masks, raw memory.

Sizes here do not divide the tile unless a kernel says that they do.
"""

from __future__ import annotations

from typing import Annotated, Any

import cuda.tile as ct
import numpy as np
from cuda.tile import MemoryOrder, MemoryScope, PaddingMode
from cuda.tile.compilation import ListConstraint

from examples.signatures import array, scalar
from kernels.model import Kernel, Problem, Strided

MODES = {"zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}


@ct.kernel
def paddings(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    shape = (rows, columns)
    ct.store(out, (0, i, j), ct.load(x, (i, j), shape, padding_mode=PaddingMode.ZERO)[None, :, :])
    ct.store(out, (1, i, j), ct.load(x, (i, j), shape, padding_mode=PaddingMode.NEG_ZERO)[None, :, :])
    ct.store(out, (2, i, j), ct.load(x, (i, j), shape, padding_mode=PaddingMode.NAN)[None, :, :])
    ct.store(out, (3, i, j), ct.load(x, (i, j), shape, padding_mode=PaddingMode.POS_INF)[None, :, :])
    ct.store(out, (4, i, j), ct.load(x, (i, j), shape, padding_mode=PaddingMode.NEG_INF)[None, :, :])


def paddings_reference(x, out):
    result = np.stack([np.full(out.shape[1:], value, x.dtype) for value in MODES.values()])
    result[:, : x.shape[0], : x.shape[1]] = x
    return {"out": result}


@ct.kernel
def integer_padding(x, out, size: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (size,), padding_mode=PaddingMode.ZERO))


def integer_padding_reference(x, out):
    result = np.zeros_like(out)
    result[: len(x)] = x
    return {"out": result}


@ct.kernel
def transposed_access(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    # Index, shape and tile are in transposed order, in the load by a name and in the store by numbers.
    tile = ct.load(x, (ct.bid(1), ct.bid(0)), (columns, rows), order="F")
    ct.store(out, (ct.bid(1), ct.bid(0)), tile + 1, order=(1, 0))


@ct.kernel
def copy_2d(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    index = (ct.bid(0), ct.bid(1))
    ct.store(out, index, ct.load(x, index, (rows, columns)))


@ct.kernel
def copy_5d(x, out):
    tile = ct.load(x, (0, ct.bid(0), 0, ct.bid(1), 0), (2, 1, 4, 2, 8))
    ct.store(out, (0, ct.bid(0), 0, ct.bid(1), 0), tile)


@ct.kernel
def copy_scalars(x, out):
    ct.scatter(out, (), ct.gather(x, ()) * 2)


@ct.kernel
def slices(x, out, start: int, stop: int):
    part = x.slice(0, start, stop)
    for i in range(ct.num_tiles(part, 0, (4, 8))):
        ct.store(out, (i, 0), ct.load(part, (i, 0), (4, 8), padding_mode=PaddingMode.ZERO))
    ct.store(out.slice(1, 8, 16), (0, 0), ct.load(x.slice(1, 3, 9), (0, 0), (16, 8), padding_mode=PaddingMode.ZERO))


def slices_reference(x, out, start, stop):
    result = out.copy()
    rows = -(-(stop - start) // 4) * 4
    result[:rows, :8] = 0
    result[: stop - start, :8] = x[start:stop, :8]
    result[:16, 8:16] = 0
    result[:16, 8:14] = x[:16, 3:9]
    return {"out": result}


@ct.kernel
def tiled_views(x, out, counts):
    view = x.tiled_view((4, 8), padding_mode=PaddingMode.NEG_INF)
    target = out.tiled_view((4, 8))
    ct.scatter(counts, 0, view.num_tiles(0))
    ct.scatter(counts, 1, view.num_tiles(1))
    for i in range(view.num_tiles(0)):
        for j in range(view.num_tiles(1)):
            target.store((i, j), view.load((i, j)))


def tiled_views_reference(x, out, counts):
    result = np.full_like(out, -np.inf)
    result[: x.shape[0], : x.shape[1]] = x
    return {"out": result, "counts": np.array([-(-x.shape[0] // 4), -(-x.shape[1] // 8)], np.int32)}


@ct.kernel
def strided_views(x, windows, every, step: ct.Constant[int]):
    overlapping = x.tiled_view((8,), padding_mode=PaddingMode.ZERO, traversal_steps=(step,))
    spaced = x.tiled_view((4,), padding_mode=PaddingMode.ZERO, traversal_steps=(16,))
    for i in range(overlapping.num_tiles(0)):
        ct.store(windows, (i, 0), overlapping.load((i,))[None, :])
    for i in range(spaced.num_tiles(0)):
        ct.store(every, (i, 0), spaced.load((i,))[None, :])


def _strided_reference(step: int):
    def reference(x, windows, every):
        padded = np.concatenate([x, np.zeros(16, x.dtype)])
        results = [windows.copy(), every.copy()]
        for result, width, stride in ((results[0], 8, step), (results[1], 4, 16)):
            for i in range(-(-len(x) // stride)):
                result[i] = padded[i * stride : i * stride + width]
        return {"windows": results[0], "every": results[1]}

    return reference


@ct.kernel
def strided_store(x, out):
    target = out.tiled_view((2, 8), traversal_steps=(4, 8))
    for i in range(4):
        target.store((i, 0), ct.load(x, (i, 0), (2, 8)))


def strided_store_reference(x, out):
    result = out.copy()
    for i in range(4):
        result[4 * i : 4 * i + 2] = x[2 * i : 2 * i + 2]
    return {"out": result}


@ct.kernel
def gather_rows(x, rows, out, column: int):
    chosen = ct.load(rows, (0,), (8,))
    tile = ct.load_advanced_indexing(x, (chosen, ct.Slice(column, 16)), padding_mode=PaddingMode.ZERO)
    ct.store(out, (0, 0), tile)


def gather_rows_reference(x, rows, out, column):
    result = np.zeros((8, 16), x.dtype)
    inside = (rows >= 0) & (rows < x.shape[0])
    width = min(16, x.shape[1] - column)
    result[inside, :width] = x[rows[inside], column : column + width]
    return {"out": result}


@ct.kernel
def scatter_rows(x, rows, out):
    chosen = ct.load(rows, (0,), (8,))
    ct.store_advanced_indexing(out, (chosen, ct.Slice(8, 16)), ct.load(x, (0, 0), (8, 16)))


def scatter_rows_reference(x, rows, out):
    result = out.copy()
    inside = (rows >= 0) & (rows < out.shape[0])
    result[rows[inside], 8:24] = x[inside]
    return {"out": result}


@ct.kernel
def gathers(x, rows, columns, wanted, out):
    r = ct.load(rows, (0,), (16,))[:, None]
    c = ct.load(columns, (0,), (8,))[None, :]
    mask = ct.load(wanted, (0, 0), (16, 8))
    ct.store(out, (0, 0, 0), ct.gather(x, (r, c))[None, :, :])
    ct.store(out, (1, 0, 0), ct.gather(x, (r, c), padding_value=-1)[None, :, :])
    ct.store(out, (2, 0, 0), ct.gather(x, (r, c), mask=mask, padding_value=7, latency=3)[None, :, :])


def gathers_reference(x, rows, columns, wanted, out):
    r, c = np.broadcast_arrays(rows[:, None], columns[None, :])
    inside = (r >= 0) & (r < x.shape[0]) & (c >= 0) & (c < x.shape[1])
    found = x[np.where(inside, r, 0), np.where(inside, c, 0)]
    layers = [np.where(inside, found, 0), np.where(inside, found, -1), np.where(inside & wanted, found, 7)]
    return {"out": np.stack(layers).astype(x.dtype)}


@ct.kernel
def scatters(x, places, wanted, out, masked):
    where = ct.load(places, (0,), (32,))
    values = ct.load(x, (0,), (32,))
    ct.scatter(out, where, values)
    ct.scatter(masked, where, values * 2, mask=ct.load(wanted, (0,), (32,)))


def scatters_reference(x, places, wanted, out, masked):
    results = out.copy(), masked.copy()
    inside = (places >= 0) & (places < len(out))
    results[0][places[inside]] = x[inside]
    results[1][places[inside & wanted]] = x[inside & wanted] * 2
    return {"out": results[0], "masked": results[1]}


@ct.kernel
def unchecked(x, places, out):
    where = ct.load(places, (0,), (32,))
    ct.scatter(out, where, ct.gather(x, where, check_bounds=False) + 1, check_bounds=False)


def unchecked_reference(x, places, out):
    result = out.copy()
    result[places] = x[places] + 1
    return {"out": result}


@ct.kernel
def unchecked_views(x, out):
    view = x.tiled_view((32,))
    ct.store(out, (ct.bid(0),), view.load((ct.bid(0),), check_bounds=False), check_bounds=False)


@ct.kernel
def raw_memory(x, out, size: ct.Constant[int]):
    source, target = x.get_raw_memory(), out.get_raw_memory()
    offset = ct.bid(0) * size + ct.arange(size, dtype=ct.int32)
    inside = offset < 100
    values = source.load_offset(offset, mask=inside, padding_value=5)
    target.store_offset(offset * 2, values)
    target.store_offset(offset * 2 + 1, values + 1, mask=inside)


def raw_memory_reference(x, out):
    result = out.copy()
    values = np.full(128, 5, x.dtype)
    values[:100] = x
    result[0::2] = values
    result[1:200:2] = values[:100] + 1
    return {"out": result}


@ct.kernel
def foreign(x, out):
    view = ct.Array.from_foreign(x.foreign_pointer, (8, 16), (16, 1))
    ct.store(out, (0, 0), ct.load(view, (0, 0), (8, 16)))


StaticShape = Annotated[ct.Array, ct.ArrayAnnotation(static_shape_dims=(0, 1), static_stride_dims=(0, 1))]


@ct.kernel
def static_shape(x: StaticShape, out):
    ct.static_assert(x.shape[0] == 12 and x.strides[0] == 20)
    for i in ct.static_iter(range(x.shape[0] // 4)):
        ct.store(out, (i, 0), ct.load(x, (i, 0), (4, 16)))


@ct.kernel
def tuple_argument(x, out, pair):
    ct.store(out, (0,), ct.load(x, (0,), (32,)) * pair[0] + pair[1])


@ct.kernel
def ordered(x, flags, out):
    data = ct.load(x, (0,), (32,), memory_order=MemoryOrder.RELAXED, memory_scope=MemoryScope.DEVICE)
    ct.store(out, (0,), data + 1, memory_order=MemoryOrder.RELAXED, memory_scope=MemoryScope.BLOCK)
    again = ct.load(out, (0,), (32,), memory_order=MemoryOrder.ACQUIRE, memory_scope=MemoryScope.DEVICE)
    ct.store(out, (1,), again * 2, memory_order=MemoryOrder.RELEASE, memory_scope=MemoryScope.SYS)
    seen = ct.load(flags, (0,), (1,), memory_order=MemoryOrder.ACQUIRE, memory_scope=MemoryScope.SYS)
    ct.store(flags, (0,), seen + 1, memory_order=MemoryOrder.RELEASE, memory_scope=MemoryScope.DEVICE)


def ordered_reference(x, flags, out):
    return {"out": np.concatenate([x + 1, (x + 1) * 2]), "flags": flags + 1}


@ct.kernel
def read_after_write(data, out):
    # Each step reads what the step before wrote: the accesses have to stay in order.
    for _ in range(5):
        ct.store(data, (1,), ct.load(data, (0,), (16,)) + 1)
        ct.store(data, (0,), ct.load(data, (1,), (16,)) * 2)
    ct.store(out, (0,), ct.load(data, (0,), (32,)))


def read_after_write_reference(data, out):
    result = data.copy()
    for _ in range(5):
        result[16:] = result[:16] + 1
        result[:16] = result[16:] * 2
    return {"data": result, "out": result}


@ct.kernel
def aliased(x, y):
    # y may be the same memory as x, so its store stays before the next load.
    first = ct.load(x, (0,), (16,))
    ct.store(y, (0,), first + 1)
    ct.store(y, (1,), ct.load(x, (0,), (16,)) + 1)


@ct.kernel
def array_list(arrays, out):
    for i in range(len(arrays)):
        ct.store(out, (i, 0), ct.load(arrays[i], (0,), (16,), padding_mode=PaddingMode.ZERO)[None, :])


def _random(*inputs: tuple[Any, tuple[int, ...] | int], outputs=(), last=(), grid=(1, 1, 1)):
    """A problem of normally distributed or whole-number inputs, then outputs that start at -9, then scalars."""

    def problem(rng: np.random.Generator) -> Problem:
        values: list[Any] = []
        for dtype, shape in inputs:
            kind = np.dtype(dtype).kind
            values.append((rng.integers(0, 100, shape) if kind in "iu" else rng.standard_normal(shape)).astype(dtype))
        values += [np.full(shape, -9, dtype) for dtype, shape in outputs]
        return Problem(grid, [*values, *last])

    return problem


def _padding_problem(dtype: type):
    return _random((dtype, (13, 21)), outputs=[(dtype, (5, 16, 24))], grid=(2, 3, 1))


def _strided_problem(rng: np.random.Generator) -> Problem:
    memory = rng.integers(-(2**30), 2**30, 4000, dtype=np.int32)
    # A transposed source, and a target that leaves every other row of its memory alone.
    return Problem((3, 2, 1), [Strided(memory, (40, 30), (1, 64)), Strided(memory[:3000] * 0, (40, 30), (70, 1))])


def strided_copy_reference(x, out):
    result = out.copy()
    source, target = (np.lib.stride_tricks.as_strided(memory, (40, 30), [4 * s for s in strides])
                      for memory, strides in ((x, (1, 64)), (result, (70, 1))))  # fmt: skip
    target[...] = source
    return {"out": result}


def _rows_problem(transposed: bool = False):
    def problem(rng: np.random.Generator) -> Problem:
        x, out = rng.standard_normal((20, 27)).astype(np.float32), np.full((8, 16), -9, np.float32)
        rows = rng.permutation(20)[:8].astype(np.int32)
        if transposed:
            return Problem((1, 1, 1), [rng.standard_normal((8, 16)).astype(np.float32), rows, np.full_like(x, -9)])
        return Problem((1, 1, 1), [x, rows, out, 13])

    return problem


def _gathers_problem(rng: np.random.Generator) -> Problem:
    x = rng.integers(0, 1000, (30, 19), dtype=np.int32)
    rows, columns = rng.integers(-5, 36, 16, dtype=np.int32), rng.integers(-3, 23, 8, dtype=np.int32)
    wanted = rng.integers(0, 2, (16, 8)).astype(np.bool_)
    return Problem((1, 1, 1), [x, rows, columns, wanted, np.full((3, 16, 8), -9, np.int32)])


def _scatters_problem(rng: np.random.Generator) -> Problem:
    places = rng.permutation(np.arange(-8, 60))[:32].astype(np.int32)
    wanted = rng.integers(0, 2, 32).astype(np.bool_)
    x = rng.standard_normal(32).astype(np.float32)
    return Problem((1, 1, 1), [x, places, wanted, np.full(50, -9, np.float32), np.full(50, -9, np.float32)])


def _unchecked_problem(rng: np.random.Generator) -> Problem:
    places = rng.permutation(64)[:32].astype(np.int64)
    return Problem((1, 1, 1), [rng.standard_normal(64).astype(np.float32), places, np.full(64, -9, np.float32)])


def _kernels() -> list[Kernel]:
    tags = frozenset({"memory"})
    f1, f2, f3 = (array(ct.float32, rank) for rank in (1, 2, 3))
    i1, i2, i3 = (array(ct.int32, rank) for rank in (1, 2, 3))
    flag, flags = array(ct.bool_), array(ct.bool_, 2)
    any_strides: dict[str, Any] = {"stride_constant": None, "stride_divisible_by": 1, "base_addr_divisible_by": 4}
    f32, i32 = np.float32, np.int32
    views: dict[str, Any] = {"min_version": "13.3", "refusal": "requires tileiras 13.3", "tags": tags | {"view"}}
    aliasing: dict[str, Any] = {"alias_groups": ("both",)}
    return [
        Kernel("padding_f32", paddings, (f2, f3, 8, 8), _padding_problem(f32), paddings_reference, tags=tags),
        Kernel("padding_f16", paddings, (array(ct.float16, 2), array(ct.float16, 3), 8, 8),
               _padding_problem(np.float16), paddings_reference, tags=tags),
        Kernel("padding_i8", integer_padding, (array(ct.int8), array(ct.int8), 16),
               _random((np.int8, 37), outputs=[(np.int8, 48)], grid=(3, 1, 1)), integer_padding_reference, tags=tags),
        Kernel("transposed_access", transposed_access, (f2, f2, 16, 8),
               _random((f32, (40, 21)), outputs=[(f32, (40, 21))], grid=(3, 3, 1)),
               lambda x, out: {"out": x + f32(1)}, tags=tags),
        Kernel("copy_strided", copy_2d, (array(ct.int32, 2, **any_strides), array(ct.int32, 2, **any_strides), 16, 16),
               _strided_problem, strided_copy_reference, tags=tags),
        Kernel("copy_wide_index", copy_2d,
               (array(ct.float32, 2, index_dtype=ct.int64), array(ct.float32, 2, index_dtype=ct.int64), 16, 16),
               _random((f32, (40, 30)), outputs=[(f32, (40, 30))], grid=(3, 2, 1)), lambda x, out: {"out": x},
               tags=tags),
        Kernel("copy_5d", copy_5d, (array(ct.uint8, 5), array(ct.uint8, 5)),
               _random((np.uint8, (2, 3, 3, 4, 7)), (np.uint8, (2, 3, 3, 4, 7)), grid=(3, 2, 1)),
               lambda x, out: {"out": x}, tags=tags),
        Kernel("rank_zero", copy_scalars, (array(ct.float32, 0), array(ct.float32, 0)),
               _random((f32, ()), outputs=[(f32, ())]), lambda x, out: {"out": x * f32(2)}, tags=tags),
        Kernel("slices", slices, (i2, i2, scalar(ct.int32), scalar(ct.int32)),
               _random((i32, (30, 11)), outputs=[(i32, (20, 19))], last=(5, 18)), slices_reference, tags=tags),
        Kernel("tiled_views", tiled_views, (f2, f2, i1),
               _random((f32, (13, 21)), outputs=[(f32, (16, 24)), (i32, 2)]), tiled_views_reference, tags=tags),
        Kernel("strided_views", strided_views, (f1, f2, f2, 3),
               _random((f32, 50), outputs=[(f32, (17, 8)), (f32, (4, 4))]), _strided_reference(3), **views),
        Kernel("strided_views_pow2", strided_views, (f1, f2, f2, 4),
               _random((f32, 50), outputs=[(f32, (13, 8)), (f32, (4, 4))]), _strided_reference(4), **views),
        Kernel("strided_view_store", strided_store, (f2, f2), _random((f32, (8, 8)), outputs=[(f32, (16, 8))]),
               strided_store_reference, **views),
        Kernel("gather_rows", gather_rows, (f2, i1, f2, scalar(ct.int32)), _rows_problem(), gather_rows_reference,
               **views),
        Kernel("scatter_rows", scatter_rows, (f2, i1, f2), _rows_problem(True), scatter_rows_reference, **views),
        Kernel("gathers", gathers, (i2, i1, i1, flags, i3), _gathers_problem, gathers_reference,
               tags=tags | {"pointer"}),
        Kernel("scatters", scatters, (f1, i1, flag, f1, f1), _scatters_problem, scatters_reference,
               tags=tags | {"pointer"}),
        Kernel("unchecked_gather", unchecked, (f1, array(ct.int64), f1), _unchecked_problem, unchecked_reference,
               tags=tags | {"pointer"}),
        Kernel("unchecked_views", unchecked_views, (f1, f1),
               _random((f32, 96), outputs=[(f32, 96)], grid=(3, 1, 1)), lambda x, out: {"out": x}, min_version="13.4",
               refusal="'check_bounds=False' requires tileiras 13.4", tags=tags | {"view"}),
        Kernel("raw_memory", raw_memory, (i1, i1, 64), _random((i32, 100), outputs=[(i32, 256)], grid=(2, 1, 1)),
               raw_memory_reference, tags=tags | {"pointer"}),
        Kernel("foreign_array", foreign, (f1, f2), _random((f32, 128), outputs=[(f32, (8, 16))]),
               lambda x, out: {"out": x.reshape(8, 16)}, tags=tags),
        Kernel("static_shape", static_shape,
               (array(ct.float32, 2, shape_constant=(12, 20), stride_constant=(20, 1)), f2),
               _random((f32, (12, 20)), outputs=[(f32, (12, 16))]), lambda x, out: {"out": x[:, :16].copy()},
               calling_convention=2, tags=tags),
        Kernel("tuple_argument", tuple_argument, (i1, i1, (scalar(ct.int32), scalar(ct.int32))),
               _random((i32, 32), outputs=[(i32, 32)], last=((3, -4),)),
               lambda x, out, pair: {"out": x * i32(pair[0]) + i32(pair[1])}, calling_convention=2, tags=tags),
        Kernel("ordered_views", ordered, (i1, i1, i1), _random((i32, 32), (i32, 1), outputs=[(i32, 64)]),
               ordered_reference, tags=tags | {"order"}),
        Kernel("read_after_write", read_after_write, (i1, i1), _random((i32, 32), outputs=[(i32, 32)]),
               read_after_write_reference, tags=tags | {"order"}),
        Kernel("aliased", aliased, (array(ct.int32, **aliasing), array(ct.int32, **aliasing)),
               _random((i32, 16), outputs=[(i32, 32)]), lambda x, y: {"y": np.concatenate([x + 1, x + 1])},
               tags=tags | {"order"}),
        Kernel("array_list", array_list,
               (ListConstraint(array(ct.float32), alias_groups=(), elements_may_alias=False), f2), None, None,
               compile_only="its argument is a table of addresses", tags=tags | {"pointer"}),
    ]  # fmt: skip


KERNELS = _kernels()
