# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`infer-assumptions`: what is stated of the numbers that accesses are made of, and what is not."""

from __future__ import annotations

import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline

ADDRESSES = """%count = iota : tile<16x{bits}>
  %n1 = reshape %n : tile<{bits}> -> tile<1x{bits}>
  %nb = broadcast %n1 : tile<1x{bits}> -> tile<16x{bits}>
  %at = addi %nb, %count : tile<16x{bits}>
  %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
  %base = broadcast %p1 : tile<1xptr<f32>> -> tile<16xptr<f32>>
  %q = offset %base, %at : tile<16xptr<f32>>, tile<16x{bits}> -> tile<16xptr<f32>>
"""
TYPE = "tensor_view<?x16xf32, strides=[?,1]>"
TILES = f"partition_view<tile=(2x16), {TYPE}>"


def stated(body: str, options: str = "") -> list[str]:
    """What is stated beyond what the program states, once and in the same order when the pass runs again."""
    text = f"""cuda_tile.module @m {{ entry @k(%a: tile<ptr<f32>>, %x: tile<i32>, %y: tile<i32>) {{
      {body}
      return }} }}"""
    module = libtile.parse(text)
    PassManager(parse_pipeline(f"infer-assumptions{options}")).run(module.op)
    libtile.verify(module)
    once = str(module)
    PassManager(parse_pipeline("infer-assumptions")).run(module.op)
    assert options or str(module) == once
    found = [line.split(" assume ")[1].rsplit(", %", 1)[0] for line in once.splitlines() if " assume " in line]
    given = [line.split(" assume ")[1].rsplit(", %", 1)[0] for line in text.splitlines() if " assume " in line]
    for fact in given:
        found.remove(fact)
    return found


def pointers(assumed: str, bits: str = "i32", mask: str = "") -> str:
    number = "%n = exti %m signed : tile<i32> -> tile<i64>\n" if bits == "i64" else ""
    number = f"%m = assume {assumed}, %x : tile<i32>\n{number}".replace("%m =", "%n =" if bits == "i32" else "%m =")
    access = "%v, %t = load_ptr_tko weak %q : tile<16xptr<f32>> -> tile<16xf32>, token"
    if mask:
        access = access.replace("%q :", "%q, %k :").replace("ptr<f32>> ->", "ptr<f32>>, tile<16xi1> ->")
    aligned = "%p = assume div_by<16>, %a : tile<ptr<f32>>\n"
    return aligned + number + ADDRESSES.format(bits=bits) + mask + access


@pytest.mark.parametrize(
    ("assumed", "bits", "expected"),
    [
        ("div_by<4>", "i32", ["div_by<16, every 16 along 0>"]),
        ("div_by<2>", "i32", ["div_by<8, every 16 along 0>"]),
        ("div_by<4>", "i64", ["div_by<16, every 16 along 0>"]),
    ],
)
def test_runs_of_pointers_are_stated_with_what_divides_their_first(assumed, bits, expected):
    assert stated(pointers(assumed, bits)) == expected


def test_equal_elements_of_masks_are_stated():
    mask = """%m = assume div_by<8>, %y : tile<i32>
      %m1 = reshape %m : tile<i32> -> tile<1xi32>
      %mb = broadcast %m1 : tile<1xi32> -> tile<16xi32>
      %k = cmpi less_than %at, %mb, signed : tile<16xi32> -> tile<16xi1>
      """
    found = stated(pointers("div_by<16>", mask=mask))
    assert found == ["div_by<16, every 16 along 0>", "same_elements<[8]>"]


VIEW = f"""%size = assume bounded<4, 1000>, %x : tile<i32>
  %stride = assume div_by<4>, %y : tile<i32>
  %eight = constant <i32: 8> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  %more = addi %size, %eight : tile<i32>
  %wide = muli %stride, %eight : tile<i32>
  %tensor = make_tensor_view %a, shape = [%more, 16], strides = [%wide, 1] : tile<i32> -> {TYPE}
  %view = make_partition_view %tensor : {TILES}
  for %i in (%one to %size, step %one) : tile<i32> {{
    %v, %t = load_view_tko weak %view[%i, %zero] : {TILES}, tile<i32> -> tile<2x16xf32>, token
  }}"""


def test_sizes_strides_and_indices_are_bounded_and_divided():
    assert stated(VIEW) == ["bounded<12, 1008>", "div_by<32>", "bounded<1, 999>"]
    assert stated(VIEW, "{bounds=false}") == ["div_by<32>"]
    assert stated(VIEW, "{divisors=false}") == ["bounded<12, 1008>", "bounded<1, 999>"]


def test_nothing_is_stated_of_what_may_wrap_around_or_is_stated_already():
    assert stated(VIEW.replace("bounded<4, 1000>", "bounded<4, 2147483647>"))[:1] == ["div_by<32>"]
    assert stated(VIEW.replace("%more, 16]", "%size, 16]").replace("%wide, 1]", "%stride, 1]")) == ["bounded<1, 999>"]


def test_of_what_never_runs_no_bounds_are_stated():
    """A loop from 5 to -2 has no iteration, and its number no value."""
    body = f"""
      %from = constant <i32: 5> : tile<i32>
      %to = constant <i32: -2> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %p = assume div_by<16>, %a : tile<ptr<f32>>
      %v = make_tensor_view %p, shape = [%x, 16], strides = [16, 1] : tile<i32> -> {TYPE.replace("?,1", "16,1")}
      %w = make_partition_view %v : {TILES.replace("?,1", "16,1")}
      for %i in (%from to %to, step %one) : tile<i32> {{
        %t, %k = load_view_tko weak %w[%i, %one] : {TILES.replace("?,1", "16,1")}, tile<i32> -> tile<2x16xf32>, token
        %s = store_view_tko weak %t, %w[%y, %i] : tile<2x16xf32>, {TILES.replace("?,1", "16,1")}, tile<i32> -> token
      }}"""
    assert not any("bounded" in fact for fact in stated(body))
