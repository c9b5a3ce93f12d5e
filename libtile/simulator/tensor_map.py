# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor maps: what `cp.async.bulk.tensor` needs to know of a tensor in global memory (PTX ISA, "Tensors").

Kernels find the hardware's own 128 bytes (`libtile.targets.tensor_map`) in their parameters and in memory. A
`TensorMap` object as an argument of `run_ptx` is encoded by the simulator, an `EncodedTensorMap` was by host code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from libtile.support.records import dataclass
from libtile.targets import Target
from libtile.targets import tensor_map as hardware
from libtile.targets.tensor_map import ELEMENTS, SIZE, Im2colMap, TensorMapError, TiledMap

from .errors import LaunchError
from .im2col import PixelBox

__all__ = [
    "SIZE", "DecodedMap", "EncodedTensorMap", "Im2colTensorMap", "TensorMap", "TensorMapError", "swizzled",
]  # fmt: skip

_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_ELEMENT_OF_DTYPE = {
    "int32": "s32", "int64": "s64", "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16",
}  # fmt: skip
# Which address bits each swizzle exchanges: (first bit, how many, distance of the bits they are xored with).
_EXCHANGES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "none": (), "32B": ((4, 1, 3),), "64B": ((4, 2, 3),), "96B": ((4, 1, 3),), "128B": ((4, 3, 3),),
    "128B atom 32B": ((5, 2, 2),), "128B atom 32B flip 8B": ((5, 2, 2), (3, 1, 4)), "128B atom 64B": ((6, 1, 1),),
}  # fmt: skip
_SWIZZLE_NEEDS = {name: "tma_swizzle_atoms" for name in _EXCHANGES if "atom" in name} | {"96B": "tma_swizzle_96B"}
"""Features of the targets that have the swizzles that others have not."""
_PADDED = {"b4x16_p64": 8, "b6x16_p32": 12}
"""Bytes in global memory of 16 elements that have 16 bytes in shared memory."""


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
        element, shape, strides = _tensor_of(self)
        tiled = TiledMap(
            address, element, shape, strides, self.box, self.element_strides, self.swizzle, fill_nan=self.fill_nan
        )
        return _encoded(tiled)


@dataclass(frozen=True)
class Im2colTensorMap:
    """An im2col tensor map over `array`, a batch of images: [N, W, C], [N, H, W, C] or [N, D, H, W, C].

    `lower` and `upper` are the corners of the box in which the base of a filter lies, along W, H and D, from the first
    and the last pixel of an image; `channels` of `pixels` is what one copy moves. The rest is as in a `TensorMap`.
    """

    array: np.ndarray
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    element_strides: tuple[int, ...] = ()
    swizzle: str = "none"
    fill_nan: bool = False
    element_size: int = 0
    element: str = ""

    def encode(self, address: int) -> bytes:
        """The 128 bytes of the parameter, for a tensor at a simulated address. Raises LaunchError."""
        element, shape, strides = _tensor_of(self)
        made = Im2colMap(
            address, element, shape, strides, self.lower, self.upper, self.channels, self.pixels, self.element_strides,
            self.swizzle, fill_nan=self.fill_nan,
        )  # fmt: skip
        return _encoded(made)


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


def _tensor_of(given: TensorMap | Im2colTensorMap) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """The elements' type, the sizes and the strides, by default those of the array."""
    element = given.element or _element_of(given.array, given.element_size or given.array.itemsize)
    bits = ELEMENTS[element].bits if element in ELEMENTS else 8
    shape = given.shape or tuple(reversed(given.array.shape))
    return element, shape, given.strides or _dense(shape, bits)


def _element_of(array: np.ndarray, size: int) -> str:
    if size not in _UNSIGNED:
        raise LaunchError(f"elements of {size} bytes have no tensor map")
    if size != array.itemsize:
        return _UNSIGNED[size]
    return _ELEMENT_OF_DTYPE.get(array.dtype.name, _UNSIGNED[size])


def _encoded(tensor: TiledMap | Im2colMap) -> bytes:
    try:
        return hardware.encode(tensor)
    except TensorMapError as error:
        raise LaunchError(str(error)) from None


def _dense(shape: Sequence[int], bits: int) -> tuple[int, ...]:
    """Strides in bytes of elements of so many bits that lie one behind the other."""
    strides = []
    for extent in shape[:-1]:
        bits *= extent
        strides.append(bits // 8)
    return tuple(strides)


@dataclass(frozen=True)
class DecodedMap:
    """A tensor map as a kernel's instruction finds it in memory.

    What is copied is counted in units, which are elements, or bytes where elements are smaller: `unit` is a unit's
    size in bytes, and `shape`, `strides`, `box` and `steps` are in units along the innermost dimension. Of an im2col
    map, `pixels` says which pixels are copied, and `box` only has channels.
    """

    address: int
    element: str
    unit: int
    swizzle: str
    fill_nan: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    pixels: PixelBox | None = None

    @classmethod
    def decode(cls, raw: bytes, target: Target | None = None, *, to_cluster: bool = False) -> DecodedMap:
        """TensorMapError when the bytes are no tensor map, one that is not simulated, or one that `target` has not,
        in copies to a cluster's shared memory or in others; without a target, all are taken."""
        tensor = hardware.decode(raw)
        bits = ELEMENTS[tensor.element].bits
        if tensor.interleave != "none":
            raise TensorMapError(f"tensor maps interleaved by {tensor.interleave} are not simulated")
        needs = {f"the swizzle {tensor.swizzle}": _SWIZZLE_NEEDS.get(tensor.swizzle)}
        needs[f"elements {tensor.element}"] = "tma_packed_elements" if bits < 8 else None
        for what, feature in needs.items():
            if target is None or feature is None:
                continue
            if not target.has(feature):
                raise TensorMapError(f"tensor maps of {target.name} do not have {what}")
            if to_cluster and not target.has("tma_cluster_forms"):
                raise TensorMapError(f"tensor maps of {target.name} do not have {what} in copies to a cluster")
        unit = max(1, bits // 8)
        sizes = (tensor.sizes[0] * bits // (8 * unit), *tensor.sizes[1:])
        # The box is what is traversed; the stride of dimension 0 is ignored (CUDA driver API, cuTensorMapEncodeTiled).
        steps = (1, *tensor.steps[1:])
        if isinstance(tensor, Im2colMap):
            box: tuple[int, ...] = (tensor.channels,)
            pixels = PixelBox.of(tensor)
        else:
            box = tuple(-(-b // s) for b, s in zip(tensor.box, steps, strict=True))
            pixels = None
        box = (box[0] * bits // (8 * unit), *box[1:])
        return cls(
            tensor.address, tensor.element, unit, tensor.swizzle, tensor.fill_nan, sizes, (unit, *tensor.strides), box,
            steps, pixels,
        )  # fmt: skip

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def padded(self) -> bool:
        """Whether elements have places of their own in shared memory, wider than in global memory."""
        return self.element in _PADDED

    def along_row(self, coordinate: int) -> int:
        """A coordinate of the innermost dimension, in bytes; a row begins at 0."""
        return coordinate * ELEMENTS[self.element].bits // 8

    def elements(self, corner: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """(global addresses uint64, is inside) of the units of the box at `corner`, innermost index fastest."""
        address = np.full((1,) * len(self.box), self.address, dtype=np.int64)
        inside = np.ones((1,) * len(self.box), dtype=bool)
        rank = len(self.box)
        for d in range(rank):
            start = self.along_row(corner[d]) // self.unit if d == 0 else corner[d]
            index = start + np.arange(self.box[d], dtype=np.int64) * self.steps[d]
            side = [1] * rank
            side[rank - 1 - d] = self.box[d]
            address = address + (index * self.strides[d]).reshape(side)
            inside = inside & ((index >= 0) & (index < self.shape[d])).reshape(side)
        return address.reshape(-1).view(np.uint64), inside.reshape(-1)

    def rows(self, column: int, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """`elements` of one row of the box at each of `rows`, one after the other."""
        parts = [self.elements((column, row)) for row in rows]
        return np.concatenate([address for address, _ in parts]), np.concatenate([inside for _, inside in parts])

    def columns(self, pixels: PixelBox, corner: Sequence[int], offsets: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """(global addresses uint64, is inside) of the units of pixels, channels fastest, whose first base is at
        `corner`."""
        at = pixels.bases(corner[1:]) + np.array([*offsets, 0], dtype=np.int64)
        inside = np.logical_and.reduce((at >= 0) & (at < np.array(self.shape[1:])), axis=1)
        channel = self.along_row(corner[0]) // self.unit + np.arange(self.box[0], dtype=np.int64)
        address = self.address + (at @ np.array(self.strides[1:], dtype=np.int64))[:, None] + channel * self.unit
        covers = inside[:, None] & ((channel >= 0) & (channel < self.shape[0]))
        return address.reshape(-1).view(np.uint64), covers.reshape(-1)

    def shared_offsets(self, start: int, count: int) -> np.ndarray:
        """Shared memory offsets of the `count` units of a tile that begins at `start`, swizzled."""
        unit = np.arange(count, dtype=np.int64)
        group = _PADDED.get(self.element)
        return self._swizzled(start + (unit * self.unit if group is None else unit // group * 16 + unit % group))

    def sources(self, start: int, inside: np.ndarray) -> np.ndarray:
        """Shared memory offsets of what a copy to global memory reads for the units that are inside: bytes of padded
        elements, of which each has one."""
        if not self.padded:
            return self.shared_offsets(start, len(inside))[inside]
        groups = inside.reshape(-1, _PADDED[self.element])[:, 0]
        return self._swizzled(start + np.arange(len(groups) * 16, dtype=np.int64))[np.repeat(groups, 16)]

    def padding(self, start: int, count: int) -> np.ndarray:
        """Shared memory offsets of the bytes that lie between those of so many units, and hold nothing."""
        group = _PADDED[self.element]
        byte = np.arange(count // group * 16, dtype=np.int64)
        return self._swizzled(start + byte[byte % 16 >= group])

    def _swizzled(self, offsets: np.ndarray) -> np.ndarray:
        for exchange in _EXCHANGES[self.swizzle]:
            offsets = exchanged(offsets, *exchange)
        return offsets


def swizzled(offsets: np.ndarray, mode: int) -> np.ndarray:
    """Shared memory addresses under a swizzle of 32, 64 or 128 bytes (mode 1, 2, 3): 16-byte chunks move within their
    row by the row's number, which are address bits 7 and up.
    """
    return exchanged(offsets, 4, mode, 3)


def exchanged(offsets: np.ndarray, first: int, count: int, distance: int) -> np.ndarray:
    """Addresses whose `count` bits from bit `first` on are xored with those `distance` bits further up."""
    return offsets ^ ((offsets >> distance) & ((1 << count) - 1) << first)
