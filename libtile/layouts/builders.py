# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The layouts that code generation uses, as linear layouts: blocked, tensor-core fragments, shared memory.

Register layouts have the input dimensions register, lane, warp; shared-memory layouts have `offset` (in elements).
Output dimensions are dim0 .. dimN-1 in the tile's order, so `dimN-1` is the contiguous one of a row-major tile; they
are listed in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from libtile.layouts.linear import LANE, OFFSET, REGISTER, WARP, LinearLayout
from libtile.layouts.row_swizzles import BANKS, SWIZZLES, RowSwizzle
from libtile.support.records import dataclass


def dim_names(rank: int) -> list[str]:
    return [f"dim{i}" for i in range(rank)]


def _in_order(layout: LinearLayout, rank: int) -> LinearLayout:
    """All output dimensions present and in the tile's order, all three register inputs present."""
    for name in dim_names(rank):
        if name not in layout.out_dims:
            layout = layout * LinearLayout.of({}, {name: 1})
    layout = layout.transpose_outs(dim_names(rank))
    for name in (REGISTER, LANE, WARP):
        layout = layout.with_in_dim(name)
    return layout.transpose_ins([REGISTER, LANE, WARP])


def _along(sizes: Sequence[int], in_dim: str, order: Sequence[int]) -> LinearLayout:
    """`in_dim` counts through a box of these sizes, dimension order[0] fastest."""
    layout = LinearLayout.empty()
    for d in order:
        layout = layout * LinearLayout.identity(sizes[d], in_dim, f"dim{d}")
    return layout


def fit_to_shape(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """Make a layout cover exactly a tile of this shape.

    Where the layout is smaller than the tile it is repeated over more registers (last dimension first); where it is
    larger, the input bits that would leave the tile hold copies instead.
    """
    names = dim_names(len(shape))
    shrunk = {n: min(layout.out_size(n), size) for n, size in zip(names, shape)}
    bases = {
        name: [tuple(c & (shrunk[n] - 1) for n, c in zip(layout.out_dims, v)) for v in vectors]
        for name, vectors in layout.bases
    }
    layout = LinearLayout.of(bases, {n: shrunk[n] for n in layout.out_dims})
    for name, size in zip(reversed(names), reversed(list(shape))):
        if layout.out_size(name) < size:
            layout = layout * LinearLayout.identity(size // layout.out_size(name), REGISTER, name)
    return without_copies_in_registers(layout)


def without_copies_in_registers(layout: LinearLayout) -> LinearLayout:
    """Drop register bits that hold copies: a thread needs no second copy of its own element."""
    return LinearLayout(
        tuple((n, tuple(v for v in vs if any(v)) if n == REGISTER else vs) for n, vs in layout.bases), layout.outs
    )


def blocked(
    shape: Sequence[int],
    size_per_thread: Sequence[int],
    threads_per_warp: Sequence[int],
    warps: Sequence[int],
    order: Sequence[int],
) -> LinearLayout:
    """Each thread holds a box of `size_per_thread` elements, lanes and then warps tile these boxes.

    `order` lists dimensions from the fastest-moving. The box of the whole CTA is repeated over registers, or folded
    into copies, to cover `shape`.
    """
    return _blocked(tuple(shape), tuple(size_per_thread), tuple(threads_per_warp), tuple(warps), tuple(order))


@lru_cache(maxsize=1024)  # a kernel has few, and asks for each many times
def _blocked(
    shape: tuple[int, ...],
    size_per_thread: tuple[int, ...],
    threads_per_warp: tuple[int, ...],
    warps: tuple[int, ...],
    order: tuple[int, ...],
) -> LinearLayout:
    layout = (
        _along(size_per_thread, REGISTER, order) * _along(threads_per_warp, LANE, order) * _along(warps, WARP, order)
    )
    return fit_to_shape(_in_order(layout, len(shape)), shape)


# -- tensor-core fragments ------------------------------------------------------------------------------------------
# PTX ISA, "Matrix Fragments for mma.m16n8k*": with groupID = lane / 4 and threadID_in_group = lane % 4,
# the accumulator's c0..c3 lie at row groupID (+8 for c2, c3), column 2 * threadID_in_group + (i & 1).


def mma_accumulator() -> LinearLayout:
    """C or D of mma.m16n8k*: a 16x8 tile of 32-bit elements over one warp, 4 registers a lane."""
    return _in_order(
        LinearLayout.identity(2, REGISTER, "dim1")
        * LinearLayout.identity(4, LANE, "dim1")
        * LinearLayout.identity(8, LANE, "dim0")
        * LinearLayout.identity(2, REGISTER, "dim0"),
        2,
    )


def mma_operand_a(element_bits: int) -> LinearLayout:
    """A of mma.m16n8kK with K = 256 / element_bits: 4 32-bit registers a lane, K contiguous in a register."""
    packed = 32 // element_bits
    return _in_order(
        LinearLayout.identity(packed, REGISTER, "dim1")
        * LinearLayout.identity(4, LANE, "dim1")
        * LinearLayout.identity(8, LANE, "dim0")
        * LinearLayout.identity(2, REGISTER, "dim0")
        * LinearLayout.identity(2, REGISTER, "dim1"),
        2,
    )


def mma_operand_b(element_bits: int) -> LinearLayout:
    """B of mma.m16n8kK as a K x 8 tile (dim0 is K): 2 32-bit registers a lane."""
    packed = 32 // element_bits
    return _in_order(
        LinearLayout.identity(packed, REGISTER, "dim0")
        * LinearLayout.identity(4, LANE, "dim0")
        * LinearLayout.identity(8, LANE, "dim1")
        * LinearLayout.identity(2, REGISTER, "dim0"),
        2,
    )


def mma_f64(operand: str) -> LinearLayout:
    """mma.m8n8k4.f64: operand "a" (8x4), "b" (4x8) or "c" (8x8)."""

    def lanes(count: int, dim: str) -> LinearLayout:
        return LinearLayout.identity(count, LANE, dim)

    match operand:
        case "a":
            layout = lanes(4, "dim1") * lanes(8, "dim0")
        case "b":
            layout = lanes(4, "dim0") * lanes(8, "dim1")
        case "c":
            layout = LinearLayout.identity(2, REGISTER, "dim1") * lanes(4, "dim1") * lanes(8, "dim0")
        case _:
            raise ValueError(f"operand must be 'a', 'b' or 'c', got {operand!r}")
    return _in_order(layout, 2)


def over_warps(fragment: LinearLayout, shape: Sequence[int], warps: Sequence[int]) -> LinearLayout:
    """Tile a fragment over warps (last dimension of `warps` fastest) and then over registers to cover `shape`."""
    rank = len(shape)
    layout = fragment
    for d in reversed(range(rank)):
        layout = layout * LinearLayout.identity(warps[d], WARP, f"dim{d}")
    return fit_to_shape(_in_order(layout, rank), shape)


def mma_result(shape: Sequence[int], warps: Sequence[int]) -> LinearLayout:
    """The accumulator of a tile of this shape (M, N) with m16n8 fragments over a grid of warps (rows, columns)."""
    return over_warps(mma_accumulator(), shape, warps)


def mma_operand(shape: Sequence[int], warps: Sequence[int], element_bits: int, operand: str) -> LinearLayout:
    """Operand "a" (M x K) or "b" (K x N) of a tiled mma; warps along the other operand's dimension hold copies."""
    if operand not in ("a", "b"):
        raise ValueError(f"operand must be 'a' or 'b', got {operand!r}")
    fragment = mma_operand_a(element_bits) if operand == "a" else mma_operand_b(element_bits)
    kept = 0 if operand == "a" else 1
    layout = fragment
    for d in (1, 0):  # as in over_warps: the column of the warp grid moves fastest
        step = (
            LinearLayout.identity(warps[d], WARP, f"dim{d}")
            if d == kept
            else LinearLayout.zeros(warps[d], WARP, "dim0")
        )
        layout = layout * step
    return fit_to_shape(_in_order(layout, 2), shape)


def wgmma_accumulator(n: int) -> LinearLayout:
    """D of wgmma.m64nNk* (N a power of two, 8 to 256): four warps of 16 rows each, m16n8 fragments along N."""
    return over_warps(mma_accumulator(), (64, n), (4, 1))


# -- shared memory --------------------------------------------------------------------------------------------------


def row_major(shape: Sequence[int], order: Sequence[int] | None = None) -> LinearLayout:
    """Shared memory without swizzle: offset counts through the tile, order[0] fastest (default: last dimension)."""
    rank = len(shape)
    fastest_first = list(reversed(range(rank))) if order is None else list(order)
    layout = LinearLayout.empty()
    for d in fastest_first:
        layout = layout * LinearLayout.identity(shape[d], OFFSET, f"dim{d}")
    return layout.with_in_dim(OFFSET).transpose_outs(dim_names(rank))


@dataclass(frozen=True)
class Swizzle:
    """Xor swizzle of rows: groups of `vector` elements in a row move by (row / per_phase) mod max_phase.

    `vector * max_phase` elements take part; all three are powers of two.
    """

    vector: int
    per_phase: int
    max_phase: int


def swizzled(shape: Sequence[int], swizzle: Swizzle, order: Sequence[int] = (1, 0)) -> LinearLayout:
    """A 2-D tile in shared memory, order[0] contiguous, with the groups of a row permuted by its row number.

    ValueError when the swizzle does not fit the row.
    """
    fast, slow = order[0], order[1]
    row = shape[fast]
    if swizzle.vector * swizzle.max_phase > row:
        raise ValueError(f"a swizzle over {swizzle.vector * swizzle.max_phase} elements does not fit a row of {row}")
    names = dim_names(2)
    bases: list[tuple[int, int]] = []

    def vector(fast_value: int, slow_value: int) -> tuple[int, int]:
        return (slow_value, fast_value) if fast == 1 else (fast_value, slow_value)

    for i in range(row.bit_length() - 1):
        bases.append(vector(1 << i, 0))
    for i in range(shape[slow].bit_length() - 1):
        r = 1 << i
        phase = (r // swizzle.per_phase) % swizzle.max_phase
        # The element stored at offset (row r, column 0) is the one whose swizzled column is 0: column phase * vector.
        bases.append(vector(phase * swizzle.vector, r))
    return LinearLayout.of({OFFSET: bases}, dict(zip(names, shape)))


def nvmma_shared(
    shape: Sequence[int], element_bits: int, rows: RowSwizzle, order: Sequence[int] = (1, 0)
) -> LinearLayout:
    """The swizzle of TMA, wgmma and tcgen05 for a tile whose rows are as long as its span.

    Atom c of row r is stored at atom c xor (r * span / 128 mod span / atom) (PTX ISA, "Shared memory matrix layout",
    swizzling modes). Wider tiles are made of several such panels side by side.
    """
    if rows not in SWIZZLES:
        raise ValueError(f"swizzle must be one of {', '.join(s.name for s in SWIZZLES)}, got {rows.name}")
    if not rows.span:
        return row_major(shape, order)
    row_elements = rows.span * 8 // element_bits
    panel = [0, 0]
    panel[order[0]], panel[order[1]] = min(row_elements, shape[order[0]]), shape[order[1]]
    if panel[order[0]] < row_elements:
        raise ValueError(f"a row of {panel[order[0]]} elements is shorter than the swizzle of {rows.span} bytes")
    swizzle = Swizzle(rows.atom * 8 // element_bits, BANKS // rows.span, rows.span // rows.atom)
    layout = swizzled(panel, swizzle, order)
    for d in (order[0], order[1]):
        if layout.out_size(f"dim{d}") < shape[d]:
            layout = layout * LinearLayout.identity(shape[d] // layout.out_size(f"dim{d}"), OFFSET, f"dim{d}")
    return layout.transpose_outs(dim_names(2))
