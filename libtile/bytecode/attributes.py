# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Self-contained attributes: a tag, then the attribute's own encoding. Reader and writer of each stand together.

A reader takes the context, the bytes, a position and the nesting depth, and gives the attribute and the next position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from libtile.bytecode.cursor import (
    MASK64,
    int_array,
    put,
    put_int_array,
    raw_varint,
    signed_varint,
    unzigzag,
    varint,
    zigzag,
)
from libtile.bytecode.errors import Fault, InvalidError, MigrationError, UnsupportedVersionError
from libtile.bytecode.limits import ATTRIBUTE_DEPTH
from libtile.bytecode.model import (
    Array,
    Attribute,
    Bool,
    Bounded,
    Dense,
    Dictionary,
    DivBy,
    Float,
    Integer,
    OptimizationHints,
    SameElements,
    String,
    TestValue,
    Type,
    TypeRef,
)

if TYPE_CHECKING:
    from libtile.bytecode.context import ReadContext, WriteContext

Read = tuple[Any, int]


def camel(name: str) -> str:
    """The attribute's name as diagnostics have it: `div_by` is `DivBy`."""
    return {"dense": "DenseElements"}.get(name, "".join(part.capitalize() for part in name.split("_")))


def read_attribute(ctx: ReadContext, data: bytes, p: int, depth: int = 0) -> Read:
    """A self-contained attribute at `p`."""
    start = p
    if depth > ATTRIBUTE_DEPTH:
        raise Fault(p, f"attributes are nested more than {ATTRIBUTE_DEPTH} deep")
    tag, p = varint(data, p)
    spec = ctx.attribute_tags.get(tag)
    if spec is None or (spec.testing and not ctx.allow_testing):
        raise Fault(start, f"unsupported AttributeTag {tag} for self-contained attribute")
    if spec.since > ctx.version:
        raise Fault(
            start,
            f"attribute '{camel(spec.name)}' requires bytecode version {spec.since}+, file version is {ctx.version}",
            UnsupportedVersionError,
        )
    return _CODECS[spec.name][0](ctx, data, p, depth)


def write_attribute(ctx: WriteContext, out: bytearray, attribute: Attribute, where: str) -> None:
    """Append a self-contained attribute; `where` names it in errors."""
    if ctx.nesting > ATTRIBUTE_DEPTH:
        raise InvalidError(f"attributes are nested more than {ATTRIBUTE_DEPTH} deep")
    name = _NAMES.get(type(attribute))
    if name is None:
        raise InvalidError(f"{where}: {type(attribute).__name__} is not an attribute")
    spec = ctx.spec.attribute_tags[name]
    if spec.since > ctx.version:
        raise MigrationError(
            f"attribute '{camel(name)}' is not available in bytecode version {ctx.version}",
            feature=name,
            required=spec.since,
            target=ctx.version,
        )
    put(out, spec.tag)
    _CODECS[name][1](ctx, out, attribute, where)


# -- scalars ----------------------------------------------------------------------------------------------------------


def _number_type(ctx: ReadContext, data: bytes, p: int, kind: str) -> tuple[Type, int, int]:
    index, after = varint(data, p)
    type_ = ctx.type_at(index, p)
    spec = ctx.spec.types[type_.name]
    if spec.kind != kind:
        title = "IntegerType for IntegerAttr" if kind == "integer" else "FloatType for FloatAttr"
        raise Fault(p, f"failed to read valid {title}", expected=f"{kind} type, got {type_.name}")
    return type_, spec.bits, after


def signed(value: int, bits: int) -> int:
    """Two's complement of `bits` bits; a value of one bit stays 0 or 1."""
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def _read_integer(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    type_, bits, p = _number_type(ctx, data, p, "integer")
    value, after = varint(data, p)
    if value >> bits:
        raise Fault(p, f"value {value} does not fit in {bits} bits")
    return Integer(signed(value, bits), type_), after


def _write_integer(ctx: WriteContext, out: bytearray, a: Integer, where: str) -> None:
    put(out, ctx.type_index(a.type))
    bits = ctx.spec.types[a.type.name].bits
    if not -(1 << (bits - 1)) <= a.value < 1 << bits:
        raise InvalidError(f"{where}: value {a.value} does not fit in {bits} bits")
    put(out, a.value & ((1 << bits) - 1))


def _read_float(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    type_, bits, p = _number_type(ctx, data, p, "float")
    if bits <= 8:
        value = data[p]
        if value >> bits:
            raise Fault(p, f"value {value} does not fit in {bits} bits")
        return Float(value, type_), p + 1
    raw, after = raw_varint(data, p)
    wide = raw > MASK64
    if wide and bits == 64 and raw >> 65 == 0 and not raw & 1:
        # The frontend zigzags the 64 bits as if they were a larger signed number (see Float.wide).
        ctx.warn(f"f64 attribute {raw >> 1:#x} is encoded in 65 bits; the reference reader drops its sign")
        return Float(raw >> 1, type_, wide=True), after
    if wide:
        raise Fault(p, "varint does not fit in 64 bits")
    value = unzigzag(raw) & MASK64
    if value >> bits:
        raise Fault(p, f"value {value} does not fit in {bits} bits")
    return Float(value, type_), after


def _write_float(ctx: WriteContext, out: bytearray, a: Float, where: str) -> None:
    put(out, ctx.type_index(a.type))
    bits = ctx.spec.types[a.type.name].bits
    if a.bits >> bits or a.bits < 0:
        raise InvalidError(f"{where}: value {a.bits} does not fit in {bits} bits")
    if bits <= 8:
        out.append(a.bits)
    elif a.wide:
        put(out, a.bits << 1)
    else:
        put(out, zigzag(a.bits - (1 << 64) if a.bits >> 63 else a.bits))


def read_bool(ctx: ReadContext, data: bytes, p: int) -> tuple[bool, int]:
    value = data[p]
    if value > 1:
        ctx.warn(f"boolean byte {value} read as true")
    return value != 0, p + 1


def _read_bool(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    value, p = read_bool(ctx, data, p)
    return Bool(value), p


def _write_bool(ctx: WriteContext, out: bytearray, a: Bool, where: str) -> None:
    out.append(1 if a.value else 0)


def _read_type(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    index, after = varint(data, p)
    return TypeRef(ctx.type_at(index, p)), after


def _write_type(ctx: WriteContext, out: bytearray, a: TypeRef, where: str) -> None:
    put(out, ctx.type_index(a.type))


def _read_string(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    index, after = varint(data, p)
    return String(ctx.string_at(index, p)), after


def _write_string(ctx: WriteContext, out: bytearray, a: String, where: str) -> None:
    put(out, ctx.string_index(a.value))


# -- containers -------------------------------------------------------------------------------------------------------


def read_array(ctx: ReadContext, data: bytes, p: int, depth: int = 0) -> tuple[tuple[Attribute, ...], int]:
    """A counted list of self-contained attributes."""
    count, p = varint(data, p)
    if count > len(data) - p:
        raise Fault(p, f"array of {count} attributes does not fit", expected=f"at most {len(data) - p}")
    elements = []
    for _ in range(count):
        element, p = read_attribute(ctx, data, p, depth + 1)
        elements.append(element)
    return tuple(elements), p


def write_array(ctx: WriteContext, out: bytearray, elements: tuple[Attribute, ...], where: str) -> None:
    put(out, len(elements))
    ctx.nesting += 1
    for index, element in enumerate(elements):
        write_attribute(ctx, out, element, f"{where}[{index}]")
    ctx.nesting -= 1


def _read_array(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    elements, p = read_array(ctx, data, p, depth)
    return Array(elements), p


def _write_array(ctx: WriteContext, out: bytearray, a: Array, where: str) -> None:
    write_array(ctx, out, a.elements, where)


def read_dictionary(
    ctx: ReadContext, data: bytes, p: int, depth: int = 0
) -> tuple[tuple[tuple[str, Attribute], ...], int]:
    """A counted list of names and self-contained attributes; names are not empty and not repeated."""
    count, p = varint(data, p)
    if count > (len(data) - p) // 2:
        raise Fault(p, f"dictionary of {count} entries does not fit", expected=f"at most {(len(data) - p) // 2}")
    items: list[tuple[str, Attribute]] = []
    seen = set()
    for index in range(count):
        name_index, after = varint(data, p)
        name = ctx.string_at(name_index, p)
        if not name:
            raise Fault(p, f"invalid empty attribute name for DictionaryAttr element {index}", InvalidError)
        if name in seen:
            raise Fault(p, f"failed to parse DictionaryAttr, duplicate key found: {name}", InvalidError)
        seen.add(name)
        value, p = read_attribute(ctx, data, after, depth + 1)
        items.append((name, value))
    return tuple(items), p


def write_dictionary(ctx: WriteContext, out: bytearray, items: tuple[tuple[str, Attribute], ...], where: str) -> None:
    put(out, len(items))
    ctx.nesting += 1
    for name, value in items:
        put(out, ctx.string_index(name))
        write_attribute(ctx, out, value, f"{where}.{name}")
    ctx.nesting -= 1


def _read_dictionary(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    items, p = read_dictionary(ctx, data, p, depth)
    return Dictionary(items), p


def _write_dictionary(ctx: WriteContext, out: bytearray, a: Dictionary, where: str) -> None:
    write_dictionary(ctx, out, a.items, where)


def read_hints(ctx: ReadContext, data: bytes, p: int, depth: int = 0) -> tuple[OptimizationHints, int]:
    """A dictionary of dictionaries."""
    items, after = read_dictionary(ctx, data, p, depth)
    for architecture, keys in items:
        if type(keys) is not Dictionary:
            raise Fault(p, f"expected dictionary attribute for optimization_hints entry `{architecture}`", InvalidError)
    return OptimizationHints(items), after


def write_hints(ctx: WriteContext, out: bytearray, a: OptimizationHints, where: str) -> None:
    write_dictionary(ctx, out, ctx.checked_hints(a).items, where)


def _read_dense(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    index, after = varint(data, p)
    type_ = ctx.type_at(index, p)
    constant, end = varint(data, after)
    return ctx.dense_at(constant, type_, after), end


def _write_dense(ctx: WriteContext, out: bytearray, a: Dense, where: str) -> None:
    put(out, ctx.type_index(a.type))
    put(out, ctx.constant_index(a))


# -- predicates -------------------------------------------------------------------------------------------------------


def _optional_pair(data: bytes, p: int) -> tuple[int | None, int | None, int]:
    """A byte of two presence bits, then the signed numbers that are present."""
    flags = data[p]
    if flags > 3:
        raise Fault(p, f"unknown presence bits {flags:#x}", expected="0 to 3")
    p += 1
    first = second = None
    if flags & 1:
        first, p = signed_varint(data, p)
    if flags & 2:
        second, p = signed_varint(data, p)
    return first, second, p


def _put_optional_pair(out: bytearray, first: int | None, second: int | None, where: str) -> None:
    out.append((first is not None) | (second is not None) << 1)
    for value in (first, second):
        if value is not None:
            if not -(1 << 63) <= value < 1 << 63:
                raise InvalidError(f"{where}: value {value} does not fit in 64 bits")
            put(out, zigzag(value))


def _read_div_by(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    divisor, p = varint(data, p)
    every, along, p = _optional_pair(data, p)
    return DivBy(divisor, every, along), p


def _write_div_by(ctx: WriteContext, out: bytearray, a: DivBy, where: str) -> None:
    if not 0 <= a.divisor <= MASK64:
        raise InvalidError(f"{where}: divisor {a.divisor} does not fit in 64 bits")
    put(out, a.divisor)
    _put_optional_pair(out, a.every, a.along, where)


UNSUPPORTED_ELEMENTS = {4: (-(1 << 31), (1 << 31) - 1), 8: (-(1 << 63), (1 << 63) - 1)}


def read_checked_array(data: bytes, p: int, width: int) -> tuple[tuple[int, ...], int]:
    """An array attribute; the extreme values are kept free by the reference, as hash keys."""
    values, after = int_array(data, p, width)
    for value in values:
        if value in UNSUPPORTED_ELEMENTS[width]:
            raise Fault(p, f"array contains unsupported value {value}", InvalidError)
    return values, after


def _read_same_elements(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    values, p = read_checked_array(data, p, 8)
    return SameElements(values), p


def _write_same_elements(ctx: WriteContext, out: bytearray, a: SameElements, where: str) -> None:
    put_int_array(out, a.values, 8)


def _read_bounded(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    lower, upper, p = _optional_pair(data, p)
    return Bounded(lower, upper), p


def _write_bounded(ctx: WriteContext, out: bytearray, a: Bounded, where: str) -> None:
    _put_optional_pair(out, a.lower, a.upper, where)


def _read_test_value(ctx: ReadContext, data: bytes, p: int, depth: int) -> Read:
    value, p = signed_varint(data, p)
    return TestValue(value), p


def _write_test_value(ctx: WriteContext, out: bytearray, a: TestValue, where: str) -> None:
    put(out, zigzag(a.value))


def read_predicate(ctx: ReadContext, data: bytes, p: int) -> Read:
    """A self-contained attribute that is an assume predicate."""
    attribute, after = read_attribute(ctx, data, p)
    if not isinstance(attribute, (DivBy, SameElements, Bounded)):
        raise Fault(p, "failed to cast parsed attribute to AssumePredicateAttrInterface", InvalidError)
    return attribute, after


_CODECS: dict[str, tuple[Callable[..., Read], Callable[..., None]]] = {
    "integer": (_read_integer, _write_integer),
    "float": (_read_float, _write_float),
    "bool": (_read_bool, _write_bool),
    "type": (_read_type, _write_type),
    "string": (_read_string, _write_string),
    "array": (_read_array, _write_array),
    "dense": (_read_dense, _write_dense),
    "div_by": (_read_div_by, _write_div_by),
    "same_elements": (_read_same_elements, _write_same_elements),
    "dictionary": (_read_dictionary, _write_dictionary),
    "optimization_hints": (read_hints, write_hints),
    "bounded": (_read_bounded, _write_bounded),
    "bytecode_test_value": (_read_test_value, _write_test_value),
}
_NAMES: dict[type, str] = {
    Integer: "integer",
    Float: "float",
    Bool: "bool",
    TypeRef: "type",
    String: "string",
    Array: "array",
    Dense: "dense",
    DivBy: "div_by",
    SameElements: "same_elements",
    Dictionary: "dictionary",
    OptimizationHints: "optimization_hints",
    Bounded: "bounded",
    TestValue: "bytecode_test_value",
}


def read_bool_array(data: bytes, p: int) -> tuple[tuple[bool, ...], int]:
    """A counted array of bytes that are 0 or 1."""
    values, after = int_array(data, p, 1)
    if any(value not in (0, 1) for value in values):
        raise Fault(p, "boolean array contains a byte that is neither 0 nor 1")
    return tuple(map(bool, values)), after
