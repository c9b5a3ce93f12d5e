# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reading and writing the uniform form of the inner dialects' ops (see `tile_form`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i32, i64
from xdsl.ir import Attribute, Region
from xdsl.irdl import VariadicDef

from libtile.ir.grouped_op import INDICES, SEGMENTS, TOKEN, GroupedOp
from libtile.ir.tile_types import parse_type, type_text

if TYPE_CHECKING:
    from xdsl.parser import Parser, UnresolvedOperand
    from xdsl.printer import Printer

T = TypeVar("T", bound=GroupedOp)

_BARE = r"(?a)[A-Za-z_][\w$.]*\Z"
"""A name that is written without quotes."""


# -- reading ----------------------------------------------------------------------------------------------------------


def parse_op(cls: type[T], parser: Parser) -> T:
    """The rest of an op behind its name."""
    start = parser.pos
    written, indices = _operands(parser) if _operands_follow(cls, parser) else ([], [])
    attributes = dict(parser.parse_optional_attr_dict())
    regions = _regions(parser)
    operand_types, result_types = _types(parser, bool(written or indices))
    count = len(written) + len(indices)
    if len(operand_types) != count:
        plural = "" if count == 1 else "s"
        parser.raise_error(f"expected {count} operand type{plural} but had {len(operand_types)}", start, parser.pos)
    properties = {n: attributes.pop(n) for n in cls.get_irdl_definition().properties if n in attributes}
    before = _leading(cls) if indices or _has_indices(cls) else 0
    if cls.has_segments():
        given = attributes.pop(SEGMENTS, None) or properties.pop(SEGMENTS, None)
        sizes = _sizes(cls, given, before, len(indices), operand_types, result_types)
        if sizes is None:
            parser.raise_error(f"op requires attribute '{SEGMENTS}'", start, parser.pos)
        properties[SEGMENTS] = DenseArrayBase.from_list(i32, sizes)
    order = [*written[:before], *indices, *written[before:]]
    operands = [parser.resolve_operand(use, type_) for use, type_ in zip(order, operand_types)]
    return cls.create(
        operands=operands, result_types=result_types, properties=properties, attributes=attributes, regions=regions
    )


def _operands_follow(cls: type[GroupedOp], parser: Parser) -> bool:
    """Whether what stands behind the name can be an operand. The `%x` of a next line is one only where one is needed:

    nv_tileas.barrier
    %x = arith.addi ...
    """
    definitions = [d for _, d in cls.get_irdl_definition().operands]
    if not definitions:
        return False
    if any(not isinstance(d, VariadicDef) for d in definitions):
        return True
    text, at = parser.lexer.input.content, parser.pos
    while at > 0 and text[at - 1].isspace():
        at -= 1
        if text[at] == "\n":
            return False
    return True


def _operands(parser: Parser) -> tuple[list[UnresolvedOperand], list[UnresolvedOperand]]:
    """The operands as written, and those in the brackets behind the first."""
    indices: list[UnresolvedOperand] = []
    first = parser.parse_optional_unresolved_operand()
    if first is None:
        return [], indices
    if parser.parse_optional_punctuation("["):
        indices = (
            parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
            )
            or []
        )
        parser.parse_punctuation("]")
    written = [first]
    while parser.parse_optional_punctuation(","):
        written.append(parser.parse_unresolved_operand())
    return written, indices


def _regions(parser: Parser) -> list[Region]:
    regions: list[Region] = []
    if parser.parse_optional_punctuation("("):
        regions.append(parser.parse_region())
        while parser.parse_optional_punctuation(","):
            regions.append(parser.parse_region())
        parser.parse_punctuation(")")
    return regions


def parse_types(parser: Parser) -> list[Attribute]:
    """Types with commas between them, perhaps in parentheses."""
    if parser.parse_optional_punctuation("("):
        if parser.parse_optional_punctuation(")"):
            return []
        types = parse_types(parser)
        parser.parse_punctuation(")")
        return types
    types = [parse_type(parser)]
    while parser.parse_optional_punctuation(","):
        types.append(parse_type(parser))
    return types


def _types(parser: Parser, has_operands: bool) -> tuple[list[Attribute], list[Attribute]]:
    if not parser.parse_optional_punctuation(":"):
        return [], []
    first = parse_types(parser)
    if parser.parse_optional_punctuation("->"):
        return first, parse_types(parser)
    return (first, []) if has_operands else ([], first)


def _has_indices(cls: type[GroupedOp]) -> bool:
    return any(name == INDICES for name, _ in cls.get_irdl_definition().operands)


def _leading(cls: type[GroupedOp]) -> int:
    """How many operands stand before the indices in the op's declaration."""
    count = 0
    for name, definition in cls.get_irdl_definition().operands:
        if name == INDICES or isinstance(definition, VariadicDef):
            break
        count += 1
    return count


def _sizes(
    cls: type[GroupedOp],
    given: Attribute | None,
    before: int,
    indices: int,
    types: Sequence[Attribute],
    results: Sequence[Attribute],
) -> list[int] | None:
    """The sizes of all operand groups: those given, a final token added to them where they do not speak of it."""
    inferred = _inferred(cls, before, indices, types, results)
    if not isinstance(given, DenseArrayBase):
        return inferred
    sizes = [int(n) for n in given.get_values()]
    if len(sizes) == len(cls.get_irdl_definition().operands) - 1 and cls.get_irdl_definition().operands[-1][0] == TOKEN:
        sizes.append(len(types) - sum(sizes))
    return sizes


def _inferred(
    cls: type[GroupedOp], before: int, indices: int, types: Sequence[Attribute], results: Sequence[Attribute]
) -> list[int] | None:
    by_results = getattr(cls, "infer_segments_from_results", None)
    if by_results is not None:
        found: list[int] | None = by_results(types, results)
        return found
    return cls.infer_segments(before, indices, types[before + indices :])


# -- writing ----------------------------------------------------------------------------------------------------------


def print_op(op: GroupedOp, printer: Printer) -> None:
    """The rest of an op behind its name."""
    cls = type(op)
    operands = list(op.operands)
    indices = list(op.group(INDICES)) if _has_indices(cls) else []
    before = _leading(cls) if _has_indices(cls) else 0
    if operands:
        printer.print_string(" ")
        printer.print_ssa_value(operands[0])
        if indices:
            printer.print_string("[")
            printer.print_list(indices, printer.print_ssa_value)
            printer.print_string("]")
        for value in [*operands[1:before], *operands[max(before, 1) + len(indices) :]]:
            printer.print_string(", ")
            printer.print_ssa_value(value)
    print_attributes(printer, _entries(op, before, len(indices)))
    if op.regions:
        printer.print_string(" (")
        for number, region in enumerate(op.regions):
            if number:
                printer.print_string(", ")
            printer.print_region(region)
        printer.print_string(")")
    print_types(printer, [v.type for v in operands], [r.type for r in op.results])


def print_types(printer: Printer, operands: Sequence[Attribute], results: Sequence[Attribute]) -> None:
    """` : operand types -> result types`."""
    if operands or results:
        printer.print_string(" : " + ", ".join(map(type_text, operands or results)))
    if operands and results:
        printer.print_string(" -> " + ", ".join(map(type_text, results)))


def _entries(op: GroupedOp, before: int, indices: int) -> dict[str, Attribute]:
    entries = {**op.properties, **op.attributes}
    sizes = entries.pop(SEGMENTS, None)
    if isinstance(sizes, DenseArrayBase):
        values = [int(n) for n in sizes.get_values()]
        types = [v.type for v in op.operands]
        if _inferred(type(op), before, indices, types, [r.type for r in op.results]) != values:
            entries[SEGMENTS] = sizes
    return entries


def print_attributes(printer: Printer, entries: Mapping[str, Attribute]) -> None:
    """` {name = value, flag}`, sorted by name; nothing when there are none. i64 is the type of a bare number."""
    if not entries:
        return
    printer.print_string(" {")
    for number, name in enumerate(sorted(entries)):
        if number:
            printer.print_string(", ")
        printer.print_string(name if re.match(_BARE, name) else f'"{name}"')
        value = entries[name]
        if isinstance(value, UnitAttr):
            continue
        printer.print_string(" = ")
        if isinstance(value, IntegerAttr) and value.type == i64:
            printer.print_string(str(value.value.data))
        else:
            printer.print_attribute(value)
    printer.print_string("}")
