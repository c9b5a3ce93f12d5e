# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integer ops against Python's integers, reduced to the width."""

from __future__ import annotations

import math

import numpy as np
import pytest

from interpreter.helpers import INTEGERS, elementwise, evaluate, random_integers
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import ELEMENTS

COUNT = 400


def reading(elem: str, signed: bool):
    """How a stored value reads as a Python integer."""
    width = ELEMENTS[elem].width

    def read(value) -> int:
        bits = int(value) & ((1 << width) - 1)
        return bits - (1 << width) if signed and bits >> (width - 1) else bits

    return read


def wrapped(number: int, elem: str) -> int:
    """A Python integer as the stored value's Python number."""
    width = ELEMENTS[elem].width
    bits = number & ((1 << width) - 1)
    if width == 1:
        return bits
    return bits - (1 << width) if bits >> (width - 1) else bits


def operands(elem: str, count: int = 2):
    values = random_integers(elem, COUNT)
    head = values[:8]
    grid = [m.reshape(-1) for m in np.meshgrid(*[head] * count)]
    rest = [np.random.default_rng(i).permutation(values[8:]) for i in range(count)]
    return [np.concatenate([g, r]) for g, r in zip(grid, rest)]


def check(name, elem, formula, attributes=None, signed=True, keep=None, result=None):
    lhs, rhs = operands(elem)
    read = reading(elem, signed)
    if keep is not None:
        kept = np.array([keep(read(a), read(b)) for a, b in zip(lhs, rhs)])
        lhs, rhs = lhs[kept], rhs[kept]
    got = elementwise(name, elem, [lhs, rhs], attributes, result=result)
    assert got.dtype == ELEMENTS[result or elem].dtype
    for a, b, value in zip(lhs, rhs, got):
        want = wrapped(formula(read(a), read(b)), result or elem)
        assert int(value) == want, f"{name} of {read(a)} and {read(b)}: got {value}, expected {want}"


@pytest.mark.parametrize("elem", INTEGERS)
@pytest.mark.parametrize("name, formula", [
    ("addi", lambda a, b: a + b), ("subi", lambda a, b: a - b), ("muli", lambda a, b: a * b),
    ("andi", lambda a, b: a & b), ("ori", lambda a, b: a | b), ("xori", lambda a, b: a ^ b),
])  # fmt: skip
def test_arithmetic_wraps_around(name, elem, formula):
    check(name, elem, formula)


@pytest.mark.parametrize("elem", INTEGERS)
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("name, formula", [("maxi", max), ("mini", min)])
def test_extrema_read_operands_as_asked(name, elem, signedness, formula):
    check(name, elem, formula, {"signedness": signedness}, signedness == "signed")


@pytest.mark.parametrize("elem", INTEGERS)
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("predicate, formula", [
    ("equal", lambda a, b: a == b), ("not_equal", lambda a, b: a != b), ("less_than", lambda a, b: a < b),
    ("less_than_or_equal", lambda a, b: a <= b), ("greater_than", lambda a, b: a > b),
    ("greater_than_or_equal", lambda a, b: a >= b),
])  # fmt: skip
def test_comparisons_read_operands_as_asked(predicate, elem, signedness, formula):
    attributes = {"comparison_predicate": predicate, "signedness": signedness}
    check("cmpi", elem, formula, attributes, signedness == "signed", result="i1")


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def defined(elem: str):
    width = ELEMENTS[elem].width
    return lambda a, b: b != 0 and not (b == -1 and a == -(1 << (width - 1)))


@pytest.mark.parametrize("elem", INTEGERS)
@pytest.mark.parametrize("signedness, rounding, formula", [
    ("signed", "zero", truncated), ("signed", "negative_inf", lambda a, b: a // b),
    ("signed", "positive_inf", lambda a, b: -(-a // b)), ("unsigned", "zero", lambda a, b: a // b),
    ("unsigned", "positive_inf", lambda a, b: -(-a // b)),
])  # fmt: skip
def test_division_rounds_as_asked(elem, signedness, rounding, formula):
    signed = signedness == "signed"
    keep = defined(elem) if signed else lambda a, b: b != 0
    check("divi", elem, formula, {"signedness": signedness, "rounding": rounding}, signed, keep)


@pytest.mark.parametrize("elem", INTEGERS)
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
def test_remainder_has_the_sign_of_the_dividend(elem, signedness):
    check("remi", elem, lambda a, b: int(math.copysign(1, a)) * (abs(a) % abs(b)), {"signedness": signedness},
          signedness == "signed", lambda a, b: b != 0)  # fmt: skip


@pytest.mark.parametrize("elem", INTEGERS)
def test_mulhii_is_the_high_half_of_the_unsigned_product(elem):
    width = ELEMENTS[elem].width
    check("mulhii", elem, lambda a, b: (a * b) >> width, signed=False)


@pytest.mark.parametrize("elem", INTEGERS)
def test_shifts_beyond_the_width_move_everything_out(elem):
    width = ELEMENTS[elem].width
    lhs, amounts = operands(elem)
    signed, unsigned = reading(elem, True), reading(elem, False)
    for name, attributes, formula in (
        ("shli", {}, lambda a, n: 0 if n >= width else unsigned(a) << n),
        ("shri", {"signedness": "unsigned"}, lambda a, n: 0 if n >= width else unsigned(a) >> n),
        ("shri", {"signedness": "signed"}, lambda a, n: signed(a) >> min(n, width)),
    ):
        for few in (np.arange(len(lhs)) % (width + 3), None):
            shift = amounts if few is None else few.astype(ELEMENTS[elem].dtype)
            got = elementwise(name, elem, [lhs, shift], attributes)
            for a, n, value in zip(lhs, shift, got):
                assert int(value) == wrapped(formula(a, unsigned(n)), elem), (name, attributes, a, n)


@pytest.mark.parametrize("elem", INTEGERS)
def test_negation_and_absolute_value_wrap_at_the_smallest_number(elem):
    values = random_integers(elem, COUNT)
    read = reading(elem, True)
    for name, formula in (("negi", lambda a: -a), ("absi", abs)):
        got = elementwise(name, elem, [values])
        assert [int(v) for v in got] == [wrapped(formula(read(v)), elem) for v in values]


# -- promises -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, overflow, lhs, rhs", [
    ("addi", "no_signed_wrap", 127, 1), ("addi", "no_unsigned_wrap", -1, 1), ("addi", "no_wrap", 127, 1),
    ("subi", "no_signed_wrap", -128, 1), ("subi", "no_unsigned_wrap", 0, 1), ("muli", "no_signed_wrap", 64, 2),
    ("muli", "no_unsigned_wrap", -1, 2), ("shli", "no_signed_wrap", 64, 1), ("shli", "no_unsigned_wrap", -128, 1),
    ("shli", "no_wrap", 1, 8),
])  # fmt: skip
def test_a_broken_overflow_promise_is_a_fault(name, overflow, lhs, rhs):
    lhs, rhs = np.array([1, lhs], np.int8), np.array([1, rhs], np.int8)
    with pytest.raises(Fault) as caught:
        elementwise(name, "i8", [lhs, rhs], {"overflow": overflow})
    assert caught.value.kind is FaultKind.OVERFLOW
    assert caught.value.index == (1,)
    elementwise(name, "i8", [lhs, rhs], {"overflow": overflow}, check="off")
    elementwise(name, "i8", [lhs, rhs], {"overflow": "none"})


@pytest.mark.parametrize("name, overflow, lhs, rhs", [
    ("addi", "no_signed_wrap", -1, 1), ("addi", "no_unsigned_wrap", 127, 1), ("subi", "no_signed_wrap", 0, 1),
    ("muli", "no_signed_wrap", -64, 2), ("shli", "no_unsigned_wrap", 64, 1), ("shli", "no_signed_wrap", -64, 1),
])  # fmt: skip
def test_a_kept_overflow_promise_is_none(name, overflow, lhs, rhs):
    elementwise(name, "i8", [np.array([lhs], np.int8), np.array([rhs], np.int8)], {"overflow": overflow})


@pytest.mark.parametrize("elem", INTEGERS[1:])
def test_overflow_promises_are_checked_exactly_at_every_width(elem):
    smallest, largest = ELEMENTS[elem].smallest, ELEMENTS[elem].largest
    dtype = ELEMENTS[elem].dtype
    kept = [np.array([largest - 1, smallest + 1], dtype), np.array([1, -1], dtype)]
    elementwise("addi", elem, kept, {"overflow": "no_signed_wrap"})
    broken = [np.array([largest], dtype), np.array([1], dtype)]
    with pytest.raises(Fault, match=f"does not fit signed {elem}"):
        elementwise("addi", elem, broken, {"overflow": "no_signed_wrap"})


def test_negi_promises_no_signed_wrap():
    with pytest.raises(Fault):
        elementwise("negi", "i32", [np.array([-(2**31)], np.int32)], {"overflow": "no_signed_wrap"})
    elementwise("negi", "i32", [np.array([5, -5], np.int32)], {"overflow": "no_signed_wrap"})


@pytest.mark.parametrize("name", ["divi", "remi"])
def test_division_by_zero_is_a_fault(name):
    attributes = {"signedness": "signed"}
    values = [np.array([[1, 2], [3, 4]], np.int32), np.array([[1, 1], [0, 1]], np.int32)]
    with pytest.raises(Fault, match="division by zero") as caught:
        elementwise(name, "i32", values, attributes)
    assert caught.value.kind is FaultKind.DIVISION
    assert caught.value.index == (1, 0)
    elementwise(name, "i32", values, attributes, check="off")
    elementwise(name, "i32", [values[0], np.ones((2, 2), np.int32)], attributes)


def test_signed_division_overflow_is_a_fault_and_unsigned_is_none():
    values = [np.array([-(2**31)], np.int32), np.array([-1], np.int32)]
    with pytest.raises(Fault, match="does not fit i32"):
        elementwise("divi", "i32", values, {"signedness": "signed"})
    elementwise("divi", "i32", values, {"signedness": "unsigned"})


def test_iota_counts_up():
    for elem in ("i8", "i16", "i32", "i64"):
        assert evaluate("iota", {}, [((64,), elem)]).tolist() == list(range(64))
