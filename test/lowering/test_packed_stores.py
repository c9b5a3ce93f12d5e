# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stores of 4-bit elements, two of which share a byte, touch no byte beyond the array."""

from __future__ import annotations

import numpy as np
import pytest

import libtile


def module(shape: tuple[int, int], sizes: tuple[int, int], strides: tuple[int, int], dims: str) -> libtile.Module:
    """A kernel each of whose tile blocks stores one tile into a tensor."""
    packed, wide = (f"tile<{shape[0]}x{shape[1]}x{element}>" for element in ("f4E2M1FN", "f32"))
    tensor = f"tensor_view<{sizes[0]}x{sizes[1]}xf4E2M1FN, strides=[{strides[0]},{strides[1]}]>"
    view = f"partition_view<tile=({shape[0]}x{shape[1]}), {tensor}{dims}>"
    return libtile.parse(f"""cuda_tile.module @m {{
      entry @k(%p: tile<ptr<f4E2M1FN>>) {{
        %number = constant <f32: 1.5> : {wide}
        %value = ftof %number : {wide} -> {packed}
        %x, %y, %z = get_tile_block_id : tile<i32>
        %t = make_tensor_view %p, shape = [{sizes[0]}, {sizes[1]}], strides = [{strides[0]}, {strides[1]}] : {tensor}
        %v = make_partition_view %t : {view}
        %done = store_view_tko weak %value, %v[%x, %y] : {packed}, {view}, tile<i32> -> token
        return
      }}
    }}""")


@pytest.mark.parametrize(
    ("shape", "sizes", "strides", "dims"),
    [
        ((4, 8), (7, 30), (30, 1), ""),
        ((8, 4), (29, 7), (1, 30), ""),
        ((8, 4), (7, 30), (30, 1), ", dim_map=[1, 0]"),
    ],
)
def test_stores_of_rows_of_whole_bytes_stay_within_an_array_of_any_size(shape, sizes, strides, dims):
    text = module(shape, sizes, strides, dims)
    size = (sum((n - 1) * s for n, s in zip(sizes, strides)) + 2) // 2
    assert size % 4
    extents = sizes[::-1] if dims else sizes
    grid = (*(-(-extent // tile) for extent, tile in zip(extents, shape)), 1)
    results = []
    for backend, options in (("interpreter", {}), ("simulator", {"gpu_name": "sm_80", "check": "full"})):
        array = np.full(size, 0xA5, np.uint8)
        libtile.run(text, "k", args=[array], grid=grid, backend=backend, **options)
        results.append(array)
    assert np.array_equal(*results)
