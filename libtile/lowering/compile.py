# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile.compile`, and the launch of what it makes in the simulator."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from libtile.lowering.pipeline import Kernel, Lowered, Observer, lower

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from libtile.api import Module
    from libtile.interpreter import RunResult
    from libtile.remarks import Remark


@dataclass
class Compiled:
    """A compiled module.

    `cubin` is what the driver loads, `ptx` and `llvm_ir` what it was made from, `tileaa` and `tileas` the inner
    dialects' text (when asked for). `kernels` has, by name, parameters, `block_dim`, `cluster`, `smem` (bytes) and
    `registers`; `log` is what ptxas wrote.
    """

    gpu_name: str
    cubin: bytes
    ptx: str
    llvm_ir: str
    tileaa: str = ""
    tileas: str = ""
    kernels: dict[str, Kernel] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    log: str = ""


def compile_module(
    module: Module | Operation | str | os.PathLike[str] | bytes | bytearray | memoryview,
    gpu_name: str = "sm_90",
    opt_level: int = 3,
    *,
    verify: bool = True,
    launch_abi: str = "tileir",
    emit: str = "cubin",
    keep_text: bool = False,
    line_info: bool = False,
    debug: bool = False,
    sanitize: str = "",
    host: tuple[str, str] | None = None,
    observer: Observer | None = None,
    verify_each: bool | None = None,
) -> Compiled:
    """Compile a Module, a path, or the bytes of a file (bytecode or text) for a target such as "sm_90".

    `opt_level` is 0 to 3. `launch_abi` is "tileir" (the kernel is launched with block (1,1,1), as the driver does for
    Tile IR) or "simt" (the launcher gives `block_dim`). `emit`, "tileaa", "tileas", "llvm", "ptx" or "cubin", is where
    to stop. For `sanitize`, `host`, `observer` and `verify_each` see `libtile.lowering.pipeline.lower`.
    Raises DiagnosticError for a module that breaks a rule of the dialect, UnknownTargetError, LoweringError for what
    the target cannot do, and PtxasError when ptxas fails.
    """
    from libtile.api import Module as ModuleClass
    from libtile.runtime.run import check_module, load_module

    op = load_module(module)
    if verify:
        check_module(op)
    made: Lowered = lower(
        ModuleClass(op).tile_module,
        gpu_name,
        opt_level,
        emit=emit,
        keep_text=keep_text,
        observer=observer,
        launch_abi=launch_abi,
        line_info=line_info,
        debug=debug,
        sanitize=sanitize,
        host=host,
        verify_each=verify_each,
    )
    return Compiled(
        gpu_name, made.cubin, made.ptx, made.llvm_ir, made.tileaa, made.tileas, made.kernels, made.remarks, made.log
    )


def simulate(
    module: Operation,
    kernel: str | None,
    grid: int | Sequence[int],
    args: Sequence[Any],
    *,
    gpu_name: str = "sm_90",
    opt_level: int = 3,
    check: str = "basic",
    block_order: int | str | None = None,
    out: TextIO | None = None,
) -> RunResult:
    """Compile a verified module and run a kernel in the PTX simulator; arrays in `args` are modified in place.

    Arguments are checked as for the interpreter. LaunchError for arguments that do not fit, SimulationFault for a
    fault of the program.
    """
    import numpy as np

    from libtile.interpreter.address_space import Memory
    from libtile.interpreter.launch import LaunchError, find_entry, normal_grid, prepare
    from libtile.interpreter.machine import RunResult
    from libtile.simulator import run_ptx

    if block_order is not None and not isinstance(block_order, int):
        raise LaunchError("the simulator takes a number as block order: the seed of its schedule")
    entry = find_entry(module, kernel)
    extents = normal_grid(grid)
    values = prepare(entry, args, Memory())
    name = str(entry.attribute_value("sym_name"))
    made = compile_module(module, gpu_name, opt_level, verify=False, launch_abi="simt", emit="ptx")
    given = [
        arg if isinstance(arg, np.ndarray | list | tuple) else _bytes(value)
        for arg, value in zip(args, values, strict=True)
    ]
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
