# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A split loop does what the loop did, for bounds at the ends of the number range too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from xdsl.context import Context

import libtile
from libtile.transforms.loop_split import LoopSplitPass

PREDICATES = ["less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"]

TEXT = """
cuda_tile.module @m {{
  entry @kernel(%out: tile<ptr<i32>>, %lb: tile<i8>, %ub: tile<i8>, %step: tile<i8>, %bound: tile<i8>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %start = constant <i8: {start}> : tile<i8>
    %stride = constant <i8: {stride}> : tile<i8>
    %end = for {unsigned}%iv in ({lower} to %ub, step {step}) : tile<i8> iter_values(%sum = %zero) -> (tile<i32>) {{
      %side = cmpi {compare}, {signedness} : tile<i8> -> tile<i1>
      %digit = if %side -> (tile<i32>) {{
        yield %one : tile<i32>
      }} else {{
        yield %two : tile<i32>
      }}
      %shifted = muli %sum, %three : tile<i32>
      %next = addi %shifted, %digit : tile<i32>
      continue %next : tile<i32>
    }}
    store_ptr_tko weak %out, %end : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}
"""
"""The digits, to base three, say on which side of the bound each iteration was."""


def digits(predicate: str, lower: int, upper: int, step: int, bound: int) -> int:
    """What the kernel computes, in Python."""
    holds = {
        "less_than": lambda i: i < bound,
        "less_than_or_equal": lambda i: i <= bound,
        "greater_than": lambda i: i > bound,
        "greater_than_or_equal": lambda i: i >= bound,
    }[predicate]
    total = 0
    for i in range(lower, upper, step):
        total = (total * 3 + (1 if holds(i) else 2)) % 2**32
    return total


def split(text: str) -> libtile.Module:
    module = libtile.parse(text)
    assert str(module).count(" for ") == 1
    LoopSplitPass().apply(Context(), module.op)  # type: ignore[arg-type]
    libtile.verify(module)
    assert str(module).count(" for ") == 2
    return module


def ranges(least: int, greatest: int) -> list[tuple[int, int, int, int]]:
    """Lower and upper end, step and bound: both ends of the type, the middle, empty and short and long ranges.

    Of some the number behind the last one does not fit the type, which ends the loop as well.
    """
    ends = [least, least + 1, -1 if least else 5, 0, 3, greatest - 1, greatest]
    bounds = [least, least + 1, 0, 2, greatest - 1, greatest]
    found = itertools.product(ends, ends, [1, 3, 100], bounds)
    return [case for case in found if case[0] < case[1] or case[3] in (0, least)]


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("predicate", PREDICATES)
def test_a_split_loop_takes_the_side_that_each_iteration_took(predicate: str, unsigned: bool) -> None:
    signedness, keyword = ("unsigned", "unsigned ") if unsigned else ("signed", "")
    text = TEXT.format(
        unsigned=keyword, signedness=signedness, compare=f"{predicate} %iv, %bound", start=0, stride=1,
        lower="%lb", step="%step",
    )  # fmt: skip
    module = split(text)
    for lower, upper, step, bound in ranges(*((0, 255) if unsigned else (-128, 127)))[::5]:
        out = np.zeros(1, np.uint32)
        libtile.run(
            module, "kernel", args=[out, *(np.int8(v - 256 if v > 127 else v) for v in (lower, upper, step, bound))]
        )
        assert out[0] == digits(predicate, lower, upper, step, bound), (lower, upper, step, bound)


@pytest.mark.parametrize(("start", "stride"), [(0, 1), (0, 3), (-128, 1), (-128, 100), (120, 3)])
def test_constant_bounds_are_split_where_dynamic_ones_are(start: int, stride: int) -> None:
    text = TEXT.format(
        unsigned="", signedness="signed", compare="less_than %bound, %iv", start=start, stride=stride,
        lower="%start", step="%stride",
    )  # fmt: skip
    module = split(text)
    for _, upper, _, bound in ranges(-128, 127)[::5]:
        out = np.zeros(1, np.uint32)
        libtile.run(module, "kernel", args=[out, *(np.int8(v) for v in (0, upper, 0, bound))])
        assert out[0] == digits("greater_than", start, upper, stride, bound), (upper, bound)


def test_a_bound_that_changes_in_the_loop_splits_nothing() -> None:
    text = TEXT.format(
        unsigned="", signedness="signed", compare="less_than %iv, %limit", start=0, stride=1, lower="%lb", step="%step"
    )
    text = text.replace(
        "iter_values(%sum = %zero) -> (tile<i32>)",
        "iter_values(%sum = %zero, %limit = %bound) -> (tile<i32>, tile<i8>)",
    )
    text = text.replace("%end = for", "%end, %last = for").replace(
        "continue %next : tile<i32>", "continue %next, %iv : tile<i32>, tile<i8>"
    )
    module = libtile.parse(text)
    before = str(module)
    LoopSplitPass().apply(Context(), module.op)  # type: ignore[arg-type]
    assert str(module) == before
