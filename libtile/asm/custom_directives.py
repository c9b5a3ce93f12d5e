# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The `custom<Name>(...)` directives of formats: for each name how it is read. See `custom_directives_print`.

A name that is not in the table is that of a subset of an enum in the spec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from libtile.asm.format import Custom, custom_attribute, custom_region
from libtile.asm.op_state import Argument, OpState
from libtile.dialects.cuda_tile import attributes as ir
from libtile.dialects.cuda_tile.attributes import EnumAttr
from libtile.spec import EnumSpec, OpSpec

if TYPE_CHECKING:
    from libtile.asm.parser import Parser

ParseStep = Callable[["Parser", OpState], None]


# -- keywords -----------------------------------------------------------------------------------------------------


def _keyword_parser(enum: str, what: str) -> Callable[[Custom, OpSpec], ParseStep]:
    """An enum's keyword; an error says what is allowed, after what a missing keyword says by itself."""

    def message(p: Parser) -> str:
        listed = ", ".join(f"'{keyword}'" for keyword in p.spec.enums[enum].listed)
        return f"expected {what} to be one of: {{{listed}}}"

    def make(element: Custom, op: OpSpec) -> ParseStep:
        name = custom_attribute(element).spec.name
        cache: dict[str, EnumAttr] = {}

        def parse(p: Parser, s: OpState) -> None:
            start = p.start
            if p.kind != "bare":
                p.error("expected valid keyword")
                p.fail(message(p), start)
            token = p.token
            found = cache.get(token)
            if found is None:
                declared = p.spec.enums[enum]
                if token not in declared.by_keyword:
                    p.fail(message(p), start)
                found = cache[token] = EnumAttr(declared, token)
            p.advance()
            s.properties[name] = found

        return parse

    return make


# -- subsets of enums: rounding modes -----------------------------------------------------------------------------


def subset_parser(element: Custom, enum: EnumSpec) -> ParseStep:
    """`attr<keyword>`, or nothing for the default. Where the subset is not strict, other cases are the verifier's."""
    name = custom_attribute(element).spec.name
    subset = enum.subsets[element.name]
    listed = ", ".join(f"'{keyword}'" for keyword in subset.cases)
    default = None if subset.default is None else EnumAttr(enum, subset.default)

    def parse(p: Parser, s: OpState) -> None:
        if p.kind != "bare" or p.token != enum.attr:
            if default is not None:
                s.properties[name] = default
            return
        p.advance()
        p.expect("<")
        keyword = p.keyword()
        p.expect(">")
        if keyword not in enum.by_keyword or (subset.strict and keyword not in subset.cases):
            got = f", got: '{keyword}'" if subset.strict else ""
            p.fail(f"expected {enum.summary} to be one of: {listed}{got}")
        s.properties[name] = EnumAttr(enum, keyword)

    return parse


# -- predicates of assume, visibility of globals ------------------------------------------------------------------


def _parse_predicate(element: Custom, op: OpSpec) -> ParseStep:
    from libtile.asm.attribute_parser import PREDICATES  # which printing does without

    name = custom_attribute(element).spec.name

    def parse(p: Parser, s: OpState) -> None:
        start = p.start
        if p.kind == "bare" and p.token in PREDICATES:
            s.properties[name] = PREDICATES[p.keyword()](p)
            return
        found = p.optional_attribute()
        if found is not None:
            if not isinstance(found, ir.PREDICATES):
                p.fail("expected assume predicate attribute", start)
            s.properties[name] = found
            return
        if p.kind != "bare":
            p.error("expected valid keyword")
            p.fail("expected attribute name", start)
        p.fail(
            f"unknown assume predicate attribute: {p.token} (expected 'div_by', 'same_elements', or 'bounded')", start
        )

    return parse


def _parse_visibility(element: Custom, op: OpSpec) -> ParseStep:
    name = custom_attribute(element).spec.name

    def parse(p: Parser, s: OpState) -> None:
        keyword = "public"
        if p.kind == "bare" and p.token in ("public", "private"):
            keyword = p.keyword()
        s.properties[name] = EnumAttr("SymbolVisibility", keyword)

    return parse


# -- constants ----------------------------------------------------------------------------------------------------


def _parse_constant(element: Custom, op: OpSpec) -> ParseStep:
    from libtile.asm.dense import typed_elements  # which printing does without

    name = custom_attribute(element).spec.name
    result = op.results[0].name if op.results else None

    def parse(p: Parser, s: OpState) -> None:
        value = typed_elements(p)
        s.properties[name] = value
        if result is not None:
            s.types[result] = [value.type]

    return parse


# -- regions ------------------------------------------------------------------------------------------------------


def _parse_if_region(element: Custom, op: OpSpec) -> ParseStep:
    name = custom_region(element).name

    def parse(p: Parser, s: OpState) -> None:
        s.regions[name] = p.region((), terminator=op)

    return parse


def _parse_argument_region(element: Custom, op: OpSpec) -> ParseStep:
    """`(%name: type, ...) { ... }`."""
    name = custom_region(element).name

    def parse(p: Parser, s: OpState) -> None:
        arguments: list[Argument] = []
        p.argument_list(arguments)
        s.regions[name] = p.region(arguments)

    return parse


PARSERS: dict[str, Callable[[Custom, OpSpec], ParseStep]] = {
    "Signedness": _keyword_parser("Signedness", "signedness"),
    "ComparisonPredicate": _keyword_parser("ComparisonPredicate", "'comparison_predicate'"),
    "ComparisonOrdering": _keyword_parser("ComparisonOrdering", "'comparison_ordering'"),
    "AssumePredicate": _parse_predicate,
    "SymbolVisibility": _parse_visibility,
    "DenseTypedElementsAttr": _parse_constant,
    "DenseTypedElementsAttrNoResult": _parse_constant,
    "IfOpRegion": _parse_if_region,
    "ArgumentRegion": _parse_argument_region,
}
