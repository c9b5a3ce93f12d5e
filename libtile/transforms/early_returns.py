# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that return before they multiply: sequences of different lengths, of which a grid has as many tile blocks as
the longest one wants, begin with

    if first >= length { return } else { }

The lowering makes a single op of it (`nv_tileaa.return_if`), so that what stands behind is in no branch.
"""

from __future__ import annotations

from xdsl.ir import Operation

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.ir.places import ops_in, ops_of
from libtile.transforms.canonical_values import is_op
from libtile.transforms.effects import leaves_region
from libtile.transforms.products import PRODUCTS


def early_returns(entry: Operation) -> dict[Operation, int]:
    """The ops `if` right in an entry of which one branch returns, and the other one goes on: the number of the first.
    Agents that multiply end together, so that none of them is behind a product."""
    found: dict[Operation, int] = {}
    for op in ops_in(entry.regions[0].block):
        if any(is_op(inner, *PRODUCTS) for inner in ops_of(op)):
            break
        if isinstance(op, CudaTileOp) and is_op(op, "if") and (number := _returning(op)) is not None:
            found[op] = number
    return found


def _returning(op: CudaTileOp) -> int | None:
    """The branch of an `if` at whose end alone it returns, where the other one ends with it."""
    returns = []
    for region in op.regions:
        ops = ops_in(region.block) if region.blocks else []
        if any(map(leaves_region, ops[:-1])):
            return None
        returns.append(bool(ops) and is_op(ops[-1], "return"))
        if ops and not is_op(ops[-1], "return", "yield"):
            return None
    return returns.index(True) if sum(returns) == 1 else None
