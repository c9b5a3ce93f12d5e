# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Control flow: loops, branches, early exits, and how deep they may be nested."""

from __future__ import annotations

import numpy as np
import pytest

from interpreter.programs import fault_of, run_body, scalar_store
from libtile.interpreter import FaultKind
from libtile.support.errors import LibtileError


def result_of(parameters: str, body: str, args: list, **options) -> int:
    """Run a body that stores its i32 result to %out, the first parameter."""
    out = np.zeros(1, np.int32)
    names = "%out: tile<ptr<i32>>" + (", " + parameters if parameters else "")
    run_body(names, body, [out, *args], **options)
    return int(out[0])


SUM = """
%zero = constant <i32: 0> : tile<i32>
%r = for KIND %i in (%a to %b, step %s) : tile<i32> iter_values(%x = %zero) -> (tile<i32>) {
  %y = addi %x, %i : tile<i32>
  continue %y : tile<i32>
}
""" + scalar_store("r", "out", "i32")


@pytest.mark.parametrize("check", ["off", "basic", "full"])
@pytest.mark.parametrize("a, b, s", [(0, 10, 1), (-5, 5, 3), (3, 3, 1), (5, 2, 1), (-7, -1, 2), (0, 2**31 - 1, 2**30)])
def test_for_runs_over_a_signed_half_open_range(a, b, s, check):
    got = result_of("%a: tile<i32>, %b: tile<i32>, %s: tile<i32>", SUM.replace("KIND ", ""), [a, b, s], check=check)
    assert got == np.int64(sum(range(a, b, s))).astype(np.int32)


def test_an_unsigned_for_compares_its_bounds_as_unsigned():
    text = SUM.replace("for KIND", "for unsigned")
    a, b, s = 2**31 - 2, 2**31 + 2, 1
    got = result_of("%a: tile<i32>, %b: tile<i32>, %s: tile<i32>", text, [a, b, s])
    assert got == np.int64(sum(range(a, b, s))).astype(np.int32)


def test_a_step_that_is_not_positive_is_a_fault():
    text = SUM.replace("KIND ", "")
    for step in (0, -1):
        fault = fault_of(FaultKind.LOOP, "%out: tile<ptr<i32>>, %a: tile<i32>, %b: tile<i32>, %s: tile<i32>", text,
                         [np.zeros(1, np.int32), 0, 4, step])  # fmt: skip
        assert "step must be positive" in fault.message


COLLATZ = """
%one = constant <i32: 1> : tile<i32>
%two = constant <i32: 2> : tile<i32>
%three = constant <i32: 3> : tile<i32>
%zero = constant <i32: 0> : tile<i32>
%n, %steps = loop iter_values(%x = %start, %k = %zero) : tile<i32>, tile<i32> -> tile<i32>, tile<i32> {
  %done = cmpi less_than_or_equal %x, %one, signed : tile<i32> -> tile<i1>
  if %done {
    break %x, %k : tile<i32>, tile<i32>
  }
  %next = addi %k, %one : tile<i32>
  %bit = andi %x, %one : tile<i32>
  %odd = cmpi equal %bit, %one, signed : tile<i32> -> tile<i1>
  if %odd {
    %t = muli %x, %three : tile<i32>
    %u = addi %t, %one : tile<i32>
    continue %u, %next : tile<i32>, tile<i32>
  }
  %h = divi %x, %two signed : tile<i32>
  continue %h, %next : tile<i32>, tile<i32>
}
""" + scalar_store("steps", "out", "i32")


@pytest.mark.parametrize("check", ["basic", "full"])
@pytest.mark.parametrize("start", [1, 6, 27])
def test_loop_breaks_and_continues_from_within_branches(start, check):
    steps, n = 0, start
    while n > 1:
        n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
    assert result_of("%start: tile<i32>", COLLATZ, [start], check=check) == steps


def test_a_loop_may_carry_other_types_than_it_yields():
    body = """
    %c = constant <i32: 7> : tile<i32>
    %f = constant <f32: 1.5> : tile<f32>
    %r = loop iter_values(%x = %f) : tile<f32> -> tile<i32> {
      break %c : tile<i32>
    }
    """ + scalar_store("r", "out", "i32")
    assert result_of("", body, []) == 7


IF = """
%a = constant <i32: 10> : tile<i32>
%b = constant <i32: 20> : tile<i32>
%r, %s = if %c -> (tile<i32>, tile<i32>) {
  yield %a, %b : tile<i32>, tile<i32>
} else {
  %d = addi %a, %b : tile<i32>
  yield %d, %a : tile<i32>, tile<i32>
}
%q = subi %r, %s : tile<i32>
""" + scalar_store("q", "out", "i32")


@pytest.mark.parametrize("check", ["basic", "full"])
@pytest.mark.parametrize("condition, want", [(1, -10), (0, 20)])
def test_if_yields_the_values_of_the_branch_taken(condition, want, check):
    assert result_of("%c: tile<i1>", IF, [condition], check=check) == want


def test_return_ends_the_tile_block():
    body = """
    %seven = constant <i32: 7> : tile<i32>
    if %c {
      return
    }
    """ + scalar_store("seven", "out", "i32")
    assert result_of("%c: tile<i1>", body, [1]) == 0
    assert result_of("%c: tile<i1>", body, [0]) == 7


def nested_loops(depth: int) -> str:
    """`depth` loops of two turns each, one in the other; the innermost counts."""
    lines = ["%zero = constant <i32: 0> : tile<i32>", "%one = constant <i32: 1> : tile<i32>",
             "%two = constant <i32: 2> : tile<i32>"]  # fmt: skip
    carried = "%zero"
    for level in range(depth):
        bound = "%two" if level >= depth - 4 else "%one"
        lines.append(f"%r{level} = for %i{level} in (%zero to {bound}, step %one) : tile<i32> "
                     f"iter_values(%x{level} = {carried}) -> (tile<i32>) {{")  # fmt: skip
        carried = f"%x{level}"
    lines.append(f"%n = addi {carried}, %one : tile<i32>")
    inner = "%n"
    for level in reversed(range(depth)):
        lines += [f"continue {inner} : tile<i32>", "}"]
        inner = f"%r{level}"
    return "\n".join(lines) + "\n" + scalar_store("r0", "out", "i32")


@pytest.mark.parametrize("depth", [5, 14, 15, 16, 31, 50])
def test_loops_may_be_nested_deeply(depth):
    assert result_of("", nested_loops(depth), []) == 16
    assert result_of("", nested_loops(depth), [], check="full") == 16


def test_control_flow_nested_too_deeply_is_refused():
    with pytest.raises(LibtileError, match="is nested in more than 96 regions"):
        result_of("", nested_loops(120), [])
