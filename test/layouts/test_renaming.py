# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layouts through ops that rename elements: no thread's element changes, and none is lost."""

import pytest

from libtile.layouts.linear import LinearLayout
from libtile.layouts.renaming import grown, inverse_permutation, permuted, reshaped, shrunk

SKEWED = LinearLayout.of(
    {"register": [(0, 1), (3, 0)], "lane": [(2, 2), (1, 4), (4, 4), (0, 8), (8, 0)], "warp": [(0, 3)]},
    {"dim0": 16, "dim1": 16},
)
"""A layout most of whose vectors have several bits, as conversions to and from swizzled ones leave them."""


@pytest.mark.parametrize("shape", [(16, 16), (2, 16), (16, 4), (4, 2), (1, 16), (1, 1)])
def test_a_smaller_tile_lies_where_its_repetition_does(shape):
    small = shrunk(SKEWED, shape)
    assert small.shape == shape
    assert small.is_surjective
    for lane in range(32):
        for warp in range(2):
            held = {tuple(small(register=r, lane=lane, warp=warp).values()) for r in range(small.in_size("register"))}
            for register in range(SKEWED.in_size("register")):
                place = SKEWED(register=register, lane=lane, warp=warp).values()
                assert tuple(i % s for i, s in zip(place, shape)) in held


def test_a_reshape_keeps_the_row_major_number():
    flat = reshaped(SKEWED, (256,))
    for lane in range(32):
        row, column = SKEWED(register=3, lane=lane, warp=1).values()
        assert flat(register=3, lane=lane, warp=1) == {"dim0": 16 * row + column}
    assert reshaped(flat, (16, 16)) == SKEWED


def test_a_permutation_and_its_inverse_cancel():
    layout = reshaped(SKEWED, (4, 8, 8))
    order = (2, 0, 1)
    moved = permuted(layout, order)
    assert moved.shape == (8, 4, 8)
    assert permuted(moved, inverse_permutation(order)) == layout


def test_a_broadcast_repeats_in_registers():
    column = shrunk(SKEWED, (16, 1))
    wide = grown(column, (16, 8))
    assert wide.shape == (16, 8)
    assert wide.basis("lane") == column.basis("lane")
    assert wide.in_size("register") == 8 * column.in_size("register")
