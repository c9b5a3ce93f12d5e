# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Addresses that a loop carries and moves on by the same in each iteration are affine in its counter."""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import remarks

POINTERS = "tile<8xptr<f32>>"
NEXT = f"%next = offset %at, %by : {POINTERS}, tile<8xi32> -> {POINTERS}"


def kernel(
    bounds: str = "%zero to %n, step %one", move: int = 8, end: str = "", next_: str = NEXT, loop: str = "for"
) -> str:
    """Adds up tiles of 8 that pointers go through which the loop carries."""
    return f"""cuda_tile.module @m {{
      entry @kernel(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %n0: tile<i32>, %s: tile<i32>) {{
      %n = assume bounded<0, 5>, %n0 : tile<i32>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %two = constant <i32: 2> : tile<i32>
      %eight = constant <i32: 8> : tile<i32>
      %by = constant <i32: {move}> : tile<8xi32>
      %none = constant <f32: 0.0> : tile<8xf32>
      %count = iota : tile<8xi32>
      %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %p8 = broadcast %p1 : tile<1xptr<f32>> -> {POINTERS}
      %first = offset %p8, %count : {POINTERS}, tile<8xi32> -> {POINTERS}
      %sum, %last = {loop} %i in ({bounds}) : tile<i32> iter_values(%acc = %none, %at = %first)
          -> (tile<8xf32>, {POINTERS}) {{
        %x, %t = load_ptr_tko weak %at : {POINTERS} -> tile<8xf32>, token
        %more = addf %acc, %x : tile<8xf32>
        {next_}
        {end}
        continue %more, %next : tile<8xf32>, {POINTERS}
      }}
      %q1 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
      %q8 = broadcast %q1 : tile<1xptr<f32>> -> {POINTERS}
      %out = offset %q8, %count : {POINTERS}, tile<8xi32> -> {POINTERS}
      %u = store_ptr_tko weak %out, %sum : {POINTERS}, tile<8xf32> -> token
      return }} }}"""


def behind(text: str, pipeline: str) -> tuple[libtile.Module, list[str]]:
    """The module, and why loads keep their pointers; it does the same as before."""
    module = libtile.parse(text)
    libtile.verify(module)
    with remarks.collect() as said:
        PassManager(parse_pipeline(pipeline)).run(module.op)
    libtile.verify(module)
    for n in (0, 1, 5):
        found = []
        for one in (libtile.parse(text), module):
            args = [np.arange(1, 200, dtype=np.float32), np.zeros(8, np.float32), n, 8]
            libtile.run(one, "kernel", grid=(1,), args=args, check="full")
            found.append(args[1].tobytes())
        assert found[0] == found[1], n
    return module, [dict(r.arguments)["Reason"] for r in said if r.kind is remarks.Kind.MISSED]


EARLY = f"""%odd = remi %i, %two signed : tile<i32>
  %is = cmpi equal %odd, %one, signed : tile<i32> -> tile<i1>
  if %is {{
    continue %acc, %next : tile<8xf32>, {POINTERS}
  }}"""


@pytest.mark.parametrize(
    ("text", "index"),
    [
        (kernel(), "%loopIdx"),
        (kernel("%zero to %n, step %two", move=16), "%loopIdx"),
        (kernel("%two to %n, step %one"), None),  # two iterations fewer than the counter says
        (kernel(end=EARLY), "%loopIdx"),
        (kernel(next_=NEXT.replace("%next", "%mid") + "\n" + NEXT.replace("%at", "%mid")), None),
    ],
    ids=["plain", "steps of two", "from two on", "early ends", "moved twice"],
)  # fmt: skip
def test_a_load_through_carried_pointers_becomes_one_through_a_view(text, index):
    module, reasons = behind(text, "recover-views,canonicalize,dce")
    loop = str(module).split(" for ")[1]
    assert "load_view_tko" in loop and not reasons
    assert "ptr_tko" not in str(module)
    assert index is None or f"[{index}]" in loop


@pytest.mark.parametrize(
    "text",
    [
        kernel("%zero to %n, step %two", move=7),  # half of it is no number
        kernel(loop="for unsigned"),
        kernel("%zero to %n, step %s"),  # nothing says how often a step goes into a distance
        kernel(end=EARLY.replace("%acc, %next", "%acc, %at")),
        kernel(next_="%i1 = reshape %i : tile<i32> -> tile<1xi32>\n%i8 = broadcast %i1 : tile<1xi32> -> tile<8xi32>\n"
               + NEXT.replace("%by", "%i8")),
        kernel(next_=NEXT.replace("%by", "%count")),  # and spreads out
        kernel(next_=NEXT.replace("%at", "%first")),
    ],
    ids=["no multiple", "unsigned", "unknown step", "not always", "by the counter", "unequally", "not on from there"],
)  # fmt: skip
def test_pointers_stay_that_do_not_move_by_the_same_each_time(text):
    module, reasons = behind(text, "recover-views")
    assert "load_ptr_tko" in str(module)
    assert reasons[0].startswith("an index or an address comes from a loop")


def offsets(flag: str) -> str:
    """The same by integers that are carried, and added to a pointer in the loop; nothing is known of how often."""
    text = kernel(next_=f"%next = addi %at, %by {flag}: tile<8xi32>", bounds="%zero to %n0, step %one")
    text = text.replace("%at = %first)", "%at = %count)").replace(
        f"-> (tile<8xf32>, {POINTERS})", "-> (tile<8xf32>, tile<8xi32>)"
    )
    text = text.replace(f"%next : tile<8xf32>, {POINTERS}", "%next : tile<8xf32>, tile<8xi32>")
    here = f"%here = offset %p8, %at : {POINTERS}, tile<8xi32> -> {POINTERS}\n"
    return text.replace("%x, %t = load_ptr_tko weak %at", here + "%x, %t = load_ptr_tko weak %here")


@pytest.mark.parametrize(
    ("flag", "count", "stays"),
    [("", "%n0", True), ("", "%n,", False), ("overflow<no_signed_wrap> ", "%n,", False)],
)
def test_carried_integers_are_followed_that_cannot_wrap_around(flag, count, stays):
    _, reasons = behind(offsets(flag).replace("to %n0,", f"to {count.rstrip(',')},"), "recover-views")
    assert bool(reasons) == stays


def test_what_a_loop_carries_by_itself_is_unknown():
    """A sum of what is carried with itself is looked at once, however often it stands there."""
    double = "\n".join(f"%d{n + 1} = addi %d{n}, %d{n} : tile<i32>" for n in range(60))
    text = f"""cuda_tile.module @m {{ entry @kernel(%p: tile<ptr<f32>>, %n: tile<i32>) {{
      %one = constant <i32: 1> : tile<i32>
      %r = for %i in (%one to %n, step %one) : tile<i32> iter_values(%d0 = %n) -> (tile<i32>) {{
        {double}
        %c = cmpi less_than %d0, %n, signed : tile<i32> -> tile<i1>
        %u = print_tko "%d", %c : tile<i1> -> token
        continue %d60 : tile<i32>
      }}
      return }} }}"""
    module = libtile.parse(text)
    PassManager(parse_pipeline("simplify-integers")).run(module.op)
    assert "cmpi" in str(module)


def test_pointers_that_a_loop_carries_are_not_computed_anew():
    module, _ = behind(kernel(), "strength-reduce{min-ops=1}")
    assert str(module).count("offset") == kernel().count("offset")


# -- what a `loop` carries --------------------------------------------------------------------------------------------


def uncounted(
    ask: str = "less_than %i, %n", move: str = "addi %i, %one", by: int = 8, end: str = "", first: str = "%zero"
) -> str:
    """The same with a `loop`, which goes on as long as a comparison holds."""
    text = kernel(move=by, end=end)
    start, stop = text.index("%sum, %last = for"), text.index("%x, %t = load")
    types = f"tile<i32>, tile<8xf32>, {POINTERS}"
    head = f"""%end, %sum, %last = loop iter_values(%i = {first}, %acc = %none, %at = %first) : {types} -> {types} {{
        %on = cmpi {ask}, signed : tile<i32> -> tile<i1>
        if %on {{ }} else {{ break %i, %acc, %at : {types} }}
        %moved = {move} : tile<i32>
        """
    ends = f"continue %more, %next : tile<8xf32>, {POINTERS}"
    return text[:start] + head + text[stop:].replace(ends, f"continue %moved, %more, %next : {types}")


ODD = f"""%odd = remi %i, %two signed : tile<i32>
  %is = cmpi equal %odd, %one, signed : tile<i32> -> tile<i1>
  if %is {{
    continue %moved, %acc, %next : tile<i32>, tile<8xf32>, {POINTERS}
  }}"""


@pytest.mark.parametrize(
    "text",
    [
        uncounted(),
        uncounted(move="addi %i, %two", by=16),
        uncounted("greater_than %i, %zero", "subi %i, %one", first="%n"),
        uncounted(end=ODD),
        uncounted("not_equal %i, %n", "addi %i, %one overflow<no_signed_wrap>"),
    ],
    ids=["plain", "steps of two", "down", "early ends", "by a flag"],
)
def test_a_load_through_pointers_that_a_loop_carries_becomes_one_through_a_view(text):
    module, reasons = behind(text, "recover-views,canonicalize,dce")
    assert "load_view_tko" in str(module).split(" loop ")[1] and not reasons
    assert "ptr_tko" not in str(module)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (uncounted("not_equal %i, %n"), "counts nothing"),  # it may go around
        (uncounted(move="addi %i, %s"), "counts nothing"),
        (uncounted(move="addi %i, %two", by=7), "does not add the same"),
        (uncounted(end=ODD.replace("%acc, %next", "%acc, %at")), "does not add the same"),
        (uncounted(end=ODD.replace("%moved, %acc", "%i, %acc").replace("%odd, %one", "%odd, %two")), "counts nothing"),
    ],
    ids=["until a number", "by what is not known", "no multiple", "not always", "not counted always"],
)
def test_pointers_stay_that_a_loop_does_not_count(text, why):
    module, reasons = behind(text.replace("%s: tile<i32>", "%s0: tile<i32>").replace(
        "%zero = ", "%s = assume bounded<1, 8>, %s0 : tile<i32>\n%zero = ", 1), "recover-views")  # fmt: skip
    assert "load_ptr_tko" in str(module)
    assert reasons[0] == f"an index or an address comes from a loop that {why}" + (
        " to it each time" if why.startswith("does") else ""
    )
