# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products whose result reaches the next product, or a sum of rows, through conditionals and loops are still chained:
their warps lie along the rows, and nothing is exchanged between them."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import Operation

import libtile
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.lowering.tileas.cleanup import clean_up
from libtile.lowering.to_tileaa.conversion import convert_module as to_tileaa
from libtile.lowering.to_tileas.conversion import convert_module as to_tileas
from libtile.lowering.to_tileas.types import layout_of
from libtile.targets import target

TILE = "tile<64x64xf32>"
DOT = "nv_tileas.dot"

# From the scores %x to the weights %e of the next product; %c and %d hold in half of the tile blocks, %n is 2.
WAYS = {
    "straight": f"%e = exp2 %x : {TILE}",
    "one arm": f"""
      %e = if %c -> ({TILE}) {{
        %m = addf %x, %mask : {TILE}
        yield %m : {TILE}
      }} else {{
        yield %x : {TILE}
      }}""",
    "the other arm": f"""
      %e = if %c -> ({TILE}) {{
        yield %mask : {TILE}
      }} else {{
        %m = mulf %x, %mask : {TILE}
        yield %m : {TILE}
      }}""",
    "both arms": f"""
      %e = if %c -> ({TILE}) {{
        %m = addf %x, %mask : {TILE}
        yield %m : {TILE}
      }} else {{
        %m = mulf %x, %mask : {TILE}
        yield %m : {TILE}
      }}""",
    "nested": f"""
      %e = if %c -> ({TILE}) {{
        %i = if %d -> ({TILE}) {{
          %m = addf %x, %mask : {TILE}
          yield %m : {TILE}
        }} else {{
          yield %mask : {TILE}
        }}
        yield %i : {TILE}
      }} else {{
        yield %mask : {TILE}
      }}""",
    "a loop carries it": f"""
      %e = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%before = %x) -> ({TILE}) {{
        %m = if %c -> ({TILE}) {{
          %m1 = addf %before, %mask : {TILE}
          yield %m1 : {TILE}
        }} else {{
          yield %before : {TILE}
        }}
        continue %m : {TILE}
      }}""",
    "a loop that is left early carries it": f"""
      %e = loop iter_values(%before = %x) : {TILE} -> {TILE} {{
        if %c {{
          break %before : {TILE}
        }}
        %m = addf %before, %mask : {TILE}
        break %m : {TILE}
      }}""",
}
SUM = """
      %r = reduce %e dim=1 identities=[0.0 : f32] : tile<64x64xf32> -> tile<64xf32>
        (%p: tile<f32>, %q: tile<f32>) {
          %r1 = addf %p, %q : tile<f32>
          yield %r1 : tile<f32>
        }"""


def source(way: str, follows: str) -> str:
    """Two products in a loop, or one and a sum of its rows; the operands and results are f16 and f32 in memory."""
    views = [("a", "f16", 64, 64), ("b", "f16", 64, 64), ("v", "f16", 64, 64), ("o", "f32", 64, 64)]
    make, types = "", {}
    for name, element, rows, columns in views:
        tensor = f"tensor_view<{rows}x{columns}x{element}, strides=[{columns},1]>"
        types[name] = f"partition_view<tile=({rows}x{columns}), {tensor}>"
        make += f"""
    %{name}t = make_tensor_view %{name}p, shape = [{rows}, {columns}], strides = [{columns}, 1] : {tensor}
    %{name}v = make_partition_view %{name}t : {types[name]}"""

    def load(name: str, tile: str) -> str:
        return (
            f"%{name}, %{name}k = load_view_tko weak %{name}v[%zero, %zero] : {types[name]}, tile<i32> -> {tile}, token"
        )

    second = """
      %h = ftof %e : tile<64x64xf32> -> tile<64x64xf16>
      %y = mmaf %h, %v, %sum : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>"""
    rows = f"""{SUM}
      %s1 = reshape %r : tile<64xf32> -> tile<64x1xf32>
      %s2 = broadcast %s1 : tile<64x1xf32> -> tile<64x64xf32>
      %y = addf %sum, %s2 : tile<64x64xf32>"""
    return f"""
cuda_tile.module @m {{
  entry @k(%ap: tile<ptr<f16>>, %bp: tile<ptr<f16>>, %vp: tile<ptr<f16>>, %op: tile<ptr<f32>>,
           %n: tile<i32>, %w: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %c = cmpi equal %w, %one, signed : tile<i32> -> tile<i1>
    %d = cmpi less_than %n, %w, signed : tile<i32> -> tile<i1>
    %mask = constant <f32: 0.5> : {TILE}
    %nothing = constant <f32: 0.0> : {TILE}
    %start = constant <f32: 0.0> : tile<64x64xf32>{make}
    {load("a", "tile<64x64xf16>")}
    {load("b", "tile<64x64xf16>")}
    {load("v", "tile<64x64xf16>")}
    %last = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%sum = %start) -> (tile<64x64xf32>) {{
      %x = mmaf %a, %b, %nothing : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      {WAYS[way]}{second if follows == "product" else rows}
      continue %y : tile<64x64xf32>
    }}
    %t = store_view_tko weak %last, %ov[%zero, %zero] : tile<64x64xf32>, {types["o"]}, tile<i32> -> token
    return
  }}
}}
"""


def lowered(text: str, gpu: str) -> Operation:
    inner = to_tileaa(libtile.parse(text).op, target(gpu))
    to_tileas(inner)
    (function,) = (op for op in inner.body.block.ops if op.name == "nv_tileaa.func")
    clean_up(function)
    return function


@pytest.mark.parametrize("follows", ["product", "sum"])
@pytest.mark.parametrize("way", WAYS)
def test_chained_products_keep_rows_in_their_warps(way, follows):
    function = lowered(source(way, follows), "sm_80")
    products = [op for op in function.walk() if op.name == DOT]
    assert len(products) == 1 + (follows == "product")
    for product in products:
        assert layout_of(product.results[0]).basis("warp") == ((16, 0), (32, 0))
    loop = products[0].parent_op()
    assert loop is not None and loop.name == "scf.for"
    if "scf.while" in (op.name for op in loop.walk()):
        return  # what only one of its two blocks uses has the layout of a load
    moved = [op.results[0].type.get_shape() for op in loop.walk() if isinstance(op, ConvertLayoutOp)]
    assert (64, 64) not in moved, "scores and weights stay where they are"


def test_a_product_that_an_arm_computes_is_chained_with_the_sum_behind_the_conditional():
    arm = f"""
      %e = if %c -> ({TILE}) {{
        %x = mmaf %a, %b, %nothing : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
        yield %x : {TILE}
      }} else {{
        yield %mask : {TILE}
      }}"""
    text = source("straight", "sum")
    product, straight = (line for line in text.splitlines() if "%x = mmaf" in line or "%e = exp2" in line)
    text = text.replace(product, "").replace(straight, arm)
    (found,) = (op for op in lowered(text, "sm_80").walk() if op.name == DOT)
    assert layout_of(found.results[0]).basis("warp") == ((16, 0), (32, 0))


def check(way: str, gpu: str) -> None:
    """Interpreter and simulator agree, whichever arms are taken."""
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-2, 3, shape).astype(np.float16) / 4 for shape in ((64, 64),) * 3]
    module = libtile.parse(source(way, "product"))
    for where in (1, 3):
        results = []
        for backend in ("interpreter", "simulator"):
            out = np.zeros((64, 64), np.float32)
            libtile.run(module, "k", args=[*inputs, out, 2, where], backend=backend, gpu_name=gpu, check="full")
            results.append(out)
        np.testing.assert_allclose(*results, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("way", "gpu"), [("nested", "sm_90"), ("a loop carries it", "sm_80")])
def test_chained_products_compute_what_the_interpreter_computes(way, gpu):
    check(way, gpu)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("way", WAYS)
def test_all_chained_products_compute_what_the_interpreter_computes_on_every_target(way, gpu):
    check(way, gpu)
