# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Views against numpy slices: edges, padding, dimension maps, strided and sparse tiles, four-bit elements."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from interpreter.programs import fault_of, pointers, run_body
from libtile.interpreter import FaultKind
from libtile.interpreter.formats import ELEMENTS, from_bits, to_bits
from libtile.interpreter.views import padding_bits

PADDING = {"zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}


def tensor(shape, elem: str, strides) -> str:
    return f"tensor_view<{'x'.join(map(str, shape))}x{elem}, strides=[{','.join(map(str, strides))}]>"


def load_text(view: str, tile, elem: str, indices, tensor_type: str, name: str = "l", extra: str = "") -> str:
    """Text that loads a tile of %x by a view, flattens it, and stores it to %out."""
    count = int(np.prod(tile))
    dims = "x".join(map(str, tile))
    index_text = ", ".join(f"%i{n}" for n in range(len(indices)))
    constants = "\n".join(f"%i{n} = constant <i32: {i}> : tile<i32>" for n, i in enumerate(indices))
    kind = view.split("<")[0]
    shape = tensor_type.split("<")[1].split(",")[0].rsplit("x", 1)[0].replace("x", ", ")
    strides = tensor_type.split("[")[1].rstrip("]>").replace(",", ", ")
    return "\n".join([
        constants,
        f"%tv = make_tensor_view %x, shape = [{shape}], strides = [{strides}] : {tensor_type}",
        f"%view = make_{kind} %tv : {view}",
        f"%{name}, %t = load_view_tko weak %view[{index_text}]{extra} : {view}, tile<i32> "
        f"-> tile<{dims}x{elem}>, token",
        f"%flat = reshape %{name} : tile<{dims}x{elem}> -> tile<{count}x{elem}>",
        pointers("out", count, elem, "q"),
        f"store_ptr_tko weak %q, %flat : tile<{count}xptr<{elem}>>, tile<{count}x{elem}> -> token",
    ])  # fmt: skip


def load(view: str, tile, elem: str, indices, tensor_type: str, data: np.ndarray, **options) -> np.ndarray:
    out = np.zeros(int(np.prod(tile)), ELEMENTS[elem].dtype)
    run_body(f"%x: tile<ptr<{elem}>>, %out: tile<ptr<{elem}>>", load_text(view, tile, elem, indices, tensor_type),
             [data, out], **options)  # fmt: skip
    return out.reshape(tile)


def padded(array: np.ndarray, starts, tile, value) -> np.ndarray:
    """The box of an array at `starts`, with `value` where it leaves the array: the definition, element by element."""
    result = np.full(tile, value, array.dtype)
    for index in np.ndindex(*tile):
        place = tuple(s + i for s, i in zip(starts, index))
        if all(p < n for p, n in zip(place, array.shape)):
            result[index] = array[place]
    return result


@pytest.mark.parametrize("check", ["basic", "full"])
@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("index", [(0, 0), (1, 2), (3, 1), (3, 2)])
@pytest.mark.parametrize("elem", ["f32", "f16", "bf16", "f8E5M2"])
def test_partition_view_pads_beyond_the_edges(elem, index, padding, check):
    data = np.random.default_rng(0).standard_normal((13, 21)).astype(ELEMENTS[elem].dtype)
    type_ = tensor((13, 21), elem, (21, 1))
    view = f"partition_view<tile=(4x8), padding_value = {padding}, {type_}>"
    got = load(view, (4, 8), elem, index, type_, data, check=check)
    want = padded(data, (index[0] * 4, index[1] * 8), (4, 8), np.float64(PADDING[padding]).astype(data.dtype))
    assert got.tobytes() == want.tobytes() or np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got), np.signbit(want)) or padding == "nan"


@pytest.mark.parametrize(
    ("elem", "padding", "bits"),
    [("f8E8M0FNU", "zero", 0), ("f8E8M0FNU", "nan", 255), ("fnv8E5M3FNU", "zero", 0), ("fnv8E5M3FNU", "pos_inf", 255)],
)
def test_formats_without_zero_or_infinity_pad_with_what_compiled_programs_have(elem, padding, bits):
    assert to_bits(padding_bits(ELEMENTS[elem], padding), ELEMENTS[elem]) == bits


def test_dim_map_says_which_dimension_a_tile_dimension_runs_along():
    data = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    type_ = tensor((64, 16), "f32", (16, 1))
    view = f"partition_view<tile=(4x2), {type_}, dim_map=[1, 0]>"
    got = load(view, (4, 2), "f32", (3, 5), type_, data)
    # Index (3, 5) of tiles 4 long in dimension 1 and 2 long in dimension 0.
    assert np.array_equal(got, data[10:12, 12:16].T)


def test_a_column_major_tensor_is_read_by_its_strides():
    data = np.arange(8 * 4, dtype=np.int32)
    type_ = tensor((8, 4), "i32", (1, 8))
    got = load(f"partition_view<tile=(2x2), {type_}>", (2, 2), "i32", (1, 1), type_, data)
    assert np.array_equal(got, data.reshape(4, 8).T[2:4, 2:4])


@pytest.mark.parametrize("index", [(0, 0), (2, 1), (15, 5)])
def test_strided_view_starts_every_traversal_stride(index):
    data = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    type_ = tensor((64, 16), "f32", (16, 1))
    view = f"strided_view<tile=(4x2), traversal_strides=[4,3], padding_value = zero, {type_}>"
    got = load(view, (4, 2), "f32", index, type_, data)
    assert np.array_equal(got, padded(data, (index[0] * 4, index[1] * 3), (4, 2), 0))


def test_strided_view_tiles_may_overlap():
    data = np.arange(8, dtype=np.float32)
    type_ = tensor((8,), "f32", (1,))
    view = f"strided_view<tile=(2), traversal_strides=[1], padding_value = nan, {type_}>"
    assert load(view, (2,), "f32", (3,), type_, data).tolist() == [3, 4]
    last = load(view, (2,), "f32", (7,), type_, data)
    assert last[0] == 7 and np.isnan(last[1])


GATHER = """
%rows = constant <i32: [5, 0, 9, 5]> : tile<4xi32>
%c = constant <i32: COLUMN> : tile<i32>
%tv = make_tensor_view %x, shape = [8, 16], strides = [16, 1] : tensor_view<8x16xf32, strides=[16,1]>
%view = make_gather_scatter_view %tv : VIEW
"""
GATHER_VIEW = (
    "gather_scatter_view<tile=(4x4), padding_value = zero, tensor_view<8x16xf32, strides=[16,1]>, sparse_dim=0>"
)


@pytest.mark.parametrize("check", ["basic", "full"])
@pytest.mark.parametrize("column", [0, 3, 14])
def test_gather_takes_rows_by_number_and_columns_from_a_first_one(column, check):
    data = np.arange(128, dtype=np.float32).reshape(8, 16) + 1
    out = np.zeros(16, np.float32)
    body = (
        GATHER.replace("COLUMN", str(column)).replace("VIEW", GATHER_VIEW)
        + f"""
    %l, %t = load_view_tko weak %view[%rows, %c] : {GATHER_VIEW}, tile<4xi32>, tile<i32> -> tile<4x4xf32>, token
    %f = reshape %l : tile<4x4xf32> -> tile<16xf32>
    {pointers("out", 16, "f32", "q")}
    store_ptr_tko weak %q, %f : tile<16xptr<f32>>, tile<16xf32> -> token
    """
    )
    run_body("%x: tile<ptr<f32>>, %out: tile<ptr<f32>>", body, [data, out], check=check)
    wide = np.zeros((10, 20), np.float32)
    wide[:8, :16] = data
    assert np.array_equal(out.reshape(4, 4), wide[[5, 0, 9, 5], column : column + 4])


def test_scatter_leaves_out_rows_beyond_the_tensor():
    data = np.zeros((8, 16), np.float32)
    view = GATHER_VIEW.replace("padding_value = zero, ", "")
    body = (
        GATHER.replace("COLUMN", "14").replace("VIEW", view).replace("5, 0, 9, 5", "5, 0, 9, 2")
        + f"""
    %v = constant <f32: [[1.0,2.0,3.0,4.0],[5.0,6.0,7.0,8.0],[9.0,9.0,9.0,9.0],[1.0,1.0,1.0,1.0]]> : tile<4x4xf32>
    %t = store_view_tko weak %v, %view[%rows, %c] : tile<4x4xf32>, {view}, tile<4xi32>, tile<i32> -> token
    """
    )
    run_body("%x: tile<ptr<f32>>", body, [data])
    want = np.zeros((8, 16), np.float32)
    want[5, 14:], want[0, 14:], want[2, 14:] = [1, 2], [5, 6], [1, 1]
    assert np.array_equal(data, want)


STORE = """
%tv = make_tensor_view %x, shape = [6, 10], strides = [12, 1] : tensor_view<6x10xELEM, strides=[12,1]>
%view = make_partition_view %tv : partition_view<tile=(4x8), tensor_view<6x10xELEM, strides=[12,1]>>
%one = constant <i32: 1> : tile<i32>
%v = constant <ELEM: VALUE> : tile<4x8xELEM>
%t = store_view_tko weak %v, %view[%one, %one] : tile<4x8xELEM>, partition_view<tile=(4x8), tensor_view<6x10xELEM, strides=[12,1]>>, tile<i32> -> token
"""  # noqa: E501


@pytest.mark.parametrize("check", ["basic", "full"])
@pytest.mark.parametrize("elem", ["i8", "i32", "f16", "f64"])
def test_a_store_is_cut_off_at_the_edges(elem, check):
    data = np.zeros((6, 12), ELEMENTS[elem].dtype)
    value = "3" if elem.startswith("i") else "3.0"
    run_body(f"%x: tile<ptr<{elem}>>", STORE.replace("ELEM", elem).replace("VALUE", value), [data], check=check)
    want = np.zeros((6, 12))
    want[4:6, 8:10] = 3
    assert np.array_equal(data.astype(float), want)


def test_dynamic_shapes_and_strides_are_taken_from_operands():
    data, out = np.arange(60, dtype=np.int32), np.zeros(8, np.int32)
    view = "partition_view<tile=(2x4), padding_value = zero, tensor_view<?x?xi32, strides=[?,1]>>"
    body = f"""
    %tv = make_tensor_view %x, shape = [%h, %w], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xi32, strides=[?,1]>
    %view = make_partition_view %tv : {view}
    %one = constant <i32: 1> : tile<i32>
    %l, %t = load_view_tko weak %view[%one, %one] : {view}, tile<i32> -> tile<2x4xi32>, token
    %f = reshape %l : tile<2x4xi32> -> tile<8xi32>
    {pointers("out", 8, "i32", "q")}
    store_ptr_tko weak %q, %f : tile<8xptr<i32>>, tile<8xi32> -> token
    """
    run_body("%x: tile<ptr<i32>>, %out: tile<ptr<i32>>, %h: tile<i32>, %w: tile<i32>, %s: tile<i32>", body,
             [data, out, 3, 6, 12])  # fmt: skip
    assert out.tolist() == [28, 29, 0, 0, 0, 0, 0, 0]


def test_views_tell_their_shapes():
    out = np.zeros(4, np.int32)
    view = "partition_view<tile=(4x8), tensor_view<?x21xf32, strides=[21,1]>>"
    lines = [f"%p{n} = offset %out, %c{n} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>" for n in range(4)]
    lines = [f"%c{n} = constant <i32: {n}> : tile<i32>" for n in range(4)] + lines
    stores = [f"store_ptr_tko weak %p{n}, %{v} : tile<ptr<i32>>, tile<i32> -> token" for n, v in enumerate("abcd")]
    body = (
        "\n".join(lines)
        + f"""
    %tv = make_tensor_view %x, shape = [%h, 21], strides = [21, 1] : tile<i32> -> tensor_view<?x21xf32, strides=[21,1]>
    %view = make_partition_view %tv : {view}
    %a, %b = get_tensor_shape %tv : tensor_view<?x21xf32, strides=[21,1]> -> tile<i32>
    %c, %d = get_index_space_shape %view : {view} -> tile<i32>
    """
        + "\n".join(stores)
    )
    run_body("%x: tile<ptr<f32>>, %out: tile<ptr<i32>>, %h: tile<i32>", body, [np.zeros(1, np.float32), out, 13])
    assert out.tolist() == [13, 21, 4, 3]


# -- four-bit elements ----------------------------------------------------------------------------------------------


F4 = """
%tv = make_tensor_view %x, shape = [4, 8], strides = [8, 1] : tensor_view<4x8xf4E2M1FN, strides=[8,1]>
%view = make_partition_view %tv : partition_view<tile=(2x4), tensor_view<4x8xf4E2M1FN, strides=[8,1]>>
%one = constant <i32: 1> : tile<i32>
%zero = constant <i32: 0> : tile<i32>
%l, %t = load_view_tko weak %view[%one, %one] : partition_view<tile=(2x4), tensor_view<4x8xf4E2M1FN, strides=[8,1]>>, tile<i32> -> tile<2x4xf4E2M1FN>, token
"""  # noqa: E501


@pytest.mark.parametrize("check", ["basic", "full"])
def test_four_bit_elements_are_two_to_a_byte(check):
    data = np.random.default_rng(0).integers(0, 256, (4, 4)).astype(np.uint8)
    before = data.copy()
    out = np.zeros(8, np.float32)
    body = (
        F4
        + """
    %w = ftof %l : tile<2x4xf4E2M1FN> -> tile<2x4xf32>
    %f = reshape %w : tile<2x4xf32> -> tile<8xf32>
    """
        + pointers("out", 8, "f32", "q")
        + """
    store_ptr_tko weak %q, %f : tile<8xptr<f32>>, tile<8xf32> -> token
    %t2 = store_view_tko weak %l, %view[%zero, %zero] token = %t : tile<2x4xf4E2M1FN>,
      partition_view<tile=(2x4), tensor_view<4x8xf4E2M1FN, strides=[8,1]>>, tile<i32> -> token
    """
    )
    run_body("%x: tile<ptr<f4E2M1FN>>, %out: tile<ptr<f32>>", body, [data, out], check=check)
    nibbles = np.stack([before & 15, before >> 4], -1).reshape(4, 8)
    values = from_bits(nibbles, ELEMENTS["f4E2M1FN"]).astype(np.float32)
    assert np.array_equal(out.reshape(2, 4), values[2:4, 4:8])
    nibbles[:2, :4] = nibbles[2:4, 4:8]
    assert np.array_equal(data, nibbles[:, 0::2] | nibbles[:, 1::2] << 4)
    assert values.dtype != ml_dtypes.float4_e2m1fn


# -- faults ---------------------------------------------------------------------------------------------------------


def test_an_index_beyond_the_index_space_is_a_fault():
    type_ = tensor((13, 21), "f32", (21, 1))
    text = load_text(f"partition_view<tile=(4x8), {type_}>", (4, 8), "f32", (4, 0), type_)
    args = [np.zeros((13, 21), np.float32), np.zeros(32, np.float32)]
    for check in ("basic", "full,-view-range"):
        fault = fault_of(FaultKind.INDEX, "%x: tile<ptr<f32>>, %out: tile<ptr<f32>>", text, args, check=check)
        assert "index 4 of dimension 0 is outside of the view's 4" in fault.message
    run_body("%x: tile<ptr<f32>>, %out: tile<ptr<f32>>", text, args, check="basic,-load-range")
    run_body("%x: tile<ptr<f32>>, %out: tile<ptr<f32>>", text, args, check="off")


def test_a_load_of_padding_alone_is_a_check_of_its_own():
    type_ = tensor((13, 21), "f32", (21, 1))
    text = load_text(f"partition_view<tile=(4x8), padding_value = nan, {type_}>", (4, 8), "f32", (4, 0), type_)
    args = [np.zeros((13, 21), np.float32), np.zeros(32, np.float32)]
    names = "%x: tile<ptr<f32>>, %out: tile<ptr<f32>>"
    for check in ("full", "basic,view-range", "view-range"):
        fault = fault_of(FaultKind.INDEX, names, text, args, check=check)
        assert "index 4 of dimension 0 is outside of the view's 4" in fault.message
    for check in ("basic", "full,-view-range", "off"):
        args[1][:] = 0
        run_body(names, text, args, check=check)
        assert np.isnan(args[1]).all()


def test_a_store_outside_of_a_padded_view_is_an_index_out_of_range():
    type_ = tensor((13, 21), "f32", (21, 1))
    view = f"partition_view<tile=(4x8), padding_value = zero, {type_}>"
    text = f"""%i = constant <i32: 4> : tile<i32>
    %v = constant <f32: 1.0> : tile<4x8xf32>
    %tv = make_tensor_view %x, shape = [13, 21], strides = [21, 1] : {type_}
    %view = make_partition_view %tv : {view}
    %t = store_view_tko weak %v, %view[%i, %i] : tile<4x8xf32>, {view}, tile<i32> -> token"""
    fault_of(FaultKind.INDEX, "%x: tile<ptr<f32>>", text, [np.zeros((13, 21), np.float32)], check="basic")


def test_a_broken_in_bounds_promise_is_a_fault():
    type_ = tensor((13, 21), "f32", (21, 1))
    view = f"partition_view<tile=(4x8), padding_value = zero, {type_}>"
    args = [np.zeros((13, 21), np.float32), np.zeros(32, np.float32)]
    names = "%x: tile<ptr<f32>>, %out: tile<ptr<f32>>"
    text = load_text(view, (4, 8), "f32", (3, 0), type_, extra=" inbounds = [true, false]")
    fault = fault_of(FaultKind.INDEX, names, text, args)
    assert "said to be in bounds" in fault.message
    run_body(names, load_text(view, (4, 8), "f32", (2, 2), type_, extra=" inbounds = [true, false]"), args)


def test_a_view_larger_than_its_memory_is_out_of_bounds():
    type_ = tensor((16, 16), "f32", (16, 1))
    text = load_text(f"partition_view<tile=(4x8), {type_}>", (4, 8), "f32", (3, 1), type_)
    args = [np.zeros((15, 16), np.float32), np.zeros(32, np.float32)]
    fault = fault_of(FaultKind.OUT_OF_BOUNDS, "%x: tile<ptr<f32>>, %out: tile<ptr<f32>>", text, args)
    assert fault.index == (3, 0)


def test_an_element_outside_without_a_padding_value_is_uninitialised():
    type_ = tensor((13, 21), "f32", (21, 1))
    text = load_text(f"partition_view<tile=(4x8), {type_}>", (4, 8), "f32", (3, 0), type_)
    args = [np.zeros((13, 21), np.float32), np.zeros(32, np.float32)]
    fault = fault_of(FaultKind.UNINITIALISED, "%x: tile<ptr<f32>>, %out: tile<ptr<f32>>", text, args, check="full")
    assert fault.index == (8,)
    inside = load_text(f"partition_view<tile=(4x8), {type_}>", (4, 8), "f32", (2, 0), type_)
    run_body("%x: tile<ptr<f32>>, %out: tile<ptr<f32>>", inside, args, check="full")


def test_a_size_that_does_not_fit_its_result_is_a_fault():
    body = """
    %tv = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %s = get_tensor_shape %tv : tensor_view<?xf32, strides=[1]> -> tile<i8>
    """
    names = "%x: tile<ptr<f32>>, %n: tile<i32>"
    fault = fault_of(FaultKind.CONVERSION, names, body, [np.zeros(1, np.float32), 256])
    assert "256 does not fit i8" in fault.message
    run_body(names, body, [np.zeros(1, np.float32), 255])
