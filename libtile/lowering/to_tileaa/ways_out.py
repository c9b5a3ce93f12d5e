# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which ops of cuda_tile may leave the region that they stand in. Every op is looked into once, however deep it is."""

from __future__ import annotations

from xdsl.ir import Operation

from libtile.dialects.cuda_tile.ops import OPS
from libtile.ir.places import inner_ops, ops_in

IF, LOOP, BREAK, CONTINUE, RETURN, YIELD = (
    OPS[name] for name in ("if", "loop", "break", "continue", "return", "yield")
)
EXITS = (BREAK, CONTINUE, RETURN)


class WaysOut:
    """The answers for the ops of a function, which must not change meanwhile."""

    def __init__(self) -> None:
        self._leaves: dict[Operation, bool] = {}
        self._returns: dict[Operation, bool] = {}
        self._ways_on: dict[Operation, int] = {}

    def leaves(self, op: Operation) -> bool:
        """Whether an op may leave the region that it stands in."""
        if not isinstance(op, IF):
            return isinstance(op, LOOP) and self.returns(op)
        if op not in self._leaves:
            self._leaves[op] = any(isinstance(inner, EXITS) or self.leaves(inner) for inner in inner_ops(op))
        return self._leaves[op]

    def returns(self, op: Operation) -> bool:
        """Whether an op has a return in it."""
        if not isinstance(op, (IF, LOOP)):
            return False
        if op not in self._returns:
            self._returns[op] = any(isinstance(inner, RETURN) or self.returns(inner) for inner in inner_ops(op))
        return self._returns[op]

    def ways_on(self, op: Operation) -> int:
        """In how many places an `if` goes on with the op behind it."""
        if op not in self._ways_on:
            self._ways_on[op] = self._count(op)
        return self._ways_on[op]

    def _count(self, op: Operation) -> int:
        count = 0
        for region in op.regions:
            if not region.blocks:
                count += 1
                continue
            ops = ops_in(region.block)
            if isinstance(ops[-1], YIELD):
                inner = (self.ways_on(o) for o in ops if isinstance(o, IF) and self.leaves(o))
                count += max(1, *inner, 1)
        return count
