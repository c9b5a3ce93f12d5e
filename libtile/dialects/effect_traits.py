# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the ops of all three dialects do besides computing their results, as traits of their declarations.

Every op has one of the effects, or xDSL's `Pure` (nothing), or `RecursiveMemoryEffect` (what the ops of its regions
do), so that passes ask `xdsl.traits.get_effects(op)` and know no names. Terminators and symbols are kept for what they
are. Ops of cuda_tile name the traits in spec/. What else passes ask of ops stands in `dialects.interfaces`.
"""

from __future__ import annotations

from collections.abc import Set

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, OpTrait

from libtile.support.records import dataclass

Effects = Set[EffectInstance]

_READS = EffectInstance(MemoryEffectKind.READ)
_WRITES = EffectInstance(MemoryEffectKind.WRITE)
NOTHING: Effects = frozenset()
READS: Effects = frozenset({_READS})
ANYTHING: Effects = frozenset({_READS, _WRITES})


class ReadsMemory(MemoryEffect):
    """A load: it can go when nobody wants its value, unless others can tell, as it is ordered or volatile."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return READS if is_weak(op) else ANYTHING


@dataclass(frozen=True)
class ReadsThrough(ReadsMemory):
    """A load of the memory that the operand group `memory` names: pointers, or a view."""

    memory: str


def is_weak(op: Operation) -> bool:
    """Whether only the tile block can tell that and when an access happens: it is neither ordered nor volatile."""
    semantic = op.properties.get("memory_ordering_semantics", op.properties.get("mem_semantic"))
    return (semantic is None or getattr(semantic, "keyword", None) == "weak") and "is_volatile" not in op.properties


class Observable(MemoryEffect):
    """Writes, orders, waits, prints, or calls what does: it stays, where it is, as often as it is there."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return ANYTHING


@dataclass(frozen=True)
class WritesThrough(Observable):
    """A store to the memory that the operand group `memory` names: pointers, or a view."""

    memory: str


def accessed(op: Operation) -> SSAValue | None:
    """The pointers, or the view, that a load or a store goes through; None for an op that does something else."""
    trait = op.get_trait(ReadsThrough) or op.get_trait(WritesThrough)
    value: SSAValue | None = None if trait is None else getattr(op, trait.memory)
    return value


class Allocates(MemoryEffect):
    """Makes something with an identity of its own: two are never one, and one that nobody uses can go."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return frozenset(EffectInstance(MemoryEffectKind.ALLOC, result) for result in op.results)


class AlwaysReturns(OpTrait):
    """An op with an effect behind which the program goes on for certain: it does not stop it, nor wait for ever."""


class ReadsOrWrites(MemoryEffect):
    """A copy: into its destination, or (without one) a read of its source."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return READS if op.results else ANYTHING


class MayDraw(Allocates):
    """Makes an iterator of its own; one of turns that are drawn takes a turn from all others, and waits for it."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return ANYTHING if "drawn" in op.properties else super().get_effects(op)


_BUFFER = "nv_tileas.buffer"
"""The type of storage for a tile."""


class ChangesDestination(MemoryEffect):
    """Replaces a part of its destination: it gives another tile, or writes the storage that it was given."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        if any(result.type.name == _BUFFER for result in op.results):
            return ANYTHING
        return READS if any(value.type.name == _BUFFER for value in op.operands) else NOTHING


class PureIfSaid(MemoryEffect):
    """Foreign code, which does nothing but compute when its `pure` says so."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return NOTHING if isinstance(op.properties.get("pure"), UnitAttr) else ANYTHING
