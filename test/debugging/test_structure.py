# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparing programs: what counts as a difference, what does not, and how it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

import libtile
from generators.programs import program
from libtile import diff

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

TEXT = """\
cuda_tile.module @m {
  global @table <i32: [1, 2]> : tile<2xi32>
  entry @a(%x: tile<ptr<i32>>, %n: tile<i32>) optimization_hints=<sm_80 = {occupancy = 2}, sm_90 = {occupancy = 4}> {
    %one = constant <i32: 1> : tile<4xi32>
    %i = iota : tile<4xi32>
    %s = addi %i, %one : tile<4xi32>
    %p = addi %s, %i : tile<4xi32>
    for %j in (%n to %n, step %n) : tile<i32> {
      if_place
      continue
    }
    print_tko "%d", %p : tile<4xi32> -> token
    return
  }
  entry @b() {
    return
  }
}
"""


def text(*changes: tuple[str, str]) -> bytes:
    changed = TEXT.replace("if_place", "")
    for old, new in changes:
        assert old in changed
        changed = changed.replace(old, new, 1)
    return changed.encode()


@pytest.mark.parametrize(
    "change",
    [
        ("%one", "%other"),
        ("@m", "@another"),
        ("<i32: 1>", "<i32: [1, 1, 1, 1]>"),
        ("addi %i, %one", "addi %i, %two"),
        ("<sm_80 = {occupancy = 2}, sm_90 = {occupancy = 4}>", "<sm_90 = {occupancy = 4}, sm_80 = {occupancy = 2}>"),
    ],
)
def test_names_spellings_and_orders_are_no_difference(change):
    changed = (
        text(change).replace(b"%one", b"%two") if "%two" in change[1] else text(change).replace(b"%one", b"%other")
    )
    assert diff(text(), changed) == []


def test_functions_are_found_by_name():
    b = "  entry @b() {\n    return\n  }\n"
    plain = TEXT.replace("if_place", "")
    moved = plain.replace(b, "").replace("  entry @a", b + "  entry @a")
    assert diff(plain.encode(), moved.encode()) == []
    (found,) = diff(plain.encode(), plain.replace(b, "").encode())
    assert (found.where, found.what, found.right) == ("entry @b", "only on one side", "nothing")


@pytest.mark.parametrize(
    ("old", "new", "what", "right"),
    [
        ("addi %i, %one", "muli %i, %one", "another op", "-:6:10: 'cuda_tile.muli'"),
        ("addi %i, %one", "addi %one, %i", "operand 0 of 'cuda_tile.addi'", "%one, result 0 of -:4:12"),
        ("addi %i, %one", "addi %i, %one overflow<no_signed_wrap>", "attribute 'overflow'", "no_signed_wrap"),
        ("<i32: 1>", "<i32: 2>", "attribute 'value' of 'cuda_tile.constant'", "-:4:12"),
        ("      continue", "      %z = iota : tile<2xi32>\n      continue", "another op", "-:10:12: 'cuda_tile.iota'"),
        ('"%d", %p', '"%d", %s', "operand 0 of 'cuda_tile.print_tko'", "%s, result 0 of"),
        ("%n: tile<i32>", "%n: tile<i64>", "attribute 'function_type' of 'cuda_tile.entry'", "tile<i64>"),
        ("    return", "    assert %c, \"x\" : tile<i1>\n    return", "another op", "'cuda_tile.assert'"),
    ],
)  # fmt: skip
def test_the_first_difference_is_named_with_its_places(old, new, what, right):
    c = ("    %one", "    %c = constant <i1: true> : tile<i1>\n    %one") if "%c" in new else ("", "")
    before, after = text(c) if c[0] else text(), text(*([c] if c[0] else []), (old, new))
    if "i64" in new:
        after = after.replace(b": tile<i32> {", b": tile<i64> {")
    (found,) = diff(before, after)
    assert found.where == "entry @a"
    assert what in found.what
    assert right in found.right
    assert str(found).startswith(f"entry @a: {found.what}\n< -:")


def test_a_value_stands_for_one_value_on_the_other_side():
    """Two equal ops on one side are not one op on the other, even where every op looks the same."""
    (found,) = diff(text(("addi %s, %i", "addi %s, %s")), text())
    assert "operand 1" in found.what


def test_locations_count_on_request():
    assert diff(text(), b"\n" + text()) == []
    assert "location" in diff(text(), b"\n" + text(), locations=True)[0].what


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.bc")), ids=lambda path: path.stem)
def test_a_file_is_the_text_of_it(path):
    assert diff(path, str(libtile.read(path)).encode()) == []
    assert diff(path, libtile.migrate(path, "13.5")) == []


@pytest.mark.slow
def test_every_op_of_random_programs_counts():
    """A module without one of its ops is another one, whichever op it is."""
    made = program(5, "control").text
    size = sum(1 for _ in libtile.parse(made).op.walk())
    for number in range(1, size):
        module = libtile.parse(made)
        op = list(module.op.walk())[number]
        if any(result.first_use is not None for result in op.results):
            continue
        op.detach()
        assert diff(libtile.parse(made), module), op.name
    assert diff(libtile.parse(made), libtile.parse(made)) == []


def test_inner_dialects_are_compared_as_well():
    module = libtile.read(EXAMPLES / "softmax.bc")
    inner = libtile.compile(module, "sm_90", emit="tileas", keep_text=True)
    for stage in (inner.tileaa, inner.tileas):
        assert diff(stage.encode(), stage.encode()) == []
    one = inner.tileas.encode()
    line = next(x for x in one.splitlines() if b"math.exp" in x or b".exp" in x)
    changed = one.replace(line, line.replace(b"exp", b"exp2", 1), 1)
    (found,) = diff(one, changed)
    assert found.where == "func @softmax" and found.what == "another op"
