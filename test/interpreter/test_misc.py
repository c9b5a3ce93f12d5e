# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""assume, assert and print_tko."""

from __future__ import annotations

import io

import numpy as np
import pytest

from interpreter.programs import fault_of, module_text, run_body
from libtile.interpreter import FaultKind

# -- print ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("conversion, elem, value, want", [
    ("%d", "i32", "-5", "-5"), ("%i", "i8", "-128", "-128"), ("%u", "i8", "-1", "255"),
    ("%u", "i32", "-1", "4294967295"),
    ("%x", "i16", "-1", "ffff"), ("%#X", "i32", "255", "0XFF"), ("%08.3f", "f32", "1.5", "0001.500"),
    ("%+08.3f", "f64", "1.5", "+001.500"), ("%e", "f64", "12345.678", "1.234568e+04"), ("%g", "f32", "0.5", "0.5"),
    ("%5d|", "i32", "42", "   42|"), ("%-5d|", "i32", "42", "42   |"), ("%lld", "i64", "-9000000000", "-9000000000"),
    ("%f", "f16", "2.5", "2.500000"), ("%f", "bf16", "-2.5", "-2.500000"), ("%d", "i1", "true", "-1"),
    ("%u", "i1", "true", "1"), ("%o", "i32", "8", "10"), ("%#o", "i32", "8", "010"), ("%a", "f64", "1.5", "0x1.8p+0"),
    ("%c", "i8", "65", "A"),
])  # fmt: skip
def test_print_formats_as_printf_does(conversion, elem, value, want):
    body = f'%v = constant <{elem}: {value}> : tile<{elem}>\nprint_tko "{conversion}", %v : tile<{elem}> -> token'
    assert run_body("", body).output == want


def test_print_mixes_text_values_and_percent_signs():
    body = """
    %a = constant <i32: 3> : tile<i32>
    %b = constant <f32: [[1.0, 2.0], [3.0, 4.0]]> : tile<2x2xf32>
    print_tko "a=%d, 100%%: b=%.1f\\n", %a, %b : tile<i32>, tile<2x2xf32> -> token
    """
    out = io.StringIO()
    assert run_body("", body, out=out).output == "a=3, 100%: b=[[1.0, 2.0], [3.0, 4.0]]\n"
    assert out.getvalue() == "a=3, 100%: b=[[1.0, 2.0], [3.0, 4.0]]\n"


@pytest.mark.parametrize("text", ["%2000000000d", "%.2000000000d", f"%{'9' * 5000}d", "%.1025d", "%1025c"])
def test_a_conversion_of_absurd_width_is_a_fault_where_it_stands(text):
    import libtile

    body = f'%v = constant <i32: 1> : tile<i32>\nprint_tko "{text}", %v : tile<i32> -> token'
    with pytest.raises(libtile.LibtileError, match=r"k\.mlir:\d+:\d+.*asks for more than 1024 characters") as caught:
        libtile.run(libtile.parse(module_text("", body), filename="k.mlir"), "k", verify=False)
    assert len(str(caught.value)) < 1000


def test_a_conversion_of_the_largest_width_and_precision_prints():
    body = '%v = constant <i32: 1> : tile<i32>\nprint_tko "%1024.1024d", %v : tile<i32> -> token'
    assert run_body("", body).output == "0" * 1023 + "1"


@pytest.mark.parametrize("text", ["%s", "%q", "50%"])
def test_a_conversion_of_anything_else_is_a_fault(text):
    body = f'%v = constant <i32: 1> : tile<i32>\nprint_tko "{text}", %v : tile<i32> -> token'
    import libtile

    module = libtile.parse(module_text("", body), filename="k.mlir")
    with pytest.raises(libtile.LibtileError, match="invalid format string"):
        libtile.run(module, "k", verify=False)


# -- assert ---------------------------------------------------------------------------------------------------------


def test_a_failed_assertion_tells_its_message_and_element():
    body = """
    %c = constant <i1: [[true, true], [true, false]]> : tile<2x2xi1>
    assert %c, "must hold" : tile<2x2xi1>
    """
    fault = fault_of(FaultKind.ASSERTION, "", body)
    assert fault.message == "must hold" and fault.index == (1, 1)
    run_body("", body.replace("false", "true"))


# -- assume ---------------------------------------------------------------------------------------------------------


def assume(predicate: str, type_: str, values: str) -> str:
    elem = type_.split("x")[-1].rstrip(">").removeprefix("tile<")
    return f"%v = constant <{elem}: {values}> : {type_}\n%a = assume {predicate}, %v : {type_}"


@pytest.mark.parametrize("predicate, type_, good, bad, index", [
    ("bounded<0, ?>", "tile<4xi16>", "[0, 1, 2, 3]", "[0, 1, -1, 3]", (2,)),
    ("bounded<?, 7>", "tile<4xi16>", "[0, -9, 2, 7]", "[0, 1, 2, 8]", (3,)),
    ("bounded<-1, 1>", "tile<i32>", "1", "2", ()),
    ("div_by<4>", "tile<4xi32>", "[16, 24, -8, 0]", "[16, 24, 2, 0]", (2,)),
    ("div_by<4, every 4 along 1>", "tile<2x8xi32>", "[[4,5,6,7,12,13,14,15],[8,9,10,11,24,25,26,27]]",
     "[[4,5,6,7,12,13,14,15],[8,9,10,11,24,25,27,27]]", (1, 6)),
    ("div_by<1, every 4 along 0>", "tile<8xi32>", "[7,8,9,10,23,24,25,26]", "[7,8,9,10,23,24,25,27]", (7,)),
    ("div_by<8, every 2 along 0>", "tile<4xi32>", "[8,9,16,17]", "[8,9,12,13]", (2,)),
    ("same_elements<[2, 4]>", "tile<2x8xi16>", "[[0,0,0,0,10,10,10,10],[0,0,0,0,10,10,10,10]]",
     "[[0,0,0,0,10,10,10,10],[0,0,0,0,10,9,10,10]]", (1, 5)),
])  # fmt: skip
def test_a_violated_assumption_is_a_fault_and_one_that_holds_is_none(predicate, type_, good, bad, index):
    fault = fault_of(FaultKind.ASSUMPTION, "", assume(predicate, type_, bad))
    assert fault.index == index and predicate in fault.message
    run_body("", assume(predicate, type_, good))
    run_body("", assume(predicate, type_, bad), check="off")


@pytest.mark.parametrize(("size", "holds"), [(1, True), (2, False)])
def test_the_stride_of_a_dimension_of_one_element_may_be_said_to_be_aligned(size: int, holds: bool) -> None:
    body = f"""
    %one = constant <i32: 1> : tile<i32>
    %s = assume div_by<4>, %one : tile<i32>
    %v = make_tensor_view %p, shape = [8, {size}], strides = [1, %s] : tile<i32> -> VIEW
    """.replace("VIEW", f"tensor_view<8x{size}xf32, strides=[1,?]>")
    if holds:
        run_body("%p: tile<ptr<f32>>", body, [np.zeros(16, np.float32)])
    else:
        fault_of(FaultKind.ASSUMPTION, "%p: tile<ptr<f32>>", body, [np.zeros(16, np.float32)])


def test_assumptions_on_pointers_see_their_addresses():
    body = """
    %d = constant <i32: STEP> : tile<i32>
    %p = offset %x, %d : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %a = assume div_by<16>, %p : tile<ptr<f32>>
    """
    run_body("%x: tile<ptr<f32>>", body.replace("STEP", "4"), [np.zeros(8, np.float32)])
    fault_of(FaultKind.ASSUMPTION, "%x: tile<ptr<f32>>", body.replace("STEP", "3"), [np.zeros(8, np.float32)])
