# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the alias scopes of memrefs say of accesses: through memrefs of different scopes they touch no common byte.

A memref without a scope may be any memory, and so may pointers.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import IsTerminator, MemoryEffectKind, get_effects

from libtile.dialects.effect_traits import Observable
from libtile.dialects.nv_tileaa.memory import Access
from libtile.dialects.nv_tileaa.pointers import BlockTileOp
from libtile.dialects.nv_tileaa.types import MemRefType, TiledViewType
from libtile.ir.places import walk


def viewed(value: SSAValue) -> SSAValue:
    """The memref behind a tiled view that is made here; else the value itself."""
    owner = value.owner
    return owner.source if isinstance(owner, BlockTileOp) else value


def alias_scope(accessed: SSAValue) -> int | None:
    """The alias scope of a memref, or of that behind a view; None when it has none, and for pointers."""
    memref = viewed(accessed)
    type_: Attribute = memref.type
    if isinstance(type_, TiledViewType):
        type_ = type_.source
    if not isinstance(type_, MemRefType):
        return None
    if type_.alias_scope is not None:
        return type_.alias_scope
    owner = memref.owner
    scope = owner.properties.get("alias_scope") if isinstance(owner, Operation) else None
    return scope.value.data if isinstance(scope, IntegerAttr) else None


def scope_of(op: Operation) -> int | None:
    """The alias scope of what an op accesses; None where it has none, or for an op that names no memory."""
    return alias_scope(op.accessed) if isinstance(op, Access) else None


def are_of_different_scopes(one: Operation, other: Operation) -> bool:
    """Whether two accesses go through memrefs of different alias scopes."""
    first, second = scope_of(one), scope_of(other)
    return first is not None and second is not None and first != second


def may_write_what_is_read(op: Operation, load: Operation) -> bool:
    """Whether an op, or one in its regions, may write what a load reads, or order it: all but ops without effects,
    other reads, and accesses of another alias scope. An op with regions that only runs them does what is in them; one
    that waits for another agent does so itself."""
    for inner in walk(op):
        if inner is load or inner.has_trait(IsTerminator) or (inner.regions and not inner.has_trait(Observable)):
            continue
        effects = get_effects(inner)
        harmless = effects is not None and all(
            e.kind in (MemoryEffectKind.READ, MemoryEffectKind.ALLOC) for e in effects
        )
        if not harmless and not (is_weak_access(inner) and are_of_different_scopes(inner, load)):
            return True
    return False


def is_weak_access(op: Operation) -> bool:
    """Whether an access orders nothing but what its tokens say."""
    weak = op.properties.get("mem_semantic")
    said = weak is None or getattr(weak, "keyword", None) == "weak"
    return isinstance(op, Access) and said and "mem_scope" not in op.properties and "is_volatile" not in op.properties
