# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a permute moves through shared memory: the way that is chosen meets in no bank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import pytest

from libtile.atoms import mma_sync
from libtile.atoms.cp_async import operand_shared_layout
from libtile.atoms.shared_accesses import accesses, reduced, shared_between
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.convert import Conversion, needed
from libtile.layouts.shared_access import TRANSPOSED, VECTOR, Matrices, SharedAccess
from libtile.targets import MmaAtom

WARP_BITS = 2
SHAPES = [(4, 8, 16), (2, 4, 64), (32, 8, 4), (4, 4, 4, 8), (16, 16), (16, 128), (64, 64), (128, 16)]


def dense(shape: Sequence[int], order: Sequence[int], size: int) -> LinearLayout:
    """The layout by which four warps load or store a tile whose dimensions are dense in this order: vectors of up to
    16 bytes, adjacent threads at adjacent ones."""
    units = [
        tuple(1 << bit if d == dim else 0 for d in range(len(shape)))
        for dim in order
        for bit in range(shape[dim].bit_length() - 1)
    ]
    elements = 1 << len(units)
    vector = max(min(16 // size, elements // 128, shape[order[0]]), 1).bit_length() - 1
    bases = {
        REGISTER: [*units[:vector], *units[vector + 5 + WARP_BITS :]],
        LANE: units[vector : vector + 5],
        WARP: units[vector + 5 : vector + 5 + WARP_BITS],
    }
    return reduced(LinearLayout.of(bases, {f"dim{i}": s for i, s in enumerate(shape)}), WARP_BITS)


def permutes(size: int) -> Iterator[tuple[LinearLayout, LinearLayout]]:
    for shape in SHAPES:
        natural = list(reversed(range(len(shape))))
        for order in permutations(natural):
            source, target = dense(shape, natural, size), dense(shape, order, size)
            if needed(source, target) is Conversion.SHARED:
                yield source, target


def test_bytes_are_transposed_by_matrices_of_16_rows() -> None:
    """A left operand of m16n8k32 whose rows are contiguous: no bank is met twice, and four words come at once."""
    shape = (64, 64)
    layout = mma_sync.fragments(MmaAtom(16, 8, 32, "e4m3", "e4m3", "f32"), (1, 4, 1), (shape, (64, 8), (64, 8)))[0]
    shared = operand_shared_layout(shape, "f8E4M3FN", 0)
    found = accesses(reduced(layout, WARP_BITS), shared, 1, Matrices(rows=True, bytes=True), storing=False)
    assert found.instruction(1) == SharedAccess(TRANSPOSED, 16) and (found.instructions, found.conflicts) == (2, 0)
    assert accesses(reduced(layout, WARP_BITS), shared, 1, Matrices(rows=True), storing=False).kind == VECTOR


@pytest.mark.parametrize("stores", [Matrices(), Matrices(rows=True)])
@pytest.mark.parametrize("loads", [Matrices(rows=True), Matrices(rows=True, bytes=True)])
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_what_a_permute_moves_meets_in_no_bank(size: int, stores: Matrices, loads: Matrices) -> None:
    """Those of 16-bit elements that ldmatrix.trans loads and single elements store met in two rows out of eight."""
    for source, target in permutes(size):
        shared = shared_between(source, target, size, stores, loads)
        stored = accesses(source, shared, size, stores, storing=True)
        loaded = accesses(target, shared, size, loads, storing=False)
        assert (stored.conflicts, loaded.conflicts) == (0, 0), (source, target)
