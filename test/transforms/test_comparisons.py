# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparisons that `simplify-integers` decides by differences, by what all numbers are, or by other comparisons."""

from __future__ import annotations

import pytest

from transforms.test_integers_and_tokens import PRINT, PRINT1, run

LOOP = """%zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  for {unsigned}%i in (%x to %y, step %one) : tile<i32> {{
    %j = addi %i, %one {overflow}: tile<i32>
    {body}
  }}"""


def in_loop(comparison: str, overflow: str = "overflow<no_signed_wrap> ", unsigned: str = "") -> str:
    body = f"%r = cmpi {comparison} : tile<i32> -> tile<i1>{PRINT1}"
    return run(LOOP.format(body=body, overflow=overflow, unsigned=unsigned), "simplify-integers")[0]


@pytest.mark.parametrize(
    ("comparison", "answer"),
    [
        ("less_than %i, %y, signed", "true"),
        ("greater_than %y, %i, signed", "true"),
        ("greater_than_or_equal %i, %y, signed", "false"),
        ("greater_than_or_equal %i, %x, signed", "true"),
        ("less_than %i, %x, signed", "false"),
        ("less_than %i, %j, signed", "true"),
        ("less_than_or_equal %j, %y, signed", "true"),
    ],
)
def test_bounds_of_loops_and_differences_decide_comparisons(comparison, answer):
    text = in_loop(comparison)
    assert "cmpi" not in text and f"<i1: {answer}>" in text


@pytest.mark.parametrize(
    ("comparison", "overflow", "unsigned"),
    [
        ("less_than %j, %y, signed", "overflow<no_signed_wrap> ", ""),
        ("less_than %i, %j, signed", "", ""),  # the largest number and one more is the smallest
        ("less_than %i, %y, unsigned", "", ""),  # a bound that is negative is large
        ("less_than %i, %y, signed", "", "unsigned "),
        ("greater_than %i, %x, signed", "", ""),
        ("less_than %x, %y, signed", "", ""),
    ],
)
def test_comparisons_stay_that_differences_do_not_decide(comparison, overflow, unsigned):
    assert "cmpi" in in_loop(comparison, overflow, unsigned)


@pytest.mark.parametrize(
    ("comparison", "answer"),
    [
        ("less_than %x, %zero, unsigned", "false"),
        ("greater_than_or_equal %x, %zero, unsigned", "true"),
        ("less_than_or_equal %x, %most, signed", "true"),
        ("less_than_or_equal %x, %most, unsigned", None),
        ("less_than %x, %zero, signed", None),
        ("greater_than %x, %zero, unsigned", None),
    ],
)
def test_what_holds_of_all_numbers_of_a_type_is_decided(comparison, answer):
    body = f"""%zero = constant <i32: 0> : tile<i32>
      %most = constant <i32: 2147483647> : tile<i32>
      %r = cmpi {comparison} : tile<i32> -> tile<i1>{PRINT1}"""
    text, _ = run(body, "simplify-integers")
    assert ("cmpi" in text) == (answer is None) and (answer is None or f"<i1: {answer}>" in text)


def test_masks_are_decided_at_all_positions():
    body = """%count = iota : tile<8xi32>
      %limit = constant <i32: 8> : tile<8xi32>
      %r = cmpi less_than %count, {}, signed : tile<8xi32> -> tile<8xi1>
      %t = print_tko "%d", %r : tile<8xi1> -> token"""
    assert "cmpi" not in run(body.format("%limit"), "simplify-integers")[0]
    assert "cmpi" in run(body.format("%limit").replace("i32: 8>", "i32: 7>"), "simplify-integers")[0]


CHAIN = """%zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %less = cmpi less_than %x, %y, signed : tile<i32> -> tile<i1>
  %a = select %less, %x, %y : tile<i1>, tile<i32>
  %other = cmpi {comparison} : tile<i32> -> tile<i1>
  %r = select %other, %a, %one : tile<i1>, tile<i32>"""


@pytest.mark.parametrize(
    ("comparison", "printed"),
    [
        ("greater_than %y, %x, signed", "%arg0, %cst_1_i32"),
        ("greater_than_or_equal %x, %y, signed", "%cst_1_i32, %arg1"),
        ("less_than_or_equal %y, %x, signed", "%cst_1_i32, %arg1"),
    ],
)
def test_chains_of_selects_ask_once(comparison, printed):
    text, counted = run(CHAIN.format(comparison=comparison) + PRINT, "simplify-integers,canonicalize")
    assert text.count("cmpi") == 1 and text.count("select ") == 1 and f"select %0, {printed} :" in text, text
    assert counted["conditions that are there already"] == 1


@pytest.mark.parametrize("comparison", ["less_than %x, %y, unsigned", "less_than %y, %x, signed"])
def test_chains_of_selects_ask_of_different_conditions(comparison):
    text, counted = run(CHAIN.format(comparison=comparison) + PRINT, "simplify-integers,canonicalize")
    assert text.count("cmpi") == 2 and "conditions that are there already" not in counted


def test_a_condition_of_a_branch_is_none_of_another():
    body = (
        """if %c {
        %a = cmpi less_than %x, %y, signed : tile<i32> -> tile<i1>
        %s = print_tko "%d", %a : tile<i1> -> token
      }
      %r = cmpi greater_than %y, %x, signed : tile<i32> -> tile<i1>"""
        + PRINT1
    )
    assert run(body, "simplify-integers")[0].count("cmpi") == 2


@pytest.mark.parametrize(("predicate", "first"), [("not_equal", "%arg0"), ("equal", "%arg1")])
def test_a_condition_that_was_made_a_number_is_the_condition(predicate, first):
    body = f"""%zero = constant <i32: 0> : tile<i32>
      %n = exti %c unsigned : tile<i1> -> tile<i32>
      %d = cmpi {predicate} %n, %zero, signed : tile<i32> -> tile<i1>
      %r = select %d, %x, %y : tile<i1>, tile<i32>"""
    text, _ = run(body + PRINT, "simplify-integers,canonicalize")
    assert "cmpi" not in text and "exti" not in text and f"select %arg2, {first}," in text


def test_opposite_masks_keep_what_they_compare():
    """Passes read the bounds of an access off its mask."""
    body = (
        """%a = cmpi less_than %x, %y, signed : tile<i32> -> tile<i1>
      %r = cmpi greater_than_or_equal %x, %y, signed : tile<i32> -> tile<i1>
      %u = print_tko "%d", %a : tile<i1> -> token"""
        + PRINT1
    )
    assert run(body, "simplify-integers")[0].count("cmpi") == 2


@pytest.mark.parametrize(
    ("op", "first"), [("addi %x, %n", True), ("subi %x, %n", True), ("shli %x, %n", True), ("subi %n, %x", False)]
)
def test_sums_and_shifts_by_nothing_are_gone(op, first):
    body = f"%n = constant <i32: 0> : tile<i32>\n%r = {op} : tile<i32>"
    text, _ = run(body + PRINT, "simplify-integers")
    assert ('print_tko "%d", %arg0 :' in text) == first


@pytest.mark.parametrize(("sign", "value"), [("unsigned", 1), ("signed", -1)])
def test_a_condition_that_is_known_is_a_known_number(sign, value):
    body = f"%true = constant <i1: true> : tile<i1>\n%r = exti %true {sign} : tile<i1> -> tile<i32>"
    assert f"<i32: {value}>" in run(body + PRINT, "simplify-integers")[0]


def test_a_quotient_is_bounded_by_the_largest_dividend():
    body = """%three = constant <i32: 3> : tile<i32>
      %a = assume bounded<0, 7>, %x : tile<i32>
      %r = shri %a, %three signed : tile<i32>"""
    assert "shri" not in run(body + PRINT, "simplify-integers")[0]
