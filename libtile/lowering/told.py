# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What values of a kernel are computed of: by which axes of the grid they are told."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.ir import BlockArgument, Operation, SSAValue

from libtile.dialects import scf
from libtile.dialects.interfaces import edges
from libtile.dialects.nv_tileaa.functions import FuncOp, GetProgramIdOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.places import ops_of


class Told:
    """By which axes of the grid values are told: those of program ids that they are computed of, or carried from."""

    def __init__(self, function: FuncOp) -> None:
        self._incoming: dict[SSAValue, list[SSAValue]] = {}
        for op in ops_of(function):
            for number, value in edges(op):
                self._incoming.setdefault(value, []).append(op.operands[number])

    def by(self, value: SSAValue) -> set[int]:
        """The axes that a value is told by."""
        origins = (at.owner for at in self.origins(value))
        return {owner.axis.value.data for owner in origins if isinstance(owner, GetProgramIdOp)}

    def origins(self, value: SSAValue, known: Collection[SSAValue] = ()) -> set[SSAValue]:
        """A value, and all that it is computed of or carried from; of `known` ones not what these are computed of."""
        found, work = {value}, [value]
        while work:
            at = work.pop()
            if at in known:
                continue
            for source in self._sources(at):
                if source not in found:
                    found.add(source)
                    work.append(source)
        return found

    def _sources(self, value: SSAValue) -> list[SSAValue]:
        """What a value is computed of, or carried from; no tokens."""
        found = (*self._incoming.get(value, ()), *self._computed_of(value))
        return [source for source in found if not isinstance(source.type, MemTokenType)]

    def _computed_of(self, value: SSAValue) -> tuple[SSAValue, ...]:
        if value in self._incoming or isinstance(value, BlockArgument):
            loop = value.owner.parent_op() if isinstance(value, BlockArgument) else None
            # What a loop counts through is told by its bounds.
            return (loop.lb, loop.ub, loop.step) if isinstance(loop, scf.ForOp) else ()
        assert isinstance(value.owner, Operation)
        return tuple(value.owner.operands)
