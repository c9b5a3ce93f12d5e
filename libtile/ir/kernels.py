# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a launch has to know of a kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its Tile IR element type (`ptr` for pointers) and its bytes."""

    type: str
    size: int


Number = int
"""A size or stride that is known when a kernel is compiled."""


@dataclass(frozen=True)
class FromParameter:
    """A size or stride that a launch passes as the parameter of this number."""

    number: int


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
