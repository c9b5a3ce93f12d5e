# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shares of a GPU's peaks that measured launches reached, for `libtile estimate`.

    python bench/estimate_fit.py bench/results/2026-11-27-h100-times.json [--counts counts.json] [--names gemm ...]

The file names the target, the card and the date, and has microseconds by launch, by the names of `on_gpu.py`; its table
in Markdown is taken too, with --gpu-name, --card and --date. What each launch asks of the GPU is counted anew unless
--counts names a file that has it, which is written otherwise. Printed are the shares as `targets.toml` has them, how
far the estimate is off with them, and with shares made without the launches of the same kernel.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [p for p in (str(ROOT), str(ROOT / "test"), str(ROOT / "bench")) if p not in sys.path]

from on_gpu_launches import Launch, storage  # noqa: E402
from on_gpu_problems import launches  # noqa: E402

from libtile.support.errors import LibtileError  # noqa: E402

BLOCKS = 4
"""Tile blocks that are simulated of a launch: long loops make one of a large product take seconds."""
ROW = re.compile(r"\| ([^|]+?) \| ([\d.]+) \|")
"""A row of the table of `on_gpu.py`: the launch and our microseconds."""


@dataclass(frozen=True)
class Times:
    """Measured launches: microseconds by name, and where they were measured."""

    gpu_name: str
    card: str
    date: str
    microseconds: Mapping[str, float]


def read_times(path: Path, gpu_name: str = "", card: str = "", date: str = "") -> Times:
    """What was measured, from JSON or from a table in Markdown. LibtileError for a file that has no launch."""
    text = path.read_text(encoding="utf-8")
    given: dict[str, Any] = {}
    if path.suffix == ".json":
        given = json.loads(text)
        found = given["microseconds"]
    else:
        found = {name: float(time) for name, time in ROW.findall(text)}
    if not found:
        raise LibtileError(f"{path} has no measured launch")
    known = (own or given.get(key, "") for own, key in ((gpu_name, "gpu_name"), (card, "card"), (date, "date")))
    return Times(*known, {name: float(time) for name, time in found.items()})


def count(launch: Launch, gpu_name: str, blocks: int) -> dict[str, float]:
    """Seconds at the peak by resource, and bytes to and from L2 as "L2"."""
    import static_comparison

    import libtile

    # Zeros lie in no memory until they are written; numbers would not change how often an instruction runs.
    arrays = [np.zeros(array.shape, storage(array.dtype)) for array in launch.arrays]
    args = [arrays[int(value)] if kind == "array" else value for kind, value in launch.parameters]
    grid = launch.grid
    if launch.persistent:
        grid = (min(grid[0], libtile.targets.machine(gpu_name).sms), 1, 1)
    data = static_comparison.bytecode(launch.kernel, gpu_name)
    told = libtile.estimate(data, launch.kernel, grid=grid, args=args, gpu_name=gpu_name, blocks=blocks)
    return {**{resource.name: resource.seconds for resource in told.resources}, "L2": told.traffic}


def counted(times: Times, names: Sequence[str], blocks: int, path: Path | None) -> dict[str, dict[str, float]]:
    """The counts of the measured launches, those of a file first, to which the others are added one by one."""
    held = json.loads(path.read_text(encoding="utf-8")) if path is not None and path.exists() else {}
    wanted = {x.name: x for x in launches(times.gpu_name, list(names)) if x.name in times.microseconds}
    for number, (name, launch) in enumerate(wanted.items(), 1):
        if name in held:
            continue
        print(f"{number} of {len(wanted)}: {name}", file=sys.stderr, flush=True)
        held[name] = count(launch, times.gpu_name, blocks)
        if path is not None:
            path.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
    return {name: held[name] for name in wanted}


# -- the rates --------------------------------------------------------------------------------------------------------

L2 = "L2"
FEWEST = 3
"""Kernels that a resource has to bound, at the peaks, for a share of its own: others were not put to the test."""
Counts = Mapping[str, Mapping[str, float]]
Rates = dict[str, float]
"""Shares of peaks, and of L2 bytes a second."""


def likely(counts: Mapping[str, float], rates: Rates) -> tuple[str, float]:
    """What bounds a launch at these rates, and its time in seconds."""
    times = {name: amount / rates.get(name, math.inf if name == L2 else 1.0) for name, amount in counts.items()}
    what = max(times, key=lambda name: times[name])
    return what, times[what]


def off(counts: Counts, seconds: Mapping[str, float], rates: Rates) -> dict[str, float]:
    """The logarithm of the measured time over the likely one, by launch."""
    return {name: math.log(seconds[name] / likely(counts[name], rates)[1]) for name in counts}


def fit(counts: Counts, seconds: Mapping[str, float]) -> Rates:
    """The most that any launch reached, of L2 and of resources that bound some kernels at their peaks. Not a rate that
    makes errors smallest: below what a launch kept up, it would stand for latencies of others."""
    bound: defaultdict[str, set[str]] = defaultdict(set)
    for name, amounts in counts.items():
        bound[likely(amounts, {})[0]].add(name.split()[0])
    rates = {}
    for resource in [L2, *sorted(name for name in bound if len(bound[name]) >= FEWEST)]:
        reached = max(amounts.get(resource, 0.0) / seconds[name] for name, amounts in counts.items())
        rates[resource] = reached if resource == L2 else min(reached, 1.0)
    return rates


def left_out(counts: Counts, seconds: Mapping[str, float]) -> dict[str, float]:
    """How far each launch is off with rates that are fitted without the launches of its kernel."""
    found = {}
    for kernel in dict.fromkeys(name.split()[0] for name in counts):
        own = {name: amounts for name, amounts in counts.items() if name.split()[0] == kernel}
        others = {name: amounts for name, amounts in counts.items() if name not in own}
        found.update(off(own, seconds, fit(others, seconds)))
    return found


def spread(errors: Mapping[str, float]) -> tuple[float, float]:
    """How far launches are off, the median and the worst, as parts of the smaller of the two times."""
    sizes = [math.expm1(abs(error)) for error in errors.values()]
    return statistics.median(sizes), max(sizes)


def report(times: Times, counts: Counts, source: str) -> str:
    """The shares as `targets.toml` has them, and the table of launches."""
    seconds = {name: times.microseconds[name] / 1e6 for name in counts}
    rates = fit(counts, seconds)
    errors, unseen = off(counts, seconds, rates), left_out(counts, seconds)
    (middle, worst), (apart, apart_worst) = spread(errors), spread(unseen)
    peaks = {name: {r: n for r, n in amounts.items() if r != L2} for name, amounts in counts.items()}
    peak_middle, peak_worst = spread(off(peaks, seconds, {}))
    shares = ", ".join(f'"{name}" = {rate:.2f}' for name, rate in rates.items() if name != L2)
    lines = [
        f"[machine.{times.gpu_name}.sustained]    # bench/estimate_fit.py, of {source}",
        f'measured = "{len(counts)} launches on an {times.card}, {times.date}"',
        f"error = {middle:.2f}",
        f"worst = {worst:.2f}",
        f"l2 = {rates[L2]:.3g}",
        f"shares = {{ {shares} }}",
        "",
        f"Off by, median and worst: {middle:.0%}, {worst:.0%}; without launches of the same kernel {apart:.0%}, "
        f"{apart_worst:.0%}; of the bound from peaks {peak_middle:.0%}, {peak_worst:.0%}.",
        "",
        "| launch | at least, us | likely, us | by | measured, us | measured / likely |",
        "|---|---:|---:|---|---:|---:|",
    ]
    for name in sorted(counts, key=lambda name: errors[name]):
        what, time = likely(counts[name], rates)
        least = likely(peaks[name], {})[1]
        cells = f"{least * 1e6:.1f} | {time * 1e6:.1f} | {what} | {seconds[name] * 1e6:.1f}"
        lines.append(f"| {name} | {cells} | {math.exp(errors[name]):.2f} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", type=Path)
    parser.add_argument("--counts", type=Path, help="what launches ask for, read and added to")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="tile blocks that are simulated of a launch")
    parser.add_argument("--names", nargs="+", default=(), help="only launches whose names contain one of these")
    for option in ("--gpu-name", "--card", "--date"):
        parser.add_argument(option, default="", help="of a table in Markdown")
    given = parser.parse_args(argv)
    times = read_times(given.times, given.gpu_name, given.card, given.date)
    print(report(times, counted(times, given.names, given.blocks, given.counts), f"bench/results/{given.times.name}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
