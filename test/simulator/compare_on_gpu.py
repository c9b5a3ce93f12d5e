# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run the CUDA corpus on a GPU and compare it with the expected results and with the simulator.

    cd test
    python -m simulator.compare_on_gpu                  # everything that this GPU can run
    python -m simulator.compare_on_gpu --only 'mma_*' --level O3
    python -m simulator.compare_on_gpu --no-simulator   # GPU against the expectations only

Needs a CUDA driver and the wheels of the corpus (nvidia-cuda-nvcc, -crt, -runtime, -cccl). The same PTX
goes to the simulator and, assembled by ptxas for the device, to the GPU. Where the PTX ISA promises bits, the two
memories must be identical; approximations must both be within their bound.

Exit status: 0 all agree, 1 some differ, 2 nothing could be run.
"""

from __future__ import annotations

import fnmatch
import re
import struct
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from libtile.runtime.cuda_driver import CudaError, Device, GpuUnavailableError, captured_stdout

from .cuda_cases.table import Array, Case, Launch
from .cuda_corpus import CASES
from .nvcc import LEVELS, CompileError, CompilerMissing, assemble, compile_ptx

#: Stack of each GPU thread.
STACK_BYTES = 32 << 10

#: struct format of each scalar parameter type.
SCALARS = {
    "s8": "b", "u8": "B", "b8": "B", "s16": "h", "u16": "H", "b16": "H", "s32": "i", "u32": "I", "b32": "I",
    "s64": "q", "u64": "Q", "b64": "Q", "f32": "f", "f64": "d",
}  # fmt: skip


def parameter_types(ptx: str, entry: str) -> list[str]:
    """The entry's parameters in order: a scalar type's name, or 'bytes' for an aggregate."""
    header = re.search(rf"\.entry\s+{re.escape(entry)}\s*\((.*?)\)", ptx, re.DOTALL)
    if header is None:
        raise ValueError(f"no entry {entry}")
    parameters = [text for text in header.group(1).split(",") if ".param" in text]
    return ["bytes" if "[" in text else _scalar_type(text) for text in parameters]


def _scalar_type(parameter: str) -> str:
    return next(word for word in re.findall(r"\.(\w+)", parameter) if word in SCALARS)


def parameter_bytes(kind: str, value: Any) -> bytes:
    """One scalar or aggregate argument as the launch wants it."""
    if kind == "bytes":
        return bytes(value)
    if kind in ("f32", "f64"):
        return struct.pack(SCALARS[kind], float(value))
    width = struct.calcsize(SCALARS[kind])
    return (int(value) & (1 << 8 * width) - 1).to_bytes(width, "little")


class Gpu(Device):
    """The first device, with a stack for the corpus."""

    def __init__(self) -> None:
        super().__init__()
        # The recursive kernels, unoptimised, need more than the default 1 KiB.
        self.set_stack(STACK_BYTES)

    def run(self, cubin: bytes, case: Case, launch: Launch, types: list[str]) -> tuple[list[Array | None], str]:
        """Launch once. Returns each pointer argument's memory afterwards and what the kernel printed."""
        memory = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) else None for a in launch.args]
        parameters = [
            parameter_bytes(kind, argument) if array is None else (array, 0)
            for kind, argument, array in zip(types, launch.args, memory, strict=True)
        ]
        with captured_stdout() as printed:
            self.launch(cubin, case.entry, case.grid, case.block, parameters, dynamic_shared=case.dynamic_shared)
        return memory, printed[0]


@dataclass
class Row:
    """A line of the report."""

    case: str
    arch: str
    level: str
    expected: str
    simulator: str

    @property
    def good(self) -> bool:
        return self.expected in ("agrees", "faults") and self.simulator in ("same bits", "in bounds", "faults", "-")


def promised_bits(launch: Launch) -> bool:
    """Whether the ISA fixes every byte: results given as arrays, not as bounds, and no order left to the machine."""
    return not launch.varies and all(isinstance(want, np.ndarray) for want in launch.expected.values())


def simulate(case: Case, ptx: Path, gpu_memory: list[Array | None] | None) -> str:
    """Run the simulator on the same PTX; say how its memory compares with the GPU's."""
    from libtile.simulator import SimulationFault, run_ptx

    launch = case.launch()
    try:
        run_ptx(
            ptx.read_text(),
            case.entry,
            grid=case.grid,
            block=case.block,
            dynamic_shared=case.dynamic_shared,
            args=launch.args,
        )
    except SimulationFault as fault:
        return "faults" if fault.kind == launch.fault else f"simulator: {fault}"
    if launch.fault is not None or gpu_memory is None:
        return "simulator did not fault"
    mistakes = launch.mistakes()
    if mistakes:
        return f"simulator: {mistakes[0]}"
    if not promised_bits(launch):
        return "in bounds"
    different = [index for index in launch.expected if not _same_bits(launch.args[index], gpu_memory[index])]
    return f"arguments {different} differ" if different else "same bits"


def _same_bits(first: Array, second: Array | None) -> bool:
    """Equal bytes; NaNs of floating results are equal whatever their payload."""
    if second is None:
        return False
    a, b = first.ravel(), second.ravel()
    width = f"u{a.dtype.itemsize}"
    same = a.view(width) == b.view(width)
    if a.dtype.kind not in "iub":
        same |= np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    return bool(same.all())


def compare(gpu: Gpu, case: Case, arch: str, level: str, cache: Path, with_simulator: bool) -> Row:
    """One kernel of one build."""
    row = Row(case.entry, arch, level, "agrees", "-")
    memory: list[Array | None] | None = None
    try:
        ptx = compile_ptx(case.source, arch, level, cache)
        cubin = ptx.with_suffix(f".{gpu.arch}.cubin")
        if not cubin.is_file():
            suffix = arch.strip("sm_0123456789")  # code for sm_120a needs ptxas to be told sm_120a
            assemble(ptx, gpu.arch + suffix, cubin)
    except CompileError as error:
        row.expected = f"not built: {str(error).splitlines()[1]}"
        return row
    launch = case.launch()
    try:
        memory, printed = gpu.run(cubin.read_bytes(), case, launch, parameter_types(ptx.read_text(), case.entry))
    except CudaError as error:
        row.expected = "faults" if launch.fault else f"GPU: {error}"
    else:
        row.expected = _against_expectation(launch, memory, printed)
    if with_simulator:
        row.simulator = simulate(case, ptx, memory)
    return row


def _against_expectation(launch: Launch, memory: list[Array | None], printed: str) -> str:
    if launch.fault:
        return "the GPU did not fault"
    launch.args[:] = [argument if array is None else array for argument, array in zip(launch.args, memory, strict=True)]
    mistakes = launch.mistakes()
    # CTAs print in any order on a GPU: compare the lines as a set.
    if launch.output is not None and sorted(printed.splitlines()) != sorted(launch.output.splitlines()):
        mistakes.append(f"printed {printed!r}")
    return mistakes[0] if mistakes else "agrees"


@click.command()
@click.option("--only", default="*", help="Kernels to run, as a shell pattern.", metavar="PATTERN")
@click.option("--level", type=click.Choice(sorted(LEVELS)), multiple=True, help="Optimisation levels; all by default.")
@click.option("--simulator/--no-simulator", default=True, help="Also run the simulator and compare its memory.")
@click.option("--cache", type=click.Path(path_type=Path), help="Keep PTX and cubins here between runs.")
@click.option("--verbose", is_flag=True, help="Print the rows that agree, too.")
def main(only: str, level: tuple[str, ...], simulator: bool, cache: Path | None, verbose: bool) -> None:
    """Run the CUDA corpus on this machine's GPU and compare."""
    try:
        gpu = Gpu()
    except GpuUnavailableError as reason:
        click.echo(f"compare_on_gpu: no GPU to compare with: {reason}", err=True)
        sys.exit(2)
    click.echo(f"{gpu.name}, {gpu.arch}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = cache or Path(scratch)
        try:
            rows = [
                compare(gpu, case, arch, chosen, folder, simulator)
                for case in CASES
                if fnmatch.fnmatch(case.entry, only)
                for arch in case.archs
                if gpu.runs(arch)
                for chosen in (level or tuple(LEVELS))
            ]
        except CompilerMissing as reason:
            click.echo(f"compare_on_gpu: cannot compile the corpus: {reason}", err=True)
            sys.exit(2)
    report(rows, verbose)
    sys.exit(0 if rows and all(row.good for row in rows) else 1)


def report(rows: list[Row], verbose: bool) -> None:
    """A table of what differs (or of everything), and a line of totals."""
    shown = [row for row in rows if verbose or not row.good]
    width = max((len(row.case) for row in shown), default=6)
    if shown:
        click.echo(f"{'kernel':{width}}  arch     level  GPU and expectation / simulator and GPU")
    for row in shown:
        click.echo(f"{row.case:{width}}  {row.arch:8} {row.level:5}  {row.expected} / {row.simulator}")
    good = sum(row.good for row in rows)
    identical = sum(row.simulator == "same bits" for row in rows)
    click.echo(f"{len(rows)} runs: {good} agree, {len(rows) - good} differ; {identical} bit for bit with the simulator")


if __name__ == "__main__":
    main()
