# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads and stores through views, run in the simulator, move the boxes that numpy slices."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import memory_kernels as mk
import numpy as np
import pytest
from view_kernels import accesses, known

import libtile
from libtile.codegen.builder import integer
from libtile.codegen.llvm_types import GLOBAL_POINTER, I8, I32, I64
from libtile.codegen.memory import load
from libtile.codegen.tile import Tile
from libtile.codegen.tiled_views import Accesses, TensorView, TiledView, index_space, sparse_layout
from libtile.codegen.views import load_tile, padding_constant, store_tile
from libtile.layouts import builders
from libtile.layouts.linear import LinearLayout
from libtile.support.diagnostics import UnsupportedError

GPUS = ["sm_80", "sm_90"]
ROWS = mk.LAYOUTS["rows of 8"]


def parameters(b, count, type_=I64):
    return [b.add_parameter(type_) for _ in range(count)]


def constants(*numbers):
    return tuple(integer(I64, n) for n in numbers)


def box_of(data, starts, tile, fill):
    """The tile of an array that starts at an element, with `fill` beyond the edges."""
    result = np.full(tile, fill, data.dtype)
    part = data[tuple(slice(s, s + n) for s, n in zip(starts, tile))]
    result[tuple(slice(0, n) for n in part.shape)] = part
    return result


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("layout", [n for n in mk.LAYOUTS if n != "copies"])
def test_a_dynamic_partition_loads_with_padding_and_stores_within_the_edges(layout, gpu, narrow):
    shape = (45, 150)
    b, (source, target) = mk.kernel(gpu)
    sizes, index = parameters(b, 2), parameters(b, 2, I32)
    for_load = TiledView.partition(
        TensorView(source, "f32", tuple(sizes), (sizes[1], integer(I64, 1))), (16, 64), padding="neg_inf"
    )
    tile = load_tile(b, for_load, index, mk.LAYOUTS[layout], accesses(for_load, mk.LAYOUTS[layout], narrow=narrow))
    doubled = tile.map(lambda x: b.binary("fadd", x, x))
    for_store = TiledView.partition(TensorView(target, "f32", tuple(sizes), (sizes[1], integer(I64, 1))), (16, 64))
    store_tile(b, for_store, index, doubled, accesses(for_store, doubled.layout, narrow=narrow))
    text = mk.parse_ptx(mk.ptx_of(b))
    data = mk.random_array("f32", shape)
    for i, j in ((0, 0), (2, 1), (1, 2), (2, 2)):
        out = np.zeros(shape, np.float32)
        expected = out.copy()
        box = (slice(16 * i, 16 * i + 16), slice(64 * j, 64 * j + 64))
        expected[box] = data[box] * 2
        mk.run_text(text, b, data, out, *shape, i, j)
        assert np.array_equal(out, expected)


@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64", "i8", "f8E5M2"])
@pytest.mark.parametrize("padding", ["zero", "neg_zero", "nan", "pos_inf", "neg_inf", None])
def test_elements_beyond_the_tensor_are_the_padding_value(element, padding):
    b, (source, target) = mk.kernel()
    tiled = TiledView.partition(
        TensorView(source, element, constants(10, 50), constants(50, 1)), (16, 64), padding=padding
    )
    mk.put(b, target, load_tile(b, tiled, constants(0, 0), ROWS, accesses(tiled, ROWS)))
    data, out = mk.random_array(element, (10, 50)), np.zeros((16, 64), mk.DTYPES[element])
    mk.run(b, data, out)
    number = {None: 0.0, "zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}[padding]
    fill = np.asarray(0.0 if element == "i8" else number).astype(out.dtype)
    assert np.array_equal(mk.bits(out), mk.bits(box_of(data, (0, 0), (16, 64), fill)))


def test_padding_of_narrow_floats_is_what_their_type_can_hold():
    assert padding_constant("f8E4M3FN", "neg_inf") == integer(I8, 0xFF)
    assert padding_constant("f8E8M0FNU", "zero") == integer(I8, 0)
    assert padding_constant("f4E2M1FN", "pos_inf") == integer(I8, 7)
    assert padding_constant("i32", "nan") == integer(I32, 0)


@pytest.mark.parametrize("gpu", GPUS)
def test_a_dim_map_transposes_while_loading(gpu):
    b, (source, target) = mk.kernel(gpu)
    view = TensorView(source, "f32", constants(70, 20), constants(20, 1))
    tiled = TiledView.partition(view, (16, 64), dims=(1, 0))
    mk.put(
        b, target, load_tile(b, tiled, constants(1, 0), mk.LAYOUTS["columns"], accesses(tiled, mk.LAYOUTS["columns"]))
    )
    data, out = mk.random_array("f32", (70, 20)), np.zeros((16, 64), np.float32)
    mk.run(b, data, out)
    assert np.array_equal(out, box_of(data.T, (16, 0), (16, 64), 0))
    assert known(tiled, alignment=16).width(mk.LAYOUTS["columns"]) == 4


@pytest.mark.parametrize("gpu", GPUS)
def test_a_strided_view_steps_by_its_traversal_strides(gpu):
    b, (source, target) = mk.kernel(gpu)
    index = parameters(b, 2, I8)
    view = TensorView(source, "i16", constants(60, 200), constants(200, 1))
    tiled = TiledView.strided(view, (16, 64), (5, 24))
    mk.put(b, target, load_tile(b, tiled, index, ROWS, accesses(tiled, ROWS, alignment=16)))
    data = mk.random_array("i16", (60, 200))
    for i, j in ((0, 0), (3, 2), (11, 8)):
        out = np.zeros((16, 64), np.int16)
        mk.run(b, data, out, i, j)
        assert np.array_equal(out, box_of(data, (5 * i, 24 * j), (16, 64), 0))
    assert known(tiled, alignment=16).width(ROWS) == 8


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("layout", ["rows of 8", "mma"])
def test_a_gather_scatter_view_moves_chosen_rows(gpu, layout):
    rows_layout = sparse_layout(mk.LAYOUTS[layout], 0)
    b, (source, target, rows_base) = mk.kernel(gpu, parameters=3)
    rows = load(b, mk.pointers(b, rows_base, rows_layout, "i32"), "i32")
    first = integer(I32, 5)
    shape = (40, 80)
    from_view = TiledView.gather(TensorView(source, "f32", constants(*shape), constants(80, 1)), (16, 64), 0, "zero")
    to_view = TiledView.gather(TensorView(target, "f32", constants(*shape), constants(80, 1)), (16, 64), 0)
    tile = load_tile(
        b, from_view, [rows, first], mk.LAYOUTS[layout], accesses(from_view, mk.LAYOUTS[layout], alignment=256)
    )
    store_tile(b, to_view, [rows, integer(I32, 16)], tile, accesses(to_view, tile.layout, alignment=256))
    chosen = np.random.default_rng(1).permutation(40)[:16].astype(np.int32)
    chosen[[3, 9]] = [40, -1]  # no rows of the tensor
    data, out = mk.random_array("f32", shape), np.zeros(shape, np.float32)
    mk.run(b, data, out, chosen)
    expected = np.zeros(shape, np.float32)
    valid = chosen[(chosen >= 0) & (chosen < 40)]
    expected[valid, 16:80] = data[valid, 5:69]
    assert np.array_equal(out, expected)


def test_a_gather_along_the_columns_has_its_positions_in_registers():
    layout = mk.LAYOUTS["columns"]
    b, (source, target, rows_base) = mk.kernel(parameters=3)
    columns = load(b, mk.pointers(b, rows_base, sparse_layout(layout, 1), "i64"), "i64")
    tiled = TiledView.gather(TensorView(source, "i32", constants(16, 90), constants(90, 1)), (16, 64), 1, "zero")
    mk.put(b, target, load_tile(b, tiled, [integer(I32, 0), columns], layout, accesses(tiled, layout)))
    chosen = np.random.default_rng(1).integers(0, 90, 64)
    data, out = mk.random_array("i32", (16, 90)), np.zeros((16, 64), np.int32)
    mk.run(b, data, out, chosen)
    assert np.array_equal(out, data[:, chosen])


def test_an_index_tile_of_another_layout_is_refused():
    b, (source, _) = mk.kernel()
    rows = Tile(builders.blocked((16,), (1,), (32,), (4,), (0,)), "i32", (b.thread_id(),))
    tiled = TiledView.gather(TensorView(source, "f32", constants(40, 80), constants(80, 1)), (16, 64), 0)
    with pytest.raises(UnsupportedError, match="whose layout does not follow that of the tile's rows"):
        load_tile(b, tiled, [rows, integer(I32, 0)], ROWS, accesses(tiled, ROWS))


@pytest.mark.parametrize(
    ("facts", "strides", "sizes", "width"),
    [
        ({"alignment": 16}, (256, 1), (64, 256), 8),
        ({"alignment": 8}, (256, 1), (64, 256), 4),
        ({"alignment": 16}, (None, 1), (64, 256), 1),
        ({"alignment": 16, "stride_divisors": (4, 1)}, (None, 1), (64, 256), 4),
        ({"alignment": 16}, (256, 1), (64, None), 1),
        ({"alignment": 16, "size_divisors": (1, 2)}, (256, 1), (64, None), 2),
        ({"alignment": 16, "inbounds": (False, True)}, (256, 1), (64, None), 8),
        ({}, (256, 1), (64, 256), 1),
        ({"alignment": 16}, (256, 2), (64, 256), 1),
    ],
)
def test_the_width_of_an_access_follows_from_the_facts(facts, strides, sizes, width):
    unknown = mk.Value(I64, "%n")
    values = [tuple(unknown if n is None else integer(I64, n) for n in numbers) for numbers in (sizes, strides)]
    tiled = TiledView.partition(TensorView(mk.Value(GLOBAL_POINTER, "%p"), "f16", *values), (16, 64))
    assert known(tiled, **facts).width(ROWS) == width


def test_whole_tiles_of_a_static_tensor_need_no_mask_and_use_constant_offsets():
    b, (source, target) = mk.kernel()
    index = parameters(b, 2, I32)
    tiled = TiledView.partition(TensorView(source, "f16", constants(64, 256), constants(256, 1)), (16, 64))
    mk.put(b, target, load_tile(b, tiled, index, ROWS, accesses(tiled, ROWS, alignment=16)))
    text = mk.ptx_of(b)
    assert "@" not in text and "ld.global.v4.b32" in text
    data, out = mk.random_array("f16", (64, 256)), np.zeros((16, 64), np.float16)
    mk.run(b, data, out, 3, 2)
    assert np.array_equal(out, data[48:64, 128:192])


@pytest.mark.parametrize("element", ["i4", "f4E2M1FN"])
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(
    ("layout", "columns", "facts"),
    [
        ("rows of 8", 64, {"alignment": 16}),
        ("rows of 8", 66, {"alignment": 16}),
        ("rows of 8", 51, {"alignment": 16}),
        ("columns", 51, {"alignment": 16}),
        ("mma", 70, {}),
    ],
)
def test_packed_elements_move_by_halves_of_bytes(element, gpu, layout, columns, facts):
    rows, pitch = 12, columns + columns % 2 if columns != 51 else 52
    if layout == "columns":
        pitch = 53  # rows begin in the middle of a byte
    b, (source, target) = mk.kernel(gpu)
    sizes, strides = constants(rows, columns), constants(pitch, 1)
    tiled = TiledView.partition(TensorView(source, element, sizes, strides), (16, 64), padding="zero")
    tile = load_tile(b, tiled, constants(0, 0), mk.LAYOUTS[layout], accesses(tiled, mk.LAYOUTS[layout], **facts))
    flipped = tile.map(lambda x: b.xor(x, integer(I8, 9)))
    out_view = TiledView.partition(TensorView(target, element, sizes, strides), (16, 64))
    store_tile(b, out_view, constants(0, 0), flipped, accesses(out_view, flipped.layout, **facts))
    rng = np.random.default_rng(4)
    size = -(-rows * pitch // 8) * 4
    data, out = rng.integers(0, 256, size).astype(np.uint8), rng.integers(0, 256, size).astype(np.uint8)

    def halves(array):
        return np.stack([array & 15, array >> 4], axis=1).reshape(-1)

    expected = halves(out)
    places = (np.arange(rows)[:, None] * pitch + np.arange(min(columns, 64))).reshape(-1)
    expected[places] = halves(data)[places] ^ 9
    mk.run(b, data, out)
    assert np.array_equal(halves(out), expected)


def test_packed_padding_fills_halves_beyond_an_odd_edge():
    b, (source, target) = mk.kernel()
    tiled = TiledView.partition(
        TensorView(source, "f4E2M1FN", constants(16, 51), constants(52, 1)), (16, 64), padding="neg_inf"
    )
    mk.put(b, target, load_tile(b, tiled, constants(0, 0), ROWS, accesses(tiled, ROWS, alignment=16)))
    data, out = np.random.default_rng(4).integers(0, 256, (16, 26)).astype(np.uint8), np.zeros((16, 64), np.uint8)
    mk.run(b, data, out)
    halves = np.stack([data & 15, data >> 4], axis=2).reshape(16, 52)
    assert np.array_equal(out, box_of(halves[:, :51], (0, 0), (16, 64), 15))


def test_a_view_of_rank_0_is_one_element():
    b, (source, target) = mk.kernel()
    tile = load_tile(b, TiledView.partition(TensorView(source, "f32", (), ()), ()), (), mk.SCALAR, Accesses())
    store_tile(b, TiledView.partition(TensorView(target, "f32", (), ()), ()), (), tile, Accesses())
    data, out = np.array([3.5], np.float32), np.zeros(1, np.float32)
    mk.run(b, data, out)
    assert out[0] == 3.5


def test_the_index_space_counts_tiles_that_begin_within_the_tensor():
    b, (target, _) = mk.kernel()
    sizes = parameters(b, 2)
    view = TensorView(target, "f32", (*sizes, integer(I64, 33)), constants(1, 1, 1))
    counts = index_space(b, TiledView.strided(view, (16, 16, 16), (3, 16, 8)))
    assert counts[2].constant == 5
    layout = builders.blocked((128,), (1,), (32,), (4,), (0,))
    for position, count in enumerate(counts):
        base = b.emit(target.type, f"getelementptr i64, {target.typed}, i32 {position * 128}")
        mk.put(b, base, Tile(layout, "i64", (count,)))
    out = np.zeros((3, 128), np.int64)
    mk.run(b, out, out, 31, (1 << 63) - 1)
    assert out[:, 0].tolist() == [11, 1 << 59, 5]


def test_a_layout_of_another_shape_is_refused():
    b, (source, _) = mk.kernel()
    tiled = TiledView.partition(TensorView(source, "f32", constants(64, 64), constants(64, 1)), (32, 32))
    with pytest.raises(ValueError, match="for tiles of"):
        load_tile(b, tiled, constants(0, 0), ROWS, Accesses())


def test_a_layout_whose_threads_and_registers_share_index_bits_is_read_rightly():
    layout = LinearLayout.of(
        {"register": [(1, 0)], "lane": [(0, 1), (0, 2), (2, 4), (4, 8), (8, 8 ^ 16)], "warp": [(1, 1), (0, 2)]},
        {"dim0": 16, "dim1": 32},
    )
    b, (source, target) = mk.kernel()
    tiled = TiledView.partition(TensorView(source, "i32", constants(16, 32), constants(32, 1)), (16, 32))
    mk.put(b, target, load_tile(b, tiled, constants(0, 0), layout, accesses(tiled, layout)))
    data, out = mk.random_array("i32", (16, 32)), np.zeros((16, 32), np.int32)
    mk.run(b, data, out)
    held = np.zeros((16, 32), bool)
    for place in layout.places():
        held[place] = True
    assert np.array_equal(out, np.where(held, data, 0))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_a_tile_outside_of_a_tensor_of_run_time_size_is_padding_and_is_not_stored(gpu):
    """Whatever is known of the size's divisors: grids have more blocks than tensors have tiles."""
    view = "tensor_view<?xf32, strides=[1]>"
    tiles = f"partition_view<tile=(16), padding_value = zero, {view}>"
    module = libtile.parse(f"""cuda_tile.module @m {{
      entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n0: tile<i32>, %from: tile<i32>, %to: tile<i32>) {{
        %n = assume div_by<16>, %n0 : tile<i32>
        %a = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> {view}
        %b = make_tensor_view %q, shape = [%n], strides = [1] : tile<i32> -> {view}
        %va = make_partition_view %a : {tiles}
        %vb = make_partition_view %b : {tiles}
        %x, %t = load_view_tko weak %va[%from] : {tiles}, tile<i32> -> tile<16xf32>, token
        %u = store_view_tko weak %x, %vb[%to] : tile<16xf32>, {tiles}, tile<i32> -> token
        return }} }}""")
    source = np.arange(1, 49, dtype=np.float32)
    for given, taken in ((0, 1), (2, 1), (3, 1), (-1, 0), (-(2**31), 0), (1, 2), (1, -1), (0, 2**31 - 1)):
        result = np.full(48, 7, np.float32)
        args = [source[16:], result[16:], 32, given, taken]
        libtile.run(module, "k", args=args, backend="simulator", gpu_name=gpu)
        expected = np.full((3, 16), 7, np.float32)
        if taken in (0, 1):
            expected[1 + taken] = source.reshape(3, 16)[1 + given] if given in (0, 1) else 0
        np.testing.assert_array_equal(result, expected.reshape(48), err_msg=f"{given} -> {taken}")


def test_a_conjunction_ends_with_the_condition_that_most_accesses_share():
    """LLVM selects the bytes of a copy by it first, and once for all of them."""
    gemm = libtile.read(Path(__file__).resolve().parents[2] / "examples" / "gemm.bc")
    ir = libtile.compile(gemm, gpu_name="sm_80", emit="llvm").llvm_ir
    conjunctions = {m[1]: (m[2], m[3]) for m in re.finditer(r"(%v\d+) = and i1 (%v\d+), (%v\d+)", ir)}
    copied = {m[1] for m in re.finditer(r"select i1 (%v\d+), i32 16, i32 0", ir)} & conjunctions.keys()
    uses = Counter(condition for mask in copied for condition in conjunctions[mask])
    assert copied
    for mask in copied:
        first, second = conjunctions[mask]
        assert uses[first] <= uses[second], mask
