# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tensor maps that a launch makes of its arguments, by the recipes of a compiled kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from libtile.ir.kernels import FromParameter, TensorMapRecipe
from libtile.targets.tensor_map import TiledMap, encode

_STRIDE_BITS = (1 << 40) - 16
"""Of a stride in bytes, those that a tensor map has."""


def tensor_map(recipe: TensorMapRecipe, values: Sequence[Any], address: int) -> bytes:
    """The 128 bytes, for the values of the kernel's parameters, of a tensor at an address. TensorMapError for sizes and
    strides that no tensor map has."""

    def number(given: int | FromParameter) -> int:
        return given.of(int(values[given.number])) if isinstance(given, FromParameter) else given

    # Nothing of an empty tensor is read, and a tensor map has sizes from 1 on.
    sizes = tuple(max(number(size), 1) for size in recipe.sizes)
    given = [number(stride) * recipe.element_bytes for stride in recipe.strides]
    # Where a dimension has one element no address is computed with its stride, which may be any number: cuTile promises
    # of it what it likes. As the host code does, what a map has no bits for is left out.
    pairs = zip(given, sizes[1:], strict=True)
    strides = tuple(stride if size > 1 else stride & _STRIDE_BITS for stride, size in pairs)
    return encode(TiledMap(address, recipe.element, sizes, strides, recipe.box, swizzle=recipe.swizzle))
