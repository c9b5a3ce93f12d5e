# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands that no turn of a loop changes lie in shared memory where threads have too few registers for them."""

import re

import numpy as np
import pytest

import libtile

ROWS, DEPTH, STEP = 64, 256, 32
Q = f"partition_view<tile=({ROWS}x{DEPTH}), tensor_view<{ROWS}x{DEPTH}xf16, strides=[{DEPTH},1]>>"
K = f"partition_view<tile=({DEPTH}x{STEP}), tensor_view<{DEPTH}x?xf16, strides=[1,{DEPTH}]>, dim_map=[0, 1]>"
V = "partition_view<tile=({s}x{n}), tensor_view<?x{n}xf16, strides=[{n},1]>>"
SUM = "partition_view<tile=({m}x{n}), tensor_view<{m}x{n}xf32, strides=[{n},1]>>"


def program(columns: int) -> libtile.Module:
    """o = sum of (q k) v, where q is read by each turn, and o has so many columns."""
    values, sums = V.format(s=STEP, n=columns), SUM.format(m=ROWS, n=columns)
    tile, made = f"tile<{ROWS}x{columns}xf32>", f"tile<{ROWS}x{STEP}xf32>"
    return libtile.parse(f"""
cuda_tile.module @m {{
  entry @k(%q0: tile<ptr<f16>>, %k0: tile<ptr<f16>>, %v0: tile<ptr<f16>>, %o: tile<ptr<f32>>, %n: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: {STEP}> : tile<i32>
    %none = constant <f32: 0.0> : {made}
    %sum = constant <f32: 0.0> : {tile}
    %pq = assume div_by<16>, %q0 : tile<ptr<f16>>
    %pk = assume div_by<16>, %k0 : tile<ptr<f16>>
    %pv = assume div_by<16>, %v0 : tile<ptr<f16>>
    %length = muli %n, %steps : tile<i32>
    %tq = make_tensor_view %pq, shape = [{ROWS}, {DEPTH}], strides = [{DEPTH}, 1] : {_view(Q)}
    %tk = make_tensor_view %pk, shape = [{DEPTH}, %length], strides = [1, {DEPTH}] : tile<i32> -> {_view(K)}
    %tv = make_tensor_view %pv, shape = [%length, {columns}], strides = [{columns}, 1] : tile<i32> -> {_view(values)}
    %to = make_tensor_view %o, shape = [{ROWS}, {columns}], strides = [{columns}, 1] : {_view(sums)}
    %vq = make_partition_view %tq : {Q}
    %vk = make_partition_view %tk : {K}
    %vv = make_partition_view %tv : {values}
    %vo = make_partition_view %to : {sums}
    %q, %t0 = load_view_tko weak %vq[%zero, %zero] : {Q}, tile<i32> -> tile<{ROWS}x{DEPTH}xf16>, token
    %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%c = %sum) -> ({tile}) {{
      %b, %t1 = load_view_tko weak %vk[%zero, %i] : {K}, tile<i32> -> tile<{DEPTH}x{STEP}xf16>, token
      %s = mmaf %q, %b, %none : tile<{ROWS}x{DEPTH}xf16>, tile<{DEPTH}x{STEP}xf16>, {made}
      %p = ftof %s : {made} -> tile<{ROWS}x{STEP}xf16>
      %v, %t2 = load_view_tko weak %vv[%i, %zero] : {values}, tile<i32> -> tile<{STEP}x{columns}xf16>, token
      %d = mmaf %p, %v, %c : tile<{ROWS}x{STEP}xf16>, tile<{STEP}x{columns}xf16>, {tile}
      continue %d : {tile}
    }}
    %w = store_view_tko weak %r, %vo[%zero, %zero] : {tile}, {sums}, tile<i32> -> token
    return
  }}
}}
""")


def _view(partition: str) -> str:
    """The type of the tensor of a partition."""
    found = re.search(r"tensor_view<[^>]*>", partition)
    assert found is not None
    return found[0]


def held(module: libtile.Module, gpu: str) -> tuple[int, int]:
    """Buffers in front of the loop, and the slices that products read of them."""
    text = libtile.compile(module, gpu_name=gpu, emit="tileas").tileas
    buffers = re.findall(r"(%\w+) = nv_tileas.alloc_tensor", text)
    return len(buffers), sum(len(re.findall(rf"nv_tileas.copy {b} \{{[^}}]*offsets", text)) for b in buffers)


def test_an_operand_is_read_from_shared_memory_where_registers_are_short():
    assert held(program(256), "sm_80") == (1, DEPTH // 16)
    assert held(program(64), "sm_80") == (0, 0)


@pytest.mark.parametrize("trips", [0, 3])
def test_it_is_what_it_was(trips):
    module, random, columns = program(256), np.random.default_rng(trips), 256
    q, k, v = (
        random.integers(-1, 2, shape).astype(np.float16)
        for shape in ((ROWS, DEPTH), (max(trips, 1) * STEP, DEPTH), (max(trips, 1) * STEP, columns))
    )
    o = np.full((ROWS, columns), 7, np.float32)
    libtile.run(module, "k", args=[q, k, v, o, trips], backend="simulator", gpu_name="sm_80", check="full")
    wanted = (q.astype(np.float32) @ k.astype(np.float32).T) @ v.astype(np.float32) if trips else np.zeros_like(o)
    np.testing.assert_array_equal(o, wanted)
