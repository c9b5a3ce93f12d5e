# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`loop-once`: a loop that runs once becomes its body, whatever leaves it on the way."""

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
  entry @kernel(%out: tile<ptr<i32>>, %n: tile<i32>, %m: tile<i32>) {{
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %c2 = constant <i32: 2> : tile<i32>
    %c3 = constant <i32: 3> : tile<i32>
    %c4 = constant <i32: 4> : tile<i32>
    %less = cmpi less_than %n, %m, signed : tile<i32> -> tile<i1>
    %small = cmpi less_than %n, %c2, signed : tile<i32> -> tile<i1>
    %next = offset %out, %c1 : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
{body}
    return
  }}
}}
"""
STORE = "store_ptr_tko weak %out, {} : tile<ptr<i32>>, tile<i32> -> token\n"
TWO = STORE.format("%r") + "store_ptr_tko weak %next, %q : tile<ptr<i32>>, tile<i32> -> token"

IN_PLACE = {
    "one break": """
    %r, %q = loop iter_values(%x = %n, %y = %m) : tile<i32>, tile<i32> -> tile<i32>, tile<i32> {
      %s = subi %x, %y : tile<i32>
      break %s, %x : tile<i32>, tile<i32>
    }
    """
    + TWO,
    "a branch leaves": """
    %r, %q = loop iter_values(%x = %n) : tile<i32> -> tile<i32>, tile<i32> {
      if %less {
        %s = muli %x, %c3 : tile<i32>
        break %s, %c1 : tile<i32>, tile<i32>
      }
      %t = addi %x, %m : tile<i32>
      break %t, %x : tile<i32>, tile<i32>
    }
    """
    + TWO,
    "a branch leaves and the other one gives values": """
    %r, %q = loop iter_values(%x = %n) : tile<i32> -> tile<i32>, tile<i32> {
      %u, %v = if %less -> (tile<i32>, tile<i32>) {
        %s = muli %x, %c3 : tile<i32>
        yield %s, %c4 : tile<i32>, tile<i32>
      } else {
        break %c1, %x : tile<i32>, tile<i32>
      }
      %t = addi %u, %v : tile<i32>
      break %t, %v : tile<i32>, tile<i32>
    }
    """
    + TWO,
    "branches in branches and one after the other": """
    %r, %q = loop iter_values(%x = %n) : tile<i32> -> tile<i32>, tile<i32> {
      %z = if %less -> (tile<i32>) {
        if %small {
          break %c1, %c2 : tile<i32>, tile<i32>
        }
        %u = muli %x, %x : tile<i32>
        break %u, %x : tile<i32>, tile<i32>
      } else {
        %v = muli %x, %m : tile<i32>
        yield %v : tile<i32>
      }
      %odd = andi %z, %c1 : tile<i32>
      %is = cmpi equal %odd, %c1, signed : tile<i32> -> tile<i1>
      if %is {
        break %z, %c3 : tile<i32>, tile<i32>
      }
      %w = addi %z, %m : tile<i32>
      break %w, %z : tile<i32>, tile<i32>
    }
    """
    + TWO,
    "tokens are handed on": """
    %start = make_token : token
    %first = store_ptr_tko weak %next, %c4 token=%start : tile<ptr<i32>>, tile<i32> -> token
    %r, %end = loop iter_values(%t = %first) : token -> tile<i32>, token {
      if %less {
        break %c1, %t : tile<i32>, token
      }
      %stored = store_ptr_tko weak %next, %n token=%t : tile<ptr<i32>>, tile<i32> -> token
      break %n, %stored : tile<i32>, token
    }
    %read, %loaded = load_ptr_tko weak %next token=%end : tile<ptr<i32>> -> tile<i32>, token
    %sum = addi %read, %r : tile<i32>
    """
    + STORE.format("%sum"),
    "the kernel ends behind it": """
    loop {
      if %less {
        break
      }
      %later = if %small -> (tile<i32>) {
        """
    + STORE.format("%c3")
    + """
        break
      } else {
        yield %n : tile<i32>
      }
      """
    + STORE.format("%later")
    + """
      break
    }
    """,
    "a for of one iteration": """
    %r, %q = for %i in (%c3 to %c4, step %c2) : tile<i32> iter_values(%x = %n, %y = %m) -> (tile<i32>, tile<i32>) {
      if %less {
        %s = addi %y, %i : tile<i32>
        continue %s, %x : tile<i32>, tile<i32>
      }
      continue %i, %y : tile<i32>, tile<i32>
    }
    """
    + TWO,
    "a loop in a loop": """
    %r, %q = for %i in (%c0 to %c3, step %c1) : tile<i32> iter_values(%x = %n, %y = %m) -> (tile<i32>, tile<i32>) {
      %u = loop : tile<i32> {
        if %less {
          break %x : tile<i32>
        }
        %s = addi %y, %i : tile<i32>
        break %s : tile<i32>
      }
      continue %u, %x : tile<i32>, tile<i32>
    }
    """
    + TWO,
}
"""Programs of which one loop goes."""

STAYS = {
    "it may go on with another iteration": """
    loop iter_values(%x = %n) : tile<i32> {
      %far = cmpi greater_than %x, %m, signed : tile<i32> -> tile<i1>
      if %far {
        break
      }
      %more = addi %x, %c3 : tile<i32>
      continue %more : tile<i32>
    }
    """,
    "what stands behind a branch that leaves it is reached on several ways": """
    %r = loop : tile<i32> {
      %a = if %less -> (tile<i32>) {
        if %small {
          break %c1 : tile<i32>
        }
        yield %c2 : tile<i32>
      } else {
        yield %c3 : tile<i32>
      }
      %s = addi %a, %n : tile<i32>
      break %s : tile<i32>
    }
    """
    + STORE.format("%r"),
    "its bounds do not show that it runs once": """
    %r = for %i in (%c0 to %c4, step %c3) : tile<i32> iter_values(%x = %n) -> (tile<i32>) {
      %s = addi %x, %i : tile<i32>
      continue %s : tile<i32>
    }
    """
    + STORE.format("%r"),
    "its body ends with the kernel": """
    loop {
      if %less {
        break
      }
      """
    + STORE.format("%c3")
    + """
      return
    }
    """
    + STORE.format("%c4"),
}
NUMBERS = [(0, 0), (1, 2), (2, 1), (3, 5), (5, 3), (-4, 7)]


def outcome(given: libtile.Module, *numbers: int) -> list[int]:
    out = np.full(2, 77, np.int32)
    libtile.run(given, grid=1, args=[out, *numbers], check="full")
    return out.tolist()


def loops(given: libtile.Module) -> int:
    return sum(is_op(op, "for", "loop") for op in ops_of(given.op))


@pytest.mark.parametrize("body", IN_PLACE.values(), ids=list(IN_PLACE))
def test_its_body_does_what_the_loop_did(body: str):
    before, after = (libtile.parse(TEXT.format(body=body)) for _ in range(2))
    PassManager(parse_pipeline("loop-once"), verify_each=True).run(after.op)
    assert loops(before) - loops(after) == 1
    wanted = [outcome(before, *numbers) for numbers in NUMBERS]
    assert [outcome(after, *numbers) for numbers in NUMBERS] == wanted
    assert len({tuple(want) for want in wanted}) > 1, "the numbers do not matter"


def test_a_kernel_that_ends_returns_in_the_branch():
    module = libtile.parse(TEXT.format(body=IN_PLACE["the kernel ends behind it"]))
    PassManager(parse_pipeline("loop-once"), verify_each=True).run(module.op)
    returns = [op for op in ops_of(module.op) if is_op(op, "return")]
    assert [op.parent_op().name for op in returns] == ["cuda_tile.if", "cuda_tile.if", "cuda_tile.entry"]  # type: ignore[union-attr]


@pytest.mark.parametrize(("reason", "body"), STAYS.items(), ids=list(STAYS))
def test_a_loop_stays_and_the_reason_is_said(reason: str, body: str):
    module = libtile.parse(TEXT.format(body=body))
    with remarks.collect() as found:
        PassManager(parse_pipeline("loop-once"), verify_each=True).run(module.op)
    assert loops(module) == 1
    assert [dict(remark.arguments)["Reason"] for remark in found if remark.name == "LoopOnce"] == [reason]
