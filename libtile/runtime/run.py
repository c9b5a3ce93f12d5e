# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`run`: one kernel, one grid, host arrays as memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from libtile.support.errors import LibtileError
from libtile.support.files import Bytes, Path
from libtile.support.signatures import checked

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from libtile.asm.module import Module
    from libtile.interpreter import RunResult

BACKENDS = ("interpreter", "simulator", "gpu")


@checked
def run(
    module: Module | Operation | Path | Bytes,
    kernel: str | None = None,
    *,
    grid: int | Sequence[int] = 1,
    args: Sequence[Any] = (),
    backend: str = "interpreter",
    gpu_name: str | None = None,
    opt_level: int = 3,
    launch_abi: str | None = None,
    verify: bool = True,
    check: str = "basic",
    block_order: int | str | None = None,
    trace: Callable[..., None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    out: TextIO | None = None,
    pipeline: str = "",
    schedule: str = "",
    libraries: Sequence[bytes] = (),
    processes: int | None = None,
    max_steps: int | None = None,
) -> RunResult:
    """Run a kernel over a grid of tile blocks.

    `module` is a Module, a path, or the bytes of a file (bytecode or text), of Tile IR or of an inner dialect, whose
    memrefs are several parameters: base, sizes and strides as far as their types leave them open. `kernel` may be None
    when the module has one entry. `grid` has one to three extents. `args` are the entry's flat parameters in order: a
    numpy array for a pointer (it is the memory: C-contiguous, of any dtype, modified in place), an int or float for a
    scalar. Sizes and strides may be left out, all of them: they are then the arrays' own, which need not be
    contiguous, or those of an `ArrayArgument`. The module is verified first unless `verify` is False.

    `check` is "off", "basic", "full", or a list of these and single checks, as "basic,view-range" or "full,-race" (see
    `libtile.support.checks`), `block_order` None, "reverse" (interpreter only) or a seed, `out` the stream
    that the kernel prints to; the interpreter also takes `trace`, see `libtile.interpreter.launch.run`, it and the
    simulator `progress`, called with the tile blocks that are done and all of them. Both run them in so many
    `processes` (None: on a large grid, whose blocks cannot depend on each other, one for each processor; the
    interpreter refuses more than one where they can, and says by which op).
    A tile block may run so many ops of the interpreter, or its warps so many instructions of the simulator, as
    `max_steps` says (None: some 10^8, see `libtile.support.limits`): a loop that goes on beyond that is a fault.
    The other backends compile for `gpu_name` at `opt_level` first: the simulator without a name for the target that a
    module of an inner dialect states, or "sm_90", the gpu for the machine's own GPU. `launch_abi` is the gpu's:
    "tileir", "simt", or None for what the driver can do. `pipeline` is the text of the passes that the simulator's
    compilation runs in place of the level's, `schedule` how the compilation schedules loops, and `libraries`
    what bitcode it links, see `libtile.compile`.

    Returns what the run did. Raises DiagnosticError for a module that breaks a rule of the dialect, LaunchError for
    arguments that do not fit, CheckError for a check that the backend does not have, InterpreterFault, SimulationFault
    or GpuFault for a fault of the program, GpuUnavailableError without a driver or a GPU, LibtileError for a module
    that cannot be read.
    """
    if backend not in BACKENDS:
        raise LibtileError(f"there is no backend {backend!r}: use one of {', '.join(BACKENDS)}")
    if backend != "simulator" and pipeline:
        raise LibtileError(f"a pipeline is the simulator's: the {backend} takes none")
    if backend == "interpreter" and libraries:
        raise LibtileError("libraries are a compilation's: the interpreter links none")
    if backend == "interpreter" and schedule:
        raise LibtileError("a schedule is a compilation's: the interpreter takes none")
    if backend != "gpu" and launch_abi is not None:
        raise LibtileError(f"a launch ABI is the gpu's: the {backend} takes none")
    if backend != "interpreter" and trace is not None:
        raise LibtileError(f"a trace is the interpreter's: the {backend} takes none")
    if backend == "gpu" and progress is not None:
        raise LibtileError("the gpu tells no progress: the interpreter and the simulator do")
    if backend == "gpu" and processes is not None:
        raise LibtileError("processes are the interpreter's and the simulator's: the gpu takes none")
    if processes is not None and processes < 1:
        raise LibtileError(f"{processes} processes run nothing: give at least 1")
    if backend == "gpu" and max_steps is not None:
        raise LibtileError("a limit of steps is the interpreter's and the simulator's: the gpu takes none")
    if max_steps is not None and max_steps < 1:
        raise LibtileError(f"{max_steps} steps run nothing: give at least 1")
    if not (block_order is None or isinstance(block_order, int) or block_order == "reverse"):
        raise LibtileError(f"{block_order!r} is not a block order: give 'reverse' or a number, the seed")
    if gpu_name is not None:
        from libtile.targets import target

        target(gpu_name)  # which is an error for a name of none, also where nothing is compiled
    if not 0 <= opt_level <= 3:  # also where nothing is compiled
        raise LibtileError(f"invalid optimization level: {opt_level}")
    from libtile.asm.module import load
    from libtile.asm.module import verify as verify_module

    op = load(module)
    if verify:
        verify_module(op)
    from libtile.interpreter.entries import find_entry
    from libtile.runtime.arguments import flat_arguments

    entry = find_entry(op, kernel)
    kernel, args = entry.name, flat_arguments(entry, args)
    if backend == "gpu":
        if check not in ("off", "basic") or block_order is not None:
            raise LibtileError("the gpu has no checks and no order of blocks: use the simulator or interpreter")
        from libtile.runtime.gpu import run_on_gpu

        return run_on_gpu(
            op, kernel, grid, args,
            gpu_name=gpu_name, opt_level=opt_level, abi=launch_abi, out=out, schedule=schedule, libraries=libraries,
        )  # fmt: skip
    if backend == "simulator":
        from libtile.runtime.simulator import simulate

        return simulate(
            op, kernel, grid, args,
            gpu_name=gpu_name, opt_level=opt_level, check=check, block_order=block_order, out=out, pipeline=pipeline,
            schedule=schedule, libraries=libraries, processes=processes, progress=progress,
            max_steps=max_steps,
        )  # fmt: skip
    from libtile.interpreter.launch import run as interpret

    return interpret(
        op, kernel, grid, args,
        check=check, block_order=block_order, trace=trace, progress=progress, out=out, processes=processes,
        max_steps=max_steps,
    )  # fmt: skip
