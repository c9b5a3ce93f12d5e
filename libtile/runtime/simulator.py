# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend `simulator`: compile a kernel to PTX and run that on the host, with host arrays as its memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from libtile.interpreter import RunResult


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
) -> RunResult:
    """Compile a verified module and run a kernel in the PTX simulator; arrays in `args` are modified in place.

    Without a name of a target it is the one that a module of an inner dialect states, or else DEFAULT_TARGET.

    Arguments are checked as for the interpreter. LaunchError for arguments that do not fit, SimulationFault for a
    fault of the program.
    """
    import numpy as np

    from libtile.compiler.compile import compile_module
    from libtile.compiler.entry import target_name_of
    from libtile.compiler.options import Options
    from libtile.interpreter.address_space import Memory
    from libtile.interpreter.entries import LaunchError, find_entry
    from libtile.interpreter.launch import normal_grid, prepare
    from libtile.interpreter.machine import RunResult
    from libtile.runtime.tensor_maps import tensor_map
    from libtile.simulator import EncodedTensorMap, run_ptx
    from libtile.targets.tensor_map import TensorMapError

    if block_order is not None and not isinstance(block_order, int):
        raise LaunchError("the simulator takes a number as block order: the seed of its schedule")
    entry = find_entry(module, kernel)
    extents = normal_grid(grid)
    values = prepare(entry, args, Memory())
    name = entry.name
    gpu_name = gpu_name or target_name_of(module) or DEFAULT_TARGET
    options = Options(
        gpu_name, opt_level, launch_abi="simt", emit="ptx", pipeline=pipeline, schedule=schedule,
        libraries=tuple(libraries),
    )  # fmt: skip
    made = compile_module(module, options, verify=False)
    given: list[Any] = [
        arg if isinstance(arg, np.ndarray | list | tuple) else _bytes(value)
        for arg, value in zip(args, values, strict=True)
    ]
    for recipe in made.kernels[name].descriptors:
        array = args[recipe.base]
        if not isinstance(array, np.ndarray):
            raise LaunchError(f"parameter {recipe.base} of {name!r} is read through a tensor map, and is no array")
        try:
            given.append(EncodedTensorMap(array, tensor_map(recipe, values, 0), 0))
        except TensorMapError as problem:
            raise LaunchError(f"parameter {recipe.base} of {name!r}: {problem}") from None
    started = time.monotonic()
    result = run_ptx(
        made.ptx, name, grid=extents, block=made.kernels[name].block_dim, args=given, checks=check, order=block_order
    )
    if out is not None:
        out.write(result.output)
    blocks = extents[0] * extents[1] * extents[2]
    return RunResult(
        name,
        extents,
        blocks,
        result.counters.warp_instructions,
        seconds=time.monotonic() - started,
        output=result.output,
        bank_conflicts=result.counters.bank_conflicts,
    )


def _bytes(value: Any) -> bytes:
    """A scalar parameter as it lies in memory."""
    import numpy as np

    return np.asarray(value).tobytes()
