# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops that passes of this folder insert at a place, with locations of the source."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile.ir.locations import set_location
from libtile.ir.op_making import append


def array_of(*numbers: int) -> ArrayAttr[Attribute]:
    """An array attribute of integers of 64 bits."""
    return ArrayAttr([IntegerAttr(n, i64) for n in numbers])


class Inserter:
    """Ops at one place: in front of an op, or at the end of a block."""

    def __init__(self, block: Block, before: Operation | None, location: Attribute | None):
        self.block, self.before, self.location = block, before, location

    def add(self, op: Operation, location: Attribute | None = None) -> Operation:
        """Insert an op, which stands where `location` says in the source (None: where this place does)."""
        if (place := location or self.location) is not None:
            set_location(op, place)
        if self.before is None:
            append(self.block, op)
        else:
            self.block.insert_op_before(op, self.before)
        return op

    def value(self, op: Operation, location: Attribute | None = None) -> SSAValue:
        return self.add(op, location).results[0]

    def clone(self, ops: Sequence[Operation], values: dict[SSAValue, SSAValue]) -> None:
        """Ops again, with other values for some; `values` gets what they make."""
        for op in ops:
            self.add(op.clone(values), op.location)
