# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How fast the interpreter runs whole kernels, under each level of checks.

    python bench/interpreter.py [--check off,basic,full] [--only NAME]

Prints, for each kernel and level, seconds, ops per second, and bytes of memory traffic per second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import libtile

VECTOR_ADD = """
cuda_tile.module @bench {
  entry @vector_add(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %ta = make_tensor_view %a, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %tb = make_tensor_view %b, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %tc = make_tensor_view %c, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %va = make_partition_view %ta : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %vb = make_partition_view %tb : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %vc = make_partition_view %tc : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
    %x, %t0 = load_view_tko weak %va[%bx] : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32>
      -> tile<1024xf32>, token
    %y, %t1 = load_view_tko weak %vb[%bx] : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32>
      -> tile<1024xf32>, token
    %z = addf %x, %y rounding<nearest_even> : tile<1024xf32>
    %t2 = store_view_tko weak %z, %vc[%bx] : tile<1024xf32>,
      partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
"""

GEMM = """
cuda_tile.module @bench {
  entry @gemm(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %ta = make_tensor_view %a, shape = [512, 512], strides = [512, 1] : tensor_view<512x512xf16, strides=[512,1]>
    %tb = make_tensor_view %b, shape = [512, 512], strides = [512, 1] : tensor_view<512x512xf16, strides=[512,1]>
    %tc = make_tensor_view %c, shape = [512, 512], strides = [512, 1] : tensor_view<512x512xf32, strides=[512,1]>
    %va = make_partition_view %ta : partition_view<tile=(64x32), tensor_view<512x512xf16, strides=[512,1]>>
    %vb = make_partition_view %tb : partition_view<tile=(32x64), tensor_view<512x512xf16, strides=[512,1]>>
    %vc = make_partition_view %tc : partition_view<tile=(64x64), tensor_view<512x512xf32, strides=[512,1]>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: 16> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %sum = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
      %x, %t0 = load_view_tko weak %va[%bx, %k] : partition_view<tile=(64x32),
        tensor_view<512x512xf16, strides=[512,1]>>, tile<i32> -> tile<64x32xf16>, token
      %y, %t1 = load_view_tko weak %vb[%k, %by] : partition_view<tile=(32x64),
        tensor_view<512x512xf16, strides=[512,1]>>, tile<i32> -> tile<32x64xf16>, token
      %next = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %next : tile<64x64xf32>
    }
    %t2 = store_view_tko weak %sum, %vc[%bx, %by] : tile<64x64xf32>, partition_view<tile=(64x64),
      tensor_view<512x512xf32, strides=[512,1]>>, tile<i32> -> token
    return
  }
}
"""

HISTOGRAM = """
cuda_tile.module @bench {
  entry @histogram(%x: tile<ptr<i32>>, %h: tile<ptr<i32>>) {
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %size = constant <i32: 1024> : tile<i32>
    %first = muli %bx, %size : tile<i32>
    %i = iota : tile<1024xi32>
    %x0 = offset %x, %first : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %x1 = reshape %x0 : tile<ptr<i32>> -> tile<1xptr<i32>>
    %x2 = broadcast %x1 : tile<1xptr<i32>> -> tile<1024xptr<i32>>
    %p = offset %x2, %i : tile<1024xptr<i32>>, tile<1024xi32> -> tile<1024xptr<i32>>
    %v, %t = load_ptr_tko weak %p : tile<1024xptr<i32>> -> tile<1024xi32>, token
    %h1 = reshape %h : tile<ptr<i32>> -> tile<1xptr<i32>>
    %h2 = broadcast %h1 : tile<1xptr<i32>> -> tile<1024xptr<i32>>
    %q = offset %h2, %v : tile<1024xptr<i32>>, tile<1024xi32> -> tile<1024xptr<i32>>
    %one = constant <i32: 1> : tile<1024xi32>
    %r, %t2 = atomic_rmw_tko relaxed device %q, add, %one
      : tile<1024xptr<i32>>, tile<1024xi32> -> tile<1024xi32>, token
    return
  }
}
"""

Case = tuple[str, str, tuple[int, ...], Callable[[], list[Any]], Callable[[list[Any]], bool]]


def _vectors() -> list[Any]:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 1 << 20), dtype=np.float32)
    return [a, b, np.zeros_like(a), 1 << 20]


def _matrices() -> list[Any]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 512, 512)).astype(np.float16)
    return [a, b, np.zeros((512, 512), np.float32)]


def _samples() -> list[Any]:
    return [np.random.default_rng(0).integers(0, 256, 1 << 18).astype(np.int32), np.zeros(256, np.int32)]


CASES: dict[str, Case] = {
    "vector add, 2^20 f32, tiles of 1024": (
        VECTOR_ADD, "vector_add", (1024,), _vectors, lambda v: np.array_equal(v[2], v[0] + v[1]),
    ),
    "GEMM, 512^3 f16, tiles of 64x64x32": (
        GEMM, "gemm", (8, 8), _matrices,
        lambda v: np.allclose(v[2], v[0].astype(np.float64) @ v[1].astype(np.float64), rtol=1e-5, atol=1e-4),
    ),
    "histogram, 2^18 i32 into 256 bins by atomics": (
        HISTOGRAM, "histogram", (256,), _samples, lambda v: np.array_equal(v[1], np.bincount(v[0], minlength=256)),
    ),
}  # fmt: skip


def measure(case: Case, check: str) -> str:
    """One run of a case: a line of the table. SystemExit when the result is wrong."""
    text, kernel, grid, make, good = case
    module = libtile.parse(text)
    args = make()
    started = time.perf_counter()
    result = libtile.run(module, kernel, grid=grid, args=args, check=check)
    seconds = time.perf_counter() - started
    if not good(args):
        raise SystemExit(f"{kernel} under check={check} gives a wrong result")
    traffic = (result.bytes_read + result.bytes_written) / seconds / 1e6
    return f"{check:>6} {seconds:9.3f} s {result.ops / seconds:12,.0f} ops/s {traffic:10,.1f} MB/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", default="off,basic,full", help="levels, separated by commas")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    for name, case in CASES.items():
        if options.only in name:
            print(name)
            for check in options.check.split(","):
                print(measure(case, check))


if __name__ == "__main__":
    main()
