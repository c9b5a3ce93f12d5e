# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Copies of a tile from shared memory to shared memory that make another dimension the dense one.

Products of 8-bit and 32-bit elements read operands that are dense along k only, and TMA writes a tile as it lies in
memory. Elements lie in chunks of 16 bytes; s is the dimension that is dense in the source, d that of the destination.

Bytes go by matrices: `ldmatrix.trans` takes 8 rows of 16 bytes, which are any, and gives a lane two neighbouring bytes
of two rows. With rows 4j, 4j + 1 in one matrix and 4j + 2, 4j + 3 in another one, j = lane % 4, a lane has 4 bytes
along d at two places along s: `prmt` makes a word of each, and `stmatrix` stores such words as rows of 16 bytes. Rows
that are equal modulo 8 lie in the same banks, so that the two matrices change places for the upper half of j, and so
do the two words for the upper half of the lanes: what `prmt` selects depends on the lane (`selector_bits`).

Words go by vectors: a lane loads 4 chunks and stores 4, of 4 x 4 words; which blocks neighbouring lanes have is chosen
so that neither meets in banks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations

from libtile.layouts import OFFSET, LinearLayout, f2
from libtile.layouts.shared_access import TRANSPOSED, VECTOR, SharedAccess
from libtile.support.records import dataclass

CHUNK = 16
LANE_BITS = 5
_WAVE_BITS = 3
"""Lanes, as bits, whose 16 bytes go over the banks together."""

SELECTOR = 0x6420
"""What `prmt` selects of two words for the first one of bytes, in lane 0."""
SELECTOR_BITS = (0, 0x4444, 0, 0, 0x1111)
"""What each bit of the lane changes in it: which word comes first, and which byte of each pair."""
OTHER_WORD = 0x1111
"""What is changed for the second word."""


@dataclass(frozen=True)
class Side:
    """Offsets, in elements, of a thread's chunks: by bits of the lane and the warp, and by the number of the chunk."""

    lanes: tuple[int, ...]
    warps: tuple[int, ...]
    starts: tuple[int, ...]
    parts: tuple[int, ...]
    """Of the chunks of a block of words, on top of its start; (0,) of bytes, whose lanes have a chunk each."""


@dataclass(frozen=True)
class Transposition:
    """How warps copy a tile: loads are TRANSPOSED ones of matrices, or of VECTORs; both sides list their chunks in one
    order."""

    loads: SharedAccess
    source: Side
    destination: Side


@lru_cache(maxsize=64)
def transposition(source: LinearLayout, destination: LinearLayout, size: int, warps: int) -> Transposition | str:
    """How so many warps copy a matrix of elements of `size` bytes from one layout of offsets to another one, in which
    the other dimension is dense; or why they do not."""
    if size not in (1, 4):
        return f"elements of {size} bytes are not transposed on their way"
    along = CHUNK // size
    dense = [_dense(layout, along) for layout in (source, destination)]
    s, d = dense
    if s is None or d is None or s == d or source.shape != destination.shape:
        return "its layouts are not dense along different dimensions by 16 bytes"
    inverses = source.inverse(), destination.inverse()
    names = source.out_dims

    def at(move: tuple[int, int]) -> tuple[int, int]:
        """The offsets of what is so far along s and d."""
        place = {names[s]: move[0], names[d]: move[1]}
        first, second = (layout(**place)[OFFSET] for layout in inverses)
        return first, second

    extents = source.shape[s], source.shape[d]
    bits = [(1 << i, 0) for i in range(along.bit_length() - 1, extents[0].bit_length() - 1)]
    bits += [(0, 1 << i) for i in range(along.bit_length() - 1, extents[1].bit_length() - 1)]
    lanes = _of_bytes(bits) if size == 1 else _of_words(bits, at, size)
    warp_bits = warps.bit_length() - 1
    if lanes is None:
        return "it is too small to be transposed by whole warps"
    loads, stores, rest = lanes
    if len(rest) < warp_bits:
        return f"it is too small to be transposed by {warps} warps"
    parts = [(0, 0)] if size == 1 else [(n, n) for n in range(along)]
    spread, blocks = rest[:warp_bits], _sums(rest[warp_bits:])
    sides = [
        Side(
            tuple(at(v)[n] for v in own),
            tuple(at(v)[n] for v in spread),
            tuple(at(v)[n] for v in blocks),
            # A chunk of the source is at a place along d, and the other way round.
            tuple(at((0, p[0]) if n == 0 else (p[1], 0))[n] for p in parts),
        )
        for n, own in enumerate((loads, stores))
    ]
    return Transposition(SharedAccess(TRANSPOSED if size == 1 else VECTOR, CHUNK), sides[0], sides[1])


_Moves = list[tuple[int, int]]


def _dense(layout: LinearLayout, along: int) -> int | None:
    """The dimension along which so many elements lie side by side."""
    if len(layout.shape) != 2 or layout.in_dims != (OFFSET,):
        return None
    first = layout.basis(OFFSET)[: along.bit_length() - 1]
    for dim in range(2):
        if [tuple(v) for v in first] == [tuple(1 << i if d == dim else 0 for d in range(2)) for i in range(len(first))]:
            return dim
    return None


def _of_bytes(bits: _Moves) -> tuple[_Moves, _Moves, _Moves] | None:
    """What bits of the lane, which gives the address of a row, move for loads and for stores; and what is left."""
    if not bits:
        return None
    further, *rest = bits
    return [(0, 1), (0, 4), (0, 8 | 2), (0, 2), further], [(2, 0), (4, 0), (8 | 1, 0), (1, 0), further], rest


def _of_words(bits: _Moves, at: Callable[[tuple[int, int]], tuple[int, int]], size: int) -> (
    tuple[_Moves, _Moves, _Moves] | None
):  # fmt: skip
    """As `_of_bytes`, of lanes that each have a block: the first ones have blocks in different banks on both sides."""
    if len(bits) < LANE_BITS:
        return None
    near = [*bits, *((a[0] ^ b[0], a[1] ^ b[1]) for a, b in combinations(bits, 2))]

    def banks(moves: tuple[tuple[int, int], ...]) -> int:
        sides = zip(*(at(move) for move in moves))
        return sum(f2.rank([offset * size // CHUNK % 8 for offset in side]) for side in sides)

    wave = max(combinations(near, _WAVE_BITS), key=lambda moves: (_independent(moves), banks(moves)))
    lanes, rest = list(wave), list[tuple[int, int]]()
    for move in bits:
        if not _independent((*lanes, *rest, move)):
            continue
        (lanes if len(lanes) < LANE_BITS else rest).append(move)
    return lanes, lanes, rest


def _independent(moves: Sequence[tuple[int, int]]) -> bool:
    return f2.rank([a << 16 | b for a, b in moves]) == len(moves)


def _sums(moves: _Moves) -> _Moves:
    found = [(0, 0)]
    for a, b in moves:
        found += [(a ^ x, b ^ y) for x, y in found]
    return found
