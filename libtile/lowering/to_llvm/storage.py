# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What values of storage and pipelines are while code is emitted."""

from __future__ import annotations

from dataclasses import dataclass

from libtile.codegen.builder import SharedBuffer, Value
from libtile.layouts import LinearLayout


@dataclass(frozen=True)
class Buffer:
    """A tile in shared memory: where it begins, and its layout of offsets."""

    pointer: Value
    layout: LinearLayout
    element: str


@dataclass(frozen=True)
class Ring:
    """A pipeline: its stages lie one after the other in a buffer, each with its tiles at the offsets."""

    buffer: SharedBuffer
    stage_bytes: int
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class Turn:
    """A token of a pipeline's producer or consumer."""

    ring: Ring
