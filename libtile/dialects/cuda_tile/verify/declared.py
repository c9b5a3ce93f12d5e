# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that follow from an op's declaration in the spec: sizes, attributes, operands, results, traits, regions.

`checks_of(class)` compiles them once per class, in MLIR's order: structural traits, then members, then the traits
that relate types, region sizes, and the remaining traits. Adding an op to the spec needs no code here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from libtile.bytecode.limits import ATTRIBUTE_DEPTH
from libtile.dialects.cuda_tile.forms import CudaTileOp, CudaTileType, PointerType, TileType
from libtile.dialects.cuda_tile.op_forms import SEGMENTS
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES, is_number
from libtile.dialects.cuda_tile.verify.attribute_kinds import NESTING_KINDS, attribute_kind, nests_too_deep
from libtile.dialects.cuda_tile.verify.report import fail, quoted
from libtile.dialects.cuda_tile.verify.traits import NATIVE_TRAITS, STRUCTURAL_TRAITS, TYPE_TRAITS
from libtile.ir.forms import Attribute, DenseArrayBase
from libtile.spec import OpSpec, Spec
from libtile.spec.model import ConstraintSpec, ValueSpec
from libtile.support.records import dataclass

Check = Callable[[CudaTileOp], None]
TypePredicate = Callable[[Attribute], bool]


@dataclass(frozen=True, slots=True)
class DeclaredChecks:
    """What runs before an op's own rule, and in front of its region rule."""

    entrance: tuple[Check, ...]
    exit: tuple[Check, ...]
    uses_symbols: bool


_CACHE: dict[type[CudaTileOp], DeclaredChecks] = {}


def checks_of(op: type[CudaTileOp]) -> DeclaredChecks:
    """The checks of a class of ops."""
    checks = _CACHE.get(op)
    if checks is None:
        checks = _CACHE[op] = _compile(op.spec, op.dialect)
    return checks


def _compile(spec: OpSpec, dialect: Spec) -> DeclaredChecks:
    entrance: list[Check] = [_sizes(spec)]
    if spec.has_segments:
        entrance.append(_segments(spec))
    traits = [(t.name, t.arguments) for t in spec.traits]
    entrance += [STRUCTURAL_TRAITS[n](spec, a) for n, a in traits if n in STRUCTURAL_TRAITS]
    if spec.attributes:
        entrance.append(_attributes(spec, dialect))
    entrance += _values(spec, dialect)
    entrance += [TYPE_TRAITS[n](spec, a) for n, a in traits if n in TYPE_TRAITS]
    if spec.regions:
        entrance.append(_regions(spec))
    entrance += [NATIVE_TRAITS[n].entrance(spec, a) for n, a in traits if n in NATIVE_TRAITS]
    exits = [t.exit(spec, a) for n, a in traits if (t := NATIVE_TRAITS.get(n)) is not None and t.exit is not None]
    return DeclaredChecks(tuple(entrance), tuple(exits), spec.has_trait("symbol_user"))


# -- sizes ----------------------------------------------------------------------------------------------------------


def _count_message(what: str, least: int, exact: bool) -> Callable[[int], str | None]:
    """MLIR's wording for a wrong number of operands, results or regions."""
    if not exact:
        operand_tail = what == "operand"

        def at_least(count: int) -> str | None:
            if count >= least:
                return None
            return f"expected {least} or more {what}s" + (f", but found {count}" if operand_tail else "")

        return at_least
    if least == 0:
        message = f"requires zero {what}s"
    elif least == 1:
        message = "requires a single operand" if what == "operand" else f"requires one {what}"
    else:
        message = f"expected {least} {what}s"

    def exactly(count: int) -> str | None:
        if count == least:
            return None
        return f"{message}, but found {count}" if what == "operand" and least > 1 else message

    return exactly


def _sizes(spec: OpSpec) -> Check:
    regions = _count_message("region", len(spec.regions), True)
    results = _count_message("result", *_least(spec.results))
    operands = _count_message("operand", *_least(spec.operands))

    def check(op: CudaTileOp) -> None:
        message = regions(len(op.regions)) or results(len(op.results))
        if message is None and op._successors:
            message = "requires zero successors"
        message = message or operands(len(op._operands))
        if message is not None:
            fail(op, message)

    return check


def _least(values: tuple[ValueSpec, ...]) -> tuple[int, bool]:
    return sum(v.arity == "one" for v in values), all(v.arity == "one" for v in values)


def _segments(spec: OpSpec) -> Check:
    groups = len(spec.operands)

    def check(op: CudaTileOp) -> None:
        sizes = op.properties.get(SEGMENTS)
        if not isinstance(sizes, DenseArrayBase) or not is_number(sizes.elt_type, "i32"):
            fail(op, f"requires dense i32 array attribute '{SEGMENTS}'")
        values = sizes.get_values()
        if len(values) != groups:
            fail(
                op,
                f"'{SEGMENTS}' attribute for specifying operand segments must have {groups} elements, "
                f"but got {len(values)}",
            )
        if any(v < 0 for v in values):
            fail(op, f"'{SEGMENTS}' attribute cannot have negative elements")
        if sum(values) != len(op._operands):
            fail(
                op,
                f"operand count ({len(op._operands)}) does not match with the total size ({sum(values)}) "
                f"specified in attribute '{SEGMENTS}'",
            )

    return check


# -- attributes -----------------------------------------------------------------------------------------------------


def _attributes(spec: OpSpec, dialect: Spec) -> Check:
    required = tuple(a.name for a in spec.attributes if not a.in_flags and a.default is None)
    kinds = tuple((a.name, *attribute_kind(a.kind, dialect)) for a in spec.attributes)
    nesting = tuple(a.name for a in spec.attributes if a.kind in NESTING_KINDS)

    def check(op: CudaTileOp) -> None:
        properties = op.properties
        for name in required:
            if name not in properties:
                fail(op, f"requires attribute '{name}'")
        for name, holds, summary in kinds:
            attr = properties.get(name)
            if attr is not None and not holds(attr):
                fail(op, f"attribute '{name}' failed to satisfy constraint: {summary}")
        for name in nesting:
            if name in properties and nests_too_deep(properties[name]):
                fail(op, f"attribute '{name}' is nested more than {ATTRIBUTE_DEPTH} deep")

    return check


# -- operands and results -------------------------------------------------------------------------------------------


def type_predicate(constraint: ConstraintSpec) -> TypePredicate:
    """Whether a type satisfies a declared constraint."""
    if constraint.elements:
        pointers = "ptr" in constraint.elements
        numbers = frozenset(n for n in constraint.elements if n != "ptr")
        rank = constraint.rank

        def tile(type_: Attribute) -> bool:
            if not isinstance(type_, TileType):
                return False
            shape, element = type_.data
            if rank is not None and len(shape) != rank:
                return False
            return NUMBER_NAMES.get(element) in numbers or (pointers and isinstance(element, PointerType))

        return tile
    if constraint.types:
        mnemonics = frozenset(constraint.types)
        return lambda type_: isinstance(type_, CudaTileType) and type_.mnemonic in mnemonics
    if constraint.name == "any":
        return lambda type_: True
    return lambda type_: isinstance(type_, CudaTileType) or type_ in NUMBER_NAMES


def _values(spec: OpSpec, dialect: Spec) -> list[Check]:
    checks: list[Check] = []
    if spec.operands:
        checks.append(_operands(spec, dialect.constraints))
    if spec.results:
        checks.append(_results(spec, dialect.constraints))
    return checks


def _rows(
    values: tuple[ValueSpec, ...], constraints: Mapping[str, ConstraintSpec]
) -> tuple[tuple[TypePredicate, str, bool, bool], ...]:
    rows = []
    for value in values:
        constraint = constraints[value.constraint]
        summary = ("variadic of " if value.is_variadic else "") + constraint.summary
        rows.append((type_predicate(constraint), summary, value.is_optional, value.arity == "one"))
    return tuple(rows)


def _operands(spec: OpSpec, constraints: Mapping[str, ConstraintSpec]) -> Check:
    rows = _rows(spec.operands, constraints)
    if all(one for *_, one in rows):
        return _fixed(rows, "operand")
    fixed = sum(one for *_, one in rows)

    def sizes(op: CudaTileOp) -> tuple[int, ...]:
        """Sizes of the groups: as the op says, or one flexible group that takes what the fixed ones leave."""
        if spec.has_segments:
            return op.segment_sizes()
        return tuple(1 if one else len(op._operands) - fixed for *_, one in rows)

    def check(op: CudaTileOp) -> None:
        operands = op._operands
        index = 0
        for size, (holds, summary, optional, one) in zip(sizes(op), rows):
            if (optional and size > 1) or (one and size != 1):
                wanted = "1" if one else "0 or 1"
                fail(op, f"operand group starting at #{index} requires {wanted} element, but found {size}")
            for operand in operands[index : index + size]:
                if not holds(operand.type):
                    fail(op, f"operand #{index} must be {summary}, but got {quoted(operand.type)}")
                index += 1

    return check


def _results(spec: OpSpec, constraints: Mapping[str, ConstraintSpec]) -> Check:
    rows = _rows(spec.results, constraints)
    if all(one for *_, one in rows):
        return _fixed(rows, "result")
    # At most one result group is variadic, and it is the last: no op of the dialect declares otherwise.
    last = rows[-1]

    def check(op: CudaTileOp) -> None:
        for index, result in enumerate(op.results):
            holds, summary, _, _ = rows[index] if index < len(rows) - 1 else last
            if not holds(result.type):
                fail(op, f"result #{index} must be {summary}, but got {quoted(result.type)}")

    return check


def _fixed(rows: tuple[tuple[TypePredicate, str, bool, bool], ...], what: str) -> Check:
    def check(op: CudaTileOp) -> None:
        values = op._operands if what == "operand" else op.results
        for index, (value, (holds, summary, _, _)) in enumerate(zip(values, rows)):
            if not holds(value.type):
                fail(op, f"{what} #{index} must be {summary}, but got {quoted(value.type)}")

    return check


# -- regions --------------------------------------------------------------------------------------------------------


def _regions(spec: OpSpec) -> Check:
    names = spec.regions
    trait = spec.trait("may_be_empty")
    optional = frozenset(trait.arguments if trait else ())

    def check(op: CudaTileOp) -> None:
        for index, (name, region) in enumerate(zip(names, op.regions)):
            several = region.first_block is not region.last_block
            if several or (region.first_block is None and name not in optional):
                bound = "at most 1" if name in optional else "1"
                fail(op, f"region #{index} ('{name}') failed to verify constraint: region with {bound} blocks")

    return check
