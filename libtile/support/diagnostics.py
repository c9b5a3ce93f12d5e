# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Diagnostics: errors, warnings and remarks with a source location, in MLIR's shape.

A check returns a list of `Diagnostic`s, so that one run reports many; `DiagnosticError` carries such a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from libtile.support.errors import LibtileError, visible
from libtile.support.records import dataclass, field


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    REMARK = "remark"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A position in a file; line and column count from 1, and are 0 when only the file is known. As a text it is for
    people: what of the name would break a line is in escapes."""

    filename: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        name = visible(self.filename)
        return f"{name}:{self.line}:{self.column}" if self.line else name


SHOWN_COLUMNS = 1000
"""Characters of a source line that are shown."""


@dataclass(slots=True)
class Diagnostic:
    """One message about one place. `location` is None when the place is unknown."""

    severity: Severity
    location: SourceLocation | None
    message: str
    notes: list[Diagnostic] = field(default_factory=list)

    def note(self, location: SourceLocation | None, message: str) -> Diagnostic:
        """Attach a note; returns the diagnostic itself."""
        self.notes.append(Diagnostic(Severity.NOTE, location, message))
        return self

    @property
    def text(self) -> str:
        """Place and message on one line, without the severity."""
        return visible(f"{self.location}: {self.message}" if self.location is not None else self.message)

    def render(self, source: Sequence[str] | None = None, filename: str | None = None) -> str:
        """`file:line:col: error: message`, then the source line with a caret when `source` (its lines) is given.

        `filename` is the source's: what is said of places in other files, which locations of the IR name, has no line.
        One line each, whatever the names in it: what cannot be shown is escaped (in the source line, where the caret
        counts characters, replaced). Of a very long source line the part around the place is shown.
        """
        where = f"{self.location}: " if self.location is not None else ""
        text = visible(f"{where}{self.severity.value}: {self.message}")
        if filename is not None and self.location is not None and self.location.filename != filename:
            shown: Sequence[str] = ()
        else:
            shown = source or ()
        if self.location is not None and 0 < self.location.line <= len(shown):
            given = shown[self.location.line - 1].rstrip("\r\n")
            column = min(max(self.location.column, 1), len(given) + 1)
            if len(given) > SHOWN_COLUMNS:
                left = min(max(column - SHOWN_COLUMNS // 2, 0), len(given) - SHOWN_COLUMNS)
                given, column = given[left : left + SHOWN_COLUMNS], column - left
            line = "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in given)
            padding = "".join("\t" if c == "\t" else " " for c in line[: column - 1])
            text += f"\n{line}\n{padding}^"
        return "\n".join([text, *(n.render(source, filename) for n in self.notes)])


class DiagnosticError(LibtileError):
    """Raised with every diagnostic that a check gave; at least one of them is an error."""

    def __init__(self, diagnostics: Sequence[Diagnostic]):
        self.diagnostics = list(diagnostics)
        super().__init__("\n".join(d.render() for d in self.diagnostics))


def error(location: SourceLocation | None, message: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, location, message)


def warning(location: SourceLocation | None, message: str) -> Diagnostic:
    return Diagnostic(Severity.WARNING, location, message)


def remark(location: SourceLocation | None, message: str) -> Diagnostic:
    return Diagnostic(Severity.REMARK, location, message)


def has_errors(diagnostics: Sequence[Diagnostic]) -> bool:
    return any(d.severity is Severity.ERROR for d in diagnostics)


class LoweringError(LibtileError):
    """An op that this target or this version cannot compile: `location` is where the op stands in its source.

    `reason` is the message without the location.
    """

    def __init__(self, message: str, location: SourceLocation | None = None, reason: str | None = None):
        super().__init__(message)
        self.location = location
        self.reason = message if reason is None else reason

    def diagnostic(self) -> Diagnostic:
        """The error as a diagnostic."""
        return error(self.location, self.reason)


class UnsupportedError(LoweringError, ValueError):
    """A mode or a type that there is no code for."""
