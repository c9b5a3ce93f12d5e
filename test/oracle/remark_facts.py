# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What remarks say, as facts that can be compared, and the list of cases in which two compilers say other things."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("remark_differences.txt")

_FUNCTION = re.compile(r"^in function: (.*):$")
_CATEGORY = re.compile(r"^  category: (.*)$")
_REMARK = re.compile(r"^    remark\[(\w+)\]: (.*)$")
_PLACE = re.compile(r'^      --> (?:"(?P<file>.*)":(?P<line>\d+):(?P<column>\d+)|loc\(unknown\))$')
_DETAIL = re.compile(r"^       = (.*)$")


@dataclass(frozen=True, order=True)
class Fact:
    """What is said of a place: `line:column` of the kernel's file, or of another file with its name, or `?`."""

    place: str
    said: str

    @property
    def name(self) -> str:
        return self.said.split()[0]


def read(text: str) -> set[Fact]:
    """The facts of remarks in the command-line format, whoever printed them. ValueError for a line that is none."""
    found: set[Fact] = set()
    category = kind = message = place = ""
    details: list[str] = []

    def finish() -> None:
        if message:
            name = next(d.removeprefix("name: ") for d in details if d.startswith("name: "))
            # The reference repeats some reasons many times.
            others = dict.fromkeys(d for d in details if not d.startswith("name: "))
            found.add(Fact(place, "; ".join([f"{name} {kind} [{category}] {message}", *others])))

    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            finish()
            message = ""
        elif match := _CATEGORY.match(line):
            finish()
            message, category = "", match[1]
        elif match := _REMARK.match(line):
            finish()
            kind, message, details = match[1], match[2], []
        elif match := _PLACE.match(line):
            place = "?" if match["line"] is None else f"{Path(match['file']).name}:{match['line']}:{match['column']}"
        elif match := _DETAIL.match(line):
            details.append(match[1])
        elif line.strip() not in ("", "|"):
            raise ValueError(f"not a line of remarks: {line!r}")
    finish()
    return found


@dataclass(frozen=True, order=True)
class Case:
    """A kernel of which one of the two, `ours` or `theirs`, says what the other does not; `reason` is why."""

    kernel: str
    whose: str
    fact: Fact
    reason: str


Cases = dict[Case, tuple[str, ...]]
"""The targets of each case."""


def load(path: Path = LIST) -> Cases:
    """The committed list: a line for each case; kernels, places and reasons stand once, above those that have them."""
    cases: Cases = {}
    reason = kernel = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") or not line:
            continue
        if line.startswith("== "):
            reason = line[3:]
        elif not line.startswith(" "):
            kernel = line
        else:
            targets, whose, place, said = line.strip().split(" | ", 3)
            cases[Case(kernel, whose, Fact(place, said), reason)] = tuple(targets.split())
    return cases


def dump(cases: Cases, path: Path = LIST) -> None:
    """Write the list: by reason, then by kernel."""
    lines = [
        "# What the reference assembler and this compiler say of the kernels of the corpus and of the examples, where",
        "# one says what the other does not: by reason, kernel, and targets | whose | place | remark.",
        "# `python test/oracle/test_remarks.py --update` writes this file anew.",
    ]
    by_reason: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_reason[case.reason].append(case)
    for reason in sorted(by_reason):
        lines += ["", f"== {reason}"]
        kernel = ""
        for case in sorted(by_reason[reason]):
            if case.kernel != kernel:
                kernel = case.kernel
                lines.append(kernel)
            lines.append(f"  {' '.join(cases[case])} | {case.whose} | {case.fact.place} | {case.fact.said}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def merged(found: Iterable[tuple[str, Case]]) -> Cases:
    """Cases by target, put together."""
    cases: dict[Case, list[str]] = defaultdict(list)
    for target, case in found:
        cases[case].append(target)
    return {case: tuple(targets) for case, targets in cases.items()}
