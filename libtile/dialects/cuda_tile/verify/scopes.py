# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which values an op may use: dominance, and isolation from the values above.

The walk keeps the set of visible values, so that a correct use costs one look-up; only a use that is not in the set is
looked at closely, which gives MLIR's message and notes.
"""

from __future__ import annotations

from libtile.dialects.cuda_tile.verify.dominance import Dominators
from libtile.dialects.cuda_tile.verify.report import fail, fail_plain
from libtile.dialects.cuda_tile.verify.structure import has_graph_region, is_isolated
from libtile.ir.forms import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from libtile.ir.places import ops_in
from libtile.support.records import dataclass, field


@dataclass(slots=True)
class Scopes:
    """The values that the op at the walk's position may use, as a stack of sets (one per isolated op)."""

    _visible: list[set[int]] = field(default_factory=lambda: [set()])
    _dominators: dict[Region, Dominators] = field(default_factory=dict)

    def enter_isolated(self) -> None:
        self._visible.append(set())

    def leave_isolated(self) -> None:
        self._visible.pop()

    def define(self, value: SSAValue) -> None:
        self._visible[-1].add(id(value))

    def leave_block(self, block: Block) -> None:
        """Values of a block are gone behind it."""
        visible = self._visible[-1]
        for arg in block.args:
            visible.discard(id(arg))
        for op in ops_in(block):
            for result in op.results:
                visible.discard(id(result))

    def check_operands(self, op: Operation) -> None:
        """Raise Violation for the first operand that the op may not use."""
        visible = self._visible[-1]
        for index, operand in enumerate(op._operands):
            if id(operand) not in visible:
                self._explain(op, index, operand)

    def _explain(self, op: Operation, index: int, value: SSAValue) -> None:
        """Raise Violation unless the use is right after all, as one across blocks may be."""
        block = _owner_block(value)
        region = block.parent if block is not None else None
        user: Operation | None = op
        while user is not None and (region is None or user.parent_region() is not region):
            user = user.parent_op()
            if user is not None and is_isolated(user) and region is not None and _encloses(region, user):
                note = (user, "required by region isolation constraints")
                fail(op, "using value defined outside the region", note)
        if user is None or block is None or not self._dominates(block, user):
            fail_plain(op, f"operand #{index} does not dominate this use", _definition_note(op, value, block, region))

    def _dominates(self, block: Block, user: Operation) -> bool:
        """Whether the values of `block` are defined in front of `user`, an op of the same region.

        Within one block, a value that is not visible is defined behind its use.
        """
        region, user_block = block.parent, user.parent
        if region is None or user_block is None:
            return False
        parent = region.parent
        if parent is not None and has_graph_region(parent):
            return True
        if region.first_block is region.last_block:
            return False
        dominators = self._dominators.get(region)
        if dominators is None:
            dominators = self._dominators[region] = Dominators(region)
        if not dominators.is_reachable(user_block):
            return True
        return user_block is not block and dominators.dominates(block, user_block)


def _owner_block(value: SSAValue) -> Block | None:
    if isinstance(value, BlockArgument):
        return value.block
    return value.op.parent if isinstance(value, OpResult) else None


def _encloses(region: Region, op: Operation) -> bool:
    """Whether the op is in the region or below it."""
    inner = op.parent_region()
    while inner is not None and inner is not region:
        inner = inner.parent.parent_region() if inner.parent is not None else None
    return inner is region


def _definition_note(
    op: Operation, value: SSAValue, block: Block | None, region: Region | None
) -> tuple[Operation, str]:
    where = _relation(op, block, region)
    if isinstance(value, OpResult):
        return value.op, f"operand defined here (op {where})"
    owner = region.parent if region is not None and region.parent is not None else op
    number = list(region.blocks).index(block) if region is not None and block is not None else 0
    return owner, f"operand defined as a block argument (block #{number} {where})"


def _relation(op: Operation, block: Block | None, region: Region | None) -> str:
    user_region = op.parent_region()
    if op.parent is block:
        return "in the same block"
    if user_region is region:
        return "in the same region"
    if region is not None and user_region is not None:
        if _encloses(region, op):
            return "in a parent region"
        if region.parent is not None and _encloses(user_region, region.parent):
            return "in a child region"
    return "is neither in a parent nor in a child region"
