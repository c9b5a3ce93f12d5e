# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Atomic read-modify-writes, one element after the other, in every mode and type."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from interpreter.programs import fault_of, pointers, run_body
from libtile.interpreter import FaultKind
from libtile.interpreter.formats import ELEMENTS


def rmw(mode: str, elem: str, target: np.ndarray, offsets, operands: np.ndarray, mask: str = "", **options):
    """Apply one atomic op to target[offsets]; the old values that it returns."""
    count = len(operands)
    old = np.zeros(count, target.dtype)
    masked = ", %mask" if mask else ""
    body = "\n".join([
        f"%o = constant <i32: {list(map(int, offsets))}> : tile<{count}xi32>",
        f"%mask = constant <i1: [{mask}]> : tile<{count}xi1>" if mask else "",
        pointers("x", count, elem, "p", "o"),
        pointers("a", count, elem, "s"),
        pointers("old", count, elem, "q"),
        f"%v, %t = load_ptr_tko weak %s : tile<{count}xptr<{elem}>> -> tile<{count}x{elem}>, token",
        f"%r, %t2 = atomic_rmw_tko relaxed device %p, {mode}, %v{masked} : tile<{count}xptr<{elem}>>, "
        f"tile<{count}x{elem}>{f', tile<{count}xi1>' if mask else ''} -> tile<{count}x{elem}>, token",
        f"store_ptr_tko weak %q, %r : tile<{count}xptr<{elem}>>, tile<{count}x{elem}> -> token",
    ])  # fmt: skip
    run_body(f"%x: tile<ptr<{elem}>>, %a: tile<ptr<{elem}>>, %old: tile<ptr<{elem}>>", body,
             [target, operands, old], **options)  # fmt: skip
    return old


def unsigned(value: int, width: int) -> int:
    return value & ((1 << width) - 1)


MODES = {
    "add": lambda x, y, w: x + y,
    "and": lambda x, y, w: x & y,
    "or": lambda x, y, w: x | y,
    "xor": lambda x, y, w: x ^ y,
    "max": lambda x, y, w: max(x, y),
    "min": lambda x, y, w: min(x, y),
    "umax": lambda x, y, w: max(x, y, key=lambda v: unsigned(v, w)),
    "umin": lambda x, y, w: min(x, y, key=lambda v: unsigned(v, w)),
    "xchg": lambda x, y, w: y,
}


@pytest.mark.parametrize("check", ["basic", "full"])
@pytest.mark.parametrize("elem", ["i32", "i64"])
@pytest.mark.parametrize("mode", MODES)
def test_elements_at_one_address_are_done_one_after_the_other(mode, elem, check):
    rng = np.random.default_rng(0)
    info = np.iinfo(ELEMENTS[elem].dtype)
    target = rng.integers(info.min, info.max, 4, dtype=np.int64).astype(ELEMENTS[elem].dtype)
    operands = rng.integers(info.min, info.max, 16, dtype=np.int64).astype(ELEMENTS[elem].dtype)
    offsets = rng.integers(0, 4, 16)
    memory = [int(v) for v in target]
    want = []
    for offset, operand in zip(offsets, operands.tolist()):
        want.append(memory[offset])
        result = MODES[mode](memory[offset], operand, info.bits)
        memory[offset] = int(np.array(unsigned(result, info.bits), f"u{info.bits // 8}").view(f"i{info.bits // 8}"))
    old = rmw(mode, elem, target, offsets, operands, check=check)
    assert old.tolist() == want
    assert target.tolist() == memory


@pytest.mark.parametrize("elem", ["f16", "bf16", "f32", "f64"])
def test_float_addition_rounds_after_each_element(elem):
    dtype = ELEMENTS[elem].dtype
    eps = float(ml_dtypes.finfo(dtype).eps)
    # Half an ulp is lost every time; added up first, they would not be.
    target = np.array([1.0], dtype)
    operands = np.full(8, eps / 2, dtype)
    old = rmw("addf", elem, target, [0] * 8, operands)
    assert float(target[0]) == 1.0
    assert old.astype(float).tolist() == [1.0] * 8


@pytest.mark.parametrize("elem", ["f32", "f64"])
def test_floats_may_be_exchanged(elem):
    target = np.array([1.5, 2.5], ELEMENTS[elem].dtype)
    old = rmw("xchg", elem, target, [1, 0], np.array([7.0, -0.0], ELEMENTS[elem].dtype))
    assert old.tolist() == [2.5, 1.5]
    assert target.tolist() == [0.0, 7.0] and np.signbit(target[0])


def test_masked_elements_take_no_part():
    target = np.array([1, 2], np.int32)
    rmw("add", "i32", target, [0, 1, 999, 0], np.array([10, 10, 10, 10], np.int32), "true, true, false, false")
    assert target.tolist() == [11, 12]


def test_an_atomic_outside_of_memory_is_a_fault():
    body = (
        pointers("x", 4, "i32")
        + """
    %v = constant <i32: 1> : tile<4xi32>
    %r, %t = atomic_rmw_tko relaxed device %p, add, %v : tile<4xptr<i32>>, tile<4xi32> -> tile<4xi32>, token
    """
    )
    fault = fault_of(FaultKind.OUT_OF_BOUNDS, "%x: tile<ptr<i32>>", body, [np.zeros(3, np.int32)])
    assert fault.index == (3,)


CAS = """
%r, %t = atomic_cas_tko acq_rel device %p, %c, %v : tile<4xptr<ELEM>>, tile<4xELEM> -> tile<4xELEM>, token
store_ptr_tko weak %q, %r : tile<4xptr<ELEM>>, tile<4xELEM> -> token
"""


@pytest.mark.parametrize("elem", ["i32", "i64"])
def test_compare_and_swap_sees_what_earlier_elements_wrote(elem):
    target, old = np.array([5], ELEMENTS[elem].dtype), np.zeros(4, ELEMENTS[elem].dtype)
    body = (
        f"""
    %o = constant <i32: 0> : tile<4xi32>
    %c = constant <{elem}: [5, 5, 6, 9]> : tile<4x{elem}>
    %v = constant <{elem}: [6, 7, 8, 9]> : tile<4x{elem}>
    """
        + pointers("x", 4, elem, "p", "o")
        + "\n"
        + pointers("old", 4, elem, "q")
        + CAS.replace("ELEM", elem)
    )
    run_body(f"%x: tile<ptr<{elem}>>, %old: tile<ptr<{elem}>>", body, [target, old])
    assert old.tolist() == [5, 6, 6, 8]
    assert target.tolist() == [8]


def test_compare_and_swap_of_floats_compares_bits():
    nan = np.float32(np.nan)
    target, old = np.array([0.0, -0.0, nan, 1.0], np.float32), np.zeros(4, np.float32)
    body = (
        """
    %c = constant <f32: [-0.0, -0.0, 0x7FC00000, 1.0]> : tile<4xf32>
    %v = constant <f32: [9.0, 9.0, 9.0, 9.0]> : tile<4xf32>
    """
        + pointers("x", 4, "f32", "p")
        + "\n"
        + pointers("old", 4, "f32", "q")
        + CAS.replace("ELEM", "f32")
    )
    run_body("%x: tile<ptr<f32>>, %old: tile<ptr<f32>>", body, [target, old])
    assert target.tolist() == [0.0, 9.0, 9.0, 9.0]
    assert np.isnan(old[2])


RED = """
%tv = make_tensor_view %x, shape = [6, 10], strides = [10, 1] : tensor_view<6x10xELEM, strides=[10,1]>
%view = make_partition_view %tv : partition_view<tile=(4x8), tensor_view<6x10xELEM, strides=[10,1]>>
%one = constant <i32: 1> : tile<i32>
%v = constant <ELEM: VALUE> : tile<4x8xELEM>
%t = atomic_red_view_tko relaxed device %view[%one, %one], MODE, %v : tile<4x8xELEM>, partition_view<tile=(4x8), tensor_view<6x10xELEM, strides=[10,1]>>, tile<i32> -> token
"""  # noqa: E501


@pytest.mark.parametrize("check", ["basic", "full"])
@pytest.mark.parametrize("elem, mode, value, want", [
    ("i32", "add", "3", 4), ("i64", "max", "3", 3), ("i32", "umin", "3", 1), ("f16", "addf", "2.5", 3.5),
    ("bf16", "addf", "2.5", 3.5), ("f32", "addf", "2.5", 3.5), ("f64", "addf", "2.5", 3.5),
])  # fmt: skip
def test_a_reduction_into_a_view_is_cut_off_at_the_edges(elem, mode, value, want, check):
    data = np.ones((6, 10), ELEMENTS[elem].dtype)
    body = RED.replace("ELEM", elem).replace("MODE", mode).replace("VALUE", value)
    run_body(f"%x: tile<ptr<{elem}>>", body, [data], check=check, grid=1)
    expected = np.ones((6, 10))
    expected[4:, 8:] = want
    assert np.array_equal(data.astype(float), expected)


def test_a_histogram_by_all_tile_blocks_loses_no_count():
    data = np.random.default_rng(1).integers(0, 16, 1024).astype(np.int32)
    bins = np.zeros(16, np.int32)
    body = (
        """
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %n = constant <i32: 128> : tile<i32>
    %first = muli %bx, %n : tile<i32>
    %x0 = offset %x, %first : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    """
        + pointers("x0", 128, "i32", "p")
        + """
    %l, %t = load_ptr_tko weak %p : tile<128xptr<i32>> -> tile<128xi32>, token
    """
        + pointers("h", 128, "i32", "q", "l")
        + """
    %one = constant <i32: 1> : tile<128xi32>
    %r, %t2 = atomic_rmw_tko relaxed device %q, add, %one : tile<128xptr<i32>>, tile<128xi32> -> tile<128xi32>, token
    """
    )
    for order in (None, "reverse", 5):
        bins[:] = 0
        run_body("%x: tile<ptr<i32>>, %h: tile<ptr<i32>>", body, [data, bins], grid=8, block_order=order, check="full")
        assert np.array_equal(bins, np.bincount(data, minlength=16))


# -- multimem: an object with one device in it ----------------------------------------------------------------------


MULTICAST = "tensor_view<4x8xELEM, strides=[8,1], #cuda_tile.ptr_attr<multicast>>"
MULTIMEM = f"""
%zero = constant <i32: 0> : tile<i32>
%tv = make_tensor_view %x, shape = [4, 8], strides = [8, 1] : tile<ptr<ELEM, <multicast>>> -> {MULTICAST}
%view = make_partition_view %tv : partition_view<tile=(2x4), {MULTICAST}>
%v = constant <ELEM: VALUE> : tile<2x4xELEM>
"""
ATTRIBUTES = "attributes {reduction = #cuda_tile.multimem_reduction_kind<KIND>}"


@pytest.mark.parametrize("check", ["basic", "full"])
@pytest.mark.parametrize("elem, kind, value, want", [
    ("i32", "add", "2", 7), ("i32", "max", "9", 9), ("i32", "umin", "-1", 5), ("i32", "xor", "4", 1),
    ("f32", "add", "0.5", 5.5), ("f16", "add", "0.5", 5.5),
])  # fmt: skip
def test_a_multimem_reduction_reduces_into_the_one_copy(elem, kind, value, want, check):
    data = np.full((4, 8), 5, ELEMENTS[elem].dtype)
    body = (
        MULTIMEM
        + f"""
    %t = multimem_reduce_view_tko relaxed device %view, %v[%zero, %zero] {ATTRIBUTES}
      : partition_view<tile=(2x4), {MULTICAST}>, tile<2x4xELEM>, tile<i32> -> token
    """
    )
    text = body.replace("ELEM", elem).replace("VALUE", value).replace("KIND", kind)
    run_body(f"%x: tile<ptr<{elem}, <multicast>>>", text, [data], check=check)
    expected = np.full((4, 8), 5.0)
    expected[:2, :4] = want
    assert np.array_equal(data.astype(float), expected)


@pytest.mark.parametrize("check", ["basic", "full"])
def test_multimem_loads_and_stores_see_the_one_copy(check):
    data = np.arange(32, dtype=np.int32).reshape(4, 8)
    body = (
        MULTIMEM
        + f"""
    %one = constant <i32: 1> : tile<i32>
    %l, %t = multimem_load_reduce_view_tko relaxed device %view[%zero, %one] {ATTRIBUTES}
      : partition_view<tile=(2x4), {MULTICAST}>, tile<i32> -> tile<2x4xELEM>, token
    %s = addi %l, %v : tile<2x4xELEM>
    %t2 = multimem_store_view_tko weak %view, %s[%one, %zero]
      : partition_view<tile=(2x4), {MULTICAST}>, tile<2x4xELEM>, tile<i32> -> token
    """
    )
    before = data.copy()
    text = body.replace("ELEM", "i32").replace("VALUE", "100").replace("KIND", "add")
    run_body("%x: tile<ptr<i32, <multicast>>>", text, [data], check=check)
    assert np.array_equal(data[2:, :4], before[:2, 4:] + 100)
    data[2:, :4] = before[2:, :4]
    assert np.array_equal(data, before)
