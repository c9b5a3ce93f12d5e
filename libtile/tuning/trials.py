# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One configuration measured, wherever that is: here, in another process, or by a worker of a cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from libtile.support.errors import LibtileError
from libtile.support.records import dataclass, field
from libtile.tuning.space import Configuration

GPU_LAUNCHES = 20
"""Launches that a measurement on a GPU times one by one."""


@dataclass(frozen=True)
class ArrayPlace:
    """Stands for an array among a trial's arguments: its number among those that all trials share."""

    number: int


@dataclass(frozen=True)
class Trial:
    """What a worker needs, besides the arrays. `arguments` are the kernel's flat parameters; `key` tells the trial from
    any other, in this sweep and in others."""

    configuration: Configuration
    module: bytes
    kernel: str | None
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    gpu_name: str
    measure: str
    blocks: int
    key: str = ""

    def identified(self, shared: str) -> Trial:
        """The trial with its key; `shared` tells what all trials have: the arrays, the compiler, the device."""
        made = hashlib.sha256(self.module)
        choice = self.configuration
        rest = (
            self.kernel, self.grid, self.arguments, self.gpu_name, self.measure,
            self.blocks if self.measure == "estimate" else 0, choice.opt_level, choice.schedule, shared,
        )  # fmt: skip
        made.update(repr(rest).encode())
        return Trial(**{**vars(self), "key": made.hexdigest()[:32]})


@dataclass(frozen=True)
class Outcome:
    """What a trial gave: seconds (measured, or the estimate's: likely ones, or the bound), and what decides between
    equal ones. `limit` is the resource that is nearest its limit; `error` says why there is no time."""

    key: str
    configuration: Configuration
    measure: str
    seconds: float = 0.0
    rank: tuple[float, ...] = ()
    limit: str = ""
    registers: int = 0
    error: str = ""


@dataclass
class Arrays:
    """The arrays that the trials of a sweep share, each once."""

    found: list[np.ndarray] = field(default_factory=list)

    def place(self, argument: Any) -> Any:
        """The argument as a trial carries it."""
        if isinstance(argument, list | tuple):
            return tuple(map(self.place, argument))
        if not isinstance(argument, np.ndarray):
            return argument
        for number, known in enumerate(self.found):
            if known.__array_interface__ == argument.__array_interface__:
                return ArrayPlace(number)
        self.found.append(argument)
        return ArrayPlace(len(self.found) - 1)

    def digest(self) -> str:
        """What tells these arrays from others."""
        made = hashlib.sha256()
        for array in self.found:
            made.update(f"{array.dtype} {array.shape} {array.strides}".encode())
            made.update(np.ascontiguousarray(array).tobytes())
        return made.hexdigest()


def measured(trial: Trial, arrays: Sequence[np.ndarray]) -> Outcome:
    """Measure a trial on copies of the arrays. What libtile refuses is an outcome, too."""

    def argument(given: Any) -> Any:
        if isinstance(given, ArrayPlace):
            return arrays[given.number].copy(order="K")
        return [argument(part) for part in given] if isinstance(given, tuple) else given

    choice = trial.configuration
    args = [argument(given) for given in trial.arguments]
    try:
        if trial.measure == "gpu":
            seconds = _on_gpu(trial, args)
            return Outcome(trial.key, choice, trial.measure, seconds, (seconds,))
        from libtile.explore.estimate import estimate

        told = estimate(
            trial.module, trial.kernel, grid=trial.grid, args=args, gpu_name=trial.gpu_name, opt_level=choice.opt_level,
            schedule=choice.schedule, blocks=trial.blocks,
        )  # fmt: skip
    except LibtileError as error:
        return Outcome(trial.key, choice, trial.measure, error=str(error))
    limit = next(iter(told.sustained), told.resources[0].name if told.resources else "")
    return Outcome(
        trial.key, choice, trial.measure, told.likely_seconds or told.seconds, told.rank, limit, told.facts.registers
    )


def _on_gpu(trial: Trial, args: list[Any]) -> float:
    from libtile.asm.module import load
    from libtile.runtime.gpu import run_on_gpu

    choice = trial.configuration
    done = run_on_gpu(
        load(trial.module), trial.kernel, trial.grid, args,
        gpu_name=trial.gpu_name, opt_level=choice.opt_level, schedule=choice.schedule, repeat=GPU_LAUNCHES,
    )  # fmt: skip
    return done.seconds
