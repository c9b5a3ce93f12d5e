# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program that a tile block runs where blocks take programs in another order than that of the grid (see
`lowering/order_programs.py`)."""

from __future__ import annotations

from libtile.codegen.builder import AXES, KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I32, I64

_MOST = 1 << 31
"""Programs, beyond which their numbers do not fit 32 bits: they stay in the grid's order."""


def grouped(b: KernelBuilder, together: int) -> list[Value]:
    """The indices (i32) of the program of this block along x, y and z: in groups of `together` along x, each through
    all of y; the last group has what is left."""
    x, y, z = (b.block_id(axis) for axis in AXES)
    width, height = b.num_blocks("x"), b.num_blocks("y")
    fits = _fits(b, b.cast("zext", width, I64), height)
    # Without groups the number is not used, and nothing is divided by zero.
    number = b.select(fits, b.add(x, b.mul(y, width)), integer(I32, 0))
    row, column = _in_groups(b, number, width, height, integer(I32, together))
    return [b.select(fits, row, x), b.select(fits, column, y), z]


def longest_first(b: KernelBuilder, along: int, *, last: bool, together: int) -> list[Value]:
    """The indices (i32) of the program of this block along x, y and z: from the first one to the last one along an
    axis, or from the last one if these are the longest, each through `together` of all others, then the next of these.
    """
    ids, sizes = [b.block_id(axis) for axis in AXES], [b.num_blocks(axis) for axis in AXES]
    inner, outer = (axis for axis in range(len(AXES)) if axis != along)
    fits = _fits(b, b.mul(b.cast("zext", sizes[0], I64), b.cast("zext", sizes[1], I64)), sizes[2])
    number = b.add(ids[0], b.mul(sizes[0], b.add(ids[1], b.mul(sizes[1], ids[2]))))
    number = b.select(fits, number, integer(I32, 0))
    others = b.select(fits, b.mul(sizes[inner], sizes[outer]), integer(I32, 1))
    most = b.select(b.compare("ult", others, integer(I32, together)), others, integer(I32, together))
    other, place = _in_groups(b, number, others, sizes[along], most)
    if last:
        place = b.binary("sub", b.add(sizes[along], integer(I32, -1)), place)
    high = b.binary("udiv", other, sizes[inner])
    low = b.binary("sub", other, b.mul(high, sizes[inner]))
    found = {along: place, inner: low, outer: high}
    return [b.select(fits, found[axis], ids[axis]) for axis in range(len(AXES))]


def _fits(b: KernelBuilder, programs: Value, times: Value) -> Value:
    """Whether a count (i64) times another one (i32) stays below what numbers of 32 bits are for. All axes together
    have less than 2 to the power of 63."""
    return b.compare("ult", b.mul(programs, b.cast("zext", times, I64)), integer(I64, _MOST))


def _in_groups(b: KernelBuilder, number: Value, width: Value, height: Value, together: Value) -> tuple[Value, Value]:
    """The row, of `width` ones, and the column that a number stands for, in groups of rows each through all columns."""
    whole = b.mul(height, together)
    group = b.binary("udiv", number, whole)
    rest = b.binary("sub", number, b.mul(group, whole))
    first = b.mul(group, together)
    left = b.binary("sub", width, first)
    rows = b.select(b.compare("ult", left, together), left, together)
    column = b.binary("udiv", rest, rows)
    return b.add(first, b.binary("sub", rest, b.mul(column, rows))), column
