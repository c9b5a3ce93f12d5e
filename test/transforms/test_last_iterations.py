# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches that a loop takes in its last iteration only: `simplify-integers` asks for the number of that one."""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import statistics

BLOCKS, MOST = 5, 16
REWRITTEN = "branches of last iterations"


def kernel(condition: str, bound: str, rows: int = 64, columns: int = 64, unsigned: str = "", first: int = 0) -> str:
    """A loop of tiles of columns for each block of rows: what a branch makes of the counter is stored for each."""
    return f"""cuda_tile.module @m {{ entry @k(%to: tile<ptr<i32>>, %n: tile<i32>) {{
        %b, %y, %z = get_tile_block_id : tile<i32>
        %first = constant <i32: {first}> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %rows = constant <i32: {rows}> : tile<i32>
        %columns = constant <i32: {columns}> : tile<i32>
        %most = constant <i32: {MOST}> : tile<i32>
        %start = muli %b, %rows : tile<i32>
        %b1 = addi %b, %one : tile<i32>
        %end = muli %b1, %rows : tile<i32>
        %tiles = divi %end, %columns signed rounding<positive_inf> : tile<i32>
        {bound}
        %mine = muli %b, %most : tile<i32>
        for {unsigned}%i in (%first to %bound, step %one) : tile<i32> {{
          %i1 = addi %i, %one : tile<i32>
          %begin = muli %i, %columns : tile<i32>
          %behind = muli %i1, %columns : tile<i32>
          %c = cmpi {condition} : tile<i32> -> tile<i1>
          %v = if %c -> (tile<i32>) {{
            %d = subi %start, %begin : tile<i32>
            %e = muli %d, %most : tile<i32>
            %f = addi %e, %i1 : tile<i32>
            yield %f : tile<i32>
          }} else {{
            %g = subi %first, %i1 : tile<i32>
            yield %g : tile<i32>
          }}
          %at = addi %mine, %i : tile<i32>
          %p = offset %to, %at : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
          store_ptr_tko weak %p, %v : tile<ptr<i32>>, tile<i32> -> token
          continue
        }}
        return }} }}"""


def results(module: libtile.Module, n: int) -> np.ndarray:
    memory = np.zeros(BLOCKS * MOST, np.int32)
    libtile.run(module, "k", grid=BLOCKS, args=[memory, n])
    return memory


def is_rewritten(text: str) -> bool:
    """Whether the pass knows the last iteration; the kernel does the same with it as without, for any bound."""
    before, after = libtile.parse(text), libtile.parse(text)
    with statistics.collect() as counted:
        PassManager(parse_pipeline("simplify-integers"), verify_each=True).run(after.op)
    for n in (-1, 0, 1, 2, 4, 9):
        np.testing.assert_array_equal(results(after, n), results(before, n), f"{n} tiles")
    assert ("cmpi equal" in str(after)) == bool(counted.get(REWRITTEN))
    return bool(counted.get(REWRITTEN))


SMALLER = "%bound = mini %n, %tiles signed : tile<i32>"
CAUSAL = "greater_than %behind, %start, signed"


@pytest.mark.parametrize(
    ("condition", "bound"),
    [
        (CAUSAL, SMALLER),
        (CAUSAL, "%bound = mini %tiles, %n signed : tile<i32>"),
        ("less_than %start, %behind, signed", SMALLER),
        ("greater_than_or_equal %begin, %start, signed", SMALLER),
        ("greater_than_or_equal %i, %b, signed", SMALLER),
        ("greater_than %i1, %b, signed", "%bound = mini %n, %b1 signed : tile<i32>"),
        (CAUSAL, "%far = mini %n, %most signed : tile<i32>\n%bound = mini %far, %tiles signed : tile<i32>"),
    ],
)
def test_the_counter_is_known_where_a_condition_holds_in_the_last_iteration_only(condition, bound):
    assert is_rewritten(kernel(condition, bound))


@pytest.mark.parametrize(
    ("condition", "bound", "rows", "columns"),
    [
        (CAUSAL, SMALLER, 128, 64),  # the last two
        (CAUSAL, SMALLER, 64, 128),  # which of the blocks of rows ends a tile of columns is not known
        (CAUSAL, SMALLER, 48, 32),
        (CAUSAL, "%bound = mini %most, %b1 signed : tile<i32>\n%more = addi %bound, %one : tile<i32>", 64, 64),
        ("greater_than_or_equal %behind, %start, signed", SMALLER, 64, 64),  # the last but one, too
        ("less_than %behind, %end, signed", SMALLER, 64, 64),  # all but the last
        ("greater_than %begin, %start, signed", SMALLER, 64, 64),  # none
        ("greater_than_or_equal %i, %b, signed", "%bound = mini %n, %most signed : tile<i32>", 64, 64),
        ("greater_than %behind, %n, signed", SMALLER, 64, 64),
    ],
)
def test_conditions_stay_that_hold_in_others_or_in_none_or_nobody_knows(condition, bound, rows, columns):
    text = kernel(condition, bound, rows, columns)
    if "%more" in bound:
        text = text.replace("%first to %bound", "%first to %more")
    assert not is_rewritten(text)


def test_a_loop_whose_bounds_have_no_sign_keeps_its_conditions():
    bound = "%bound = mini %most, %b1 signed : tile<i32>"
    assert is_rewritten(kernel(CAUSAL, bound))
    assert not is_rewritten(kernel(CAUSAL, bound, unsigned="unsigned "))


def test_a_loop_that_begins_later_has_the_same_last_iteration():
    assert is_rewritten(kernel(CAUSAL, SMALLER, first=2))


def test_a_condition_that_is_a_number_as_well_stays():
    number = "%w = exti %c unsigned : tile<i1> -> tile<i32>"
    assert not is_rewritten(kernel(CAUSAL, SMALLER).replace("%at = addi", f"{number}\n%at = addi"))
