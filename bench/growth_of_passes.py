# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CPU seconds of each pass over cuda_tile, and of each level of the optimizer, against the size of the program.

    python bench/growth_of_passes.py [--families entries ...] > bench/results/growth-of-passes.md

A program of each size is read once, and each pass gets a copy of it; those that follow hints are asked for what they
do (`loop-unroll{factor=2}`). Figures are of one run. A slope is that between the two largest sizes of a family on
log-log paper: 1 is linear; there is none where the smaller one takes less than 0.02 s.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "test")]

import libtile  # noqa: E402
from generators.growing import FAMILIES  # noqa: E402
from generators.pipelines import NAMED, single  # noqa: E402
from libtile.passes.manager import PassManager  # noqa: E402
from libtile.passes.pipeline import parse_pipeline  # noqa: E402
from libtile.support.collector import collector_paused  # noqa: E402

SIZES = {
    "scalar_chain": (1_000, 10_000, 100_000),
    "token_chain": (1_000, 10_000, 100_000),
    "loop_row": (100, 1_000, 10_000),
    "loop_nest": (3, 10, 30),
    "if_nest": (3, 10, 30),
    "entries": (10, 100, 1_000),
}
"""The families of `test/generators/growing.py` that are asked, and their sizes."""
READING = """\
Made by `python bench/growth_of_passes.py`: CPU seconds of each pass over cuda_tile by itself, and of the levels, on
programs of three sizes; and the slope between the last two, `-` where the smaller one takes less than 0.02 s."""
SMALLEST = 0.02
"""Seconds below which no slope is given: the collector and the clock are as much."""


def seconds(module: libtile.Module, pipeline: str) -> float:
    """CPU time of a pipeline on a copy of the module, which is not verified behind it."""
    with collector_paused():  # which would look through the copy again and again while it is made
        op = module.op.clone()
        gc.collect(1)  # and not while the pass runs
    manager = PassManager(parse_pipeline(pipeline), verify_each=False)
    start = time.process_time()
    manager.run(op)
    return time.process_time() - start


def slope(sizes: tuple[int, ...], found: list[float]) -> str:
    before, after = found[-2:]
    if before < SMALLEST:
        return "-"
    return f"{math.log(after / before) / math.log(sizes[-1] / sizes[-2]):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--families", nargs="+", default=list(SIZES), choices=list(SIZES))
    options = parser.parse_args()
    print(f"# Growth of passes\n\n{READING}\n")
    for family in options.families:
        sizes = SIZES[family]
        modules = [libtile.parse(FAMILIES[family].make(size)) for size in sizes]
        print(f"## {family}: {FAMILIES[family].axis}\n\n| pass | {' | '.join(f'{size:,}' for size in sizes)} | slope |")
        print("|---|" + "---:|" * (len(sizes) + 1), flush=True)
        for pipeline in [*single(), *NAMED]:
            seconds(modules[0], pipeline)  # loads it
            found = [seconds(module, pipeline) for module in modules]
            figures = " | ".join(f"{figure:.3f}" for figure in found)
            print(f"| `{pipeline}` | {figures} | {slope(sizes, found)} |", flush=True)
        print()
    print(f"The load average at the end was {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors.")


if __name__ == "__main__":
    main()
