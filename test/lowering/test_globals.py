# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Global variables, allocations, and the instructions that order grids and aliases."""

from __future__ import annotations

import memory_kernels as mk
import numpy as np
import pytest

import libtile
from libtile.backend import ptxas
from libtile.codegen.builder import integer
from libtile.codegen.control import for_loop
from libtile.codegen.globals import (
    alloca,
    define_global,
    fence_alias,
    free,
    gdc_launch_dependents,
    gdc_wait,
    get_global,
)
from libtile.codegen.llvm_types import I32, I64
from libtile.codegen.memory import load, store
from libtile.codegen.tile import Tile
from libtile.simulator import SimulationFault

LAYOUT = mk.LAYOUTS["rows of 8"]
GPUS = ["sm_80", "sm_90"]


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", ["table", "m::odd name"])
def test_a_global_has_its_initial_value_and_can_be_changed(gpu, name):
    b, (first, second) = mk.kernel(gpu)
    data = mk.random_array("f16", LAYOUT.shape)
    define_global(b, name, "f16", data.tobytes(), alignment=64)
    pointers = mk.pointers(b, get_global(b, name), LAYOUT, "f16")
    old = load(b, pointers, "f16")
    mk.put(b, first, old)
    store(b, pointers, old.map(lambda x: b.binary("fadd", x, x)))
    mk.put(b, second, load(b, pointers, "f16"))
    out = [np.zeros(LAYOUT.shape, np.float16) for _ in range(2)]
    mk.run(b, *out)
    assert np.array_equal(out[0], data) and np.array_equal(out[1], data + data)
    assert ".align 64" in mk.ptx_of(b)


def test_visibility_decides_what_the_host_sees():
    b, (out, _) = mk.kernel()
    data = np.arange(4, dtype=np.int32).tobytes()
    for name, options in (("open", {}), ("hidden", {"private": True}), ("unused", {"private": True})):
        define_global(b, name, "i32", data, **options)
    for name in ("open", "hidden"):
        base = get_global(b, name)
        layout = mk.builders.blocked((4,), (1,), (32,), (4,), (0,))
        store(b, mk.pointers(b, base, layout, "i32"), mk.positions(b, layout))
        mk.put(b, out, load(b, mk.pointers(b, base, layout, "i32"), "i32"))
    text = mk.ptx_of(b)
    assert ".visible .global .align 4 .b8 open[16]" in text
    assert "unused" not in text and ".visible .global .align 4 .b8 hidden" not in text


def test_a_constant_global_keeps_its_place_and_its_zeros():
    b, (out,) = mk.kernel(parameters=1)
    data = np.zeros(LAYOUT.shape, np.int64)
    define_global(b, "zeros", "i64", data.tobytes(), constant=True)
    mk.put(b, out, load(b, mk.pointers(b, get_global(b, "zeros"), LAYOUT, "i64"), "i64"))
    result = np.ones(LAYOUT.shape, np.int64)
    mk.run(b, result)
    assert not result.any()


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("alignment", [4, 256])
def test_threads_of_a_block_share_an_allocation_of_their_own(gpu, alignment):
    layout = mk.builders.blocked((128,), (1,), (32,), (4,), (0,))
    b, (out,) = mk.kernel(gpu, parameters=1)
    allocation = alloca(b, "i32", 128, alignment, mk.handed(b, mk.SCALAR, "i64"))
    place = b.cast("ptrtoint", allocation.pointer, I64)
    rest = b.cast("trunc", b.and_(place, integer(I64, alignment - 1)), I32)
    number = b.mul(b.block_id("x"), integer(I32, 1000))
    values = mk.positions(b, layout).map(lambda x: b.add(x, number))
    store(b, mk.pointers(b, allocation.pointer, layout, "i32"), values)
    b.barrier()
    # Read what another warp wrote.
    turned = mk.positions(b, layout).map(lambda x: b.xor(x, integer(I32, 96)))
    read = load(b, mk.offset_pointers(b, mk.scalar(allocation.pointer, "ptr", layout), turned, "i32"), "i32")
    slice_ = b.emit(out.type, f"getelementptr [128 x i32], {out.typed}, {b.block_id('x').typed}")
    mk.put(b, slice_, read.map(lambda x: b.add(x, rest)))
    free(b, allocation)
    result = np.zeros((3, 128), np.int32)
    mk.run(b, result, grid=3)
    assert np.array_equal(result, np.arange(3)[:, None] * 1000 + (np.arange(128) ^ 96))


def test_an_allocation_in_a_loop_is_given_back_in_each_turn():
    b, _ = mk.kernel(parameters=1)

    def body(i, carried):
        allocation = alloca(b, "i8", 1 << 20, 0, mk.handed(b, mk.SCALAR, "i64"))
        store(b, Tile(mk.SCALAR, "ptr", (allocation.pointer,)), Tile(mk.SCALAR, "i32", (i,)))
        free(b, allocation)
        return []

    for_loop(b, integer(I32, 0), integer(I32, 3), integer(I32, 1), [], body)
    text = mk.ptx_of(b)
    mk.run_text(text, b, np.zeros(1, np.int32))
    assert ptxas.assemble(text, "sm_90a").cubin


def test_an_allocation_that_cannot_be_had_traps():
    b, _ = mk.kernel(parameters=0)
    allocation = alloca(b, "i64", 1 << 50, 0, mk.handed(b, mk.SCALAR, "i64"))
    store(b, Tile(mk.SCALAR, "ptr", (allocation.pointer,)), Tile(mk.SCALAR, "i64", (integer(I64, 1),)))
    with pytest.raises(SimulationFault, match="trap"):
        mk.run(b)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_grid_dependencies_are_instructions_where_the_target_has_them(gpu):
    b, _ = mk.kernel(gpu, parameters=0)
    gdc_wait(b)
    fence_alias(b)
    gdc_launch_dependents(b)
    text = mk.ptx_of(b)
    assert ("griddepcontrol.wait;" in text) == ("griddepcontrol.launch_dependents;" in text) == (gpu != "sm_80")
    assert text.index("fence.proxy.alias;") < text.index("bar")
    assert ptxas.assemble(text, b.target.ptx_target).cubin
    mk.run(b)


@pytest.mark.parametrize("backend", ["interpreter", "simulator"])
def test_globals_of_odd_widths_lie_in_memory_as_the_reference_puts_them(backend):
    """A tf32 is the f32 of its value; two 4-bit elements share a byte, the first in its lower half."""
    text = """cuda_tile.module @m {
      global @wide <tf32: [1.0, -2.5]> : tile<2xtf32>
      global @small <f4E2M1FN: [1.0, 2.0, 3.0, 6.0, 0.5, 4.0, 1.5, 2.0]> : tile<8xf4E2M1FN>
      entry @k(%out: tile<ptr<i32>>) {
        %one = constant <i32: [0, 1]> : tile<2xi32>
        %f = get_global @wide : tile<ptr<tf32>>
        %w = ptr_to_ptr %f : tile<ptr<tf32>> -> tile<ptr<i32>>
        %w1 = reshape %w : tile<ptr<i32>> -> tile<1xptr<i32>>
        %w2 = broadcast %w1 : tile<1xptr<i32>> -> tile<2xptr<i32>>
        %p = offset %w2, %one : tile<2xptr<i32>>, tile<2xi32> -> tile<2xptr<i32>>
        %x, %t = load_ptr_tko weak %p : tile<2xptr<i32>> -> tile<2xi32>, token
        %g = get_global @small : tile<ptr<f4E2M1FN>>
        %s = ptr_to_ptr %g : tile<ptr<f4E2M1FN>> -> tile<ptr<i32>>
        %y, %u = load_ptr_tko weak %s : tile<ptr<i32>> -> tile<i32>, token
        %y1 = reshape %y : tile<i32> -> tile<1xi32>
        %y2 = broadcast %y1 : tile<1xi32> -> tile<2xi32>
        %z = cat %x, %y2 dim = 0 : tile<2xi32>, tile<2xi32> -> tile<4xi32>
        %o = reshape %out : tile<ptr<i32>> -> tile<1xptr<i32>>
        %o4 = broadcast %o : tile<1xptr<i32>> -> tile<4xptr<i32>>
        %i = iota : tile<4xi32>
        %q = offset %o4, %i : tile<4xptr<i32>>, tile<4xi32> -> tile<4xptr<i32>>
        %v = store_ptr_tko weak %q, %z : tile<4xptr<i32>>, tile<4xi32> -> token
        return
      } }"""
    out = np.zeros(4, np.uint32)
    libtile.run(libtile.parse(text), args=[out], backend=backend)
    assert [hex(v) for v in out[:3]] == ["0x3f800000", "0xc0200000", "0x43617542"]
