# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program that a tile block runs where programs are taken in groups of rows (see `lowering/order_programs.py`)."""

from __future__ import annotations

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.launch_control import AXES
from libtile.codegen.llvm_types import I32, I64

_MOST = 1 << 31
"""Programs along the first two axes, beyond which their numbers do not fit 32 bits: they stay in the grid's order."""


def grouped(b: KernelBuilder, together: int) -> list[Value]:
    """The indices (i32) of the program of this block along x, y and z: in groups of `together` along x, each through
    all of y; the last group has what is left."""
    x, y, z = (b.block_id(axis) for axis in AXES)
    width, height = b.num_blocks("x"), b.num_blocks("y")
    all_of_them = b.mul(b.cast("zext", width, I64), b.cast("zext", height, I64))
    fits = b.compare("ult", all_of_them, integer(I64, _MOST))
    # Without groups the number is not used, and nothing is divided by zero.
    number = b.select(fits, b.add(x, b.mul(y, width)), integer(I32, 0))
    whole = b.mul(height, integer(I32, together))
    group = b.binary("udiv", number, whole)
    rest = b.binary("sub", number, b.mul(group, whole))
    first = b.mul(group, integer(I32, together))
    left = b.binary("sub", width, first)
    rows = b.select(b.compare("ult", left, integer(I32, together)), left, integer(I32, together))
    column = b.binary("udiv", rest, rows)
    row = b.add(first, b.binary("sub", rest, b.mul(column, rows)))
    return [b.select(fits, row, x), b.select(fits, column, y), z]
