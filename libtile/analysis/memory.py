# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What of one function's memory is certainly not the same, for passes that work on all dialects: what alias scopes say
of the inner ones, and of cuda_tile what is computed of addresses."""

from __future__ import annotations

from xdsl.ir import Operation

from libtile.analysis.alias_scopes import are_of_different_scopes, may_one_write, writers
from libtile.analysis.aliasing import Aliasing
from libtile.analysis.dataflow import Facts
from libtile.dialects.cuda_tile.ops import CudaTileOp

MOST_WRITERS = 32
"""Ops that may write what one load reads, of which it is asked whether they do: of more it is not, so that the time
that passes take grows as programs do."""


class Disjointness:
    """The accesses of a function. What is computed of it stays true while values are replaced by equal ones, and ops
    move to where they are computed of the same values."""

    def __init__(self, function: Operation) -> None:
        self._function = function
        self._aliasing: Aliasing | None = None
        self._writers: dict[Operation, list[Operation]] = {}

    def are_disjoint(self, one: Operation, other: Operation) -> bool:
        """Whether two accesses, each run once between two runs of any loop around both, touch no common byte."""
        if are_of_different_scopes(one, other):
            return True
        if not isinstance(one, CudaTileOp) or not isinstance(other, CudaTileOp):
            return False
        return self.aliasing.are_disjoint(one, other)

    @property
    def aliasing(self) -> Aliasing:
        """The memory of cuda_tile's accesses: computed when it is first asked for, as that takes longer than most
        passes, and most functions do not need it."""
        if self._aliasing is None:
            self._aliasing = Aliasing(Facts(self._function))
        return self._aliasing

    def may_write_what_is_read(self, op: Operation, load: Operation) -> bool:
        """Whether an op, or one of a few in its regions, may write what a load reads, or order it; so may many."""
        found = self._writers.get(op)
        if found is None:
            found = self._writers[op] = writers(op)
        return len(found) > MOST_WRITERS or may_one_write(found, load, self.are_disjoint)
