# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a launch has to know of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from libtile.support.records import dataclass


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its Tile IR element type (`ptr` for pointers) and its bytes."""

    type: str
    size: int


Number = int
"""A size or stride that is known when a kernel is compiled."""


@dataclass(frozen=True)
class FromParameter:
    """A size or stride that a launch makes of the parameter of this number: as it is, or how far it is `below` a
    number."""

    number: int
    below: int = 0

    def of(self, parameter: int) -> int:
        """The size or stride, for a value of the parameter."""
        return self.below - parameter if self.below else parameter


@dataclass(frozen=True)
class TensorMapRecipe:
    """A tensor map that a launch makes and passes behind the parameters: of what, in which boxes.

    `base` is the number of the parameter that is the tensor's address. Sizes, strides and the box are in elements, from
    the innermost dimension outward; the innermost has no stride. Names are those of `libtile.targets.tensor_map`.
    """

    base: int
    element: str
    sizes: tuple[Number | FromParameter, ...]
    strides: tuple[Number | FromParameter, ...]
    box: tuple[int, ...]
    swizzle: str
    element_bytes: int


@dataclass(frozen=True)
class Launch:
    """What host code has to know of a kernel: the parameters that a launch passes, and the tensor maps behind them."""

    parameters: tuple[Parameter, ...] = ()
    descriptors: tuple[TensorMapRecipe, ...] = ()


def parameter_offsets(parameters: Sequence[Parameter]) -> tuple[tuple[int, ...], int]:
    """Where each parameter lies in the block of them, aligned to its own size (PTX ISA, "Kernel Function Parameters"),
    and where the last one ends; in bytes."""
    offsets, end = [], 0
    for parameter in parameters:
        start = -(-end // parameter.size) * parameter.size
        offsets.append(start)
        end = start + parameter.size
    return tuple(offsets), end
