# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of the kinds that public reports say the reference assembler crashes on, hangs on or miscompiles.

Each kernel is written anew from a report's description and exercises the same constructs together; `REPORTS` says
which report. They are no part of the corpus: `lowering/test_crash_reports.py` compiles and runs them. Values are small
whole numbers, so that sums and products are exact in whatever order they are taken.
"""

from __future__ import annotations

import cuda.tile as ct
import ml_dtypes
import numpy as np
from cuda.tile import PaddingMode

from examples.signatures import array, scalar
from kernels.model import Kernel, Problem, Tolerance, as_mapping

f16, f32, i32 = np.float16, np.float32, np.int32


def _whole(rng: np.random.Generator, shape: tuple[int, ...], dtype: type = f32, low: int = -2, high: int = 3):
    return rng.integers(low, high, shape).astype(dtype)


# -- rows chosen at run time feed a product, whose result goes to those rows -------------------------------------------


@ct.kernel
def routed_product(tokens, weights, order, out, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    rows = ct.gather(order, ct.arange(tm, dtype=ct.int32))[:, None]
    column = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    step = 0
    while step * tk < tokens.shape[1]:
        depth = step * tk + ct.arange(tk, dtype=ct.int32)
        left = ct.gather(tokens, (rows, depth[None, :]))
        right = ct.load(weights, (step, column), (tk, tn), padding_mode=PaddingMode.ZERO)
        acc = ct.mma(left, right, acc)
        step += 1
    columns = column * tn + ct.arange(tn, dtype=ct.int32)
    ct.scatter(out, (rows, columns[None, :]), acc.astype(ct.float16))


def routed_product_problem(rng):
    m, k, n = 128, 72, 96  # neither the depth nor the width is a multiple of its tile
    values = [_whole(rng, (m, k), f16), _whole(rng, (k, n), f16), rng.permutation(m).astype(i32)]
    return Problem((2, 1, 1), [*values, np.zeros((m, n), f16)])


def routed_product_reference(tokens, weights, order, out):
    return {"out": (tokens.astype(f32) @ weights.astype(f32)).astype(f16)}


# -- a scatter whose row offsets come from memory ----------------------------------------------------------------------


@ct.kernel
def scatter_to_listed_rows(out, rows, count: int, pitch: int, height: ct.Constant[int], width: ct.Constant[int]):
    memory = out.get_raw_memory()
    place = ct.arange(height, dtype=ct.int32)
    listed = rows.get_raw_memory().load_offset(place, mask=place < count, padding_value=0)
    across = ct.bid(0) * width + ct.arange(width, dtype=ct.int32)
    offset = listed[:, None] * pitch + across[None, :]
    inside = (place < count)[:, None] & (across < pitch)[None, :]
    memory.store_offset(offset, (place[:, None] + across[None, :]).astype(ct.float16), mask=inside)


def scatter_to_listed_rows_problem(rng):
    count, pitch, height = 100, 56, 160
    rows = rng.permutation(height)[:128].astype(i32)
    return Problem((2, 1, 1), [np.zeros((height, pitch), f16), rows, count, pitch])


def scatter_to_listed_rows_reference(out, rows, count, pitch):
    result = out.copy()
    result[rows[:count]] = (np.arange(count)[:, None] + np.arange(pitch)).astype(f16)
    return {"out": result}


# -- indexed rows are read, folded, and written back to the same array -------------------------------------------------


@ct.kernel
def fold_rows_in_place(data, width: ct.Constant[int]):
    row = ct.arange(1, dtype=ct.int32) + ct.bid(0)
    tile = ct.load_advanced_indexing(data, (row, ct.Slice(0, width)))
    total = ct.sum(tile, axis=1)
    ct.store_advanced_indexing(data, (row, ct.Slice(0, width)), tile - ct.broadcast_to(total[:, None], (1, width)))


@ct.kernel
def scale_rows_in_place(data, factor, width: ct.Constant[int]):
    row = ct.arange(1, dtype=ct.int32) + ct.bid(0)
    tile = ct.load_advanced_indexing(data, (row, ct.Slice(0, width)))
    product = ct.matmul(ct.load(factor, (ct.bid(0), 0), (1, 1)), tile)
    ct.store_advanced_indexing(data, (row, ct.Slice(0, width)), tile + product)


# -- raw memory and tiles of one tensor, around nested reductions ------------------------------------------------------


@ct.kernel
def panel_updates(matrix, vectors, pitch: int, panels: int, height: ct.Constant[int], width: ct.Constant[int]):
    memory = matrix.get_raw_memory()
    down = ct.arange(height, dtype=ct.int32)
    for panel in range(panels):
        for j in range(2):
            column = panel * 2 + j
            ct.store(vectors, (column, 0), memory.load_offset(down * pitch + column)[None, :])
        for part in range(2):
            tile = ct.load(matrix, (0, part), (height, width))
            for j in range(2):
                vector = ct.load(vectors, (panel * 2 + j, 0), (1, height)).reshape((height, 1))
                dot = ct.sum(tile * vector, axis=0, keepdims=True)
                tile = tile - vector * dot
            ct.store(matrix, (0, part), tile)


def panel_updates_problem(rng):
    height, columns, panels = 512, 64, 2
    matrix = np.zeros((height, columns), f32)
    # Few rows of few columns are not zero: then every number stays small and whole.
    matrix[:4] = _whole(rng, (4, columns), low=-1, high=2)
    matrix[:, :4] = 0
    matrix[np.arange(4), np.arange(4)] = 1
    return Problem((1, 1, 1), [matrix, np.zeros((2 * panels, height), f32), columns, panels])


def panel_updates_reference(matrix, vectors, pitch, panels):
    result, kept = matrix.copy(), vectors.copy()
    for panel in range(panels):
        kept[2 * panel : 2 * panel + 2] = result[:, 2 * panel : 2 * panel + 2].T
        for j in range(2):
            vector = kept[2 * panel + j][:, None]
            result = result - vector * (result * vector).sum(axis=0, keepdims=True)
    return {"matrix": result, "vectors": kept}


# -- an occupancy hint on a fused kernel of narrow tiles ---------------------------------------------------------------


@ct.kernel(occupancy=2)
def fused_panel(a, b, out, steps: int, size: ct.Constant[int]):
    place = ct.arange(size, dtype=ct.int32)
    tile = ct.load(a, (ct.bid(0), 0), (size, size))
    for step in range(steps):
        chosen = ct.where(place[None, :] == step, tile, 0.0)
        column = ct.sum(chosen, axis=1, keepdims=True)
        pivot = ct.sum(ct.where(place[:, None] == step, column, 0.0), axis=0, keepdims=True)
        below = ct.where(place[:, None] > step, column, 0.0)
        tile = ct.where(place[None, :] > step, tile - below * pivot, tile)
    right = ct.load(b, (ct.bid(0), 0), (size, size)).astype(ct.tfloat32)
    product = ct.mma(tile.astype(ct.tfloat32), right, ct.zeros((size, size), ct.float32))
    ct.store(out, (ct.bid(0), 0), product + ct.max(tile, axis=1, keepdims=True))


def fused_panel_problem(rng):
    a, b = _whole(rng, (64, 32), low=-1, high=2), _whole(rng, (64, 32))
    return Problem((2, 1, 1), [a, b, np.zeros((64, 32), f32), 3])


def fused_panel_reference(a, b, out, steps):
    result = np.empty_like(out)
    for block in range(2):
        tile, right = a[32 * block :][:32].copy(), b[32 * block :][:32]
        for step in range(steps):
            column = tile[:, step].copy()
            below = np.where(np.arange(32) > step, column, 0)
            tile[:, step + 1 :] -= below[:, None] * column[step]
        result[32 * block :][:32] = tile @ right + tile.max(axis=1, keepdims=True)
    return {"out": result}


# -- two product loops of run-time length around a panel, a store, and a branch ----------------------------------------


@ct.kernel
def superpanel(a, out, done: int, rows: ct.Constant[int], block: ct.Constant[int]):
    band = ct.bid(0)
    panel = ct.load(a, (band, 2 * done), (rows, block), padding_mode=PaddingMode.ZERO)
    for k in range(2 * done):
        left = ct.load(out, (band, k), (rows, block), padding_mode=PaddingMode.ZERO).astype(ct.tfloat32)
        right = ct.load(out, (2 * done, k), (block, block), padding_mode=PaddingMode.ZERO)
        panel = ct.mma(left, (-right.transpose()).astype(ct.tfloat32), panel)
    across = ct.arange(block, dtype=ct.int32)[None, :]
    for j in range(block):
        column = ct.sum(ct.where(across == j, panel, 0.0), axis=1, keepdims=True)
        panel = ct.where(across > j, panel - column, panel)
    ct.store(out, (band, 2 * done), panel)
    if band > 0:
        following = ct.load(a, (band, 2 * done + 1), (rows, block), padding_mode=PaddingMode.ZERO)
        for k in range(2 * done + 1):
            left = ct.load(out, (band, k), (rows, block), padding_mode=PaddingMode.ZERO).astype(ct.tfloat32)
            right = ct.load(out, (2 * done + 1, k), (block, block), padding_mode=PaddingMode.ZERO)
            following = ct.mma(left, (-right.transpose()).astype(ct.tfloat32), following)
        ct.store(out, (band, 2 * done + 1), following)


ROWS, BLOCK, DONE = 128, 32, 1


def superpanel_problem(rng):
    a, out = (np.zeros((2 * ROWS, 4 * BLOCK), f32) for _ in range(2))
    a[:, 2 * BLOCK : 2 * BLOCK + 3] = _whole(rng, (2 * ROWS, 3))
    a[:, 3 * BLOCK :] = _whole(rng, (2 * ROWS, BLOCK))
    out[:, : 2 * BLOCK] = _whole(rng, (2 * ROWS, 2 * BLOCK), low=-1, high=2)
    out[2 * BLOCK :][: 2 * BLOCK, 3:BLOCK] = 0
    return Problem((1, 1, 1), [a, out, DONE])


def superpanel_reference(a, out, done):
    """The first band only: the branch that reads what other blocks write is not taken in a grid of one."""
    result = out.copy()
    at = 2 * done * BLOCK
    panel = a[:ROWS, at : at + BLOCK].copy()
    for k in range(2 * done):
        part = slice(k * BLOCK, (k + 1) * BLOCK)
        panel -= out[:ROWS, part] @ out[at : at + BLOCK, part].T
    for j in range(BLOCK):
        panel[:, j + 1 :] -= panel[:, j : j + 1].copy()
    result[:ROWS, at : at + BLOCK] = panel
    return {"out": result}


# -- block-scaled products accumulated over a loop ---------------------------------------------------------------------


@ct.kernel
def scaled_loop(a, a_scale, b, b_scale, out, steps: int, m: ct.Constant[int], n: ct.Constant[int],
                k: ct.Constant[int], block: ct.Constant[int]):  # fmt: skip
    acc = ct.zeros((m, n), ct.float32)
    for step in range(steps):
        x, y = ct.load(a, (0, step), (m, k)), ct.load(b, (step, 0), (k, n))
        x_scale = ct.load(a_scale, (0, step), (m, k // block))
        y_scale = ct.load(b_scale, (step, 0), (k // block, n))
        acc = ct.mma_scaled(x, x_scale, y, y_scale, acc)
    ct.store(out, (0, 0), acc)


def scaled_loop_problem(n, steps, k=256, block=32, m=32):
    def problem(rng):
        values = []
        for shape, axis in (((m, k * steps), 1), ((k * steps, n), 0)):
            scales = tuple(size // block if i == axis else size for i, size in enumerate(shape))
            values.append(_whole(rng, shape, ml_dtypes.float8_e4m3fn))
            values.append((2.0 ** rng.integers(-1, 2, scales)).astype(ml_dtypes.float8_e8m0fnu))
        return Problem((1, 1, 1), [*values, np.zeros((m, n), f32), steps])

    return problem


def scaled_loop_reference(a, a_scale, b, b_scale, out, steps):
    left = a.astype(f32) * np.repeat(a_scale.astype(f32), 32, axis=1)
    right = b.astype(f32) * np.repeat(b_scale.astype(f32), 32, axis=0)
    return {"out": left @ right}


# -- a tile from element-wise arithmetic goes to a view that it overhangs, beside the result of a product -------------


@ct.kernel
def overhanging_stores(x, w, product, elementwise):
    tile = ct.load(x, (ct.bid(0), 0), (32, 64), padding_mode=PaddingMode.ZERO)
    result = ct.mma(tile, ct.load(w, (0, 0), (64, 64), padding_mode=PaddingMode.ZERO), ct.zeros((32, 64), ct.float32))
    ct.store(product, (ct.bid(0), 0), result)
    ct.store(elementwise, (ct.bid(0), 0), ct.exp(tile.astype(ct.float32)) * 2.0)


def overhanging_stores_problem(rng):
    rows, k, n = 45, 50, 51
    values = [_whole(rng, (rows, k), ml_dtypes.bfloat16), _whole(rng, (k, n), ml_dtypes.bfloat16)]
    return Problem((2, 1, 1), [*values, np.zeros((rows, n), f32), np.zeros((rows, k), f32)])


def overhanging_stores_reference(x, w, product, elementwise):
    return {"product": x.astype(f32) @ w.astype(f32), "elementwise": np.exp(x.astype(f32)) * f32(2)}


# -- persistent blocks under a high occupancy hint, loads that must not use the copy engine ---------------------------


@ct.kernel(occupancy=16)
def persistent_norm(x, weight, out, rstd, rows: int, tm: ct.Constant[int], tn: ct.Constant[int]):
    scale = ct.load(weight, (0,), (tn,), padding_mode=PaddingMode.ZERO)
    band = ct.bid(0)
    while band < ct.cdiv(rows, tm):
        tile = ct.load(x, (band, 0), (tm, tn), padding_mode=PaddingMode.ZERO, allow_tma=False).astype(ct.float32)
        inverse = ct.rsqrt(ct.sum(tile * tile, axis=1) / x.shape[1] + 1e-5)
        ct.store(rstd, (band,), inverse)
        ct.store(out, (band, 0), (tile * inverse[:, None] * scale[None, :]).astype(out.dtype), allow_tma=False)
        band += ct.num_blocks(0)


def persistent_norm_problem(rng):
    rows, columns = 13, 200
    values = [_whole(rng, (rows, columns), ml_dtypes.bfloat16), _whole(rng, (columns,))]
    return Problem((3, 1, 1), [*values, np.zeros((rows, columns), ml_dtypes.bfloat16), np.zeros(rows, f32), rows])


def persistent_norm_reference(x, weight, out, rstd, rows):
    wide = x.astype(f32)
    inverse = 1 / np.sqrt((wide * wide).mean(axis=1, dtype=f32) + f32(1e-5))
    return {"out": (wide * inverse[:, None] * weight).astype(out.dtype), "rstd": inverse.astype(f32)}


def _kernels() -> list[Kernel]:
    half, single, ints, vector = array(ct.float16, 2), array(ct.float32, 2), array(ct.int32), array(ct.float32)
    brain, size = array(ct.bfloat16, 2), scalar(ct.int32)
    one_row = {"min_version": "13.3"}
    f8, e8 = array(ct.float8_e4m3fn, 2, multiple_of=16), array(ct.float8_e8m0fnu, 2, multiple_of=8)
    scaled = [
        Kernel(f"scaled_loop_{n}_{steps}", scaled_loop, (f8, e8, f8, e8, single, size, 32, n, 256, 32),
               scaled_loop_problem(n, steps), scaled_loop_reference, min_version="13.3", gpu_code="sm_100")
        for n, steps in ((16, 2), (32, 2), (64, 3))
    ]  # fmt: skip
    return [
        Kernel("routed_product", routed_product, (half, half, ints, half, 128, 64, 32), routed_product_problem,
               routed_product_reference),
        Kernel("scatter_to_listed_rows", scatter_to_listed_rows, (half, ints, size, size, 128, 32),
               scatter_to_listed_rows_problem, scatter_to_listed_rows_reference),
        Kernel("fold_rows_in_place", fold_rows_in_place, (single, 32),
               lambda rng: Problem((3, 1, 1), [_whole(rng, (3, 32), low=1, high=4)]),
               lambda data: {"data": data - data.sum(axis=1, keepdims=True)}, **one_row),
        Kernel("scale_rows_in_place", scale_rows_in_place, (single, single, 32),
               lambda rng: Problem((3, 1, 1), [_whole(rng, (3, 32), low=1, high=4), _whole(rng, (3, 1), low=1)]),
               lambda data, factor: {"data": data + factor * data}, **one_row),
        Kernel("panel_updates", panel_updates, (single, single, size, size, 512, 32), panel_updates_problem,
               panel_updates_reference),
        Kernel("fused_panel", fused_panel, (single, single, single, size, 32), fused_panel_problem,
               fused_panel_reference),
        Kernel("superpanel", superpanel, (single, single, size, ROWS, BLOCK), superpanel_problem,
               superpanel_reference),
        *scaled,
        Kernel("overhanging_stores", overhanging_stores, (brain, brain, single, single), overhanging_stores_problem,
               overhanging_stores_reference, tolerance=Tolerance(relative=1e-5)),
        Kernel("persistent_norm", persistent_norm, (brain, vector, brain, vector, size, 2, 256),
               persistent_norm_problem, persistent_norm_reference, tolerance=Tolerance(relative=1e-2)),
    ]  # fmt: skip


KERNELS = as_mapping(_kernels())

REPORTS = {
    "routed_product": "NVIDIA/cuda-tile#17",
    "scatter_to_listed_rows": "NVIDIA/cuda-tile#19",
    "fold_rows_in_place": "NVIDIA/cutile-python#94",
    "scale_rows_in_place": "NVIDIA/cutile-python#94",
    "panel_updates": "NVIDIA/cutile-python#95",
    "fused_panel": "NVIDIA/cutile-python#96",
    "superpanel": "NVIDIA/cutile-python#97",
    "scaled_loop_16_2": "NVIDIA/cuda-tile#24",
    "scaled_loop_32_2": "NVIDIA/cuda-tile#24",
    "scaled_loop_64_3": "NVIDIA/cuda-tile#24",
    "overhanging_stores": "NVIDIA/cuda-samples#439",
    "persistent_norm": "NVIDIA/TileGym#169",
}
"""The report that each kernel follows."""
