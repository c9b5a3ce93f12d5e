# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conversions between layouts keep every element, whatever way they take, and take the cheap one."""

import memory_kernels as mk
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_kernels import bits, random_array
from movement import convert_layout, layouts, move

import libtile
from libtile.codegen.builder import integer
from libtile.codegen.control import for_loop, if_else
from libtile.codegen.llvm_types import I32
from libtile.codegen.memory import load
from libtile.layouts import builders
from libtile.layouts.linear import LinearLayout
from libtile.simulator import run_ptx

ROWS = builders.blocked((64, 64), (1, 8), (4, 8), (4, 1), (1, 0))
COLUMNS = builders.blocked((64, 64), (8, 1), (8, 4), (1, 4), (0, 1))
ACCUMULATOR = builders.mma_result((64, 64), (4, 1))


def conversion(element, source, target, gpu="sm_90", threads=128, seed=0):
    data = random_array(element, source.shape, seed)
    (out,), done = move(
        [(element, data, source)], lambda b, tile: convert_layout(b, tile, target), gpu=gpu, threads=threads
    )
    np.testing.assert_array_equal(bits(out), bits(data))
    return done.counters


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(["sm_80", "sm_90"]),
    st.sampled_from(["i1", "i8", "f16", "f32", "i64"]),
    st.sampled_from([(256,), (16, 16), (4, 8, 8), (2, 2), (1,)]),
    st.data(),
)
def test_random_layouts_convert(gpu, element, shape, data):
    conversion(element, data.draw(layouts(shape)), data.draw(layouts(shape)), gpu)


def count(counters, prefix):
    return sum(n for name, n in counters.instructions.items() if name.startswith(prefix))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("element", ["f16", "f32", "i8", "f64"])
@pytest.mark.parametrize(
    ("source", "target"),
    [(ROWS, COLUMNS), (ROWS, ACCUMULATOR), (ACCUMULATOR, ROWS), (COLUMNS, ACCUMULATOR)],
    ids=["rows to columns", "rows to mma", "mma to rows", "columns to mma"],
)
def test_trips_through_shared_memory_have_no_bank_conflicts(gpu, element, source, target):
    counters = conversion(element, source, target, gpu)
    assert counters.barriers
    single_bytes = element == "i8" and source is COLUMNS  # whose places share no word: at most two meet in a bank
    assert counters.bank_conflicts <= (counters.shared_wavefronts // 2 if single_bytes else 0)


def operand(which):
    return builders.mma_operand((64, 64), (2, 2), 16, which)


@pytest.mark.parametrize("which", ["a", "b"])
def test_operands_of_products_are_loaded_by_ldmatrix(which):
    counters = conversion("f16", ROWS, operand(which))
    assert counters.bank_conflicts == 0
    trans = ".trans" if which == "b" else ""
    assert count(counters, f"ldmatrix.sync.aligned.m8n8.x4{trans}.shared") == 4 * 8
    assert count(counters, "ld.shared") == 0


def test_accumulators_are_stored_by_stmatrix_where_there_is_one():
    target = builders.blocked((64, 64), (1, 8), (32, 1), (1, 4), (1, 0))
    for gpu, expected in (("sm_80", 0), ("sm_90", 4 * 4)):
        counters = conversion("f16", ACCUMULATOR, target, gpu)
        assert count(counters, "stmatrix") == expected
        assert counters.bank_conflicts == 0


def test_words_of_32_bits_are_loaded_by_ldmatrix_too():
    target = builders.mma_operand((64, 64), (4, 1), 32, "a")
    counters = conversion("f32", ROWS, target)
    assert count(counters, "ldmatrix") == 4 * 8
    assert counters.bank_conflicts == 0


def test_a_layout_converts_to_itself_without_an_instruction():
    counters = conversion("f32", ROWS, ROWS)
    assert not counters.barriers and not count(counters, "shfl")


def test_an_accumulator_becomes_the_next_operand_without_leaving_the_thread():
    target = builders.mma_operand((64, 64), (4, 1), 16, "a")
    counters = conversion("f16", ACCUMULATOR, target)
    assert not counters.barriers and not count(counters, "shfl")


def test_within_a_warp_registers_are_shuffled_in_words():
    source = builders.blocked((64, 64), (2, 4), (4, 8), (4, 1), (1, 0))
    target = builders.blocked((64, 64), (1, 8), (8, 4), (4, 1), (1, 0))
    for element, shuffles in (("f32", 32), ("f16", 16), ("i8", 8)):
        counters = conversion(element, source, target)
        assert not counters.barriers
        assert count(counters, "shfl") <= 4 * shuffles


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_a_large_tile_goes_through_a_small_buffer_in_pieces(element):
    source = builders.mma_result((128, 256), (4, 1))
    target = builders.blocked((128, 256), (1, 4), (1, 32), (4, 1), (1, 0))
    data = random_array(element, source.shape)
    sizes = []

    def build(b, tile):
        result = convert_layout(b, tile, target)
        sizes.append(b.exchanges.most)
        return result

    (out,), done = move([(element, data, source)], build)
    np.testing.assert_array_equal(out, data)
    assert sizes == [32768]
    assert done.counters.bank_conflicts == 0


@pytest.mark.slow
def test_a_large_tile_without_common_registers_takes_two_trips_in_pieces():
    source = builders.blocked((128, 256), (1, 8), (1, 32), (4, 1), (1, 0))
    target = builders.blocked((128, 256), (8, 1), (16, 2), (1, 4), (0, 1))
    data = random_array("f64", source.shape)
    sizes = []

    def build(b, tile):
        mk.exchange_at(b, 40000)
        result = convert_layout(b, tile, target)
        sizes.append(b.exchanges.most)
        return result

    (out,), _ = move([("f64", data, source)], build)
    np.testing.assert_array_equal(out, data)
    assert sizes == [32768]


@pytest.mark.slow
def test_pieces_are_smaller_where_buffers_leave_little_room():
    source = builders.mma_result((128, 256), (4, 1))
    target = builders.blocked((128, 256), (1, 4), (1, 32), (4, 1), (1, 0))
    data = random_array("f32", source.shape)
    sizes = []

    def build(b, tile):
        mk.exchange_at(b, 17000)
        result = convert_layout(b, tile, target)
        sizes.append(b.exchanges.most)
        return result

    (out,), _ = move([("f32", data, source)], build)
    np.testing.assert_array_equal(out, data)
    assert sizes == [16384]


def test_conversions_in_a_row_race_nowhere():
    data = random_array("f32", (64, 64))

    def build(b, tile):
        for _ in range(2):
            for layout in (COLUMNS, ACCUMULATOR, ROWS):
                tile = convert_layout(b, tile, layout)
        return tile

    (out,), _ = move([("f32", data, ROWS)], build)
    np.testing.assert_array_equal(out, data)


def test_a_layout_of_fewer_warps_than_the_kernel_has_is_held_by_all():
    one_warp = builders.blocked((16, 16), (1, 4), (8, 4), (1, 1), (1, 0))
    four = builders.blocked((16, 16), (2, 1), (8, 4), (1, 4), (0, 1))
    conversion("f32", one_warp, four)
    conversion("f32", four, one_warp)


def test_rank_zero_tiles_convert():
    scalars = [LinearLayout.of({"register": [()] * n, "lane": [()] * 5, "warp": [()] * 2}, {}) for n in (0, 1)]
    conversion("f32", scalars[0], scalars[1])


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_conversions_in_loops_and_branches_race_nowhere(seed):
    """The next iteration's stores wait for this one's loads, in any order of the warps."""
    data = random_array("i32", (64, 64))
    b, (source, result) = mk.kernel("sm_80", 128, 2)
    tile = load(b, mk.pointers(b, source, ROWS, "i32"), "i32")

    def body(number, carried):
        odd = b.compare("ne", b.and_(number, integer(I32, 1)), integer(I32, 0))

        def there_and_back(layout):
            return [convert_layout(b, convert_layout(b, carried[0], layout), ROWS)]

        (made,) = if_else(b, odd, lambda: there_and_back(COLUMNS), lambda: there_and_back(ACCUMULATOR))
        return [made.map(lambda v: b.binary("add", v, integer(I32, 1)))]

    (made,) = for_loop(b, integer(I32, 0), integer(I32, 3), integer(I32, 1), [tile], body)
    mk.put(b, result, made)
    out = np.zeros_like(data)
    run_ptx(mk.ptx_of(b), "k", grid=(1, 1, 1), block=(128, 1, 1), args=[data, out], order=seed)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out, data + np.int32(3))


def test_pointers_convert():
    data = random_array("f32", (64, 64))
    b, (source, result) = mk.kernel("sm_80", 128, 2)
    pointers = convert_layout(b, mk.pointers(b, source, ROWS, "f32"), ACCUMULATOR)
    mk.put(b, result, load(b, pointers, "f32"))
    out = np.zeros_like(data)
    mk.run(b, data, out)
    np.testing.assert_array_equal(out, data)


def test_a_large_tile_whose_registers_have_nothing_in_common_goes_in_one_piece():
    """A transposition of 64 KiB: its layouts cannot be cut, and a trip in one piece has room."""
    view = "partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>"
    tile = "tile<128x128xf32>"
    text = f"""cuda_tile.module @m {{
  entry @transpose(%p0: tile<ptr<f32>>, %q0: tile<ptr<f32>>) {{
    %p = assume div_by<16>, %p0 : tile<ptr<f32>>
    %q = assume div_by<16>, %q0 : tile<ptr<f32>>
    %0 = constant <i32: 0> : tile<i32>
    %tp = make_tensor_view %p, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %tq = make_tensor_view %q, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %vp = make_partition_view %tp : {view}
    %vq = make_partition_view %tq : {view}
    %x, %t = load_view_tko weak %vp[%0, %0] : {view}, tile<i32> -> {tile}, token
    %y = permute %x [1, 0] : {tile} -> {tile}
    %u = store_view_tko weak %y, %vq[%0, %0] : {tile}, {view}, tile<i32> -> token
    return
  }}
}}
"""
    x = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)
    y = np.zeros_like(x)
    libtile.run(libtile.parse(text), grid=(1, 1, 1), args=[x, y], backend="simulator", gpu_name="sm_90")
    np.testing.assert_array_equal(y, x.T)
