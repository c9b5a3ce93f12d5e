# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which ops of the dialect compute each element of their results from those of the operands at its place."""

from __future__ import annotations

from xdsl.ir import Operation

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType

NOT_ELEMENTWISE = frozenset(
    {
        *("constant", "iota", "broadcast", "reshape", "permute", "cat", "extract", "insert", "pack", "unpack"),
        *("mmaf", "mmai", "mmaf_scaled", "assert", "print_tko", "alloca", "assume", "yield"),
    }
)
"""Ops without regions whose operands and results may be tiles of one shape, and that are not elementwise."""


def is_elementwise(op: Operation) -> bool:
    """Whether the op computes, without effects, each element of its results from those of the operands at its place."""
    if not isinstance(op, CudaTileOp) or op.regions or not op.results:
        return False
    if op.spec.name in NOT_ELEMENTWISE or not (op.spec.has_trait("pure") or op.spec.has_trait("no_memory_effect")):
        return False
    type_ = op.results[0].type
    return isinstance(type_, TileType) and all(
        isinstance(value.type, TileType) and value.type.shape == type_.shape for value in (*op.operands, *op.results)
    )
