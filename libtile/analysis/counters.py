# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is known where an op stands, because of the branches on the way to it; and what a `loop` counts.

A `for` says what it counts. A `loop` counts where it carries a number to which each iteration adds the same:

    loop iter_values(%i = %first) {
      if %i < %end { } else { break %i }          what is behind it has %i < %end
      ...
      continue %i + 2
    }

Such a number is `first + 2 * k` in iteration k, unless the addition wraps around. That it does not is promised by its
flag, or shown by the condition on the way to it: `%i < %end` and what is known of `%end`.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from libtile.analysis.tokens import iteration_ends
from libtile.dialects.constants import as_signed, constant_elements
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, bit_width, is_integer
from libtile.dialects.interfaces import CountedLoop, control_flow, exit_of
from libtile.ir.operands import source_of
from libtile.ir.places import is_within, ops_in, ops_of
from libtile.support.records import dataclass

MAX_CONDITIONS = 16
"""Conditions that are looked at for one place, the nearest ones first."""
MAX_ENDS = 16
"""Ends of an iteration that a counter is followed to."""
MAX_ASSUMED = 8
"""Assumptions about one value that are looked through."""

Condition = tuple[SSAValue, bool]
"""A scalar condition, and whether it is true or false."""
Bounds = tuple[int | None, int | None]
"""The least and the largest number that a value may be, where they are known."""


class Conditions:
    """Conditions by places in one function, found when they are asked for. Not kept up to date when it changes."""

    def __init__(self) -> None:
        self._blocks: dict[Block, tuple[dict[Operation, int], list[Condition]]] = {}

    def at(self, place: Operation, within: Operation | None = None) -> list[Condition]:
        """What holds whenever `place` runs, of the conditions in `within` (everywhere, if there is none)."""
        found: list[Condition] = []
        inner: Operation | None = place
        while inner is not None and inner is not within and len(found) < MAX_CONDITIONS:
            block, around = inner.parent_block(), inner.parent_op()
            if block is None or around is None:
                break
            numbers, conditions = self._of(block)
            before = numbers[inner]
            found += reversed(conditions[max(before - MAX_CONDITIONS, 0) : before])
            if isinstance(around, OPS["if"]):
                found.append((around.operand("condition"), inner.parent_region() is around.regions[0]))
            inner = around
        return _parts(found[:MAX_CONDITIONS])

    def _of(self, block: Block) -> tuple[dict[Operation, int], list[Condition]]:
        """The conditions that the branches of a block leave behind, in order; how many of them stand before each op."""
        known = self._blocks.get(block)
        if known is None:
            numbers: dict[Operation, int] = {}
            conditions: list[Condition] = []
            for op in ops_in(block):
                numbers[op] = len(conditions)
                if isinstance(op, OPS["if"]):
                    goes_on = [_goes_on(op, number) for number in (0, 1)]
                    if sum(goes_on) == 1:
                        conditions.append((op.operand("condition"), goes_on[0]))
            known = self._blocks[block] = numbers, conditions
        return known


def _goes_on(op: Operation, number: int) -> bool:
    """Whether what stands behind a branch may run after one of its regions."""
    region = op.regions[number]
    last = region.blocks[0].last_op if region.blocks else None
    exit_ = exit_of(last) if last is not None else None
    return last is None or exit_ is None or exit_.target(last) is op


def _parts(found: list[Condition]) -> list[Condition]:
    """Conditions, and those that they are made of."""
    parts: list[Condition] = []
    pending = list(reversed(found))
    while pending and len(parts) < 2 * MAX_CONDITIONS:
        value, holds = pending.pop()
        op = value.owner
        both = OPS["andi"] if holds else OPS["ori"]
        if isinstance(op, both):
            pending += [(operand, holds) for operand in reversed(op.operands)]
        elif isinstance(op, OPS["xori"]) and any(_constant(operand) for operand in op.operands):
            pending += [(operand, not holds) for operand in op.operands if _constant(operand) is None]
        else:
            parts.append((value, holds))
    return parts


class CertainOps:
    """The order of the ops of blocks, as they were when first asked for."""

    def __init__(self) -> None:
        self._places: dict[Block, tuple[dict[Operation, int], int]] = {}

    def _of(self, block: Block) -> tuple[dict[Operation, int], int]:
        """The numbers of a block's ops, and from which one on they may not run, because an op before it left."""
        found = self._places.get(block)
        if found is None:
            ops = ops_in(block)
            certain = next((number + 1 for number, op in enumerate(ops) if _leaves(op)), len(ops))
            found = self._places[block] = {op: number for number, op in enumerate(ops)}, certain
        return found

    def runs_with_operand(self, op: Operation) -> bool:
        """Whether the op runs wherever its source is defined: in one block, and before anything can leave it."""
        block, owner = op.parent_block(), source_of(op).owner
        if block is None or (owner if isinstance(owner, Block) else owner.parent_block()) is not block:
            return False
        numbers, certain = self._of(block)
        return numbers[op] < certain

    def is_before(self, value: SSAValue, place: Operation) -> bool:
        """Whether a value is defined where `place` is, which stood in its block when this was first asked."""
        if isinstance(value.owner, Block):
            return True  # it dominates the assumptions about it, and what these are for
        block = value.owner.parent_block()
        inner: Operation | None = place
        while inner is not None and inner.parent_block() is not block:
            inner = inner.parent_op()
        if inner is None or block is None:
            return False
        numbers, _ = self._of(block)
        return numbers[value.owner] < numbers[inner]


def _leaves(op: Operation) -> bool:
    """Whether control may leave the op's block through the op, or stay in it for ever."""
    for inner in ops_of(op):
        if isinstance(inner, (OPS["assert"], OPS["loop"])):
            return True
        exit_ = exit_of(inner)
        target = exit_.target(inner) if exit_ is not None else op
        if target is None or not op.is_ancestor(target):
            return True
    return False


# -- counters ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """Why what one end of an iteration hands on has not wrapped around: its flag says so (no `bound`), or the number
    was less than a bound, or not greater (more, or not less, for one that counts down)."""

    bound: SSAValue | None = None
    includes: bool = False
    unsigned: bool = False


@dataclass(frozen=True)
class Counter:
    """A number that a `loop` carries, to which each iteration adds `step`."""

    value: BlockArgument
    first: SSAValue
    step: int
    limits: tuple[tuple[Limit, ...], ...]
    """For each end of an iteration, what it may be known by that the addition does not wrap around."""

    def range(self, bounds: Callable[[SSAValue], Bounds]) -> Bounds | None:
        """What the number may be in any iteration, by the bounds of values from before the loop. None where it may wrap
        around."""
        furthest: list[int | None] = [bounds(self.first)[self.step > 0]]
        for limits in self.limits:
            reached = [self._reached(limit, bounds) for limit in limits]
            known = [number for number in reached if number is not None]
            if known:
                furthest.append(min(known) if self.step > 0 else max(known))
            elif any(limit.bound is None for limit in limits):
                furthest.append(None)
            else:
                return None
        nearest = bounds(self.first)[self.step < 0]
        numbers = [number for number in furthest if number is not None]
        most = None if len(numbers) < len(furthest) else max(numbers) if self.step > 0 else min(numbers)
        return (nearest, most) if self.step > 0 else (most, nearest)

    def _reached(self, limit: Limit, bounds: Callable[[SSAValue], Bounds]) -> int | None:
        """How far an addition gets behind this limit; None where that is not known to be a number of its type."""
        if limit.bound is None:
            return None
        assert isinstance(self.value.type, TileType)
        most = (1 << (bit_width(self.value.type.element_type) - 1)) - 1
        low, high = self._bounds(limit.bound, bounds)
        if self.step > 0:
            if limit.unsigned and (low is None or low < 0):
                return None
            last = (most if high is None else min(high, most)) - (not limit.includes)
            return last + self.step if last + self.step <= most else None
        last = (-most - 1 if low is None else max(low, -most - 1)) + (not limit.includes)
        return last + self.step if not limit.unsigned and last + self.step >= -most - 1 else None

    def _bounds(self, value: SSAValue, bounds: Callable[[SSAValue], Bounds]) -> Bounds:
        number, loop = _constant(value), self.value.owner.parent_op()
        if number is not None:
            return number, number
        return (None, None) if loop is None or is_within(value, loop) else bounds(value)


def counters_of(loop: CudaTileOp, conditions: Conditions) -> list[Counter]:
    """The numbers that a `loop` carries and counts with, as far as its ops say; `Counter.range` says the rest."""
    arguments, starts = loop.regions[0].blocks[0].args, loop.operand_group("initValues")
    kinds = [value.type for value in arguments]
    whole = [isinstance(kind, TileType) and kind.shape == () and _is_number(kind) for kind in kinds]
    ends = iteration_ends(loop) if any(whole) else []
    if not 0 < len(ends) <= MAX_ENDS:
        return []
    found = []
    for number, (value, first) in enumerate(zip(arguments, starts)):
        added = [_added(value, end.operands[number]) for end in ends] if whole[number] else [None]
        steps = {None if one is None else one[0] for one in added}
        if len(steps) != 1 or not (step := next(iter(steps))):
            continue
        limits = tuple(
            (*([Limit()] if one is not None and one[1] else []), *_limits(value, step, conditions.at(end, loop)))
            for one, end in zip(added, ends)
        )
        if all(limits):
            found.append(Counter(value, first, step, limits))
    return found


def _is_number(kind: TileType) -> bool:
    return is_integer(kind.element_type) and bit_width(kind.element_type) > 1


def _added(value: SSAValue, next_: SSAValue) -> tuple[int, bool] | None:
    """The number that is added to a value to give another, and whether that is said not to wrap around."""
    op = unassumed(next_).owner
    if not isinstance(op, (OPS["addi"], OPS["subi"])):
        return None
    mine, other = op.operand("lhs"), op.operand("rhs")
    if isinstance(op, OPS["addi"]) and unassumed(mine) is not value:
        mine, other = other, mine
    step = _constant(other)
    if unassumed(mine) is not value or step is None:
        return None
    flagged = op.attribute_value("overflow") in ("no_signed_wrap", "no_wrap")
    return (step if isinstance(op, OPS["addi"]) else -step), flagged


def _limits(value: SSAValue, step: int, conditions: list[Condition]) -> tuple[Limit, ...]:
    """What conditions say of how large a number is (how small, for one that counts down)."""
    return tuple(
        limit for condition, holds in conditions if (limit := _limit(value, step, condition, holds)) is not None
    )


def _limit(value: SSAValue, step: int, condition: SSAValue, holds: bool) -> Limit | None:
    op = condition.owner
    if not isinstance(op, OPS["cmpi"]):
        return None
    predicate = str(op.attribute_value("comparison_predicate"))
    if not predicate.startswith(("less", "greater")):
        return None
    small, large = op.operand("lhs"), op.operand("rhs")
    if predicate.startswith("greater"):
        small, large = large, small
    includes = predicate.endswith("or_equal")
    if not holds:  # not a < b: b <= a
        small, large, includes = large, small, not includes
    mine, bound = (small, large) if step > 0 else (large, small)
    if unassumed(mine) is not value:
        return None
    return Limit(bound, includes, op.attribute_value("signedness") == "unsigned")


def unassumed(value: SSAValue) -> SSAValue:
    """The value that assumptions are about."""
    for _ in range(MAX_ASSUMED):
        if not isinstance(value.owner, OPS["assume"]):
            break
        value = value.owner.operand("value")
    return value


def _constant(value: SSAValue) -> int | None:
    """The signed number that all elements of a constant are."""
    elements = constant_elements(value)
    if elements is None or len(elements) != 1 or not isinstance(value.type, TileType):
        return None
    return as_signed(elements[0], bit_width(value.type.element_type)) if is_integer(value.type.element_type) else None


def carried_number(value: BlockArgument, loop: Operation) -> int | None:
    """Which of the values that a loop carries an argument of its body is; None for the number of a `for`."""
    number = value.index - isinstance(control_flow(loop), CountedLoop)
    return number if number >= 0 else None
