# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands that no turn of a loop changes lie in shared memory where threads have too few registers for them."""

import re

import numpy as np
import pytest

import libtile
from libtile.lowering.tileas.pipelines import held_operands

ROWS, DEPTH, STEP = 64, 256, 32
Q = "partition_view<tile=({m}x{k}), tensor_view<{m}x{k}xf16, strides=[{k},1]>>"
K = "partition_view<tile=({k}x{s}), tensor_view<{k}x?xf16, strides=[1,{k}]>, dim_map=[0, 1]>"
V = "partition_view<tile=({s}x{n}), tensor_view<?x{n}xf16, strides=[{n},1]>>"
SUM = "partition_view<tile=({m}x{n}), tensor_view<{m}x{n}xf32, strides=[{n},1]>>"


def program(columns: int, rows: int = ROWS, depth: int = DEPTH) -> libtile.Module:
    """o = sum of (q k) v, where q is read by each turn, and o has so many columns."""
    queries, keys = Q.format(m=rows, k=depth), K.format(k=depth, s=STEP)
    values, sums = V.format(s=STEP, n=columns), SUM.format(m=rows, n=columns)
    tile, made = f"tile<{rows}x{columns}xf32>", f"tile<{rows}x{STEP}xf32>"
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
    %tq = make_tensor_view %pq, shape = [{rows}, {depth}], strides = [{depth}, 1] : {_view(queries)}
    %tk = make_tensor_view %pk, shape = [{depth}, %length], strides = [1, {depth}] : tile<i32> -> {_view(keys)}
    %tv = make_tensor_view %pv, shape = [%length, {columns}], strides = [{columns}, 1] : tile<i32> -> {_view(values)}
    %to = make_tensor_view %o, shape = [{rows}, {columns}], strides = [{columns}, 1] : {_view(sums)}
    %vq = make_partition_view %tq : {queries}
    %vk = make_partition_view %tk : {keys}
    %vv = make_partition_view %tv : {values}
    %vo = make_partition_view %to : {sums}
    %q, %t0 = load_view_tko weak %vq[%zero, %zero] : {queries}, tile<i32> -> tile<{rows}x{depth}xf16>, token
    %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%c = %sum) -> ({tile}) {{
      %b, %t1 = load_view_tko weak %vk[%zero, %i] : {keys}, tile<i32> -> tile<{depth}x{STEP}xf16>, token
      %s = mmaf %q, %b, %none : tile<{rows}x{depth}xf16>, tile<{depth}x{STEP}xf16>, {made}
      %p = ftof %s : {made} -> tile<{rows}x{STEP}xf16>
      %v, %t2 = load_view_tko weak %vv[%i, %zero] : {values}, tile<i32> -> tile<{STEP}x{columns}xf16>, token
      %d = mmaf %p, %v, %c : tile<{rows}x{STEP}xf16>, tile<{STEP}x{columns}xf16>, {tile}
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


def test_of_two_alike_the_same_is_held_each_time():
    """Whatever was compiled before, and wherever its objects lie."""
    text = libtile.print_module(program(256, depth=64))
    load, product = re.findall(r"%tile, .*\n|%2 = mmaf .*\n", text)
    other = load.replace("%tile, %result_token", "%other, %of_other").replace("%cst_0_i32,", "%cst_1_i32,")
    more = product.replace("%2 =", "%more =").replace("%tile,", "%other,").replace("%cst_0_f32 ", "%2 ")
    text = text.replace(load, load + other).replace(product, product + more).replace("ftof %2 ", "ftof %more ")
    kept, made = [], set()
    for _ in range(8):
        module = libtile.parse(text)
        kept.append((module, [object() for _ in range(1000)]))
        made.add(libtile.compile(module, gpu_name="sm_80", emit="tileas").tileas)
    assert len(made) == 1 and held(libtile.parse(text), "sm_80")[0] == 1


@pytest.mark.parametrize("trips", [0, 3])
def test_it_is_what_it_was(trips):
    computes_what_it_says(program(256), 256, trips)


def test_of_one_row_a_thread_may_have_a_single_element(monkeypatch):
    monkeypatch.setattr(held_operands, "OTHER_REGISTERS", 1 << 16)
    assert held(program(32, rows=1, depth=64), "sm_80") == (1, 64 // 16)
    computes_what_it_says(program(32, rows=1, depth=64), 32, 3, rows=1, depth=64)


def computes_what_it_says(module: libtile.Module, columns: int, trips: int, rows: int = ROWS, depth: int = DEPTH):
    """Run the program in the simulator, with all checks."""
    random = np.random.default_rng(trips)
    q, k, v = (
        random.integers(-1, 2, shape).astype(np.float16)
        for shape in ((rows, depth), (max(trips, 1) * STEP, depth), (max(trips, 1) * STEP, columns))
    )
    o = np.full((rows, columns), 7, np.float32)
    libtile.run(module, "k", args=[q, k, v, o, trips], backend="simulator", gpu_name="sm_80", check="full")
    wanted = (q.astype(np.float32) @ k.astype(np.float32).T) @ v.astype(np.float32) if trips else np.zeros_like(o)
    np.testing.assert_array_equal(o, wanted)
