# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a reduction that leave the ops as they are: smaller shapes, plainer types, fewer and simpler attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from xdsl.dialects.builtin import UNKNOWN_LOC, IntAttr, IntegerType, TensorType
from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute, SSAValue

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr, OptimizationHintsAttr
from libtile.dialects.cuda_tile.ops import SEGMENTS, CudaTileOp, attribute_of
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, TensorViewType, TileType, TileViewType, f32, i32

Change = Callable[[Operation], None]
"""Makes one step on a copy of the program."""

_NAMES = ("sym_name", "function_type", "symbol", SEGMENTS)
"""Attributes without which nothing is a program."""


def without_locations(root: Operation) -> None:
    """Forget where the ops came from, and with it all debug information."""
    for op in root.walk():
        op.location = UNKNOWN_LOC


# -- types ------------------------------------------------------------------------------------------------------------


def type_changes(root: Operation) -> Iterator[Change]:
    """Smaller sizes, the largest ones first, down to 1 if that will do; then plainer element types."""
    sizes = _sizes(root)
    if sizes:
        yield _with_types(_resized(dict.fromkeys(sizes, 1)))  # in which every change of shape stays one
    for size in sorted(sizes, reverse=True):
        smaller = 1
        while smaller < size:
            yield _with_types(_resized({size: smaller}))
            smaller *= 2
    elements = _elements(root)
    for element in sorted(elements, key=str):
        plain = i32 if isinstance(element, IntegerType) else f32
        if element != plain and str(element) != "i1":
            yield _with_types({element: plain}.get)


def _sizes(root: Operation) -> set[int]:
    """The static sizes of tiles and views."""
    found: set[int] = set()
    for value in _values(root):
        type_ = value.type
        match type_:
            case TileType() | TensorViewType():
                found.update(type_.shape)
            case TileViewType():
                found.update((*type_.tile_shape, *type_.tensor_view.shape))
            case TensorType():
                found.update(type_.get_shape())
    return {size for size in found if size > 1}


def _elements(root: Operation) -> set[Attribute]:
    found: set[Attribute] = set()
    for value in _values(root):
        element = getattr(value.type, "element_type", value.type)
        element = getattr(element, "pointee", element)
        if element in NUMBER_NAMES:
            found.add(element)
    return found


def _values(root: Operation) -> Iterator[SSAValue]:
    for op in root.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


Mapping = Callable[[Attribute], Attribute | None]
"""What takes an attribute's place; None: look at its parts."""


def _resized(sizes: dict[int, int]) -> Mapping:
    """Every dimension of some sizes gets another one."""

    def shape(dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sizes.get(size, size) for size in dims)

    def change(attr: Attribute) -> Attribute | None:
        match attr:
            case TileType():
                return TileType(shape(attr.shape), attr.element_type)
            case TensorViewType():
                return TensorViewType(attr.element_type, shape(attr.shape), attr.strides, attr.ptr_attr)
            case TileViewType():
                inner = change(attr.tensor_view)
                place = attr.data.index(attr.tensor_view)
                return type(attr).new((shape(attr.data[0]), *attr.data[1:place], inner, *attr.data[place + 1 :]))
            case TensorType():
                return TensorType(attr.element_type, shape(attr.get_shape()), attr.encoding)
        return None

    return change


def _with_types(change: Mapping) -> Change:
    def apply(root: Operation) -> None:
        known: dict[Attribute, Attribute] = {}

        def mapped(attr: Attribute) -> Attribute:
            if attr not in known:
                known[attr] = _mapped(attr, change, mapped)
            return known[attr]

        for value in list(_values(root)):
            value._type = mapped(value.type)  # the copy is nobody else's; uses stay as they are
        for op in root.walk():
            for attributes in (op.properties, op.attributes):
                for name, attr in attributes.items():
                    attributes[name] = mapped(attr)

    return apply


def _mapped(attr: Attribute, change: Mapping, recur: Callable[[Attribute], Attribute]) -> Attribute:
    if isinstance(attr, DenseElementsAttr):
        return _fitted(attr, recur(attr.type))
    new = change(attr)
    if new is not None:
        return new
    if isinstance(attr, ParametrizedAttribute):
        parts = [recur(part) for part in attr.parameters]
        return attr if parts == list(attr.parameters) else type(attr).new(parts)
    if isinstance(attr, Data) and isinstance(attr.data, tuple | dict):
        data = _plain(attr.data, recur)
        return attr if data == attr.data else type(attr).new(data)
    return attr


def _plain(value: Any, recur: Callable[[Attribute], Attribute]) -> Any:
    match value:
        case Attribute():
            return recur(value)
        case tuple():
            return tuple(_plain(inner, recur) for inner in value)
        case dict():
            return {key: _plain(inner, recur) for key, inner in value.items()}
    return value


def _fitted(attr: DenseElementsAttr, type_: Attribute) -> DenseElementsAttr:
    """A constant of another type: its first elements; zero where they are of another width."""
    assert isinstance(type_, TileType)
    fresh = DenseElementsAttr(type_, attr.raw)
    size = fresh.element_bytes
    if size != attr.element_bytes:
        kind = type_.element_type
        elements = attr.elements() if isinstance(kind, IntegerType) else [0] * len(attr.elements())
        fresh = DenseElementsAttr(type_, b"".join((e % (1 << 8 * size)).to_bytes(size, "little") for e in elements))
    if len(fresh.raw) > size:
        fresh = DenseElementsAttr(type_, fresh.raw[: type_.num_elements * size])
    return fresh


# -- attributes -------------------------------------------------------------------------------------------------------


def attribute_places(root: Operation) -> list[tuple[int, str]]:
    """The attributes that might go or be simpler: the number of the op in the text, and the name."""
    return [
        (number, name)
        for number, op in enumerate(root.walk())
        for name in (*op.properties, *op.attributes)
        if name not in _NAMES
    ]


def drop_attribute(op: Operation, name: str) -> None:
    """Leave an attribute out; what needs it has its default then, or does not verify."""
    op.attributes.pop(name, None)
    op.properties.pop(name, None)
    if isinstance(op, CudaTileOp):
        declared = op.spec.attribute(name)
        if declared is not None and declared.default is not None and declared.kind in op.dialect.enums:
            op.properties[name] = attribute_of(declared, declared.default, op.dialect)


def zero_attribute(op: Operation, name: str) -> None:
    """Make a constant one element, and then a zero; a number 0."""
    for attributes in (op.properties, op.attributes):
        match attributes.get(name):
            case DenseElementsAttr(type=type_) as dense:
                attributes[name] = DenseElementsAttr(type_, bytes(dense.element_bytes))
            case OptimizationHintsAttr():
                attributes[name] = OptimizationHintsAttr({})
            case IntAttr():
                attributes[name] = IntAttr(0)


def splat_attribute(op: Operation, name: str) -> None:
    """Make a constant a splat of its first element."""
    dense = op.properties.get(name)
    if isinstance(dense, DenseElementsAttr) and not dense.is_splat:
        op.properties[name] = DenseElementsAttr(dense.type, dense.raw[: dense.element_bytes])


ATTRIBUTE_EDITS: tuple[Callable[[Operation, str], None], ...] = (drop_attribute, zero_attribute, splat_attribute)
