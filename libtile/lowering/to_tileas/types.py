# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The layout of a tile is the encoding of its tensor type."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeGuard

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.ir.tile_types import tensor_shape
from libtile.layouts import LinearLayout


def is_tile(type_: Attribute) -> TypeGuard[TensorType[Attribute]]:
    return type(type_) is TensorType


def shape_of(type_: Attribute) -> tuple[int, ...]:
    assert is_tile(type_)
    return tensor_shape(type_)


def tile_shape(value: SSAValue) -> tuple[int, ...] | None:
    """The shape of a tile; None for other values."""
    type_ = value._type
    return tensor_shape(type_) if is_tile(type_) else None


def element_of(value: SSAValue) -> str:
    """The element type of a tile of numbers."""
    assert isinstance(value.type, TensorType)
    return NUMBER_NAMES[value.type.element_type]


def layout_of(value: SSAValue) -> LinearLayout:
    """The layout of a tile in nv_tileas. ValueError for a value without one."""
    type_ = value._type
    if not is_tile(type_) or not isinstance(type_.encoding, LayoutAttr):
        raise ValueError(f"a value of type {type_} has no layout")
    return type_.encoding.layout


@lru_cache(maxsize=1024)  # which takes less than to make a type and to verify it
def with_layout(type_: Attribute, layout: LinearLayout | None) -> Attribute:
    """A tensor type with a layout; any other type as it is."""
    if not isinstance(type_, TensorType) or layout is None:
        return type_
    return TensorType(type_.element_type, type_.get_shape(), LayoutAttr(layout))
