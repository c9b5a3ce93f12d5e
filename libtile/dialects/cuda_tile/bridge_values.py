# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types and attributes between the bytecode's neutral records and the cuda_tile dialect, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, FunctionType, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from libtile.bytecode import model as bc
from libtile.bytecode.errors import InvalidError
from libtile.dialects.cuda_tile import attributes as ir
from libtile.dialects.cuda_tile import types
from libtile.numerics import float_bits
from libtile.numerics.elements import ELEMENTS
from libtile.spec import Spec, default_spec
from libtile.support.diagnostics import DiagnosticError, error

INTEGER_TYPES = {
    "i32": types.i32,
    "i32_nonneg": types.i32,
    "i64": types.i64,
    "i64_nonneg": types.i64,
    "bool": types.i1,
}
"""The types of attributes of these kinds that are integers."""

# -- types ------------------------------------------------------------------------------------------------------------


def type_from_bytecode(type_: bc.Type) -> Attribute:
    """The IR's type; InvalidError when it breaks one of the dialect's rules for types."""
    return TypeReader().convert(type_)


class TypeReader:
    """Converts types, each once, and checks their invariants."""

    def __init__(self) -> None:
        self._known: dict[bc.Type, Attribute] = {}
        self.invalid: bc.Type | None = None
        """The type that broke a rule."""

    def convert(self, type_: bc.Type) -> Any:
        found = self._known.get(type_)
        if found is None:
            from libtile.dialects.cuda_tile.verify import verify_type

            found = self._make(type_)
            problem = verify_type(found)
            if problem is not None:
                self.invalid = type_
                raise InvalidError(problem, section="Type")
            self._known[type_] = found
        return found

    def _make(self, type_: bc.Type) -> Attribute:
        name = type_.name
        if name in types.NUMBER_TYPES:
            return types.NUMBER_TYPES[name]
        if name == "function":
            inputs, results = type_.parameters
            return FunctionType.from_lists([self.convert(t) for t in inputs], [self.convert(t) for t in results])
        values: list[Any] = [self.convert(p) if isinstance(p, bc.Type) else p for p in type_.parameters]
        p = dict(zip(type_.names, values))
        match name:
            case "ptr":
                return types.PointerType(p["pointee"], p["ptr_attr"])
            case "tile":
                return types.TileType(p["shape"], p["element"])
            case "tensor_view":
                return types.TensorViewType(p["element"], p["shape"], p["strides"], p["ptr_attr"])
            case "partition_view":
                return types.PartitionViewType(p["tile_shape"], p["tensor_view"], p["dim_map"], p["padding_value"])
            case "strided_view":
                return types.StridedViewType(
                    p["tile_shape"], p["traversal_strides"], p["tensor_view"], p["dim_map"], p["padding_value"]
                )
            case "gather_scatter_view":
                return types.GatherScatterViewType(
                    p["tile_shape"], p["tensor_view"], p["sparse_dim"], p["padding_value"]
                )
            case "token":
                return types.TokenType()
            case "testing$bytecode_test_evolved":
                return types.TestEvolvedType(*values)
        raise InvalidError(f"type {name!r} has no form in the dialect", section="Type")


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


def attribute_from_bytecode(attr: bc.Attribute, convert_type: Callable[[bc.Type], Any]) -> Attribute:
    match attr:
        case bc.Integer():
            return IntegerAttr(attr.value, convert_type(attr.type))
        case bc.Bool():
            return IntegerAttr(int(attr.value), types.i1)
        case bc.Float():
            number = float_bits.decode(attr.reference_bits, attr.type.name)
            return FloatAttr(number, convert_type(attr.type))
        case bc.TypeRef():
            return convert_type(attr.type)
        case bc.String():
            return StringAttr(attr.value)
        case bc.Array():
            return ArrayAttr([attribute_from_bytecode(e, convert_type) for e in attr.elements])
        case bc.Dense():
            return dense_from_bytecode(attr, convert_type)
        case bc.DivBy():
            return ir.DivByAttr(attr.divisor, attr.every, attr.along)
        case bc.SameElements():
            return ir.SameElementsAttr(attr.values)
        case bc.Bounded():
            return ir.BoundedAttr(attr.lower, attr.upper)
        case bc.Dictionary():
            return DictionaryAttr(_sorted_items(attr, convert_type))
        case bc.OptimizationHints():
            return ir.OptimizationHintsAttr(hints_from_bytecode(attr, convert_type))
        case bc.TestValue():
            return ir.TestValueAttr(attr.value)


def _sorted_items(attr: bc.Dictionary, convert_type: Callable[[bc.Type], Any]) -> dict[str, Attribute]:
    """MLIR keeps dictionaries sorted by name, and prints and writes them so."""
    return {name: attribute_from_bytecode(value, convert_type) for name, value in sorted(attr.items, key=_first)}


def _first(item: tuple[str, Any]) -> str:
    return item[0]


def hints_from_bytecode(
    attr: bc.OptimizationHints, convert_type: Callable[[bc.Type], Any]
) -> dict[str, dict[str, Attribute]]:
    hints = {}
    for architecture, keys in sorted(attr.items, key=_first):
        if not isinstance(keys, bc.Dictionary):
            raise InvalidError(f"expected dictionary attribute for optimization_hints entry `{architecture}`")
        hints[architecture] = _sorted_items(keys, convert_type)
    return hints


def dense_from_bytecode(attr: bc.Dense, convert_type: Callable[[bc.Type], Any]) -> ir.DenseElementsAttr:
    """A tile constant; equal elements become a splat. InvalidError when the data does not fit the type."""
    type_ = convert_type(attr.type)
    if not isinstance(type_, types.TileType) or type_.element_type not in types.NUMBER_NAMES:
        raise InvalidError(f"expect Cuda Tile integer or float type but got: {types.type_text(type_)}")
    count, name = type_.num_elements, types.NUMBER_NAMES[type_.element_type]
    raw = _unpacked(attr.data, count, name)
    width = ir.element_storage_bytes(type_.element_type)
    if len(raw) not in (width, width * count):
        raise InvalidError("failed to validate buffer size and format")
    if len(raw) > width and raw == raw[:width] * count:
        raw = raw[:width]
    return ir.DenseElementsAttr(type_, raw)


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


_BITS = [bytes(byte >> bit & 1 for bit in range(8)) for byte in range(256)]


def _unpacked(data: bytes, count: int, name: str) -> bytes:
    """The dialect's form of a constant's bytes.

    In the file, i1 takes a bit per element, the first in the lowest bit, or one byte that is not zero for a splat of
    more than 8 elements; other elements take as many bytes as their bits need, tf32 three and f4E2M1FN one.
    """
    if name == "i1":
        if len(data) == 1 and count > 8:
            return b"\1" if data != b"\0" else b"\0"
        return b"".join(map(_BITS.__getitem__, data))[:count] if len(data) == (count + 7) // 8 else b""
    element = ELEMENTS[name]
    if element.is_partial:
        size, mask = (element.bits + 7) // 8, (1 << element.bits) - 1
        numbers = (int.from_bytes(data[i : i + size], "little") & mask for i in range(0, len(data), size))
        return b"".join(n.to_bytes(element.storage_bytes, "little") for n in numbers) if len(data) % size == 0 else b""
    return data


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
