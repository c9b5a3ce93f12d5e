# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs as files: the text, and in comments above it how to launch it.

A program that failed once is kept so, and stays the same when the generator changes.
"""

from __future__ import annotations

from pathlib import Path

from generators.core import Comparison, Parameter, Program

_PARAMETER, _LAUNCH = "// parameter ", "// launch "


def save(program: Program, path: Path) -> None:
    """Write a program; ValueError for results that compare in units of the last place, or as multisets."""
    lines = [f"{_LAUNCH}seed={program.seed} grid={','.join(map(str, program.grid))}"]
    for p in program.parameters:
        if p.comparison != Comparison(relative=p.comparison.relative):
            raise ValueError(f"{p.name} is compared in a way that a file does not keep")
        bounds = "any" if p.bounds is None else f"{p.bounds[0]}..{p.bounds[1]}"
        lines.append(
            f"{_PARAMETER}{p.name} {p.element} {p.size} {bounds}{' written' if p.written else ''}"
            f"{f' {p.comparison.relative}' if p.comparison.relative else ''}"
        )
    path.write_text("\n".join([*lines, program.text]), encoding="utf-8")


def load(path: Path) -> Program:
    """The program of a file."""
    text = path.read_text(encoding="utf-8")
    parameters: list[Parameter] = []
    launch: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith(_LAUNCH):
            launch = dict(word.split("=") for word in line.removeprefix(_LAUNCH).split())
        elif line.startswith(_PARAMETER):
            name, element, size, bounds, *written = line.removeprefix(_PARAMETER).split()
            low, _, high = bounds.partition("..")
            limits = (int(low), int(high)) if high else None
            within = Comparison(relative=float(written[1])) if len(written) > 1 else Comparison()
            parameters.append(Parameter(name, element, int(size), limits, bool(written), within))
    x, y, z = map(int, launch["grid"].split(","))
    return Program(int(launch["seed"]), text, parameters, (x, y, z), ())
