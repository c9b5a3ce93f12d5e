# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`loop-unsplit`: one loop of two that go on with each other's values does what the two did."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import libtile
from libtile.ir.places import ops_of
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import remarks
from libtile.transforms.canonical_values import is_op

PLAIN = """
      %x = itof %i signed : tile<i32> -> tile<f32>
      %r = reshape %x : tile<f32> -> tile<1x1xf32>
      %b = broadcast %r : tile<1x1xf32> -> tile<8x8xf32>
      %s = mmaf %one, %one, %b : tile<8x8xf32>, tile<8x8xf32>, tile<8x8xf32>
{extra}
      %t = mulf {scores}, %two : tile<8x8xf32>
      %sum = fma %acc, %two, %t : tile<8x8xf32>
      %n = addi %count, %weight : tile<i32>
      continue %sum, %n : tile<8x8xf32>, tile<i32>
"""
EXTRA = """
      %k = muli %i, %c3 : tile<i32>
      %kf = itof %k signed : tile<i32> -> tile<f32>
      %kr = reshape %kf : tile<f32> -> tile<1x1xf32>
      %kb = broadcast %kr : tile<1x1xf32> -> tile<8x8xf32>
      %masked = subf %s, %kb : tile<8x8xf32>
"""
RETURN = """
    %none = cmpi greater_than %lb, %ub, signed : tile<i32> -> tile<i1>
    if %none {
      return
    }
"""
NESTED = RETURN.replace("return", "if %none {\n        return\n      }")
PRODUCT = "      %q = mmaf %one, %one, %s : tile<8x8xf32>, tile<8x8xf32>, tile<8x8xf32>"
TEXT = """
cuda_tile.module @m {{
  entry @kernel(%out: tile<ptr<f32>>, %counts: tile<ptr<i32>>, %lb: tile<i32>, %ub: tile<i32>, %p: tile<i32>) {{
    %c1 = constant <i32: {step}> : tile<i32>
    %c3 = constant <i32: 3> : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %weight = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.5> : tile<8x8xf32>
    %one = constant <f32: 1.0> : tile<8x8xf32>
    %two = constant <f32: 2.0> : tile<8x8xf32>
{before}
    %end = mini %ub, %p {end} : tile<i32>
    %begin = {begin} : tile<i32>
    %a:2 = for %i in (%lb to %end, step %c1) : tile<i32> iter_values(%acc = %start, %count = %zero)
        -> (tile<8x8xf32>, tile<i32>) {{
{first}
    }}
{between}
    %z:2 = for %i in (%begin to %ub, step %c1) : tile<i32> iter_values(%acc = %a#0, %count = {count})
        -> (tile<8x8xf32>, tile<i32>) {{
{second}
    }}
    %offsets = iota : tile<64xi32>
    %flat = reshape %out : tile<ptr<f32>> -> tile<1xptr<f32>>
    %wide = broadcast %flat : tile<1xptr<f32>> -> tile<64xptr<f32>>
    %at = offset %wide, %offsets : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
    %given = reshape %z#0 : tile<8x8xf32> -> tile<64xf32>
    store_ptr_tko weak %at, %given : tile<64xptr<f32>>, tile<64xf32> -> token
    store_ptr_tko weak %counts, %z#1 : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}
"""


def module(masks_second: bool = True, **changed: str) -> libtile.Module:
    bodies = [PLAIN.format(extra="", scores="%s"), PLAIN.format(extra=EXTRA, scores="%masked")]
    first, second = bodies if masks_second else reversed(bodies)
    parts = {"step": "1", "end": "signed", "begin": "maxi %p, %lb signed", "count": "%a#1", "between": "", "before": ""}
    parts |= {"first": first, "second": second}
    return libtile.parse(TEXT.format(**{**parts, **changed}))


def joined(given: libtile.Module, pipeline: str = "loop-unsplit") -> libtile.Module:
    PassManager(parse_pipeline(pipeline), verify_each=True).run(given.op)
    return given


def loops(given: libtile.Module) -> int:
    return sum(is_op(op, "for") for op in ops_of(given.op))


def outcome(given: libtile.Module, lower: int, upper: int, point: int) -> tuple[bytes, int]:
    out, count = np.zeros(64, np.float32), np.zeros(1, np.int32)
    libtile.run(given, grid=1, args=[out, count, lower, upper, point], check="full")
    return out.tobytes(), int(count[0])


@pytest.mark.parametrize("masks_second", [True, False])
def test_one_loop_does_what_the_two_did(masks_second: bool):
    before, after = module(masks_second), joined(module(masks_second))
    assert (loops(before), loops(after)) == (2, 1)
    for lower, upper, point in itertools.product((-2, 0, 3), (-1, 0, 4), (-(2**31), -3, 0, 2, 4, 9, 2**31 - 1)):
        expected = outcome(before, lower, upper, point)
        assert outcome(after, lower, upper, point) == expected, (lower, upper, point)
        assert expected[1] == max(upper - lower, 0)


def test_what_loop_split_parts_is_joined_again():
    split = joined(joined(module()), "loop-split,canonicalize,cse,licm")
    assert loops(split) == 2
    again = joined(split)
    assert loops(again) == 1 and outcome(again, 0, 5, 3) == outcome(module(), 0, 5, 3)


def test_ranges_show_where_the_loops_meet():
    """`simplify-integers` leaves p of max(p, lb) where p is not less than lb."""
    text = libtile.print_module(module())
    lines = text.replace("entry @kernel(", "entry @kernel(%known: tile<i32>, ").splitlines()
    at = next(n for n, line in enumerate(lines) if "mini" in line)
    lines[at:at] = ["%ge = assume bounded<5, 9>, %arg4 : tile<i32>", "%low = assume bounded<0, 5>, %arg2 : tile<i32>"]
    text = "\n".join(lines).replace("(%arg2 to", "(%low to").replace("mini %arg3, %arg4", "mini %arg3, %ge")
    text = text.replace("maxi %arg4, %arg2", "maxi %ge, %low").replace("%known: tile<i32>, ", "")
    given = joined(libtile.parse(text), "simplify-integers")
    assert "maxi" not in libtile.print_module(given)
    assert loops(joined(given)) == 1


APART = {"step": "3", "begin": "subi %p, %lb"}
"""Ranges that do not meet, in steps of 3."""
ELSEWHERE = """
      %j = subi %i, %c3 : tile<i32>
      %y = itof %j signed : tile<i32> -> tile<f32>
"""


def halves(where: str, masks_second: bool = True, **changed: str) -> dict[str, str]:
    """The bodies, of which the second one computes its product's numbers of others."""
    plain, masked = PLAIN.format(extra="", scores="%s"), PLAIN.format(extra=EXTRA, scores="%masked")
    other = (masked if masks_second else plain).replace("%x = itof %i signed", where + "      %x = itof %j signed")
    return {"first": plain if masks_second else masked, "second": other, **changed}


@pytest.mark.parametrize(
    "changed",
    [
        APART,
        {**APART, "first": PLAIN.format(extra=EXTRA, scores="%masked"), "second": PLAIN.format(extra="", scores="%s")},
        {**APART, "count": "%c3"},
        {**APART, "count": "%ub"},
        {"count": "%c3", "step": "4", "begin": "addi %p, %c3"},
        {"step": "5", "begin": "subi %zero, %p", "end": "unsigned"},
        halves(ELSEWHERE, **APART),
        halves(ELSEWHERE, masks_second=False, **APART),
        halves(ELSEWHERE),
        {"first": PLAIN.format(extra="", scores="%one")},
        {"second": PLAIN.format(extra=EXTRA, scores="%kb")},
    ],
)  # fmt: skip
def test_ranges_and_bodies_of_their_own(changed: dict[str, str]):
    before, after = module(**changed), joined(module(**changed))
    assert (loops(before), loops(after)) == (2, 1)
    for lower, upper, point in itertools.product((-2, 3), (0, 8), (-3, 9)):
        expected = outcome(before, lower, upper, point)
        assert outcome(after, lower, upper, point) == expected, (lower, upper, point)


def test_ranges_show_that_iterations_can_be_counted():
    text = libtile.print_module(module(begin="subi %p, %lb"))
    assert loops(joined(libtile.parse(text))) == 2
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if "mini" in line)
    lines.insert(at, "%low = assume bounded<0, ?>, %arg2 : tile<i32>")
    at = next(n for n, line in enumerate(lines) if "subi" in line)
    name = lines[at].split("=")[0].strip()
    lines.insert(at + 1, f"%begin = assume bounded<0, ?>, {name} : tile<i32>")
    text = "\n".join(lines).replace("(%arg2 to", "(%low to").replace(f"({name} to", "(%begin to")
    after = joined(libtile.parse(text))
    assert loops(after) == 1 and "for unsigned" in libtile.print_module(after)
    for lower, upper, point in itertools.product((0, 3), (-1, 0, 8), (3, 4, 9)):
        assert outcome(after, lower, upper, point) == outcome(libtile.parse(text), lower, upper, point)


def test_numbers_are_selected_and_masks_stand_in_the_branch():
    text = libtile.print_module(joined(module(**halves(ELSEWHERE, **APART))))
    assert text.count("= if ") == 1 and text.count("mmaf") == 1
    branch = text[text.index("= if ") :]
    assert "select" in text[: text.index("mmaf")] and "subf" in branch[: branch.index("else")]


def test_facts_of_one_loop_are_not_stated_in_the_other():
    where = ELSEWHERE.replace("%j = subi", "%k0 = subi") + "      %j = assume bounded<0, 3>, %k0 : tile<i32>\n"
    after = libtile.print_module(joined(module(**halves(where, **APART))))
    assert "assume" not in after[after.index("= for ") :]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"begin": "subi %p, %lb"}, "they may have more iterations together than a number counts"),
        ({"end": "unsigned"}, "they may have more iterations together than a number counts"),
        ({**APART, "step": "-3"}, "a step is not known"),
        ({"before": NESTED}, "the program may end before them"),
        ({"between": "    print_tko \"here\" -> token"}, "something with effects stands between them"),
        ({"between": "    store_ptr_tko weak %counts, %a#1 : tile<ptr<i32>>, tile<i32> -> token"}, "other uses"),
        (
            {"second": PLAIN.format(extra=EXTRA + '      print_tko "x" -> token', scores="%masked")},
            "their bodies load, store or multiply differently",
        ),
        (
            {"second": PLAIN.format(extra=PRODUCT, scores="%q")},
            "their bodies load, store or multiply differently",
        ),
        (
            {**APART, "count": "%c3", "second": PLAIN.format(extra="", scores="%s").replace("addi %co", "muli %co")},
            "they carry different things",
        ),
    ],
)  # fmt: skip
def test_what_is_left_as_it_is(changed: dict[str, str], reason: str):
    given = module(**changed)
    before = libtile.print_module(given)
    with remarks.collect() as reported:
        assert libtile.print_module(joined(given)) == before
    (said,) = reported
    assert said.name == "LoopUnsplit" and reason in str(dict(said.arguments)["Reason"])


def test_a_program_that_returns_at_once_has_one_loop():
    before, after = module(before=RETURN), joined(module(before=RETURN))
    assert loops(after) == 1
    for numbers in [(0, 5, 3), (5, 0, 3)]:
        assert outcome(after, *numbers) == outcome(before, *numbers)


def test_other_targets_keep_both():
    assert loops(joined(module(), "loop-unsplit{gpu-name=sm_80}")) == 2


def test_loops_without_products_stay():
    text = PLAIN.replace(
        "mmaf %one, %one, %b : tile<8x8xf32>, tile<8x8xf32>, tile<8x8xf32>", "addf %one, %b : tile<8x8xf32>"
    )
    given = module(first=text.format(extra="", scores="%s"), second=text.format(extra=EXTRA, scores="%masked"))
    assert loops(joined(given)) == 2


C_PLUS_PLUS = """
cuda_tile.module @m {
  entry @kernel(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %turn: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %last = constant <i32: 4> : tile<i32>
    %two = constant <f32: 2.0> : tile<8x8xf32>
    %none = constant <f32: 0.0> : tile<8x8xf32>
    %t = make_token : token
    %less = cmpi less_than %turn, %last, signed : tile<i32> -> tile<i1>
    %end = select %less, %turn, %last : tile<i1>, tile<i32>
    %more = cmpi greater_than %turn, %zero, signed : tile<i32> -> tile<i1>
    %begin = select %more, %turn, %zero : tile<i1>, tile<i32>
    %a:3 = for %i in (%zero to %end, step %one) : tile<i32> iter_values(%acc = %none, %x = %t, %y = %t)
        -> (tile<8x8xf32>, token, token) {
      BODY
      continue %sum, %j, %j : tile<8x8xf32>, token, token
    }
    %k = join_tokens %a#1, %a#2 : token
    %z:3 = for %i in (%begin to %last, step %one) : tile<i32> iter_values(%acc = %a#0, %x = %k, %y = %k)
        -> (tile<8x8xf32>, token, token) {
      BODY
      %twice = mulf %sum, %two : tile<8x8xf32>
      continue %twice, %j, %j : tile<8x8xf32>, token, token
    }
    %v = make_tensor_view %q, shape = [8, 8], strides = [8, 1] : tensor_view<8x8xf32, strides=[8,1]>
    %w = make_partition_view %v : partition_view<tile=(8x8), tensor_view<8x8xf32, strides=[8,1]>>
    %after = join_tokens %z#1, %z#2 : token
    store_view_tko weak %z#0, %w[%zero, %zero]
        : tile<8x8xf32>, partition_view<tile=(8x8), tensor_view<8x8xf32, strides=[8,1]>>, tile<i32> -> token
    return
  }
}
""".replace(
    "BODY",
    """%g = join_tokens %y, %x : token
      %v = make_tensor_view %p, shape = [32, 8], strides = [8, 1] : tensor_view<32x8xf32, strides=[8,1]>
      %w = make_partition_view %v : partition_view<tile=(8x8), tensor_view<32x8xf32, strides=[8,1]>>
      %l, %d = load_view_tko weak %w[%i, %zero]
          : partition_view<tile=(8x8), tensor_view<32x8xf32, strides=[8,1]>>, tile<i32> -> tile<8x8xf32>, token
      %j = join_tokens %g, %d : token
      %sum = mmaf %l, %two, %acc : tile<8x8xf32>, tile<8x8xf32>, tile<8x8xf32>""",
)


def test_loops_as_cpp_writes_them_are_one():
    """Bounds by conditional expressions, views made in the loops, and every token carried twice."""
    before = libtile.parse(C_PLUS_PLUS)
    steps = "cse,simplify-integers,eliminate-redundant-tokens,licm,loop-unsplit"
    after = joined(libtile.parse(C_PLUS_PLUS), steps)
    assert (loops(before), loops(after)) == (2, 1)
    for turn in (-3, 0, 2, 4, 9):
        given, (one, other) = np.arange(256, dtype=np.float32) % 7, np.zeros((2, 64), np.float32)
        libtile.run(before, grid=1, args=[given, one, turn])
        libtile.run(after, grid=1, args=[given, other, turn])
        assert one.tobytes() == other.tobytes() and one.any()
