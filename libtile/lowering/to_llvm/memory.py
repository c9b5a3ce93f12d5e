# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory, views and tokens. A token has no run-time value: what it orders was made barriers before."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from libtile.codegen import atomics, globals, memory, multimem, views
from libtile.codegen.builder import Value
from libtile.codegen.control import Carried, if_else
from libtile.codegen.memory import CacheHint, Ordering
from libtile.codegen.tile import Tile
from libtile.dialects.nv_tileaa.types import PtrType
from libtile.ir.tile_form import operand_group
from libtile.lowering.to_llvm.emitter import Emitter, element_name, rule
from libtile.lowering.to_llvm.fast_path import wide_facts
from libtile.lowering.to_llvm.view_facts import access_facts, block_view, memref_view
from libtile.lowering.to_tileas.accesses import pointer_vector
from libtile.numerics.elements import ELEMENTS

_SCOPES = {None: None, "tl_blk": "tl_blk", "cluster": "device", "gpu": "device", "sys": "sys"}
"""Scopes by the names that accesses know them by. A cluster is part of a device, whose scope holds for it as well."""


def ordering(op: Operation) -> Ordering:
    """The memory semantics and scope of an access, or of a fence."""
    semantic = Emitter.attribute(op, "mem_semantic", "weak")
    return Ordering(semantic, _SCOPES[Emitter.attribute(op, "mem_scope")])


_FENCE = "nv_tileas.fence"
_FENCED = {("nv_tileas.tiled_load", "acquire"), ("nv_tileas.tiled_store", "release")}


def _fenced(fence: Operation | None) -> Operation | None:
    """The access that does a fence's work: it stands beside it, so that one instruction can say both."""
    if fence is None or fence.name != _FENCE:
        return None
    order = ordering(fence)
    access = fence.prev_op if order.acquires else fence.next_op
    if access is None or (access.name, order.semantics) not in _FENCED:
        return None
    return access if ordering(access) == Ordering("relaxed", order.scope) else None


def tiled_ordering(op: Operation) -> Ordering:
    """The ordering of a tiled access with that of the fence beside it."""
    for fence in (op.prev_op, op.next_op):
        if fence is not None and _fenced(fence) is op:
            return ordering(fence)
    return ordering(op)


@rule(_FENCE)
def _fence(e: Emitter, op: Operation) -> None:
    if _fenced(op) is None:
        memory.fence(e.b, ordering(op))
    for result in op.results:
        e.bind(result, None)


def cache_hint(op: Operation) -> CacheHint:
    return CacheHint(Emitter.attribute(op, "cache_modifier"), Emitter.attribute(op, "eviction_policy"))


def _group(op: Operation, name: str) -> SSAValue | None:
    """The one operand of an optional group, or None."""
    found = operand_group(op, name)
    return found[0] if found else None


def _tile(e: Emitter, op: Operation, name: str) -> Tile | None:
    value = _group(op, name)
    return None if value is None else e.tile(value)


def _pointee(value: SSAValue) -> str:
    assert isinstance(value.type, TensorType) and isinstance(value.type.element_type, PtrType)
    return element_name(value.type.element_type.pointee)


@rule("nv_tileas.load")
def _load(e: Emitter, op: Operation) -> None:
    vector, element = pointer_vector(op)
    tile = memory.load(
        e.b,
        e.tile(op.operands[0]),
        element,
        mask=_tile(e, op, "mask"),
        padding=_tile(e, op, "other"),
        vector=vector,
        ordering=ordering(op),
        cache=cache_hint(op),
    )
    e.bind(op.results[0], tile)


@rule("nv_tileas.store")
def _store(e: Emitter, op: Operation) -> None:
    memory.store(
        e.b,
        e.tile(op.operands[0]),
        e.tile(op.operands[1]),
        mask=_tile(e, op, "mask"),
        vector=pointer_vector(op)[0],
        ordering=ordering(op),
        cache=cache_hint(op),
    )


@rule("nv_tileaa.atomic_rmw")
def _atomic_rmw(e: Emitter, op: Operation) -> None:
    result = atomics.atomic_rmw(
        e.b,
        e.attribute(op, "rmw_mode"),
        e.tile(op.operands[0]),
        e.tile(op.operands[1]),
        mask=_tile(e, op, "mask"),
        ordering=ordering(op),
        result_used=op.results[0].first_use is not None,
    )
    e.bind(op.results[0], result)


@rule("nv_tileaa.atomic_cas")
def _atomic_cas(e: Emitter, op: Operation) -> None:
    pointers, compare, replacement = (e.tile(v) for v in op.operands[:3])
    result = atomics.atomic_cas(
        e.b,
        pointers,
        compare,
        replacement,
        mask=_tile(e, op, "mask"),
        ordering=ordering(op),
        result_used=op.results[0].first_use is not None,
    )
    e.bind(op.results[0], result)


@rule("nv_tileaa.addptr")
def _addptr(e: Emitter, op: Operation) -> None:
    pointers, offsets = (e.tile(v) for v in op.operands)
    e.bind(op.results[0], memory.offset_pointers(e.b, pointers, offsets, _pointee(op.operands[0])))


# -- views ------------------------------------------------------------------------------------------------------------


@rule("nv_tileaa.make_memref")
def _make_memref(e: Emitter, op: Any) -> None:
    base = e.scalar(op.base)
    if op.offset is not None:
        base = e.b.emit(base.type, f"getelementptr i8, {base.typed}, {e.scalar(op.offset).typed}")
    sizes, strides = ([e.scalar(v) for v in values] for values in (op.sizes, op.strides))
    e.bind(op.results[0], memref_view(op, base, sizes, strides))


@rule("nv_tileaa.block_tile")
def _block_tile(e: Emitter, op: Operation) -> None:
    e.bind(op.results[0], block_view(op, e.view(op.operands[0])))


def tiled_operands(e: Emitter, op: Operation) -> tuple[views.TiledView, list[Value | Tile], views.ViewFacts]:
    """The view of an access, its indices, and what is known."""
    view = e.view(op.operands[0])
    assert view.tiled is not None
    index: list[Value | Tile] = []
    for value in operand_group(op, "indices"):
        index.append(e.tile(value) if isinstance(value.type, TensorType) else e.scalar(value))
    return view.tiled, index, access_facts(op, view)


@rule("nv_tileas.tiled_load")
def _tiled_load(e: Emitter, op: Operation) -> None:
    tiled, index, facts = tiled_operands(e, op)
    layout, order = e.layout(op.results[0]), tiled_ordering(op)

    def load(known: views.ViewFacts) -> Tile:
        return views.load_tile(e.b, tiled, index, layout, facts=known, ordering=order, cache=cache_hint(op))

    wide = wide_facts(e.b, tiled, index, layout, facts) if order.weak else None
    if wide is None:
        e.bind(op.results[0], load(facts))
        return
    condition, known = wide
    (tile,) = if_else(e.b, condition, lambda: [load(known)], lambda: [load(facts)])
    assert isinstance(tile, Tile)
    e.bind(op.results[0], tile)


@rule("nv_tileas.tiled_store")
def _tiled_store(e: Emitter, op: Operation) -> None:
    tiled, index, facts = tiled_operands(e, op)
    tile, order = e.tile(op.operands[1]), tiled_ordering(op)

    def store(known: views.ViewFacts) -> list[Carried]:
        views.store_tile(e.b, tiled, index, tile, facts=known, ordering=order, cache=cache_hint(op))
        return []

    wide = wide_facts(e.b, tiled, index, tile.layout, facts) if order.weak else None
    if wide is None:
        store(facts)
        return
    condition, known = wide
    if_else(e.b, condition, lambda: store(known), lambda: store(facts))


@rule("nv_tileas.tiled_atomic_rmw")
def _tiled_atomic(e: Emitter, op: Operation) -> None:
    tiled, index, facts = tiled_operands(e, op)
    tile, mode = e.tile(op.operands[1]), e.attribute(op, "rmw_mode")
    if mode == "add" and not ELEMENTS[tile.element].is_integer:
        mode = "addf"  # nv_tileas has one name for both additions
    atomics.reduce_tile(e.b, mode, tiled, index, tile, facts=facts, ordering=ordering(op))


@rule("nv_tileaa.get_dim_size")
def _get_dim_size(e: Emitter, op: Operation) -> None:
    view, dim = e.view(op.operands[0]), e.attribute(op, "dim")
    value = view.tensor.shape[dim] if view.tiled is None else views.index_space(e.b, view.tiled)[dim]
    e.bind(op.results[0], value)


# -- globals, scratch, grid dependency ---------------------------------------------------------------------------------


@rule("nv_tileaa.get_global")
def _get_global(e: Emitter, op: Operation) -> None:
    e.bind(op.results[0], globals.get_global(e.b, e.attribute(op, "name").root_reference.data))


@rule("nv_tileaa.alloca")
def _alloca(e: Emitter, op: Operation) -> None:
    alignment = e.attribute(op, "alignment", 16)
    allocation = globals.alloca(e.b, _pointee(op.results[0]), e.attribute(op, "count"), alignment)
    e.bind(op.results[0], e.as_tile(allocation.pointer, op.results[0].type.element_type))  # type: ignore[attr-defined]
    e.allocations.append(allocation)


@rule("nv_tileaa.gdc_launch_dependents")
def _launch_dependents(e: Emitter, op: Operation) -> None:
    globals.gdc_launch_dependents(e.b)


@rule("nv_tileaa.gdc_wait")
def _gdc_wait(e: Emitter, op: Operation) -> None:
    globals.gdc_wait(e.b)


@rule("nv_tileaa.memory_fence_alias")
def _fence_alias(e: Emitter, op: Operation) -> None:
    globals.fence_alias(e.b)


@rule("nv_tileaa.create_mem_token", "nv_tileaa.join_mem_token")
def _token(e: Emitter, op: Operation) -> None:
    e.bind(op.results[0], None)


@rule("nv_tileas.barrier")
def _barrier(e: Emitter, op: Operation) -> None:
    e.b.barrier()


# -- replicated memory ------------------------------------------------------------------------------------------------


@rule("nv_tileaa.multimem_load_reduce")
def _multimem_load_reduce(e: Emitter, op: Operation) -> None:
    tiled, index, facts = tiled_operands(e, op)
    reduction, layout = e.attribute(op, "reduction"), e.layout(op.results[0])
    tile = multimem.multimem_load_reduce(e.b, reduction, tiled, index, layout, facts=facts, ordering=ordering(op))
    e.bind(op.results[0], tile)


@rule("nv_tileaa.multimem_reduce")
def _multimem_reduce(e: Emitter, op: Operation) -> None:
    tiled, index, facts = tiled_operands(e, op)
    reduction, tile = e.attribute(op, "reduction"), e.tile(op.operands[1])
    multimem.multimem_reduce(e.b, reduction, tiled, index, tile, facts=facts, ordering=ordering(op))


@rule("nv_tileaa.multimem_store")
def _multimem_store(e: Emitter, op: Operation) -> None:
    tiled, index, facts = tiled_operands(e, op)
    multimem.multimem_store(e.b, tiled, index, e.tile(op.operands[1]), facts=facts, ordering=ordering(op))
