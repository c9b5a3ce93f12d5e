# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What passes ask of ops of any dialect besides their effects (`effect_traits`): where an op is undefined, what it
folds to, what its regions see, where control and the values that it carries go, which results name the memory of an
operand, what tokens stand for.

An op declares each by a trait: one of cuda_tile by name in spec/, all others in their classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsolatedFromAbove, OpTrait

from libtile.dialects.effect_traits import is_storage
from libtile.ir.places import op_of
from libtile.support.records import dataclass

# -- where ops are undefined ------------------------------------------------------------------------------------------


class Partial(OpTrait):
    """The op is undefined for some operands: it must not run where the program did not run it."""

    def is_defined(self, op: Operation) -> bool:
        """Whether the op, as it stands, is defined for all operands all the same."""
        return False


@dataclass(frozen=True)
class DividesBy(Partial):
    """A division: undefined for a divisor of zero, and where the smallest number is divided by -1."""

    divisor: int
    """The number of the operand."""
    signed: bool | None = None
    """None: as the op's `signedness` says."""

    def is_defined(self, op: Operation) -> bool:
        from libtile.dialects.constants import constant_elements, integer_bits

        value = op.operands[self.divisor]
        divisors, bits = constant_elements(value), integer_bits(value.type)
        if divisors is None or bits is None or 0 in divisors:
            return False
        signed = _says_signed(op) if self.signed is None else self.signed
        return not signed or (1 << bits) - 1 not in divisors


def _says_signed(op: Operation) -> bool:
    return getattr(op.properties.get("signedness"), "keyword", None) == "signed"


class MayExcludeOverflow(Partial):
    """Integer arithmetic, which wraps around unless the op says that it does not: then an overflow is undefined."""

    def is_defined(self, op: Operation) -> bool:
        return getattr(op, "overflow", "none") == "none"


class StatesFact(OpTrait):
    """The result is the operand, with a fact about it that has to hold where the op runs: it is kept while somebody
    uses its result, and merged with an equal one."""


def is_defined(op: Operation) -> bool:
    """Whether the op gives a value for all operands of its types (it may have effects all the same)."""
    return all(trait.is_defined(op) for trait in _partial(type(op)))


@cache
def _partial(cls: type[Operation]) -> tuple[Partial, ...]:
    return tuple(trait for trait in cls.traits if isinstance(trait, Partial))


# -- what regions see -------------------------------------------------------------------------------------------------


class MayIsolate(OpTrait):
    """Regions of the op may use no value from around it, if the op says so."""

    def isolates(self, op: Operation) -> bool:
        """Whether they may not, of this op."""
        raise NotImplementedError


def is_isolated(op: Operation) -> bool:
    """Whether no value from around an op may be used in its regions."""
    return op.has_trait(IsolatedFromAbove) or any(trait.isolates(op) for trait in _isolating(type(op)))


@cache
def _isolating(cls: type[Operation]) -> tuple[MayIsolate, ...]:
    return tuple(trait for trait in cls.traits if isinstance(trait, MayIsolate))


# -- where control goes -----------------------------------------------------------------------------------------------

Edge = tuple[int, SSAValue]
"""The number of an operand, and a value that it may become."""


class ControlFlow(OpTrait):
    """What an op with regions does with control: which values of its own, and of exits to it, become which others.

    Operands that are in no edge decide where control goes, or belong to the op itself.
    """

    ends = True
    """Whether the op comes to an end, if what is inside of it does."""
    is_loop = False

    def runs(self, op: Operation) -> bool:
        """Whether the first region runs for certain."""
        return False

    def entry(self, op: Operation) -> list[Edge]:
        """What the op's own operands become."""
        return []

    def back(self, op: Operation, exit_: Operation) -> list[Edge]:
        """What the operands of an exit become whose control goes to the op: `yield`, `continue`, scf's."""
        return []

    def out(self, op: Operation, exit_: Operation) -> list[Edge]:
        """What the operands of a `break` out of the op become."""
        return []


class Branch(ControlFlow):
    """One of the regions runs, or none."""

    def back(self, op: Operation, exit_: Operation) -> list[Edge]:
        return list(enumerate(op.results))


class CountedLoop(ControlFlow):
    """The region runs for each number from the first operand by steps of the third one below the second."""

    is_loop = True
    bounds = 3

    def runs(self, op: Operation) -> bool:
        """Where the bounds are constants that say so."""
        return self.is_entered(op, *map(_scalar, op.operands[:2])) or False

    def is_entered(self, op: Operation, lower: int | None, upper: int | None) -> bool | None:
        """Whether there is an iteration for bounds with these bits; None where they are not known."""
        from libtile.dialects.constants import as_signed, integer_bits

        bits = integer_bits(op.operands[0].type)
        if lower is None or upper is None or bits is None:
            return None
        if any("unsignedCmp" in held for held in (op.properties, op.attributes)):
            return lower < upper
        return as_signed(lower, bits) < as_signed(upper, bits)

    def carried(self, op: Operation) -> tuple[SSAValue, ...]:
        """The values that the first iteration gets, behind its number."""
        return tuple(op._operands[self.bounds :])

    def entry(self, op: Operation) -> list[Edge]:
        return [(self.bounds + index, value) for index, value in self.back(op, op)]

    def back(self, op: Operation, exit_: Operation) -> list[Edge]:
        return [(index, value) for index, pair in enumerate(zip(body(op).args[1:], op.results)) for value in pair]


class UncountedLoop(ControlFlow):
    """The first region runs at least once, and gets the op's operands; nobody says how often."""

    ends = False
    is_loop = True

    def runs(self, op: Operation) -> bool:
        return True

    def entry(self, op: Operation) -> list[Edge]:
        return list(enumerate(body(op).args))


class EndlessLoop(UncountedLoop):
    """The region runs until a `break`, which gives the results."""

    def back(self, op: Operation, exit_: Operation) -> list[Edge]:
        return list(enumerate(body(op).args))

    def out(self, op: Operation, exit_: Operation) -> list[Edge]:
        return list(enumerate(op.results))


class Exit(OpTrait):
    """A terminator that hands control to an op around it."""

    def target(self, op: Operation) -> Operation | None:
        """The op that control goes to; None where that is the function's end."""
        return op.parent_op()


class EndsRegion(Exit):
    """Goes to the op right around it."""


class EndsIteration(Exit):
    """Goes to the loop around it, through branches."""

    def target(self, op: Operation) -> Operation | None:
        return _loop_around(op)


class EndsLoop(Exit):
    """Leaves the loop around it, through branches."""

    def target(self, op: Operation) -> Operation | None:
        return _loop_around(op)


class EndsFunction(Exit):
    """Leaves the function, and all loops on the way."""

    def target(self, op: Operation) -> Operation | None:
        return None


def control_flow(op: Operation | None) -> ControlFlow | None:
    """What an op does with control; None for one that has no region, or whose regions are something else."""
    return None if op is None or not op.regions else _flow_of(type(op))


def bounds_of(op: Operation) -> tuple[SSAValue, SSAValue, SSAValue]:
    """The lower bound, the upper one and the step of an op that is a `CountedLoop`."""
    lower, upper, step = op._operands[: CountedLoop.bounds]
    return lower, upper, step


def loop_around(op: Operation) -> Operation | None:
    """The innermost loop that an op stands in."""
    around = op.parent_op()
    while around is not None:
        flow = control_flow(around)
        if flow is not None and flow.is_loop:
            return around
        around = around.parent_op()
    return None


def exit_of(op: Operation) -> Exit | None:
    """What a terminator does with control; None for an op that is none, or that says nothing of it."""
    return _exit_of(type(op))


@cache
def _flow_of(cls: type[Operation]) -> ControlFlow | None:
    return next((trait for trait in cls.traits if isinstance(trait, ControlFlow)), None)


@cache
def _exit_of(cls: type[Operation]) -> Exit | None:
    return next((trait for trait in cls.traits if isinstance(trait, Exit)), None)


def edges(op: Operation) -> list[Edge]:
    """What becomes of the operands of an op with control flow, or of an exit to one; none for other ops."""
    flow = control_flow(op)
    if flow is not None:
        return flow.entry(op)
    exit_ = exit_of(op)
    target = exit_.target(op) if exit_ is not None else None
    flow = control_flow(target)
    if exit_ is None or target is None or flow is None:
        return []
    return flow.out(target, op) if isinstance(exit_, EndsLoop) else flow.back(target, op)


def body(op: Operation, number: int = 0) -> Block:
    """The first block of a region."""
    return op.regions[number].blocks[0]


def _scalar(value: SSAValue) -> int | None:
    from libtile.dialects.constants import constant_elements

    elements = constant_elements(value)
    return elements[0] if elements is not None and len(elements) == 1 else None


def _loop_around(op: Operation) -> Operation | None:
    parent = op.parent_op()
    while parent is not None:
        flow = control_flow(parent)
        if flow is None or flow.is_loop:
            return parent if flow is not None else None
        parent = parent.parent_op()
    return None


# -- aliasing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NamesMemoryOf(OpTrait):
    """The first result names memory that an operand names, if these are pointers, views, storage, or iterators: what is
    written through one is read through the other. MLIR's `ViewLikeOpInterface`.

    Turns of pipelines name stages. Results of control flow name what is handed to them (`edges`). All other ops make
    memory of their own, or compute pointers of several.
    """

    operand: str = "source"
    part: bool = False
    """The result names only a part of it, or what lies beside it: another part may have nothing in common with it."""
    storage: bool = False
    """Only for storage: of tiles the op makes another one, of several."""

    def named(self, op: Operation) -> SSAValue | None:
        """The operand; None where the op makes something else this time."""
        value: SSAValue | None = getattr(op, self.operand)
        return None if value is None or (self.storage and not is_storage(value)) else value


def renamed(value: SSAValue, *, parts: bool = True) -> SSAValue | None:
    """The value whose memory this one names by its op; without `parts`, only if it is all of it. None for another."""
    owner = op_of(value)
    if owner is None or value is not owner.results[0]:
        return None
    trait = _naming_of(type(owner))
    return None if trait is None or (trait.part and not parts) else trait.named(owner)


def first_name(value: SSAValue, *, parts: bool = True) -> SSAValue:
    """The value that memory has first been named by, going back through all that gives it other names."""
    while (before := renamed(value, parts=parts)) is not None:
        value = before
    return value


def other_names(value: SSAValue) -> set[SSAValue]:
    """The value, and all that ops give its memory, or parts of it, for names."""
    found, work = {value}, [value]
    while work:
        for use in work.pop().uses:
            name = next(iter(use.operation.results), None)
            if name is not None and name not in found and renamed(name) is use.operation.operands[use.index]:
                found.add(name)
                work.append(name)
    return found


@cache
def _naming_of(cls: type[Operation]) -> NamesMemoryOf | None:
    return next((trait for trait in cls.traits if isinstance(trait, NamesMemoryOf)), None)


# -- tokens -----------------------------------------------------------------------------------------------------------
#
# A token stands for accesses. One that an op gives stands for the op's own effects, and, if the op takes tokens, for
# all that these stand for; `FreshToken` and `JoinsTokens` have no effects of their own. Results of control flow stand
# for what is handed to them (`edges`).


class FreshToken(OpTrait):
    """The result is a token that orders nothing."""


class JoinsTokens(OpTrait):
    """The result is a token behind all of the operands."""


_TOKENS = ("cuda_tile.token", "nv_tileaa.mem_token")


def is_token(value: SSAValue) -> bool:
    """Whether a value is a token of memory."""
    return value.type.name in _TOKENS


# -- folding ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folds(OpTrait):
    """The op computes a function of `dialects.folding` of its operands, with these parameters.

    `attributes` are those of the op that say more: signedness, rounding, predicate.
    """

    function: str
    given: tuple[tuple[str, Any], ...] = ()
    attributes: tuple[str, ...] = ()

    def parameters(self, op: Operation) -> Mapping[str, Any]:
        return dict(self.given) | {name: getattr(op, name) for name in self.attributes}
