# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ops say of the memory that they access: by their effects, and by the alias scopes of memrefs.

Accesses through memrefs of different scopes touch no common byte. A memref without a scope may be any memory, and so
may pointers, unless the access says whose memory they name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import EffectInstance, IsTerminator, MemoryEffectKind

from libtile.dialects.effect_traits import Effects, Observable, accessed, effects_of, is_plain_access, is_weak, meet
from libtile.dialects.interfaces import renamed
from libtile.dialects.nv_tileaa.types import MemRefType, TiledViewType
from libtile.ir.places import op_of, ops_of

ALIAS_SCOPE = "alias_scope"
"""On an access through pointers: the scope of the memory that they name. Passes write it where they make pointers of
a memref with one."""


def viewed(value: SSAValue) -> SSAValue:
    """The memref behind a tiled view that is made here; else the value itself."""
    source = renamed(value) if isinstance(value.type, TiledViewType) else None
    return value if source is None else source


def alias_scope(memory: SSAValue) -> int | None:
    """The alias scope of a memref, or of that behind a view; None when it has none, and for pointers."""
    memref = viewed(memory)
    type_: Attribute = memref.type
    if isinstance(type_, TiledViewType):
        type_ = type_.source
    if not isinstance(type_, MemRefType):
        return None
    if type_.alias_scope is not None:
        return type_.alias_scope
    owner = op_of(memref)
    scope = None if owner is None else owner.properties.get("alias_scope")
    return scope.value.data if isinstance(scope, IntegerAttr) else None


def scope_of(op: Operation) -> int | None:
    """The alias scope of what an op accesses: of its memref, or what stands on an access through pointers. None where
    there is none, or for an op that names no memory."""
    memory = accessed(op)
    if memory is None:
        return None
    said = op.attributes.get(ALIAS_SCOPE)
    return alias_scope(memory) if said is None or not isinstance(said, IntegerAttr) else said.value.data


def are_of_different_scopes(one: Operation, other: Operation) -> bool:
    """Whether two accesses go through memrefs of different alias scopes."""
    first, second = scope_of(one), scope_of(other)
    return first is not None and second is not None and first != second


Disjoint = Callable[[Operation, Operation], bool]
"""Whether two accesses certainly touch no common byte."""


def writers(op: Operation) -> list[Operation]:
    """The op, or those in its regions, if they write or order anything. An op with regions that only runs them does
    what is in them; one that waits for another agent does so itself."""
    found = []
    for inner in ops_of(op):
        if inner.has_trait(IsTerminator) or (inner.regions and not inner.has_trait(Observable)):
            continue
        effects = effects_of(inner)
        if effects is None or any(map(_writes, effects)):
            found.append(inner)
    return found


def may_one_write(ops: Iterable[Operation], load: Operation, are_disjoint: Disjoint) -> bool:
    """Whether one of these ops, for itself, may write what a load reads."""
    reads = effects_of(load)
    return any(op is not load and _may_write(op, load, reads, are_disjoint) for op in ops)


def _may_write(op: Operation, load: Operation, reads: Effects | None, are_disjoint: Disjoint) -> bool:
    effects = effects_of(op)
    if effects is None or reads is None:
        return True
    met = [(one, other) for one in effects if _writes(one) for other in reads if meet(one, other)]
    return bool(met) and not (all(e.value is not None for pair in met for e in pair) and are_disjoint(op, load))


def _writes(effect: EffectInstance) -> bool:
    return effect.kind in (MemoryEffectKind.WRITE, MemoryEffectKind.FREE)


def is_weak_access(op: Operation) -> bool:
    """Whether an access orders nothing but what its tokens say, and may be done once for several, or early."""
    return is_plain_access(op) and is_weak(op)
