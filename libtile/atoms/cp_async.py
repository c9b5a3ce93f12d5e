# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asynchronous copies from global to shared memory: which fit two layouts, and layouts of shared memory that suit them.

A thread's copy moves 4, 8 or 16 bytes that lie side by side on both sides (PTX ISA, "cp.async").
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from libtile.atoms.shared_accesses import Offsets, accesses, normalized
from libtile.layouts import LANE, OFFSET, REGISTER, WARP, LinearLayout, f2
from libtile.layouts.builders import dim_names, nvmma_shared, row_major
from libtile.layouts.convert import bank_conflicts, lanes_at_once, shared_for
from libtile.layouts.registers import register_groups
from libtile.layouts.renaming import without_register_copies
from libtile.layouts.row_swizzles import CHUNK, SWIZZLES
from libtile.layouts.shared_access import Matrices
from libtile.numerics.elements import STORAGE_BYTES

COPY_BYTES = (4, 8, 16)
CHUNK_BYTES = 16


def operand_shared_layout(
    shape: Sequence[int], element: str, fastest: int | None = None, atom: int = CHUNK
) -> LinearLayout:
    """A shared-memory layout for a tile that products read: contiguous along a dimension (default: the last), with the
    swizzle in which 16-byte copies along rows, and ldmatrix along rows or transposed, meet no bank conflicts. Rows that
    are long enough are exchanged by atoms of so many bytes.

    Rows and columns are that dimension and the last of the others with more than one element; the rest are batches.
    """
    return _operand_shared_layout(tuple(shape), element, fastest, atom)


@lru_cache(maxsize=256)
def _operand_shared_layout(shape: tuple[int, ...], element: str, fastest: int | None, atom: int) -> LinearLayout:
    names = dim_names(len(shape))
    if fastest is None:
        fastest = len(shape) - 1
    others = [d for d in reversed(range(len(shape))) if d != fastest and shape[d] > 1]
    if not others:
        return row_major(shape, [fastest, *(d for d in reversed(range(len(shape))) if d != fastest)])
    rows, size = others[0], STORAGE_BYTES[element]
    known = [s for s in SWIZZLES if s.atom in (CHUNK, atom) and s.span <= shape[fastest] * size]
    swizzle = known[-1]
    matrix = nvmma_shared([shape[rows], shape[fastest]], 8 * size, swizzle)
    layout = matrix.rename_outs({"dim0": names[rows], "dim1": names[fastest]})
    for d in range(len(shape)):
        if shape[d] == 1 and d != fastest:
            layout = layout * LinearLayout.of({}, {names[d]: 1})
    for d in others[1:]:
        layout = layout * LinearLayout.identity(shape[d], OFFSET, names[d])
    return layout.transpose_outs(names)


@lru_cache(maxsize=256)
def staged_layout(
    copied: LinearLayout, targets: tuple[LinearLayout, ...], element: str, fastest: int, matrices: Matrices
) -> LinearLayout:
    """A shared-memory layout for a tile that is copied in one layout, in vectors along a dimension, and read in others.

    It is that of `operand_shared_layout`, which TMA knows as well, unless reading would meet conflicts there that it
    does not meet when the 16-byte chunks are spread over the banks in another way.
    """
    size, shape = STORAGE_BYTES[element], copied.shape
    outs = dict(zip(copied.out_dims, shape))
    best = operand_shared_layout(shape, element, fastest)
    chunk = min(CHUNK_BYTES // size, shape[fastest])
    steps = [[1 << i if d == fastest else 0 for d in range(len(shape))] for i in range(chunk.bit_length() - 1)]
    vector = LinearLayout.of({REGISTER: steps}, outs).columns([REGISTER])

    def together(layout: LinearLayout) -> int:
        """Elements of a chunk that a thread has."""
        held = f2.Basis(layout.columns([REGISTER]))
        return 1 << next((i for i, v in enumerate(vector) if v not in held), len(vector))

    def lanes(layout: LinearLayout) -> list[int]:
        """The vectors by which the places of one wavefront differ."""
        return layout.columns([LANE])[: lanes_at_once(together(layout) * size)]

    read = [normalized(without_register_copies(t), len(t.basis(WARP))) for t in targets]

    def cost(shared: LinearLayout) -> int:
        found = [accesses(t, shared, size, matrices, storing=False) for t in read]
        width = together(copied)
        writes = copied.in_size(REGISTER) // width * (1 + bank_conflicts(copied, shared, size, width))
        return writes + sum(access.instructions + access.wavefronts(size) for access in found)

    lowest = cost(best)
    for layout in read:
        shared = shared_for(outs, vector, [lanes(copied), lanes(layout)], size)
        if (found := cost(shared)) < lowest:
            best, lowest = shared, found
    return best


def async_groups(
    shared: LinearLayout, layout: LinearLayout, element: str, dim: int, width: int
) -> list[tuple[int, ...]] | None:
    """A thread's registers in groups of `width` elements along a dimension, each of which one copy can move because it
    is contiguous in shared memory, too; None when the layouts or the width do not allow that."""
    size = STORAGE_BYTES[element]
    if width * size not in COPY_BYTES:
        return None
    groups = register_groups(layout, dim, width)
    offsets = Offsets.of(layout, shared)
    if any(v & (width - 1) for v in (*offsets.lanes, *offsets.warps)):
        return None
    for group in groups:
        places = [f2.apply(offsets.registers, r) for r in group]
        if len(group) != width or places != list(range(places[0], places[0] + width)) or places[0] % width:
            return None
    return groups


def copy_width(shared: LinearLayout, layout: LinearLayout, element: str, dim: int, most: int) -> int | None:
    """The most elements, up to `most`, that one copy can move along a dimension; None when there are no copies."""
    width = most
    while width >= 1:
        if async_groups(shared, layout, element, dim, width) is not None:
            return width
        width //= 2
    return None
