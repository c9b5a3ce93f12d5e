# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types and attributes of the bytecode's neutral records in either kind of IR: see `bridge`."""

from __future__ import annotations

from libtile.bytecode import model as bc
from libtile.bytecode.errors import InvalidError
from libtile.dialects.cuda_tile.attribute_forms import element_storage_bytes
from libtile.dialects.cuda_tile.forms import DenseElementsAttr, TileType
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES, type_text
from libtile.ir.forms import Attribute
from libtile.numerics import float_bits
from libtile.numerics.elements import ELEMENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType as Kit
    from typing import Any

    from libtile.spec import Spec
    from libtile.spec.model import AttributeSpec

# -- types ------------------------------------------------------------------------------------------------------------


class TypeReader:
    """Converts types, each once, and checks their invariants."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self._known: dict[bc.Type, Attribute] = {}
        self.invalid: bc.Type | None = None
        """The type that broke a rule."""

    def convert(self, type_: bc.Type) -> Any:
        found = self._known.get(type_)
        if found is None:
            from libtile.dialects.cuda_tile.verify.types import verify_type

            found = self._make(type_)
            problem = verify_type(found)
            if problem is not None:
                self.invalid = type_
                raise InvalidError(problem, section="Type")
            self._known[type_] = found
        return found

    def _make(self, type_: bc.Type) -> Attribute:
        kit, name = self.kit, type_.name
        if name in kit.NUMBER_TYPES:
            return kit.NUMBER_TYPES[name]
        if name == "function":
            inputs, results = type_.parameters
            return kit.function_type([self.convert(t) for t in inputs], [self.convert(t) for t in results])
        values: list[Any] = [self.convert(p) if isinstance(p, bc.Type) else p for p in type_.parameters]
        p = dict(zip(type_.names, values))
        match name:
            case "ptr":
                return kit.PointerType(p["pointee"], p["ptr_attr"])
            case "tile":
                return kit.TileType(p["shape"], p["element"])
            case "tensor_view":
                return kit.TensorViewType(p["element"], p["shape"], p["strides"], p["ptr_attr"])
            case "partition_view":
                return kit.PartitionViewType(p["tile_shape"], p["tensor_view"], p["dim_map"], p["padding_value"])
            case "strided_view":
                return kit.StridedViewType(
                    p["tile_shape"], p["traversal_strides"], p["tensor_view"], p["dim_map"], p["padding_value"]
                )
            case "gather_scatter_view":
                return kit.GatherScatterViewType(p["tile_shape"], p["tensor_view"], p["sparse_dim"], p["padding_value"])
            case "token":
                return kit.TokenType()
            case "testing$bytecode_test_evolved":
                return kit.TestEvolvedType(*values)
        raise InvalidError(f"type {name!r} has no form in the dialect", section="Type")


# -- self-contained attributes ----------------------------------------------------------------------------------------


def attribute_from_bytecode(attr: bc.Attribute, types: TypeReader) -> Attribute:
    """The IR's attribute for a self-contained one."""
    kit, convert_type = types.kit, types.convert
    match attr:
        case bc.Integer():
            return kit.integer(attr.value, convert_type(attr.type))
        case bc.Bool():
            return kit.integer(int(attr.value), kit.NUMBER_TYPES["i1"])
        case bc.Float():
            number = float_bits.decode(attr.reference_bits, attr.type.name)
            return kit.FloatAttr(number, convert_type(attr.type))
        case bc.TypeRef():
            return convert_type(attr.type)
        case bc.String():
            return kit.StringAttr(attr.value)
        case bc.Array():
            return kit.ArrayAttr([attribute_from_bytecode(e, types) for e in attr.elements])
        case bc.Dense():
            return dense_from_bytecode(attr, types)
        case bc.DivBy():
            return kit.DivByAttr(attr.divisor, attr.every, attr.along)
        case bc.SameElements():
            return kit.SameElementsAttr(attr.values)
        case bc.Bounded():
            return kit.BoundedAttr(attr.lower, attr.upper)
        case bc.Dictionary():
            return kit.DictionaryAttr(_sorted_items(attr, types))
        case bc.OptimizationHints():
            return kit.OptimizationHintsAttr(hints_from_bytecode(attr, types))
        case bc.TestValue():
            return kit.TestValueAttr(attr.value)


def _sorted_items(attr: bc.Dictionary, types: TypeReader) -> dict[str, Attribute]:
    """MLIR keeps dictionaries sorted by name, and prints and writes them so."""
    return {name: attribute_from_bytecode(value, types) for name, value in sorted(attr.items, key=_first)}


def _first(item: tuple[str, Any]) -> str:
    return item[0]


def hints_from_bytecode(attr: bc.OptimizationHints, types: TypeReader) -> dict[str, dict[str, Attribute]]:
    hints = {}
    for architecture, keys in sorted(attr.items, key=_first):
        if not isinstance(keys, bc.Dictionary):
            raise InvalidError(f"expected dictionary attribute for optimization_hints entry `{architecture}`")
        hints[architecture] = _sorted_items(keys, types)
    return hints


def dense_from_bytecode(attr: bc.Dense, types: TypeReader) -> DenseElementsAttr:
    """A tile constant; equal elements become a splat. InvalidError when the data does not fit the type."""
    type_ = types.convert(attr.type)
    if not isinstance(type_, TileType) or type_.element_type not in NUMBER_NAMES:
        raise InvalidError(f"expect Cuda Tile integer or float type but got: {type_text(type_)}")
    count, name = type_.num_elements, NUMBER_NAMES[type_.element_type]
    raw = _unpacked(attr.data, count, name)
    width = element_storage_bytes(type_.element_type)
    if len(raw) not in (width, width * count):
        raise InvalidError("failed to validate buffer size and format")
    if len(raw) > width and raw == raw[:width] * count:
        raw = raw[:width]
    return types.kit.DenseElementsAttr(type_, raw)


_DIGITS = bytes.maketrans(b"01", b"\0\1")


def _unpacked(data: bytes, count: int, name: str) -> bytes:
    """The dialect's form of a constant's bytes.

    In the file, i1 takes a bit per element, the first in the lowest bit, or one byte that is not zero for a splat of
    more than 8 elements; other elements take as many bytes as their bits need, tf32 three and f4E2M1FN one.
    """
    if name == "i1":
        if len(data) == 1 and count > 8:
            return b"\1" if data != b"\0" else b"\0"
        if len(data) != (count + 7) // 8:
            return b""
        digits = f"{int.from_bytes(data, 'little'):0{8 * len(data)}b}"
        return digits[::-1].encode().translate(_DIGITS)[:count]
    element = ELEMENTS[name]
    if element.is_partial:
        size, mask = (element.bits + 7) // 8, (1 << element.bits) - 1
        numbers = (int.from_bytes(data[i : i + size], "little") & mask for i in range(0, len(data), size))
        return b"".join(n.to_bytes(element.storage_bytes, "little") for n in numbers) if len(data) % size == 0 else b""
    return data


# -- attributes of ops -------------------------------------------------------------------------------------------------

INTEGER_TYPES = {"i32": "i32", "i32_nonneg": "i32", "i64": "i64", "i64_nonneg": "i64", "bool": "i1"}
"""The types of attributes of these kinds that are integers."""


def value_reader(attribute: AttributeSpec, spec: Spec, types: TypeReader) -> Callable[[Any], Attribute]:
    """How the value of a declared attribute becomes an IR attribute; equal values share one object."""
    kit, kind = types.kit, attribute.kind
    make: Callable[[Any], Attribute]
    if kind in spec.enums:
        enum = spec.enums[kind]
        make = lambda v: kit.EnumAttr(enum, v)  # noqa: E731
    elif kind in INTEGER_TYPES:
        type_ = kit.NUMBER_TYPES[INTEGER_TYPES[kind]]
        make = lambda v: kit.integer(int(v), type_)  # noqa: E731
    elif kind == "unit":
        make = lambda v: kit.UnitAttr()  # noqa: E731
    elif kind in ("string", "symbol_name"):
        make = kit.StringAttr
    elif kind == "symbol_ref":
        make = kit.SymbolRefAttr
    elif kind == "function_type":
        return types.convert
    elif kind == "i32_array":
        make = lambda v: kit.dense_array(kit.NUMBER_TYPES["i32"], tuple(v))  # noqa: E731
    elif kind == "bool_array":
        make = lambda v: kit.dense_array(kit.NUMBER_TYPES["i1"], tuple([int(b) for b in v]))  # noqa: E731
    elif kind in ("array", "dict_array"):
        return lambda v: kit.ArrayAttr([attribute_from_bytecode(e, types) for e in v])
    elif kind == "test_value":
        make = kit.TestValueAttr
    else:
        return lambda v: attribute_from_bytecode(v, types)
    return _memo(make)


def _memo(make: Callable[[Any], Attribute]) -> Callable[[Any], Attribute]:
    known: dict[Any, Attribute] = {}

    def get(value: Any) -> Attribute:
        found = known.get(value)
        if found is None:
            found = known[value] = make(value)
        return found

    return get
