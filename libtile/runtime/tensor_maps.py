# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tensor maps that a launch makes of its arguments, by the recipes of a compiled kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from libtile.ir.kernels import FromParameter, TensorMapRecipe
from libtile.targets.tensor_map import TiledMap, encode


def tensor_map(recipe: TensorMapRecipe, values: Sequence[Any], address: int) -> bytes:
    """The 128 bytes, for the values of the kernel's parameters, of a tensor at an address. TensorMapError for sizes and
    strides that no tensor map has."""

    def number(given: int | FromParameter) -> int:
        return given.of(int(values[given.number])) if isinstance(given, FromParameter) else given

    # Nothing of an empty tensor is read, and a tensor map has sizes from 1 on.
    sizes = tuple(max(number(size), 1) for size in recipe.sizes)
    strides = tuple(number(stride) * recipe.element_bytes for stride in recipe.strides)
    return encode(TiledMap(address, recipe.element, sizes, strides, recipe.box, swizzle=recipe.swizzle))
