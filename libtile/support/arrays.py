# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The memory that an array lies in, as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np


class _Memory:
    """Memory that belongs to another object, for numpy to look at."""

    def __init__(self, address: int, size: int, owner: Any, read_only: bool) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (address, read_only), "shape": (size,), "typestr": "|u1", "version": 3}


def bytes_at(address: int, size: int, owner: Any, *, read_only: bool = False) -> np.ndarray:
    """`size` bytes of host memory from `address` on, which are `owner`'s and stay so while they are looked at."""
    if not size:  # numpy takes no null pointer
        return np.zeros(0, np.uint8)
    return np.asarray(_Memory(address, size, owner, read_only))


def extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from an array's first one to the last one in memory, by its strides in elements; 0 for an empty array.

    ValueError for an array with negative strides, whose first element is not the first one in memory.
    """
    if not all(shape):
        return 0
    if any(stride < 0 and size > 1 for size, stride in zip(shape, strides)):
        raise ValueError(f"the array has negative strides {strides}")
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))


def memory_span(array: np.ndarray) -> np.ndarray:
    """The bytes from an array's first element to its last one, in place. ValueError for negative strides."""
    strides = tuple(stride // array.itemsize for stride in array.strides)
    size = extent(array.shape, strides) * array.itemsize
    address = int(array.__array_interface__["data"][0])
    return bytes_at(address, size, array, read_only=not array.flags.writeable)
