# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels on a GPU: ours beside the reference assembler's, Triton's and torch's; `hopper.py` and `blackwell.py` run it.

    python bench/hopper.py --prepare      where the toolchains are: writes bench/cubins/sm_90
    python bench/hopper.py                on the GPU machine: needs that folder, the driver and numpy, nothing else

The folder has the cubins of both assemblers and `launches.json`, which says all that a launch needs; git ignores it. A
kernel is checked against torch, where there is torch, and timed by events of the driver around launches that take turns
between copies of their arrays, so that none finds its own in the cache. Tile IR cubins need a driver for CUDA 13.1: on
an older one both assemblers' code is launched as ordinary kernels, the reference's made of its PTX by the same ptxas.
Where there is no GPU, the same command prints static figures and counts of the simulator.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [p for p in (str(ROOT), str(ROOT / "test"), str(ROOT / "bench")) if p not in sys.path]

from on_gpu_launches import (  # noqa: E402
    MOST_COPIES,
    OURS,
    PLAIN,
    REFERENCE,
    REFERENCE_PLAIN,
    ROTATED_BYTES,
    Code,
    Launch,
    Peaks,
    contents,
    marshal,
    read_folder,
)

from libtile.runtime.cuda_driver import TILE_IR_VERSION, Device, GpuUnavailableError  # noqa: E402
from libtile.support.errors import LibtileError  # noqa: E402

CUBINS = ROOT / "bench" / "cubins"
WARM, BATCHES, EACH, BATCH_SECONDS = 3, 7, 10, 0.02
"""Launches before any is timed, batches of launches, of which the median counts, and launches of a batch: fewer where
they would take longer than that, one at least."""
MOST_DIFFERENT = 0.02
"""Of a result from torch's, of the largest: more is said to be a fault. Results of 16 bits of long sums stay below."""
MULTIPROCESSORS = 16
"""The device attribute."""


class Runner:
    """Launches on one device, through the driver alone."""

    def __init__(self, device: Device, folder: Path):
        self.device, self.driver, self.folder = device, device.driver, folder
        self.multiprocessors = self.driver.number("cuDeviceGetAttribute", MULTIPROCESSORS, 0)
        self._held: tuple[object, list[np.ndarray]] = None, []

    def contents(self, launch: Launch) -> list[np.ndarray]:
        """What a launch's arrays begin with, kept until another launch's are asked for. They are not to be changed."""
        if self._held[0] != launch.arrays:
            self._held = launch.arrays, contents(launch)
        return self._held[1]

    def code(self, launch: Launch, who: str) -> Code | None:
        """How the driver launches a kernel of ours or of the reference's; None where it cannot."""
        if self.device.driver_version < TILE_IR_VERSION:
            who = {OURS: PLAIN, REFERENCE: REFERENCE_PLAIN}[who]
        return launch.codes.get(who)

    def run(self, launch: Launch, who: str) -> tuple[float, list[np.ndarray]] | None:
        """Seconds of a launch, and its results; None for a cubin that there is not. CudaError for what fails."""
        code = self.code(launch, who)
        if code is None:
            return None
        driver, held = self.driver, [array.copy() for array in self.contents(launch)]
        copies = max(1, min(MOST_COPIES, -(-ROTATED_BYTES // max(launch.bytes, 1))))
        module = driver.handle("cuModuleLoadData", (self.folder / code.file).read_bytes())
        function = driver.handle("cuModuleGetFunction", module, launch.kernel.encode())
        places = [[self._copied(array) for array in held]]
        places += [[self._again(*pair) for pair in zip(places[0], held)] for _ in range(copies - 1)]
        grid = launch.grid
        if launch.persistent:
            grid = (min(grid[0], self.multiprocessors), 1, 1)
        grid = (grid[0] * code.cluster, *grid[1:])
        calls = [self._call(function, grid, code.block, marshal(launch, code, addresses)) for addresses in places]
        seconds = self.time(calls)
        results = []
        for address, array, given in zip(places[0], held, launch.arrays, strict=True):
            if given.written:
                driver.call("cuMemcpyDtoH_v2", array.ctypes.data, address, array.nbytes)
                results.append(array)
        for addresses in places:
            for address in addresses:
                driver.call("cuMemFree_v2", address)
        driver.call("cuModuleUnload", module)
        return seconds, results

    def time(self, calls: Sequence[Callable[[], None]]) -> float:
        """Seconds of a call: the median of batches, in which calls follow each other in turns."""
        driver = self.driver
        for number in range(max(WARM, len(calls))):
            calls[number % len(calls)]()
        driver.call("cuCtxSynchronize")
        begin, end = driver.handle("cuEventCreate", 0), driver.handle("cuEventCreate", 0)
        turns = itertools.cycle(calls)

        def batch(count: int) -> float:
            driver.call("cuEventRecord", begin, None)
            for call in itertools.islice(turns, count):
                call()
            driver.call("cuEventRecord", end, None)
            driver.call("cuEventSynchronize", end)
            milliseconds = ctypes.c_float()
            driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
            return milliseconds.value / 1000 / count

        count = max(1, min(EACH, int(BATCH_SECONDS / max(batch(1), 1e-9))))
        found = [batch(count) for _ in range(BATCHES)]
        driver.call("cuEventDestroy_v2", begin)
        driver.call("cuEventDestroy_v2", end)
        return statistics.median(found)

    def _copied(self, array: np.ndarray) -> int:
        address = self.driver.handle("cuMemAlloc_v2", max(array.nbytes, 1))
        self.driver.call("cuMemcpyHtoD_v2", address, array.ctypes.data, array.nbytes)
        return address

    def _again(self, address: int, array: np.ndarray) -> int:
        copy = self.driver.handle("cuMemAlloc_v2", max(array.nbytes, 1))
        self.driver.call("cuMemcpyDtoD_v2", copy, address, array.nbytes)
        return copy

    def _call(
        self, function: int, grid: Sequence[int], block: Sequence[int], parameters: Sequence[bytes]
    ) -> Callable[[], None]:
        holders = [ctypes.create_string_buffer(p, len(p)) for p in parameters]
        addresses = (ctypes.c_void_p * max(len(holders), 1))(*map(ctypes.addressof, holders))

        def call(kept: Any = holders) -> None:
            self.driver.call("cuLaunchKernel", function, *grid, *block, 0, None, addresses, None)

        return call


# -- tables ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """What was found of a launch: seconds by who, the largest difference from torch's result, and what failed."""

    launch: Launch
    seconds: dict[str, float]
    difference: float | None = None
    problem: str = ""


def table(rows: Sequence[Row], peaks: Peaks, others: Sequence[str]) -> str:
    """The rows as a table: our time and its share of what bounds it, and others' times divided by ours."""
    lines = [
        f"| kernel | ours, us | TFLOP/s | GB/s | bound by | of the bound | {' | '.join(f'{o} / ours' for o in others)} "
        "| difference |",
        "|---|---:|---:|---:|---|---:|" + "---:|" * (len(others) + 1),
    ]
    for row in rows:
        launch, own = row.launch, row.seconds.get(OURS)
        what, least = peaks.bound(launch)
        cells = ["-"] * 3 + [what, "-"] + ["-"] * len(others)
        if own:
            ratios = [f"{row.seconds[o] / own:.2f}" if o in row.seconds else "-" for o in others]
            rates = [f"{launch.operations / own / 1e12:.1f}", f"{launch.bytes / own / 1e9:.0f}"]
            cells = [f"{own * 1e6:.1f}", *rates, what, f"{least / own:.2f}", *ratios]
        difference = row.problem or ("-" if row.difference is None else f"{row.difference:.2g}")
        lines.append(f"| {launch.name} | {' | '.join(cells)} | {difference} |")
    ratios = {o: [r.seconds[o] / r.seconds[OURS] for r in rows if o in r.seconds and OURS in r.seconds] for o in others}
    means = [f"{o} {statistics.geometric_mean(r):.2f}" for o, r in ratios.items() if r]
    if means:
        lines += ["", f"Others' times divided by ours, geometric mean: {', '.join(means)}."]
    return "\n".join(lines) + "\n"


def measure(runner: Runner, launches: Sequence[Launch], beside: Any) -> list[Row]:
    """Each launch by all who can, and behind them what several make up; what there is when it is interrupted. `beside`
    is `torch_side.Beside`, or None without torch."""
    rows: list[Row] = []
    try:
        for launch in launches:
            rows.append(_measured(runner, launch, beside))
            print(table(rows[-1:], Peaks({}, 1.0), ()).splitlines()[2], file=sys.stderr, flush=True)
        for name in dict.fromkeys(launch.whole for launch in launches if launch.whole):
            rows.append(_whole(name, [row for row in rows if row.launch.whole == name], runner, beside))
    except KeyboardInterrupt:
        print(f"interrupted: {len(rows)} rows were measured", file=sys.stderr)
    return rows


def _measured(runner: Runner, launch: Launch, beside: Any) -> Row:
    seconds: dict[str, float] = {}
    difference, problems = None, []
    for who in (OURS, REFERENCE):
        try:
            found = runner.run(launch, who)
        except LibtileError as error:
            problems.append(f"{who}: {error}")
            continue
        if found is None:
            continue
        seconds[who], results = found
        if beside is not None:
            different = beside.difference(launch, runner.contents(launch), results)
            if who == OURS:
                difference = different
            if not different <= MOST_DIFFERENT:
                problems.append(f"{who}: differs by {different:.2g} from torch's")
    if beside is not None:
        seconds |= beside.times(launch, runner)
    return Row(launch, seconds, difference, "; ".join(problems).replace("|", "/"))


def _whole(name: str, parts: Sequence[Row], runner: Runner, beside: Any) -> Row:
    """What launches make up: the sum of times of who has one for each, and others' times of it all."""
    first, *rest = (row.launch for row in parts)
    arrays = (*first.arrays, *(array for launch in rest for array in launch.arrays if array.written))
    operations = sum(row.launch.operations for row in parts)
    operation = f"{'causal ' * first.operation.startswith('causal')}attention's gradients"
    launch = replace(first, name=name, operation=operation, arrays=arrays, operations=operations, codes={})
    seconds = {who: sum(row.seconds[who] for row in parts) for who in parts[0].seconds
               if all(who in row.seconds for row in parts)}  # fmt: skip
    if beside is not None:
        seconds |= beside.times(launch, runner)
    problems = [row.problem for row in parts if row.problem]
    return Row(launch, seconds, max((r.difference or 0 for r in parts), default=None), "; ".join(problems))


def arguments(target: str) -> argparse.ArgumentParser:
    """The options of a target's command."""
    parser = argparse.ArgumentParser(description=f"Kernels on {target}: ours, the reference's, Triton's and torch's.")
    parser.add_argument("--prepare", action="store_true", help="make the folder of cubins, with both assemblers")
    parser.add_argument("--folder", type=Path, default=CUBINS / target, help="of cubins (%(default)s)")
    parser.add_argument("--kernels", nargs="+", default=[], help="kernels whose names contain one of these")
    parser.add_argument("-o", "--output", type=Path, help="write the table here; stdout without it")
    return parser


def main(target: str) -> int:
    """The command of a target; its exit status."""
    options = arguments(target).parse_args()
    try:
        if options.prepare:
            from on_gpu_prepare import prepare

            prepare(target, options.folder, options.kernels)
            return 0
        text = _report(target, options.folder, options.kernels)
    except LibtileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


def _report(target: str, folder: Path, names: Sequence[str]) -> str:
    try:
        device = Device()
        if not device.loads(target):
            raise GpuUnavailableError(f"{device.name} is {device.arch}, which does not load code for {target}")
    except GpuUnavailableError as reason:
        from on_gpu_prepare import without_gpu

        return without_gpu(target, str(reason), names)
    launches, peaks = read_folder(folder)
    chosen = [x for x in launches if not names or any(name in x.name for name in names)]
    try:
        from torch_side import Beside

        beside: Any = Beside()
        others = [REFERENCE, *beside.names]
    except ImportError as reason:
        print(f"no torch: {reason}", file=sys.stderr)
        beside, others = None, [REFERENCE]
    rows = measure(Runner(device, folder), chosen, beside)
    note = ""
    if device.driver_version < TILE_IR_VERSION:
        note = "The driver is older than CUDA 13.1: both assemblers' code is launched as ordinary kernels.\n\n"
    return f"# Kernels on {device.name}\n\n{note}{table(rows, peaks, others)}"
