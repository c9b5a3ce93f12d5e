# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processor time of compilations beside the reference assembler's, over many kernels; what fails is listed.

    python bench/processor_time.py --target sm_100 [--kernels gemm ...] [--perf] [--folder DIR] [--cold 8] [-o FILE]

The kernels are those of the corpus, of `perf_kernels.py` with `--perf`, or the bytecode files of a folder. Seconds are
of the processor, user and system, those that processes were started in included: other work on the machine disturbs
them little. `ours` is this process, which has compiled before, without a cache, and the least of two; `LLVM + ptxas` is
its part from LLVM IR on; `theirs` is the whole process, the least of two; and `cold`, for each so-many-th kernel, is
our `tileiras` as a process. Files of a folder take the name of what is in them; a kernel that needs a later target is
left out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import static_comparison

from libtile.compiler import driver
from libtile.compiler.options import Options
from libtile.support import timing
from libtile.support.errors import LibtileError

ROOT = Path(__file__).resolve().parents[1]
BACKEND = ("LLVM", "optimize LLVM IR", "print PTX", "ptxas")
REPEATS = 2


def processor_seconds() -> float:
    """Of this process and of those that it has waited for."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


@contextlib.contextmanager
def stages_by_processor() -> Iterator[None]:
    """Within it, stages are measured by the processor's time."""
    before = timing.time
    timing.time = SimpleNamespace(perf_counter=processor_seconds)  # type: ignore[assignment]
    try:
        yield
    finally:
        timing.time = before


@dataclass(frozen=True)
class Found:
    """Seconds of a kernel; None for what failed or was not tried."""

    ours: float | None
    backend: float
    theirs: float | None
    cold: float | None
    problem: str = ""


def least(run: Callable[[], None]) -> float:
    """The processor's seconds of the quicker of some runs."""
    seconds = []
    for _ in range(REPEATS):
        before = processor_seconds()
        run()
        seconds.append(processor_seconds() - before)
    return min(seconds)


def measure(data: bytes, target: str, cold: bool) -> Found:
    """Of a module, by all who take it."""
    best, backend, problem = None, 0.0, ""
    for _ in range(REPEATS):
        try:
            with stages_by_processor(), timing.collect() as report:
                driver.compile_bytecode(data, Options(target))
        except LibtileError as error:
            return Found(None, 0.0, None, None, f"ours: {str(error).splitlines()[0][:160]}")
        if best is None or report.total < best:
            best, backend = report.total, sum(report.stages.get(stage, 0.0) for stage in BACKEND)
    theirs, cold_seconds = None, None
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "k.bc", Path(folder) / "k.cubin"
        source.write_bytes(data)
        tail = [f"--gpu-name={target}", str(source), "-o", str(result)]

        def run(*command: str) -> None:
            environment = {**os.environ, "LIBTILE_CACHE": "0"}
            subprocess.run([*command, *tail], capture_output=True, check=True, timeout=600, env=environment)

        reference = static_comparison.reference_assembler()
        try:
            theirs = least(lambda: run(reference))
        except subprocess.CalledProcessError as error:
            problem = f"theirs: {(error.stderr.decode().splitlines() or ['failed'])[0][:160]}"
        if cold:
            cold_seconds = least(lambda: run(sys.executable, "-m", "tileiras"))
    return Found(best, backend, theirs, cold_seconds, problem)


def programs(options: argparse.Namespace) -> Iterator[tuple[str, bytes]]:
    """Names and bytecode of what is compiled."""
    if options.folder:
        for path in sorted(options.folder.rglob("*.bc")):
            yield path.stem, path.read_bytes()
        return
    if options.perf:
        from perf_kernels import kernels_for

        names = kernels_for(options.target)
    else:
        sys.path[:0] = [str(ROOT), str(ROOT / "test")]
        from kernels import corpus  # type: ignore[import-not-found]

        number = int(options.target[3:])
        names = [name for name, kernel in corpus.KERNELS.items() if int(kernel.gpu_code[3:]) <= number]
    for name in names:
        if not options.kernels or any(part in name for part in options.kernels):
            yield name, static_comparison.bytecode(name, options.target)


def ratios(found: dict[str, Found]) -> list[str]:
    """Geometric means, and what is above 1."""
    both = {name: f for name, f in found.items() if f.ours is not None and f.theirs is not None}
    lines = []
    parts: dict[str, Callable[[Found], float | None]] = {
        "ours": lambda f: f.ours, "LLVM + ptxas": lambda f: f.backend, "cold": lambda f: f.cold
    }  # fmt: skip
    for what, seconds in parts.items():
        values = {name: s / f.theirs for name, f in both.items() if (s := seconds(f)) is not None and f.theirs}
        if values:
            above = [f"{name} ({value:.2f})" for name, value in values.items() if value > 1]
            mean = statistics.geometric_mean(values.values())
            lines.append(f"- {what} / theirs, of {len(values)} kernels: {mean:.2f} in geometric mean, above 1 for "
                         f"{len(above)}{': ' + ', '.join(above) if 0 < len(above) <= 12 else ''}.")  # fmt: skip
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--kernels", nargs="+", default=[], help="kernels whose names contain one of these")
    parser.add_argument("--perf", action="store_true", help="the kernels of perf_kernels.py")
    parser.add_argument("--folder", type=Path, help="of bytecode files")
    parser.add_argument("--cold", type=int, default=0, help="each so-many-th kernel also by a process of ours")
    parser.add_argument("-o", "--output", type=Path, help="write the page here; stdout without it")
    options = parser.parse_args()
    os.environ["LIBTILE_CACHE"] = "0"
    found: dict[str, Found] = {}
    for index, (name, data) in enumerate(programs(options)):
        found[name] = measure(data, options.target, bool(options.cold) and index % options.cold == 0)
        print(name, found[name], file=sys.stderr, flush=True)
    given = " ".join(word for word in sys.argv[1:] if word not in ("-o", str(options.output)))
    failed = [f"- {name}: {f.problem}" for name, f in found.items() if f.problem]
    ours = sum(f.ours is None for f in found.values())
    lines = [
        f"# Processor time of compilations, {options.target}",
        "",
        f"Made by `python bench/processor_time.py {given}` on {date.today()}; seconds of the processor.",
        "",
        f"{len(found)} kernels, of which ours fails on {ours}.",
        "",
        *ratios(found),
        *(["", "What failed:", "", *failed] if failed else []),
        "",
        "| kernel | ours | LLVM + ptxas | theirs | cold | ours / theirs | LLVM + ptxas / theirs |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, f in found.items():
        cells = ["-" if x is None else f"{x:.3f}" for x in (f.ours, f.backend, f.theirs, f.cold)]
        shares = [f"{x / f.theirs:.2f}" if x is not None and f.theirs else "-" for x in (f.ours, f.backend)]
        lines.append(f"| {name} | {' | '.join(cells + shares)} |")
    text = "\n".join(lines) + "\n"
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
