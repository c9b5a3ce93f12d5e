# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which checks a choice names."""

import pytest

from libtile.support.checks import INTERPRETER, SIMULATOR, CheckError

BASIC, FULL = INTERPRETER.basic, INTERPRETER.full


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("off", set()),
        ("basic", BASIC),
        ("full", FULL),
        ("full,-view-range", FULL - {"view-range"}),
        ("basic,view-range", BASIC | {"view-range"}),
        ("basic,-view-range", BASIC),
        ("-index", BASIC - {"index"}),
        ("race", {"race"}),
        ("full,-basic", FULL - BASIC),
        ("full,off,race,index,-race", {"index"}),
        ("full,-counters", FULL),  # what only the simulator looks for
        ("-full", set()),
    ],
)
def test_a_choice_adds_and_takes_away_from_left_to_right(text, expected):
    assert INTERPRETER.choose(text) == expected


def test_view_range_is_in_full_and_not_in_basic():
    assert "view-range" in FULL - BASIC


def test_what_is_no_fault_by_itself_is_in_no_group():
    assert "nan" not in FULL and INTERPRETER.choose("full,nan") == FULL | {"nan"}


@pytest.mark.parametrize(
    "text", ["", "most", "basic,", "basic,,full", "Basic", "-off", "--race", "basic, race", "+race"]
)
def test_a_name_that_is_none_is_an_error_that_lists_those_that_are(text):
    with pytest.raises(CheckError, match=r"the interpreter has no check '.*': use off, basic, full, or assume, "):
        INTERPRETER.choose(text)


def test_a_check_that_only_another_backend_makes_cannot_be_asked_for():
    with pytest.raises(CheckError, match="the simulator has no check 'view-range'"):
        SIMULATOR.choose("basic,view-range")
    assert SIMULATOR.choose("full,-view-range") == SIMULATOR.names
