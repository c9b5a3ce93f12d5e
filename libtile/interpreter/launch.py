# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a module, an entry's name and host values to a launch: finding the entry, memory, parameters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

import numpy as np
from xdsl.ir import Attribute, Operation

from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, type_text
from libtile.interpreter.address_space import Memory
from libtile.interpreter.codegen import compile_entry
from libtile.interpreter.faults import BlockId, Fault
from libtile.interpreter.formats import Element, element
from libtile.interpreter.machine import Launch, RunResult, run_grid
from libtile.interpreter.races import RaceDetector
from libtile.interpreter.rounding import round_to
from libtile.support.checks import INTERPRETER
from libtile.support.errors import LibtileError

MAX_GRID = (1 << 24) - 1
"""The largest extent of a grid along one axis (Tile IR specification, get_num_tile_blocks)."""


class LaunchError(LibtileError):
    """A kernel cannot be launched with what was given; the message says what its entry expects."""


def entries(module: Operation) -> Iterator[CudaTileOp]:
    """The entries of a module (or of all modules in a `builtin.module`)."""
    for op in module.walk():
        if isinstance(op, CudaTileOp) and op.spec.name == "entry":
            yield op


def find_entry(module: Operation, kernel: str | None) -> CudaTileOp:
    """The entry named `kernel`; the only one when `kernel` is None. LaunchError when there is none such."""
    found = list(entries(module))
    names = [e.attribute_value("sym_name") for e in found]
    if kernel is None and len(found) == 1:
        return found[0]
    if kernel in names:
        return found[names.index(kernel)]
    what = f"has no kernel named {kernel!r}" if kernel is not None else "has several kernels: name one"
    listed = ", ".join(names) or "none"
    raise LaunchError(f"the module {what} (its kernels: {listed})")


def parameter_types(entry: CudaTileOp) -> list[Attribute]:
    """The types of an entry's parameters, in order."""
    return [a.type for a in entry.regions[0].block.args]


def describe_parameters(entry: CudaTileOp) -> str:
    """One line for each parameter of an entry: its position, its name if it has one, its type and what to give."""
    lines = []
    for position, argument in enumerate(entry.regions[0].block.args):
        name = f" %{argument.name_hint}" if argument.name_hint else ""
        given = "an array" if _pointee(argument.type) is not None else "a number"
        lines.append(f"  {position}:{name} {type_text(argument.type)} ({given})")
    title = f"@{entry.attribute_value('sym_name')} takes {len(lines)} parameter{'' if len(lines) == 1 else 's'}"
    return "\n".join([title + (":" if lines else ""), *lines])


def _pointee(type_: Attribute) -> Element | None:
    return element(type_).pointee if isinstance(type_, TileType) else None


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


def prepare(entry: CudaTileOp, args: Sequence[Any], memory: Memory) -> list[Any]:
    """The entry's parameters as values: arrays are mapped into `memory`, numbers converted.

    A list of arrays stands for a table of 64-bit words in memory, one row for each array: its address, its sizes, its
    strides in elements (what cuTile passes for a list of arrays). LaunchError when something does not fit.
    """
    types = parameter_types(entry)
    if len(types) != len(args):
        raise LaunchError(f"{len(args)} arguments given; {describe_parameters(entry)}")
    arrays: list[tuple[np.ndarray, str]] = []
    slots: list[tuple[int, list[np.ndarray] | None]] = []
    values: list[Any] = [None] * len(types)
    for position, (type_, arg) in enumerate(zip(types, args)):
        if _pointee(type_) is None:
            values[position] = _number(entry, position, type_, arg)
        elif isinstance(arg, (list, tuple)) and all(isinstance(a, np.ndarray) for a in arg):
            slots.append((position, list(arg)))
            arrays += [(_memory_of(entry, position, a), f"parameter {position}[{i}]") for i, a in enumerate(arg)]
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


def _memory_of(entry: CudaTileOp, position: int, arg: Any) -> np.ndarray:
    if not isinstance(arg, np.ndarray):
        raise LaunchError(
            f"parameter {position} is a pointer and takes a numpy array, not {type(arg).__name__}; "
            + describe_parameters(entry)
        )
    if arg.dtype.hasobject or arg.dtype.byteorder == ">":
        raise LaunchError(f"the array for parameter {position} has elements of {arg.dtype}, which are no device memory")
    if not arg.flags.c_contiguous:
        raise LaunchError(f"the array for parameter {position} is not C-contiguous; it is the memory itself")
    pointee = _pointee(parameter_types(entry)[position])
    if pointee is None or pointee.float is None or arg.dtype.kind != "f":
        return arg
    if arg.itemsize != pointee.storage_bytes:
        # Memory has no type, but floats of another width are a slip (numpy's default is float64), not an intention.
        raise LaunchError(
            f"parameter {position} points to {pointee.name}, and the array has elements of {arg.dtype}: convert "
            "it, or give a view of it as numpy.uint8 if its bytes are meant"
        )
    return arg


def _shown(arg: Any) -> str:
    """A value for a message: Python refuses to print integers of thousands of digits."""
    huge = isinstance(arg, int) and arg.bit_length() > 256
    return f"an integer of {arg.bit_length()} bits" if huge else repr(arg)


def _number(entry: CudaTileOp, position: int, type_: Attribute, arg: Any) -> Any:
    elem = element(type_)
    try:
        if elem.float is not None:
            if np.ndim(arg) or arg is None or isinstance(arg, str | bytes):
                raise ValueError("not one number")
            return round_to(np.float64(arg), elem.float).astype(elem.dtype)[()]
        number = int(arg)
        if number != arg:
            raise ValueError("not a whole number")
    except (TypeError, ValueError, OverflowError):
        raise LaunchError(
            f"parameter {position} is {type_text(type_)} and takes a number, not {_shown(arg)}; "
            + describe_parameters(entry)
        ) from None
    if not elem.smallest <= number < 1 << elem.width:
        raise LaunchError(f"{_shown(number)} does not fit parameter {position}, {type_text(type_)}")
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


def map_globals(entry: CudaTileOp, memory: Memory) -> dict[str, int]:
    """Allocate the globals of the entry's module, with their initial values; the address of each by name."""
    module = entry.parent_op()
    addresses: dict[str, int] = {}
    if module is None:
        return addresses
    for op in module.regions[0].block.ops:
        if not isinstance(op, CudaTileOp) or op.spec.name != "global":
            continue
        dense = op.attribute_value("value")
        name = op.attribute_value("sym_name")
        data = _initial(dense, name)
        constant = bool(op.attribute_value("constant"))
        alignment = op.attribute_value("alignment")
        addresses[name] = memory.allocate(data, f"global @{name}", alignment=alignment, read_only=constant).base
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
) -> RunResult:
    """Execute an entry over a grid; arrays in `args` are modified in place.

    `check` is what is checked (see `libtile.support.checks`), `block_order` None, "reverse" or a seed, `trace` is
    called after each op with (tile block, op, results), `progress` with (blocks done, blocks in all), `out` takes what
    the kernel prints.
    Raises LaunchError or CheckError before running, InterpreterFault while running.
    """
    checks = INTERPRETER.choose(check)
    entry = find_entry(module, kernel)
    extents = normal_grid(grid)
    memory = Memory()
    try:
        values = prepare(entry, args, memory)
        addresses = map_globals(entry, memory)
    except Fault as fault:
        raise LaunchError(fault.message) from None
    program = compile_entry(entry, checks, addresses, trace)
    races = RaceDetector() if "race" in checks else None
    launch = Launch(program, extents, memory, checks, out, races)
    return run_grid(launch, values, order=block_order, progress=progress)
