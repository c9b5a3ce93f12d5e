# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tune`: every configuration of a space, measured where there is a GPU and estimated where there is none."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import IO, Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from libtile.asm.module import Module, load, print_module, verify
from libtile.compiler.driver import compiler_identity
from libtile.dialects.cuda_tile.attributes import OptimizationHintsAttr
from libtile.dialects.cuda_tile.one_module import tile_module_in
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.to_bytecode import left_out, write_bytecode
from libtile.dialects.cuda_tile.types import i1, i32
from libtile.explore.estimate import BLOCKS
from libtile.explore.quantities import duration
from libtile.interpreter.entries import find_entry
from libtile.runtime.arguments import flat_arguments
from libtile.spec import default_spec
from libtile.support.errors import LibtileError, reason
from libtile.support.files import Bytes, Path, file_bytes
from libtile.support.records import dataclass
from libtile.support.signatures import checked
from libtile.tuning import workers
from libtile.tuning.space import Configuration, Space
from libtile.tuning.trials import Arrays, Outcome, Trial

DEFAULT_TARGET = "sm_90"
MEASURES = ("gpu", "estimate")

Grid = int | Sequence[int] | Callable[[Mapping[str, Any]], Any]
"""The grid, or the function that gives it for the values of a configuration, by name."""

Progress = Callable[[int, int, "Outcome"], None]
"""Called with the trials that are done, all of them, and the newest outcome."""


@dataclass
class Sweep:
    """The outcomes of a space, the best first; what could not be measured comes last."""

    gpu_name: str
    measure: str
    outcomes: list[Outcome]
    resumed: int = 0
    """Outcomes that a results file had already."""

    @property
    def best(self) -> Outcome:
        """The best outcome. LibtileError when there is none but failures."""
        if self.outcomes[0].error:
            raise LibtileError(f"no configuration could be measured: {self.outcomes[0].error}")
        return self.outcomes[0]

    def as_data(self) -> dict[str, Any]:
        """Numbers and strings, as JSON takes them."""
        found = [asdict(outcome) for outcome in self.outcomes]
        return {"gpu_name": self.gpu_name, "measure": self.measure, "outcomes": found}

    def __str__(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        how = "measured" if self.measure == "gpu" else "estimated from counts: none of these was measured"
        failed = sum(bool(outcome.error) for outcome in self.outcomes)
        rest = (f", {failed} failed" if failed else "") + (f", {self.resumed} from before" if self.resumed else "")
        many = "s" * (len(self.outcomes) != 1)
        yield f"{len(self.outcomes)} configuration{many} for {self.gpu_name}, {how}{rest}"
        width = max(len(str(outcome.configuration)) for outcome in self.outcomes)
        for outcome in self.outcomes:
            said = f"failed: {outcome.error.partition(chr(10))[0]}" if outcome.error else duration(outcome.seconds)
            more = [*([outcome.limit] if outcome.limit else [])]
            more += [f"{outcome.registers} registers"] if outcome.registers else []
            yield f"  {outcome.configuration!s:{width}}  {said:>8}  {', '.join(more)}".rstrip()


@checked
def tune(
    source: Any,
    space: Space,
    *,
    grid: Grid = 1,
    args: Sequence[Any] = (),
    kernel: str | None = None,
    gpu_name: str | None = None,
    measure: str | None = None,
    blocks: int = BLOCKS,
    processes: int | None = None,
    scheduler: str | None = None,
    results: Path | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Measure every configuration of a space, and rank them.

    `source` is a module (a Module, a path or bytes, bytecode or text) with `args` and `kernel` as of `libtile.run`, or
    a `@ct.kernel` with the arguments that `ct.launch` takes: the space's constants take the place of parameters of
    their names. `grid` may be a function of the configuration's values. `measure` is "gpu" (the shortest of several
    launches, one trial at a time), "estimate" (see `libtile.estimate`, of which `blocks` is), or None: the GPU where
    there is one.

    Estimates are made by `processes` of this machine (None: one for each processor), or by the workers of the Dask
    scheduler at the address `scheduler`. `results` is a file that gets a line for each outcome; what it has of the same
    trials is taken from it, so that a sweep that was stopped goes on; trials of another libtile, or on another GPU, are
    others. Returns the Sweep. Raises LibtileError for what
    fits no configuration; a configuration that cannot be compiled or run is an outcome with an error.
    """
    chosen, target_name, device = _measure(measure, gpu_name)
    arrays = Arrays()
    failed: list[Outcome] = []
    choices = space.configurations(target_name)
    made = list(_trials(source, choices, grid, args, kernel, target_name, chosen, blocks, arrays, failed))
    # Another release's outcomes, and those of another GPU of the same target, are others.
    shared = f"{arrays.digest()} {compiler_identity()} {device}"
    trials = {trial.key: trial for trial in (trial.identified(shared) for trial in made)}
    with ExitStack() as stack:
        file, known = (None, {}) if results is None else _open(results, stack)
        outcomes = [known[key] for key in trials if key in known]
        resumed = len(outcomes)
        outcomes += failed
        left = [trial for key, trial in trials.items() if key not in known]
        for outcome in _outcomes(left, arrays, chosen, processes, scheduler):
            outcomes.append(outcome)
            if file is not None:
                file.write(json.dumps(asdict(outcome)) + "\n")
                file.flush()
            if progress is not None:
                progress(len(outcomes), len(trials) + len(failed), outcome)
    outcomes.sort(key=lambda outcome: (bool(outcome.error), outcome.rank, str(outcome.configuration)))
    return Sweep(target_name, chosen, outcomes, resumed)


def _measure(measure: str | None, gpu_name: str | None) -> tuple[str, str, str]:
    """How to measure, for which target, and on which device; nothing for estimates."""
    from libtile.runtime.cuda_driver import Device, GpuUnavailableError
    from libtile.runtime.gpu import target_name

    if measure not in (None, *MEASURES):
        raise LibtileError(f"there is no measure {measure!r}: use one of {', '.join(MEASURES)}")
    if measure != "estimate":
        try:
            device = Device()
            return "gpu", target_name(device, gpu_name), device.name
        except GpuUnavailableError:
            if measure == "gpu":
                raise
    return "estimate", gpu_name or DEFAULT_TARGET, ""


def _outcomes(
    left: list[Trial], arrays: Arrays, measure: str, processes: int | None, scheduler: str | None
) -> Iterator[Outcome]:
    count = workers.available() if processes is None else processes
    if count < 1:
        raise LibtileError(f"{count} processes cannot estimate anything: give at least 1")
    if measure == "gpu" and scheduler is not None:
        raise LibtileError("a GPU is measured here, one trial at a time: a scheduler takes estimates")
    if not left:
        return iter(())
    if scheduler is not None:
        return workers.on_cluster(left, arrays.found, scheduler)
    if measure == "gpu" or count == 1 or len(left) == 1:
        return workers.here(left, arrays.found)
    return workers.in_processes(left, arrays.found, count)


# -- trials -----------------------------------------------------------------------------------------------------------


def _trials(
    source: Any, choices: list[Configuration], grid: Grid, args: Sequence[Any], kernel: str | None, gpu_name: str,
    measure: str, blocks: int, arrays: Arrays, failed: list[Outcome],
) -> Iterator[Trial]:  # fmt: skip
    """The trials of all choices, but for those that cuTile refuses, which are outcomes already."""
    prepared = (
        _of_kernel(source, args, gpu_name)
        if hasattr(source, "_annotated_function")
        else _of_module(source, args, kernel)
    )
    for choice in choices:
        try:
            op, name, flat = prepared(choice)
        except _Refused as error:
            failed.append(Outcome("", choice, measure, error=str(error)))
            continue
        data = _bytes(_hinted(op, choice.hints, gpu_name))
        arguments = tuple(arrays.place(argument) for argument in flat)
        yield Trial(choice, data, name, _grid(grid, choice), arguments, gpu_name, measure, blocks)


def _bytes(module: Operation) -> bytes:
    """The module as a file of either form: bytecode has no place for the attributes that passes are told by."""
    if left_out(module):
        return print_module(module, debuginfo=True).encode()
    return write_bytecode(module)


class _Refused(LibtileError):
    """cuTile does not compile a kernel with these constants."""


Prepared = Callable[[Configuration], tuple[Operation, str, Sequence[Any]]]


def _of_module(source: Module | Operation | Path | Bytes, args: Sequence[Any], kernel: str | None) -> Prepared:
    op = load(source)
    verify(op)
    op = tile_module_in(op)
    entry = find_entry(op, kernel)
    flat = flat_arguments(entry, args)

    def prepared(choice: Configuration) -> tuple[Operation, str, Sequence[Any]]:
        if choice.constants:
            name = next(iter(choice.constants))
            raise LibtileError(f"'{name}' is a constant of a @ct.kernel, and this is a module, which has none left")
        return op, entry.name, flat

    return prepared


def _of_kernel(kernel: Any, args: Sequence[Any], gpu_name: str) -> Prepared:
    from cuda.tile import TileError

    from libtile.cutile.launching import flat_launch

    names = list(inspect.signature(kernel._annotated_function.pyfunc).parameters)

    def prepared(choice: Configuration) -> tuple[Operation, str, Sequence[Any]]:
        given = list(args)
        for name, value in choice.constants.items():
            if name not in names or names.index(name) >= len(given):
                raise LibtileError(f"the kernel has no argument '{name}': it has {', '.join(names)}")
            given[names.index(name)] = value
        try:
            data, symbol, flat = flat_launch(kernel, given, gpu_name)
        except TileError as error:
            raise _Refused(str(error)) from None
        return load(data), symbol, flat

    return prepared


def _grid(grid: Grid, choice: Configuration) -> tuple[int, ...]:
    found = grid(choice.values) if callable(grid) else grid
    extents = (found,) if isinstance(found, int) else tuple(found)
    if not 1 <= len(extents) <= 3 or not all(isinstance(extent, int) and extent > 0 for extent in extents):
        raise LibtileError(f"the grid of {choice} is {found!r}: give one to three positive numbers")
    return extents


def _hinted(module: Operation, hints: Mapping[str, int], gpu_name: str) -> Operation:
    """A copy in which every op that takes one of the hints has it, for the target."""
    module = module.clone()
    declared = default_spec().hints
    for op in module.walk():
        mine = {
            key: IntegerAttr(value, i1 if declared[key].kind == "bool" else i32)
            for key, value in hints.items()
            if isinstance(op, CudaTileOp) and op.spec.name in declared[key].ops
        }
        if not mine:
            continue
        given = op.properties.get("optimization_hints")
        all_hints = given.hints if isinstance(given, OptimizationHintsAttr) else {}
        all_hints[gpu_name] = {**all_hints.get(gpu_name, {}), **mine}
        op.properties["optimization_hints"] = OptimizationHintsAttr(all_hints)
    return module


# -- the results file -------------------------------------------------------------------------------------------------

_FORMAT = {"libtile tuning results": 1}


def _open(path: Path, stack: ExitStack) -> tuple[IO[str], dict[str, Outcome]]:
    """The file, to be added to, and what it has; a line that was not finished is taken away."""
    place = FilePath(os.fspath(path))
    try:
        if place.exists() and not place.is_file() and not place.samefile(os.devnull):
            raise ValueError("it is no regular file")
        text = file_bytes(place).decode() if place.is_file() else ""
        whole = text[: text.rfind("\n") + 1]
        lines = whole.splitlines()
        if lines and json.loads(lines[0]) != _FORMAT:
            raise ValueError("its first line is another one's")
        known = [_outcome(json.loads(line)) for line in lines[1:]]
        if len(whole) != len(text):
            place.write_text(whole, encoding="utf-8")
        file = stack.enter_context(place.open("a", encoding="utf-8"))
    except OSError as error:
        raise LibtileError(f"cannot open '{place}': {reason(error)}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise LibtileError(f"'{place}' is no file of tuning results: {error}") from None
    if not lines:
        file.write(json.dumps(_FORMAT) + "\n")
        file.flush()
    return file, {outcome.key: outcome for outcome in known if not outcome.error}


def _outcome(data: Any) -> Outcome:
    """The outcome of a line. ValueError, KeyError or TypeError for what is none."""
    if not isinstance(data, dict):
        raise ValueError("a line is no outcome")
    choice = Configuration(**data.pop("configuration"))
    made = Outcome(configuration=choice, **{**data, "rank": tuple(data["rank"])})
    numbers = (made.seconds, made.registers, choice.opt_level, *made.rank)
    texts = (made.key, made.measure, made.limit, made.error, choice.schedule)
    mappings = (choice.hints, choice.constants)
    for values, kind in ((numbers, int | float), (texts, str), (mappings, dict)):
        if not all(isinstance(value, kind) for value in values):
            raise ValueError("an outcome has a value of another kind")
    return made
