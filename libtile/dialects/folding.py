# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The folding interface: what an op gives for constant operands, on all three dialects.

An op says by its trait `Folds` which of `FUNCTIONS` it computes. Elements are bit patterns (see `dialects.constants`).
Nothing is folded where an op is undefined for its operands, and floats are not computed with: what only moves them,
folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from xdsl.ir import Operation

from libtile.dialects.constants import MAX_ELEMENTS, Elements, as_signed, integer_bits, shortened
from libtile.dialects.interfaces import Folds

Parameters = Mapping[str, Any]
Known = Sequence["Elements | None"]


@cache
def _computed(cls: type[Operation]) -> Folds | None:
    return next((trait for trait in cls.traits if isinstance(trait, Folds)), None)


def computes(op: Operation) -> bool:
    """Whether an op says what it gives for constant operands."""
    return _computed(type(op)) is not None


def fold(op: Operation, operands: Known) -> Elements | None:
    """What the op's only result holds, for operands of which some are known; None where that is not known."""
    trait = _computed(type(op))
    if trait is None or operands.count(None) == len(operands) or len(op.results) != 1:
        return None  # no function of those below gives anything of what is not known at all
    found = FUNCTIONS[trait.function](op, operands, trait.parameters(op))
    return None if found is None or len(found) > MAX_ELEMENTS else shortened(found)


# -- element by element -----------------------------------------------------------------------------------------------

Number = Callable[[int, int, int, Parameters], "int | None"]
"""Two bit patterns, their width, and the op's parameters; gives any number that has the result's bits."""


def _reader(parameters: Parameters, bits: int) -> Callable[[int], int]:
    """How a bit pattern is read: by the sign that the op names, or without one."""
    signed = parameters.get("signedness") == "signed"
    return lambda number: as_signed(number, bits) if signed else number


def _divide(a: int, b: int, bits: int, parameters: Parameters) -> int | None:
    read = _reader(parameters, bits)
    a, b = read(a), read(b)
    if b == 0 or (b == -1 and a == -(1 << (bits - 1))):
        return None
    quotient, remainder = divmod(a, b)
    if parameters["rounding"] == "positive_inf":
        return quotient + (remainder != 0)
    if parameters["rounding"] == "negative_inf":
        return quotient
    return quotient + (remainder != 0 and (a < 0) != (b < 0))


def _remainder(a: int, b: int, bits: int, parameters: Parameters) -> int | None:
    """Of the division rounded to zero: it has the sign of the dividend."""
    read = _reader(parameters, bits)
    a, b = read(a), read(b)
    return None if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)


def _shift_left(a: int, b: int, bits: int, parameters: Parameters) -> int | None:
    return a << b if b < bits else None


def _shift_right(a: int, b: int, bits: int, parameters: Parameters) -> int | None:
    return _reader(parameters, bits)(a) >> b if b < bits else None


def _minimum(a: int, b: int, bits: int, parameters: Parameters) -> int:
    return min(a, b, key=_reader(parameters, bits))


def _maximum(a: int, b: int, bits: int, parameters: Parameters) -> int:
    return max(a, b, key=_reader(parameters, bits))


def _multiply_high(a: int, b: int, bits: int, parameters: Parameters) -> int:
    read = _reader(parameters, bits)
    return read(a) * read(b) >> bits


_PREDICATES: tuple[tuple[str, str], ...] = (
    ("equal", "unsigned"), ("not_equal", "unsigned"),
    ("less_than", "signed"), ("less_than_or_equal", "signed"),
    ("greater_than", "signed"), ("greater_than_or_equal", "signed"),
    ("less_than", "unsigned"), ("less_than_or_equal", "unsigned"),
    ("greater_than", "unsigned"), ("greater_than_or_equal", "unsigned"),
)  # fmt: skip
"""arith.cmpi's predicates, by their numbers (MLIR's arith dialect)."""


def _compare(a: int, b: int, bits: int, parameters: Parameters) -> int:
    if "predicate" in parameters:
        name, signedness = _PREDICATES[parameters["predicate"].value.data]
    else:
        name, signedness = parameters["comparison_predicate"], parameters["signedness"]
    read = _reader({"signedness": signedness}, bits)
    a, b = read(a), read(b)
    match name:
        case "equal":
            return a == b
        case "not_equal":
            return a != b
        case "less_than":
            return a < b
        case "less_than_or_equal":
            return a <= b
        case "greater_than":
            return a > b
        case _:
            return a >= b


_ABSORBING: Mapping[str, Callable[[int], int]] = {
    "and": lambda bits: 0,
    "multiply": lambda bits: 0,
    "or": lambda bits: (1 << bits) - 1,
}
"""What a function gives whenever one operand is that."""


def _elementwise(name: str, number: Number) -> Fold:
    def run(op: Operation, operands: Known, parameters: Parameters) -> Elements | None:
        bits, result_bits = integer_bits(op.operands[0].type), integer_bits(op.results[0].type)
        if bits is None or result_bits is None:
            return None
        lhs, rhs = operands
        absorbing = _ABSORBING.get(name)
        if absorbing is not None and (absorbing(bits),) in (lhs, rhs):
            return (absorbing(bits),)
        if lhs is None or rhs is None:
            return None
        mask = (1 << result_bits) - 1
        found = [number(a, b, bits, parameters) for a, b in zip(*_same_length(lhs, rhs))]
        known = [value & mask for value in found if value is not None]
        return tuple(known) if len(known) == len(found) else None

    return run


def _unary(number: Callable[[int, int, int, Parameters], int]) -> Fold:
    """Of a function of a bit pattern, its width, the width of the result, and the op's parameters."""

    def run(op: Operation, operands: Known, parameters: Parameters) -> Elements | None:
        bits, result_bits = integer_bits(op.operands[0].type), integer_bits(op.results[0].type)
        source = operands[0]
        if bits is None or result_bits is None or source is None:
            return None
        mask = (1 << result_bits) - 1
        return tuple(number(a, bits, result_bits, parameters) & mask for a in source)

    return run


def _same_length(*elements: Elements) -> list[Elements]:
    count = max(map(len, elements))
    return [found * count if len(found) == 1 else found for found in elements]


# -- functions of whole tiles -----------------------------------------------------------------------------------------

Fold = Callable[[Operation, Known, Parameters], "Elements | None"]


def _same(op: Operation, operands: Known, parameters: Parameters) -> Elements | None:
    """The same elements in the same order."""
    return operands[0]


def _stated(op: Operation, operands: Known, parameters: Parameters) -> Elements | None:
    """The same elements, unless they are not what is stated: of the strides along dimensions of one element programs
    state that they divide, which compilers make use of, and which nobody could say of the number in its place."""
    elements, bits = operands[0], integer_bits(op.operands[0].type)
    if elements is None or bits is None:
        return elements
    return None if parameters["predicate"].is_false_of([as_signed(each, bits) for each in elements]) else elements


def _spread(op: Operation, operands: Known, parameters: Parameters) -> Elements | None:
    """The same elements, in another order or more often: known where all of them are equal."""
    source = operands[0]
    return source if source is not None and len(source) == 1 else None


def _same_bits(op: Operation, operands: Known, parameters: Parameters) -> Elements | None:
    """The same elements, seen as integers of another sort of the same width."""
    source, result = (integer_bits(value.type) for value in (op.operands[0], op.results[0]))
    return operands[0] if source is not None and source == result else None


def _together(op: Operation, operands: Known, parameters: Parameters) -> Elements | None:
    """The elements of the first two operands: known where all of them are equal."""
    first, second = operands[:2]
    return first if first is not None and first == second and len(first) == 1 else None


def _select(op: Operation, operands: Known, parameters: Parameters) -> Elements | None:
    condition, if_true, if_false = operands
    if condition is None:
        return if_true if if_true == if_false else None
    if len(condition) == 1:
        return if_true if condition[0] & 1 else if_false
    if if_true is None or if_false is None:
        return None
    chosen = zip(*_same_length(condition, if_true, if_false))
    return tuple(a if choice & 1 else b for choice, a, b in chosen)


FUNCTIONS: Mapping[str, Fold] = {
    **{
        name: _elementwise(name, number)
        for name, number in (
            ("add", lambda a, b, bits, p: a + b),
            ("subtract", lambda a, b, bits, p: a - b),
            ("multiply", lambda a, b, bits, p: a * b),
            ("multiply_high", _multiply_high),
            ("divide", _divide),
            ("remainder", _remainder),
            ("and", lambda a, b, bits, p: a & b),
            ("or", lambda a, b, bits, p: a | b),
            ("xor", lambda a, b, bits, p: a ^ b),
            ("shift_left", _shift_left),
            ("shift_right", _shift_right),
            ("minimum", _minimum),
            ("maximum", _maximum),
            ("compare", _compare),
        )
    },
    "negate": _unary(lambda a, bits, result, p: -a),
    "absolute": _unary(lambda a, bits, result, p: abs(as_signed(a, bits))),
    "extend": _unary(lambda a, bits, result, p: _reader(p, bits)(a)),
    "truncate": _unary(lambda a, bits, result, p: a),
    "same": _same,
    "stated": _stated,
    "spread": _spread,
    "same_bits": _same_bits,
    "together": _together,
    "select": _select,
}
"""What ops compute, by the name that `Folds` has."""
