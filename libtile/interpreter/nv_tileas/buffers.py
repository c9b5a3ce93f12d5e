# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Storage of tiles: what a buffer holds, and which asynchronous copies are still on their way to or from it.

A copy is done when it starts; until it has been waited for, its buffer may not be used: a read could see what was there
before, a write be overwritten, or be what a copy out of the buffer takes.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Element
from libtile.support.records import dataclass, field


@dataclass(eq=False)
class Copy:
    """An asynchronous copy, or a group of them: `done` when it has been waited for."""

    name: str
    parts: tuple[Copy, ...] = ()
    done: bool = False
    outlives: bool = False
    """Whether it goes on when the threads have ended."""

    def finish(self) -> None:
        """It has been waited for, and so have its parts."""
        self.done = True
        for part in self.parts:
            part.finish()


@dataclass(eq=False)
class Buffer:
    """Storage for a tile: the elements' values, which of them have been written, and copies on their way.

    Parts of a buffer share all of it.
    """

    element: Element
    data: np.ndarray
    defined: np.ndarray
    copies: list[tuple[Copy, bool]] = field(default_factory=list)
    """Each with whether it writes the buffer."""

    @staticmethod
    def new(element: Element, shape: tuple[int, ...]) -> Buffer:
        return Buffer(element, np.zeros(shape, element.dtype), np.zeros(shape, bool))

    def reshaped(self, shape: tuple[int, ...]) -> Buffer:
        """The same storage in another shape."""
        return Buffer(self.element, self.data.reshape(shape), self.defined.reshape(shape), self.copies)

    def first(self, shape: tuple[int, ...]) -> Buffer:
        """As much of the same storage as a shape takes, from its begin on, row by row."""
        data, defined = (of.reshape(-1)[: prod(shape)].reshape(shape) for of in (self.data, self.defined))
        return Buffer(self.element, data, defined, self.copies)

    def seen_as(self, element: Element) -> Buffer:
        """The same storage as elements of another type of the same width."""
        return Buffer(element, self.data.view(element.dtype), self.defined, self.copies)

    def part(self, box: tuple[slice, ...], shape: tuple[int, ...]) -> Buffer:
        """A part of the storage."""
        return Buffer(self.element, self.data[box].reshape(shape), self.defined[box].reshape(shape), self.copies)

    def _unwaited(self, writing: bool) -> None:
        self.copies[:] = [(c, writes) for c, writes in self.copies if not c.done]
        for copy, writes in self.copies:
            if writes or writing:
                what = "written" if writing else "read"
                raise Fault(FaultKind.RACE, f"the buffer is {what} before {copy.name} on it has been waited for")

    def read(self) -> np.ndarray:
        """The elements. A fault while a copy is on its way to it, and when some were never written."""
        self._unwaited(writing=False)
        if not self.defined.all():
            first = tuple(int(i) for i in np.argwhere(~self.defined)[0])
            raise Fault(FaultKind.UNINITIALISED, "the buffer holds what was never written", first)
        return np.array(self.data)

    def write(self, values: Any, where: Any = None) -> None:
        """Set the elements. A fault while a copy is on its way to or from it."""
        self._unwaited(writing=True)
        if where is None:
            self.data[...], self.defined[...] = values, True
        else:
            self.data[where], self.defined[where] = values, True

    def start(self, copy: Copy, values: Any) -> Copy:
        """A copy to the buffer starts; its values are there when it has been waited for."""
        self.write(values)
        self.copies.append((copy, True))
        return copy

    def start_reading(self, copy: Copy) -> np.ndarray:
        """A copy out of the buffer starts: the elements that it takes."""
        values = self.read()
        self.copies.append((copy, False))
        return values
