# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a `loop` counts, and what is known where an op stands: against numbers of 8 bits that are counted one by one."""

from __future__ import annotations

import itertools
import operator
import random

import pytest
from xdsl.ir import Operation

import libtile
from libtile.analysis import Facts
from libtile.analysis.affine import Forms
from libtile.analysis.counters import Conditions
from libtile.analysis.polynomials import ONE

ASKED = {
    "less_than": operator.lt,
    "less_than_or_equal": operator.le,
    "greater_than": operator.gt,
    "greater_than_or_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}
WAYS = {
    "leaves": "if %asked {{\nbreak %i : tile<i8>\n}}\n{rest}\n{next}",
    "stays": "if %asked {{\n}} else {{\nbreak %i : tile<i8>\n}}\n{rest}\n{next}",
    "inside": "if %asked {{\n{rest}\n{next}\n}}\nbreak %i : tile<i8>",
    "nowhere": "if %asked {{\n}}\n{rest}\n{next}",
}
"""Where the condition leads: out of the loop; on; on, to an end of the iteration in the branch; nowhere."""
LOOP = """cuda_tile.module @m {{ entry @kernel(%n0: tile<i8>, %c: tile<i1>) {{
  %n = assume bounded<{low}, {high}>, %n0 : tile<i8>
  %first = constant <i8: {first}> : tile<i8>
  %step = constant <i8: {step}> : tile<i8>
  %end = loop iter_values(%i = %first) : tile<i8> -> tile<i8> {{
    %asked = cmpi {predicate} {operands}, {sign} : tile<i8> -> tile<i1>
    {body}
  }}
  return }} }}"""
PRINT = '%u = print_tko "%d", %i : tile<i8> -> token'


def counted(text: str) -> tuple[Operation, Facts, Forms]:
    module = libtile.parse(text)
    libtile.verify(module)
    facts = Facts(next(op for op in module.op.walk() if op.name == "cuda_tile.entry"))
    return next(op for op in module.op.walk() if op.name == "cuda_tile.loop"), facts, Forms(facts)


def runs(first: int, step: int, asked: bool, predicate: str, sign: str, swapped: bool, bound: int) -> list[int]:
    """What the number is in each iteration, as far as the condition lets it; at most 600 of them."""
    found, number = [], first
    for _ in range(600):
        found.append(number)
        a, b = (bound, number) if swapped else (number, bound)
        if sign == "unsigned":
            a, b = a % 256, b % 256
        if ASKED[predicate](a, b) != asked:
            break
        number = (number + step + 128) % 256 - 128
    return found


@pytest.mark.parametrize("seed", range(4))
def test_what_a_loop_counts_is_what_it_counts_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    known = 0
    for _ in range(60):
        low = rng.choice([-128, 0, 0, 3, 100])
        high = rng.choice([high for high in (0, 5, 20, 120, 127) if high >= low])
        first, step = rng.choice([-128, -3, 0, 1, 60, 127]), rng.choice([1, 1, 2, 7, -1, -1, -5])
        way, predicate = rng.choice(list(WAYS)[: 3 if rng.random() < 0.9 else 4]), rng.choice(list(ASKED))
        sign, swapped = rng.choice(["signed", "signed", "unsigned"]), rng.random() < 0.3
        move = rng.choice(["addi %i, %step", "addi %step, %i"])
        next_ = f"%next = {move} : tile<i8>\ncontinue %next : tile<i8>"
        text = LOOP.format(
            low=low, high=high, first=first, step=step, predicate=predicate, sign=sign,
            operands="%n, %i" if swapped else "%i, %n", body=WAYS[way].format(rest=PRINT, next=next_),
        )  # fmt: skip
        loop, facts, forms = counted(text)
        argument = loop.regions[0].block.args[0]
        print_ = next(op for op in loop.walk() if op.name == "cuda_tile.print_tko")
        fact, is_counted = facts.of(argument), forms.step_of(loop) is not None
        known += is_counted
        positive = forms.positive_at(print_)
        for bound in sorted({low, high, rng.randint(low, high)}):
            seen = runs(first, step, way != "leaves", predicate, sign, swapped, bound)
            if way == "nowhere":
                seen = [(first + step * k + 128) % 256 - 128 for k in range(600)]
            if is_counted:
                assert seen == [first + step * k for k in range(len(seen))], text
            assert fact.lower is None or fact.lower <= min(seen), text
            assert fact.upper is None or fact.upper >= max(seen), text
            behind = seen if way == "nowhere" else seen[:-1]
            numbers = dict.fromkeys((loop.parent.ops.first.results[0],), bound)
            for number, polynomial in itertools.product(behind if len(seen) < 600 else [], positive):
                at = {unknown: numbers.get(forms.unknowns[unknown], number) for unknown in polynomial.unknowns}
                assert sum(f * _product(at[u] for u in monomial) for monomial, f in polynomial.terms) > 0, text
    assert known > 5


def _product(numbers) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


UP = LOOP.format(
    low=0, high=100, first=0, step=1, predicate="less_than", sign="signed", operands="%i, %n",
    body=WAYS["stays"].format(rest=PRINT, next="%next = addi %i, %step : tile<i8>\ncontinue %next : tile<i8>"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "is_counted"),
    [
        ("", "", True),
        ("addi %i, %step", "subi %i, %step", False),  # it goes down, and is only bounded above
        ("addi %i, %step", "addi %i, %n", False),  # by what is not known
        ("addi %i, %step :", "addi %i, %step overflow<no_signed_wrap> :", True),
        ("%asked = cmpi", "%less = andi %c, %c : tile<i1>\n%asked = cmpi", True),
        ("if %asked", "%both = andi %c, %asked : tile<i1>\nif %both", True),
        ("if %asked", "%one = ori %c, %asked : tile<i1>\nif %one", False),
        ("%i, %n, signed", "%i, %first, signed", True),
        (PRINT, PRINT + "\nif %c {\ncontinue %i : tile<i8>\n}", False),  # not always
        (PRINT, PRINT + "\nif %c {\n%other = addi %i, %step : tile<i8>\ncontinue %other : tile<i8>\n}", True),
        ("%i, %n, signed", "%n, %n, signed", False),  # a condition of something else
    ],
)
def test_a_loop_counts_what_each_iteration_adds_the_same_to(old: str, new: str, is_counted: bool) -> None:
    assert old in UP
    loop, _, forms = counted(UP.replace(old, new) if old else UP)
    assert (forms.step_of(loop) is not None) == is_counted


def test_a_flag_says_that_a_number_does_not_wrap_around() -> None:
    text = UP.replace("less_than %i", "equal %i")
    assert counted(text)[2].step_of(counted(text)[0]) is None
    loop, _, forms = counted(text.replace("%step :", "%step overflow<no_signed_wrap> :"))
    assert forms.step_of(loop) == ONE


def test_the_last_number_is_known_behind_the_condition_only() -> None:
    loop, facts, forms = counted(UP)
    argument = loop.regions[0].block.args[0]
    assert (facts.of(argument).lower, facts.of(argument).upper) == (0, 100)
    print_ = next(op for op in loop.walk() if op.name == "cuda_tile.print_tko")
    (left,) = forms.positive_at(print_)
    assert forms.is_positive(left, print_) and not forms.is_positive(left)
    assert forms.at_most(loop, 4, print_) is not None and forms.at_most(loop, 4) is None
    assert forms.at_most(loop, 1, print_) == left + forms.of(argument).start - ONE


def test_conditions_are_those_on_the_way() -> None:
    text = """cuda_tile.module @m { entry @kernel(%a: tile<i1>, %b: tile<i1>, %c: tile<i1>, %d: tile<i1>) {
      %true = constant <i1: true> : tile<i1>
      %no = xori %d, %true : tile<i1>
      if %a { return }
      if %b { print_tko "%i", %b : tile<i1> -> token } else { }
      if %no {
        if %c { } else { return }
        print_tko "here", %c : tile<i1> -> token
      }
      return } }""".replace('"here", %c : tile<i1>', '"here"')
    module = libtile.parse(text)
    entry = next(op for op in module.op.walk() if op.name == "cuda_tile.entry")
    a, b, c, d = entry.regions[0].block.args
    here = [op for op in module.op.walk() if op.name == "cuda_tile.print_tko"]
    assert dict(Conditions().at(here[1])) == {a: False, c: True, d: False}
    assert dict(Conditions().at(here[0])) == {a: False, b: True}
