# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the format of an op to a function that reads it.

An element of the format becomes one closure; then the types of all values are worked out, from the format or from the
op's traits, and operands are looked up. Reading an op runs the closures in order: the spec is not looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, Block, Region

from libtile.asm.attribute_kinds import attribute_parser, starts
from libtile.asm.format import (
    AttributeDict,
    AttributeRef,
    Custom,
    Element,
    FormatError,
    Literal,
    OneOfEach,
    OperandRef,
    Optional,
    RegionRef,
    Space,
    TypeRef,
    parse_format,
)
from libtile.asm.op_state import OpState
from libtile.dialects.cuda_tile.types import NUMBER_TYPES, TileType, TokenType
from libtile.spec import OpSpec, Spec
from libtile.spec.model import ValueSpec

if TYPE_CHECKING:
    from libtile.asm.parser import Parser

Step = Callable[["Parser", OpState], None]
Test = Callable[["Parser"], bool]
TypeSource = Callable[["Parser", OpState], "Sequence[Attribute] | None"]


def compile_parser(op: OpSpec, spec: Spec) -> Step:
    """The function that reads an op of a declared format into an `OpState`. FormatError for a bad declaration."""
    compiler = _Compiler(op, spec)
    elements = parse_format(op)
    steps = [compiler.step(e) for e in elements if not isinstance(e, Space)]
    resolve = compiler.type_resolver(elements)
    steps.append(resolve)
    return _sequence(steps)


def _sequence(steps: list[Step]) -> Step:
    if len(steps) == 1:
        return steps[0]
    frozen = tuple(steps)

    def run(p: Parser, s: OpState) -> None:
        for step in frozen:
            step(p, s)

    return run


class _Compiler:
    def __init__(self, op: OpSpec, spec: Spec):
        self.op = op
        self.spec = spec

    def step(self, element: Element) -> Step:
        match element:
            case Literal(text):
                return _literal(text)
            case OperandRef(value):
                return _operand(value)
            case AttributeRef():
                return self._attribute(element)
            case RegionRef(name):
                return _region(name, self.op.has_trait("single_block"))
            case TypeRef():
                return _type(element)
            case AttributeDict(with_keyword):
                return _attribute_dict(with_keyword)
            case Custom():
                return self._custom(element)
            case Optional():
                return self._optional(element)
            case OneOfEach():
                return self._one_of_each(element)
            case Space():
                return lambda p, s: None

    def _attribute(self, element: AttributeRef) -> Step:
        attribute = element.spec
        name = attribute.name
        parse = attribute_parser(attribute, self.spec)

        def step(p: Parser, s: OpState) -> None:
            s.properties[name] = parse(p)

        return step

    def _custom(self, element: Custom) -> Step:
        from libtile.asm.custom_directives import PARSERS, subset_parser

        make = PARSERS.get(element.name)
        if make is None:
            enum = self.spec.enum_of_subset(element.name)
            if enum is not None:
                return subset_parser(element, enum)
            raise FormatError(f"format of op {self.op.name!r}: custom<{element.name}> has no parser")
        return make(element, self.op)

    def _optional(self, group: Optional) -> Step:
        """A group is read when its first element is there."""
        elements = [e for e in group.elements if not isinstance(e, Space)]
        anchor = group.elements[group.anchor]
        # A flag that is not the group's first element is not written: the group itself says that it is set.
        flag = isinstance(anchor, AttributeRef) and anchor.spec.is_flag and anchor is not elements[0]
        test = self._test(elements[0])
        rest = [self.step(e) for e in elements if not (flag and e is anchor)]
        if isinstance(elements[0], Literal):
            rest = rest[1:]  # the test consumes the literal
        if flag and isinstance(anchor, AttributeRef):
            rest.append(self._attribute(anchor))
        body = _sequence(rest) if rest else _nothing
        other_steps = [self.step(e) for e in group.otherwise if not isinstance(e, Space)]
        other = _sequence(other_steps) if other_steps else _nothing

        def step(p: Parser, s: OpState) -> None:
            if test(p):
                body(p, s)
            else:
                other(p, s)

        return step

    def _test(self, element: Element) -> Test:
        match element:
            case Literal(text):
                if text[0].isalpha() or text[0] == "_":
                    return lambda p: p.accept_keyword(text)
                return lambda p: p.accept(text)
            case OperandRef():
                return lambda p: p.kind == "percent"
            case AttributeRef(attribute):
                return starts(attribute, self.spec)
            case RegionRef():
                return lambda p: p.kind == "{"
            case _:
                raise FormatError(f"format of op {self.op.name!r}: an optional group cannot start with {element}")

    def _one_of_each(self, element: OneOfEach) -> Step:
        clauses: dict[str, Step] = {}
        for literal, elements in element.clauses:
            steps = [self.step(e) for e in elements if not isinstance(e, Space)]
            clauses[literal.text] = _sequence(steps) if steps else _nothing

        def step(p: Parser, s: OpState) -> None:
            seen = set()
            while p.kind == "bare" and p.token in clauses:
                keyword = p.token
                if keyword in seen:
                    p.fail(f"`{keyword}` clause can appear at most once in the expansion of the oilist directive")
                seen.add(keyword)
                p.advance()
                clauses[keyword](p, s)

        return step

    # -- types --------------------------------------------------------------------------------------------------

    def type_resolver(self, elements: Sequence[Element]) -> Step:
        """Works out the types of operands that the format does not give, and of results."""
        given = {ref.spec.name for ref in _type_refs(elements)}
        sources: list[tuple[str, TypeSource]] = []
        for value in (*self.op.operands, *self.op.results):
            if value.name not in given:
                sources.append((value.name, self._source(value, given)))
        frozen = tuple(sources)

        def step(p: Parser, s: OpState) -> None:
            types = s.types
            for name, source in frozen:
                found = source(p, s)
                if found is not None:
                    types[name] = list(found)

        return step

    def _source(self, value: ValueSpec, given: set[str]) -> TypeSource:
        name = value.name
        for trait in self.op.traits:
            if trait.name == "same_type" and name in trait.arguments:
                other = next((a for a in trait.arguments if a in given), None)
                if other is not None:
                    return _same_as(name, other, value)
        fixed = self._fixed_type(value)
        if fixed is not None:
            return _always(name, fixed, value)
        raise FormatError(f"format of op {self.op.name!r} does not fix the type of {name!r}")

    def _fixed_type(self, value: ValueSpec) -> Attribute | None:
        """The one type that a constraint allows, if it is one."""
        constraint = self.spec.constraints[value.constraint]
        if constraint.types == ("token",):
            return TokenType()
        if constraint.rank == 0 and len(constraint.elements) == 1 and constraint.elements[0] in NUMBER_TYPES:
            return TileType((), NUMBER_TYPES[constraint.elements[0]])
        return None


def _nothing(p: Parser, s: OpState) -> None:
    return None


def _type_refs(elements: Sequence[Element]) -> list[TypeRef]:
    found: list[TypeRef] = []
    for element in elements:
        match element:
            case TypeRef():
                found.append(element)
            case Custom(_, arguments):
                found += [a for a in arguments if isinstance(a, TypeRef)]
            case Optional(inner, _, otherwise):
                found += _type_refs((*inner, *otherwise))
            case OneOfEach(clauses):
                for _, inner in clauses:
                    found += _type_refs(inner)
    return found


def _same_as(name: str, other: str, value: ValueSpec) -> TypeSource:
    is_group = value.arity != "one"

    def source(p: Parser, s: OpState) -> Sequence[Attribute] | None:
        types = s.types.get(other)
        if not is_group or types is None:
            return types
        if name in s.operands:
            count = len(s.operands[name])
            return types[:1] * count if len(types) == 1 else types
        return types

    return source


def _always(name: str, type_: Attribute, value: ValueSpec) -> TypeSource:
    one = (type_,)
    if value.arity == "one":
        return lambda p, s: one
    return lambda p, s: one * len(s.operands.get(name, ()))


def _literal(text: str) -> Step:
    if text[0].isalpha() or text[0] == "_":
        return lambda p, s: p.expect_keyword(text)

    def step(p: Parser, s: OpState) -> None:
        if p.kind != text:
            p.expect(text)
        p.advance()

    return step


def _operand(value: ValueSpec) -> Step:
    name = value.name
    if value.arity == "one":

        def one(p: Parser, s: OpState) -> None:
            s.offsets[name] = p.start
            s.operands[name] = [p.operand()]

        return one

    if value.is_optional:

        def optional(p: Parser, s: OpState) -> None:
            s.offsets[name] = p.start
            s.operands[name] = [p.operand()] if p.kind == "percent" else []

        return optional

    def variadic(p: Parser, s: OpState) -> None:
        s.offsets[name] = p.start
        s.operands[name] = p.operand_list()

    return variadic


def _type(element: TypeRef) -> Step:
    name = element.spec.name
    if element.spec.is_variadic:

        def many(p: Parser, s: OpState) -> None:
            types: list[Attribute] = []
            if p.kind != ")" or s.operands.get(name):  # no operand is printed with no type
                p.comma_list(lambda: types.append(p.type()))
            s.types[name] = types

        return many

    def one(p: Parser, s: OpState) -> None:
        s.types[name] = [p.type()]

    return one


def _region(name: str, single_block: bool) -> Step:
    def step(p: Parser, s: OpState) -> None:
        region: Region = p.region(())
        if single_block and region.first_block is None:
            region.add_block(Block())
        s.regions[name] = region

    return step


def _attribute_dict(with_keyword: bool) -> Step:
    if with_keyword:

        def keyword(p: Parser, s: OpState) -> None:
            if p.accept_keyword("attributes"):
                s.attributes.update(p.attribute_dictionary())

        return keyword

    def plain(p: Parser, s: OpState) -> None:
        if p.kind == "{":
            s.attributes.update(p.attribute_dictionary())

    return plain
