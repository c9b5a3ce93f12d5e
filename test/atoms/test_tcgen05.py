# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where results lie in tensor memory, and in registers of threads that have rows of them."""

import pytest

from libtile.atoms import tcgen05
from libtile.layouts import LANE, REGISTER, WARP


@pytest.mark.parametrize(("rows", "warps"), [(128, 4), (256, 8)])
def test_each_warp_has_the_rows_of_the_lanes_that_it_reaches(rows, warps):
    layout = tcgen05.row_layout((rows, 32), warps)
    assert tcgen05.row_warps(rows) == warps
    for warp in range(warps):
        row, column = layout(**{REGISTER: 5, LANE: 3, WARP: warp}).values()
        block, lane = divmod(row, tcgen05.LANES)
        assert (block, lane // tcgen05.WARP_LANES, column) == (warp // 4, warp % 4, 5)


@pytest.mark.parametrize(("rows", "warps"), [(128, 8), (256, 4), (512, 16)])
def test_other_numbers_of_warps_have_no_rows(rows, warps):
    with pytest.raises(ValueError, match=f"{warps} warps do not have rows of {rows}x32"):
        tcgen05.row_layout((rows, 32), warps)


@pytest.mark.parametrize("columns", [32, 64, 128])
def test_blocks_of_rows_lie_columns_apart_that_the_layout_tells(columns):
    whole, part = tcgen05.memory_layout((256, columns)), tcgen05.memory_layout((256, 32), columns)
    assert tcgen05.block_columns(whole) == tcgen05.block_columns(part) == columns
    left = tcgen05.left_layout((256, columns), 16)
    assert tcgen05.block_columns(left) == columns // 2
    for layout in (whole, part):
        place = {tcgen05.ROW: 7, tcgen05.COLUMN: columns + 3}
        assert (*layout(**place).values(),) == (tcgen05.LANES + 7, 3)
