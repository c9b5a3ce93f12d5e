# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`dce`: ops gone whose results nothing needs, and with them the loop-carried values that only feed themselves.

Stays what a program can observe: stores, atomics, prints, assertions, and whatever a token of theirs waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import ConstantLike, IsTerminator

from libtile.dialects.cuda_tile.types import TokenType
from libtile.dialects.effect_traits import ReadsMemory, is_weak
from libtile.dialects.interfaces import Edge, control_flow, edges, exit_of
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import op_of, ops_of
from libtile.support import remarks, statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.effects import is_removable, is_unused
from libtile.transforms.greedy import erase_dead, functions_in, inner_functions_in

_REMARK = "DeadCode"


@dataclass(frozen=True)
class DcePass(ModulePass):
    """Erase dead ops and dead loop-carried values."""

    name = "dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        eliminate_dead_code(op)


def eliminate_dead_code(root: Operation) -> bool:
    """Erase what is dead in every function in `root` (or in `root` itself); returns whether anything was."""
    changed = False
    for function in (*functions_in(root), *inner_functions_in(root)):
        changed |= _break_dead_cycles(function)
        changed |= erase_dead(function, _is_dead)
        if remarks.are_collected():
            _tell_what_stays(function)
    return changed


def _is_dead(op: Operation) -> bool:
    if not is_unused(op) or not is_removable(op):
        return False
    if not op.has_trait(ConstantLike):
        reporting.done(op, _REMARK, "Op that nothing needs is gone", Op=op.name)
    return True


def _tell_what_stays(function: Operation) -> None:
    """The loads and loops that compute what nobody uses, and why they are there nevertheless."""
    for op in ops_of(function):
        reason = _reason_to_keep(op)
        if reason is not None:
            reporting.missed(op, _REMARK, "Op whose values nothing uses stays", reason, Op=op.name)


def _reason_to_keep(op: Operation) -> str | None:
    if op.has_trait(ReadsMemory):
        values = [result for result in op.results if not isinstance(result.type, TokenType | MemTokenType)]
        if not values or any(value.first_use is not None for value in values):
            return None
        return "others wait for its token" if is_weak(op) else "others can tell that it reads: it is not weak"
    flow = control_flow(op)
    if flow is None or not flow.is_loop or flow.ends or not is_unused(op):
        return None
    return "it may never end" if all(_only_computes(inner, op) for inner in ops_of(op) if inner is not op) else None


def _only_computes(op: Operation, loop: Operation) -> bool:
    """Whether an op in a loop does nothing that is seen outside of the loop."""
    exit_ = exit_of(op)
    if exit_ is not None:
        target = exit_.target(op)
        return target is not None and loop.is_ancestor(target)
    return control_flow(op) is not None or is_removable(op)


def _break_dead_cycles(function: Operation) -> bool:
    """Let loops carry on the value that they have where nothing that matters uses what they compute for it.

    The computation in the loop is then dead by itself. Only operands change: a loop keeps its signature, so that every
    exit from it does, too.
    """
    flow = {op: found for op in ops_of(function) if op is not function and (found := edges(op))}
    exits = [op for op in flow if exit_of(op) is not None and _own_arguments(op, flow[op])]
    if not exits:
        return False
    live = _live_values(function, flow)
    changed = False
    for exit_ in exits:
        # A counted loop gives what it last continued with: its result is another value that the operand becomes.
        needed = {number for number, value in flow[exit_] if value in live}
        for number, argument in _own_arguments(exit_, flow[exit_]):
            if number not in needed and exit_.operands[number] is not argument:
                exit_.operands[number] = argument
                statistics.count("carried values left alone")
                changed = True
    return changed


def _own_arguments(exit_: Operation, found: Sequence[Edge]) -> list[tuple[int, BlockArgument]]:
    """The arguments of the loop's body, as far as the exit is in it: it can hand them on as they are."""
    return [
        (number, value)
        for number, value in found
        if isinstance(value, BlockArgument) and value.owner.is_ancestor(exit_)
    ]


def _live_values(function: Operation, flow: Mapping[Operation, Sequence[Edge]]) -> set[SSAValue]:
    """Every value that an op with an effect, or an exit that matters, may depend on."""
    live: set[SSAValue] = set()
    incoming: dict[SSAValue, list[SSAValue]] = {}
    work: list[SSAValue] = []

    def need(values: Iterable[SSAValue]) -> None:
        for value in values:
            if value not in live:
                live.add(value)
                work.append(value)

    for op in ops_of(function):
        if op is function:
            continue
        for number, value in flow.get(op, ()):
            incoming.setdefault(value, []).append(op.operands[number])
        need(_needed_by_itself(op, flow.get(op, ())))
    while work:
        value = work.pop()
        found = incoming.get(value)
        if found is not None:
            need(found)
        elif (op_ := op_of(value)) is not None:
            need(op_._operands)
    return live


def _needed_by_itself(op: Operation, found: Sequence[Edge]) -> list[SSAValue]:
    """Operands that are needed whether or not a result of the op is."""
    if control_flow(op) is None and not op.has_trait(IsTerminator):
        return [] if is_removable(op) else list(op.operands)
    # Control decides what else runs; values that are only carried along are not needed for it.
    carried = {number for number, _ in found}
    return [value for number, value in enumerate(op.operands) if number not in carried]
