# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seconds to compile: our `tileiras` process beside the original's on the same file, and this process when warm.

    python bench/compile_time.py [--kernels vector_add gemm ...] [--target sm_90] [--repeat 5] [--before CLONE]
                                 > results/compile-time.md

Cold runs are processes that take turns (ours, theirs, ours, ...), without the compile cache; a ratio is the median of
the pairs'. What Python keeps for itself (`__pycache__`) is there, as it is behind the first run on a machine. `served`,
which takes its turn too, is our process with a compile server that is ready for the target (`LIBTILE_SERVER`); `cached`
is our process with a compile cache that has the kernel, `warm` the same compilation in a process that has compiled it
before. Each number is the median of the repeats. Below: where the time of a cold run goes, in milliseconds; and the
processor time of processes, user and system, those they start included, which others on the machine disturb less: the
least of the repeats. With `--before`, another clone of this repository takes its turn there.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
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
    served: list[float] = field(default_factory=list)
    cached: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    processor: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Processor time of cold runs: `ours`, `theirs`, `before`."""
    stages: list[dict[str, float]] = field(default_factory=list)
    """The time report of each cold run; `process` is what the whole process took."""


class Bench:
    """Runs the assemblers on one kernel after the other."""

    def __init__(self, target: str, repeat: int, folder: Path, before: Path | None):
        self.target = target
        self.before = before
        self.repeat = repeat
        self.folder = folder
        try:
            self.original: str | None = reference_assembler()
        except ToolNotFoundError:
            self.original = None
        self.environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "pycache")}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environment.pop("PYTHONUNBUFFERED", None)
        self.served = {"LIBTILE_CACHE": "0", "LIBTILE_SERVER": "1", "LIBTILE_SERVER_DIR": str(folder / "server")}

    def process(self, command: Sequence[str], clone: Path = ROOT, **environment: str) -> tuple[float, str]:
        """(seconds, what is on stderr) of a process; CalledProcessError when it fails."""
        start = time.perf_counter()
        environment = {**self.environment, **environment}
        done = subprocess.run(
            command, env=environment, cwd=clone, capture_output=True, text=True, check=True, timeout=600
        )
        return time.perf_counter() - start, done.stderr

    def server(self, action: str, *options: str) -> None:
        """Start or stop the compile server; CalledProcessError where that fails."""
        environment = {**self.served, "LIBTILE_SERVER": "0"}
        self.process([sys.executable, "-m", "libtile_cli", "server", action, *options], **environment)

    def served_requests(self) -> int:
        """How many requests the compile server has served."""
        command = [sys.executable, "-m", "libtile_cli", "server", "status"]
        environment = {**self.environment, **self.served, "LIBTILE_SERVER": "0"}
        said = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        found = re.search(r"served: (\d+)", said)
        return int(found[1]) if found else 0

    def processor(self, command: Sequence[str], clone: Path = ROOT) -> float:
        """Seconds of processor time of a process and of those it waits for; ours are the modules of a clone."""
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        places = os.pathsep.join(map(str, (clone, clone / "tools")))
        self.process(command, clone, LIBTILE_CACHE="0", PYTHONPATH=places)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        return end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime

    def processors(self, mine: Sequence[str], theirs: Sequence[str] | None) -> dict[str, list[float]]:
        """Processor times of commands that take turns."""
        runs = {"ours": partial(self.processor, mine)}
        if theirs is not None:
            runs["theirs"] = partial(self.processor, theirs)
        if self.before is not None:
            runs["before"] = partial(self.processor, mine, self.before)
        found: dict[str, list[float]] = defaultdict(list)
        for run in runs.values():
            run()  # what Python keeps for itself
        for _ in range(self.repeat):
            for name, run in runs.items():
                found[name].append(run())
        return found

    def measure(self, kernel: str) -> Measured:
        """All numbers of an example."""
        source = ROOT / "examples" / f"{kernel}.bc"
        tail = [f"--gpu-name={self.target}", str(source), "-o", str(self.folder / "k.cubin")]
        mine = [sys.executable, "-m", "tileiras", *tail]
        theirs = None if self.original is None else [self.original, *tail]
        found = Measured()
        self.process(mine, LIBTILE_CACHE="0")  # fills __pycache__
        before = self.served_requests()
        for _ in range(self.repeat):
            found.cold.append(self.process(mine, LIBTILE_CACHE="0")[0])
            if theirs is not None:
                found.theirs.append(self.process(theirs)[0])
            found.served.append(self.process(mine, **self.served)[0])
            seconds, report = self.process([*mine, "--time-report"], LIBTILE_CACHE="0")
            found.stages.append({**_parsed(report), "process": seconds})
        if self.served_requests() != before + self.repeat:
            raise LibtileError("the compile server has not served all requests")
        found.processor = self.processors(mine, theirs)
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

    cells = [median(found.cold), median(found.theirs), ratio(found.cold), median(found.served), ratio(found.served)]
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


_BC = str(ROOT / "examples" / "vector_add.bc")
STARTS = {
    "tileiras --version": (["tileiras", "--version"], True),
    "tileirdisasm vector_add.bc": (["tileirdisasm", _BC], True),
    "cuda-tile-translate -cudatilebc-to-mlir": (["cuda_tile_translate", "-cudatilebc-to-mlir", _BC], False),
    "cuda-tile-translate -mlir-to-cudatilebc": (
        ["cuda_tile_translate", "-mlir-to-cudatilebc", "KERNEL.mlir", "-o", "OUT"], False
    ),
    "cuda-tile-opt --canonicalize": (["cuda_tile_opt", "--canonicalize", "KERNEL.mlir"], False),
}  # fmt: skip
"""Commands of the table of starts: the module and its arguments, and whether the original has the same."""


def _processor_row(name: str, found: dict[str, list[float]]) -> str:
    """The least processor time of each, in milliseconds, and ours by that of the others."""
    least = {who: min(seconds) for who, seconds in found.items() if seconds}

    def cells(who: str) -> str:
        return f"{1000 * least[who]:.0f} | {least['ours'] / least[who]:.2f}" if who in least else "- | -"

    return f"| {name} | {1000 * least['ours']:.0f} | {cells('theirs')} | {cells('before')} |"


def _print_processor_times(bench: Bench, found: dict[str, Measured]) -> None:
    print("\nProcessor time of cold processes, in milliseconds:\n")
    print("| command | ours | theirs | ours / theirs | before | ours / before |")
    print("|---|---:|---:|---:|---:|---:|")
    for kernel, measured in found.items():
        print(_processor_row(f"tileiras {kernel}.bc", measured.processor), flush=True)
    text = bench.folder / "kernel.mlir"
    printed = [sys.executable, "-m", "cuda_tile_translate", "-cudatilebc-to-mlir", _BC]
    bench.process([*printed, "-o", str(text)])
    places = {"KERNEL.mlir": str(text), "OUT": str(bench.folder / "out.bc")}
    for name, (mine, is_theirs) in STARTS.items():
        original = None
        if is_theirs and bench.original is not None:
            original = [str(Path(bench.original).parent / mine[0]), *mine[1:]]
        command = [sys.executable, "-m", *(places.get(word, word) for word in mine)]
        print(_processor_row(name, bench.processors(command, original)), flush=True)


def _print_means(found: dict[str, Measured]) -> None:
    """The geometric means of the ratios of the first table."""
    for what in ("cold", "served", "warm"):
        ratios = [
            statistics.median(a / b for a, b in zip(getattr(m, what), m.theirs)) for m in found.values() if m.theirs
        ]
        if ratios:
            print(f"\nOurs / theirs, {what}, geometric mean: {statistics.geometric_mean(ratios):.2f}.")


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
    parser.add_argument("--before", type=Path, help="another clone of this repository")
    options = parser.parse_args()
    print("# Compile time\n")
    print(
        f"Made by `python bench/compile_time.py --target {options.target} --repeat {options.repeat}`: {_machine()}.\n"
    )
    print(
        "| kernel | ours, cold | theirs, cold | ours / theirs | ours, served | served / theirs | ours, warm "
        "| warm / theirs | ours, cached |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.target, options.repeat, Path(folder), options.before)
        bench.server("start", f"--gpu-name={options.target}")
        try:
            for kernel in options.kernels:
                try:
                    found[kernel] = bench.measure(kernel)
                except (subprocess.CalledProcessError, LibtileError) as error:
                    print(f"{kernel}: {getattr(error, 'stderr', None) or error}", file=sys.stderr)
                    return 1
                print(_row(kernel, found[kernel]), flush=True)
        finally:
            bench.server("stop")
        _print_means(found)
        _print_processor_times(bench, found)
    print("\nWhere a cold run of ours spends its time, in milliseconds:\n")
    print("| kernel | Python, command line | imports | read, verify | passes | LLVM | ptxas |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for kernel, measured in found.items():
        print(_stage_row(kernel, measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
