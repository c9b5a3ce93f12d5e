# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory, views and tokens. A token has no run-time value: what it orders was made barriers before."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from libtile.codegen import globals, memory, tiled_views, views
from libtile.codegen.builder import Value, integer
from libtile.codegen.llvm_types import I64
from libtile.codegen.memory import CacheHint, Ordering
from libtile.codegen.sharing import Handed
from libtile.codegen.tile import Tile
from libtile.dialects.nv_tileaa.memory import (
    Access,
    AllocaOp,
    MemoryOp,
)
from libtile.dialects.nv_tileaa.pointers import AddPtrOp, BlockTileOp, GetDimSizeOp, GetGlobalOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileaa.tokens import (
    CreateMemTokenOp,
    GdcLaunchDependentsOp,
    GdcWaitOp,
    JoinMemTokenOp,
    MemoryFenceAliasOp,
)
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType, PtrType, TiledViewType
from libtile.dialects.nv_tileas.memory import (
    FenceOp,
    LoadOp,
    StoreOp,
    TiledLoadOp,
    TiledStoreOp,
)
from libtile.ir.tile_form import TileOp, element_of, integer_of
from libtile.layouts.convert import Conversion
from libtile.lowering.index_width import NARROW
from libtile.lowering.tileas.copies.select_copies import offset_bits, vector_of
from libtile.lowering.tileas.exchanges.ways import handed_out_by, hands_out
from libtile.lowering.tileas.memory.fences import instruction_semantic
from libtile.lowering.to_llvm.emitter import Emitter, View, element_name, rule
from libtile.support.records import replace

_SCOPES = {"tl_blk": "tl_blk", "cluster": "device", "gpu": "device", "sys": "sys"}
"""Scopes by the names that accesses know them by. A cluster is part of a device, whose scope holds for it as well."""


def ordering(op: MemoryOp | FenceOp) -> Ordering:
    """What each instruction of an access, or a thread's fence, says of its order."""
    scope = None if op.mem_scope is None else _SCOPES[op.mem_scope.keyword]
    return Ordering(instruction_semantic(op), scope)


@rule(FenceOp)
def _fence(e: Emitter, op: FenceOp) -> None:
    memory.fence(e.b, ordering(op))
    for result in op.results:
        e.bind(result, None)


def cache_hint(op: MemoryOp) -> CacheHint:
    """The cache operator and the eviction policy of an access."""
    modifier, policy = op.cache_modifier, op.eviction_policy
    return CacheHint(None if modifier is None else modifier.keyword, None if policy is None else policy.keyword)


def optional_tile(e: Emitter, value: SSAValue | None) -> Tile | None:
    """The tile of an operand that may be absent."""
    return None if value is None else e.tile(value)


def handed_by(op: Operation) -> Handed:
    """How owners of elements hand out what the op gave them, if they do."""
    return handed_out_by(op) if hands_out(op) else Conversion.REGISTERS


def _pointee(value: SSAValue) -> str:
    pointer = element_of(value.type)
    assert isinstance(pointer, PtrType)
    return element_name(pointer.pointee)


@rule(LoadOp)
def _load(e: Emitter, op: LoadOp) -> None:
    element = _pointee(op.base)
    tile = memory.load(
        e.b,
        e.tile(op.base),
        element,
        mask=optional_tile(e, op.mask),
        padding=optional_tile(e, op.other),
        vector=vector_of(op, element),
        ordering=ordering(op),
        cache=cache_hint(op),
        handed=handed_by(op),
    )
    e.bind(op.value, tile)


@rule(StoreOp)
def _store(e: Emitter, op: StoreOp) -> None:
    memory.store(
        e.b,
        e.tile(op.base),
        e.tile(op.value),
        mask=optional_tile(e, op.mask),
        vector=vector_of(op, e.element(op.value)),
        ordering=ordering(op),
        cache=cache_hint(op),
    )


@rule(AddPtrOp)
def _addptr(e: Emitter, op: AddPtrOp) -> None:
    if not all(isinstance(v.type, TensorType) for v in (op.base, op.offset, op.result)):
        e.bind_one(op.result, memory.offset_pointer(e.b, e.scalar(op.base), e.scalar(op.offset), _pointee(op.base)))
        return
    e.bind(op.result, memory.offset_pointers(e.b, e.tile(op.base), e.tile(op.offset), _pointee(op.base)))


# -- views ------------------------------------------------------------------------------------------------------------


@rule(MakeMemRefOp)
def _make_memref(e: Emitter, op: MakeMemRefOp) -> None:
    base = e.scalar(op.base)
    if op.offset is not None:
        base = e.b.offset(base, e.scalar(op.offset))
    type_ = op.result.type
    assert isinstance(type_, MemRefType)
    sizes, strides = (iter([e.scalar(v) for v in values]) for values in (op.sizes, op.strides))
    tensor = tiled_views.TensorView(
        base,
        element_name(type_.element_type),
        tuple(next(sizes) if s == DYNAMIC else integer(I64, s) for s in type_.shape),
        tuple(next(strides) if s == DYNAMIC else integer(I64, s) for s in type_.strides),
    )
    e.bind(op.result, View(tensor, narrow=0 < offset_bits(op) <= NARROW))


@rule(BlockTileOp)
def _block_tile(e: Emitter, op: BlockTileOp) -> None:
    source, type_ = e.view(op.source), op.result.type
    assert isinstance(type_, TiledViewType)
    tiling = type_.layout
    if tiling.sparse_dim is not None:
        tiled = tiled_views.TiledView.gather(source.tensor, type_.shape, tiling.sparse_dim, tiling.padding)
    else:
        tiled = tiled_views.TiledView(
            source.tensor, type_.shape, type_.traversal_strides, type_.dim_map, None, tiling.padding
        )
    e.bind(op.result, replace(source, tiled=tiled))


def tiled_operands(e: Emitter, op: Access) -> tuple[tiled_views.TiledView, list[Value | Tile], tiled_views.Accesses]:
    """The view of an access, its indices, and how its tile is cut into accesses."""
    view = e.view(op.accessed)
    assert view.tiled is not None
    index: list[Value | Tile] = []
    for value in op.coordinates:
        index.append(e.tile(value) if isinstance(value.type, TensorType) else e.scalar(value))
    vector, masked = vector_of(op, view.tiled.view.element), op.properties.get("masked")
    dims = tuple(range(len(view.tiled.tile))) if masked is None else integers_of(masked)
    return view.tiled, index, tiled_views.Accesses(vector.dim, vector.count, dims, view.narrow)


@rule(TiledLoadOp)
def _tiled_load(e: Emitter, op: TiledLoadOp) -> None:
    tiled, index, accesses = tiled_operands(e, op)
    layout, order = e.layout(op.value), ordering(op)
    tile = views.load_tile(
        e.b, tiled, index, layout, accesses, ordering=order, cache=cache_hint(op), handed=handed_by(op)
    )
    e.bind(op.value, tile)


@rule(TiledStoreOp)
def _tiled_store(e: Emitter, op: TiledStoreOp) -> None:
    tiled, index, accesses = tiled_operands(e, op)
    tile, order = e.tile(op.value), ordering(op)
    views.store_tile(e.b, tiled, index, tile, accesses, ordering=order, cache=cache_hint(op))


@rule(GetDimSizeOp)
def _get_dim_size(e: Emitter, op: GetDimSizeOp) -> None:
    view, dim = e.view(op.source), op.dim.value.data
    value = view.tensor.shape[dim] if view.tiled is None else tiled_views.index_space(e.b, view.tiled)[dim]
    e.bind_count(op.result, value)


# -- globals, scratch, grid dependency ---------------------------------------------------------------------------------


@rule(GetGlobalOp)
def _get_global(e: Emitter, op: GetGlobalOp) -> None:
    e.bind_one(op.result, globals.get_global(e.b, op.global_name.root_reference.data))


@rule(AllocaOp)
def _alloca(e: Emitter, op: AllocaOp) -> None:
    allocation = globals.alloca(
        e.b, _pointee(op.result), op.count.value.data, integer_of(op.alignment, 16), handed_by(op)
    )
    e.bind_one(op.result, allocation.pointer)
    e.allocations.append(allocation)


@rule(GdcLaunchDependentsOp)
def _launch_dependents(e: Emitter, op: GdcLaunchDependentsOp) -> None:
    globals.gdc_launch_dependents(e.b)


@rule(GdcWaitOp)
def _gdc_wait(e: Emitter, op: GdcWaitOp) -> None:
    globals.gdc_wait(e.b)


@rule(MemoryFenceAliasOp)
def _fence_alias(e: Emitter, op: MemoryFenceAliasOp) -> None:
    globals.fence_alias(e.b)


@rule(CreateMemTokenOp, JoinMemTokenOp)
def _token(e: Emitter, op: TileOp) -> None:
    e.bind(op.results[0], None)
