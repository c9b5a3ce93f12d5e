# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`loop-unguard`: a loop that an `if` kept from running runs no iteration instead."""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from libtile.ir.places import ops_of
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import remarks
from libtile.transforms.canonical_values import is_op

TEXT = """
cuda_tile.module @m {{
  entry @kernel(%out: tile<ptr<f32>>, %counts: tile<ptr<i32>>, %lb: tile<i32>, %ub: tile<i32>, %some: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %weight = constant <i32: 3> : tile<i32>
    %one = constant <f32: 0.5> : tile<8x8xf32>
    %start = constant <f32: 2.0> : tile<8x8xf32>
    %c = cmpi not_equal %some, %zero, signed : tile<i32> -> tile<i1>
    %r:2 = if %c -> (tile<8x8xf32>, tile<i32>) {{
      %end = addi %ub, %c1 : tile<i32>
{before}
      %a:2 = for %i in (%lb to %end, step {step}) : tile<i32> iter_values(%acc = %start, %count = %weight)
          -> (tile<8x8xf32>, tile<i32>) {{
        %s = {product}
        %n = addi %count, %i : tile<i32>
        continue %s, %n : tile<8x8xf32>, tile<i32>
      }}
      yield {given} : tile<8x8xf32>, tile<i32>
    }} else {{
      yield {instead} : tile<8x8xf32>, tile<i32>
    }}
    %offsets = iota : tile<64xi32>
    %flat = reshape %out : tile<ptr<f32>> -> tile<1xptr<f32>>
    %wide = broadcast %flat : tile<1xptr<f32>> -> tile<64xptr<f32>>
    %at = offset %wide, %offsets : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
    %tile = reshape %r#0 : tile<8x8xf32> -> tile<64xf32>
    store_ptr_tko weak %at, %tile : tile<64xptr<f32>>, tile<64xf32> -> token
    store_ptr_tko weak %counts, %r#1 : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}
"""
PRODUCT = "mmaf %one, %one, %acc : tile<8x8xf32>, tile<8x8xf32>, tile<8x8xf32>"


def module(**changed: str) -> libtile.Module:
    parts = {"before": "", "step": "%c1", "product": PRODUCT, "given": "%a#0, %a#1", "instead": "%start, %weight"}
    return libtile.parse(TEXT.format(**{**parts, **changed}))


def unguarded(given: libtile.Module, pipeline: str = "loop-unguard") -> libtile.Module:
    PassManager(parse_pipeline(pipeline), verify_each=True).run(given.op)
    return given


def conditions(given: libtile.Module) -> int:
    return sum(is_op(op, "if") for op in ops_of(given.op))


def outcome(given: libtile.Module, lower: int, upper: int, some: int) -> tuple[bytes, int]:
    out, count = np.zeros(64, np.float32), np.zeros(1, np.int32)
    libtile.run(given, grid=1, args=[out, count, lower, upper, some], check="full")
    return out.tobytes(), int(count[0])


@pytest.mark.parametrize("some", [0, 1])
@pytest.mark.parametrize(("lower", "upper"), [(0, 3), (-2, 1), (3, 0), (2**31 - 1, -5)])
def test_the_loop_does_what_it_did_under_its_condition(lower: int, upper: int, some: int):
    before, after = module(), unguarded(module())
    assert (conditions(before), conditions(after)) == (1, 0)
    expected = outcome(before, lower, upper, some)
    assert outcome(after, lower, upper, some) == expected
    assert some or expected[1] == 3


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"before": '      print_tko "here" -> token'}, "an op of a branch has effects"),
        ({"before": "      %q = divi %ub, %some signed : tile<i32>"}, "may be undefined where the branch is not taken"),
        ({"instead": "%one, %weight"}, "it gives something else where its condition does not hold"),
        ({"given": "%start, %a#1"}, "it gives something else where its condition does not hold"),
        ({"step": "%some"}, "its step may be no positive number"),
    ],
)
def test_what_is_left_as_it_is(changed: dict[str, str], reason: str):
    given = module(**changed)
    before = libtile.print_module(given)
    with remarks.collect() as reported:
        assert libtile.print_module(unguarded(given)) == before
    (said,) = reported
    assert said.name == "LoopUnguard" and reason in str(dict(said.arguments)["Reason"])


def test_a_step_that_is_known_to_be_positive_need_be_no_constant():
    step = """      %at_least = maxi %some, %c1 signed : tile<i32>"""
    before, after = (module(before=step, step="%at_least") for _ in range(2))
    assert conditions(unguarded(after)) == 0
    for some in (0, 2):
        assert outcome(after, 0, 4, some) == outcome(before, 0, 4, some)


def test_other_targets_and_other_loops_keep_their_conditions():
    assert conditions(unguarded(module(), "loop-unguard{gpu-name=sm_80}")) == 1
    assert conditions(unguarded(module(product="addf %one, %acc : tile<8x8xf32>"))) == 1
