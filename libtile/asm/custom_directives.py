# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The `custom<Name>(...)` directives of formats: for each name how it is read, and how it is written.

A name that is not in the tables is that of a subset of an enum in the spec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from libtile.asm.format import AttributeRef, Custom, FormatError, RegionRef
from libtile.asm.op_state import Argument, OpState
from libtile.dialects.cuda_tile import attributes as ir
from libtile.dialects.cuda_tile.attribute_text import elements_text
from libtile.dialects.cuda_tile.attributes import EnumAttr
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, type_text
from libtile.spec import EnumSpec, OpSpec

if TYPE_CHECKING:
    from xdsl.ir import Operation, Region

    from libtile.asm.format_print import Groups
    from libtile.asm.parser import Parser
    from libtile.asm.printer import Printer
    from libtile.dialects.cuda_tile.ops import CudaTileOp

ParseStep = Callable[["Parser", OpState], None]
PrintStep = Callable[["Printer", "CudaTileOp", "Groups"], None]


def _attribute(element: Custom) -> AttributeRef:
    first = element.arguments[0]
    if not isinstance(first, AttributeRef):
        raise FormatError(f"custom<{element.name}> takes an attribute")
    return first


def _region(element: Custom) -> RegionRef:
    first = element.arguments[0]
    if not isinstance(first, RegionRef):
        raise FormatError(f"custom<{element.name}> takes a region")
    return first


# -- keywords -----------------------------------------------------------------------------------------------------


def _keyword_parser(enum: str, what: str) -> Callable[[Custom, OpSpec], ParseStep]:
    """An enum's keyword; an error says what is allowed, after what a missing keyword says by itself."""

    def message(p: Parser) -> str:
        listed = ", ".join(f"'{keyword}'" for keyword in p.spec.enums[enum].listed)
        return f"expected {what} to be one of: {{{listed}}}"

    def make(element: Custom, op: OpSpec) -> ParseStep:
        name = _attribute(element).spec.name
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


def _keyword_printer(element: Custom, op: OpSpec) -> PrintStep:
    name = _attribute(element).spec.name

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        p.write(str(o.attribute_value(name)))

    return write


# -- subsets of enums: rounding modes -----------------------------------------------------------------------------


def subset_parser(element: Custom, enum: EnumSpec) -> ParseStep:
    """`attr<keyword>`, or nothing for the default. Where the subset is not strict, other cases are the verifier's."""
    name = _attribute(element).spec.name
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


def subset_printer(element: Custom, op: OpSpec) -> PrintStep:
    """The other way round; what is left out is told by the attribute's own declaration."""
    name = _attribute(element).spec.name

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        found = o.properties.get(name)
        if isinstance(found, EnumAttr) and found.keyword != found.spec.subsets[element.name].default:
            p.write(found.text())

    return write


# -- predicates of assume, visibility of globals ------------------------------------------------------------------


def _parse_predicate(element: Custom, op: OpSpec) -> ParseStep:
    from libtile.asm.attribute_parser import PREDICATES  # which printing does without

    name = _attribute(element).spec.name

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


def _print_predicate(element: Custom, op: OpSpec) -> PrintStep:
    name = _attribute(element).spec.name

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        predicate = o.properties[name]
        p.write(predicate.text() if isinstance(predicate, ir.CudaTileAttribute) else p.attribute(predicate))

    return write


def _parse_visibility(element: Custom, op: OpSpec) -> ParseStep:
    name = _attribute(element).spec.name

    def parse(p: Parser, s: OpState) -> None:
        keyword = "public"
        if p.kind == "bare" and p.token in ("public", "private"):
            keyword = p.keyword()
        s.properties[name] = EnumAttr("SymbolVisibility", keyword)

    return parse


def _print_visibility(element: Custom, op: OpSpec) -> PrintStep:
    name = _attribute(element).spec.name

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        visibility = o.attribute_value(name)
        if visibility != "public":
            p.write(f"{visibility} ")

    return write


# -- constants ----------------------------------------------------------------------------------------------------


def _parse_constant(element: Custom, op: OpSpec) -> ParseStep:
    from libtile.asm.dense import typed_elements  # which printing does without

    name = _attribute(element).spec.name
    result = op.results[0].name if op.results else None

    def parse(p: Parser, s: OpState) -> None:
        value = typed_elements(p)
        s.properties[name] = value
        if result is not None:
            s.types[result] = [value.type]

    return parse


def _print_constant(element: Custom, op: OpSpec) -> PrintStep:
    name = _attribute(element).spec.name

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        value = o.properties[name]
        assert isinstance(value, ir.DenseElementsAttr)  # `printable` has checked it
        element_name = NUMBER_NAMES[value.type.element_type]
        p.write(f"<{element_name}: {elements_text(value)}> : {type_text(value.type)}")

    return write


# -- regions ------------------------------------------------------------------------------------------------------


def _parse_if_region(element: Custom, op: OpSpec) -> ParseStep:
    name = _region(element).name

    def parse(p: Parser, s: OpState) -> None:
        s.regions[name] = p.region((), terminator=op)

    return parse


def print_control_flow_region(p: Printer, region: Region, implicit: str) -> None:
    """A region without its arguments, and without a terminator that text may leave out."""
    p.region(region, arguments=False, terminators=implied_terminator(region, implicit) is None)


def implied_terminator(region: Region, implicit: str) -> Operation | None:
    """The terminator of a region's last block, if text that leaves it out means just this op."""
    last = region.last_block.last_op if region.last_block is not None else None
    if last is None or last.name != "cuda_tile." + implicit or last.operands or last.attributes:
        return None
    return last


IMPLICIT = {"if": "yield", "for": "continue", "loop": "continue"}
"""The terminator that text may leave out, by op."""


def _print_if_region(element: Custom, op: OpSpec) -> PrintStep:
    index = op.regions.index(_region(element).name)

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        print_control_flow_region(p, o.regions[index], IMPLICIT["if"])

    return write


def _parse_argument_region(element: Custom, op: OpSpec) -> ParseStep:
    """`(%name: type, ...) { ... }`."""
    name = _region(element).name

    def parse(p: Parser, s: OpState) -> None:
        arguments: list[Argument] = []
        p.argument_list(arguments)
        s.regions[name] = p.region(arguments)

    return parse


def _print_argument_region(element: Custom, op: OpSpec) -> PrintStep:
    index = op.regions.index(_region(element).name)

    def write(p: Printer, o: CudaTileOp, g: Groups) -> None:
        region = o.regions[index]
        p.newline()
        p.argument_list(region.block.args)
        p.write(" ")
        p.region(region, arguments=False)

    return write


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

PRINTERS: dict[str, Callable[[Custom, OpSpec], PrintStep]] = {
    "Signedness": _keyword_printer,
    "ComparisonPredicate": _keyword_printer,
    "ComparisonOrdering": _keyword_printer,
    "AssumePredicate": _print_predicate,
    "SymbolVisibility": _print_visibility,
    "DenseTypedElementsAttr": _print_constant,
    "DenseTypedElementsAttrNoResult": _print_constant,
    "IfOpRegion": _print_if_region,
    "ArgumentRegion": _print_argument_region,
}
