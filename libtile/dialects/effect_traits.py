# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the ops of the inner dialects do besides computing their results, as traits of their declarations.

Every op has one of these, or xDSL's `Pure` (nothing), or `RecursiveMemoryEffect` (what the ops of its regions do), so
that passes ask `xdsl.traits.get_effects(op)` and know no names. Terminators and symbols are kept for what they are.
"""

from __future__ import annotations

from collections.abc import Set

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind

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
        semantic = op.properties.get("mem_semantic")
        weak = semantic is None or getattr(semantic, "keyword", None) == "weak"
        return READS if weak and "is_volatile" not in op.properties else ANYTHING


class Observable(MemoryEffect):
    """Writes, orders, waits, prints, or calls what does: it stays, where it is, as often as it is there."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return ANYTHING


class Allocates(MemoryEffect):
    """Makes something with an identity of its own: two are never one, and one that nobody uses can go."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return frozenset(EffectInstance(MemoryEffectKind.ALLOC, result) for result in op.results)


class ReadsOrWrites(MemoryEffect):
    """A copy: into its destination, or (without one) a read of its source."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return READS if op.results else ANYTHING


class PureIfSaid(MemoryEffect):
    """Foreign code, which does nothing but compute when its `pure` says so."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return NOTHING if isinstance(op.properties.get("pure"), UnitAttr) else ANYTHING
