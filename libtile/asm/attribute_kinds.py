# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes of declared kinds in custom forms: how each kind of the spec is read and written without its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    NoneType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute

from libtile.dialects.cuda_tile.attributes import EnumAttr, OptimizationHintsAttr, TestValueAttr
from libtile.dialects.cuda_tile.types import i1, i32, i64
from libtile.ir.strings import unquote
from libtile.spec import Spec
from libtile.spec.model import AttributeSpec, EnumSpec

if TYPE_CHECKING:
    from libtile.asm.attribute_parser import AttributeParser

ParseAttribute = Callable[["AttributeParser"], Attribute]

_KINDS: dict[str, tuple[type[Attribute], Attribute | None]] = {
    "i64": (IntegerAttr, i64),
    "i64_nonneg": (IntegerAttr, i64),
    "i32": (IntegerAttr, i32),
    "i32_nonneg": (IntegerAttr, i32),
    "bool": (IntegerAttr, i1),
    "string": (StringAttr, NoneType()),
    "symbol_ref": (SymbolRefAttr, None),
    "array": (ArrayAttr, None),
    "dict_array": (ArrayAttr, None),
}


def attribute_parser(attribute: AttributeSpec, spec: Spec) -> ParseAttribute:
    """Reads a required attribute of this declaration."""
    kind = attribute.kind
    enum = spec.enums.get(kind)
    if enum is not None:
        return _plain_enum_parser(attribute, enum) if enum.plain else _enum_parser(enum)
    if kind in _KINDS:
        return _builtin_parser(*_KINDS[kind])
    return _SPECIAL[kind]


def _plain_enum_parser(attribute: AttributeSpec, enum: EnumSpec) -> ParseAttribute:
    attributes = {keyword: EnumAttr(enum, keyword) for keyword in enum.by_keyword}
    allowed = ", ".join(enum.by_keyword)

    def parse(p: AttributeParser) -> Attribute:
        start = p.start
        if p.kind == "bare":
            found = attributes.get(p.token)
            if found is not None:
                p.advance()
                return found
        elif p.kind == "string":
            value = unquote(p.token)
            if value in attributes:
                p.advance()
                return attributes[value]
            p.fail(f'invalid {attribute.name} attribute specification: "{value}"', start)
        p.fail(
            "expected string or keyword containing one of the following enum values for attribute "
            f"'{attribute.name}' [{allowed}]",
            start,
        )

    return parse


def _enum_parser(enum: EnumSpec) -> ParseAttribute:
    def parse(p: AttributeParser) -> Attribute:
        if p.kind != "hash":
            return p.enum_body(enum)
        start = p.start
        found = p.attribute()
        if not isinstance(found, EnumAttr) or found.enum != enum.name:
            p.fail("invalid kind of attribute specified", start)
        return found

    return parse


def _builtin_parser(cls: type[Attribute], type_: Attribute | None) -> ParseAttribute:
    def parse(p: AttributeParser) -> Attribute:
        start = p.start
        found = p.attribute(type_)
        if not isinstance(found, cls) or (isinstance(found, IntegerAttr) and found.type != type_):
            p.fail("invalid kind of attribute specified", start)
        return found

    return parse


def _int_array(element: Any) -> ParseAttribute:
    """`[1, 0]` or `array<i32: 1, 0>`."""

    def parse(p: AttributeParser) -> Attribute:
        start = p.start
        if p.kind == "[":
            width = element.width.data
            values: list[int] = []
            p.bracketed("[", "]", lambda: values.append(p.integer(max(width, 2))))
            return DenseArrayBase.from_list(element, values)
        found = p.attribute()
        if not isinstance(found, DenseArrayBase) or found.elt_type != element:
            p.fail("invalid kind of attribute specified", start)
        return found

    return parse


def _hints(p: AttributeParser) -> Attribute:
    if p.kind != "hash":
        return p.hints()
    start = p.start
    found = p.attribute()
    if not isinstance(found, OptimizationHintsAttr):
        p.fail("invalid kind of attribute specified", start)
    return found


def _test_value(p: AttributeParser) -> Attribute:
    start = p.start
    if p.kind == "hash":
        found = p.attribute()
        if not isinstance(found, TestValueAttr):
            p.fail("invalid kind of attribute specified", start)
        return found
    return p.dialect_attribute("bytecode_test_value", start)


def _dense(p: AttributeParser) -> Attribute:
    from libtile.asm.dense import dense_attribute  # which printing does without

    return dense_attribute(p)


def _predicate(p: AttributeParser) -> Attribute:
    from libtile.asm.attribute_parser import PREDICATES  # which printing does without

    start = p.start
    if p.kind == "bare" and p.token in PREDICATES:
        name = p.keyword()
        return PREDICATES[name](p)
    found = p.attribute()
    if not isinstance(found, tuple(_predicate_classes())):
        p.fail("invalid kind of attribute specified", start)
    return found


def _predicate_classes() -> tuple[type[Attribute], ...]:
    from libtile.dialects.cuda_tile.attributes import PREDICATES as CLASSES

    return CLASSES


def _unit(p: AttributeParser) -> Attribute:
    return UnitAttr()


_SPECIAL: dict[str, ParseAttribute] = {
    "unit": _unit,
    "symbol_name": lambda p: StringAttr(p.symbol_name()),
    "function_type": lambda p: p.function_type(),
    "dense": _dense,
    "i32_array": _int_array(i32),
    "bool_array": _int_array(i1),
    "hints": _hints,
    "predicate": _predicate,
    "test_value": _test_value,
}


def starts(attribute: AttributeSpec, spec: Spec) -> Callable[[AttributeParser], bool]:
    """Whether an optional attribute that begins a group stands at the current token."""
    enum = spec.enums.get(attribute.kind)
    if enum is not None and enum.plain:
        keywords = enum.by_keyword
        return lambda p: p.kind == "string" or (p.kind == "bare" and p.token in keywords)
    if enum is not None or attribute.kind in ("hints", "test_value"):
        return lambda p: p.kind in ("<", "hash")
    if attribute.kind in ("symbol_name", "symbol_ref"):
        return lambda p: p.kind == "at"
    if attribute.kind in ("array", "dict_array", "i32_array", "bool_array"):
        return lambda p: p.kind in ("[", "hash")
    if attribute.kind == "string":
        return lambda p: p.kind == "string"
    return lambda p: p.kind in ("int", "-", "float") or (p.kind == "bare" and p.token in ("true", "false"))


def normalized(attribute: AttributeSpec, attr: Attribute, spec: Spec) -> Attribute:
    """The attribute as the dialect holds it: a plain enum is written as a number in the generic form."""
    enum = spec.enums.get(attribute.kind)
    if enum is not None and enum.plain and isinstance(attr, IntegerAttr) and attr.type == i32:
        case = enum.by_value.get(attr.value.data)
        if case is not None:
            return EnumAttr(enum, case.keyword)
    return attr
