# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor maps: what `cp.async.bulk.tensor` needs to know of a tensor in global memory (PTX ISA, "Tensors").

Kernels find the hardware's own 128 bytes (`libtile.targets.tensor_map`) in their parameters and in memory. A
`TensorMap` object as an argument of `run_ptx` is encoded by the simulator, an `EncodedTensorMap` was by host code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from libtile.support.records import dataclass
from libtile.targets import tensor_map as hardware
from libtile.targets.tensor_map import ELEMENTS, SIZE, TensorMapError, TiledMap

from .errors import LaunchError

__all__ = ["SIZE", "DecodedMap", "EncodedTensorMap", "TensorMap", "TensorMapError", "swizzled"]

_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_ELEMENT_OF_DTYPE = {
    "int32": "s32", "int64": "s64", "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16",
}  # fmt: skip
# Which address bits each swizzle exchanges: (first bit, how many, distance of the bits they are xored with).
_EXCHANGES = {
    "none": (0, 0, 0), "32B": (4, 1, 3), "64B": (4, 2, 3), "128B": (4, 3, 3), "128B atom 32B": (5, 2, 2),
    "128B atom 64B": (6, 1, 1),
}  # fmt: skip


@dataclass(frozen=True)
class TensorMap:
    """A tiled tensor map over `array`.

    All sequences go from the innermost dimension outward. `shape` is in elements; `strides` are bytes of dimensions 1
    and up (the innermost is dense); `box` is the tile that one copy moves. Defaults describe a C-contiguous array as a
    whole. `swizzle` is "none", "32B", "64B", "128B", "128B atom 32B" or "128B atom 64B"; elements outside of the tensor
    read as zero, or NaN with `fill_nan`. `element` is PTX's name of the elements' type ("bf16", "tf32"); without it,
    it is the array's, or unsigned of `element_size` bytes.
    """

    array: np.ndarray
    box: tuple[int, ...]
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    element_strides: tuple[int, ...] = ()
    swizzle: str = "none"
    fill_nan: bool = False
    element_size: int = 0
    element: str = ""

    def encode(self, address: int) -> bytes:
        """The 128 bytes of the parameter, for a tensor at a simulated address. Raises LaunchError."""
        element = self.element or self._element()
        bits = ELEMENTS[element].bits if element in ELEMENTS else 8
        shape = self.shape or tuple(reversed(self.array.shape))
        strides = self.strides or _dense(shape, bits // 8)
        tiled = TiledMap(
            address, element, shape, strides, self.box, self.element_strides, self.swizzle, fill_nan=self.fill_nan
        )
        try:
            return hardware.encode(tiled)
        except TensorMapError as error:
            raise LaunchError(str(error)) from None

    def _element(self) -> str:
        size = self.element_size or self.array.itemsize
        if size not in _UNSIGNED:
            raise LaunchError(f"elements of {size} bytes have no tensor map")
        if size != self.array.itemsize:
            return _UNSIGNED[size]
        return _ELEMENT_OF_DTYPE.get(self.array.dtype.name, _UNSIGNED[size])


@dataclass(frozen=True)
class EncodedTensorMap:
    """A tensor map of 128 bytes that host code encoded, as `cuTensorMapEncodeTiled` or a cubin's host object does.

    Host code does not know simulated addresses: `base` is the address that it took for the first byte of `array`.
    """

    array: np.ndarray
    raw: bytes
    base: int

    def encode(self, address: int) -> bytes:
        """The map for the array at a simulated address. Raises LaunchError."""
        try:
            tiled = hardware.decode(self.raw)
            return hardware.with_address(self.raw, tiled.address - self.base + address)
        except TensorMapError as error:
            raise LaunchError(str(error)) from None


def _dense(shape: Sequence[int], size: int) -> tuple[int, ...]:
    strides = []
    for extent in shape[:-1]:
        size *= extent
        strides.append(size)
    return tuple(strides)


@dataclass(frozen=True)
class DecodedMap:
    """A tensor map as a kernel's instruction finds it in memory."""

    address: int
    element: str
    element_size: int
    swizzle: str
    fill_nan: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]

    @classmethod
    def decode(cls, raw: bytes) -> DecodedMap:
        """TensorMapError when the bytes are no tensor map, or one that is not simulated."""
        tiled = hardware.decode_tiled(raw)
        bits = ELEMENTS[tiled.element].bits
        if tiled.interleave != "none":
            raise TensorMapError(f"tensor maps interleaved by {tiled.interleave} are not simulated")
        if tiled.swizzle not in _EXCHANGES:
            raise TensorMapError(f"the swizzle {tiled.swizzle} of tensor maps is not simulated")
        if bits % 8:
            raise TensorMapError(f"tensor maps of elements {tiled.element} are not simulated")
        size = bits // 8
        strides = (size, *tiled.strides)
        # The box is what is traversed; the stride of dimension 0 is ignored (CUDA driver API, cuTensorMapEncodeTiled).
        steps = (1, *tiled.steps[1:])
        box = tuple(-(-b // s) for b, s in zip(tiled.box, steps, strict=True))
        return cls(tiled.address, tiled.element, size, tiled.swizzle, tiled.fill_nan, tiled.sizes, strides, box, steps)

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

    def rows(self, column: int, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """`elements` of one row of the box at each of `rows`, one after the other."""
        parts = [self.elements((column, row)) for row in rows]
        return np.concatenate([address for address, _ in parts]), np.concatenate([inside for _, inside in parts])

    def shared_offsets(self, start: int, count: int) -> np.ndarray:
        """Shared memory offsets of the `count` elements of a tile that begins at `start`, swizzled."""
        dense = start + np.arange(count, dtype=np.int64) * self.element_size
        return exchanged(dense, *_EXCHANGES[self.swizzle])


def swizzled(offsets: np.ndarray, mode: int) -> np.ndarray:
    """Shared memory addresses under a swizzle of 32, 64 or 128 bytes (mode 1, 2, 3): 16-byte chunks move within their
    row by the row's number, which are address bits 7 and up.
    """
    return exchanged(offsets, 4, mode, 3)


def exchanged(offsets: np.ndarray, first: int, count: int, distance: int) -> np.ndarray:
    """Addresses whose `count` bits from bit `first` on are xored with those `distance` bits further up."""
    return offsets ^ ((offsets >> distance) & ((1 << count) - 1) << first)
