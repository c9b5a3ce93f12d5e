# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A failed assertion prints the same on each backend, and what was printed is not lost with the launch."""

from __future__ import annotations

import io

import numpy as np
import pytest

import libtile

KERNEL = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>) {
    %view = make_tensor_view %p, shape = [8], strides = [1] : tensor_view<8xi32, strides=[1]>
    %parts = make_partition_view %view : partition_view<tile=(4), tensor_view<8xi32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %tile, %token = load_view_tko weak %parts[%x] : partition_view<tile=(4), tensor_view<8xi32, strides=[1]>>, tile<i32> -> tile<4xi32>, token
    %five = constant <i32: 5> : tile<4xi32>
    %small = cmpi less_than %tile, %five, signed : tile<4xi32> -> tile<4xi1>
    assert %small, "100% below five" : tile<4xi1>
    return
  }
}
"""  # noqa: E501 - types of views are long

PRINTED = "k.mlir:9:{block}, position: [{index}]: 100% below five\n"


def told(backend: str, processes: int | None = None) -> tuple[str, str]:
    """What the kernel prints, and how its launch fails, for the numbers 0 to 7 in two tile blocks."""
    out = io.StringIO()
    with pytest.raises(libtile.LibtileError) as fault:
        libtile.run(
            libtile.parse(KERNEL, filename="k.mlir"), grid=2, args=[np.arange(8, dtype=np.int32)],
            backend=backend, out=out, processes=processes,
        )  # fmt: skip
    return out.getvalue(), str(fault.value)


@pytest.mark.parametrize("backend", ["interpreter", "simulator"])
@pytest.mark.parametrize("processes", [1, 2])
def test_each_false_element_is_printed_before_the_launch_fails(backend: str, processes: int) -> None:
    printed, _ = told(backend, processes)
    want = [PRINTED.format(block=" tile block: [1, 0, 0]", index=index) for index in (1, 2, 3)]
    assert sorted(printed.splitlines(keepends=True)) == want


def test_the_error_names_the_message_on_each_backend() -> None:
    assert "assertion failed: 100% below five" in told("interpreter")[1]
    assert "; it printed: k.mlir:9: tile block: [1, 0, 0], position: [" in told("simulator")[1]
