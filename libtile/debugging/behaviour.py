# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether two modules do the same, as far as runs of the interpreter on random arguments tell.

Both run on copies of the same arguments (`arguments`), over the same grids. Arguments on which the first one faults are
no test: others are drawn; but where it stops at an assertion, the other one has to stop at one as well. In every
second run zeros with a sign, infinities and NaNs are among the floats, and in every third one pointers to elements of
one type point to the same memory, if tokens order all that the first one does there. The same is: the same bytes in
every array and in the module's variables, but for the bits of NaNs, and the same lines printed, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from libtile.asm.module import Module, load, verify
from libtile.debugging.arguments import random_arguments
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.interpreter.entries import Entry, entries, find_entry
from libtile.interpreter.faults import FaultKind, InterpreterFault
from libtile.interpreter.formats import Element, element, from_bits
from libtile.interpreter.launch import run as interpret
from libtile.support.errors import LibtileError
from libtile.support.files import Bytes, Path
from libtile.support.limits import COMPARED_RUNS
from libtile.support.records import dataclass
from libtile.support.signatures import checked

GRIDS = ((2, 1, 1), (3, 2, 1), (1, 1, 1), (2, 2, 2))
"""Grids that runs take in turn, when none is asked for."""

ELEMENTS = (1 << 13, 1 << 20)
"""Sizes of arrays, in elements: larger ones where an access was out of bounds."""

MOST_OPS = 300_000
"""Ops of one run, of all tile blocks together, behind which it counts as one that does not end."""

TRIES = 12
"""Sets of arguments tried for each one that is wanted."""


SHARED = "where pointers to elements of one type point to the same memory"


@dataclass(frozen=True)
class _Drawing:
    """What is special about the arguments of a run."""

    special: bool
    shared: bool


class TooLongError(LibtileError):
    """A run takes more ops than there is patience for."""


def at_most(ops: int) -> Callable[[Any, Operation, Sequence[Any]], None]:
    """A `trace` for the interpreter that ends a run behind so many ops of all tile blocks, with a TooLongError."""
    left = ops

    def count(block: Any, op: Operation, values: Sequence[Any]) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooLongError(f"more than {ops} ops")

    return count


@dataclass(frozen=True)
class Behaviour:
    """What runs showed: how many were compared, and the first difference (None: there was none)."""

    runs: int
    difference: str | None = None


TRIES_SHARED = 2
"""Of those, how many have memory that pointers share, where it is to be tried: many programs race there."""


@dataclass
class _Outcome:
    arguments: list[Any]
    lines: list[str]
    contents: dict[str, np.ndarray]
    """The bytes of the variables that both modules have."""


@checked
def compare_runs(
    left: Module | Operation | Path | Bytes,
    right: Module | Operation | Path | Bytes,
    *,
    kernel: str | None = None,
    runs: int = 3,
    seed: int = 0,
    grid: int | Sequence[int] | None = None,
    check: str = "basic",
) -> Behaviour:
    """Run each kernel of two modules (or the one named) `runs` times (1 to 100,000) on arguments drawn from `seed`.

    Raises LibtileError when a kernel is on one side only or has other parameters there, and when no arguments were
    found on which the first module runs to its end; DiagnosticError for a module that breaks a rule of the dialect.
    """
    if not 1 <= runs <= COMPARED_RUNS:
        raise LibtileError(f"{runs} runs of each kernel compare nothing, or have no end: give 1 to {COMPARED_RUNS}")
    if seed < 0:
        raise LibtileError(f"a seed is a whole number from 0, not {seed}")
    ours, theirs = load(left), load(right)
    for module in (ours, theirs):
        verify(module)
    chosen = [find_entry(ours, kernel)] if kernel is not None else list(entries(ours))
    if not chosen:
        raise LibtileError("the module has no kernel to run")
    if kernel is None:
        _same_kernels(chosen, list(entries(theirs)))
    compared = 0
    for entry in chosen:
        other = find_entry(theirs, entry.name)
        _same_parameters(entry, other)
        for number in range(runs):
            rng = np.random.default_rng([seed, number])
            grids = GRIDS if grid is None else (grid,)
            drawing = _Drawing(special=number % 2 == 1, shared=number % 3 == 2)
            difference = _compare(ours, theirs, entry, rng, [*grids[number % len(grids) :], *grids], check, drawing)
            compared += 1
            if difference is not None:
                name = entry.name
                return Behaviour(compared, f"@{name}, arguments number {number} of seed {seed}: {difference}")
    return Behaviour(compared)


def _same_kernels(ours: list[Entry], theirs: list[Entry]) -> None:
    sides = [{entry.name for entry in side} for side in (ours, theirs)]
    if sides[0] != sides[1]:
        only = ", ".join(f"@{name}" for name in sorted(sides[0] ^ sides[1]))
        raise LibtileError(f"only one of the modules has {only}: name the kernel that is to run")


def _same_parameters(ours: Entry, theirs: Entry) -> None:
    if [p.element for p in ours.parameters] != [p.element for p in theirs.parameters]:
        sides = [", ".join(p.text for p in entry.parameters) for entry in (ours, theirs)]
        raise LibtileError(f"@{ours.name} takes ({sides[0]}) in one module, ({sides[1]}) in the other")


def _compare(
    ours: Operation,
    theirs: Operation,
    entry: Entry,
    rng: np.random.Generator,
    grids: Sequence[int | Sequence[int]],
    check: str,
    drawing: _Drawing,
) -> str | None:
    """What differs between runs on the first arguments on which the first module runs to its end."""
    name, op = entry.name, entry.op
    if not isinstance(op, CudaTileOp):
        raise LibtileError(f"@{name} is in an inner dialect, and arguments are drawn for kernels of Tile IR")
    last = ""
    for number in range(TRIES):
        state = rng.bit_generator.state
        for elements in ELEMENTS:
            rng.bit_generator.state = state  # the same scalars for arrays of every size
            # Where no such arguments do, others may.
            arguments = random_arguments(op, rng, elements, drawing.special and number < TRIES // 2)
            shares = drawing.shared and number < TRIES_SHARED and _share(entry, arguments)
            grid = grids[number % len(grids)]
            given = _copy(arguments)
            try:
                want = _run(ours, name, grid, arguments, f"{check},race" if shares else check)
            except LibtileError as fault:
                last = str(fault)
                if _is(fault, FaultKind.ASSERTION) and not _stops_as_well(theirs, name, grid, given, check):
                    return f"only the first one ends with: {last}"
                if _is(fault, FaultKind.OUT_OF_BOUNDS):
                    continue
                break
            found = _difference(want, theirs, entry, grid, given, check)
            return f"{found} ({SHARED})" if found is not None and shares else found
    raise LibtileError(
        f"no arguments were found on which @{name} runs to its end; the last of {TRIES} ended with: {last}"
    )


def _share(entry: Entry, arguments: list[Any]) -> bool:
    """Let pointers to elements of one type point to the same memory; whether there are such."""
    first: dict[str, np.ndarray] = {}
    shares = False
    for position, argument in enumerate(arguments):
        pointee = entry.parameters[position].pointee
        if pointee is not None and isinstance(argument, np.ndarray):
            arguments[position] = first.setdefault(pointee.name, argument)
            shares |= arguments[position] is not argument
    return shares


def _is(fault: LibtileError, kind: FaultKind) -> bool:
    return isinstance(fault, InterpreterFault) and fault.kind is kind


def _stops_as_well(module: Operation, name: str, grid: int | Sequence[int], arguments: list[Any], check: str) -> bool:
    """Whether an assertion stops a run."""
    try:
        _run(module, name, grid, arguments, check)
    except LibtileError as fault:
        return _is(fault, FaultKind.ASSERTION) or isinstance(fault, TooLongError)
    return False


def _difference(
    want: _Outcome, theirs: Operation, entry: Entry, grid: int | Sequence[int], arguments: list[Any], check: str
) -> str | None:
    try:
        got = _run(theirs, entry.name, grid, arguments, check)
    except LibtileError as fault:
        return f"the second one ends with: {fault}"
    for position, (one, other) in enumerate(zip(want.arguments, got.arguments)):
        if not isinstance(one, np.ndarray):
            continue
        kind = entry.parameters[position].pointee
        if (index := _first_difference(one, other, kind)) is not None:
            return f"element {index} of parameter {position} is {one[index]:#x} and {other[index]:#x} (bits)"
    kinds = _variables(entry)
    for name in kinds.keys() & want.contents.keys() & got.contents.keys():
        mine, its = (_elements(side.contents[name], kinds[name]) for side in (want, got))
        if mine.shape == its.shape and (index := _first_difference(mine, its, kinds[name])) is not None:
            return f"element {index} of variable @{name} differs"
    if want.lines != got.lines:
        extra = [line for line in want.lines if line not in got.lines] or [x for x in got.lines if x not in want.lines]
        return f"only one of them prints {extra[0] if extra else 'some line so often'!r}"
    return None


def _first_difference(one: np.ndarray, other: np.ndarray, kind: Element | None) -> int | None:
    """The first element whose bits differ, and that is not a NaN on both sides."""
    different = (one != other) & ~(_is_nan(one, kind) & _is_nan(other, kind))
    return int(np.flatnonzero(different)[0]) if different.any() else None


def _variables(entry: Entry) -> dict[str, Element]:
    """The element types of the variables beside a kernel that can be written."""
    around = entry.op.parent_block()
    found = [op for op in around.ops if isinstance(op, CudaTileOp) and op.spec.name == "global"] if around else []
    return {op.attribute_value("sym_name"): element(op.attribute_value("value").type) for op in found}


def _elements(memory: np.ndarray, kind: Element) -> np.ndarray:
    """The bit patterns in bytes of memory; the bytes themselves where several elements share one."""
    return memory.view(kind.unsigned_dtype) if kind.width >= 8 else memory


def _is_nan(bits: np.ndarray, kind: Element | None) -> np.ndarray:
    """Which elements of an array are NaNs, whatever their bits."""
    if kind is None or not kind.is_float or kind.width < 8:
        return np.zeros(bits.shape, bool)
    return np.isnan(from_bits(bits, kind))


def _copy(arguments: list[Any]) -> list[Any]:
    """The same arguments in other memory; arrays that are one stay one."""
    copies = {id(argument): argument.copy() for argument in arguments if isinstance(argument, np.ndarray)}
    return [copies.get(id(argument), argument) for argument in arguments]


def _run(module: Operation, name: str, grid: int | Sequence[int], arguments: list[Any], check: str) -> _Outcome:
    contents: dict[str, np.ndarray] = {}
    done = interpret(module, name, grid, arguments, check=check, trace=at_most(MOST_OPS), contents=contents)
    return _Outcome(arguments, sorted(done.output.splitlines()), contents)
