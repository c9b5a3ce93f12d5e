# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The declarative assembly formats of the spec, as trees.

The language is that of MLIR's operation definitions ("Declarative Assembly Format"): literals in backticks,
`$member`, `type($member)`, `attr-dict`, `custom<Name>(...)`, optional groups `( ... ^ ... )?` with `: ( ... )` as their
other side, and `oilist(...)`. `full_type($member)` is a type that keeps the dialect's prefix.
"""

from __future__ import annotations

import re

from libtile.spec import OpSpec
from libtile.spec.model import AttributeSpec, ValueSpec
from libtile.support.records import dataclass


class FormatError(ValueError):
    """A format of the spec is malformed, or does not fix all types; the message names the op."""


@dataclass(frozen=True)
class Literal:
    text: str


@dataclass(frozen=True)
class Space:
    """A forced space (`text` is " "), a newline, or no space at all (empty)."""

    text: str


@dataclass(frozen=True)
class OperandRef:
    spec: ValueSpec


@dataclass(frozen=True)
class AttributeRef:
    spec: AttributeSpec


@dataclass(frozen=True)
class RegionRef:
    name: str


@dataclass(frozen=True)
class TypeRef:
    """`type($value)`; `full` keeps the prefix of the dialect's types."""

    spec: ValueSpec
    is_result: bool
    full: bool


@dataclass(frozen=True)
class AttributeDict:
    with_keyword: bool


@dataclass(frozen=True)
class Custom:
    name: str
    arguments: tuple[OperandRef | AttributeRef | RegionRef | TypeRef, ...]


@dataclass(frozen=True)
class Optional:
    elements: tuple[Element, ...]
    anchor: int
    otherwise: tuple[Element, ...]


@dataclass(frozen=True)
class OneOfEach:
    """`oilist`: clauses in any order, each at most once; a clause is a keyword and what follows it."""

    clauses: tuple[tuple[Literal, tuple[Element, ...]], ...]


Element = (
    Literal | Space | OperandRef | AttributeRef | RegionRef | TypeRef | AttributeDict | Custom | Optional | OneOfEach
)

_TOKEN = re.compile(r"\s*(?:`([^`]*)`|\$(\w+)|([a-z_]+(?:-[a-z]+)*)|(<\w+>)|([()?^:,|]))", re.ASCII)


def custom_attribute(element: Custom) -> AttributeRef:
    """The attribute that a `custom<Name>($attribute)` is about."""
    first = element.arguments[0]
    if not isinstance(first, AttributeRef):
        raise FormatError(f"custom<{element.name}> takes an attribute")
    return first


def custom_region(element: Custom) -> RegionRef:
    """The region that a `custom<Name>($region)` is about."""
    first = element.arguments[0]
    if not isinstance(first, RegionRef):
        raise FormatError(f"custom<{element.name}> takes a region")
    return first


class _Reader:
    def __init__(self, op: OpSpec):
        self.op = op
        self.position = 0
        self.kind = ""
        self.value = ""
        self.operands = {v.name: v for v in op.operands}
        self.results = {v.name: v for v in op.results}
        self.attributes = {a.name: a for a in op.attributes}
        self.advance()

    def advance(self) -> None:
        text = self.op.format
        match = _TOKEN.match(text, self.position)
        if match is None:
            if text[self.position :].strip():
                raise self.error(f"cannot read {text[self.position :]!r}")
            self.kind = self.value = ""
            return
        self.position = match.end()
        index = match.lastindex or 0
        self.kind = ("", "literal", "member", "word", "bracketed", "punctuation")[index]
        self.value = match[index]

    def error(self, what: str) -> FormatError:
        return FormatError(f"format of op {self.op.name!r}: {what}")

    def take(self, value: str) -> None:
        if self.value != value or self.kind == "literal":
            raise self.error(f"expected {value!r}, got {self.value!r}")
        self.advance()

    def at(self, value: str) -> bool:
        return self.kind == "punctuation" and self.value == value

    def elements(self, ends: str = "") -> tuple[list[Element], int | None]:
        """Elements up to a closing punctuation, and the index of the one marked as anchor."""
        found: list[Element] = []
        anchor = None
        while self.kind and not (self.kind == "punctuation" and self.value in ends):
            if self.at("^"):
                anchor = len(found) - 1
                self.advance()
                continue
            found.append(self.element())
        return found, anchor

    def element(self) -> Element:
        kind, value = self.kind, self.value
        self.advance()
        if kind == "literal":
            return Space(value.replace("\\n", "\n")) if not value.strip() or value == "\\n" else Literal(value)
        if kind == "member":
            return self.member(value)
        if kind == "punctuation" and value == "(":
            return self.optional()
        if kind == "word":
            if value in ("attr-dict", "attr-dict-with-keyword"):
                return AttributeDict(value != "attr-dict")
            if value in ("type", "full_type"):
                return self.type(value == "full_type")
            if value == "custom":
                return self.custom()
            if value == "oilist":
                return self.one_of_each()
        raise self.error(f"unexpected {value!r}")

    def member(self, name: str) -> OperandRef | AttributeRef | RegionRef:
        if name in self.operands:
            return OperandRef(self.operands[name])
        if name in self.attributes:
            return AttributeRef(self.attributes[name])
        if name in self.op.regions:
            return RegionRef(name)
        raise self.error(f"no member is called {name!r}")

    def type(self, full: bool) -> TypeRef:
        self.take("(")
        name = self.value
        self.advance()
        self.take(")")
        if name in self.operands:
            return TypeRef(self.operands[name], False, full)
        if name in self.results:
            return TypeRef(self.results[name], True, full)
        raise self.error(f"no operand or result is called {name!r}")

    def custom(self) -> Custom:
        name = self.value.strip("<>")
        self.advance()
        self.take("(")
        arguments: list[OperandRef | AttributeRef | RegionRef | TypeRef] = []
        while not self.at(")"):
            argument = self.element()
            if not isinstance(argument, OperandRef | AttributeRef | RegionRef | TypeRef):
                raise self.error(f"custom<{name}> takes members and types")
            arguments.append(argument)
            if self.at(","):
                self.advance()
        self.take(")")
        return Custom(name, tuple(arguments))

    def optional(self) -> Optional:
        elements, anchor = self.elements(")")
        self.take(")")
        otherwise: list[Element] = []
        if self.at(":"):
            self.advance()
            self.take("(")
            otherwise, _ = self.elements(")")
            self.take(")")
        self.take("?")
        if anchor is None:
            raise self.error("an optional group has no anchor")
        return Optional(tuple(elements), anchor, tuple(otherwise))

    def one_of_each(self) -> OneOfEach:
        self.take("(")
        clauses = []
        while True:
            elements, _ = self.elements("|)")
            if not elements or not isinstance(elements[0], Literal):
                raise self.error("a clause of oilist starts with a literal")
            clauses.append((elements[0], tuple(elements[1:])))
            if self.at(")"):
                break
            self.take("|")
        self.take(")")
        return OneOfEach(tuple(clauses))


def parse_format(op: OpSpec) -> tuple[Element, ...]:
    """The tree of an op's format. FormatError when the spec's text is malformed."""
    reader = _Reader(op)
    elements, anchor = reader.elements()
    if reader.kind or anchor is not None:
        raise reader.error(f"unexpected {reader.value!r}")
    return tuple(elements)
