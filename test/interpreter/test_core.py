# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that move elements about, make tiles, or tell where a tile block is."""

from __future__ import annotations

import numpy as np
import pytest

from interpreter.helpers import INTEGERS, evaluate
from interpreter.programs import pointers, run_body
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import ELEMENTS, to_bits

ANY = [*INTEGERS, "f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2", "tf32", "f4E2M1FN", "f8E8M0FNU"]


def counting(shape, elem: str) -> np.ndarray:
    """A tile whose elements can be told apart, as far as the type allows."""
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    values = numbers % 2 == 1 if elem == "i1" else 2.0 ** (numbers % 3) if elem == "f8E8M0FNU" else numbers % 7
    return values.astype(ELEMENTS[elem].dtype)


def same(got, want, elem: str) -> bool:
    return np.array_equal(to_bits(np.asarray(got), ELEMENTS[elem]), to_bits(np.asarray(want), ELEMENTS[elem]))


@pytest.mark.parametrize("elem", ANY)
def test_tiles_are_moved_about_element_by_element(elem):
    x = counting((4, 8), elem)
    got = evaluate("reshape", {"source": (x, elem)}, [((2, 16), elem)])
    assert same(got, x.reshape(2, 16), elem)
    got = evaluate("permute", {"source": (x, elem)}, [((8, 4), elem)], {"permutation": [1, 0]})
    assert same(got, x.T, elem)
    row = counting((1, 8), elem)
    assert same(evaluate("broadcast", {"source": (row, elem)}, [((4, 8), elem)]), np.tile(row, (4, 1)), elem)
    got = evaluate("cat", {"lhs": (x, elem), "rhs": (x[::-1], elem)}, [((4, 16), elem)], {"dim": 1})
    assert same(got, np.concatenate([x, x[::-1]], 1), elem)


def test_permute_gives_result_dimension_i_the_source_dimension_permutation_i():
    x = np.arange(64).reshape(2, 4, 8)
    got = evaluate("permute", {"source": (x, "i32")}, [((8, 2, 4), "i32")], {"permutation": [2, 0, 1]})
    assert all(got[k, i, j] == x[i, j, k] for i in range(2) for j in range(4) for k in range(8))


@pytest.mark.parametrize("elem", ["i1", "i8", "i16", "i32", "i64", "f16", "f32", "bf16"])
def test_a_scalar_becomes_a_tile(elem):
    one = counting((2,), elem)[1]
    tile = evaluate("reshape", {"source": (one, elem)}, [((1, 1), elem)])
    assert same(evaluate("broadcast", {"source": (tile, elem)}, [((4, 2), elem)]), np.full((4, 2), one), elem)


def test_extract_counts_slices_and_insert_puts_them_back():
    x = np.arange(32 * 8).reshape(32, 8)
    indices = [(np.int32(1), "i32"), (np.int32(2), "i32")]
    part = evaluate("extract", {"source": (x, "i32"), "indices": indices}, [((4, 2), "i32")])
    assert np.array_equal(part, x[4:8, 4:6])
    operands = {"source": (-part, "i32"), "destination": (x, "i32"), "indices": indices}
    whole = evaluate("insert", operands, [((32, 8), "i32")])
    want = x.copy()
    want[4:8, 4:6] *= -1
    assert np.array_equal(whole, want)


@pytest.mark.parametrize("index", [8, -1])
def test_extract_beyond_the_last_slice_is_a_fault(index):
    x = np.zeros((32, 8), np.int32)
    indices = [(np.int32(index), "i32"), (np.int32(0), "i32")]
    with pytest.raises(Fault, match="is not less than 8") as caught:
        evaluate("extract", {"source": (x, "i32"), "indices": indices}, [((4, 2), "i32")])
    assert caught.value.kind is FaultKind.INDEX
    evaluate("extract", {"source": (x, "i32"), "indices": indices}, [((4, 2), "i32")], check="off")


@pytest.mark.parametrize("elem", ANY)
def test_select_takes_elements_by_condition(elem):
    condition = np.array([True, False, False, True])
    x, y = counting((4,), elem), counting((4,), elem)[::-1]
    operands = {"cond": (condition, "i1"), "val_if_true": (x, elem), "val_if_false": (y, elem)}
    assert same(evaluate("select", operands, [((4,), elem)]), np.where(condition, x, y), elem)


@pytest.mark.parametrize("elem", ["i16", "i32", "i64", "f16", "bf16", "f32", "f64", "tf32"])
def test_pack_gives_the_little_endian_bytes(elem):
    x = counting((8,), elem)
    size = ELEMENTS[elem].storage_bytes
    got = evaluate("pack", {"source": (x, elem)}, [((8 * size,), "i8")])
    assert got.tobytes() == x.tobytes()
    back = evaluate("unpack", {"source": (got, "i8")}, [((8,), elem)])
    assert same(back, x, elem)


def test_four_bit_elements_are_packed_low_half_first():
    source = np.array([0.5, 1.5, -6.0, 0.0])
    got = evaluate("pack", {"source": (source, "f4E2M1FN")}, [((2,), "i8")])
    assert got.view(np.uint8).tolist() == [0x31, 0x0F]
    back = evaluate("unpack", {"source": (got, "i8")}, [((4,), "f4E2M1FN")])
    assert back.astype(float).tolist() == source.tolist()
    back = evaluate("unpack", {"source": (got, "i8")}, [((4,), "i4")])
    assert back.tolist() == [1, 3, -1, 0]


def test_bits_are_packed_lowest_first():
    bits = np.array([1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0], bool)
    got = evaluate("pack", {"source": (bits, "i1")}, [((2,), "i8")])
    assert got.view(np.uint8).tolist() == [0xC1, 0x02]
    assert evaluate("unpack", {"source": (got, "i8")}, [((16,), "i1")]).tolist() == bits.tolist()


@pytest.mark.parametrize("text, elem, want", [
    ("<i32: [[1, -2], [3, 4]]> : tile<2x2xi32>", "i32", [[1, -2], [3, 4]]),
    ("<f32: 1.5> : tile<2x2xf32>", "f32", [[1.5, 1.5], [1.5, 1.5]]),
    ("<i1: [true, false]> : tile<2xi1>", "i1", [True, False]),
    ("<f64: [0.1, -0.0]> : tile<2xf64>", "f64", [0.1, -0.0]),
    ("<i8: [127, -128]> : tile<2xi8>", "i8", [127, -128]),
])  # fmt: skip
def test_constants_have_the_values_written(text, elem, want):
    want = np.array(want, ELEMENTS[elem].dtype)
    out = np.zeros(want.size, ELEMENTS[elem].unsigned_dtype)
    body = (
        pointers("out", want.size, elem)
        + f"""
    %c = constant {text}
    %f = reshape %c : {text.split(" : ")[1]} -> tile<{want.size}x{elem}>
    store_ptr_tko weak %p, %f : tile<{want.size}xptr<{elem}>>, tile<{want.size}x{elem}> -> token
    """
    )
    run_body(f"%out: tile<ptr<{elem}>>", body, [out])
    assert np.array_equal(out, to_bits(want.reshape(-1), ELEMENTS[elem]))


def test_every_tile_block_knows_its_place_in_the_grid():
    out = np.zeros((2, 3, 4, 3), np.int32)
    body = """
    %x, %y, %z = get_tile_block_id : tile<i32>
    %w, %h, %d = get_num_tile_blocks : tile<i32>
    %zh = muli %z, %h : tile<i32>
    %row = addi %zh, %y : tile<i32>
    %rw = muli %row, %w : tile<i32>
    %n = addi %rw, %x : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %i0 = muli %n, %three : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %p0 = offset %out, %i0 : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %p1 = offset %p0, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %p2 = offset %p1, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    store_ptr_tko weak %p0, %x : tile<ptr<i32>>, tile<i32> -> token
    store_ptr_tko weak %p1, %y : tile<ptr<i32>>, tile<i32> -> token
    store_ptr_tko weak %p2, %z : tile<ptr<i32>>, tile<i32> -> token
    """
    result = run_body("%out: tile<ptr<i32>>", body, [out], grid=(4, 3, 2))
    assert result.blocks == 24
    z, y, x = np.indices((2, 3, 4))
    assert np.array_equal(out, np.stack([x, y, z], -1))
