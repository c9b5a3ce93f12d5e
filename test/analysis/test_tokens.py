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


_LOADS = "!p, !t -> tile<4xi32>, !t"
_STORES = "!p, tile<4xi32>, !t -> !t"
INNER = f"""\
!p = tensor<4x!nv_tileaa.ptr<i32, 1>>
!t = !nv_tileaa.mem_token
nv_tileaa.func @k(%p: !p, %c: i1, %n: index, %v4: tensor<4xi32>) {{
  %fresh = nv_tileaa.create_mem_token : !t
  %fresh2 = nv_tileaa.join_mem_token %fresh, %fresh : !t, !t -> !t
  %x, %load = nv_tileaa.load %p, %fresh : {_LOADS}
  %store = nv_tileaa.store %p, %x, %load : {_STORES}
  %both = nv_tileaa.join_mem_token %load, %fresh2 : !t, !t -> !t
  %chosen = scf.if %c -> (!t) {{
    %s = nv_tileaa.store %p, %v4, %store : {_STORES}
    scf.yield %s : !t
  }} else {{
    scf.yield %store : !t
  }}
  %mixed = scf.if %c -> (!t) {{
    scf.yield %store : !t
  }} else {{
    scf.yield %fresh : !t
  }}
  %last = scf.for %i = %n to %n step %n iter_args(%t = %store) -> (!t) {{
    %y, %u = nv_tileaa.load %p, %t : {_LOADS}
    scf.yield %u : !t
  }}
  %other = scf.for %i = %n to %n step %n iter_args(%v = %fresh) -> (!t) {{
    %w = nv_tileaa.store %p, %v4, %store : {_STORES}
    scf.yield %w : !t
  }}
  %left = scf.while (%a = %load) : (!t) -> !t {{
    scf.condition(%c) %a : !t
  }} do {{
  ^bb0(%b: !t):
    %z = nv_tileaa.store %p, %v4, %b : {_STORES}
    scf.yield %z : !t
  }}
  %end = nv_tileaa.join_mem_token %both, %chosen, %mixed, %last, %other, %left : !t, !t, !t, !t, !t, !t -> !t
  nv_tileaa.return
}}
"""


@pytest.fixture(scope="module", params=[TEXT, INNER], ids=["cuda_tile", "nv_tileaa"])
def graph(request):
    module = libtile.parse(request.param)
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
    assert all(map(is_fresh, before(values["load"])))
