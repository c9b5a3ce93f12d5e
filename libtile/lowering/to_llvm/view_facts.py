# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Views as code generation holds them, from the ops that make them: `make_memref`, `block_tile`, and the accesses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from libtile.codegen import views
from libtile.codegen.builder import Value, integer
from libtile.codegen.llvm_types import I64
from libtile.dialects.nv_tileaa.memory import Access
from libtile.dialects.nv_tileaa.pointers import BlockTileOp, MakeMemRefOp
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType, TiledViewType
from libtile.lowering.index_width import NARROW, index_bits
from libtile.lowering.to_llvm.emitter import View, element_name
from libtile.lowering.to_tileas.accesses import numbers

_UNKNOWN = Value(I64, "%unknown")


def memref_view(op: MakeMemRefOp, base: Value, sizes: Iterable[Value], strides: Iterable[Value]) -> View:
    """The view of a `make_memref`, with the values of its dynamic sizes and strides in order."""
    type_ = op.result.type
    assert isinstance(type_, MemRefType)
    next_size, next_stride = iter(sizes), iter(strides)
    tensor = views.TensorView(
        base,
        element_name(type_.element_type),
        tuple(next(next_size) if s == DYNAMIC else integer(I64, s) for s in type_.shape),
        tuple(next(next_stride) if s == DYNAMIC else integer(I64, s) for s in type_.strides),
    )
    alignment = numbers(op, "divisibility")
    return View(
        tensor,
        alignment[0] if alignment else 1,
        numbers(op, "size_divisibility") or (1,) * type_.rank,
        numbers(op, "stride_divisibility") or (1,) * type_.rank,
        narrow=0 < index_bits(op) <= NARROW,
    )


def block_view(op: BlockTileOp, source: View) -> View:
    """The view of a `block_tile` of a memref's."""
    type_ = op.result.type
    assert isinstance(type_, TiledViewType)
    tiling = type_.layout
    if tiling.sparse_dim is not None:
        tiled = views.TiledView.gather(source.tensor, type_.shape, tiling.sparse_dim, tiling.padding)
    else:
        tiled = views.TiledView(
            source.tensor, type_.shape, type_.traversal_strides, type_.dim_map, None, tiling.padding
        )
    return replace(source, tiled=tiled)


def access_facts(op: Access, view: View) -> views.ViewFacts:
    """What is known of an access through a view."""
    return views.ViewFacts(
        view.alignment,
        view.stride_divisors,
        view.size_divisors,
        numbers(op, "index_divisibility"),
        op.inside,
        view.narrow,
    )


def described_view(op: Access) -> View | None:
    """The view of an access without a kernel to be emitted: with unknown values where they are dynamic. None when the
    ops that make it are elsewhere."""
    block = op.accessed.owner
    memref = block.source.owner if isinstance(block, BlockTileOp) else None
    if not isinstance(block, BlockTileOp) or not isinstance(memref, MakeMemRefOp):
        return None
    type_ = memref.result.type
    assert isinstance(type_, MemRefType)
    unknown = [_UNKNOWN] * type_.rank
    return block_view(block, memref_view(memref, _UNKNOWN, unknown, unknown))
