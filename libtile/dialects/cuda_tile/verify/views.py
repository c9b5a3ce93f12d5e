# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of the views and of the accesses through them (Tile IR specification, sections Views and Operations)."""

from __future__ import annotations

from typing import cast

from libtile.dialects.cuda_tile.forms import (
    CudaTileOp,
    GatherScatterViewType,
    PointerType,
    TensorViewType,
    TileType,
    TileViewType,
)
from libtile.dialects.cuda_tile.type_forms import DYNAMIC, TensorViewForm, is_integer, is_number
from libtile.dialects.cuda_tile.verify.hints import verify_hints
from libtile.dialects.cuda_tile.verify.memory import verify_ordering, verify_rmw_mode
from libtile.dialects.cuda_tile.verify.report import Report, dims, fail, quoted, rule
from libtile.dialects.cuda_tile.verify.tiles import tile
from libtile.ir.forms import Attribute, SSAValue
from libtile.spec import default_spec


def view_type(op: CudaTileOp) -> TileViewType:
    """The type of the op's view operand."""
    return cast(TileViewType, op.operand_group("view")[0].type)


# -- making views ---------------------------------------------------------------------------------------------------


@rule("make_tensor_view")
def make_tensor_view(op: CudaTileOp, report: Report) -> None:
    base = tile(op._operands[0]).element_type
    view = cast(TensorViewType, op.results[0].type)
    if not isinstance(base, PointerType):
        fail(op, f"expected base to be a pointer type, got {quoted(base)}")
    if view.element_type != base.pointee:
        fail(
            op,
            f"expected pointer to {quoted(view.element_type)} to build tensor_view of this type, "
            f"got {quoted(base.pointee)}",
        )
    _classification(op, base, view)
    shape, strides = op.operand_group("dynamicShape"), op.operand_group("dynamicStrides")
    for what, values, expected in (("shape", shape, view.shape), ("stride", strides, view.strides)):
        count = sum(v == DYNAMIC for v in expected)
        if count != len(values):
            fail(op, f"expected {count} dynamic {what} operands, got {len(values)}")
    first = next((v.type for v in (*shape, *strides)), None)
    for what, values in (("shape", shape), ("stride", strides)):
        for index, value in enumerate(values):
            if first is not None and value.type != first:
                fail(
                    op,
                    f"expected dynamic {what} index {index} to be of the same type as the other dynamic values "
                    f"({quoted(first)}), got {quoted(value.type)}",
                )


def _classification(op: CudaTileOp, base: PointerType, view: TensorViewType) -> None:
    """A view keeps the classification of its base pointer (13.4)."""
    if base.ptr_attr == view.ptr_attr:
        return
    expected, found = (f"#cuda_tile.ptr_attr<{t.ptr_attr}>" for t in (base, view))
    if view.ptr_attr is None:
        fail(op, f"tensor_view must preserve ptr_attr from base pointer ({expected})")
    if base.ptr_attr is None:
        fail(op, "pointer base without ptr_attr cannot produce tensor_view with ptr_attr")
    fail(op, f"ptr_attr mismatch between base pointer ({expected}) and result tensor_view ({found})")


@rule("make_partition_view", "make_strided_view", "make_gather_scatter_view")
def make_tile_view(op: CudaTileOp, report: Report) -> None:
    source = op._operands[0].type
    expected = cast(TileViewType, op.results[0].type).tensor_view
    if source != expected:
        fail(
            op,
            f"expected the type of the provided tensor_view value ({quoted(source)}) to be the same as the view's "
            f"tensor_view type ({quoted(expected)})",
        )


@rule("get_tensor_shape")
def get_tensor_shape(op: CudaTileOp, report: Report) -> None:
    rank = cast(TensorViewType, op._operands[0].type).rank
    if len(op.results) != rank:
        fail(op, f"expected {rank} results due to tensor rank, but got {len(op.results)}")


@rule("get_index_space_shape")
def get_index_space_shape(op: CudaTileOp, report: Report) -> None:
    rank = len(cast(TileViewType, op._operands[0].type).tile_shape)
    if len(op.results) != rank:
        fail(op, f"expected {rank} results due to view index space rank, but got {len(op.results)}")


# -- accesses -------------------------------------------------------------------------------------------------------


def verify_access(op: CudaTileOp, access_tile: Attribute) -> None:
    """Number and types of the indices, and the type of the tile that is read or written."""
    view, indices = view_type(op), op.operand_group("index")
    rank = len(view.tile_shape)
    if len(indices) != rank:
        fail(op, f"expected {rank} index operands (based on view type), got {len(indices)}")
    if access_tile != view.tile_type:
        fail(op, f"expected tile type to be {quoted(view.tile_type)} (based on view type), got {quoted(access_tile)}")
    verify_indices(op, view, indices)


def _plain_access(op: CudaTileOp, access_tile: Attribute, report: Report) -> None:
    """What a load and a store have in common; their orderings differ."""
    verify_access(op, access_tile)
    verify_hints(op, report)
    view = view_type(op)
    if is_number(view.tensor_view.element_type, "f4E2M1FN"):
        _packed_view(op, view)
    _no_multicast(op, view)
    verify_inbounds(op, op.operand_group("index"))


def unit_strides(view: TensorViewForm) -> list[int]:
    """The dimensions whose stride is known to be one element."""
    return [dim for dim, stride in enumerate(view.strides) if stride == 1]


def _packed_view(op: CudaTileOp, view: TileViewType) -> None:
    """Two f4 elements share a byte along the one dimension of unit stride, which indices may not scatter (13.5)."""
    units = unit_strides(view.tensor_view)
    if len(units) != 1:
        fail(
            op,
            "an f4 view access requires exactly one statically encoded unit stride to identify the packing dimension; "
            f"got {len(units)} in {quoted(view.tensor_view)}",
        )
    if isinstance(view, GatherScatterViewType) and view.sparse_dim == units[0]:
        fail(op, f"an f4 gather/scatter view cannot use packing dimension {units[0]} as its sparse dimension")


def _no_multicast(op: CudaTileOp, view: TileViewType) -> None:
    """A multicast object is only accessed by the multimem ops (13.4)."""
    if view.tensor_view.ptr_attr == "multicast":
        fail(op, "multicast ptr_attr is not allowed")


def verify_inbounds(op: CudaTileOp, indices: tuple[SSAValue, ...]) -> None:
    """One in-bounds flag per index (13.4)."""
    flags = op.attribute_value("inbounds")
    if len(flags) != len(indices):
        fail(op, f"inbounds size ({len(flags)}) must match the number of index dimensions ({len(indices)})")


def verify_indices(op: CudaTileOp, view: TileViewType, indices: tuple[SSAValue, ...]) -> None:
    """Scalars of one type; a gather/scatter view takes a 1-d tile in its sparse dimension."""
    if isinstance(view, GatherScatterViewType):
        _gather_scatter_indices(op, view, indices)
        return
    for index in indices:
        if tile(index).rank:
            fail(op, f"expected index type to be a scalar tile, got {quoted(index.type)}")
    for number, index in enumerate(indices):
        if index.type != indices[0].type:
            fail(
                op,
                f"expected index type {number} to be the same as other index types ({quoted(indices[0].type)}), "
                f"got {quoted(index.type)}",
            )


def _gather_scatter_indices(op: CudaTileOp, view: GatherScatterViewType, indices: tuple[SSAValue, ...]) -> None:
    sparse = view.sparse_dim
    shape = tile(indices[sparse]).shape
    if len(shape) != 1:
        fail(
            op,
            f"expected index at sparse_dim position {sparse} to be a 1D tensor for GatherScatterView, "
            f"got rank {len(shape)}",
        )
    if shape[0] != view.tile_shape[sparse]:
        fail(
            op,
            f"expected gather/scatter index size ({shape[0]}) to match tile shape at gather/scatter dimension "
            f"{sparse} ({view.tile_shape[sparse]})",
        )
    first: Attribute | None = None
    for number, index in enumerate(indices):
        if number == sparse:
            continue
        if tile(index).rank:
            fail(op, f"expected index {number} to be a scalar tile for GatherScatterView")
        first = first or index.type
        if index.type != first:
            fail(
                op,
                f"expected scalar index {number} to have the same type as other scalar indices ({quoted(first)}), "
                f"got {quoted(index.type)}",
            )


@rule("load_view_tko")
def load_view(op: CudaTileOp, report: Report) -> None:
    _plain_access(op, op.results[0].type, report)
    verify_ordering(op, "load")


@rule("store_view_tko")
def store_view(op: CudaTileOp, report: Report) -> None:
    _plain_access(op, op.operand_group("tile")[0].type, report)
    verify_ordering(op, "store")


@rule("atomic_red_view_tko")
def atomic_reduction(op: CudaTileOp, report: Report) -> None:
    """Element-wise, relaxed, and at most device-wide: what the hardware's bulk reduction can do."""
    view = view_type(op)
    if isinstance(view, GatherScatterViewType):
        fail(op, "gather_scatter_view is not supported; use partition_view instead")
    if view.padding_value is not None and report.version < default_spec().change("PADDED_REDUCTIONS"):
        fail(op, "views with padding_value are not supported for atomic reductions")
    _reduced_tile(op, view.tile_type, tile(op.operand_group("value")[0]))
    if op.attribute_value("mode") == "xchg":
        fail(op, "atomic_red_view_tko op cannot use xchg operation")
    verify_rmw_mode(op, view.tile_type.element_type)
    verify_inbounds(op, op.operand_group("index"))
    if op.attribute_value("memory_ordering_semantics") != "relaxed":
        fail(op, "only 'relaxed' memory ordering is supported for view-based atomic reductions")
    if op.attribute_value("memory_scope") == "sys":
        fail(
            op,
            "memory scope 'sys' is not supported for view-based atomic reductions; "
            "use 'tl_blk' or 'device' for TMA compatibility",
        )
    _reduction_indices(op, view.tile_type.rank)
    _no_multicast(op, view)


def _reduced_tile(op: CudaTileOp, expected: TileType, value: TileType) -> None:
    if expected.element_type != value.element_type:
        fail(
            op,
            f"view element type ({quoted(expected.element_type)}) must match value element type "
            f"({quoted(value.element_type)})",
        )
    if expected.shape != value.shape:
        fail(
            op,
            f"view tile shape {dims(expected.shape)} must match value shape {dims(value.shape)} "
            "for element-wise atomic operations",
        )


def _reduction_indices(op: CudaTileOp, rank: int) -> None:
    indices = op.operand_group("index")
    if len(indices) != rank:
        fail(op, f"expected {rank} index operand(s) for view with tile rank {rank}, got {len(indices)}")
    for number, index in enumerate(indices):
        type_ = tile(index)
        if type_.rank:
            fail(op, f"index operand {number} must be a scalar tile (rank 0), got shape {dims(type_.shape)}")
        if not is_integer(type_.element_type):
            fail(
                op,
                f"index operand {number} must be a scalar integer tile, got element type {quoted(type_.element_type)}",
            )
