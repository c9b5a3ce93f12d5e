# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the ops of the inner dialects (nv_tileaa, nv_tileas) have in common: one textual form, structural checks that
speak MLIR's words, and a constructor that takes Python values.

The form, for every op that has none of its own:

    %r, %t = nv_tileaa.load %base[%i, %j], %mask, %token {in_bounds = ...} ({ regions }) : operand types -> result types

Indices stand in brackets behind the first operand. The types are those of the operands in the order of the op's
declaration (in which the indices come behind the operands that always stand before them), may be put in parentheses,
and are left out when there are none; an op without operands has only its result types behind the colon. A tile may be
written `tile<4x8xf32>`: a tensor type. `operandSegmentSizes` is written only where the types do not tell which of the
optional operands are there; the entry of a final token may be left out of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import VariadicDef

from libtile.ir.grouped_op import GroupedOp
from libtile.ir.locations import set_location
from libtile.ir.numbers import integer, integers
from libtile.ir.tile_types import (
    Storage,
    element_of,
    is_tile,
    is_token,
    layout_of,
    parse_type,
    rank_of,
    shape_of,
    stored_element,
    stored_shape,
    tile,
    type_text,
)

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

Given = SSAValue | Operation | Sequence[SSAValue | Operation] | None
"""What is given for a group of operands: one value (or the op with that result), several, or none."""

OP_CLASSES: dict[str, type[TileOp]] = {}
"""All ops of the inner dialects, by full name."""


class TileOp(GroupedOp):
    """Base of the ops of nv_tileaa and nv_tileas.

    Subclasses declare operands, results, properties and regions with IRDL's `*_def` functions, and what else must hold
    in `check`.
    """

    @classmethod
    def defined(cls) -> None:
        # For what IRDL has made of xDSL's constraints: the structure is checked by the spec, in its words.
        cls.verify_ = _verify  # type: ignore[method-assign, assignment]

    @classmethod
    def make(
        cls,
        *operands: Given,
        results: Sequence[Attribute | Sequence[Attribute] | None] = (),
        regions: Sequence[Region] = (),
        location: Attribute | None = None,
        **attributes: Any,
    ) -> Self:
        """An op from its operand groups in order of declaration, its result types and its attributes.

        Attributes may be Python values (a bool for a flag, an int, a str, a sequence of bools or ints); None and False
        stand for an absent one. Operand groups left out at the end are absent. The op is not verified.
        """
        declared = _declared(cls)
        properties: dict[str, Attribute] = {}
        discardable: dict[str, Attribute] = {}
        for name, value in attributes.items():
            is_property = name in declared.properties
            attr = attribute_of(value, declared.properties[name] if is_property else None)
            if attr is not None:
                (properties if is_property else discardable)[name] = attr
        op = cls.__new__(cls)
        GroupedOp.__init__(
            op,
            operands=_groups(declared.operands, operands),
            result_types=_groups(declared.results, results),
            properties=properties,
            attributes=discardable,
            regions=declared.region_groups(regions),
        )
        if location is not None:
            set_location(op, location)
        return op

    def check(self) -> None:
        """What the op's own rules ask for; VerifyException when one is broken. Structure and kinds are right here."""

    def verify_structure(self) -> None:
        """Numbers of operands and results, kinds of attributes, numbers of regions; VerifyException."""
        from libtile.ir.tile_form_checks import check_structure

        check_structure(self)

    # -- text -----------------------------------------------------------------------------------------------------

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        from libtile.ir.tile_form_text import parse_op

        return parse_op(cls, parser)

    def print(self, printer: Printer) -> None:
        from libtile.ir.tile_form_text import print_op

        print_op(self, printer)


C = TypeVar("C", bound=type[TileOp])


def tile_op(cls: C) -> C:
    """Register an op of the inner dialects."""
    OP_CLASSES[cls.name] = cls
    return cls


def operand_group(op: Operation, name: str) -> tuple[SSAValue, ...]:
    """The operands of a declared group of an op of the inner dialects."""
    assert isinstance(op, TileOp)
    return op.group(name)


def integer_of(attr: IntegerAttr | None, default: int = 0) -> int:
    """The value of an integer attribute, or what an absent one stands for."""
    return default if attr is None else attr.value.data


def integer_property(op: Operation, name: str) -> int:
    """The value of an integer property that the op's verifier asks for."""
    value = op.properties[name]
    assert isinstance(value, IntegerAttr)
    return value.value.data


def _verify(self: TileOp) -> None:
    self.verify_structure()
    for trait in self.get_irdl_definition().traits:
        trait.verify(self)
    self.check()


def build(
    name: str,
    operands: Sequence[Given] = (),
    result_types: Sequence[Attribute | Sequence[Attribute] | None] = (),
    attributes: Mapping[str, Any] | None = None,
    regions: Sequence[Region] = (),
    location: Attribute | None = None,
) -> TileOp:
    """An op by its full name (`nv_tileaa.addf`): see `TileOp.make`. KeyError for an unknown op."""
    cls = OP_CLASSES[name]
    return cls.make(*operands, results=result_types, regions=regions, location=location, **dict(attributes or {}))


def erase(op: Operation) -> None:
    """Take an op, whose results nobody uses any more, out of its block."""
    op.detach()
    op.erase()


class _Declared(NamedTuple):
    """What `make` asks of a class: for each group of operands and results whether it may have none, or several; the
    classes of its properties; and how many regions stand before those of a last group of any number, if it has one."""

    operands: tuple[bool, ...]
    results: tuple[bool, ...]
    properties: Mapping[str, type[Attribute] | None]
    fixed_regions: int | None

    def region_groups(self, regions: Sequence[Region]) -> list[Any]:
        if self.fixed_regions is None:
            return list(regions)
        return [*regions[: self.fixed_regions], list(regions[self.fixed_regions :])]


@cache
def _declared(cls: type[TileOp]) -> _Declared:
    definition = cls.get_irdl_definition()
    variadic = bool(definition.regions) and isinstance(definition.regions[-1][1], VariadicDef)
    return _Declared(
        tuple(isinstance(operand, VariadicDef) for _, operand in definition.operands),
        tuple(isinstance(result, VariadicDef) for _, result in definition.results),
        {name: cls.property_class(name) for name in definition.properties},
        len(definition.regions) - 1 if variadic else None,
    )


def _groups(declared: tuple[bool, ...], given: Sequence[Any]) -> list[Any]:
    """What is given for each group; those at the end may be left out. ValueError for more than there are groups."""
    if len(given) > len(declared):
        raise ValueError(f"{len(given)} groups are given, of {len(declared)}")
    found = [_several(one) if variadic else one for variadic, one in zip(declared, given)]
    found += [() if variadic else None for variadic in declared[len(given) :]]
    return found


def _several(given: Any) -> Sequence[Any]:
    if given is None:
        return ()
    # Lists first: whether something is no Operation takes long to find out, since that class is abstract.
    if isinstance(given, list | tuple):
        return given
    return [given] if isinstance(given, SSAValue | Operation | Attribute) else list(given)


def attribute_of(value: Any, cls: type[Attribute] | None = None) -> Attribute | None:
    """The attribute that stands for a Python value, of class `cls` if given; None for None and False.

    TypeError when there is none.
    """
    if value is None or value is False:
        return None
    if value is True:
        return integer(1, i1) if cls is IntegerAttr else UnitAttr()
    if isinstance(value, int):
        return integer(value, i64)
    if isinstance(value, str):
        if cls is SymbolRefAttr:
            return SymbolRefAttr(value)
        # Our attribute classes that stand for a word are made of it.
        return StringAttr(value) if cls is None or cls is StringAttr else cls(value)  # type: ignore[call-arg]
    if isinstance(value, Attribute):
        return value
    if isinstance(value, Mapping):
        return DictionaryAttr({k: a for k, v in value.items() if (a := attribute_of(v)) is not None})
    items = list(value)
    if items and all(isinstance(v, Attribute) for v in items):
        return ArrayAttr(items)
    if items and all(isinstance(v, bool) for v in items):
        return DenseArrayBase.from_list(i1, [int(v) for v in items])
    if all(isinstance(v, int) for v in items):
        return ArrayAttr([]) if cls is ArrayAttr else integers(items, i64)
    raise TypeError(f"no attribute stands for {value!r}")


__all__ = [
    "OP_CLASSES", "Storage", "TileOp", "attribute_of", "build", "element_of", "erase", "is_tile", "is_token",
    "layout_of", "parse_type", "rank_of", "shape_of", "stored_element", "stored_shape", "tile", "tile_op", "type_text",
]  # fmt: skip
