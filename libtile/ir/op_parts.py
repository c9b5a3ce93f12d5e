# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an op is made of, in the order in which it has it: the short way for what passes give.

IRDL's builder takes values, ops and sequences of them for each declared group, and asks of each what it is, of abstract
classes for the most part; that is half of the time that making an op takes. What passes give is values, types and
lists of them, which is seen here from their classes. Everything else, what is wrong included, is left to IRDL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, BlockArgument, OpResult, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    OpDef,
    OptionalDef,
    ParsePropInAttrDict,
    VariadicDef,
)

from libtile.ir.numbers import numbers_of
from libtile.ir.op_making import Result

SEGMENTS = AttrSizedOperandSegments.attribute_name
"""The property with the number of operands in each declared group."""

_ONE, _AT_MOST_ONE, _ANY = range(3)
_VALUES = frozenset((Result, OpResult, BlockArgument))


class _Declared(NamedTuple):
    """How many operands and results stand in each group, and how many regions there are."""

    operands: tuple[int, ...]
    results: tuple[int, ...]
    regions: int
    has_segments: bool


class Parts(NamedTuple):
    """What `Operation` is made of."""

    operands: list[SSAValue]
    result_types: list[Attribute]
    properties: dict[str, Attribute]


def parts_of(
    cls: type[IRDLOperation],
    operands: Sequence[Any],
    result_types: Sequence[Any],
    properties: Mapping[str, Attribute | None],
    regions: Sequence[Any],
) -> Parts | None:
    """The parts of an op of a class; None where IRDL is to make it, or to say what is wrong."""
    declared = _declared(cls)
    if declared is None or len(regions) != declared.regions:
        return None
    for region in regions:
        if type(region) is not Region:
            return None
    values = _in_a_row(declared.operands, operands, _are_values)
    types = _in_a_row(declared.results, result_types, _are_attributes)
    if values is None or types is None:
        return None
    given = {name: value for name, value in properties.items() if value is not None}
    if declared.has_segments:
        given[SEGMENTS] = segments(tuple(values[1]))
    return Parts(values[0], types[0], given)


@cache
def _declared(cls: type[IRDLOperation]) -> _Declared | None:
    """What a class declares; None where that has more than groups of operands and results."""
    definition: OpDef = cls.get_irdl_definition()
    options = [option for option in definition.options if not isinstance(option, ParsePropInAttrDict)]
    has_segments = options == [AttrSizedOperandSegments(as_property=True)]
    if (options and not has_segments) or definition.successors:
        return None
    if any(isinstance(region, VariadicDef) for _, region in definition.regions):
        return None
    return _Declared(
        tuple(_how_many(operand) for _, operand in definition.operands),
        tuple(_how_many(result) for _, result in definition.results),
        len(definition.regions),
        has_segments,
    )


def _how_many(definition: Any) -> int:
    if isinstance(definition, OptionalDef):
        return _AT_MOST_ONE
    return _ANY if isinstance(definition, VariadicDef) else _ONE


def _in_a_row(
    declared: tuple[int, ...], given: Sequence[Any], fit: Callable[[list[Any]], bool]
) -> tuple[list[Any], list[int]] | None:
    """What is given for each group, one after the other, and how many there are in each."""
    if len(given) != len(declared):
        return None
    row: list[Any] = []
    sizes: list[int] = []
    for many, one in zip(declared, given):
        if one is None:
            if many != _AT_MOST_ONE:
                return None
            sizes.append(0)
        elif isinstance(one, list | tuple):
            if (many == _ONE and len(one) != 1) or (many == _AT_MOST_ONE and len(one) > 1):
                return None
            row += one
            sizes.append(len(one))
        else:
            row.append(one)
            sizes.append(1)
    return (row, sizes) if fit(row) else None


def _are_values(row: list[Any]) -> bool:
    return _VALUES.issuperset(map(type, row))


def _are_attributes(row: list[Any]) -> bool:
    return all(map(_makes_attributes, map(type, row)))


@cache
def _makes_attributes(cls: type) -> bool:
    return issubclass(cls, Attribute)


@cache
def segments(sizes: tuple[int, ...]) -> DenseArrayBase[Any]:
    """The attribute that says how many operands each group has."""
    return DenseArrayBase.from_list(i32, sizes)


def sizes_of(attribute: DenseArrayBase[Any]) -> tuple[int, ...]:
    """The numbers in an attribute that says how many operands each group has."""
    return numbers_of(attribute)


_Named = tuple[tuple[str, Attribute], ...]


@cache
def defaults_of(cls: type[IRDLOperation]) -> tuple[_Named, _Named]:
    """The properties, and the attributes, that an op of a class has where it is given none."""
    definition = cls.get_irdl_definition()
    return _defaults(definition.properties.items()), _defaults(definition.attributes.items())


def _defaults(declared: Iterable[tuple[str, Any]]) -> _Named:
    return tuple(
        (name, declaration.default_value)
        for name, declaration in declared
        if not isinstance(declaration, OptionalDef) and declaration.default_value is not None
    )
