# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads and stores by pointer: masks, padding, arithmetic on pointers, globals, allocations, aliases."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from interpreter.programs import fault_of, pointers, run_body, scalar_store
from libtile.interpreter import FaultKind
from libtile.interpreter.formats import ELEMENTS

STORED = ["i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2"]


def copy_body(elem: str, count: int, mask: str = "", padding: str = "") -> str:
    operands = "".join(f", %{n}" for n in (mask, padding) if n)
    types = (f", tile<{count}xi1>" if mask else "") + (f", tile<{count}x{elem}>" if padding else "")
    return "\n".join([
        pointers("x", count, elem, "p"),
        pointers("y", count, elem, "q"),
        f"%l, %t = load_ptr_tko weak %p{operands} : tile<{count}xptr<{elem}>>{types} -> tile<{count}x{elem}>, token",
        f"store_ptr_tko weak %q, %l : tile<{count}xptr<{elem}>>, tile<{count}x{elem}> -> token",
    ])  # fmt: skip


@pytest.mark.parametrize("check", ["off", "basic", "full"])
@pytest.mark.parametrize("elem", STORED)
def test_every_element_type_is_loaded_and_stored_bit_by_bit(elem, check):
    data = np.random.default_rng(0).integers(0, 256, 64 * ELEMENTS[elem].storage_bytes).astype(np.uint8)
    target = np.zeros_like(data)
    run_body(f"%x: tile<ptr<{elem}>>, %y: tile<ptr<{elem}>>", copy_body(elem, 64), [data, target], check=check)
    assert np.array_equal(data, target)


def test_i1_takes_a_byte_and_any_non_zero_one_is_true():
    data = np.array([0, 1, 2, 255], np.uint8)
    target = np.full(4, 9, np.uint8)
    run_body("%x: tile<ptr<i1>>, %y: tile<ptr<i1>>", copy_body("i1", 4), [data, target])
    assert target.tolist() == [0, 1, 1, 1]


def test_tf32_is_stored_as_an_f32_with_a_short_fraction():
    data = np.array([1.2345678, -3.0], np.float32)
    target = np.zeros(2, np.float32)
    run_body("%x: tile<ptr<tf32>>, %y: tile<ptr<tf32>>", copy_body("tf32", 2), [data, target])
    assert target[1] == -3 and not (target.view(np.uint32) & 0x1FFF).any()


MASKED = """
%i = iota : tile<8xi32>
%n_r = reshape %n : tile<i32> -> tile<1xi32>
%n_b = broadcast %n_r : tile<1xi32> -> tile<8xi32>
%m = cmpi less_than %i, %n_b, signed : tile<8xi32> -> tile<8xi1>
%pad = constant <f32: -1.0> : tile<8xf32>
"""


def test_masked_elements_are_padding_and_do_not_touch_memory():
    data, target = np.arange(5, dtype=np.float32), np.zeros(8, np.float32)
    run_body("%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>", MASKED + copy_body("f32", 8, "m", "pad"),
             [data, target, 5], check="full")  # fmt: skip
    assert target.tolist() == [0, 1, 2, 3, 4, -1, -1, -1]


def test_a_masked_store_leaves_the_rest_alone():
    target = np.full(8, 7, np.float32)
    body = (
        MASKED
        + pointers("y", 8, "f32", "q")
        + """
    store_ptr_tko weak %q, %pad, %m : tile<8xptr<f32>>, tile<8xf32>, tile<8xi1> -> token
    """
    )
    run_body("%y: tile<ptr<f32>>, %n: tile<i32>", body, [target, 3])
    assert target.tolist() == [-1] * 3 + [7] * 5


def test_an_unmasked_access_past_the_end_is_a_fault_with_its_element():
    fault = fault_of(FaultKind.OUT_OF_BOUNDS, "%x: tile<ptr<f32>>, %y: tile<ptr<f32>>", copy_body("f32", 8),
                     [np.zeros(5, np.float32), np.zeros(8, np.float32)])  # fmt: skip
    assert fault.index == (5,)
    assert fault.block == (0, 0, 0)
    assert fault.op == "cuda_tile.load_ptr_tko"
    assert fault.location is not None and fault.location.filename == "k.mlir"
    assert "offset 20 of parameter 0 (20 bytes)" in fault.message


def test_an_access_before_an_array_is_a_fault():
    body = """
    %back = constant <i32: -1> : tile<i32>
    %p = offset %x, %back : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    """ + scalar_store("back", "p", "i32")
    fault = fault_of(FaultKind.OUT_OF_BOUNDS, "%x: tile<ptr<i32>>", body, [np.zeros(4, np.int32)])
    assert "4 bytes before parameter 0" in fault.message


def test_a_misaligned_access_is_a_fault():
    body = """
    %n = ptr_to_int %x : tile<ptr<i8>> -> tile<i64>
    %d = constant <i64: 2> : tile<i64>
    %m = addi %n, %d : tile<i64>
    %p = int_to_ptr %m : tile<i64> -> tile<ptr<i32>>
    %v = constant <i32: 1> : tile<i32>
    """ + scalar_store("v", "p", "i32")
    fault = fault_of(FaultKind.MISALIGNED, "%x: tile<ptr<i8>>", body, [np.zeros(16, np.int8)])
    assert "not a multiple of 4" in fault.message
    run_body("%x: tile<ptr<i8>>", body.replace("<i64: 2>", "<i64: 4>"), [np.zeros(16, np.int8)])


def test_pointers_and_integers_convert_freely():
    data = np.zeros(4, np.int32)
    body = """
    %n = ptr_to_int %x : tile<ptr<f32>> -> tile<i64>
    %d = constant <i64: 8> : tile<i64>
    %m = addi %n, %d : tile<i64>
    %p = int_to_ptr %m : tile<i64> -> tile<ptr<f32>>
    %q = ptr_to_ptr %p : tile<ptr<f32>> -> tile<ptr<i32>>
    %v = constant <i32: 42> : tile<i32>
    """ + scalar_store("v", "q", "i32")
    run_body("%x: tile<ptr<f32>>", body, [data])
    assert data.tolist() == [0, 0, 42, 0]


def test_a_tile_of_pointers_may_reach_several_arrays():
    a, b, out = np.array([5], np.int32), np.array([6], np.int32), np.zeros(2, np.int32)
    body = (
        """
    %ar = reshape %a : tile<ptr<i32>> -> tile<1xptr<i32>>
    %br = reshape %b : tile<ptr<i32>> -> tile<1xptr<i32>>
    %both = cat %ar, %br dim = 0 : tile<1xptr<i32>>, tile<1xptr<i32>> -> tile<2xptr<i32>>
    %l, %t = load_ptr_tko weak %both : tile<2xptr<i32>> -> tile<2xi32>, token
    %one = constant <i32: 1> : tile<2xi32>
    %m = addi %l, %one : tile<2xi32>
    %t2 = store_ptr_tko weak %both, %m token=%t : tile<2xptr<i32>>, tile<2xi32> -> token
    """
        + pointers("out", 2, "i32", "q")
        + "\nstore_ptr_tko weak %q, %l : tile<2xptr<i32>>, tile<2xi32> -> token"
    )
    run_body("%a: tile<ptr<i32>>, %b: tile<ptr<i32>>, %out: tile<ptr<i32>>", body, [a, b, out], check="full")
    assert (a[0], b[0], out.tolist()) == (6, 7, [5, 6])


def test_arrays_that_overlap_are_the_same_memory():
    whole = np.arange(8, dtype=np.int32)
    body = copy_body("i32", 4)
    run_body("%x: tile<ptr<i32>>, %y: tile<ptr<i32>>", body, [whole[:4], whole[2:6]])
    assert whole.tolist() == [0, 1, 0, 1, 2, 3, 6, 7]


def test_a_read_only_array_cannot_be_stored_to():
    data = np.zeros(4, np.int32)
    data.flags.writeable = False
    body = "%v = constant <i32: 1> : tile<i32>\n" + scalar_store("v", "x", "i32")
    fault_of(FaultKind.READ_ONLY, "%x: tile<ptr<i32>>", body, [data])


def test_bf16_may_be_given_as_its_bits():
    x = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    y = np.zeros(2, np.uint16)
    run_body("%x: tile<ptr<bf16>>, %y: tile<ptr<bf16>>", copy_body("bf16", 2), [x, y])
    assert y.view(ml_dtypes.bfloat16).tolist() == [1.5, -2.0]


GLOBALS = """
global @g <i32: [10, 20, 30, 40]> : tile<4xi32>
global constant @c alignment = 512 <f32: [1.5, 2.5]> : tile<2xf32>
"""


def test_globals_are_initialised_and_kept_through_a_launch():
    out = np.zeros(3, np.int32)
    body = """
    %g = get_global @g : tile<ptr<i32>>
    %bx, %by, %bz = get_tile_block_id : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %p = offset %g, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %v, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    %w = addi %v, %one : tile<i32>
    %t2 = store_ptr_tko weak %p, %w token=%t : tile<ptr<i32>>, tile<i32> -> token
    %q = offset %out, %bx : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    """ + scalar_store("v", "q", "i32")
    run_body("%out: tile<ptr<i32>>", body, [out], grid=3, globals=GLOBALS)
    assert out.tolist() == [20, 21, 22]


def test_a_constant_global_is_aligned_and_cannot_be_stored_to():
    out = np.zeros(1, np.int64)
    body = """
    %c = get_global @c : tile<ptr<f32>>
    %n = ptr_to_int %c : tile<ptr<f32>> -> tile<i64>
    """
    run_body("%out: tile<ptr<i64>>", body + scalar_store("n", "out", "i64"), [out], globals=GLOBALS)
    assert out[0] % 512 == 0
    store = body + "%v = constant <f32: 0.0> : tile<f32>\n" + scalar_store("v", "c", "f32")
    fault = fault_of(FaultKind.READ_ONLY, "%out: tile<ptr<i64>>", store, [out], globals=GLOBALS)
    assert "@c is constant" in fault.message


ALLOCA = (
    """
%a = alloca num_elem = 4, alignment = 64 : tile<ptr<i32>>
"""
    + pointers("a", 4, "i32", "p")
    + """
%i = iota : tile<4xi32>
%t = store_ptr_tko weak %p, %i : tile<4xptr<i32>>, tile<4xi32> -> token
%l, %t2 = load_ptr_tko weak %p token=%t : tile<4xptr<i32>> -> tile<4xi32>, token
"""
    + pointers("out", 4, "i32", "q")
    + "\nstore_ptr_tko weak %q, %l : tile<4xptr<i32>>, tile<4xi32> -> token"
)


def test_an_alloca_is_memory_of_its_own():
    out = np.zeros(4, np.int32)
    run_body("%out: tile<ptr<i32>>", ALLOCA, [out], check="full")
    assert out.tolist() == [0, 1, 2, 3]


def test_an_alloca_read_before_it_is_written_is_uninitialised():
    body = ALLOCA.replace("%t = store_ptr_tko weak %p, %i : tile<4xptr<i32>>, tile<4xi32> -> token",
                          "%t = make_token : token")  # fmt: skip
    fault = fault_of(FaultKind.UNINITIALISED, "%out: tile<ptr<i32>>", body, [np.zeros(4, np.int32)], check="full")
    assert fault.op == "cuda_tile.store_ptr_tko"


def test_an_alloca_past_its_end_is_out_of_bounds():
    body = ALLOCA.replace("num_elem = 4", "num_elem = 3")
    fault = fault_of(FaultKind.OUT_OF_BOUNDS, "%out: tile<ptr<i32>>", body, [np.zeros(4, np.int32)])
    assert "an alloca of 12 bytes" in fault.message


def test_fences_and_launch_control_pass_tokens_on():
    body = """
    %t0 = make_token : token
    %t1 = gdc_wait_tko token = %t0 -> token
    %t2 = memory_fence_alias_tko %t1
    %t3 = gdc_launch_dependents_tko token = %t2 -> token
    %t4 = join_tokens %t0, %t3 : token
    %v = constant <i32: 5> : tile<i32>
    store_ptr_tko weak %out, %v token=%t4 : tile<ptr<i32>>, tile<i32> -> token
    """
    for check in ("basic", "full"):
        out = np.zeros(1, np.int32)
        run_body("%out: tile<ptr<i32>>", body, [out], check=check)
        assert out[0] == 5


def test_an_offset_whose_bytes_do_not_fit_64_bits_is_a_fault():
    body = """
    %d = constant <i64: DISTANCE> : tile<i64>
    %p = offset %x, %d : tile<ptr<f64>>, tile<i64> -> tile<ptr<f64>>
    """
    names, args = "%x: tile<ptr<f64>>", [np.zeros(1)]
    fault = fault_of(FaultKind.OVERFLOW, names, body.replace("DISTANCE", str(2**60)), args)
    assert "times 8 does not fit 64 bits" in fault.message
    run_body(names, body.replace("DISTANCE", str(2**60 - 1)), args)
    run_body(names, body.replace("DISTANCE", str(2**60)), args, check="off")


ESCAPE = """
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%three = constant <i32: 3> : tile<i32>
%p = for %i in (%zero to %three, step %one) : tile<i32> iter_values(%q = %out) -> (tile<ptr<i32>>) {
  %a = alloca num_elem = 1, alignment = 4 : tile<ptr<i32>>
  %t = store_ptr_tko weak %a, %i : tile<ptr<i32>>, tile<i32> -> token
  %v, %t2 = load_ptr_tko weak WHERE token=%t : tile<ptr<i32>> -> tile<i32>, token
  %o = offset %out, %i : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %t3 = store_ptr_tko weak %o, %v token=%t2 : tile<ptr<i32>>, tile<i32> -> token
  continue %a : tile<ptr<i32>>
}
"""


@pytest.mark.parametrize("check", ["basic", "full"])
def test_an_alloca_lives_until_its_region_ends(check):
    out = np.full(3, -1, np.int32)
    run_body("%out: tile<ptr<i32>>", ESCAPE.replace("WHERE", "%a"), [out], check=check)
    assert out.tolist() == [0, 1, 2]
    # The pointer carried into the next iteration is that of an allocation that is gone.
    fault = fault_of(FaultKind.OUT_OF_BOUNDS, "%out: tile<ptr<i32>>", ESCAPE.replace("WHERE", "%q"), [out], check=check)
    assert fault.op == "cuda_tile.load_ptr_tko"


SHARED = """
%bx, %by, %bz = get_tile_block_id : tile<i32>
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%second = offset %flags, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
%t0 = make_token : token
%first = cmpi equal %bx, %zero, signed : tile<i32> -> tile<i1>
if %first {
  %a = alloca num_elem = 1, alignment = 4 SCOPE : tile<ptr<i32>>
  %t1 = store_ptr_tko weak %a, %one token=%t0 : tile<ptr<i32>>, tile<i32> -> token
  %n = ptr_to_int %a : tile<ptr<i32>> -> tile<i64>
  %t2 = store_ptr_tko weak %address, %n token=%t1 : tile<ptr<i64>>, tile<i64> -> token
  %t3 = store_ptr_tko release device %flags, %one token=%t2 : tile<ptr<i32>>, tile<i32> -> token
  loop {
    %f, %t4 = load_ptr_tko acquire device %second : tile<ptr<i32>> -> tile<i32>, token
    %set = cmpi equal %f, %one, signed : tile<i32> -> tile<i1>
    if %set {
      break
    }
  }
} else {
  %seen = loop iter_values(%k = %t0) : token -> token {
    %f, %t4 = load_ptr_tko acquire device %flags token=%k : tile<ptr<i32>> -> tile<i32>, token
    %set = cmpi equal %f, %one, signed : tile<i32> -> tile<i1>
    if %set {
      break %t4 : token
    }
    continue %t4 : token
  }
  %n, %t5 = load_ptr_tko weak %address token=%seen : tile<ptr<i64>> -> tile<i64>, token
  %p = int_to_ptr %n : tile<i64> -> tile<ptr<i32>>
  %v, %t6 = load_ptr_tko weak %p token=%t5 : tile<ptr<i32>> -> tile<i32>, token
  %t7 = store_ptr_tko release device %second, %v token=%t6 : tile<ptr<i32>>, tile<i32> -> token
}
"""


def test_an_alloca_is_for_its_tile_block_unless_it_is_global():
    names = "%flags: tile<ptr<i32>>, %address: tile<ptr<i64>>"
    args = [np.zeros(2, np.int32), np.zeros(1, np.int64)]
    fault = fault_of(FaultKind.OUT_OF_BOUNDS, names, SHARED.replace("SCOPE", ""), args, 2, check="full")
    assert "belongs to tile block 0" in fault.message and fault.block == (1, 0, 0)
    run_body(names, SHARED.replace("SCOPE", "global"), [np.zeros(2, np.int32), np.zeros(1, np.int64)], 2, check="full")
