# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The token graph: what tokens come from, and what they imply, also around loops and through branches."""

from __future__ import annotations

import pytest

import libtile
from libtile.analysis.tokens import TokenGraph, before, is_fresh

TEXT = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>, %c: tile<i1>, %n: tile<i32>) {
    %fresh = make_token : token
    %fresh2 = join_tokens %fresh, %fresh : token
    %x, %load = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    %store = store_ptr_tko weak %p, %x token=%load : tile<ptr<i32>>, tile<i32> -> token
    %both = join_tokens %load, %fresh2 : token
    %chosen = if %c -> (token) {
      %s = store_ptr_tko weak %p, %n token=%store : tile<ptr<i32>>, tile<i32> -> token
      yield %s : token
    } else {
      yield %store : token
    }
    %mixed = if %c -> (token) {
      yield %store : token
    } else {
      yield %fresh : token
    }
    %last = for %i in (%n to %n, step %n) : tile<i32> iter_values(%t = %store) -> (token) {
      %y, %u = load_ptr_tko weak %p token=%t : tile<ptr<i32>> -> tile<i32>, token
      continue %u : token
    }
    %other = for %i in (%n to %n, step %n) : tile<i32> iter_values(%v = %fresh) -> (token) {
      %w = store_ptr_tko weak %p, %i token=%store : tile<ptr<i32>>, tile<i32> -> token
      continue %w : token
    }
    %left = loop iter_values(%a = %load) : token -> token {
      %z = store_ptr_tko weak %p, %n token=%a : tile<ptr<i32>>, tile<i32> -> token
      if %c {
        break %z : token
      }
      continue %z : token
    }
    %end = join_tokens %both, %chosen, %mixed, %last, %other, %left : token
    return
  }
}
"""


@pytest.fixture(scope="module")
def graph():
    module = libtile.parse(TEXT)
    libtile.verify(module)
    values = {v.name_hint: v for op in module.op.walk() for v in op.results}
    values |= {v.name_hint: v for op in module.op.walk() for r in op.regions for b in r.blocks for v in b.args}
    return TokenGraph(module.op), values


@pytest.mark.parametrize(
    ("token", "held"),
    [
        ("store", "load"),
        ("both", "load"),
        ("both", "fresh"),
        ("load", "fresh2"),
        ("chosen", "store"),
        ("chosen", "load"),
        ("last", "store"),
        ("t", "load"),
        ("u", "t"),
        ("left", "load"),
        ("z", "a"),
        ("a", "load"),
        ("end", "store"),
        ("mixed", "fresh"),
    ],
)
def test_a_token_holds_what_came_before(graph, token, held):
    tokens, values = graph
    assert tokens.holds(values[token], values[held])


@pytest.mark.parametrize(
    ("token", "held"),
    [
        ("load", "store"),
        ("both", "store"),
        ("mixed", "store"),
        ("chosen", "s"),
        ("other", "store"),
        ("v", "store"),
        ("t", "u"),
        ("a", "z"),
        ("fresh", "load"),
    ],
)
def test_a_token_holds_nothing_that_some_run_leaves_out(graph, token, held):
    """Of a branch not taken, of a loop without an iteration, of the iteration itself for what it starts with."""
    tokens, values = graph
    assert not tokens.holds(values[token], values[held])


def test_fresh_tokens_and_what_an_op_takes(graph):
    _, values = graph
    assert is_fresh(values["fresh"]) and is_fresh(values["fresh2"])
    assert not is_fresh(values["both"]) and not is_fresh(values["t"])
    assert before(values["store"]) == [values["load"]]
    assert before(values["load"]) == []
