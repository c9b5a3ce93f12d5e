# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of Tile IR: which loops multiply tiles, and which tiles are multiplied."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, f32
from libtile.dialects.effect_traits import accessed
from libtile.dialects.interfaces import body
from libtile.transforms.canonical_values import is_op

PRODUCTS = ("mmaf", "mmai", "mmaf_scaled")


def multiplies(loop: Operation) -> bool:
    """Whether a product stands right in the body of a `for`."""
    return any(is_op(op, *PRODUCTS) for op in body(loop).ops)


def multiplied(ops: Iterable[CudaTileOp]) -> set[SSAValue]:
    """The tiles that tensor cores take as operands of these products, be it behind ops on their elements.

    None takes operands of f32, and what a tile is loaded from is no operand of what it goes into.
    """
    found: set[SSAValue] = set()
    pending = [
        operand
        for op in ops
        if is_op(op, *PRODUCTS)
        for operand in (op.operand("lhs"), op.operand("rhs"))
        if isinstance(operand.type, TileType) and operand.type.element_type != f32
    ]
    while pending:
        value = pending.pop()
        if value in found:
            continue
        found.add(value)
        op = value.owner
        if isinstance(op, CudaTileOp) and not op.regions and accessed(op) is None:
            pending += [operand for operand in op.operands if isinstance(operand.type, TileType)]
    return found
