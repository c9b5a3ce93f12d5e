# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of tiles and of memory that holds them, and how the inner dialects write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute, SSAValue

from libtile.ir.data_field import DataField

if TYPE_CHECKING:
    from xdsl.parser import AttrParser


def is_token(type_: Attribute) -> bool:
    return type_.name == "nv_tileaa.mem_token"


class Storage:
    """Base of the types of memory that holds a tile."""

    shape: DataField[tuple[int, ...]]
    element_type: DataField[Attribute]


def stored_element(type_: Attribute) -> Attribute:
    """The element type of a tile, or of memory that holds one."""
    return type_.element_type if isinstance(type_, Storage) else element_of(type_)


def stored_shape(type_: Attribute) -> tuple[int, ...]:
    """The shape of a tile, or of memory that holds one."""
    return type_.shape if isinstance(type_, Storage) else shape_of(type_)


def element_of(type_: Attribute) -> Attribute:
    """The element type of a tile; any other type is its own."""
    return type_.element_type if isinstance(type_, TensorType) else type_


def shape_of(type_: Attribute) -> tuple[int, ...]:
    """The shape of a tile; () for any other type."""
    return tensor_shape(type_) if type(type_) is TensorType else ()


def tensor_shape(type_: TensorType[Attribute]) -> tuple[int, ...]:
    """The shape of a tensor, which its type keeps: xDSL collects it from an attribute for each number."""
    members = type_.__dict__
    found: tuple[int, ...] | None = members.get("_shape")
    if found is None:
        found = members["_shape"] = type_.get_shape()
    return found


def is_tile(value: SSAValue) -> bool:
    """Whether a value is a tile of rank 1 or more."""
    return bool(shape_of(value.type))


def rank_of(type_: Attribute) -> int:
    return len(shape_of(type_))


def tile(shape: Sequence[int], element: Attribute, layout: Attribute | None = None) -> TensorType[Attribute]:
    """The type of a tile: a tensor, with its layout as the encoding where it has one."""
    return TensorType(element, tuple(shape), NoneAttr() if layout is None else layout)


def layout_of(type_: Attribute) -> Attribute | None:
    """The encoding of a tile type, or None."""
    if isinstance(type_, TensorType) and not isinstance(type_.encoding, NoneAttr):
        return type_.encoding
    return None


def type_text(type_: Attribute) -> str:
    """The spelling of a type in the dialects' own form."""
    if not isinstance(type_, TensorType):
        return str(type_)
    dims = "".join("?x" if d < 0 else f"{d}x" for d in type_.get_shape())
    layout = layout_of(type_)
    tail = "" if layout is None else f", {layout}"
    return f"tile<{dims}{type_text(type_.element_type)}{tail}>"


def parse_type(parser: AttrParser) -> Attribute:
    """A type, where a tile may be written `tile<...>`."""
    if parser.parse_optional_keyword("tile") is None:
        return parser.parse_type()
    with parser.in_angle_brackets():
        shape, element = parser.parse_ranked_shape()
        layout = parser.parse_attribute() if parser.parse_optional_punctuation(",") else NoneAttr()
    return TensorType(element, shape, layout)
