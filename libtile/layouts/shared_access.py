# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions between registers and shared memory, and ways through it: what is chosen for tiles, as values."""

from __future__ import annotations

from libtile.layouts.linear import LinearLayout
from libtile.support.records import dataclass

VECTOR, MATRIX, TRANSPOSED = "vector", "matrix", "transposed"

PIECE_BYTES = 32768
"""The most that one exchange takes, where it can go in pieces."""
ALIGNMENT = 16
"""Of the place of an exchange, in bytes: what the widest access of a thread needs."""


@dataclass(frozen=True)
class SharedAccess:
    """An instruction between registers and shared memory: a vector's, or one of matrices as they are or transposed, and
    the bytes that a thread's one moves."""

    kind: str
    bytes: int


@dataclass(frozen=True)
class Matrices:
    """Which instructions of matrices there are between registers and shared memory, in one direction."""

    rows: bool = False
    """Of 8 rows of 16 bytes, as they are, or transposed by elements of 16 bits."""
    bytes: bool = False
    """Of 16 rows of 16 bytes, transposed by bytes."""


@dataclass(frozen=True)
class SharedWay:
    """A way through shared memory: the layout of the tile (or of a piece of it) there, and by what it is stored and
    loaded."""

    layout: LinearLayout
    store: SharedAccess
    load: SharedAccess


def piece_bytes(room: int, most: int = PIECE_BYTES) -> int:
    """The largest power of two up to `most` that there is room for: what an exchange in pieces takes at a time."""
    return 1 << max(min(most, room), 1).bit_length() - 1


def padded(size: int) -> int:
    """A number of bytes, rounded up to whole alignments."""
    return -(-size // ALIGNMENT) * ALIGNMENT
