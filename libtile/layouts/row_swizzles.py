# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Swizzles of rows in shared memory, as TMA writes them and as wgmma and tcgen05 read them.

A row of `span` bytes is made of atoms, which change places by the number of the 128 bytes that they lie in: the bits of
the address from the atom's size on are xored with as many from bit 7 on (PTX ISA, "Tensors", swizzling modes, and
"Shared memory matrix layout"; CUTLASS writes Swizzle<3,4,3> for 128 bytes, Swizzle<2,5,2> with atoms of 32).
"""

from __future__ import annotations

from libtile.support.records import dataclass

CHUNK = 16
"""Bytes of the atoms of most swizzles, and of what asynchronous copies and matrices in shared memory are made of."""
BANKS = 128
"""Bytes of all banks, whose number in the address exchanges atoms."""


@dataclass(frozen=True)
class RowSwizzle:
    """Rows of `span` bytes whose atoms of `atom` bytes change places; a span of 0 is no swizzle."""

    span: int
    atom: int = CHUNK

    @property
    def exchanged(self) -> int:
        """How many bits of an address change."""
        return (self.span // self.atom).bit_length() - 1 if self.span else 0

    @property
    def rows(self) -> int:
        """Rows after which the pattern begins again."""
        return BANKS // self.atom

    @property
    def repeats(self) -> int:
        """Bytes after which the pattern begins again: what swizzled rows are aligned to."""
        return self.span * self.rows

    @property
    def name(self) -> str:
        """As `libtile.targets.tensor_map` calls it."""
        if not self.span:
            return "none"
        return f"{self.span}B" if self.atom == CHUNK else f"{self.span}B atom {self.atom}B"

    def moved(self, byte: int) -> int:
        """The byte of the address at which what would lie at `byte` without a swizzle lies."""
        mask = (1 << self.exchanged) - 1
        return byte ^ (byte // BANKS & mask) * self.atom


NONE = RowSwizzle(0)
SWIZZLES = (NONE, RowSwizzle(32), RowSwizzle(64), RowSwizzle(128), RowSwizzle(128, 32))
"""All of them: without one first, which is meant where nothing tells them apart, and the widest last."""
ATOMS = tuple(sorted({swizzle.atom for swizzle in SWIZZLES}))
