# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which columns of tensor memory storage takes, where several things lie there at the same time.

Storage takes all lanes of its columns, or half of them: of a result of 64 rows 16 lie in each quarter of the lanes,
from its first or from its 17th lane on (PTX ISA, "Data path layout organization", M = 64), so that two of them may lie
in the same columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from libtile.atoms.tcgen05 import FRAGMENT_LANES, HALF_LANES, WARP_LANES, result_columns

ALIGNMENT = 32
"""Columns that storage begins at a multiple of; less where it has fewer."""


class Place(NamedTuple):
    """Columns, of lanes of each quarter."""

    column: int
    columns: int
    lane: int = 0
    lanes: int = WARP_LANES

    @property
    def limit(self) -> int:
        """The column behind it."""
        return self.column + self.columns


def place(columns: int, lanes: int, taken: Sequence[Place]) -> Place:
    """So many columns of so many lanes of each quarter, from the lowest column on at which nothing lies there."""
    return min(Place(_free(columns, lane, lanes, taken), columns, lane, lanes) for lane in range(0, WARP_LANES, lanes))


def _free(columns: int, lane: int, lanes: int, taken: Sequence[Place]) -> int:
    """The lowest column of the lanes from this one on."""
    alignment, column = min(ALIGNMENT, 1 << (columns - 1).bit_length()), 0
    beside = [other for other in taken if other.lane < lane + lanes and lane < other.lane + other.lanes]
    for other in sorted(beside):
        if column + columns > other.column:
            column = max(column, -(-other.limit // alignment) * alignment)
    return column


def lanes_of(rows: int) -> int:
    """How many lanes of each quarter a result with so many rows takes."""
    return FRAGMENT_LANES if rows == HALF_LANES else WARP_LANES


def together(results: Iterable[Sequence[int]]) -> int:
    """How many columns results (rows, columns) take when one after the other gets its place. Stages of one, which lie
    one behind the other, are columns of it."""
    taken: list[Place] = []
    for shape in results:
        taken.append(place(result_columns(shape), lanes_of(shape[0]), taken))
    return max((one.limit for one in taken), default=0)
