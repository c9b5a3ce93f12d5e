# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/inner-census.md is what compilations show."""

from __future__ import annotations

import re

import pytest

from dialects.inner_census import PAGE, TARGETS, cell, interpreted, names, page

STALE = "docs/inner-census.md is stale: run PYTHONPATH=test python -m dialects.inner_census"


def table() -> dict[str, list[str]]:
    """The cells of the page's tables, by op."""
    rows = re.findall(r"^\| `(nv_tilea[as]\.[\w.]+)` \| (.*) \|$", PAGE.read_text(), flags=re.MULTILINE)
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
