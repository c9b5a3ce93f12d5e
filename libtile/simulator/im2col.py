# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which pixels a tensor copy in im2col mode moves (PTX ISA, "im2col mode").

A tensor is a batch of N images of D x H x W pixels with C channels. A copy has the base of a filter go through a box of
each image: along W first, at the end of a row to the first place of the next along H, then D, then in the next image.
The offsets of the filter's place are added to each base; what then lies outside of the images, or behind the last of
them, is filled. Element strides are the distances of bases; they do not change how many pixels there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from libtile.support.records import dataclass
from libtile.targets.tensor_map import CORNER_BITS, Im2colMap


@dataclass(frozen=True)
class PixelBox:
    """The first and the last place of a base and the distance of places, along W, H and D, and how many pixels are
    moved."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    steps: tuple[int, ...]
    count: int

    @classmethod
    def of(cls, tensor: Im2colMap) -> PixelBox:
        """The box of a tensor map, which says its upper corner from the last pixel of an image."""
        last = tuple(size - 1 + up for size, up in zip(tensor.sizes[1:-1], tensor.upper, strict=True))
        return cls(tensor.lower, last, tensor.steps[1:-1], tensor.pixels)

    @property
    def most(self) -> int:
        """The largest offset of a place of the filter."""
        return (1 << CORNER_BITS[len(self.first) + 2]) - 1

    def has(self, base: Sequence[int]) -> bool:
        """Whether a base lies in the box."""
        return all(low <= at <= high for low, at, high in zip(self.first, base, self.last, strict=True))

    def bases(self, start: Sequence[int]) -> np.ndarray:
        """[pixels, along W, H, D and N] of the bases from `start` on."""
        at = list(start)
        found = np.empty((self.count, len(at)), dtype=np.int64)
        for pixel in range(self.count):
            found[pixel] = at
            for side, step in enumerate(self.steps):
                at[side] += step
                if at[side] <= self.last[side]:
                    break
                at[side] = self.first[side]
            else:
                at[-1] += 1
        return found
