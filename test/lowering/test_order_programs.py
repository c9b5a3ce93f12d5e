# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocks of a grid take programs in groups of rows: `order-programs`, and what it makes of kernels."""

from __future__ import annotations

import re

import numpy as np
import pytest

import libtile
from libtile.lowering.discardable import LONG_PROGRAMS, PROGRAMS_TOGETHER

TICKETS = """cuda_tile.module @m {
  entry @k(%out: tile<ptr<i32>>, %counter: tile<ptr<i32>>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %a = muli %z, %ny : tile<i32>
    %b = addi %a, %y : tile<i32>
    %c = muli %b, %nx : tile<i32>
    %d = addi %c, %x : tile<i32>
    %ticket, %t = atomic_rmw_tko relaxed device %counter, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %p = offset %out, %d : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %w = store_ptr_tko weak %p, %ticket : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
"""
"""Each program writes how many were there before it."""


def _tickets(grid: tuple[int, int, int], gpu_name: str, said: str) -> list[tuple[int, int, int]]:
    """The programs of a kernel that says something of their order, in the order in which they run."""
    made = libtile.compile(TICKETS.encode(), gpu_name=gpu_name, emit="tileas")
    head, rest = made.tileas.split("nv_tileaa.func", 1)
    text = f"{head}nv_tileaa.func{rest.replace('attributes {', f'attributes {{{said}, ', 1)}"
    out, counter = np.full(int(np.prod(grid)), -1, np.int32), np.zeros(1, np.int32)
    libtile.run(text.encode(), grid=grid, args=[out, counter], backend="simulator", gpu_name=gpu_name)
    assert sorted(out) == list(range(out.size))
    width, height, _ = grid
    return [(at % width, at // width % height, at // width // height) for at in map(int, np.argsort(out))]


def in_groups(grid: tuple[int, int, int], together: int) -> list[tuple[int, int, int]]:
    width, height, depth = grid
    return [
        (x, y, z)
        for z in range(depth)
        for first in range(0, width, together)
        for y in range(height)
        for x in range(first, min(first + together, width))
    ]


@pytest.mark.parametrize("grid", [(1, 1, 1), (3, 2, 1), (4, 4, 2), (9, 3, 1), (10, 1, 1), (1, 10, 2), (13, 5, 2)])
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_each_program_is_run_once_and_in_groups(grid: tuple[int, int, int], gpu_name: str) -> None:
    assert _tickets(grid, gpu_name, f"{PROGRAMS_TOGETHER} = 4 : i64") == in_groups(grid, 4)


def longest_first(grid: tuple[int, int, int], axis: int, last: bool, together: int) -> list[tuple[int, int, int]]:
    def index(other: int, place: int) -> tuple[int, int, int]:
        inner = next(a for a in range(3) if a != axis)
        high, low = divmod(other, grid[inner])
        rest = iter((low, high))
        place = grid[axis] - 1 - place if last else place
        return tuple(place if a == axis else next(rest) for a in range(3))  # type: ignore[return-value]

    others = grid[0] * grid[1] * grid[2] // grid[axis]
    return [
        index(other, place)
        for first in range(0, others, together)
        for place in range(grid[axis])
        for other in range(first, min(first + together, others))
    ]


@pytest.mark.parametrize(("axis", "last"), [(0, True), (0, False), (1, True), (2, True)])
@pytest.mark.parametrize("grid", [(1, 1, 1), (4, 4, 2), (9, 3, 1), (10, 1, 1), (5, 3, 3)])
def test_each_program_is_run_once_and_long_ones_are_first(grid: tuple[int, int, int], axis: int, last: bool) -> None:
    assert _tickets(
        grid, "sm_90", f"{PROGRAMS_TOGETHER} = 4 : i64, {LONG_PROGRAMS} = array<i64: {axis}, {last:d}>"
    ) == (longest_first(grid, axis, last, 4))


PRODUCT = """cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %ta = make_tensor_view %a, shape = [256, 256], strides = [256, 1] : tensor_view<256x256xf16, strides=[256,1]>
    %tb = make_tensor_view %b, shape = [256, 256], strides = [256, 1] : tensor_view<256x256xf16, strides=[256,1]>
    %tc = make_tensor_view %c, shape = [256, 256], strides = [256, 1] : tensor_view<256x256xf32, strides=[256,1]>
    %va = make_partition_view %ta : {half}
    %vb = make_partition_view %tb : {half}
    %vc = make_partition_view %tc : {single}
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%s = %none) -> (tile<64x64xf32>) {{
      %l, %t1 = load_view_tko weak %va[{left}] : {half}, tile<i32> -> tile<64x64xf16>, token
      %r, %t2 = load_view_tko weak %vb[{right}] : {half}, tile<i32> -> tile<64x64xf16>, token
      %d = mmaf %l, %r, %s : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }}
    %w = store_view_tko weak %sum, %vc[%x, %y] : tile<64x64xf32>, {single}, tile<i32> -> token
    {behind}
    return
  }}
}}
"""
VIEWS = {
    name: f"partition_view<tile=(64x64), tensor_view<256x256x{element}, strides=[256,1]>>"
    for name, element in {"half": "f16", "single": "f32"}.items()
}
COUNTS = "%o, %t3 = atomic_rmw_tko relaxed device %c, addf, %f : tile<ptr<f32>>, tile<f32> -> tile<f32>, token"


def _together(text: str) -> int | None:
    """What the compiled kernel says of the order of its programs."""
    made = libtile.compile(text.encode(), gpu_name="sm_90", emit="tileas").tileas
    found = re.search(rf"{PROGRAMS_TOGETHER} = (\d+)", made)
    return int(found[1]) if found is not None else None


@pytest.mark.parametrize(
    ("left", "right", "behind", "together"),
    [
        ("%x, %k", "%k, %y", "", 8),
        ("%y, %k", "%k, %x", "", 8),
        ("%x, %k", "%k, %x", "", None),
        ("%x, %y", "%k, %y", "", None),
        ("%x, %k", "%k, %z", "", None),
        ("%x, %k", "%k, %y", 'print_tko "here\\n" -> token', None),
        ("%x, %k", "%k, %y", f"%f = constant <f32: 1.0> : tile<f32>\n    {COUNTS}", None),
    ],
)
def test_products_whose_operands_are_told_by_an_axis_each_are_ordered(
    left: str, right: str, behind: str, together: int | None
) -> None:
    assert _together(PRODUCT.format(left=left, right=right, behind=behind, **VIEWS)) == together


LOOP = """cuda_tile.module @m {{
  entry @k(%c: tile<ptr<f32>>, %n: tile<i32>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %nx, %ny, %nz = get_num_tile_blocks : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %four = constant <i32: 4> : tile<i32>
    %wide = constant <i32: 132> : tile<i32>
    %half = constant <f16: 0.5> : tile<64x64xf16>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %tc = make_tensor_view %c, shape = [256, 256], strides = [256, 1] : tensor_view<256x256xf32, strides=[256,1]>
    %vc = make_partition_view %tc : {single}
    {before}
    %sum = for %k in ({bounds}) : tile<i32> iter_values(%s = %none) -> (tile<64x64xf32>) {{
      %d = mmaf %half, %half, %s : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %d : tile<64x64xf32>
    }}
    %w = store_view_tko weak %sum, %vc[%x, %y] : tile<64x64xf32>, {single}, tile<i32> -> token
    return
  }}
}}
"""
NEXT = "%next = addi %{0}, %one : tile<i32>\n"
CAUSAL = f"""{NEXT}    %rows = muli %next, %four : tile<i32>
    %most = divi %rows, %four signed rounding<positive_inf> : tile<i32>
    %end = mini %n, %most signed : tile<i32>"""
WINDOW = """%before = subi %x, %wide : tile<i32>
    %first = maxi %before, %zero signed : tile<i32>"""
TWO_LOOPS = """%whole = muli %x, %four : tile<i32>
    %rest = subi %rows, %whole : tile<i32>
    %masked = divi %rest, %four signed rounding<positive_inf> : tile<i32>
    %both = addi %end, %masked : tile<i32>"""
EARLY = """%stop = cmpi less_than %n, %one, signed : tile<i32> -> tile<i1>
    if %stop {
      return
    }"""
TILES = "%last = muli %next, %four : tile<i32>"


@pytest.mark.parametrize(
    ("before", "bounds", "long"),
    [
        (CAUSAL.format("x"), "%zero to %end, step %one", "0, 1"),
        (CAUSAL.format("y"), "%zero to %end, step %one", "1, 1"),
        (NEXT.format("x") + TILES, "%zero to %last, step %four", "0, 1"),
        ("%first = muli %x, %four : tile<i32>", "%first to %n, step %four", "0, 0"),
        (
            "%first = muli %y, %four : tile<i32>",
            "%first to %n, step %four",
            None,
        ),  # in the grid's order long ones are first
        ("%first = muli %x, %four : tile<i32>\n" + NEXT.format("x") + TILES, "%first to %last, step %one", None),
        # A window: as many turns along x but at its ends. And what frontends make of two loops.
        (f"{WINDOW}\n{CAUSAL.format('x')}", "%first to %end, step %one", None),
        (f"{CAUSAL.format('x')}\n{TWO_LOOPS}", "%zero to %both, step %one", "0, 1"),
        (f"{CAUSAL.format('x')}\n%last = muli %end, %y : tile<i32>", "%zero to %last, step %one", None),
        (f"{CAUSAL.format('x')}\n{EARLY}", "%zero to %end, step %one", "0, 1"),
        ("", "%x to %n, step %wide", None),
        ("", "%x to %n, step %nx", None),
        ("%end = muli %x, %y : tile<i32>", "%zero to %end, step %one", None),
        ("", "%zero to %n, step %one", None),
    ],
)
def test_programs_whose_loop_is_longer_along_an_axis_start_longest_first(
    before: str, bounds: str, long: str | None
) -> None:
    text = LOOP.format(before=before, bounds=bounds, single=VIEWS["single"])
    made = libtile.compile(text.encode(), gpu_name="sm_90", emit="tileas").tileas
    found = re.search(rf"{LONG_PROGRAMS} = array<i64: (\d, \d)>", made)
    assert (found and found[1]) == long
