# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`loop-interchange`: of two nested loops the one that walks through memory in smaller steps is the inner one.

    for i { for j { A(i, j) } }    becomes    for j { for i { A(i, j) } }

where the iterations have no order: the loops carry nothing, or tokens to which each iteration only adds its own, for
what stands behind; and the body does nothing but compute and access memory weakly. So no token of one iteration comes
to another. Between the loops there may be computations that can run at any time, and go into the body. Nests of more
loops are sorted by exchanging neighbours.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from libtile.analysis import Facts
from libtile.analysis.aliasing import Aliasing
from libtile.analysis.tokens import iteration_ends
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TokenType
from libtile.dialects.effect_traits import accessed, is_weak
from libtile.dialects.interfaces import JoinsTokens, StatesFact, body, bounds_of, control_flow
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import is_within, ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op
from libtile.transforms.effects import has_no_effects, is_speculatable, leaves_region
from libtile.transforms.greedy import functions_in
from libtile.transforms.loop_copies import counts_up

INTERCHANGE_ATTRIBUTE = "cuda_tile.loop_interchange"
"""Discardable attribute of the outer `for`: 1 asks for the exchange, 0 forbids it, whatever the steps are."""
_REMARK = "LoopInterchange"
_ACCESSES = ("load_ptr_tko", "load_view_tko", "store_ptr_tko", "store_view_tko")


@dataclass(frozen=True)
class LoopInterchangePass(ModulePass):
    """Exchange loops so that the inner ones walk through memory in the smaller steps."""

    name = "loop-interchange"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        interchange_loops(op)


def interchange_loops(root: Operation) -> bool:
    """Exchange in every function in `root` (or in `root` itself, when it is one); returns whether any loops were."""
    changed = False
    for function in functions_in(root):
        # Each exchange of neighbours makes a nest more sorted: as many rounds as it is deep.
        for _ in range(max(map(_depth, _nested(function)), default=0)):
            aliasing = Aliasing(Facts(function))
            exchanged: set[Operation] = set()
            for outer, inner in _nested(function):
                if outer in exchanged or inner in exchanged:
                    continue
                reason = _reason_against(outer, inner, aliasing)
                if reason is not None:
                    reporting.missed(outer, _REMARK, "Loops are not exchanged", reason)
                    continue
                reporting.done(outer, _REMARK, "Loops exchanged")
                statistics.count("loops exchanged")
                exchanged |= {outer, inner}
                _exchange(outer, inner)
            if not exchanged:
                break
            changed = True
    return changed


def _nested(function: Operation) -> list[tuple[CudaTileOp, CudaTileOp]]:
    """Pairs of a `for` and the only loop in it, right in its body."""
    found = []
    for outer in ops_of(function):
        if not isinstance(outer, CudaTileOp) or not is_op(outer, "for"):
            continue
        with_regions = [op for op in body(outer).ops if (flow := control_flow(op)) is not None and flow.is_loop]
        if len(with_regions) == 1 and isinstance(inner := with_regions[0], CudaTileOp) and is_op(inner, "for"):
            found.append((outer, inner))
    return found


def _depth(pair: tuple[CudaTileOp, CudaTileOp]) -> int:
    depth, parent = 2, pair[0].parent_op()
    while parent is not None:
        depth += is_op(parent, "for")
        parent = parent.parent_op()
    return depth


def _reason_against(outer: CudaTileOp, inner: CudaTileOp, aliasing: Aliasing) -> str | None:
    asked = outer.attributes.get(INTERCHANGE_ATTRIBUTE)
    wish = asked.value.data if isinstance(asked, IntegerAttr) else None
    if wish == 0:
        return "a hint forbids it"
    if not all(isinstance(result.type, TokenType) for result in (*outer.results, *inner.results)):
        return "values are carried from iteration to iteration"
    if outer.results and not _tokens_are_gathered(outer, inner):
        return "tokens order the iterations"
    if inner.results and not outer.results:
        return "the inner loop's tokens are used in the outer one"
    if any(is_within(bound, outer) for bound in bounds_of(inner)):
        return "the inner loop's bounds change with the outer one"
    if not counts_up(inner, aliasing.facts):
        return "the inner loop's step may be no positive number where the outer one has no iteration"
    between = [op for op in body(outer).ops if op is not inner and not op.has_trait(IsTerminator)]
    if not all(is_speculatable(op) or op.has_trait(StatesFact) for op in between):
        return "something between the loops cannot run in each iteration"
    inside = [op for op in ops_of(inner) if op is not inner and not op.has_trait(IsTerminator)]
    if leaves_region(inner) or not all(_has_no_order(op) for op in inside):
        return "the iterations have an order: by tokens, output, atomic accesses or early ends"
    if wish is not None:
        return None
    steps = [_steps(op, outer, inner, aliasing) for op in inside if is_op(op, *_ACCESSES)]
    known = [pair for pair in steps if pair is not None]
    if len(known) < len(steps) or not known:
        return "it is not known in which steps an access walks through memory"
    if all(first <= second for first, second in known) and any(first < second for first, second in known):
        return None
    return "the inner loop walks through memory in steps that are no larger than the outer one's"


def _tokens_are_gathered(outer: CudaTileOp, inner: CudaTileOp) -> bool:
    """Whether the inner loop goes on with the tokens that the outer one carries, in order, and hands them back, and
    iterations do nothing with them but add to them what they have done."""
    starts, arguments = list(inner.operand_group("initValues")), list(body(outer).args[1:])
    if starts != arguments or any(list(end.operands) != list(inner.results) for end in iteration_ends(outer)):
        return False
    outside = [use.operation for value in (*arguments, *inner.results) for use in value.uses]
    if any(user is not inner and user not in iteration_ends(outer) for user in outside):
        return False
    ends = iteration_ends(inner)
    for index, carried in enumerate(body(inner).args[1:]):
        pending, seen = [carried], {carried}
        while pending:
            for use in pending.pop().uses:
                if use.operation.has_trait(JoinsTokens):
                    if use.operation.results[0] not in seen:
                        seen.add(use.operation.results[0])
                        pending.append(use.operation.results[0])
                elif use.operation not in ends or use.index != index:
                    return False
        if any(end.operands[index] not in seen for end in ends):
            return False
    return True


def _has_no_order(op: Operation) -> bool:
    """Whether runs of the op in different iterations may be exchanged."""
    if isinstance(op, CudaTileOp) and is_op(op, *_ACCESSES):
        return is_weak(op) and accessed(op) is not None
    if op.regions:
        return control_flow(op) is not None
    return has_no_effects(op) or op.has_trait(StatesFact)


def _steps(op: Operation, outer: CudaTileOp, inner: CudaTileOp, aliasing: Aliasing) -> tuple[int, int] | None:
    """How many bytes the access moves by from iteration to iteration, of each of the loops."""
    found = [aliasing.step_in_loop(op, loop) for loop in (outer, inner)]
    return None if found[0] is None or found[1] is None else (abs(found[0]), abs(found[1]))


def _exchange(outer: CudaTileOp, inner: CudaTileOp) -> None:
    """Let the loops change bounds, counters and attributes; what is between them goes in front of the inner body."""
    place = body(inner).first_op
    assert place is not None  # the terminator, at least
    for op in [op for op in body(outer).ops if op is not inner and not op.has_trait(IsTerminator)]:
        op.detach()
        body(inner).insert_op_before(op, place)
    bounds = bounds_of(outer), bounds_of(inner)
    outer.operands = [*bounds[1], *outer.operand_group("initValues")]
    inner.operands = [*bounds[0], *inner.operand_group("initValues")]
    outer.properties, inner.properties = inner.properties, outer.properties
    outer.attributes, inner.attributes = inner.attributes, outer.attributes
    inner.attributes.pop(INTERCHANGE_ATTRIBUTE, None)
    outer.location, inner.location = inner.location, outer.location
    first, second = body(outer).args[0], body(inner).args[0]
    hints = first.name_hint, second.name_hint
    between = body(inner).insert_arg(first.type, 1)  # holds the uses of one counter while the other's are moved
    first.replace_all_uses_with(between)
    types = first.type, second.type
    outer_counter = body(outer).insert_arg(types[1], 0)
    second.replace_all_uses_with(outer_counter)
    inner_counter = body(inner).insert_arg(types[0], 0)
    between.replace_all_uses_with(inner_counter)
    for block, unused in ((body(outer), [first]), (body(inner), [second, between])):
        for argument in unused:
            block.erase_arg(argument)
    inner_counter.name_hint, outer_counter.name_hint = hints
