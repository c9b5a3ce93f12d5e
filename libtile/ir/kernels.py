# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a launch has to know of a kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its Tile IR element type (`ptr` for pointers) and its bytes."""

    type: str
    size: int
