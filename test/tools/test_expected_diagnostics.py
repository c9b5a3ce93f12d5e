# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`-verify-diagnostics`: announced diagnostics against those that a run gave."""

from __future__ import annotations

import pytest

from libtile.support.diagnostics import Diagnostic, SourceLocation, error, remark, warning
from libtile_tools.expected_diagnostics import check


def at(line: int, message: str = "bad thing") -> Diagnostic:
    return error(SourceLocation("f", line, 1), message)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("op // expected-error {{bad thing}}", 1),
        ("// expected-error @below {{bad}}\nop", 2),
        ("// expected-error@+2 {{thing}}\n\nop", 3),
        ("op\n// expected-error @above {{bad thing}}", 1),
        ("op\n\n// expected-error @-2 {{bad thing}}", 1),
        ("// expected-error-re @below {{{{[a-z]+}} thing}}\nop", 2),
    ],
)
def test_announced_error_is_found(text: str, line: int) -> None:
    assert check(text, "f", [at(line)]) == []


def test_comments_below_one_another_speak_of_the_same_line() -> None:
    text = "// expected-error @below {{one}}\n// expected-remark @below {{two}}\nop"
    assert check(text, "f", [at(3, "one"), remark(SourceLocation("f", 3, 9), "two")]) == []


def test_error_without_a_position_is_announced_as_unknown() -> None:
    assert check("// expected-error@unknown {{bad}}", "f", [error(None, "bad thing")]) == []


def test_notes_are_announced_too() -> None:
    text = "// expected-error @below {{bad}}\nop\n// expected-note @above {{see}}"
    assert check(text, "f", [at(2).note(SourceLocation("f", 2, 1), "see here")]) == []


def test_unexpected_error_is_reported_where_it_is() -> None:
    (problem,) = check("op", "f", [at(1)])
    assert (str(problem.location), problem.message) == ("f:1:1", "unexpected error: bad thing")


def test_missing_error_is_reported_where_it_is_announced() -> None:
    (problem,) = check("\n// expected-error @below {{bad}}\nop", "f", [])
    assert (str(problem.location), problem.message) == ("f:2:1", 'expected error "bad" was not produced')


def test_one_comment_stands_for_one_diagnostic() -> None:
    assert len(check("op // expected-error {{bad}}", "f", [at(1), at(1)])) == 1


def test_severity_has_to_fit() -> None:
    assert len(check("op // expected-error {{bad}}", "f", [warning(SourceLocation("f", 1, 1), "bad")])) == 2


def test_only_expected_ignores_the_rest() -> None:
    assert check("op // expected-error {{bad}}", "f", [at(1), at(7)], only_expected=True) == []
