# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each pass of the lowering on its own: the interpreter runs the module before it and behind it, and both leave the
same memory, bit by bit, and print the same."""

from __future__ import annotations

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
from libtile.support.diagnostics import has_errors
from libtile.transforms.canonicalize_tileaa import CanonicalizeTileaaPass

Outcome = tuple[list[np.ndarray], str]


def bits(array: np.ndarray) -> np.ndarray:
    """The bytes of an array."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def outcome(module: Operation, kernel: str, grid: Any, arguments: Callable[[], Sequence[Any]], check: str) -> Outcome:
    """What a run leaves in its arrays, as bytes, and prints."""
    args = arguments()
    done = run(module, kernel, grid, args, check=check)
    arrays = [a for arg in args for a in (arg if isinstance(arg, list | tuple) else [arg])]
    return [bits(a) for a in arrays if isinstance(a, np.ndarray)], done.output


def modules_of(module: Operation, gpu_name: str) -> dict[str, Operation]:
    """The module behind each pass of the lowering, by the pass's name, in order, with the number of its run behind it
    from the second one on; the first is the module itself, without a name. What a pass left as it was is one object."""
    found: dict[str, Operation] = {"": module}

    def keep(name: str, op: Operation) -> None:
        number = sum(key.partition(" ")[0] == name for key in found)
        last = next(reversed(found.values()))
        unchanged = op.is_structurally_equivalent(last)
        found[f"{name} ({number + 1})" if number else name] = last if unchanged else op.clone()
        if name == "convert-cuda-tile-to-tileaa":
            shorter = op.clone()
            assert isinstance(shorter, ModuleOp)
            CanonicalizeTileaaPass().apply(Context(), shorter)
            found["canonicalize-tileaa (alone)"] = shorter

    lower(program_of(module), Options(gpu_name, emit="tileas"), observer=keep)
    return found


def check_passes(
    module: Operation,
    kernel: str,
    grid: Any,
    arguments: Callable[[], Sequence[Any]],
    gpu_name: str = "sm_90",
    check: str = "basic",
) -> int:
    """AssertionError, naming the pass, unless every pass keeps what the kernel does; how many passes there were.

    `arguments` makes the arguments of a run anew."""
    before: Outcome | None = None
    last, count, checked = "", -1, None
    for name, made in modules_of(module, gpu_name).items():
        if made is checked:  # the same module does the same
            count += 1
            continue
        checked = made
        if name:
            found = diagnose(made)
            assert not has_errors(found), f"behind {name}: {found[0].render()}"
        try:
            after = outcome(made, kernel, grid, arguments, check)
        except Exception as error:
            error.add_note(f"behind {name}, on {gpu_name}")
            raise
        if before is not None:
            for number, (was, now) in enumerate(zip(before[0], after[0], strict=True)):
                assert np.array_equal(was, now), f"{name} changes array {number} (from what it is behind {last!r})"
            assert before[1] == after[1], f"{name} changes what is printed"
        before, last, count = after, name, count + 1
    return count
