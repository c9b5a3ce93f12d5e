# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Invariants of the dialect's types (Tile IR specification, section Type System)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute

from libtile.dialects.cuda_tile.types import (
    DYNAMIC,
    MAX_TILE_ELEMENTS,
    NUMBER_NAMES,
    NUMBER_TYPES,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TestEvolvedType,
    TileType,
    is_element_type,
    is_float,
    type_text,
)
from libtile.ir.parsed_data import ParsedData
from libtile.ir.tile_form import type_text as shown
from libtile.spec import default_spec

_NUMBERS_TEXT = default_spec().constraints["number"].summary
_NOT_A_NUMBER = {"i4"}
"""Number types that only a tile may hold: i4 has no address."""


def is_number(type_: Attribute) -> bool:
    """Whether the type can be pointed to and viewed."""
    return type_ in NUMBER_NAMES and NUMBER_NAMES[type_] not in _NOT_A_NUMBER


def verify_type(type_: Attribute) -> str | None:
    """The message of the first invariant that the type, or a type inside it, breaks; None when it is valid.

    Types of other dialects say it themselves; tiles of theirs are tensors.
    """
    check = _CHECKS.get(type(type_))
    if check is None:
        return type_.problem() if isinstance(type_, ParsedData) else None
    return check(type_)


def _pointer(type_: PointerType) -> str | None:
    if not is_number(type_.pointee):
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
        if element.pointee == NUMBER_TYPES["f4E2M1FN"] and type_.shape:
            return "tiles of ptr<f4E2M1FN> must have rank 0; use an f4 tile view for memory accesses"
    elif element not in NUMBER_NAMES:
        return f"failed to verify 'elementType': {_NUMBERS_TEXT} or Pointer type or i4"
    return _tile_shape(type_.shape, element)


def _tensor(type_: TensorType) -> str | None:
    """A tile of the inner dialects."""
    element, shape = type_.element_type, type_.get_shape()
    if not is_element_type(element):
        return f"expects tiles of numbers, indices or pointers, but got {shown(type_)}"
    problem = inner_sizes_problem(shape)
    if problem is None and isinstance(element, ParsedData):
        problem = element.problem()
    if problem is None and not isinstance(type_.encoding, NoneAttr):
        check = getattr(type_.encoding, "problem_of", None)
        problem = f"expects a layout, but got {shown(type_.encoding)}" if check is None else check(shape)
    return problem


def inner_sizes_problem(shape: Sequence[int]) -> str | None:
    """What is wrong with the sizes of a tile of the inner dialects, in their documents' words; None if nothing."""
    got = f"[{', '.join('?' if size < 0 else str(size) for size in shape)}]"
    if any(size <= 0 for size in shape):
        return f"all dimensions must be positive constants, got {got}"
    if any(size & (size - 1) for size in shape):
        return f"all dimensions must be powers of two, got {got}"
    return f"tile would exceed the maximum of {MAX_TILE_ELEMENTS} elements" if prod(shape) > MAX_TILE_ELEMENTS else None


def _tile_shape(shape: Sequence[int], element: Attribute) -> str | None:
    if element == NUMBER_TYPES["f4E2M1FN"] and all(d % 2 for d in shape):
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
    if not is_number(type_.element_type):
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


_CHECKS: dict[type[Attribute], Callable[..., str | None]] = {
    PointerType: _pointer,
    TileType: _tile,
    TensorViewType: _tensor_view,
    PartitionViewType: _grid_view,
    StridedViewType: _strided_view,
    GatherScatterViewType: _gather_scatter_view,
    TestEvolvedType: _test_evolved,
    TensorType: _tensor,
}
