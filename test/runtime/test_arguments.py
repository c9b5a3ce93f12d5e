# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays alone as arguments, with sizes and strides of their own; and what each backend tells of a run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import libtile
from libtile.interpreter.entries import LaunchError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# Sizes behind all pointers, as no convention has them, and one size for both arrays.
ROWS = """
cuda_tile.module @m {
  entry @rows(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %f: tile<f32>, %m: tile<i32>, %sx: tile<i32>, %sy: tile<i32>) {
    %xv = make_tensor_view %x, shape = [%m, 4], strides = [%sx, 1] : tile<i32> -> tensor_view<?x4xf32, strides=[?,1]>
    %yv = make_tensor_view %y, shape = [%m, 4], strides = [%sy, 1] : tile<i32> -> tensor_view<?x4xf32, strides=[?,1]>
    %xp = make_partition_view %xv : partition_view<tile=(4x4), tensor_view<?x4xf32, strides=[?,1]>>
    %yp = make_partition_view %yv : partition_view<tile=(4x4), tensor_view<?x4xf32, strides=[?,1]>>
    %0 = constant <i32: 0> : tile<i32>
    %v, %t = load_view_tko weak %xp[%0, %0] : partition_view<tile=(4x4), tensor_view<?x4xf32, strides=[?,1]>>, tile<i32> -> tile<4x4xf32>, token
    %f1 = reshape %f : tile<f32> -> tile<1x1xf32>
    %fs = broadcast %f1 : tile<1x1xf32> -> tile<4x4xf32>
    %w = mulf %v, %fs : tile<4x4xf32>
    %u = store_view_tko weak %w, %yp[%0, %0] : tile<4x4xf32>, partition_view<tile=(4x4), tensor_view<?x4xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


def test_sizes_and_strides_are_those_of_the_arrays():
    module = libtile.parse(ROWS)
    x = np.arange(24, dtype=np.float32).reshape(3, 8)[:, :4]
    y = np.zeros((3, 4), np.float32)
    libtile.run(module, args=[x, y, 2.0])
    assert (y == 2 * x).all()
    libtile.run(module, args=[libtile.ArrayArgument(x, shape=(2, 4)), libtile.ArrayArgument(y, shape=(2, 4)), 3.0])
    assert (y[:2] == 3 * x[:2]).all() and (y[2] == 2 * x[2]).all()
    with pytest.raises(LaunchError, match=r"the arrays disagree: 3 \(size 0 of parameter 0\) and 2 \(size 0"):
        libtile.run(module, args=[x, y[:2], 2.0])
    with pytest.raises(LaunchError, match="2 arguments given; @rows takes 6 parameters") as caught:
        libtile.run(module, args=[x, y])
    assert re.search(r"\n[0-9], [0-9], [0-9] will do: sizes and strides are then the arrays' own$", str(caught.value))
    with pytest.raises(LaunchError, match="parameter 0 has 0 dimensions, and the kernel asks for size 0"):
        libtile.run(module, args=[libtile.ArrayArgument(x, shape=()), y, 2.0])


@pytest.mark.parametrize("backend", ["interpreter", "simulator"])
def test_a_kernel_of_cutile_takes_arrays_and_each_backend_gives_the_same_fields(backend):
    a, b = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    c = np.zeros_like(a)
    result = libtile.run(EXAMPLES / "vector_add.bc", grid=4, args=[a, b, c], backend=backend, check="full")
    assert (c == a + b).all()
    assert (result.backend, result.grid, result.blocks) == (backend, (4, 1, 1), 4)
    # Threads that hold the same elements all load them in the compiled code; one of them stores.
    assert result.bytes_written == 4000
    assert result.bytes_read == 8000 or (backend == "simulator" and result.bytes_read == 2 * 8000)
    assert (result.ops is None, result.warp_instructions is None) == ((backend == "simulator"), backend != "simulator")
    assert result.bank_conflicts == (0 if backend == "simulator" else None)
    assert result.gpu_name == ("sm_90" if backend == "simulator" else None)
