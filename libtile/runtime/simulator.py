# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend `simulator`: compile a kernel to PTX and run that on the host, with host arrays as its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from libtile.numerics.elements import POINTER
from libtile.support.checks import SIMULATOR
from libtile.support.files import print_text
from libtile.support.records import replace

if TYPE_CHECKING:
    import numpy as np
    from xdsl.ir import Operation

    from libtile.compiler.options import Compiled, Options
    from libtile.interpreter import RunResult
    from libtile.interpreter.address_space import Memory
    from libtile.interpreter.faults import BlockId


DEFAULT_TARGET = "sm_90"


def simulate(
    module: Operation,
    kernel: str | None,
    grid: int | Sequence[int],
    args: Sequence[Any],
    *,
    gpu_name: str | None = None,
    opt_level: int = 3,
    check: str = "basic",
    block_order: int | str | None = None,
    out: TextIO | None = None,
    pipeline: str = "",
    schedule: str = "",
    libraries: Sequence[bytes] = (),
    processes: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    max_steps: int | None = None,
) -> RunResult:
    """Compile a verified module and run a kernel in the PTX simulator; arrays in `args` are modified in place.

    Without a name of a target it is the one that a module of an inner dialect states, or else DEFAULT_TARGET.

    Arguments are checked as for the interpreter. LaunchError for arguments that do not fit, SimulationFault for a
    fault of the program.
    """
    from libtile.compiler.entry import target_name_of
    from libtile.compiler.options import Options
    from libtile.interpreter.address_space import Memory
    from libtile.interpreter.entries import LaunchError, find_entry
    from libtile.interpreter.launch import normal_grid, prepare
    from libtile.interpreter.launch import run as interpret
    from libtile.interpreter.machine import RunResult

    if block_order is not None and not isinstance(block_order, int):
        raise LaunchError("the simulator takes a number as block order: the seed of its schedule")
    entry = find_entry(module, kernel)
    name = entry.name
    gpu_name = gpu_name or target_name_of(module) or DEFAULT_TARGET
    options = Options(
        gpu_name, opt_level, launch_abi="simt", emit="ptx", pipeline=pipeline, schedule=schedule,
        libraries=tuple(libraries),
    )  # fmt: skip
    if entry.host:
        made = _with_lines(module, options)
        simulation = Simulation(
            made, check, block_order, out, processes=processes, progress=progress, max_steps=max_steps
        )
        done = interpret(module, name, grid, args, check="basic", out=out, max_steps=max_steps, start=simulation.start)
        return simulation.counted(replace(done, backend="simulator", gpu_name=gpu_name, ops=None))
    extents = normal_grid(grid)
    values = prepare(entry, args, Memory())
    made = _with_lines(module, options)
    simulation = Simulation(made, check, block_order, out, processes=processes, progress=progress, max_steps=max_steps)
    started = time.monotonic()
    simulation.run(name, extents, as_given(args, values), values)
    result = RunResult(
        name,
        extents,
        extents[0] * extents[1] * extents[2],
        seconds=time.monotonic() - started,
        output=simulation.output,
        backend="simulator",
        gpu_name=gpu_name,
    )
    return simulation.counted(result)


def _with_lines(module: Operation, options: Options) -> Compiled:
    """The code of a module, with the lines of the source that faults are reported at, unless PTX cannot say them."""
    from libtile.compiler.compile import compile_module
    from libtile.lowering.to_llvm.debug_info import LineError

    try:
        return compile_module(module, replace(options, line_info=True), verify=False)
    except LineError:
        return compile_module(module, options, verify=False)


def as_given(args: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """What a launch of PTX takes for a kernel's arguments: arrays as they are, and the bytes of numbers."""
    import numpy as np

    return [
        arg if isinstance(arg, np.ndarray | list | tuple) else _bytes(value)
        for arg, value in zip(args, values, strict=True)
    ]


class Simulation:
    """The kernels of a compilation, and what their launches did."""

    def __init__(
        self,
        made: Compiled,
        check: str,
        order: int | None = None,
        out: TextIO | None = None,
        *,
        sample: int | None = None,
        processes: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        max_steps: int | None = None,
    ):
        from libtile.simulator.counters import Counters

        self.made = made
        self.check = check
        self.order = order
        self.out = out
        self.sample = sample
        self.processes = processes
        self.progress = progress
        self.max_steps = max_steps
        self.counters = Counters()
        self.output = ""
        self.touched: list[tuple[int, int, int]] = []
        """What the last launch read and wrote, see `libtile.simulator.RunResult`."""
        self.variables: dict[str, np.ndarray] = {}
        """What launches have left in variables of the module, for those behind them."""
        self.used = 1
        """The processes of the launch that had most of them."""

    def run(self, name: str, grid: BlockId, given: list[Any], values: Sequence[Any]) -> None:
        """Launch a kernel with arrays and the bytes of numbers; `values` are the same as numbers and addresses."""
        import numpy as np

        from libtile.interpreter.entries import LaunchError
        from libtile.runtime.tensor_maps import tensor_map
        from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx
        from libtile.targets.tensor_map import TensorMapError

        kernel = self.made.kernels[name]
        arguments = list(given)
        for recipe in kernel.descriptors:
            array = given[recipe.base]
            if not isinstance(array, np.ndarray):
                raise LaunchError(f"parameter {recipe.base} of {name!r} is read through a tensor map, and is no array")
            try:
                arguments.append(EncodedTensorMap(array, tensor_map(recipe, values, 0), 0))
            except TensorMapError as problem:
                raise LaunchError(f"parameter {recipe.base} of {name!r}: {problem}") from None
        try:
            result = run_ptx(
                self.made.ptx, name, grid=grid, block=kernel.block_dim, args=arguments, checks=self.check,
                order=self.order, sample=self.sample, processes=self.processes, progress=self.progress,
                variables=self.variables, max_instructions=self.max_steps,
            )  # fmt: skip
        except SimulationFault as fault:
            if self.out is not None:
                print_text(self.out, fault.output)
            raise
        if self.out is not None:
            print_text(self.out, result.output)
        self.output += result.output
        self.counters.add(result.counters)
        self.touched = result.touched
        self.used = max(self.used, result.processes)

    def counted(self, result: RunResult) -> RunResult:
        """The result with what was counted; of memory, only where that was asked for."""
        result.processes = self.used
        result.warp_instructions = self.counters.warp_instructions
        counts_memory = "counters" in SIMULATOR.choose(self.check)
        result.bytes_read = self.counters.global_bytes_read if counts_memory else None
        result.bytes_written = self.counters.global_bytes_written if counts_memory else None
        result.bank_conflicts = self.counters.bank_conflicts if counts_memory else None
        return result

    def start(self, memory: Memory, name: str, grid: BlockId, values: Sequence[Any]) -> None:
        """Launch a kernel for a host function, whose memory the addresses among the values are in."""
        given: list[Any] = []
        for value, parameter in zip(values, self.made.kernels[name].params, strict=True):
            allocation = memory.find(int(value)) if parameter.type == POINTER else None
            given.append(_bytes(value) if allocation is None else allocation.data[int(value) - allocation.base :])
        self.run(name, grid, given, values)


def _bytes(value: Any) -> bytes:
    """A scalar parameter as it lies in memory."""
    import numpy as np

    return np.asarray(value).tobytes()
