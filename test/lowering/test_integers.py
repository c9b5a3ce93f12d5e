# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generated integer code, run in the simulator, agrees with the interpreter bit for bit."""

import numpy as np
import pytest

from libtile.codegen import compare, integers
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import FLOAT, I32
from libtile.interpreter.formats import ELEMENTS
from libtile.targets import target
from lowering.elementwise import TARGETS, Case, assert_same, evaluate, expected, patterns, values

SIZE = 1024
TYPES = ("i1", "i8", "i16", "i32", "i64")
SIGNS = ("signed", "unsigned")
PREDICATES = ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal")


def inputs(name):
    return patterns(name, SIZE, 2), patterns(name, SIZE, 3)


def cases(name):
    """(case, op, attributes) for every integer op of a type."""
    x, y = inputs(name)
    two, one = [(name, x), (name, y)], [(name, x)]

    def case(op, function, operands=two, result=name, **attributes):
        label = f"{op} {name} {attributes}"
        return Case(label, lambda b, *v: function(b, *v), operands, result), op, attributes

    rows = [
        case("addi", integers.add, overflow="none"),
        case("subi", integers.sub, overflow="none"),
        case("muli", integers.mul, overflow="none"),
        case("mulhii", integers.mulhi),
        case("negi", integers.neg, one, overflow="none"),
        case("absi", integers.abs_, one),
        case("andi", integers.and_),
        case("ori", integers.or_),
        case("xori", integers.xor),
        case("shli", integers.shl, overflow="none"),
    ]
    for sign in SIGNS:
        for op, function in (
            ("remi", integers.rem),
            ("maxi", integers.max_),
            ("mini", integers.min_),
            ("shri", integers.shr),
        ):
            rows.append(case(op, lambda b, u, v, f=function, s=sign: f(b, u, v, s), signedness=sign))
        for rounding in ("zero", "negative_inf", "positive_inf"):
            rows.append(
                case("divi", lambda b, u, v, s=sign, r=rounding: integers.div(b, u, v, s, r), signedness=sign,
                     rounding=rounding)
            )  # fmt: skip
        for p in PREDICATES:
            rows.append(
                case("cmpi", lambda b, u, v, s=sign, p=p: compare.compare_integers(b, u, v, p, s), result="i1",
                     comparison_predicate=p, signedness=sign)
            )  # fmt: skip
    return rows


def defined(name, op, attributes):
    """Where a division has a meaning."""
    x, y = (values(name, bits) for bits in inputs(name))
    if op not in ("divi", "remi"):
        return None
    result = y != 0
    if op == "divi" and attributes["signedness"] == "signed":
        elem = ELEMENTS[name]
        result &= ~((x == elem.smallest) & (y == -1))
    return result


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("gpu", TARGETS)
def test_every_operation_agrees_with_the_interpreter(gpu, name):
    rows = cases(name)
    for (case, op, attributes), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
        want = expected(op, case.inputs, case.result, **attributes)
        assert_same(case, got, want, defined(name, op, attributes))


@pytest.mark.parametrize("name", ["i8", "i32", "i64"])
def test_division_by_zero_and_its_overflow_leave_other_results_alone(name):
    x, y = inputs(name)
    zero = np.zeros_like(x)

    def guarded(b, u, v):
        quotient = integers.div(b, u, v, "signed")
        kept = b.compare("ne", v, integer(v.type, 0))
        return b.select(kept, quotient, integer(u.type, 42))

    got = evaluate("sm_90", [Case("by zero", guarded, [(name, x), (name, zero)], name),
                             Case("sum", integers.add, [(name, x), (name, y)], name)])  # fmt: skip
    assert (got[0] == 42).all()
    assert (got[1] == (x + y)).all()


@pytest.mark.parametrize("amount", [0, 1, 31, 32, 33, -1])
def test_shifts_by_constants_agree_with_the_interpreter(amount):
    x, _ = inputs("i32")
    amounts = np.full_like(x, np.uint32(amount & 0xFFFFFFFF))
    constant = integer(I32, amount)
    two = [("i32", x), ("i32", amounts)]
    rows = [
        (Case("shl", lambda b, u, _: integers.shl(b, u, constant), two, "i32"), "shli", {"overflow": "none"}),
        (Case("lshr", lambda b, u, _: integers.shr(b, u, constant, "unsigned"), two, "i32"), "shri",
         {"signedness": "unsigned"}),
        (Case("ashr", lambda b, u, _: integers.shr(b, u, constant, "signed"), two, "i32"), "shri",
         {"signedness": "signed"}),
    ]  # fmt: skip
    for (case, op, attributes), got in zip(rows, evaluate("sm_80", [row[0] for row in rows])):
        assert_same(case, got, expected(op, case.inputs, "i32", **attributes))


def test_overflow_promises_become_wrap_flags():
    b = KernelBuilder("k", target("sm_80"), 32)
    x, y = Value(I32, "%x"), Value(I32, "%y")
    integers.add(b, x, y, "no_signed_wrap")
    integers.mul(b, x, y, "no_unsigned_wrap")
    integers.shl(b, x, y, "no_wrap")
    text = b.function_text()
    for line in ("add nsw i32 %x", "mul nuw i32 %x", "shl nuw nsw i32 %x"):
        assert line in text


@pytest.mark.parametrize(
    "call",
    [
        lambda b, x: integers.add(b, x, x, "sometimes"),
        lambda b, x: integers.div(b, x, x, "signed", "nearest_even"),
        lambda b, x: integers.rem(b, x, x, "either"),
        lambda b, x: integers.mulhi(b, Value(FLOAT, "%f"), x),
        lambda b, x: compare.compare_integers(b, x, x, "similar", "signed"),
        lambda b, x: compare.compare_floats(b, x, x, "equal", "sorted"),
    ],
)
def test_unknown_attributes_are_refused(call):
    with pytest.raises(ValueError):
        call(KernelBuilder("k", target("sm_80"), 32), Value(I32, "%x"))
