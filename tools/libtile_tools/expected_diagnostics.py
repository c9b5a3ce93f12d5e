# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`-verify-diagnostics`: compares the diagnostics of a run with those that comments in the source announce.

    // expected-error @below {{text that the message contains}}
    // expected-warning-re @-2 {{text with {{[a-z]+}} regular expressions}}

The place is `@above`, `@below`, `@+N`, `@-N`, `@unknown` (a diagnostic without a position), or the comment's own line.
Each comment stands for exactly one diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from libtile.support.diagnostics import Diagnostic, Severity, SourceLocation, error

_COMMENT = re.compile(
    r"expected-(?P<kind>error|note|remark|warning)(?P<re>-re)? *(?:@(?P<place>[+-]\d+|above|below|unknown))? *"
    r"\{\{(?P<text>.*)\}\}\s*$"
)
_EMBEDDED = re.compile(r"\{\{(.*?)\}\}")


@dataclass
class Expected:
    """One announced diagnostic; `line` is 0 for one without a position."""

    severity: Severity
    line: int
    text: str
    pattern: re.Pattern[str] | None
    written_at: int
    found: bool = False

    def matches(self, severity: Severity, message: str) -> bool:
        if self.found or severity is not self.severity:
            return False
        return self.text in message if self.pattern is None else self.pattern.search(message) is not None


def expected_in(text: str) -> list[Expected]:
    """The diagnostics that the comments of a source announce."""
    result: list[Expected] = []
    pending: list[Expected] = []  # `@below` comments, which speak of the next line that is not such a comment
    for number, line in enumerate(text.split("\n"), start=1):
        match = _COMMENT.search(line)
        if match is None:
            for item in pending:
                item.line = number
            pending = []
            continue
        place = match["place"]
        item = Expected(Severity(match["kind"]), number, match["text"], _pattern(match), number)
        if place == "unknown":
            item.line = 0
        elif place == "below":
            pending.append(item)
        elif place == "above":
            item.line = _line_above(result, number)
        elif place is not None:
            item.line = number + int(place)
        result.append(item)
    return result


def _line_above(found: Sequence[Expected], number: int) -> int:
    """The nearest line above that holds no such comment."""
    comments = {item.written_at for item in found}
    line = number - 1
    while line in comments:
        line -= 1
    return line


def _pattern(match: re.Match[str]) -> re.Pattern[str] | None:
    if not match["re"]:
        return None
    pieces = _EMBEDDED.split(match["text"])
    return re.compile("".join(piece if i % 2 else re.escape(piece) for i, piece in enumerate(pieces)))


def check(text: str, filename: str, diagnostics: Sequence[Diagnostic], only_expected: bool = False) -> list[Diagnostic]:
    """What differs between the diagnostics given and those announced in `text`, as errors; empty when nothing does."""
    expected = expected_in(text)
    problems: list[Diagnostic] = []
    for diagnostic in _flat(diagnostics):
        place = diagnostic.location
        line = place.line if place is not None and place.filename == filename else 0
        fitting = (item for item in expected if item.line == line)
        found = next((i for i in fitting if i.matches(diagnostic.severity, diagnostic.message)), None)
        if found is not None:
            found.found = True
        elif not only_expected:
            message = f"unexpected {diagnostic.severity.value}: {diagnostic.message}"
            problems.append(error(place, message))
    for item in expected:
        if not item.found:
            place = SourceLocation(filename, item.written_at, 1)
            problems.append(error(place, f'expected {item.severity.value} "{item.text}" was not produced'))
    return problems


def _flat(diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _flat(diagnostic.notes)
