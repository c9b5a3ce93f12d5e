# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a module, an entry's name and host values to a launch: finding the entry, memory, parameters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TextIO

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.interpreter.address_space import Memory
from libtile.interpreter.alias_scopes import has_scopes
from libtile.interpreter.codegen import compile_entry
from libtile.interpreter.entries import INNER_FUNCTION, Entry, LaunchError, ParametersError, find_entry
from libtile.interpreter.faults import BlockId, Fault
from libtile.interpreter.machine import Launch, RunResult, run_grid
from libtile.interpreter.parallel import reason_for_one, run_blocks
from libtile.interpreter.races import RaceDetector
from libtile.interpreter.rounding import round_to
from libtile.ir.facts import MAX_GRID
from libtile.support import workers
from libtile.support.arrays import memory_span
from libtile.support.checks import INNER_INTERPRETER, INTERPRETER

_NO_MEMORY = "mMSU"
"""Kinds of numpy's types that no kernel computes with: dates, durations and strings."""


def normal_grid(grid: int | Sequence[int]) -> BlockId:
    """A grid of one to three extents as three. LaunchError when it is none."""
    try:
        extents = tuple(map(operator.index, grid if isinstance(grid, Iterable) else (grid,)))
    except TypeError:
        raise LaunchError(f"a grid has one to three whole numbers, not {grid!r}") from None
    if not 1 <= len(extents) <= 3 or any(not 1 <= n <= MAX_GRID for n in extents):
        given = ", ".join(map(_shown, extents[:4]))
        raise LaunchError(f"a grid has one to three extents from 1 to {MAX_GRID}, not ({given})")
    x, y, z = (*extents, 1, 1)[:3]
    return (x, y, z)


def prepare(entry: Entry, args: Sequence[Any], memory: Memory) -> list[Any]:
    """The entry's parameters as values: arrays are mapped into `memory`, numbers converted.

    A list of arrays stands for a table of 64-bit words in memory, one row for each array: its address, its sizes, its
    strides in elements (what cuTile passes for a list of arrays). LaunchError when something does not fit.
    """
    parameters = entry.parameters
    if len(parameters) != len(args):
        raise entry.miscounted(len(args))
    arrays: list[tuple[np.ndarray, str]] = []
    slots: list[tuple[int, list[np.ndarray] | None]] = []
    values: list[Any] = [None] * len(parameters)
    for position, (parameter, arg) in enumerate(zip(parameters, args)):
        if parameter.pointee is None:
            values[position] = _number(entry, position, arg)
        elif isinstance(arg, (list, tuple)) and all(isinstance(a, np.ndarray) for a in arg):
            slots.append((position, list(arg)))
            arrays += [(_item_of(entry, position, a), f"parameter {position}[{i}]") for i, a in enumerate(arg)]
        elif isinstance(arg, int):
            if not 0 <= arg < 1 << 63:
                raise LaunchError(f"{_shown(arg)} is no address for parameter {position}")
            values[position] = np.int64(arg)
        else:
            slots.append((position, None))
            arrays.append((_memory_of(entry, position, arg), f"parameter {position}"))
    addresses = iter(memory.map_arrays(arrays))
    for position, table in slots:
        if table is None:
            values[position] = np.int64(next(addresses))
        else:
            rows = [[next(addresses), *a.shape, *(s // a.itemsize for s in a.strides)] for a in table]
            words = np.array([w for row in rows for w in row], np.int64)
            values[position] = np.int64(memory.allocate(words.view(np.uint8), f"parameter {position}").base)
    return values


def _item_of(entry: Entry, position: int, array: np.ndarray) -> np.ndarray:
    """An array of a list: its strides are words of the table, so that any but negative ones do."""
    try:
        memory_span(array)
    except ValueError as problem:
        raise LaunchError(f"an array of the list for parameter {position} cannot be passed: {problem}") from None
    return array


def _memory_of(entry: Entry, position: int, arg: Any) -> np.ndarray:
    if not isinstance(arg, np.ndarray):
        raise ParametersError(
            f"parameter {position} is a pointer and takes a numpy array, not {type(arg).__name__}; {entry.describe()}"
        )
    if arg.dtype.hasobject or arg.dtype.byteorder == ">" or arg.dtype.kind in _NO_MEMORY:
        what = f"the array for parameter {position} has elements of {arg.dtype}, which are no device memory"
        turned = arg.dtype.byteorder == ">" and not arg.dtype.hasobject
        raise LaunchError(what + (": convert it to the machine's order of bytes" if turned else ""))
    if isinstance(arg, np.ma.MaskedArray):
        raise LaunchError(f"the array for parameter {position} is masked, which no kernel sees: give its data")
    if not arg.flags.c_contiguous:
        raise LaunchError(f"the array for parameter {position} is not C-contiguous; it is the memory itself")
    pointee = entry.parameters[position].pointee
    if pointee is None or pointee.float is None or not _is_float(arg.dtype):
        return arg
    if arg.itemsize != pointee.storage_bytes:
        # Memory has no type, but floats of another width are a slip (numpy's default is float64), not an intention.
        raise LaunchError(
            f"parameter {position} points to {pointee.name}, and the array has elements of {arg.dtype}: convert "
            "it, or give a view of it as numpy.uint8 if its bytes are meant"
        )
    return arg


def _is_float(dtype: np.dtype) -> bool:
    """Whether elements are floats, numpy's own or those of ml_dtypes."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.name.lstrip("b").startswith("float"))


def _shown(arg: Any) -> str:
    """A value for a message: Python refuses to print integers of thousands of digits."""
    huge = isinstance(arg, int) and arg.bit_length() > 256
    return f"an integer of {arg.bit_length()} bits" if huge else repr(arg)


def _number(entry: Entry, position: int, arg: Any) -> Any:
    elem, text = entry.parameters[position].element, entry.parameters[position].text
    if elem is None:
        raise ParametersError(f"parameter {position} is {text}, which no launch can give; {entry.describe()}")
    try:
        if elem.float is not None:
            if np.ndim(arg) or arg is None or isinstance(arg, str | bytes):
                raise ValueError("not one number")
            return round_to(np.float64(arg), elem.float).astype(elem.dtype)[()]
        number = int(arg)
        if number != arg:
            raise ValueError("not a whole number")
    except (TypeError, ValueError, OverflowError):
        raise ParametersError(
            f"parameter {position} is {text} and takes a number, not {_shown(arg)}; {entry.describe()}"
        ) from None
    if not elem.smallest <= number < 1 << elem.width:
        raise LaunchError(f"{_shown(number)} does not fit parameter {position}, {text}")
    if elem.width == 1:
        return np.bool_(number & 1)
    return np.array(number & ((1 << elem.width) - 1), elem.unsigned_dtype).view(elem.dtype)[()]


def _initial(dense: DenseElementsAttr, name: str) -> np.ndarray:
    """The bytes of a variable. LaunchError without the memory for them."""
    try:
        if not any(dense.raw):
            return np.zeros(dense.memory_bytes, np.uint8)
        return np.frombuffer(bytearray(dense.memory()), np.uint8)
    except (MemoryError, OverflowError, ValueError):
        raise LaunchError(f"there is no memory for the {dense.memory_bytes} bytes of global @{name}") from None


_VARIABLES = ("cuda_tile.global", "nv_tileaa.global")


def _variable(op: Operation) -> tuple[str, DenseElementsAttr, int, bool]:
    """Name, initial value, alignment in bytes and constness of a variable."""
    if isinstance(op, CudaTileOp):
        value, alignment = op.attribute_value("value"), op.attribute_value("alignment")
        return op.attribute_value("sym_name"), value, alignment, bool(op.attribute_value("constant"))
    name, value, alignment = (op.properties.get(key) for key in ("sym_name", "value", "alignment"))
    assert isinstance(name, StringAttr) and isinstance(value, DenseElementsAttr)  # the class declares them so
    step = alignment.value.data if isinstance(alignment, IntegerAttr) else 1
    return name.data, value, step, "constant" in op.properties


def map_globals(entry: Entry, memory: Memory, contents: dict[str, np.ndarray] | None = None) -> dict[str, int]:
    """Allocate the globals of the entry's module, with their initial values; the address of each by name.

    `contents` takes the bytes of those that can be written, as the kernel leaves them.
    """
    module = entry.op.parent_op()
    addresses: dict[str, int] = {}
    if module is None:
        return addresses
    for op in module.regions[0].block.ops:
        if op.name not in _VARIABLES:
            continue
        name, dense, step, constant = _variable(op)
        data = _initial(dense, name)
        if contents is not None and not constant:
            contents[name] = data
        addresses[name] = memory.allocate(data, f"global @{name}", alignment=max(step, 1), read_only=constant).base
    return addresses


def run(
    module: Operation,
    kernel: str | None,
    grid: int | Sequence[int],
    args: Sequence[Any],
    *,
    check: str = "basic",
    block_order: int | str | None = None,
    trace: Callable[..., None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    out: TextIO | None = None,
    processes: int | None = None,
    max_steps: int | None = None,
    start: Callable[[Memory, str, BlockId, Sequence[Any]], None] | None = None,
    contents: dict[str, np.ndarray] | None = None,
) -> RunResult:
    """Execute an entry over a grid, or a host function once; arrays in `args` are modified in place.

    `check` is what is checked (see `libtile.support.checks`), `block_order` None, "reverse" or a seed, `trace` is
    called after each op with (tile block, op, results), `progress` with (blocks done, blocks in all), `out` takes what
    the kernel prints. The blocks run in so many `processes` (None: one for each processor, if they cannot depend on
    each other and it saves time). `max_steps` is the most ops that a tile block may run. `start` runs the kernels that
    a host function launches, in place of the interpreter; `contents` takes the bytes of the module's variables by
    name, as the kernel leaves them. Raises LaunchError or CheckError before running, InterpreterFault while running.
    """
    entry = find_entry(module, kernel)
    inner = entry.op.name == INNER_FUNCTION
    checks = (INNER_INTERPRETER if inner else INTERPRETER).choose(check)
    extents = normal_grid(grid)
    if entry.host and extents != (1, 1, 1):
        raise LaunchError(f"@{entry.name} is a host function, which runs once, and not on a grid of {extents}")
    memory = Memory()
    try:
        values = prepare(entry, args, memory)
        addresses = map_globals(entry, memory, contents)
    except Fault as fault:
        raise LaunchError(fault.message) from None
    if inner:
        from libtile.interpreter.inner_codegen import compile_kernel

        program = compile_kernel(entry.op, checks, addresses, trace)
    else:
        program = compile_entry(entry.op, checks, addresses, trace)
    races = RaceDetector() if "race" in checks else None
    launch = Launch(program, extents, memory, checks, out, races)
    if max_steps is not None:
        launch.max_steps = max_steps
    if start is not None:
        launch.start = partial(start, memory)
    alone = "it is a host function" if entry.host else reason_for_one(program, checks, block_order, trace is not None)
    if alone is None and "alias-scope" in checks and has_scopes(entry.op):
        alone = "the check of alias scopes has to see all of them"
    if alone is None and (workers.available() if processes is None else processes) > 1:
        return run_blocks(launch, values, processes, progress)
    if processes is not None and processes > 1:
        raise LaunchError(f"the tile blocks of @{entry.name} run in one process, and not in {processes}: {alone}")
    return run_grid(launch, values, order=block_order, progress=progress)
