# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole kernels from text: a body of ops, wrapped in a module and run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import libtile
from libtile.interpreter import FaultKind, InterpreterFault, RunResult


def module_text(parameters: str, body: str, globals: str = "") -> str:
    return f"cuda_tile.module @m {{\n{globals}\nentry @k({parameters}) {{\n{body}\n}}\n}}\n"


def run_body(
    parameters: str, body: str, args: Sequence[Any] = (), grid: Any = 1, globals: str = "", **options: Any
) -> RunResult:
    """Parse, verify and run a kernel of this body."""
    module = libtile.parse(module_text(parameters, body, globals), filename="k.mlir")
    libtile.verify(module)
    return libtile.run(module, "k", grid=grid, args=args, **options)


def fault_of(
    kind: FaultKind, parameters: str, body: str, args: Sequence[Any] = (), grid: Any = 1, **options: Any
) -> InterpreterFault:
    """The fault that running the kernel gives; it must be of this kind."""
    with pytest.raises(InterpreterFault) as caught:
        run_body(parameters, body, args, grid, **options)
    assert caught.value.kind is kind, caught.value
    return caught.value


def pointers(base: str, count: int, elem: str, name: str = "p", offset: str = "iota") -> str:
    """Text that makes %NAME: a tile of pointers base + 0, 1, ... count - 1 (or + %OFFSET)."""
    lines = [
        f"%{name}_r = reshape %{base} : tile<ptr<{elem}>> -> tile<1xptr<{elem}>>",
        f"%{name}_b = broadcast %{name}_r : tile<1xptr<{elem}>> -> tile<{count}xptr<{elem}>>",
    ]
    if offset == "iota":
        lines.append(f"%{name}_i = iota : tile<{count}xi32>")
        offset = f"{name}_i"
    lines.append(
        f"%{name} = offset %{name}_b, %{offset} : tile<{count}xptr<{elem}>>, tile<{count}xi32> "
        f"-> tile<{count}xptr<{elem}>>"
    )
    return "\n".join(lines)


def scalar_store(value: str, pointer: str, elem: str) -> str:
    """Text that stores a scalar tile to a scalar pointer."""
    return f"store_ptr_tko weak %{pointer}, %{value} : tile<ptr<{elem}>>, tile<{elem}> -> token"


def full(shape: Sequence[int] | int, value: Any, dtype: Any) -> np.ndarray:
    return np.full(shape, value, dtype)
