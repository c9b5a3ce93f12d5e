# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a pass may do with an op of any dialect: erase it, merge it with an equal one, run it where it did not run.

The facts are the ops' own: what they declare of effects (`dialects.effect_traits`, and xDSL's traits), of where they
are undefined and where control goes (`dialects.interfaces`). Undefined behaviour is that of the Tile IR specification's
op pages (division by zero, an overflow that the op's flag rules out, an index out of range).
"""

from __future__ import annotations

from functools import cache

from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator, MemoryEffectKind, RecursiveMemoryEffect, SymbolOpInterface

from libtile.dialects.effect_traits import AlwaysReturns, Effects, effects_of
from libtile.dialects.interfaces import StatesFact, control_flow, exit_of, is_defined
from libtile.ir.places import inner_ops, ops_of


def is_dead_when_unused(op: Operation) -> bool:
    """Whether nobody can tell whether the op ran when its results are not used: it reads, or allocates what is its own.

    So MLIR's `wouldOpBeTriviallyDead` has it, but that all that the op and those in it allocate counts as its own.
    """
    effects = _effects_unless_kept(op)
    return effects is not None and all(
        effect.kind == MemoryEffectKind.READ
        or (
            effect.kind == MemoryEffectKind.ALLOC
            and isinstance(effect.value, SSAValue)
            and op.is_ancestor(effect.value.owner)
        )
        for effect in effects
    )


def has_no_effects(op: Operation) -> bool:
    """Whether the op does nothing but compute its results from its operands."""
    effects = _effects_unless_kept(op)
    return effects is not None and not effects


def _effects_unless_kept(op: Operation) -> Effects | None:
    """The effects of an op; None where they are not known, and of one that is kept for what it is."""
    return None if _is_kept(type(op)) else effects_of(op)


@cache
def _is_kept(cls: type[Operation]) -> bool:
    return any(cls.has_trait(trait, value_if_unregistered=False) for trait in (IsTerminator, SymbolOpInterface))


def is_unused(op: Operation) -> bool:
    """Whether nobody uses a result of the op."""
    for result in op.results:  # noqa: SIM110  (which passes ask of every op, and `all` takes three times as long)
        if result.first_use is not None:
            return False
    return True


def is_mergeable(op: Operation) -> bool:
    """Whether an equal op before it, on the way to it, makes the op needless."""
    if op.regions or op._successors or op.has_trait(IsTerminator):
        return False
    return op.has_trait(StatesFact) or has_no_effects(op)


def is_removable(op: Operation) -> bool:
    """Whether the op can be erased when no result is used: it has no effect, or none that a program can observe.

    That takes in `assume` (it states a fact about its result only), weak loads, and counted loops (they end).
    """
    flow = control_flow(op)
    if flow is not None:
        return flow.ends and all(_ends_here(inner, op) or is_removable(inner) for inner in inner_ops(op))
    return is_dead_when_unused(op) or op.has_trait(StatesFact)


def _ends_here(op: Operation, parent: Operation) -> bool:
    """Whether the op ends a run of its own parent's region and nothing beyond it."""
    exit_ = exit_of(op)
    return exit_ is not None and exit_.target(op) is parent


def leaves_region(op: Operation) -> bool:
    """Whether control can leave `op`'s region through it: it is an exit, or holds one that goes beyond `op` itself."""
    around = {op}  # the op and those in it with regions, each before what is inside of it
    for inner in ops_of(op):
        if inner.regions:
            around.add(inner)
        exit_ = exit_of(inner)
        if exit_ is None:
            if inner.has_trait(IsTerminator):
                return True
        elif exit_.target(inner) not in around:
            return True
    return False


def returns_for_certain(op: Operation) -> bool:
    """Whether what follows the op runs: it cannot leave the iteration, stop the program, or go on for ever."""
    return not leaves_region(op) and all(map(_goes_on, ops_of(op)))


def _goes_on(op: Operation) -> bool:
    flow = control_flow(op)
    if flow is not None:
        return flow.ends
    return op.has_trait(AlwaysReturns) or op.has_trait(IsTerminator) or is_removable(op)


def is_speculatable(op: Operation) -> bool:
    """Whether the op can run where the program did not run it: it has no effects and is defined for all operands."""
    # What only computes in its region has a function of the region's arguments there; loops and branches stay.
    if op.regions and not (op.has_trait(RecursiveMemoryEffect) and control_flow(op) is None):
        return False
    if op.has_trait(IsTerminator) or not has_no_effects(op) or not is_defined(op):
        return False
    return all(inner.has_trait(IsTerminator) or is_speculatable(inner) for inner in inner_ops(op))
