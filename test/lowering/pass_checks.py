# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each pass of the lowering on its own: the interpreter runs the module before it and behind it, and both leave the
same memory, bit by bit, and print the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from libtile.asm.module import diagnose
from libtile.compiler.entry import program_of
from libtile.compiler.options import Options
from libtile.compiler.stages import lower
from libtile.interpreter.launch import run
from libtile.ir.snapshot import Snapshot
from libtile.support.diagnostics import has_errors
from libtile.transforms.canonicalize_tileaa import CanonicalizeTileaaPass

Arguments = Callable[[], Sequence[Any]]
Seen = Callable[[str, Operation], None]
"""Called with the name of a pass and the module behind it, which is changed later on."""


def bits(array: np.ndarray) -> np.ndarray:
    """The bytes of an array."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def copied(args: Any) -> list[Any]:
    """Arguments of which the arrays are copies."""
    return [a.copy() if isinstance(a, np.ndarray) else copied(a) if isinstance(a, list | tuple) else a for a in args]


def watch(module: Operation, gpu_name: str, seen: Seen) -> int:
    """Lower a module, and call `seen` behind each pass that changed something, with the number of the pass's run behind
    its name from the second one on; how many passes ran."""
    runs: Counter[str] = Counter()
    last: Snapshot | None = None

    def behind(name: str, op: Operation) -> None:
        nonlocal last
        runs[name] += 1
        now = Snapshot(op)
        if last is None or not now.same_as(last):
            seen(f"{name} ({runs[name]})" if runs[name] > 1 else name, op)
        last = now
        if name == "convert-cuda-tile-to-tileaa":
            shorter = op.clone()
            assert isinstance(shorter, ModuleOp)
            CanonicalizeTileaaPass().apply(Context(), shorter)
            seen("canonicalize-tileaa (alone)", shorter)

    lower(program_of(module), Options(gpu_name, emit="tileas"), observer=behind)
    return runs.total()


def passes_that_change(module: Operation, gpu_name: str) -> list[str]:
    """The names of the passes that change a module on its way down."""
    names: list[str] = []
    watch(module, gpu_name, lambda name, _: names.append(name))
    return names


class _Comparison:
    """Runs a kernel in the interpreter behind passes, and compares what each run leaves with what the one before
    left."""

    def __init__(self, kernel: str, grid: Any, arguments: Arguments, gpu_name: str, check: str, first: str):
        self.kernel, self.grid, self.gpu_name, self.check, self.first = kernel, grid, gpu_name, check, first
        self.given = list(arguments())
        self.last = ""
        self.before: tuple[list[np.ndarray], str] | None = None

    def outcome(self, module: Operation) -> tuple[list[np.ndarray], str]:
        """What a run leaves in its arrays, as bytes, and prints."""
        args = copied(self.given)
        done = run(module, self.kernel, self.grid, args, check=self.check)
        arrays = [a for arg in args for a in (arg if isinstance(arg, list | tuple) else [arg])]
        return [bits(a) for a in arrays if isinstance(a, np.ndarray)], done.output

    def __call__(self, name: str, module: Operation) -> None:
        if name and name == self.first:
            self.first = ""
        if name and self.first:
            return
        if name:
            found = diagnose(module)
            assert not has_errors(found), f"behind {name}: {found[0].render()}"
        try:
            after = self.outcome(module)
        except Exception as error:
            error.add_note(f"behind {name}, on {self.gpu_name}")
            raise
        if self.before is not None:
            for number, (was, now) in enumerate(zip(self.before[0], after[0], strict=True)):
                assert np.array_equal(was, now), f"{name} changes array {number} (from what it is behind {self.last!r})"
            assert self.before[1] == after[1], f"{name} changes what is printed"
        self.before, self.last = after, name


def check_passes(
    module: Operation,
    kernel: str,
    grid: Any,
    arguments: Arguments,
    gpu_name: str = "sm_90",
    check: str = "basic",
    first: str = "",
) -> int:
    """AssertionError, naming the pass, unless every pass keeps what the kernel does; how many passes there were.

    `arguments` makes the arguments of a run. A module that a pass leaves as it is does not run again. With `first` it
    runs before all passes and then from behind that one on, so that all up to there are compared as one.
    """
    compare = _Comparison(kernel, grid, arguments, gpu_name, check, first)
    compare("", module)
    count = watch(module, gpu_name, compare)
    assert not compare.first, f"{compare.first} changes nothing"
    return count
