# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seconds to compile: our `tileiras` process beside the original's on the same file, and this process when warm.

    python bench/compile_time.py [--kernels vector_add gemm ...] [--target sm_90] [--repeat 5]

Cold runs take turns (ours, theirs, ours, ...), without the compile cache; the ratio is the median
of the pairs'. `cached` is our process with a cache that has the kernel, `warm` the same compilation in a process that
has compiled it before. Each number is the median of the repeats. Under the table: where the time of a cold run goes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from libtile import driver, timing
from libtile.backend.tools import ToolNotFoundError, find_tool
from libtile.errors import LibtileError

ROOT = Path(__file__).resolve().parents[1]
KERNELS = ("vector_add", "softmax", "layer_norm", "gemm", "attention", "histogram", "transpose", "prefix_sum")


def reference_assembler() -> str:
    """NVIDIA's tileiras; ToolNotFoundError when there is none (ours may be on PATH under its name)."""
    tool = find_tool("tileiras")
    said = subprocess.run([str(tool), "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    if "NVIDIA" not in said:
        raise ToolNotFoundError(f"{tool} is not NVIDIA's; pip install nvidia-cuda-tileiras brings it")
    return str(tool)


def process_seconds(command: list[str], environment: dict[str, str]) -> float | None:
    """Wall time of a process; None when it fails."""
    start = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=False, timeout=600)
    return time.perf_counter() - start if done.returncode == 0 else None


def _median(values: list[float | None]) -> str:
    good = [v for v in values if v is not None]
    return f"{statistics.median(good):.3f}" if good and len(good) == len(values) else "-"


def measure(kernel: str, target: str, repeat: int, folder: Path) -> tuple[list[str], str]:
    """The cells of a row, and the report of one cold run."""
    source = ROOT / "examples" / f"{kernel}.bc"
    tail = [f"--gpu-name={target}", str(source), "-o", str(folder / "k.cubin")]
    mine = [sys.executable, "-m", "libtile.tools.tileiras", *tail]
    try:
        original: list[str] | None = [reference_assembler(), *tail]
    except ToolNotFoundError:
        original = None
    off, on = {"LIBTILE_CACHE": "0"}, {"LIBTILE_CACHE": "1", "LIBTILE_CACHE_DIR": str(folder / "cache")}
    cold: list[float | None] = []
    reference: list[float | None] = []
    for _ in range(repeat):
        cold.append(process_seconds(mine, off))
        if original is not None:
            reference.append(process_seconds(original, {}))
    process_seconds(mine, on)
    cached = [process_seconds(mine, on) for _ in range(repeat)] if cold[0] is not None else []
    pairs = [(a, b) for a, b in zip(cold, reference) if a is not None and b is not None]
    ratio = f"{statistics.median(a / b for a, b in pairs):.2f}" if pairs else "-"
    report = subprocess.run([*mine, "--time-report", "--no-cache"], capture_output=True, text=True, check=False).stderr
    return [_median(cold), _median(reference), ratio, _median(cached), _warm(source, target, repeat)], report


def _warm(source: Path, target: str, repeat: int) -> str:
    times: list[float | None] = []
    data = source.read_bytes()
    try:
        driver.compile_bytecode(data, driver.Options(target))
        for _ in range(repeat):
            with timing.collect() as report:
                driver.compile_bytecode(data, driver.Options(target))
            times.append(report.total)
    except LibtileError:
        return "-"
    return _median(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kernels", nargs="+", default=KERNELS)
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    print(f"seconds, {options.target}, median of {options.repeat}\n")
    print("| kernel | ours, cold | theirs, cold | ours / theirs | ours, cached | ours, in-process, warm |")
    print("|---|---:|---:|---:|---:|---:|")
    reports = []
    with tempfile.TemporaryDirectory() as folder:
        for kernel in options.kernels:
            cells, report = measure(kernel, options.target, options.repeat, Path(folder))
            reports.append((kernel, report))
            print(f"| {kernel} | {' | '.join(cells)} |", flush=True)
    for kernel, report in reports:
        print(f"\n{kernel}:\n{report}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
