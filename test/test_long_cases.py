# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`long_cases.txt`, the list of cases that the default run leaves out."""

from pathlib import Path

import pytest

from conftest import UNKNOWN_LONG_CASES

LINES = (Path(__file__).parent / "long_cases.txt").read_text(encoding="utf-8").splitlines()


def test_each_line_names_a_case(request: pytest.FixtureRequest) -> None:
    assert request.config.stash[UNKNOWN_LONG_CASES] == []


def test_lines_are_in_order_and_name_cases_of_parametrized_tests() -> None:
    cases = [line for line in LINES if not line.startswith("#")]
    assert cases == sorted({*cases}) and all("[" in case for case in cases)
