# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exchanges between the threads of a block: each writes its part of a place in shared memory, all meet, and read.

Where an exchange lies, and whether the block has to meet before it writes there as well, is decided before code is
made: `tileas-allocate-shared-memory` and `tileas-insert-barriers` write it on the op. Code takes the places of its op
in their order. How many bytes each exchange of an op takes is said by the module that emits it, from layouts alone
(`exchange_sizes` there), so that both come from one plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.support.diagnostics import LoweringError
from libtile.support.records import dataclass


@dataclass(frozen=True, slots=True)
class Exchange:
    """The place of one exchange in the block's shared memory, in bytes; `meet`: all threads meet before they write."""

    offset: int
    size: int
    meet: bool = False

    @property
    def end(self) -> int:
        return self.offset + self.size


class Exchanges:
    """The places of the exchanges of one op, taken in order."""

    def __init__(self, places: Sequence[Exchange] = ()):
        self.places = tuple(places)
        self.taken = 0

    def take(self, size: int) -> Exchange:
        """The next place; LoweringError where there is none that holds `size` bytes."""
        if self.taken == len(self.places):
            raise LoweringError(f"has no place in shared memory for {size} bytes that its threads exchange")
        place = self.places[self.taken]
        if place.size < size:
            raise LoweringError(f"has a place of {place.size} bytes in shared memory where it exchanges {size}")
        self.taken += 1
        return place

    def finish(self) -> None:
        """LoweringError for places that were not taken: the plan and the code are not of one mind."""
        if self.taken != len(self.places):
            raise LoweringError(f"has {len(self.places)} places in shared memory, and exchanges {self.taken} times")
