# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""CPU seconds and peak memory against the size of the input, and the slope on log-log paper.

    python bench/growth.py [--families loop_row entries ...] [--repeat 2] [--seconds 60] > bench/results/growth.md

Each size is a process of its own, and each figure the best of the repeats: CPU time, which other processes disturb less
than elapsed time. The columns are libtile's own work (parse, verify, print, write, read, and the lowering to LLVM IR),
LLVM's and ptxas's, and `all` of a compilation (read, verify, lower, LLVM, ptxas); `write` holds some 0.04 s of loading.
A slope is that from the row at a tenth of the last size or above to the last row: 1 is linear; those above 1.15 are
listed at the end.

    python bench/growth.py --reference [--seconds 60]

is what NVIDIA's tileiras takes for the same bytecode, from beginning to end, up to sizes that take it `--seconds` of
processor time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "test")]

from generators.growing import FAMILIES  # noqa: E402

COMPILATION = ("read", "verify", "lower", "LLVM", "ptxas")
COLUMNS = ("parse", "verify", "print", "optimize", "write", "read", "lower", "LLVM", "ptxas", "all", "MB")
MEMORY = 6 << 30
SMALLEST = 0.02
"""Seconds below which a figure is the clock's rather than the work's; no slope is given for it."""

READING = """\
Each size is a process of its own. The columns are libtile's own work (`lower` is that down to LLVM IR), LLVM's and
ptxas's, and `all` of a compilation: read, verify, lower, LLVM and ptxas. `optimize` is that of cuda_tile at its
highest level, by itself. `write` holds some 0.04 s of loading. A slope is that over the last decade, `-` where a figure
is below 0.02 s. LLVM and ptxas do less beyond limits that
[docs/tileiras.md](../../docs/tileiras.md#very-large-kernels) lists, so that their times may fall there."""

WHOLE = "The steepest slope over a decade from the second one on, of read, verify, lower, LLVM and ptxas together."

LINEAR = 1.15
"""The steepest slope that counts as linear: n log n over a decade of small numbers."""

T = TypeVar("T")


def measure(family: str, size: int, assemble: bool) -> dict[str, float]:
    """CPU seconds by column for one module, and the peak of memory in MB."""
    import libtile
    from libtile.backend import effort, nvptx, ptx, ptxas
    from libtile.backend.work import Made, Work
    from libtile.compiler.compile import compile_module
    from libtile.compiler.options import Options
    from libtile.support.collector import collector_paused
    from libtile.targets import target

    found: dict[str, float] = {}

    def timed(column: str, work: Callable[[], T]) -> T:
        start = time.process_time()
        result = work()
        found[column] = time.process_time() - start
        return result

    make = FAMILIES[family].make
    libtile.compile(libtile.parse(make(FAMILIES[family].sizes[0])), gpu_name="sm_90", emit="ptx")  # loads everything
    text, gpu = make(size), target("sm_90")
    module = timed("parse", lambda: libtile.parse(text))
    timed("verify", lambda: libtile.verify(module))
    timed("print", lambda: libtile.print_module(module))
    timed("optimize", lambda: libtile.optimize(module, verify=False))
    data = timed("write", lambda: libtile.write(module, "13.3"))
    module = timed("read", lambda: libtile.read(data))
    given: list[Work] = []

    def backend(work: Work) -> Made:
        given.append(work)
        return Made("")

    options = Options("sm_90", emit="ptx")
    lowered = timed("lower", lambda: compile_module(module, options, verify=False, backend=backend))
    with collector_paused():
        planned = effort.plan(given[0].size)
        code = timed("LLVM", lambda: nvptx.to_ptx(given[0].llvm_ir, gpu, planned=planned))
    if assemble:
        entries = {name: ptx.EntryDirectives(kernel.block_dim[0]) for name, kernel in lowered.kernels.items()}
        finished = ptx.finish(code, gpu, entries)
        ptxas.assemble(finished, gpu.ptx_target, opt_level=planned.assembler_level(3))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        found["ptxas"] = used.ru_utime + used.ru_stime
        found["all"] = sum(found[column] for column in COMPILATION)
    found["MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def best(family: str, size: int, options: argparse.Namespace) -> dict[str, float]:
    """The best of the repeats; empty when the first of them takes too long or fails."""
    rows: list[dict[str, float]] = []
    command = [sys.executable, __file__, "--one", family, str(size), *(["--no-ptxas"] if options.no_ptxas else [])]
    for _ in range(options.repeat):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=options.seconds,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
            )  # fmt: skip
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as problem:
            print(f"{family} {size}: {problem}", file=sys.stderr)
            return {}
        rows.append(json.loads(done.stdout))
    return {column: min(row[column] for row in rows) for column in rows[0]}


def slope(rows: dict[int, dict[str, float]], column: str) -> str:
    """The slope over the last decade; `-` where the figures are too small to say."""
    last = max(rows)
    first = min(size for size in rows if size * 10 >= last)
    before, after = rows[first].get(column, 0.0), rows[last].get(column, 0.0)
    if first == last or min(before, after) < SMALLEST:
        return "-"
    return f"{math.log(after / before) / math.log(last / first):.2f}"


def reference_seconds(family: str, size: int, most: float) -> float | None:
    """Processor seconds of a compilation by NVIDIA's tileiras at -O3; None when it takes more than `most`, or fails."""
    from static_comparison import reference_assembler

    import libtile

    limit = math.ceil(most)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "k.bc")
        source.write_bytes(libtile.write(libtile.parse(FAMILIES[family].make(size)), "13.3"))
        command = [reference_assembler(), "--gpu-name=sm_90", "-O3", str(source), "-o", f"{folder}/k.cubin"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[0]
        print(f"{family} {size}: {said} after {seconds:.1f} s", file=sys.stderr)
        return None
    return seconds


def print_reference(options: argparse.Namespace) -> None:
    """The table of NVIDIA's tileiras."""
    print("| family | last size | seconds | slope | seconds by size |\n|---|---:|---:|---:|---|", flush=True)
    for family in options.families:
        rows: dict[int, dict[str, float]] = {}
        for size in FAMILIES[family].sizes:
            found = [reference_seconds(family, size, options.seconds) for _ in range(options.repeat)]
            taken = [seconds for seconds in found if seconds is not None]
            if not taken:
                break
            rows[size] = {"all": min(taken)}
        if rows:
            last, steep = max(rows), steepest(rows)
            sizes = ", ".join(f"{size}: {row['all']:.2f}" for size, row in rows.items())
            said = f"{steep:.2f}" if steep is not None else "-"
            print(f"| {family} | {last} | {rows[last]['all']:.2f} | {said} | {sizes} |", flush=True)


def steepest(rows: dict[int, dict[str, float]]) -> float | None:
    """The steepest slope of whole compilations over a decade behind the first; None where there is none to measure."""
    whole = {size: row["all"] for size, row in rows.items() if row.get("all", 0.0) >= SMALLEST}
    later = [size for size in whole if size >= 10 * min(rows)]
    pairs = [(a, b) for a in later for b in later if 9 * a <= b <= 12 * a] or [(a, max(whole)) for a in later[:-1]]
    return max((math.log(whole[b] / whole[a]) / math.log(b / a) for a, b in pairs), default=None)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="elapsed time after which a size is given up")
    parser.add_argument("--no-ptxas", action="store_true")
    parser.add_argument("--reference", action="store_true", help="what NVIDIA's tileiras takes for the same bytecode")
    parser.add_argument("--one", nargs=2, metavar=("FAMILY", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reference:
        print_reference(options)
        return 0
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]), not options.no_ptxas)))
        return 0
    command = " ".join(["python bench/growth.py", *sys.argv[1:]])
    print(f"# Growth\n\nMade by `{command}` for sm_90. CPU seconds, the best of {options.repeat}; ", end="")
    print("MB is the peak of the process.")
    print(f"The load average was {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors.\n\n{READING}\n")
    steep: list[str] = []
    whole: list[str] = []
    for family in options.families:
        print(f"## {family}: {FAMILIES[family].axis}\n\n| size | {' | '.join(COLUMNS)} |")
        print("|---:|" + "---:|" * len(COLUMNS), flush=True)
        rows: dict[int, dict[str, float]] = {}
        for size in FAMILIES[family].sizes:
            row = best(family, size, options)
            if not row:
                break
            rows[size] = row
            cells = [f"{row[c]:.0f}" if c == "MB" else f"{row[c]:.3f}" if c in row else "-" for c in COLUMNS]
            print(f"| {size} | {' | '.join(cells)} |", flush=True)
        if rows:
            slopes = {c: "-" if c == "MB" else slope(rows, c) for c in COLUMNS}
            print(f"| slope | {' | '.join(slopes.values())} |\n", flush=True)
            if (found := steepest(rows)) is not None:
                whole.append(f"| {family} | {max(rows)} | {rows[max(rows)]['all']:.2f} | {found:.2f} |")
            steep += [
                f"- {c} on {FAMILIES[family].axis}: {found} ({rows[max(rows)][c]:.2f} s at {max(rows)})"
                for c, found in slopes.items()
                if found != "-" and float(found) > LINEAR
            ]
    print(f"## Whole compilations\n\n{WHOLE}\n\n| family | size | seconds | slope |\n|---|---:|---:|---:|")
    print("\n".join(whole), end="\n\n")
    print(f"## Slopes above {LINEAR}\n\nptxas is NVIDIA's: its time is its own.\n")
    print("\n".join(steep or ["None."]))
    print(f"\nThe load average at the end was {os.getloadavg()[0]:.1f}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
