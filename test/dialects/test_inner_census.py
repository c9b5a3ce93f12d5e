# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/inner-census.md is what compilations show."""

from __future__ import annotations

import re

import pytest

from dialects import inner_symbols
from dialects.inner_census import PAGE, PART, TARGETS, cell, interpreted, names, page, why_unmade

STALE = "docs/inner-census.md is stale: run PYTHONPATH=test python -m dialects.inner_census"


def table() -> dict[str, list[str]]:
    """The cells of the page's tables, by op."""
    text = PAGE.read_text().partition("## Types, attributes and passes")[0]
    rows = re.findall(r"^\| `(nv_tilea[as]\.[\w.]+)` \| (.*) \|$", text, flags=re.MULTILINE)
    return {name: rest.split(" | ") for name, rest in rows}


def test_the_census_says_of_every_op_what_becomes_of_it() -> None:
    """Each op on one target, in turn; the whole page is made again by the slow test."""
    listed, found = table(), {}
    for number, name in enumerate(names()):
        column = number % len(TARGETS)
        found[name] = (cell(name, TARGETS[column])[0], "yes" if interpreted(name) else "no")
        listed[name] = [listed[name][2 + column], listed[name][-1]] if name in listed else []
    assert {name: tuple(cells) for name, cells in listed.items()} == found, STALE


@pytest.mark.slow
def test_the_census_is_fresh() -> None:
    assert PAGE.read_text() == page(), STALE


def symbols() -> dict[str, list[str]]:
    """The cells of the page's table of types and attributes, by name."""
    rows = re.findall(
        r"^\| `(nv_tilea[as]\.[\w.-]+)` \| ((?:type|attribute).*) \|$", PAGE.read_text(), flags=re.MULTILINE
    )
    return {name: rest.split(" | ") for name, rest in rows}


def test_every_type_and_attribute_is_made_and_has_code_made_of_it() -> None:
    """On a target at least; none is only read and printed. That the page says of them what compilations show, the slow
    test of the whole page looks at."""
    listed = symbols()
    assert set(listed) == set(inner_symbols.SYMBOLS)
    for name, (_, made, gone, *cells) in listed.items():
        assert made and gone, name
        assert "yes" in cells, name


NOT_COMPILED = {"nv_tileaa.launch_func": "a host function's, which the interpreter and the simulator run"}
"""Ops that no target compiles, and whose they are."""
NOT_INTERPRETED = {
    "nv_tileaa.elementwise_inline_asm": "PTX",
    "nv_tileaa.inject_ir": "LLVM IR",
}
"""Ops that the interpreter does not run, and what they hold."""


def test_what_no_pass_makes_has_a_reason() -> None:
    empty = {name for name, (made, *_) in table().items() if not made.strip()}
    assert empty
    assert {name for name in empty if why_unmade(name) is None} == set()


def test_no_op_is_text_only() -> None:
    """Each one is lowered by a pass or an emission rule, or is part of ops that are, on a target at least; and has a
    meaning in the interpreter. What has not is on a list."""
    lowered, run, refused = set(), set(), set()
    for name, (_, by, *cells, interpreter) in table().items():
        if by.strip() and {"yes", PART} & set(cells):
            lowered.add(name)
        if interpreter == "yes":
            run.add(name)
        if "refused" in cells:
            refused.add(name)
    every = set(names())
    assert every - lowered == set(NOT_COMPILED)
    assert every - run == set(NOT_INTERPRETED)
    reasons = set(re.findall(r"^- `(nv_tilea[as]\.[\w.]+)`", PAGE.read_text(), flags=re.MULTILINE))
    assert refused == reasons  # by name, target and place
