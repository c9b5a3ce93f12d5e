# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays in host memory as cuTile's launcher sees those on a GPU: an address, a shape, strides in elements, a dtype."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from libtile.cutile.refusals import RefusedNumber, RefusedType, RefusedValue
from libtile.support.arrays import bytes_at, extent
from libtile.support.records import dataclass

INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class HostArray:
    """An array. Strides count elements, as in cuTile; `dtype` is cuTile's; `memory` are the bytes from the first
    element to the last one, which are the array's own and not a copy."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    memory: np.ndarray

    @property
    def words(self) -> tuple[Any, ...]:
        """What a kernel gets for it: memory, sizes, strides."""
        return (self.memory, *self.shape, *self.strides)


def is_array(value: object) -> bool:
    """Whether cuTile takes a value as an array: it is a tensor, or can be exported by DLPack or as a CUDA array."""
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


def host_array(value: Any, index_bits: int = 32) -> HostArray:
    """An array argument: a torch tensor of the CPU, a numpy array, or anything in host memory that DLPack exports.

    OverflowError when a size or stride does not fit into `index_bits`; ValueError for an array that is not in host
    memory, or whose elements do not go upwards from its first one; TypeError for a dtype that cuTile has none for.
    """
    if type(value).__module__.partition(".")[0] == "torch":
        found = _of_torch(value)
    else:
        found = _of_numpy(value if isinstance(value, np.ndarray) else _imported(value))
    if index_bits != 64:
        for what, numbers in (("shape", found.shape), ("stride", found.strides)):
            if any(not -INT32_MAX - 1 <= n <= INT32_MAX for n in numbers):
                raise RefusedNumber(f"{what} is too big")
    return found


def _of_torch(tensor: Any) -> HostArray:
    if tensor.device.type != "cpu":
        raise RefusedValue(f"Input array is on device '{tensor.device}', not in host memory")
    shape, strides = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
    return _made(tensor.data_ptr(), shape, strides, tensor.element_size(), tensor.dtype, tensor)


def _of_numpy(array: np.ndarray) -> HostArray:
    if any(stride % array.itemsize for stride in array.strides):
        raise RefusedValue("Input array has strides that are not a multiple of the size of its elements")
    if array.dtype.byteorder == ">":
        raise RefusedType("Only little-endian types are supported")
    strides = tuple(stride // array.itemsize for stride in array.strides)
    address = int(array.__array_interface__["data"][0])
    return _made(address, array.shape, strides, array.itemsize, array.dtype.type, array)


def _imported(value: Any) -> np.ndarray:
    if not hasattr(value, "__dlpack__"):
        raise RefusedValue("Input array is in the memory of a GPU, not in host memory")
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError) as error:
        raise RefusedValue(f"Input array is not in host memory: {error}") from None


def _made(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], item_bytes: int, dtype: Any, owner: Any
) -> HostArray:
    from cuda.tile._cext import foreign_dtype_object_to_native

    native = foreign_dtype_object_to_native(dtype)
    if native is None:
        raise RefusedType(f"Unsupported array dtype {getattr(dtype, '__name__', dtype)}")
    read_only = isinstance(owner, np.ndarray) and not owner.flags.writeable
    try:
        span = extent(shape, strides)
    except ValueError as problem:
        raise RefusedValue(str(problem)) from None
    memory = bytes_at(address, span * item_bytes, owner, read_only=read_only)
    return HostArray(address, shape, strides, native, memory)


def scalar_word(value: int, bits: int) -> int:
    """A Python int as a kernel's parameter. OverflowError when it does not fit."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise RefusedNumber(f"Python int {value} does not fit into the {bits} bits of a kernel argument")
    return value


def float_word(value: float) -> float:
    """A Python float as the f32 that a kernel gets: rounded to nearest, too large ones to infinity."""
    return ctypes.c_float(value).value
