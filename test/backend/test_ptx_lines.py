# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The line directives that finishing writes, and what it says of a text that ptxas could misread."""

from __future__ import annotations

import re

from libtile.backend.ptx_lines import finish_lines, source_text
from libtile.codegen.line_table import MAX_PLACES, Call, LineTable, Place
from libtile.simulator import parse_ptx

CALL = Call("helper", "/src/k.py", 3, 4)
INNER = Call("inner", "/src/h.py", 30, 6)
FAR = Call("helper", "/src/far.py", 3, 4)


def finished(places: list[Place], source: str = "", inlined: bool = True) -> list[str]:
    """The lines of PTX of a kernel with an instruction at line 11 of h.py in each place."""
    table = LineTable(source, {"k": 1})
    body = [f"\t.loc\t2 11 {table.number(place)}\n\tmov.u32 %r1, {i};" for i, place in enumerate(places)]
    head = ".version 9.4\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n\t.reg .b32 %r<2>;\n\t.loc\t1 1 0"
    text = "\n".join([head, *body, "\tret;", "}", '\t.file\t1 "/src/k.py"', '\t.file\t2 "/src/h.py"', ""])
    made = finish_lines(text, table, inlined=inlined)
    assert parse_ptx(made).functions["k"].body
    return made.split("\n")


def directives(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines if line.startswith("\t.loc")]


def test_a_place_gives_its_column_back():
    assert directives(finished([Place(7), Place(0)])) == [".loc\t1 1 0", ".loc\t2 11 7", ".loc\t2 11 0"]


def test_an_inlined_call_follows_a_directive_of_its_place():
    lines = finished([Place(7, (CALL,)), Place(8, (CALL,))])
    at = "function_name $L__function_name0, inlined_at 1 3 4"
    assert directives(lines)[1:] == [".loc\t1 3 4", f".loc\t2 11 7, {at}", f".loc\t2 11 8, {at}"]
    assert [int(n) for n in re.findall(r"\.b8 (\d+)", "\n".join(lines))] == [*b"helper", 0]


def test_an_outer_call_is_said_again_where_its_place_was_another_since():
    twice = Place(7, (CALL, INNER))
    once = Place(6, (Call("inner", "/src/h.py", 30, 6),))
    found = directives(finished([twice, once, twice]))
    assert sum(line.startswith(".loc\t2 30 6, function_name") for line in found) == 1
    assert found[-1].endswith("inlined_at 2 30 6")


def test_calls_in_a_file_other_than_the_kernels_are_left_out_as_ptxas_takes_them_for_its_own():
    assert directives(finished([Place(7, (FAR,))]))[1:] == [".loc\t2 11 7"]


def test_with_full_debug_information_only_that_has_the_inlined_calls():
    lines = finished([Place(7, (CALL,))], inlined=False)
    assert directives(lines)[1:] == [".loc\t2 11 7"]
    assert not any(".debug_str" in line for line in lines)


def test_lines_of_the_source_follow_each_location_and_the_beginning_is_the_kernels():
    lines = finished([Place(7, (), 2), Place(0)], "entry @k() {\n  return\n}\n")
    found = [line.split("\t")[-1] for line in lines if ".loc_intermediate" in line]
    assert found == ["3 1 0", "3 2 0", "3 0 0"]
    begin, end = (lines.index(f"\t\t.source_{word}") for word in ("begin", "end"))
    assert lines[begin + 1 : end] == ["entry @k() {", "  return", "}"]
    assert re.search(r'\.file\t3 "\./[0-9a-f]{32}"', "\n".join(lines))


def test_no_line_of_a_source_ends_it_and_what_ptxas_cannot_read_is_escaped():
    assert source_text("a\n .source_end \nb.source_end\n") == "a\n \\2Esource_end \nb.source_end"
    assert source_text('// Producer: "ü\t\0') == '// Producer: "\\C3\\BC\\09\\00'


def test_more_places_than_columns_lose_their_columns():
    table = LineTable()
    numbers = [table.number(Place(0, (), line)) for line in range(MAX_PLACES + 2)]
    assert numbers[:2] == [1, 2] and numbers[-3:] == [MAX_PLACES, 0, 0]
    assert table.number(Place(0, (), 5)) == 6
