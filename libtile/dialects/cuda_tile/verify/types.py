# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Invariants of the dialect's types (Tile IR specification, section Type System)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from libtile.dialects.cuda_tile.forms import (
    CudaTileType,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TestEvolvedType,
    TileType,
)
from libtile.dialects.cuda_tile.type_forms import (
    DYNAMIC,
    MAX_TILE_ELEMENTS,
    NUMBER_NAMES,
    is_addressable,
    is_float,
    is_number,
    type_text,
)
from libtile.ir.forms import Attribute, FunctionType
from libtile.spec import default_spec

_NUMBERS_TEXT = default_spec().constraints["number"].summary


def verify_type(type_: Attribute) -> str | None:
    """The message of the first invariant that the type, or a type inside it, breaks; None when it is valid.

    Types of other dialects say it themselves; tiles of theirs are tensors.
    """
    if isinstance(type_, CudaTileType):
        check = _CHECKS.get(type_.mnemonic)
        return None if check is None else check(type_)
    if type_ in NUMBER_NAMES or isinstance(type_, FunctionType):
        return None
    from libtile.dialects.cuda_tile.verify.foreign_types import problem_of

    return problem_of(type_)


def _pointer(type_: PointerType) -> str | None:
    if not is_addressable(type_.pointee):
        return f"failed to verify 'pointeeType': {_NUMBERS_TEXT}"
    return _ptr_attr(type_.ptr_attr)


def _ptr_attr(value: str | None) -> str | None:
    if value is not None and value not in default_spec().enums["PtrAttr"].by_keyword:
        return f"expected ptr_attr to be a valid pointer classification but got invalid enum value {value}"
    return None


def _tile(type_: TileType) -> str | None:
    element = type_.element_type
    if isinstance(element, PointerType):
        inner = _pointer(element)
        if inner is not None:
            return inner
        if is_number(element.pointee, "f4E2M1FN") and type_.shape:
            return "tiles of ptr<f4E2M1FN> must have rank 0; use an f4 tile view for memory accesses"
    elif element not in NUMBER_NAMES:
        return f"failed to verify 'elementType': {_NUMBERS_TEXT} or Pointer type or i4"
    return _tile_shape(type_.shape, element)


def _tile_shape(shape: Sequence[int], element: Attribute) -> str | None:
    if is_number(element, "f4E2M1FN") and all(d % 2 for d in shape):
        return "F4E2M1FN tiles must have an even number of elements"
    count = 1
    for dim in shape:
        if dim <= 0:
            return f"all dimensions must be positive constants, got {_list(shape)}"
        if dim & (dim - 1):
            return f"all dimensions must be powers of two, got {_list(shape)}"
        count *= dim
        if count > MAX_TILE_ELEMENTS:
            return f"tile would exceed the maximum of {MAX_TILE_ELEMENTS} elements"
    return None


def _list(values: Sequence[int]) -> str:
    return ", ".join("?" if v == DYNAMIC else str(v) for v in values)


def _tensor_view(type_: TensorViewType) -> str | None:
    if not is_addressable(type_.element_type):
        return f"failed to verify 'elementType': {_NUMBERS_TEXT}"
    shape, strides = type_.shape, type_.strides
    if len(shape) != len(strides):
        return (
            "expected shape and stride to be of same rank but got "
            f"shape of rank {len(shape)} and stride of rank {len(strides)}"
        )
    if any(d <= 0 and d != DYNAMIC for d in shape):
        return f"dimensions must have strictly positive constant sizes but got [{_list(shape)}]"
    if any(d <= 0 and d != DYNAMIC for d in strides):
        return f"dimensions must have strictly positive constant strides but got [{_list(strides)}]"
    return _ptr_attr(type_.ptr_attr)


def _view_tile_shape(shape: Sequence[int], rank: int) -> str | None:
    if not shape:
        return "0-dimension tile shape is not supported"
    if len(shape) != rank:
        return (
            "expected tensor_view rank and tile rank to match, got "
            f"tensor_view of rank {rank} and tiles of rank {len(shape)}"
        )
    return None


def _view_tile_dims(shape: Sequence[int]) -> str | None:
    if any(d <= 0 for d in shape):
        return f"tile shape dimensions must have positive length but got [{_list(shape)}]"
    if any(d & (d - 1) for d in shape):
        return f"tile shape dimensions must have power of two length but got [{_list(shape)}]"
    return None


def _dim_map(dim_map: Sequence[int], rank: int) -> str | None:
    used: dict[int, int] = {}
    for tile_dim, target in enumerate(dim_map):
        if target < 0:
            return f"target dimension must not be negative, got {target}"
        if target >= rank:
            return (
                "target dimension is outside of tensor view dimensions, "
                f"expected strictly less than {rank}, got {target}"
            )
        if target in used:
            return (
                f"target dimension {target} mapped at least twice (for tile dimensions {used[target]} and {tile_dim})"
            )
        used[target] = tile_dim
    return None


def _padding(value: str | None, element: Attribute) -> str | None:
    if value is None or value == "zero" or is_float(element):
        return None
    return (
        f"padding_value {value} can only be used with floating point element types, "
        f"got '{type_text(element, short=False)}'"
    )


def _grid_view(type_: PartitionViewType | StridedViewType) -> str | None:
    view = type_.tensor_view
    if not isinstance(view, TensorViewType):
        return f"expected 'tensor_view' type, but got '{type_text(view, short=False)}'"
    shape = type_.tile_shape
    message = _tensor_view(view) or _view_tile_shape(shape, view.rank)
    if message is not None:
        return message
    if len(type_.dim_map) != len(shape):
        return (
            f"expected dim_map to map exactly all {len(shape)} dimensions of the tile, "
            f"got {len(type_.dim_map)} mappings"
        )
    return (
        _view_tile_dims(shape)
        or _dim_map(type_.dim_map, view.rank)
        or _tile_shape(shape, view.element_type)
        or _padding(type_.padding_value, view.element_type)
    )


def _strided_view(type_: StridedViewType) -> str | None:
    message = _grid_view(type_)
    if message is not None:
        return message
    strides = type_.traversal_strides
    if len(strides) != len(type_.tile_shape):
        return f"expected {len(type_.tile_shape)} traversal strides, got {len(strides)}"
    if any(s <= 0 for s in strides):
        return f"traversal strides must be strictly positive but got [{_list(strides)}]"
    return None


def _gather_scatter_view(type_: GatherScatterViewType) -> str | None:
    view = type_.tensor_view
    if not isinstance(view, TensorViewType):
        return f"expected 'tensor_view' type, but got '{type_text(view, short=False)}'"
    shape = type_.tile_shape
    message = _tensor_view(view) or _view_tile_shape(shape, view.rank) or _view_tile_dims(shape)
    if message is not None:
        return message
    if type_.sparse_dim >= view.rank:
        return (
            "gather dimension is outside of tensor view dimensions, "
            f"expected strictly less than {view.rank}, got {type_.sparse_dim}"
        )
    return _tile_shape(shape, view.element_type) or _padding(type_.padding_value, view.element_type)


def _test_evolved(type_: TestEvolvedType) -> str | None:
    base, new, _, optional = type_.data
    return next((m for t in (base, new, optional) if t is not None and (m := verify_type(t)) is not None), None)


_CHECKS: dict[str, Callable[..., str | None]] = {
    "ptr": _pointer,
    "tile": _tile,
    "tensor_view": _tensor_view,
    "partition_view": _grid_view,
    "strided_view": _strided_view,
    "gather_scatter_view": _gather_scatter_view,
    "testing$bytecode_test_evolved": _test_evolved,
}
"""By the type's mnemonic."""
