# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor maps: what `cp.async.bulk.tensor` needs to know of a tensor in global memory (PTX ISA, "Tensors").

Hardware tensor maps are 128 opaque bytes that the driver encodes. Simulated ones are 128 bytes too, in a layout of our
own, so that kernels take them as the same by-value parameter; a `TensorMap` object as an argument of `run_ptx` becomes
one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .errors import LaunchError

SIZE = 128
_MAGIC = b"LTSTMAP1"
_HEADER = "<8sQBBBB4x"
_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}


@dataclass(frozen=True)
class TensorMap:
    """A tiled tensor map over `array`.

    All sequences go from the innermost dimension outward. `shape` is in elements; `strides` are bytes of dimensions 1
    and up (the innermost is dense); `box` is the tile that one copy moves. Defaults describe a C-contiguous array as a
    whole. `swizzle` is "none", "32B", "64B" or "128B"; elements outside of the tensor read as zero, or NaN with
    `fill_nan`.
    """

    array: np.ndarray
    box: tuple[int, ...]
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    element_strides: tuple[int, ...] = ()
    swizzle: str = "none"
    fill_nan: bool = False
    element_size: int = 0

    def encode(self, address: int) -> bytes:
        """The 128 bytes of the parameter, for a tensor at a simulated address. Raises LaunchError."""
        size = self.element_size or self.array.itemsize
        shape = self.shape or tuple(reversed(self.array.shape))
        strides = self.strides or _dense(shape, size)
        steps = self.element_strides or (1,) * len(shape)
        rank = len(shape)
        if not 1 <= rank <= 5 or len(self.box) != rank or len(strides) != rank - 1 or len(steps) != rank:
            raise LaunchError(f"a tensor map of rank {rank} needs {rank} box sizes and {rank - 1} strides")
        if any(not 1 <= b <= 256 for b in self.box):
            raise LaunchError(f"box {self.box} of a tensor map has a side that is not in 1..256")
        if self.box[0] * size % 16 or any(s % 16 for s in strides):
            raise LaunchError("the inner box and the strides of a tensor map must be multiples of 16 bytes")
        if self.swizzle not in _SWIZZLES:
            raise LaunchError(f"swizzle {self.swizzle!r} is not one of {', '.join(_SWIZZLES)}")
        span = int(self.swizzle[:-1]) if self.swizzle != "none" else 256 * size
        if self.box[0] * size > span:
            raise LaunchError(f"the inner box of {self.box[0] * size} bytes is wider than the swizzle of {span}")
        head = struct.pack(_HEADER, _MAGIC, address, rank, size, _SWIZZLES[self.swizzle], self.fill_nan)
        body = struct.pack("<5I4Q", *_padded(shape, 5), *_padded(strides, 4))
        tail = struct.pack("<5H5B", *_padded(self.box, 5), *_padded(steps, 5))
        return (head + body + tail).ljust(SIZE, b"\0")


def _dense(shape: Sequence[int], size: int) -> tuple[int, ...]:
    strides = []
    for extent in shape[:-1]:
        size *= extent
        strides.append(size)
    return tuple(strides)


def _padded(values: Sequence[int], count: int) -> list[int]:
    return [*values, *[0] * (count - len(values))]


@dataclass(frozen=True)
class DecodedMap:
    """A tensor map as a kernel's instruction finds it in memory."""

    address: int
    element_size: int
    swizzle: int
    fill_nan: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]

    @classmethod
    def decode(cls, raw: bytes) -> DecodedMap | None:
        """None when the bytes are not a simulated tensor map."""
        magic, address, rank, size, swizzle, fill = struct.unpack_from(_HEADER, raw)
        if magic != _MAGIC:
            return None
        at = struct.calcsize(_HEADER)
        numbers = struct.unpack_from("<5I4Q", raw, at)
        small = struct.unpack_from("<5H5B", raw, at + struct.calcsize("<5I4Q"))
        strides = (size, *numbers[5 : 5 + rank - 1])
        return cls(address, size, swizzle, bool(fill), numbers[:rank], strides, small[:rank], small[5 : 5 + rank])

    def elements(self, corner: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """(global addresses uint64, is inside) of the box at `corner`, innermost index fastest."""
        address = np.full((1,) * len(self.box), self.address, dtype=np.int64)
        inside = np.ones((1,) * len(self.box), dtype=bool)
        rank = len(self.box)
        for d in range(rank):
            index = corner[d] + np.arange(self.box[d], dtype=np.int64) * self.steps[d]
            side = [1] * rank
            side[rank - 1 - d] = self.box[d]
            address = address + (index * self.strides[d]).reshape(side)
            inside = inside & ((index >= 0) & (index < self.shape[d])).reshape(side)
        return address.reshape(-1).view(np.uint64), inside.reshape(-1)

    def shared_offsets(self, start: int) -> np.ndarray:
        """Shared memory offset of each element of the box that begins at `start`, swizzled."""
        return swizzled(start + np.arange(int(np.prod(self.box)), dtype=np.int64) * self.element_size, self.swizzle)


def swizzled(offsets: np.ndarray, mode: int) -> np.ndarray:
    """Shared memory addresses under a swizzle of 32, 64 or 128 bytes (mode 1, 2, 3): 16-byte chunks move within their
    row by the row's number, which are address bits 7 and up.
    """
    if mode == 0:
        return offsets
    mask = (1 << mode) - 1
    return offsets ^ (((offsets >> 7) & mask) << 4)
