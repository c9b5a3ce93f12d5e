# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend `gpu`: compile a kernel for the machine's GPU and launch it with host arrays as its memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from libtile.compiler.options import LAUNCH_ABIS
from libtile.interpreter.entries import LaunchError
from libtile.runtime.cuda_driver import (
    TILE_IR_VERSION,
    AddressTable,
    CudaError,
    Device,
    FromAddress,
    Parameter,
    captured_stdout,
)
from libtile.runtime.tensor_maps import tensor_map
from libtile.support.errors import LibtileError
from libtile.support.files import print_text
from libtile.targets.tensor_map import TensorMapError

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from libtile.interpreter import RunResult
    from libtile.interpreter.address_space import Memory
    from libtile.ir.kernels import TensorMapRecipe


class GpuFault(LibtileError):
    """The program faulted on the GPU, or could not be loaded there; `output` is what it had printed."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def target_name(device: Device, wanted: str | None) -> str:
    """The target to compile for: the wanted one, or the device's own. LibtileError when the device cannot load it."""
    from libtile.targets import target, targets

    if wanted is not None:
        if not device.loads(target(wanted).ptx_target):
            raise LibtileError(f"{device.name} is {device.arch}: it does not load code for {wanted}")
        return wanted
    fitting = [name for name in targets() if device.loads(target(name).ptx_target)]
    if not fitting:
        raise LibtileError(f"{device.name} is {device.arch}: there is no target of libtile that it loads")
    return fitting[-1]


def launch_abi(device: Device, wanted: str | None) -> str:
    """How to launch: as wanted, or as Tile IR where the driver knows it, else as an ordinary kernel."""
    if wanted is None:
        return "tileir" if device.driver_version >= TILE_IR_VERSION else "simt"
    if wanted not in LAUNCH_ABIS:
        raise LibtileError(f"there is no launch ABI {wanted!r}: use one of {', '.join(LAUNCH_ABIS)}")
    return wanted


def run_on_gpu(
    module: Operation,
    kernel: str | None,
    grid: int | Sequence[int],
    args: Sequence[Any],
    *,
    gpu_name: str | None = None,
    opt_level: int = 3,
    abi: str | None = None,
    out: TextIO | None = None,
    device: Device | None = None,
    schedule: str = "",
    libraries: Sequence[bytes] = (),
    repeat: int = 0,
) -> RunResult:
    """Compile a verified module and run a kernel on the GPU; arrays in `args` are modified in place.

    With `repeat` the result's seconds are the shortest of so many further launches, without copies of memory. A pointer
    parameter also takes an int, an address of device memory. Arguments are checked as for the interpreter.
    GpuUnavailableError without a driver or a device, LaunchError for arguments that do not fit, GpuFault for what fails
    on the device.
    """
    from libtile.compiler.compile import compile_module
    from libtile.compiler.options import Options
    from libtile.interpreter.address_space import Memory
    from libtile.interpreter.entries import find_entry
    from libtile.interpreter.launch import normal_grid, prepare
    from libtile.interpreter.machine import RunResult

    device = device or Device()
    entry = find_entry(module, kernel)
    if entry.host:
        raise LaunchError(f"@{entry.name} is a host function, which the interpreter and the simulator run")
    extents = normal_grid(grid)
    memory = Memory()
    values = prepare(entry, args, memory)
    name = entry.name
    used = launch_abi(device, abi)
    options = Options(
        target_name(device, gpu_name), opt_level, launch_abi=used, schedule=schedule, libraries=tuple(libraries)
    )
    made = compile_module(module, options, verify=False)
    compiled = made.kernels[name]
    parameters: list[Parameter] = []
    for arg, value, declared in zip(args, values, compiled.params, strict=True):
        place = _place(memory, int(value)) if isinstance(arg, np.ndarray | list | tuple) else None
        if place is None:
            parameters.append(np.asarray(value).tobytes().ljust(declared.size, b"\0"))
        elif isinstance(arg, np.ndarray):
            parameters.append(place)
        else:
            parameters.append(_table(memory, place[0].view(np.int64), arg))
    if used == "simt":  # else the driver calls the cubin's host code
        parameters += [_tensor_map(recipe, parameters[recipe.base], values, name) for recipe in compiled.descriptors]
    block = compiled.block_dim if used == "simt" else (1, 1, 1)
    started = time.monotonic()
    printed: list[str] = []
    try:
        if any(
            isinstance(arg, int) and parameter.pointee is not None for arg, parameter in zip(args, entry.parameters)
        ):
            device.share()
            device.driver.call("cuCtxSynchronize")  # the work on other streams that arrays on the device wait for
        with captured_stdout() as printed:
            shortest = device.launch(made.cubin, name, extents, block, parameters, repeat=repeat)
    except CudaError as error:
        output = "".join(printed)
        if out is not None:
            print_text(out, output)
        raise GpuFault(f"{name} on {device.name}: {error}{_hint(error, device, used)}", output) from error
    seconds = time.monotonic() - started if shortest is None else shortest
    if out is not None:
        print_text(out, printed[0])
    blocks = extents[0] * extents[1] * extents[2]
    return RunResult(name, extents, blocks, seconds, output=printed[0], backend="gpu", gpu_name=options.gpu_name)


def _place(memory: Memory, address: int) -> tuple[np.ndarray, int] | None:
    """The array that holds an address, and the byte offset into it; None where none does."""
    allocation = memory.find(address)
    return None if allocation is None else (allocation.data, address - allocation.base)


def _table(memory: Memory, words: np.ndarray, arrays: Sequence[np.ndarray]) -> AddressTable:
    """The parameter that is a table of arrays, whose rows begin with their addresses."""
    starts = np.cumsum([0, *(1 + 2 * array.ndim for array in arrays)])[:-1]
    places = {int(start): _place(memory, int(words[start])) for start in starts}
    return AddressTable(words, {start: place for start, place in places.items() if place is not None})


def _tensor_map(recipe: TensorMapRecipe, base: Parameter, values: Sequence[Any], name: str) -> FromAddress:
    """The parameter that is a tensor map. LaunchError for sizes and strides that none has, or for a table."""
    if isinstance(base, AddressTable):
        raise LaunchError(f"parameter {recipe.base} of {name!r} is read through a tensor map, and is no array")
    assert not isinstance(base, FromAddress)  # as no parameter of a program is
    place = int.from_bytes(base, "little") if isinstance(base, bytes) else base
    try:
        tensor_map(recipe, values, 0)
    except TensorMapError as problem:
        raise LaunchError(f"parameter {recipe.base} of {name!r}: {problem}") from None
    return FromAddress(place, lambda address: tensor_map(recipe, values, address))


def _hint(error: CudaError, device: Device, used: str) -> str:
    if error.name == "CUDA_ERROR_JIT_COMPILER_NOT_FOUND":
        return "; the driver loads code that fills tensor maps by libnvidia-ptxjitcompiler.so.1: put it beside libcuda"
    if error.call == "cuModuleLoadData" and used == "tileir" and device.driver_version < TILE_IR_VERSION:
        version = f"{device.driver_version // 1000}.{device.driver_version % 1000 // 10}"
        return f"; a Tile IR cubin needs a driver for CUDA 13.1, and this one is for {version}: use launch_abi='simt'"
    return ""
