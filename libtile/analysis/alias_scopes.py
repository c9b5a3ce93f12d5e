# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the alias scopes of memrefs say of accesses: through memrefs of different scopes they touch no common byte.

A memref without a scope may be any memory, and so may pointers, unless the access says whose memory they name.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import IsTerminator, MemoryEffectKind, get_effects, only_has_effect

from libtile.dialects.effect_traits import Observable
from libtile.dialects.nv_tileaa.memory import Access
from libtile.dialects.nv_tileaa.pointers import BlockTileOp
from libtile.dialects.nv_tileaa.types import MemRefType, TiledViewType
from libtile.ir.places import walk

ALIAS_SCOPE = "alias_scope"
"""On an access through pointers: the scope of the memory that they name. Passes write it where they make pointers of
a memref with one."""


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
    """The alias scope of what an op accesses: of its memref, or what stands on an access through pointers. None where
    there is none, or for an op that names no memory."""
    if not isinstance(op, Access):
        return None
    said = op.attributes.get(ALIAS_SCOPE)
    return said.value.data if isinstance(said, IntegerAttr) else alias_scope(op.accessed)


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
        if not harmless and not (orders_nothing(inner) and are_of_different_scopes(inner, load)):
            return True
    return False


def is_weak_access(op: Operation) -> bool:
    """Whether an access orders nothing but what its tokens say, and may be done once for several, or early."""
    return orders_nothing(op) and _semantic(op) == "weak" and "mem_scope" not in op.properties


def is_weak_load(op: Operation) -> bool:
    """Whether an op is a weak access and does nothing but read."""
    return is_weak_access(op) and only_has_effect(op, MemoryEffectKind.READ)


def orders_nothing(op: Operation) -> bool:
    """Whether an access orders others by nothing but tokens: a weak one, or a relaxed one such as an atomic."""
    return isinstance(op, Access) and _semantic(op) in ("weak", "relaxed") and "is_volatile" not in op.properties


def _semantic(op: Operation) -> str:
    said = op.properties.get("mem_semantic")
    return "weak" if said is None else getattr(said, "keyword", "")
