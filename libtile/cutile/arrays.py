# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays as cuTile's launcher sees those on a GPU: an address, a shape, strides in elements, a dtype."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from libtile.cutile.refusals import RefusedNumber, RefusedType, RefusedValue
from libtile.support.arrays import bytes_at, extent
from libtile.support.records import dataclass

INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class GivenArray:
    """An array argument. Strides count elements, as in cuTile; `dtype` is cuTile's; `memory` are the bytes from the
    first element to the last one, `size` many, which are the array's own and not a copy: None for those on a GPU, whose
    `device` has a name."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    size: int
    memory: np.ndarray | None
    device: str = ""

    def in_host_memory(self) -> np.ndarray:
        """Its bytes. ValueError for an array on a GPU."""
        if self.memory is None:
            raise RefusedValue(f"Input array is on device '{self.device}', not in host memory")
        return self.memory


def is_array(value: object) -> bool:
    """Whether cuTile takes a value as an array: it is a tensor, or can be exported by DLPack or as a CUDA array."""
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


def given_array(value: Any, index_bits: int = 32) -> GivenArray:
    """An array argument: a torch tensor, a numpy array, what DLPack exports to host memory, or what
    `__cuda_array_interface__` says of memory on a GPU.

    OverflowError when a size or stride does not fit into `index_bits`; ValueError for an array that is neither in host
    memory nor on a GPU, or whose elements do not go upwards from its first one; TypeError for a dtype that cuTile has
    none for.
    """
    if type(value).__module__.partition(".")[0] == "torch":
        found = _of_torch(value)
    elif isinstance(value, np.ndarray):
        found = _of_numpy(value)
    else:
        found = _of_cuda(value) if hasattr(value, "__cuda_array_interface__") else _of_numpy(_imported(value))
    if index_bits != 64:
        for what, numbers in (("shape", found.shape), ("stride", found.strides)):
            if any(not -INT32_MAX - 1 <= n <= INT32_MAX for n in numbers):
                raise RefusedNumber(f"{what} is too big")
    return found


def _of_torch(tensor: Any) -> GivenArray:
    device = "" if tensor.device.type == "cpu" else str(tensor.device)
    if tensor.device.type not in ("cpu", "cuda"):
        raise RefusedValue(f"Input array is on device '{device}', neither in host memory nor on a GPU")
    shape, strides = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
    return _made(tensor.data_ptr(), shape, strides, tensor.element_size(), tensor.dtype, tensor, device)


def _of_cuda(value: Any) -> GivenArray:
    interface = value.__cuda_array_interface__
    dtype, shape, strides = np.dtype(interface["typestr"]), tuple(interface["shape"]), interface.get("strides")
    if strides is None:
        strides = _contiguous(shape, dtype)
    if any(stride % dtype.itemsize for stride in strides):
        raise RefusedValue("Input array has strides that are not a multiple of the size of its elements")
    counted = tuple(stride // dtype.itemsize for stride in strides)
    return _made(interface["data"][0] or 0, shape, counted, dtype.itemsize, dtype.type, value, "cuda")


def _contiguous(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    """The strides in bytes of an array whose last axis is innermost."""
    inner = (math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return tuple(dtype.itemsize * elements for elements in inner)


def _of_numpy(array: np.ndarray) -> GivenArray:
    if any(stride % array.itemsize for stride in array.strides):
        raise RefusedValue("Input array has strides that are not a multiple of the size of its elements")
    if array.dtype.byteorder == ">":
        raise RefusedType("Only little-endian types are supported")
    strides = tuple(stride // array.itemsize for stride in array.strides)
    address = int(array.__array_interface__["data"][0])
    return _made(address, array.shape, strides, array.itemsize, array.dtype.type, array)


def _imported(value: Any) -> np.ndarray:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError) as error:
        raise RefusedValue(f"Input array is not in host memory: {error}") from None


def _made(
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    item_bytes: int,
    dtype: Any,
    owner: Any,
    device: str = "",
) -> GivenArray:
    from cuda.tile._cext import foreign_dtype_object_to_native

    native = foreign_dtype_object_to_native(dtype)
    if native is None:
        raise RefusedType(f"Unsupported array dtype {getattr(dtype, '__name__', dtype)}")
    read_only = isinstance(owner, np.ndarray) and not owner.flags.writeable
    try:
        span = extent(shape, strides)
    except ValueError as problem:
        raise RefusedValue(str(problem)) from None
    size = span * item_bytes
    memory = None if device else bytes_at(address, size, owner, read_only=read_only)
    return GivenArray(address, shape, strides, native, size, memory, device)


def scalar_word(value: int, bits: int) -> int:
    """A Python int as a kernel's parameter. OverflowError when it does not fit."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise RefusedNumber(f"Python int {value} does not fit into the {bits} bits of a kernel argument")
    return value


def float_word(value: float) -> float:
    """A Python float as the f32 that a kernel gets: rounded to nearest, too large ones to infinity."""
    return ctypes.c_float(value).value
