# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a line directive of PTX says beside its file and line, by the number that stands for it in LLVM's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from libtile.support.records import dataclass, field

MAX_PLACES = 0xFFFF
"""LLVM's columns have 16 bits."""


@dataclass(frozen=True)
class Call:
    """An inlined call: the function that was inlined, and where."""

    function: str
    file: str
    line: int
    column: int


@dataclass(frozen=True)
class Place:
    """What a `.loc` says beside its file and line. `calls` are the inlined calls around it, the outermost first;
    `source_line` is the line of the Tile IR, 0 for none."""

    column: int
    calls: tuple[Call, ...] = ()
    source_line: int = 0


@dataclass
class LineTable:
    """The places of a module's locations, and the text of its Tile IR with the line of each kernel in it.

    `llvm` has the lines of LLVM IR before it is optimized, without metadata, each with the number of its place, 0 for
    none.
    """

    source: str = ""
    entries: Mapping[str, int] = field(default_factory=dict)
    llvm: Sequence[tuple[str, int]] = field(default=(), repr=False)
    _places: dict[Place, int] = field(default_factory=dict)

    def number(self, place: Place) -> int:
        """The number that stands for a place; 0 when there are more than `MAX_PLACES`."""
        if place not in self._places and len(self._places) == MAX_PLACES:
            return 0
        return self._places.setdefault(place, len(self._places) + 1)

    def places(self) -> list[Place]:
        """All places; that of number n stands at n - 1."""
        return list(self._places)
