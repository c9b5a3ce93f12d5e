# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tiles of products by batch, row and column."""

from __future__ import annotations

from collections.abc import Sequence

from libtile.codegen.builder import KernelBuilder, Value
from libtile.codegen.conversions import ftof_all
from libtile.codegen.tile import Tile

Place = tuple[int, int, int]
"""Batch, row and column."""


def in_element(b: KernelBuilder, tile: Tile, element: str) -> Tile:
    """A tile of floats in another element type that has all its values."""
    if tile.element == element:
        return tile
    return tile.with_registers(ftof_all(b, tile.registers, tile.element, element), element)


def place_of(vector: Sequence[int]) -> Place:
    """An index of a tile of rank 2 or 3."""
    batch, row, column = (0, *vector) if len(vector) == 2 else vector
    return batch, row, column


def box_of(shape: Sequence[int]) -> Place:
    return place_of(shape) if len(shape) == 3 else (1, shape[0], shape[1])


def by_place(tile: Tile) -> dict[Place, Value]:
    """A thread's registers by what they add to the thread's own index."""
    return {place_of(tuple(tile.layout(register=r).values())): v for r, v in enumerate(tile.registers)}
