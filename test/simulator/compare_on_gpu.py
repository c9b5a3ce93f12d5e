# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run the CUDA corpus on a GPU and compare it with the expected results and with the simulator.

    cd test
    python -m simulator.compare_on_gpu                  # everything that this GPU can run
    python -m simulator.compare_on_gpu --only 'mma_*' --level O3
    python -m simulator.compare_on_gpu --no-simulator   # GPU against the expectations only

Needs `pip install cuda-bindings` and the wheels of the corpus (nvidia-cuda-nvcc, -crt, -runtime, -cccl). The same PTX
goes to the simulator and, assembled by ptxas for the device, to the GPU. Where the PTX ISA promises bits, the two
memories must be identical; approximations must both be within their bound.

Exit status: 0 all agree, 1 some differ, 2 nothing could be run.
"""

from __future__ import annotations

import ctypes
import fnmatch
import os
import re
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from .cuda_cases.table import Array, Case, Launch
from .cuda_corpus import CASES
from .nvcc import LEVELS, CompileError, CompilerMissing, assemble, compile_ptx


class NoGpu(Exception):
    """There is no driver, no device, or no binding to call it with; the message says which."""


class DriverError(Exception):
    """A call of the CUDA driver failed; `name` is the error's symbolic name."""

    def __init__(self, call: str, name: str) -> None:
        super().__init__(f"{call}: {name}")
        self.name = name


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


@contextmanager
def captured_stdout() -> Iterator[list[str]]:
    """Catch file descriptor 1, where the driver prints; the text is in the list once the block has ended."""
    sys.stdout.flush()
    texts: list[str] = []
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield texts
        finally:
            ctypes.CDLL(None).fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))


class Gpu:
    """The first device, through the driver API. A fault poisons its context; `reset` makes a new one."""

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver
        except ImportError as error:
            raise NoGpu("no cuda-bindings: pip install cuda-bindings") from error
        self._driver = driver
        try:
            self._call("cuInit", 0)
            if self._call("cuDeviceGetCount") == 0:
                raise NoGpu("the driver sees no device")
        except DriverError as error:
            raise NoGpu(f"the CUDA driver does not start: {error}") from error
        except RuntimeError as error:  # cuda-bindings raises it when libcuda is absent
            raise NoGpu(f"no CUDA driver: {error}") from error
        self._device = self._call("cuDeviceGet", 0)
        attributes = driver.CUdevice_attribute
        kinds = (
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
        self.capability = tuple(self._call("cuDeviceGetAttribute", kind, self._device) for kind in kinds)
        name = self._call("cuDeviceGetName", 128, self._device)
        self.name = name.split(b"\0")[0].decode() if isinstance(name, bytes) else str(name)
        self._make_context()

    def _call(self, name: str, *args: Any) -> Any:
        status, *results = getattr(self._driver, name)(*args)
        if status != self._driver.CUresult.CUDA_SUCCESS:
            raise DriverError(name, status.name)
        return results[0] if len(results) == 1 else results

    def _make_context(self) -> None:
        context = self._call("cuDevicePrimaryCtxRetain", self._device)
        self._call("cuCtxSetCurrent", context)
        # The recursive kernels, unoptimised, need more than the default 1 KiB.
        self._call("cuCtxSetLimit", self._driver.CUlimit.CU_LIMIT_STACK_SIZE, STACK_BYTES)

    def reset(self) -> None:
        """Throw the context away with all that a faulting kernel left in it."""
        self._call("cuDevicePrimaryCtxReset", self._device)
        self._call("cuDevicePrimaryCtxRelease", self._device)
        self._make_context()

    @property
    def arch(self) -> str:
        return "sm_{}{}".format(*self.capability)

    def runs(self, arch: str) -> bool:
        """Whether code for `arch` can be assembled for this device: it is not newer, and 'a' targets match exactly."""
        digits = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
        if digits is None:
            return False
        wanted = (int(digits[1]), int(digits[2]))
        return wanted == self.capability if digits[3] else wanted <= self.capability

    def run(self, cubin: bytes, case: Case, launch: Launch, types: list[str]) -> tuple[list[Array | None], str]:
        """Launch once. Returns each pointer argument's memory afterwards and what the kernel printed."""
        module = self._call("cuModuleLoadData", np.frombuffer(cubin, np.uint8).ctypes.data)
        buffers: list[tuple[Any, Array]] = []
        try:
            function = self._call("cuModuleGetFunction", module, case.entry.encode())
            holders = []
            memory: list[Array | None] = []
            for kind, argument in zip(types, launch.args, strict=True):
                if isinstance(argument, np.ndarray):
                    array = np.ascontiguousarray(argument)
                    pointer = self._call("cuMemAlloc", max(array.nbytes, 1))
                    self._call("cuMemcpyHtoD", pointer, array.ctypes.data, array.nbytes)
                    buffers.append((pointer, array))
                    memory.append(array)
                    holders.append(np.array([int(pointer)], np.uint64))
                else:
                    memory.append(None)
                    holders.append(np.frombuffer(bytearray(parameter_bytes(kind, argument)), np.uint8))
            addresses = np.array([holder.ctypes.data for holder in holders], np.uint64)
            with captured_stdout() as printed:
                self._call(
                    "cuLaunchKernel",
                    function,
                    *case.grid,
                    *case.block,
                    case.dynamic_shared,
                    0,
                    addresses.ctypes.data,
                    0,
                )
                self._call("cuCtxSynchronize")
            for pointer, array in buffers:
                self._call("cuMemcpyDtoH", array.ctypes.data, pointer, array.nbytes)
            return memory, printed[0]
        finally:
            if launch.fault is None:
                for pointer, _ in buffers:
                    self._call("cuMemFree", pointer)
                self._call("cuModuleUnload", module)


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
    except DriverError as error:
        gpu.reset()
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
    except NoGpu as reason:
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
