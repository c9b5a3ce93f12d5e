# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running a `ct.kernel` over arrays in host memory."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from libtile.cutile.arrays import GivenArray
from libtile.cutile.refusals import RefusedType, RefusedValue, refused_kernels
from libtile.cutile.signature import Arguments, Table, read_arguments
from libtile.ir.facts import MAX_GRID
from libtile.support.errors import LibtileError
from libtile.support.signatures import checked
from libtile.targets import target

if TYPE_CHECKING:
    from libtile.interpreter import RunResult

Maker = Callable[[Any, Any], bytes]
"""The bytecode of a kernel for a signature."""

Watcher = Callable[[str, str, bytes, tuple[int, ...]], None]
"""Is told of each launch: the kernel's name in Python, that in the bytecode, the bytecode, and the grid."""

DEFAULT_TARGET = "sm_90"
"""What is compiled for without a name. The frontend asks for a target too: some types are refused on older ones."""

DEFAULT_CHECK = "basic,-load-range,-store-range"
"""What the backends that check look for without a choice."""

_compiled: weakref.WeakKeyDictionary[Any, dict[Any, tuple[bytes, str]]] = weakref.WeakKeyDictionary()
"""The bytecode made so far: by kernel, and by target and what is assumed of the arguments."""


def require_cutile() -> None:
    """LibtileError that says what to install when there is no cuTile Python."""
    try:
        import cuda.tile  # noqa: F401
    except ImportError as error:
        how = "which has no build for macOS" if sys.platform == "darwin" else "pip install 'libtile[cutile]'"
        raise LibtileError(f"cuTile Python is needed: {how} ({error})") from None


@checked
def launch(
    kernel: Any,
    grid: Any,
    args: Sequence[Any] = (),
    *,
    backend: str = "interpreter",
    gpu_name: str | None = None,
    check: str | None = None,
    block_order: int | None = None,
    out: TextIO | None = None,
    max_steps: int | None = None,
) -> RunResult:
    """Run a `ct.kernel` over a grid of tile blocks, as `ct.launch` does, with arrays in host memory or, by the backend
    "gpu", on the GPU.

    `grid` is a tuple of one to three extents. `args` are what `ct.launch` takes, with numpy arrays or torch tensors
    for arrays: arrays (also slices and other strided views), lists of them, bools, ints, floats, constants, and
    tuples of all these. They are modified in place.

    `backend` is "interpreter", "simulator" (the code for `gpu_name`, by default sm_90, in the PTX simulator) or "gpu";
    `check`, `block_order`, `out` and `max_steps` are those of `libtile.run`; what a kernel prints goes to stdout
    without `out`. By default `check` lets a tile lie outside of an array altogether, which cuTile does not forbid.

    Returns what the run did. Every error is a LibtileError: for kernels that cuTile cannot compile KernelRefused, which
    is cuTile's own error as well; for arguments and grids that it refuses RefusedType, RefusedValue and RefusedNumber,
    a TypeError, ValueError and OverflowError; InterpreterFault, SimulationFault or GpuFault, with the
    line of the Python source, for a fault of the kernel; LibtileError without cuTile.
    """
    require_cutile()
    if gpu_name is not None:
        target(gpu_name)  # an error for a name of none
    made_by = partial(export, gpu_name=gpu_name or DEFAULT_TARGET)
    return launch_made(
        kernel, grid, args, made_by,
        backend=backend, gpu_name=gpu_name, check=check, block_order=block_order, out=out, max_steps=max_steps,
    )  # fmt: skip


def launch_made(
    kernel: Any,
    grid: Any,
    args: Sequence[Any],
    made_by: Maker,
    *,
    backend: str,
    gpu_name: str | None,
    check: str | None = None,
    block_order: int | None = None,
    out: TextIO | None = None,
    max_steps: int | None = None,
    watch: Watcher | None = None,
) -> RunResult:
    """`launch`, with bytecode that `made_by` makes of a kernel and a signature that it was not launched with before."""
    from libtile.runtime.run import run

    extents = checked_grid(grid)
    data, symbol, arguments = _compile(kernel, tuple(args), gpu_name or DEFAULT_TARGET, made_by)
    if watch is not None:
        watch(kernel._annotated_function.pyfunc.__name__, symbol, data, extents)
    return run(
        data, symbol,
        grid=extents, args=[_given(word, backend == "gpu") for word in arguments.flat],
        backend=backend, gpu_name=gpu_name, check=check or ("basic" if backend == "gpu" else DEFAULT_CHECK),
        block_order=block_order, out=out or sys.stdout, max_steps=max_steps,
        opt_level=kernel._compiler_options.opt_level_for_target(gpu_name or DEFAULT_TARGET),
    )  # fmt: skip


@checked
def bytecode_for(kernel: Any, args: Sequence[Any] = (), *, gpu_name: str = DEFAULT_TARGET) -> tuple[bytes, str]:
    """The Tile IR bytecode of a `ct.kernel` for arguments like these, and the name of the kernel in it."""
    require_cutile()
    target(gpu_name)  # an error for a name of none
    return _compile(kernel, tuple(args), gpu_name, partial(export, gpu_name=gpu_name))[:2]


def flat_launch(kernel: Any, args: Sequence[Any], gpu_name: str) -> tuple[bytes, str, list[Any]]:
    """The bytecode of a `ct.kernel` for arguments, the kernel's name in it, and its flat parameters."""
    require_cutile()
    data, symbol, arguments = _compile(kernel, tuple(args), gpu_name, partial(export, gpu_name=gpu_name))
    return data, symbol, [_given(word) for word in arguments.flat]


def checked_grid(grid: Any) -> tuple[int, ...]:
    """A grid that `ct.launch` takes. RefusedType or RefusedValue for one that it does not."""
    if not isinstance(grid, tuple):
        raise RefusedType("Grid must be a tuple")
    if len(grid) > 3:
        raise RefusedValue(f"Grid dimensions must be at most 3, got length {len(grid)}")
    for axis, extent in enumerate(grid):
        if not hasattr(type(extent), "__index__"):
            raise RefusedType(f"Grid[{axis}] must be an integer, got {type(extent).__name__}")
        if extent > MAX_GRID:
            raise RefusedValue(
                f"Grid[{axis}] exceeds 24-bit limit: max={MAX_GRID}, got={extent}. "
                "Use multiple kernel launches for larger workloads."
            )
    return (*grid, 1, 1, 1)[:3]


def _compile(kernel: Any, args: tuple[Any, ...], gpu_name: str, made_by: Maker) -> tuple[bytes, str, Arguments]:
    from cuda.tile.compilation import CallingConvention, KernelSignature

    if not hasattr(kernel, "_annotated_function"):
        raise RefusedType(f"launch expects a tile kernel, got {type(kernel).__name__}")
    arguments = read_arguments(kernel, args)
    key = (gpu_name, _key(arguments.constraints))
    made = _compiled.setdefault(kernel, {})
    if key not in made:
        convention = CallingConvention.cutile_python_v2()
        name = kernel._annotated_function.pyfunc.__name__
        signature = KernelSignature(arguments.constraints, convention).with_mangled_symbol(name)
        with refused_kernels():
            made[key] = (made_by(kernel, signature), str(signature.symbol))
    return (*made[key], arguments)


def export(kernel: Any, signature: Any, gpu_name: str) -> bytes:
    """The Tile IR bytecode of a `ct.kernel` for a signature, as cuTile's compiler makes it for a target."""
    from cuda.tile._compile import compile_tile

    result = compile_tile(
        kernel._annotated_function,
        (signature,),
        sm_arch=gpu_name,
        compiler_options=kernel._compiler_options,
        bytecode_version=newest_version(),
        return_bytecode=True,
        return_cubin=False,
    )
    return bytes(result.bytecode)


def newest_version() -> Any:
    """The newest version of the bytecode that both cuTile and libtile write, as cuTile's BytecodeVersion."""
    from cuda.tile._bytecode.version import BytecodeVersion

    from libtile.spec import default_spec

    ours = {f"V_{v.major}_{v.minor}" for v in default_spec().released_versions}
    return max((v for v in BytecodeVersion if v.name in ours), key=lambda v: v.value)


def _key(constraint: Any) -> Any:
    """Constraints as something to look up: constants of Python are equal across types, and those of cuTile not."""
    from cuda.tile.compilation import ConstantConstraint, TupleConstraint

    if isinstance(constraint, tuple):
        return tuple(map(_key, constraint))
    if isinstance(constraint, TupleConstraint):
        return ("tuple", *map(_key, constraint.items))
    if isinstance(constraint, ConstantConstraint):
        value = constraint.value
        return ("constant", type(value), value.hex() if isinstance(value, float) else value)
    return constraint


def _given(word: Any, on_gpu: bool = False) -> Any:
    """A flat parameter as the backends take it: of arrays on a GPU, which only that backend takes, the addresses."""
    import numpy as np

    if isinstance(word, GivenArray):
        return word.address if on_gpu and word.memory is None else word.in_host_memory()
    if not isinstance(word, Table):
        return word
    if on_gpu and all(array.memory is None for array in word.arrays):
        return np.array([[array.address, *array.shape, *array.strides] for array in word.arrays], np.int64)
    return [
        np.lib.stride_tricks.as_strided(
            memory[: array.size // size * size].view(f"V{size}"),
            array.shape,
            tuple(size * stride for stride in array.strides),
            writeable=bool(memory.flags.writeable),
        )
        for array in word.arrays
        for memory in [array.in_host_memory()]
        for size in [array.dtype.bitwidth // 8]
    ]
