# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What values of storage and pipelines are while code is emitted."""

from __future__ import annotations

from libtile.codegen.builder import SharedBuffer, Value
from libtile.dialects.nv_tileas.types import TmaDescType
from libtile.layouts import LinearLayout
from libtile.support.records import dataclass


@dataclass(frozen=True)
class Buffer:
    """A tile in shared memory: where it begins, its layout of offsets, and the barrier object that counts what is
    copied to it, where it is a stage's of a pipeline with barrier objects, and whether that is of a `pair` of CTAs. It
    begins `moved` (stages, and bytes of each) behind `first`, which is at byte `offset` of the block's shared memory,
    where that is known; at `first` where it is `alone`, the only stage, which LLVM does not see of what loops carry."""

    pointer: Value
    layout: LinearLayout
    element: str
    barrier: Value | None = None
    first: Value | None = None
    moved: tuple[Value, int] | None = None
    offset: int = 0
    pair: bool = False
    alone: bool = False


@dataclass(frozen=True)
class TensorMemory:
    """Results of products in tensor memory: the address (an i32) of the first one, the columns of each, and how many
    CTAs have them together."""

    address: Value
    element: str
    each: int
    ctas: int = 1


@dataclass(frozen=True)
class Ring:
    """A pipeline: its stages lie one after the other in a buffer, each with its tiles at the offsets.

    With `barriers` each stage has two barrier objects: the `full` one at its number in them, and the `empty` one as
    many stages further. With `copies` threads arrive at the `full` one when their cp.async copies are done, too.
    """

    buffer: SharedBuffer
    stage_bytes: int
    offsets: tuple[int, ...]
    stages: int = 0
    barriers: SharedBuffer | None = None
    copies: bool = False
    results: TensorMemory | None = None
    """Where its stages are results in tensor memory, which then are all that a stage holds."""
    ctas: int = 1
    """Of a cluster, whose copies fill its stages: consumers say to all of them that they have left a stage."""
    drawing: SharedBuffer | None = None
    """Where the turns that several agents produce in are counted."""
    pair: bool = False
    """Whether a pair of CTAs has it, whose first one issues products for both."""


@dataclass(frozen=True)
class Place:
    """An iterator of a pipeline with barrier objects: the stage, and the parity of the round, both i32."""

    stage: Value
    phase: Value


@dataclass(frozen=True)
class Turn:
    """A token of a pipeline's producer or consumer; with its stage where the pipeline has barrier objects."""

    ring: Ring
    stage: Value | None = None


@dataclass(frozen=True)
class Descriptor:
    """A tensor map: its (generic) address, what it describes, and where the device has written it, if it has."""

    pointer: Value
    type: TmaDescType
    place: Value | None = None


@dataclass(frozen=True)
class BulkToken:
    """Copies from shared to global memory by TMA, which the threads wait for that started them: one, or each."""

    by_all: bool = False
