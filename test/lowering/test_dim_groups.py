# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles that run over groups of dimensions (`dimGroups` of several dims): the interpreter and compiled code agree with
numpy, which reshapes."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import libtile
from libtile.support.diagnostics import LoweringError

SPEC = "attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>}"
OUT = "!nv_tileaa.memref<?x?xf32, 1>"
BACKENDS = {"interpreter": {}, "simulator": {"gpu_name": "sm_90"}}


def memref(rank: int) -> str:
    return f"!nv_tileaa.memref<{'x'.join(['?'] * rank + ['f32'])}, 1>"


def groups_text(groups: list[list[int]]) -> str:
    return ", ".join(f"array<i64: {', '.join(map(str, group))}>" for group in groups)


def view_of(memory: str, groups: list[list[int]], tile: tuple[int, ...], more: str = "padding=zero") -> str:
    shown = ",".join(f"[{','.join(map(str, group))}]" for group in groups)
    return (
        f"!nv_tileaa.tiled_view<{memory}, {'x'.join(map(str, tile))}, #nv_tileaa.tiling<dim_groups=[{shown}], {more}>>"
    )


def kernel(rank: int, groups: list[list[int]], tile: tuple[int, ...], body: str) -> str:
    """A kernel of memory of a rank, seen by `%v` in tiles over groups, and of a matrix, seen by `%w` in such tiles."""
    memory, shape = memref(rank), "x".join(map(str, tile))
    view, out = view_of(memory, groups, tile), f"!nv_tileaa.tiled_view<{OUT}, {shape}>"
    sizes = f"tileSizes = array<i64: {', '.join(map(str, tile))}>"
    for name, text in {"VIEW": view, "OUT": out, "TILE": f"tile<{shape}xf32>"}.items():
        body = body.replace(name, text)
    return f"""nv_tileaa.func @k(%m: {memory}, %o: {OUT}) {SPEC} {{
      %v = nv_tileaa.block_tile %m {{{sizes}, dimGroups = [{groups_text(groups)}]}} : {memory} -> {view}
      %w = nv_tileaa.block_tile %o {{{sizes}, dimGroups = [{groups_text([[0], [1]])}]}} : {OUT} -> {out}
      %0 = arith.constant 0 : index
      %1 = arith.constant 1 : index
      {body}
      nv_tileaa.return
    }}"""


def run(text: str, backend: str, source: np.ndarray, result: np.ndarray) -> None:
    args = [x for a in (source, result) for x in (a, *a.shape, *(s // a.itemsize for s in a.strides))]
    libtile.run(libtile.parse(text, filename="k.mlir"), args=args, backend=backend, **BACKENDS[backend])


def merged(source: np.ndarray, groups: list[list[int]], tile: tuple[int, ...]) -> np.ndarray:
    """Memory as the matrix that tiles over groups cut, with zeros behind its ends."""
    order = [dim for group in groups for dim in group]
    flat = source.transpose(order).reshape([prod(source.shape[d] for d in group) for group in groups])
    return np.pad(flat, [(0, -size % extent) for size, extent in zip(flat.shape, tile)])


CASES = [((4, 4, 8), [[0, 1], [2]]), ((3, 5, 7), [[1, 0], [2]]), ((3, 2, 4), [[0], [1, 2]])]
COPY = """
  %x = nv_tileaa.tiled_load %v[%1, %0] : VIEW, index, index -> TILE
  nv_tileaa.tiled_store %w[%0, %0], %x : OUT, TILE, index, index
"""
BACK = """
  %x = nv_tileaa.tiled_load %w[%0, %0] : OUT, index, index -> TILE
  nv_tileaa.tiled_store %v[%0, %0], %x : VIEW, TILE, index, index
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("shape", "groups"), CASES)
def test_a_tile_over_groups_is_read(shape: tuple[int, ...], groups: list[list[int]], backend: str) -> None:
    source, tile = np.arange(1, prod(shape) + 1, dtype=np.float32).reshape(shape), (2, 8)
    result = np.zeros(tile, np.float32)
    run(kernel(len(shape), groups, tile, COPY), backend, source, result)
    assert np.array_equal(result, merged(source, groups, tile)[2:4, :8])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("shape", "groups"), CASES)
def test_a_tile_over_groups_is_written(shape: tuple[int, ...], groups: list[list[int]], backend: str) -> None:
    target, tile = np.zeros(shape, np.float32), (4, 8)
    given = np.arange(1, 33, dtype=np.float32).reshape(tile)
    run(kernel(len(shape), groups, tile, BACK), backend, target, given)
    seen = merged(target, groups, tile)
    inside = merged(np.ones(shape, np.float32), groups, tile)[:4, :8]
    assert np.array_equal(seen[:4, :8], given * inside)
    assert np.count_nonzero(target) == np.count_nonzero(inside)


COUNTED = """
  %x = nv_tileaa.tiled_load %w[%0, %0] : OUT, index, index -> TILE
  %b = nv_tileaa.tiled_atomic_rmw %v[%0, %0], %x {rmw_mode = #nv_tileaa.rmw_mode<addf>, mem_semantic =
    #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>} : VIEW, TILE, index, index -> TILE
  %n = nv_tileaa.get_dim_size %v {dim = 0} : VIEW -> index
  %last = arith.subi %n, %1 : index
  %c = nv_tileaa.tiled_atomic_rmw %v[%last, %0], %x {rmw_mode = #nv_tileaa.rmw_mode<addf>, mem_semantic =
    #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>} : VIEW, TILE, index, index -> TILE
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tile_over_groups_is_combined_and_tiles_are_counted(backend: str) -> None:
    target, given = np.ones((3, 3, 4), np.float32), np.full((4, 8), 2, np.float32)
    run(kernel(3, [[0, 1], [2]], (4, 8), COUNTED), backend, target, given)
    expected = np.ones((9, 4), np.float32)
    expected[:4] += 2
    expected[8:] += 2  # of the third tile, one row exists
    assert np.array_equal(target.reshape(9, 4), expected)


CONVOLUTION = f"""nv_tileaa.func @k(%m: MEM, %o: {OUT}) {SPEC} {{
  %v = nv_tileaa.conv_tile %m {{tileSizes = array<i64: 8, 4>, dimGroups = [array<i64: 0, 1, 2>, array<i64: 3>],
    filterSizes = array<i64: 3, 2>, channelAxis = 3, conv_params = #nv_tileaa.conv_params<pad_lower=[1,0],
    pad_upper=[1,1], stride=[2,1], dilation=[1,2]>}} : MEM -> VIEW
  %w = nv_tileaa.block_tile %o {{tileSizes = array<i64: 8, 4>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
    : {OUT} -> !nv_tileaa.tiled_view<{OUT}, 8x4>
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %p = arith.constant 5 : index
  %x = nv_tileaa.tiled_load %v[%p, %1, %0] : VIEW, index, index, index -> tile<8x4xf32>
  nv_tileaa.tiled_store %w[%0, %0], %x : !nv_tileaa.tiled_view<{OUT}, 8x4>, tile<8x4xf32>, index, index
  nv_tileaa.return
}}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_of_a_convolution_are_rows_of_a_matrix(backend: str) -> None:
    """As im2col has them: batch, rows and columns of the output are one dimension, the channel is the other."""
    memory = memref(4)
    text = CONVOLUTION.replace("VIEW", view_of(memory, [[0, 1, 2], [3]], (8, 4), "padding=zero, leading=1"))
    source = np.arange(1, 2 * 5 * 4 * 4 + 1, dtype=np.float32).reshape(2, 5, 4, 4)
    result = np.zeros((8, 4), np.float32)
    run(text.replace("MEM", memory), backend, source, result)
    padded = np.pad(source, [(0, 0), (1, 1), (0, 1), (0, 0)])
    # Place 5 of the filter is its last row, and its second column; outputs are 3 x 3.
    seen = padded[:, 2 : 2 + 5 : 2, 2:5].reshape(18, 4)
    assert np.array_equal(result, np.pad(seen, [(0, 6), (0, 0)])[8:16])


MASKED = f"""nv_tileaa.func @k(%m: {OUT}, %o: {OUT}) {SPEC} {{
  %v = nv_tileaa.block_tile %m {{tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 1>, array<i64: 0>]}}
    : {OUT} -> VIEW
  %w = nv_tileaa.block_tile %o {{tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}}
    : {OUT} -> !nv_tileaa.tiled_view<{OUT}, 4x8>
  %0 = arith.constant 0 : index
  %true = arith.constant true
  %all = nv_tileaa.splat %true : i1 -> tile<4x8xi1>
  %x = nv_tileaa.tiled_load %v[%0, %0], %all {{in_bounds = array<i1: true, false>}} : VIEW, index, index, tile<4x8xi1>
    -> tile<4x8xf32>
  nv_tileaa.tiled_store %w[%0, %0], %x : !nv_tileaa.tiled_view<{OUT}, 4x8>, tile<4x8xf32>, index, index
  nv_tileaa.return
}}"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_bounds_of_a_masked_tile_are_those_of_its_own_dimensions(backend: str) -> None:
    """`in_bounds` counts dimensions of the tile, which here are those of memory the other way round."""
    text = MASKED.replace("VIEW", f"!nv_tileaa.tiled_view<{OUT}, 4x8, #nv_tileaa.tiling<dim_map=[1,0], padding=zero>>")
    source = np.arange(1, 21, dtype=np.float32).reshape(5, 4)
    result = np.full((4, 8), -1, np.float32)
    run(text, backend, source, result)
    assert np.array_equal(result, np.pad(source.T, [(0, 0), (0, 3)]))


def test_what_has_no_pointers_is_refused_over_groups_by_name() -> None:
    text = kernel(3, [[0, 1], [2]], (4, 8), COPY.replace("nv_tileaa.tiled_load %v[%1, %0] :", "LOAD"))
    multimem = "nv_tileaa.multimem_load_reduce %v[%1, %0] {reduction = #nv_tileaa.reduction<add>} :"
    with pytest.raises(LoweringError, match=r"k.mlir:2:\d+: 'nv_tileaa.block_tile' op has dimGroups of several dims"):
        libtile.compile(libtile.parse(text.replace("LOAD", multimem), filename="k.mlir"), gpu_name="sm_90")
