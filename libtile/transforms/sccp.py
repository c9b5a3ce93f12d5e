# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`sccp`: sparse conditional constant propagation, on all dialects.

A value is the same in all runs when every way on which control gets to it gives it the same constant; a branch whose
condition is such a value is taken on one side only, and what the other side computes does not count. Values and ways
are found out together, optimistically: a value that a loop carries is constant unless an iteration that may run makes
it another one. (Wegman and Zadeck, "Constant Propagation with Conditional Branches", 1991.)

What ops give for constants is `dialects.folding`'s to say, and where control goes `dialects.interfaces`'. Branches that
are never taken stay, over a constant condition, for `canonicalize`; a counted loop that never runs goes.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import ConstantLike, IsTerminator

from libtile.dialects import scf
from libtile.dialects.constant_ops import constant_op
from libtile.dialects.constants import Elements, constant_elements
from libtile.dialects.folding import fold
from libtile.dialects.interfaces import (
    Branch,
    ControlFlow,
    CountedLoop,
    EndsLoop,
    bounds_of,
    control_flow,
    edges,
    exit_of,
)
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import source_of
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.effects import has_no_effects, is_unused
from libtile.transforms.greedy import functions_in, inner_functions_in

_REMARK = "Constant"


@dataclass(frozen=True)
class SccpPass(ModulePass):
    """Replace values that are constants on every way that control can take."""

    name = "sccp"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        propagate_constants(op)


def propagate_constants(root: Operation) -> bool:
    """Propagate constants in every function in `root` (or in `root` itself); returns whether anything changed."""
    changed = False
    for function in (*functions_in(root), *inner_functions_in(root)):
        found = Constants(function)
        for op in ops_of(function):
            if op is not function and op.parent is not None:
                changed |= _rewrite(op, found)
    return changed


class Constants:
    """The values of a function that are one constant in all runs. Not kept up to date when the function changes."""

    def __init__(self, function: Operation):
        self._values: dict[SSAValue, Elements | None] = {}
        """What values are, as far as ways to them are known: constants, or (None) different ones. What is missing is
        reached on no way yet."""
        self._entered: set[Block] = set()
        self._reached: set[Operation] = set()
        self._left: set[Operation] = set()
        """Ops with regions from which control comes back."""
        self._work: list[Operation] = []
        for region in function.regions:
            for block in region.blocks:
                self._enter(block, known=False)
        while self._work:
            self._visit(self._work.pop())

    def of(self, value: SSAValue) -> Elements | None:
        """The elements of a value that is a constant; None for another one, and for one that is never computed."""
        return self._values.get(value)

    def is_reached(self, op: Operation) -> bool:
        """Whether control may get to the op."""
        return op in self._reached

    # -- ways -------------------------------------------------------------------------------------------------------

    def _enter(self, block: Block, known: bool = True) -> None:
        """Control gets to a block. Its arguments may be anything, unless edges say what becomes of them."""
        if block in self._entered:
            return
        self._entered.add(block)
        if not known:
            for argument in block.args:
                self._meet(argument, None)
        if block.first_op is not None:
            self._reach(block.first_op)

    def _reach(self, op: Operation) -> None:
        if op not in self._reached:
            self._reached.add(op)
            self._work.append(op)

    def _leave(self, op: Operation) -> None:
        """Control comes out of an op with regions."""
        if op not in self._left:
            self._left.add(op)
            if op.next_op is not None:
                self._reach(op.next_op)

    def _meet(self, value: SSAValue, elements: Elements | None) -> None:
        """A way gives a value these elements, or (None) any."""
        if value in self._values:
            old = self._values[value]
            if old is None or old == elements:
                return
            elements = None
        self._values[value] = elements
        self._work += [use.operation for use in value.uses if use.operation in self._reached]

    # -- ops --------------------------------------------------------------------------------------------------------

    def _visit(self, op: Operation) -> None:
        flow = control_flow(op)
        if flow is not None:
            self._visit_flow(op, flow)
        elif op.has_trait(IsTerminator):
            self._visit_exit(op)
        else:
            for region in op.regions:  # no control flow, but a function: of elements, of an agent
                for block in region.blocks:
                    self._enter(block, known=False)
            self._compute(op)
            self._leave(op)

    def _compute(self, op: Operation) -> None:
        if op.has_trait(ConstantLike):
            self._meet(op.results[0], constant_elements(op.results[0]))
            return
        values = self._values
        try:
            known = [values[operand] for operand in op._operands]
        except KeyError:
            return  # comes again with the last of them
        elements = fold(op, known)
        for result in op.results:
            self._meet(result, elements)

    def _visit_flow(self, op: Operation, flow: ControlFlow) -> None:
        if isinstance(flow, Branch):
            self._visit_branch(op)
            return
        entered: bool | None = None
        if isinstance(flow, CountedLoop):
            bounds = op.operands[: flow.bounds]
            if any(bound not in self._values for bound in bounds):
                return
            lower, upper = (_scalar(self._values[bound]) for bound in bounds[:2])
            entered = flow.is_entered(op, lower, upper)
            if entered is not False:
                self._meet(op.regions[0].blocks[0].args[0], None)
            self._leave(op)
        for number, value in flow.entry(op):
            wanted = entered is not False if isinstance(value, BlockArgument) else entered is not True
            if wanted and op.operands[number] in self._values:
                self._meet(value, self._values[op.operands[number]])
        if entered is not False:
            self._enter(op.regions[0].blocks[0])

    def _visit_branch(self, op: Operation) -> None:
        condition = source_of(op)
        if condition not in self._values:
            return
        chosen = _scalar(self._values[condition])
        for number, region in enumerate(op.regions):
            if chosen is not None and bool(chosen & 1) != (number == 0):
                continue
            if region.blocks and region.blocks[0].first_op is not None:
                self._enter(region.blocks[0])
            else:
                self._leave(op)
        if len(op.regions) == 1 and not (chosen or 0) & 1:
            self._leave(op)

    def _visit_exit(self, op: Operation) -> None:
        exit_ = exit_of(op)
        target = exit_.target(op) if exit_ is not None else None
        flow = control_flow(target)
        if exit_ is None or target is None or flow is None:
            return
        again, out = True, isinstance(flow, Branch) or isinstance(exit_, EndsLoop)
        if isinstance(op, scf.ConditionOp):
            if op.condition not in self._values:
                return
            chosen = _scalar(self._values[op.condition])
            again, out = chosen is None or bool(chosen & 1), chosen is None or not chosen & 1
        for number, value in edges(op):
            goes = out or isinstance(flow, CountedLoop) if isinstance(value, OpResult) else again
            if goes and op.operands[number] in self._values:
                self._meet(value, self._values[op.operands[number]])
        if isinstance(op, scf.ConditionOp) and again:
            self._enter(target.regions[1].blocks[0])
        if out:
            self._leave(target)


def _scalar(elements: Elements | None) -> int | None:
    return elements[0] if elements is not None and len(elements) == 1 else None


# -- what becomes of it -----------------------------------------------------------------------------------------------


def _rewrite(op: Operation, found: Constants) -> bool:
    if not found.is_reached(op):
        return False
    flow = control_flow(op)
    if isinstance(flow, CountedLoop) and _never_runs(op, flow, found):
        starts = {value: op.operands[number] for number, value in flow.entry(op)}
        reporting.done(op, _REMARK, "Loop that never runs is gone")
        for result in op.results:
            result.replace_all_uses_with(starts[result])
        op.detach()
        op.erase()
        statistics.count("loops that never run")
        return True
    changed = False
    if not op.has_trait(ConstantLike):
        for result in op.results:
            changed |= _replace(result, op, found)
        if changed and is_unused(op) and has_no_effects(op):
            op.detach()
            op.erase()
            return True
    for region in op.regions:
        for block in region.blocks:
            for argument in block.args:
                changed |= block.first_op is not None and _replace(argument, block.first_op, found)
    return changed


def _never_runs(op: Operation, flow: CountedLoop, found: Constants) -> bool:
    lower, upper = (_scalar(_elements(bound, found)) for bound in bounds_of(op)[:2])
    return flow.is_entered(op, lower, upper) is False


def _elements(value: SSAValue, found: Constants) -> Elements | None:
    """What a value holds, which may be a constant that this pass made."""
    return constant_elements(value) or found.of(value)


def _replace(value: SSAValue, place: Operation, found: Constants) -> bool:
    """Use a constant, made in front of `place`, instead of a value that has one number in all elements."""
    elements = found.of(value)
    if elements is None or value.first_use is None:
        return False
    if len(elements) != 1:
        reason = "its elements are different constants, and only equal ones are taken"
        reporting.missed(place, _REMARK, "Value that is the same in all runs is computed", reason)
        return False
    made = constant_op(elements, value.type)
    block = place.parent_block()
    if not made or block is None:
        return False
    for op in made:
        op.location = place.location
        block.insert_op_before(op, place)
    reporting.done(place, _REMARK, "Value is the same on every way")
    value.replace_all_uses_with(made[-1].results[0])
    statistics.count("values that are constants")
    return True
