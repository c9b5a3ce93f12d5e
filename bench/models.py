# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels as models have them (test/cutile/models): our machine code beside the reference assembler's.

python bench/models.py --targets sm_90 -o bench/results/models.md
"""

from __future__ import annotations

import argparse
import sys
from datetime import date
from pathlib import Path

from static_comparison import COLUMNS, TARGETS, Figures, ours, theirs

from libtile import cutile

ROOT = Path(__file__).resolve().parents[1]
SHOWN = ("registers", "threads", "stack", "instructions", "loop", "tensor", "TMA", "LDL", "STL", "BAR")


def row(name: str, target: str, pair: tuple[Figures, Figures], columns: tuple[str, ...] = SHOWN) -> str:
    """A line of the table: ours / theirs, one number where they are equal."""
    cells = [[str(f.values.get(column, "-")) for f in pair] for column in columns]
    return f"| {name} | {target} | {' | '.join(a if a == b else f'{a} / {b}' for a, b in cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kernels", nargs="+", help="names; all without it")
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("-o", "--output", type=Path, help="write the table here; stdout without it")
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT / "test")]
    from cutile.models.problems import FULL, PROBLEMS

    assert set(SHOWN) <= set(COLUMNS)
    lines = [
        "# Kernels as models have them",
        "",
        "Ours / theirs, one number where they are equal; tiles of 128 rows and columns, bytes of stack. Made by",
        f"`python bench/models.py` on {date.today()}.",
        "",
        f"| kernel | target | {' | '.join(SHOWN)} |",
        f"|---|---|{'---:|' * len(SHOWN)}",
    ]
    problems = []
    for name in options.kernels or PROBLEMS:
        problem = PROBLEMS[name](FULL)
        for target in options.targets:
            data, kernel = cutile.bytecode_for(problem.kernel, problem.args)
            pair = ours(data, kernel, target), theirs(data, kernel, target)
            lines.append(row(name, target, pair))
            problems += [
                f"- {name} on {target}, {who}: {f.problem}" for who, f in zip(("ours", "theirs"), pair) if f.problem
            ]
            print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join([*lines, *(["", "Not compiled:", "", *problems] if problems else [])]) + "\n"
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
