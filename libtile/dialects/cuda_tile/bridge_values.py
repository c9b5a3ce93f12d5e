# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types and attributes of the cuda_tile dialect as the bytecode's neutral records: see `to_bytecode`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, FunctionType, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from libtile.bytecode import model as bc
from libtile.dialects.cuda_tile import attributes as ir
from libtile.dialects.cuda_tile import kit_xdsl, types
from libtile.dialects.cuda_tile.values_from_bytecode import TypeReader
from libtile.numerics import float_bits
from libtile.numerics.elements import ELEMENTS
from libtile.spec import Spec, default_spec
from libtile.support.diagnostics import DiagnosticError, error

# -- types ------------------------------------------------------------------------------------------------------------


def type_from_bytecode(type_: bc.Type) -> Attribute:
    """xDSL's type; InvalidError when it breaks one of the dialect's rules for types."""
    return TypeReader(kit_xdsl).convert(type_)


def type_to_bytecode(type_: Attribute, spec: Spec | None = None) -> bc.Type:
    """The bytecode's type; DiagnosticError when the bytecode cannot hold it."""
    return TypeWriter(spec or default_spec()).convert(type_)


class TypeWriter:
    """Converts types, each once."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._known: dict[Attribute, bc.Type] = {}

    def convert(self, type_: Attribute) -> bc.Type:
        found = self._known.get(type_)
        if found is None:
            found = self._known[type_] = self._make(type_)
        return found

    def _make(self, type_: Attribute) -> bc.Type:
        if type_ in types.NUMBER_NAMES:
            return bc.make_type(types.NUMBER_NAMES[type_], spec=self._spec)
        match type_:
            case FunctionType():
                inputs, results = (tuple(map(self.convert, side)) for side in (type_.inputs, type_.outputs))
                return bc.make_type("function", inputs, results, spec=self._spec)
            case types.TileType():
                values: tuple[Any, ...] = (type_.element_type, type_.shape)
            case types.GatherScatterViewType():
                values = (type_.tile_shape, type_.tensor_view, type_.sparse_dim, type_.padding_value)
            case types.CudaTileType():
                values = type_.data
            case _:
                raise DiagnosticError([error(None, f"unsupported type in bytecode writer: {types.type_text(type_)}")])
        parameters = [self.convert(v) if isinstance(v, Attribute) else v for v in values]
        return bc.make_type(type_.mnemonic, *parameters, spec=self._spec)


# -- self-contained attributes ----------------------------------------------------------------------------------------


def dense_to_bytecode(attr: ir.DenseElementsAttr, convert_type: Callable[[Attribute], bc.Type]) -> bc.Dense:
    """The bytecode's form of a tile constant."""
    data = attr.raw
    if attr.type.element_type == types.i1:
        if attr.is_splat:
            data = b"\xff" if data[0] & 1 else b"\x00"
        else:
            digits = bytes(48 + (byte & 1) for byte in reversed(data))
            data = int(digits, 2).to_bytes((len(data) + 7) // 8, "little")
    else:
        element = ELEMENTS[types.NUMBER_NAMES[attr.type.element_type]]
        size, held = (element.bits + 7) // 8, element.storage_bytes
        if size != held:
            data = b"".join(data[i : i + size] for i in range(0, len(data), held))
    return bc.Dense(convert_type(attr.type), data)


class UnsupportedAttribute(ValueError):
    """The bytecode has no form for an attribute."""


def attribute_to_bytecode(attr: Attribute, convert_type: Callable[[Attribute], bc.Type]) -> bc.Attribute:
    """The bytecode's self-contained attribute; UnsupportedAttribute when it has none such."""
    match attr:
        case IntegerAttr():
            value = attr.value.data
            return bc.Integer(value & 1 if attr.type == types.i1 else value, convert_type(attr.type))
        case FloatAttr() if attr.type in types.NUMBER_NAMES:
            bits = float_bits.encode(attr.value.data, types.NUMBER_NAMES[attr.type])
            return bc.Float(bits, convert_type(attr.type))
        case StringAttr():
            return bc.String(attr.data)
        case ir.DenseElementsAttr():
            return dense_to_bytecode(attr, convert_type)
        case ir.DivByAttr():
            return bc.DivBy(attr.divisor, attr.every, attr.along)
        case ir.SameElementsAttr():
            return bc.SameElements(attr.values)
        case ir.BoundedAttr():
            return bc.Bounded(attr.lower, attr.upper)
        case ir.TestValueAttr():
            return bc.TestValue(attr.value)
        case ArrayAttr():
            return bc.Array(tuple(attribute_to_bytecode(e, convert_type) for e in attr.data))
        case DictionaryAttr():
            return dictionary_to_bytecode(attr.data, convert_type)
        case ir.OptimizationHintsAttr():
            return hints_to_bytecode(attr, convert_type)
        case FunctionType() | types.CudaTileType():
            return bc.TypeRef(convert_type(attr))
        case _ if attr in types.NUMBER_NAMES:
            return bc.TypeRef(convert_type(attr))
    raise UnsupportedAttribute(type(attr).__name__)


def hints_to_bytecode(
    attr: ir.OptimizationHintsAttr, convert_type: Callable[[Attribute], bc.Type]
) -> bc.OptimizationHints:
    """Hints with architectures and keys sorted by name, as MLIR keeps them."""
    hints = sorted(attr.hints.items())
    return bc.OptimizationHints(tuple((arch, dictionary_to_bytecode(keys, convert_type)) for arch, keys in hints))


def dictionary_to_bytecode(
    items: Mapping[str, Attribute], convert_type: Callable[[Attribute], bc.Type]
) -> bc.Dictionary:
    """A dictionary sorted by name, as MLIR keeps it."""
    return bc.Dictionary(tuple((name, attribute_to_bytecode(v, convert_type)) for name, v in sorted(items.items())))
