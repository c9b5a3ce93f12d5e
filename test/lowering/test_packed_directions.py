# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of 4 bits out of bytes that hold two: neighbours along k make one instruction of them, others do not."""

from __future__ import annotations

import numpy as np
import pytest

import libtile

M, N, K, BLOCKS = 16, 16, 64, 2

VIEW = "tensor_view<{shape}x{type}, strides=[{stride},1]>"


def load(name: str, pointer: str, shape: tuple[int, int], type_: str) -> str:
    """A whole row-major tile."""
    text = f"{shape[0]}x{shape[1]}"
    view = VIEW.format(shape=text, type=type_, stride=shape[1])
    return f"""
    %{name}v = make_tensor_view %{pointer}, shape = [{shape[0]}, {shape[1]}], strides = [{shape[1]}, 1] : {view}
    %{name}p = make_partition_view %{name}v : partition_view<tile=({text}), {view}>
    %{name}, %{name}t = load_view_tko weak %{name}p[%zero, %zero] : partition_view<tile=({text}), {view}>, tile<i32> -> tile<{text}x{type_}>, token"""  # noqa: E501


def kernel(right_along_k: bool) -> str:
    """a @ b with factors; b's bytes hold neighbours along k, where they lie as n x k, or along n."""
    count, f4 = M * K, "f4E2M1FN"
    stored = (N, K // 2) if right_along_k else (K, N // 2)
    turned = (
        f"""
    %bt = reshape %bw : tile<{count}x{f4}> -> tile<{N}x{K}x{f4}>
    %b4 = permute %bt [1, 0] : tile<{N}x{K}x{f4}> -> tile<{K}x{N}x{f4}>"""
        if right_along_k
        else f"\n    %b4 = reshape %bw : tile<{count}x{f4}> -> tile<{K}x{N}x{f4}>"
    )
    out = VIEW.format(shape=f"{M}x{N}", type="f32", stride=N)
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<i8>>, %b: tile<ptr<i8>>, %x: tile<ptr<f8E8M0FNU>>, %y: tile<ptr<f8E8M0FNU>>, %z: tile<ptr<f32>>) {{
    %zero = constant <i32: 0> : tile<i32>
    %none = constant <f32: 0.0> : tile<{M}x{N}xf32>
{load("ab", "a", (M, K // 2), "i8")}{load("bb", "b", stored, "i8")}
{load("xs", "x", (M, BLOCKS), "f8E8M0FNU")}{load("ys", "y", (BLOCKS, N), "f8E8M0FNU")}
    %ar = reshape %ab : tile<{M}x{K // 2}xi8> -> tile<{count // 2}xi8>
    %aw = unpack %ar : tile<{count // 2}xi8> -> tile<{count}x{f4}>
    %a4 = reshape %aw : tile<{count}x{f4}> -> tile<{M}x{K}x{f4}>
    %br = reshape %bb : tile<{stored[0]}x{stored[1]}xi8> -> tile<{count // 2}xi8>
    %bw = unpack %br : tile<{count // 2}xi8> -> tile<{count}x{f4}>{turned}
    %c = mmaf_scaled %a4, %b4, %none, %xs, %ys : tile<{M}x{K}x{f4}>, tile<{K}x{N}x{f4}>, tile<{M}x{N}xf32>, tile<{M}x{BLOCKS}xf8E8M0FNU>, tile<{BLOCKS}x{N}xf8E8M0FNU>
    %zv = make_tensor_view %z, shape = [{M}, {N}], strides = [{N}, 1] : {out}
    %zp = make_partition_view %zv : partition_view<tile=({M}x{N}), {out}>
    %u = store_view_tko weak %c, %zp[%zero, %zero] : tile<{M}x{N}xf32>, partition_view<tile=({M}x{N}), {out}>, tile<i32> -> token
    return
  }}
}}
"""  # noqa: E501


@pytest.mark.parametrize("right_along_k", [True, False])
def test_bytes_are_multiplied_where_they_hold_neighbours_along_k(right_along_k: bool) -> None:
    module = libtile.parse(kernel(right_along_k))
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 256, M * K // 2, np.uint8).view(np.int8) for _ in range(2))
    x, y = (rng.integers(125, 130, M * BLOCKS, np.uint8) for _ in range(2))
    results = []
    for backend in ("interpreter", "simulator"):
        z = np.zeros((M, N), np.float32)
        libtile.run(
            module, args=[a, b, x, y, z], backend=backend, gpu_name="sm_120" if backend != "interpreter" else None
        )
        results.append(z)
    np.testing.assert_array_equal(results[1], results[0])
    assert results[0].any()
    made = libtile.compile(module, gpu_name="sm_120", emit="tileas").tileas
    assert (", packed" in made) == right_along_k and ("mma_block_scale" in made) == right_along_k
