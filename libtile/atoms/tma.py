# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor copies by TMA: which accesses of tiles they can do, and in which boxes.

A tensor map says where a tensor lies, its sizes and strides, and the box that one copy moves; what lies outside of the
tensor is read as zeros and not written. The box stands in shared memory with its innermost dimension fastest, and
atoms exchanged by a swizzle (PTX ISA, "Tensors"; CUDA driver API, `cuTensorMapEncodeTiled`, for the limits).
A tile in shared memory is made of one or more such boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from libtile.layouts import OFFSET, LinearLayout
from libtile.layouts.row_swizzles import BANKS, CHUNK, SWIZZLES, RowSwizzle
from libtile.numerics.elements import ELEMENTS, POINTER, ElementType
from libtile.support.records import dataclass
from libtile.targets.tensor_map import MAX_BOX, MAX_RANK

ALIGNMENT = 128
"""Bytes of a box's address in shared memory; with a swizzle what its pattern begins again after."""
MAX_BYTES = 1 << 20
"""What the byte count of a barrier object's phase is below (PTX ISA, "mbarrier.expect_tx": the range of tx-count)."""

_INTEGERS = {8: "u8", 16: "u16", 32: "s32", 64: "s64"}


def _map_element(element: ElementType) -> str:
    if element.is_integer or element.is_narrow_float:
        return _INTEGERS[element.storage_bits]
    return f"f{element.storage_bits}" if element.storage_bits == 32 else element.ptx


MAP_ELEMENTS = {
    name: _map_element(element)
    for name, element in ELEMENTS.items()
    if element.bits > 1 and not element.is_packed and name != POINTER
}
"""The type of a tensor map (`libtile.targets.tensor_map.ELEMENTS`) for elements in memory, by keyword."""


def map_element(element: str, inside: str) -> str:
    """The type of a tensor map for elements in memory, and what they are `inside` of the block: f32 that becomes tf32
    is rounded on its way."""
    return "tf32" if (element, inside) == ("f32", "tf32") else MAP_ELEMENTS[element]


@dataclass(frozen=True)
class Tensor:
    """What is known of a tensor in global memory; by dimension: `strides` in elements (None where they are known at run
    time only), and powers of two that divide them. `alignment` divides the base address, in bytes; `narrow` says that
    positions along each dimension are below 2**31."""

    element: str
    alignment: int
    strides: tuple[int | None, ...]
    stride_divisors: tuple[int, ...]
    narrow: bool


def contiguous_dim(strides: Sequence[int | None]) -> int | None:
    """The dimension along which a tensor is dense; None when none is known to be."""
    return next((d for d, stride in enumerate(strides) if stride == 1), None)


def not_copied(tensor: Tensor, padding: str | None) -> str | None:
    """Why no tensor map describes a tensor, or copies of it cannot pad as they have to; None when they can."""
    element = ELEMENTS[tensor.element]
    if tensor.element not in MAP_ELEMENTS:
        return f"tensor maps have no elements of type {tensor.element}"
    rank = len(tensor.strides)
    if not 1 <= rank <= MAX_RANK:
        return f"tensor maps have rank 1 to {MAX_RANK}, not {rank}"
    dense = contiguous_dim(tensor.strides)
    if dense is None:
        return "no dimension has stride 1"
    if tensor.alignment % CHUNK:
        return f"its base address is not known to be a multiple of {CHUNK} bytes"
    for d, (stride, divisor) in enumerate(zip(tensor.strides, tensor.stride_divisors)):
        known = divisor if stride is None else stride
        if d != dense and known * element.storage_bytes % CHUNK:
            return f"the stride of dimension {d} is not known to be a multiple of {CHUNK} bytes"
        if stride is not None and not 0 <= stride * element.storage_bytes < 1 << 40:
            return f"the stride of dimension {d} is {stride} elements, and tensor maps have those below 2**40 bytes"
    if not tensor.narrow:
        return "its sizes are not known to be below 2**31, as coordinates of tensor maps are"
    if padding not in (None, "zero"):
        return f"tensor copies pad with zeros, not with {padding}"
    return None


@dataclass(frozen=True)
class Copy:
    """One box of a tile: where it begins in the tile (by tile dimension), and in shared memory (bytes)."""

    corner: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Boxes:
    """A tile in boxes. `order` lists the tile's dimensions as the tensor map has them, innermost first; `box` counts
    elements in this order."""

    order: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: RowSwizzle
    copies: tuple[Copy, ...]

    @property
    def alignment(self) -> int:
        """Of the tile in shared memory, in bytes."""
        return _alignment(self.swizzle)


def rows_of(box: Sequence[int]) -> int:
    """The `rows` of `boxes` for tiles in boxes of these extents."""
    return box[1] if len(box) > 1 else MAX_BOX


@lru_cache(maxsize=256)
def boxes(shared: LinearLayout, contiguous: int, element_bytes: int, rows: int = MAX_BOX) -> Boxes | str:
    """The boxes that a tile with this layout in shared memory is made of, where `contiguous` is its dense dimension in
    global memory; or why there are none. A box has at most so many `rows`, elements along the second dimension of its
    order."""
    if shared.in_dims != (OFFSET,) or not shared.is_invertible:
        return "its layout in shared memory does not give each element one place"
    for swizzle in SWIZZLES:
        found = _rows(shared, contiguous, element_bytes, swizzle)
        if found is not None:
            return _boxes(shared, contiguous, element_bytes, swizzle, *found, rows)
    return "its layout in shared memory is none that tensor copies write"


GATHERED = 4
"""Rows that one copy of the modes gather4 and scatter4 moves, each from or to a place of its own."""


@lru_cache(maxsize=256)
def row_boxes(shared: LinearLayout, contiguous: int, element_bytes: int) -> Boxes | str:
    """The boxes of one row each that a tile of rank 2 with this layout in shared memory is made of, where each copy
    moves `GATHERED` rows of it; or why there are none. There is a copy for each column of boxes, with its first rows:
    those of rows further down lie as many rows further in shared memory."""
    if shared.in_dims != (OFFSET,) or not shared.is_invertible or len(shared.shape) != 2:
        return "its layout in shared memory does not give each element of rows and columns one place"
    if shared.shape[1 - contiguous] < GATHERED:
        return f"it has {shared.shape[1 - contiguous]} rows, and {GATHERED} are copied at a time"
    for swizzle in SWIZZLES:
        found = _rows(shared, contiguous, element_bytes, swizzle)
        if found is None:
            continue
        row, moves = found
        down = shared.shape[1 - contiguous].bit_length() - 1
        nbytes = GATHERED * row * element_bytes
        if moves[:down] != [(1 - contiguous, 1 << i) for i in range(down)]:
            return "its rows do not lie one behind the other in shared memory"
        if nbytes % ALIGNMENT:
            return f"its boxes of {nbytes} bytes would not be aligned to {ALIGNMENT} in shared memory"
        copies = [Copy((0, 0), 0)]
        for i, (d, distance) in enumerate(moves[down:]):
            corner = tuple(distance if n == d else 0 for n in range(2))
            copies += [
                Copy(tuple(map(sum, zip(c.corner, corner))), c.offset + (row * element_bytes << down + i))
                for c in copies
            ]
        return Boxes((contiguous, 1 - contiguous), (row, 1), swizzle, tuple(copies))
    return "its layout in shared memory is none that tensor copies write"


def _alignment(swizzle: RowSwizzle) -> int:
    return max(ALIGNMENT, swizzle.repeats)


def _rows(
    shared: LinearLayout, contiguous: int, size: int, swizzle: RowSwizzle
) -> tuple[int, list[tuple[int, int]]] | None:
    """(elements of an inner row, (dimension, distance) of each further bit of the offset) of a layout with a swizzle;
    None when it has not this one."""
    basis = shared.basis(OFFSET)
    row = swizzle.span // size if swizzle.span else min(shared.shape[contiguous], MAX_BOX)
    inner = row.bit_length() - 1
    if len(basis) < inner or row * size % CHUNK:
        return None
    rank = len(shared.shape)
    for i in range(inner):
        if basis[i] != tuple(1 << i if d == contiguous else 0 for d in range(rank)):
            return None
    first = BANKS.bit_length() - 1
    moves = []
    for i, vector in enumerate(basis[inner:], start=inner):
        bit = i + size.bit_length() - 1  # of the byte address
        wanted = list(vector)
        if first <= bit < first + swizzle.exchanged:
            wanted[contiguous] ^= (swizzle.atom << bit - first) // size
        moved = [(d, v) for d, v in enumerate(wanted) if v]
        if len(moved) != 1 or moved[0][1] & (moved[0][1] - 1):
            return None
        moves.append(moved[0])
    return row, moves


def _boxes(
    shared: LinearLayout, contiguous: int, size: int, swizzle: RowSwizzle, row: int, moves: list[tuple[int, int]],
    rows: int,
) -> Boxes | str:  # fmt: skip
    order, box = [contiguous], {contiguous: row}
    nbytes, inside = row * size, 0
    for d, distance in moves:
        begun = d in box
        if (begun and d != order[-1]) or d == contiguous or distance != box.get(d, 1) or 2 * distance > MAX_BOX:
            break
        is_second = len(order) == (2 if begun else 1)
        if is_second and 2 * distance > rows:
            break
        if 2 * nbytes >= MAX_BYTES:
            break
        if not begun:
            order.append(d)
        box[d], nbytes, inside = 2 * distance, 2 * nbytes, inside + 1
    alignment = _alignment(swizzle)
    if len(moves) > inside and nbytes % alignment:
        return f"its boxes of {nbytes} bytes would not be aligned to {alignment} in shared memory"
    rank = len(shared.shape)
    copies = [Copy((0,) * rank, 0)]
    for i, (d, distance) in enumerate(moves[inside:]):
        copies += [
            Copy(tuple(x + distance if n == d else x for n, x in enumerate(c.corner)), c.offset + (nbytes << i))
            for c in copies
        ]
    order += [d for d in reversed(range(rank)) if d not in box]
    return Boxes(tuple(order), tuple(box.get(d, 1) for d in order), swizzle, tuple(copies))
