# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seconds to compile: our `tileiras` process beside the original's on the same file, and this process when warm.

    python bench/compile_time.py [--kernels vector_add gemm ...] [--target sm_90] [--repeat 5] > results/compile-time.md

Cold runs are processes that take turns (ours, theirs, ours, ...), without the compile cache; a ratio is the median of
the pairs'. What Python keeps for itself (`__pycache__`) is there, as it is behind the first run on a machine. `cached`
is our process with a compile cache that has the kernel, `warm` the same compilation in a process that has compiled it
before. Each number is the median of the repeats. Below: where the time of a cold run goes, in milliseconds.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from libtile.backend.tools import ToolNotFoundError, find_tool
from libtile.compiler import driver
from libtile.compiler.options import Options, machine
from libtile.support import timing
from libtile.support.errors import LibtileError

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ("vector_add", "softmax", "layer_norm", "gemm", "attention", "histogram", "transpose", "prefix_sum")

STAGES = {
    "imports": ("load the driver", "load the dialect", "load the compiler", "load LLVM"),
    "read, verify": ("read bytecode", "verify"),
    "LLVM": ("print LLVM IR", "optimize LLVM IR", "print PTX", "LLVM"),
    "ptxas": ("ptxas",),
}
"""Columns of the second table, and the stages of the time report that they sum up; `passes` has what is left."""


def reference_assembler() -> str:
    """NVIDIA's tileiras; ToolNotFoundError when there is none (ours may be on PATH under its name)."""
    tool = find_tool("tileiras")
    said = subprocess.run([str(tool), "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    if "NVIDIA" not in said:
        raise ToolNotFoundError(f"{tool} is not NVIDIA's; pip install nvidia-cuda-tileiras brings it")
    return str(tool)


@dataclass
class Measured:
    """Seconds of the runs of one kernel."""

    cold: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    cached: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)
    """The time report of each cold run; `process` is what the whole process took."""


class Bench:
    """Runs the assemblers on one kernel after the other."""

    def __init__(self, target: str, repeat: int, folder: Path):
        self.target = target
        self.repeat = repeat
        self.folder = folder
        try:
            self.original: str | None = reference_assembler()
        except ToolNotFoundError:
            self.original = None
        self.environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "pycache")}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environment.pop("PYTHONUNBUFFERED", None)

    def process(self, command: Sequence[str], **environment: str) -> tuple[float, str]:
        """(seconds, what is on stderr) of a process; CalledProcessError when it fails."""
        start = time.perf_counter()
        done = subprocess.run(
            command, env={**self.environment, **environment}, capture_output=True, text=True, check=True, timeout=600
        )
        return time.perf_counter() - start, done.stderr

    def measure(self, kernel: str) -> Measured:
        """All numbers of an example."""
        source = ROOT / "examples" / f"{kernel}.bc"
        tail = [f"--gpu-name={self.target}", str(source), "-o", str(self.folder / "k.cubin")]
        mine = [sys.executable, "-m", "tileiras", *tail]
        theirs = None if self.original is None else [self.original, *tail]
        found = Measured()
        self.process(mine, LIBTILE_CACHE="0")  # fills __pycache__
        for _ in range(self.repeat):
            found.cold.append(self.process(mine, LIBTILE_CACHE="0")[0])
            if theirs is not None:
                found.theirs.append(self.process(theirs)[0])
            seconds, report = self.process([*mine, "--time-report"], LIBTILE_CACHE="0")
            found.stages.append({**_parsed(report), "process": seconds})
        on = {"LIBTILE_CACHE": "1", "LIBTILE_CACHE_DIR": str(self.folder / "cache")}
        self.process(mine, **on)
        found.cached = [self.process(mine, **on)[0] for _ in range(self.repeat)]
        data = source.read_bytes()
        driver.compile_bytecode(data, Options(self.target, host=(machine(), "linux")))
        for _ in range(self.repeat):
            with timing.collect() as inside:
                driver.compile_bytecode(data, Options(self.target, host=(machine(), "linux")))
            found.warm.append(inside.total)
        return found


def _parsed(report: str) -> dict[str, float]:
    """Seconds by stage out of the table that --time-report prints."""
    rows = [line.split(None, 2) for line in report.splitlines()]
    return {name: float(seconds) for seconds, _, name in rows if name != "stage"}


def _row(kernel: str, found: Measured) -> str:
    def median(values: Sequence[float]) -> str:
        return f"{statistics.median(values):.3f}" if values else "-"

    def ratio(values: Sequence[float]) -> str:
        return f"{statistics.median(a / b for a, b in zip(values, found.theirs)):.2f}" if found.theirs else "-"

    cells = [median(found.cold), median(found.theirs), ratio(found.cold)]
    cells += [median(found.warm), ratio(found.warm), median(found.cached)]
    return f"| {kernel} | {' | '.join(cells)} |"


def _stage_row(kernel: str, found: Measured) -> str:
    """Medians in milliseconds; what no stage covers is Python's own start, the command line and files."""
    sums: dict[str, list[float]] = {name: [] for name in ("start", *STAGES, "passes")}
    for run in found.stages:
        parts = {name: sum(run.get(stage, 0.0) for stage in stages) for name, stages in STAGES.items()}
        start = run["process"] - run["total"] + run["other"]
        for name, seconds in {"start": start, **parts}.items():
            sums[name].append(seconds)
        sums["passes"].append(run["process"] - start - sum(parts.values()))
    order = ("start", "imports", "read, verify", "passes", "LLVM", "ptxas")
    return f"| {kernel} | {' | '.join(f'{1000 * statistics.median(sums[name]):.0f}' for name in order)} |"


def _machine() -> str:
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = [line for line in information.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].partition(":")[2].strip() if lines else model
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{datetime.date.today().isoformat()}, {os.cpu_count()} processors ({model}), load average {load}, "
        f"Python {platform.python_version()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kernels", nargs="+", default=KERNELS)
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    print("# Compile time\n")
    print(
        f"Made by `python bench/compile_time.py --target {options.target} --repeat {options.repeat}`: {_machine()}.\n"
    )
    print("| kernel | ours, cold | theirs, cold | ours / theirs | ours, warm | warm / theirs | ours, cached |")
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.target, options.repeat, Path(folder))
        for kernel in options.kernels:
            try:
                found[kernel] = bench.measure(kernel)
            except (subprocess.CalledProcessError, LibtileError) as error:
                print(f"{kernel}: {getattr(error, 'stderr', None) or error}", file=sys.stderr)
                return 1
            print(_row(kernel, found[kernel]), flush=True)
    print("\nWhere a cold run of ours spends its time, in milliseconds:\n")
    print("| kernel | Python, command line | imports | read, verify | passes | LLVM | ptxas |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for kernel, measured in found.items():
        print(_stage_row(kernel, measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
