# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which bodies of reductions may get their arguments in either order, and that those are reduced cheaply and right."""

import numpy as np
import pytest

import libtile
from libtile.lowering.tileas.exchanges.commuting import commutes
from libtile.lowering.to_tileaa.conversion import convert_module as to_tileaa
from libtile.lowering.to_tileas.conversion import convert_module as to_tileas
from libtile.targets import target

FIRST = """
  %less = cmpi less_than %i, %j, {sign} : tile<i32> -> tile<i1>"""
CHOICE = """
  %value = select %c, %x, %y : tile<i1>, tile<f32>
  %index = select %c, %i, %j : tile<i1>, tile<i32>
  yield %value, %index : tile<f32>, tile<i32>"""
BOTH_WAYS = (
    """
  %above = cmpf greater_than ordered %x, %y : tile<f32> -> tile<i1>
  %equal = cmpf equal ordered %x, %y : tile<f32> -> tile<i1>
  %tie = andi %equal, %less : tile<i1>
  %c = ori %above, %tie : tile<i1>"""
    + CHOICE
)
WITH_NAN = (
    """
  %above = cmpf greater_than ordered %x, %y : tile<f32> -> tile<i1>
  %equal = cmpf equal ordered %x, %y : tile<f32> -> tile<i1>
  %nan_x = cmpf not_equal unordered %x, %x : tile<f32> -> tile<i1>
  %nan_y = cmpf not_equal unordered %y, %y : tile<f32> -> tile<i1>
  %number_y = cmpf equal ordered %y, %y : tile<f32> -> tile<i1>
  %only_x = andi %nan_x, %number_y : tile<i1>
  %before = ori %above, %only_x : tile<i1>
  %both = andi %nan_x, %nan_y : tile<i1>
  %alike = ori %equal, %both : tile<i1>
  %tie = andi %alike, %less : tile<i1>
  %c = ori %before, %tie : tile<i1>"""
    + CHOICE
)
NO_TIES = "\n  %c = cmpf greater_than_or_equal ordered %x, %y : tile<f32> -> tile<i1>" + CHOICE
SIGNED, UNSIGNED = FIRST.format(sign="signed"), FIRST.format(sign="unsigned")

ROWS, COLUMNS = 512, 8


def argmax(body: str, *, index: str = "%range") -> str:
    """A kernel that reduces pairs of values and indices along the first dimension."""
    tile, row = f"tile<{ROWS}x{COLUMNS}x", f"tile<{COLUMNS}x"
    return f"""cuda_tile.module @m {{ entry @k(%from: tile<ptr<f32>>, %to: tile<ptr<i32>>) {{
      %t = make_token : token
      %zero = constant <i32: 0> : tile<i32>
      %v = make_tensor_view %from, shape = [{ROWS}, {COLUMNS}], strides = [{COLUMNS}, 1] : tensor_view<{ROWS}x{COLUMNS}xf32, strides=[{COLUMNS},1]>
      %p = make_partition_view %v : partition_view<tile=({ROWS}x{COLUMNS}), tensor_view<{ROWS}x{COLUMNS}xf32, strides=[{COLUMNS},1]>>
      %data, %t1 = load_view_tko weak %p[%zero, %zero] token = %t : partition_view<tile=({ROWS}x{COLUMNS}), tensor_view<{ROWS}x{COLUMNS}xf32, strides=[{COLUMNS},1]>>, tile<i32> -> {tile}f32>, token
      %line = iota : tile<{ROWS}xi32>
      %standing = reshape %line : tile<{ROWS}xi32> -> tile<{ROWS}x1xi32>
      %range = broadcast %standing : tile<{ROWS}x1xi32> -> {tile}i32>
      %twice = addi %range, %range : {tile}i32>
      %r:2 = reduce %data, {index} dim=0 identities=[0xFF800000 : f32, 0 : i32] : {tile}f32>, {tile}i32> -> {row}f32>, {row}i32>
      (%x: tile<f32>, %y: tile<f32>, %i: tile<i32>, %j: tile<i32>) {{{body}
      }}
      %w = make_tensor_view %to, shape = [{COLUMNS}], strides = [1] : tensor_view<{COLUMNS}xi32, strides=[1]>
      %q = make_partition_view %w : partition_view<tile=({COLUMNS}), tensor_view<{COLUMNS}xi32, strides=[1]>>
      %t2 = store_view_tko weak %r#1, %q[%zero] token = %t1 : {row}i32>, partition_view<tile=({COLUMNS}), tensor_view<{COLUMNS}xi32, strides=[1]>>, tile<i32> -> token
      return
    }} }}"""  # noqa: E501 - views and their types are long


def single(element: str, body: str) -> str:
    """A kernel that reduces one tile."""
    return f"""cuda_tile.module @m {{ entry @k() {{
      %data = constant <{element}: 1> : tile<64x{element}>
      %r = reduce %data dim=0 identities=[0 : {element}] : tile<64x{element}> -> tile<{element}>
      (%x: tile<{element}>, %y: tile<{element}>) {{ {body} }}
      print_tko "%i", %r : tile<{element}> -> token
      return
    }} }}"""


def body_commutes(text: str) -> bool:
    inner = to_tileaa(libtile.parse(text).op, target("sm_80"))
    to_tileas(inner)
    (op,) = (op for op in inner.walk() if op.name == "nv_tileas.reduce")
    return commutes(op)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("addi %x, %y", True), ("addi %y, %x", True), ("subi %x, %y", False), ("addi %x, %x", False),
        ("xori %x, %y", True), ("maxi %x, %y signed", True),
    ],
)  # fmt: skip
def test_one_op(op, expected):
    assert body_commutes(single("i32", f"%r = {op} : tile<i32>\n yield %r : tile<i32>")) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("%c = cmpi less_than %x, %y, signed : tile<i32> -> tile<i1>", True),
        ("%c = cmpi less_than_or_equal %x, %y, unsigned : tile<i32> -> tile<i1>", True),
        ("%c = cmpi equal %x, %y, signed : tile<i32> -> tile<i1>", False),
        ("%one = constant <i32: 1> : tile<i32>\n%c = cmpi less_than %x, %one, signed : tile<i32> -> tile<i1>", False),
    ],
)
def test_a_choice_by_order(body, expected):
    chosen = f"{body}\n%r = select %c, %x, %y : tile<i1>, tile<i32>\n yield %r : tile<i32>"
    assert body_commutes(single("i32", chosen)) is expected


def test_ops_on_both_arguments_that_commute_in_turn():
    text = "%s = addi %x, %y : tile<i32>\n%p = muli %x, %y : tile<i32>\n%r = subi %s, %p : tile<i32>\n"
    assert body_commutes(single("i32", text + "yield %r : tile<i32>"))
    assert not body_commutes(single("i32", text.replace("subi %s, %p", "subi %x, %p") + "yield %r : tile<i32>"))


@pytest.mark.parametrize(
    ("body", "index", "expected"),
    [
        (SIGNED + WITH_NAN, "%range", True),
        (UNSIGNED + WITH_NAN, "%range", True),
        (SIGNED + BOTH_WAYS, "%range", False),  # a number and a NaN: the second, in either order
        (NO_TIES, "%range", False),
        (SIGNED + WITH_NAN, "%twice", False),  # equal indices cannot be excluded there, and 0 and -0 are equal
    ],
)
def test_argmax_commutes_if_it_orders_everything_and_indices_differ(body, index, expected):
    assert body_commutes(argmax(body, index=index)) is expected


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("body", "most"), [(SIGNED + WITH_NAN, 32), (SIGNED + BOTH_WAYS, 88)])
def test_argmax_is_right_and_shuffles_little(body, most, gpu):
    rng = np.random.default_rng(0)
    data = rng.integers(-20, 20, (ROWS, COLUMNS)).astype(np.float32)
    data[:, 2], data[::2, 2] = 0.0, -0.0
    if body == SIGNED + WITH_NAN:
        data[rng.integers(0, ROWS, 3), 1] = np.nan
    module = libtile.parse(argmax(body))
    got = np.zeros(COLUMNS, np.int32)
    libtile.run(module, "k", grid=(1, 1, 1), args=[data, got], backend="simulator", gpu_name=gpu)
    np.testing.assert_array_equal(got, data.argmax(axis=0))
    made = libtile.compile(module, gpu_name=gpu)
    assert made.kernels["k"].spills == 0
    assert made.ptx.count("shfl.sync") <= most
