# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where a matrix in shared memory has its elements, for wgmma and tcgen05 (PTX ISA, "Shared Memory Matrix Layout").

Both describe it by a start, a leading and a stride byte offset and a swizzle. Units are core matrices of 8 rows of 16
bytes; S is the span of the swizzle:

  K-major,  swizzle S: row r of 8, byte b along k    -> (r % 8) S + b + (r / 8) stride
  K-major,  none:      (r % 8) 16 + b % 16 + (b / 16) leading + (r / 8) stride
  MN-major, swizzle S: chunk c of 16 bytes along MN  -> (c % (S/16)) 16 + c / (S/16) leading + (k % 8) S
                                                        + (k / 8) stride
  MN-major, none:      c stride + (k % 8) 16 + (k / 8) leading

With atoms of 32 bytes a group along k has 4 rows and not 8.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from libtile.support.records import dataclass

from .tensor_map import exchanged


@dataclass(frozen=True)
class Swizzle:
    """Bytes of a row whose chunks of `atom` bytes are permuted by the row's number; a span of 0 is no swizzle."""

    span: int
    atom: int = 16

    @property
    def repeats(self) -> int:
        """Bytes after which the pattern begins again."""
        return self.span * self.group

    @property
    def group(self) -> int:
        """Rows of a group of an operand that is not contiguous along k."""
        return 128 // self.atom if self.atom == 32 else 8

    def address(self, offsets: np.ndarray) -> np.ndarray:
        """Where the bytes lie that a matrix without swizzle has at these addresses."""
        if self.atom == 32:
            return exchanged(offsets, 5, 2, 2)
        return exchanged(offsets, 4, (self.span // 16).bit_length() - 1 if self.span else 0, 3)


@lru_cache(maxsize=256)
def _relative(
    leading: int, stride: int, swizzle: Swizzle, outer: int, k: int, bits: int, transposed: bool
) -> np.ndarray:
    span, group = swizzle.span, swizzle.group
    element = max(1, bits // 8)
    row = np.arange(outer, dtype=np.int64)[:, None]
    if transposed:
        step = np.arange(k, dtype=np.int64)[None, :]
        chunk, inner = row * element // 16, row * element % 16
        if span:
            per = span // 16
            at = (chunk % per) * 16 + (chunk // per) * leading + (step % group) * span + (step // group) * stride
        else:
            at = chunk * stride + (step % 8) * 16 + (step // 8) * leading
        return at + inner
    byte = np.arange(k * bits // 8 // element, dtype=np.int64)[None, :] * element
    if span:
        return (row % 8) * span + byte + (row // 8) * stride
    return (row % 8) * 16 + byte % 16 + (byte // 16) * leading + (row // 8) * stride


def operand_offsets(
    start: int, leading: int, stride: int, swizzle: Swizzle, outer: int, k: int, bits: int, transposed: bool
) -> np.ndarray:
    """Shared memory addresses [outer, along k] of an operand's elements of `bits`, or of its bytes if they have fewer.

    `outer` is M or N; `transposed` says that the operand is contiguous along it.
    """
    return swizzle.address(start + _relative(leading, stride, swizzle, outer, k, bits, transposed))
