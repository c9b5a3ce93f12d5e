# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tcgen05.mma: which shapes and types there are, where a result lies in tensor memory, and what descriptors say.

One thread multiplies 128 rows of A, or 64, with up to 256 columns of B, both in shared memory; of a pair of CTAs one
multiplies the 128 rows that each of the two has with all columns, of which each has half. The result lies in
tensor memory: 128 lanes of 512 columns of 32 bits, a row of the result to a lane and its columns one behind the other,
those of f16 as well; tiles of more rows go on in the columns behind. Warp w of a CTA reaches the lanes 32 (w mod 4) to
32 (w mod 4) + 31 (PTX ISA, "Tensor Memory" and "Data path layout organization").

Operands lie in shared memory as those of wgmma do; the descriptors have other fields (PTX ISA, "Shared memory
descriptor" and "Instruction descriptor" of the tcgen05 family).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from libtile.atoms import wgmma
from libtile.atoms.mma_moves import powers
from libtile.atoms.wgmma import SharedOperand
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.builders import dim_names
from libtile.layouts.row_swizzles import RowSwizzle
from libtile.support.records import replace
from libtile.targets import MmaAtom, Target

FAMILY = "tcgen05"
LANES = 128
"""Of tensor memory; also the rows of one instruction."""
HALF_LANES = 64
"""Rows of the instruction for smaller tiles, 16 of which lie in each quarter of the lanes."""
HALF_COLUMNS = 16
"""Each CTA of a pair has a multiple of so many columns of the right operand."""
COLUMNS = 512
"""Of tensor memory, each of 32 bits."""
COLUMN_BITS = 32
FEWEST_COLUMNS = 32
"""What is allocated is a power of two of columns, this or more."""
WARP_LANES = 32
GROUP_WARPS = 4
"""So many warps reach all lanes."""
ROWS_OF_THREADS = (HALF_LANES, LANES, 2 * LANES)
"""Rows of a result of which threads may have one each, or two of them one."""
FRAGMENT_BITS = 256
"""Of a lane in loads and stores of the shape 16x256b, in which a warp's registers are a fragment of mma.sync."""
FRAGMENT_LANES = 16
FRAGMENT_COLUMNS = 8
"""Columns of 32 bits that one such fragment covers, in four registers."""
RUN_COLUMNS = 32
"""Of two groups of four warps each has every other run of so many columns, at most."""
ROWS_BITS = 32
"""Of a lane in loads and stores of the shapes 32x32b, in which a thread has a row, and 16x32bx2, in which two have."""
ROW, COLUMN, PACKED = "row", "column", "packed"
"""The dimensions of layouts of tensor memory: lane, column, and element of a column that holds several."""

_MODES = {RowSwizzle(0): 0, RowSwizzle(128, 32): 1, RowSwizzle(128): 2, RowSwizzle(64): 4, RowSwizzle(32): 6}
_VERSION = 1 << 46
_OPERANDS = {
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "f8f6f4": {"e4m3": 0, "e5m2": 1},
    "i8": {"u8": 0, "s8": 1},
}
_RESULTS = {"f16": 0, "f32": 1, "s32": 2}


def find(target: Target, a: str, b: str, d: str, rows: int, columns: int, depth: int, ctas: int = 1) -> MmaAtom | None:
    """The widest instruction that a product of a tile of rows x depth and one of depth x columns is made of, for PTX's
    names of the types; None where there is none, the tile is smaller, or tensor memory does not hold the result. Of a
    pair of CTAs each has so many rows, and half of the columns of the right operand."""
    family = target.tcgen05(a, b, d)
    if family is None or depth % family.k or result_columns((rows, columns)) > COLUMNS:
        return None
    fitting = [n for n in family.columns if columns % n == 0]
    m = min(rows, LANES) * ctas
    if not fitting or m not in (family.rows if ctas == 1 else family.pair_rows) or rows % min(rows, LANES):
        return None
    if ctas > 1 and (fitting[-1] != columns or columns % (ctas * HALF_COLUMNS)):
        return None
    return MmaAtom(m, fitting[-1], family.k, a, b, d, family=FAMILY, since=family.since)


def ctas_of(atom: MmaAtom) -> int:
    """How many CTAs multiply together by an instruction: a pair has more rows than a CTA has lanes."""
    return 2 if atom.m > LANES else 1


def share_of(atom: MmaAtom) -> MmaAtom:
    """What operands of an instruction are like in the shared memory of one CTA: of a pair's half of the rows and of
    the columns."""
    ctas = ctas_of(atom)
    return replace(atom, m=atom.m // ctas, n=atom.n // ctas)


def transposed_atoms(target: Target, atom: MmaAtom) -> tuple[int, ...]:
    """The bytes of the atoms of swizzles under which operands may be MN-major; none where they may not."""
    family = target.tcgen05(atom.a, atom.b, atom.d)
    return () if family is None else family.transposed


def kind(target: Target, atom: MmaAtom) -> str:
    """The qualifier of the instruction. KeyError for an atom that the target does not have."""
    family = target.tcgen05(atom.a, atom.b, atom.d)
    if family is None:
        raise KeyError(f"{target.name} has no {atom}")
    return family.kind


# -- tensor memory ----------------------------------------------------------------------------------------------------


def memory_layout(shape: Sequence[int], block: int | None = None) -> LinearLayout:
    """Where a result (rows, columns) lies in tensor memory; ValueError for one that does not fit there. Of 64 rows
    16 lie in each quarter of the lanes, of which the other half is not used. Blocks of 128 rows lie so many columns
    apart as a `block` of the result has of which this is a part; None where it is no part of its columns."""
    if len(shape) != 2:
        raise ValueError(f"tensor memory holds matrices, not tiles of rank {len(shape)}")
    rows, columns = shape
    if (rows % LANES and rows != HALF_LANES) or result_columns(shape) > COLUMNS:
        raise ValueError(f"tensor memory does not hold {rows} x {columns} elements, {LANES} rows at a time")
    return LinearLayout.of(
        {
            ROW: _lanes(rows),
            COLUMN: [
                *((0, c) for c in powers(1, columns)),
                *((0, 0) for _ in (powers(columns, block or columns) if rows > LANES else ())),
                *((r, 0) for r in powers(LANES, rows)),
            ],
        },
        dict(zip(dim_names(2), (rows, columns))),
    )


def block_columns(layout: LinearLayout) -> int:
    """How many columns behind a block of 128 rows the next one begins, in a layout of tensor memory that has several;
    of one that has a single block, how many columns it takes."""
    columns = layout.basis(COLUMN)
    return 1 << next((n for n, place in enumerate(columns) if place[0]), len(columns))


def _lanes(rows: int) -> list[tuple[int, int]]:
    """The row of each bit of a lane's number, of which bit 4 tells no rows apart where there are 64."""
    lanes = [(r, 0) for r in powers(1, min(rows, LANES))]
    if rows == HALF_LANES:
        lanes.insert(FRAGMENT_LANES.bit_length() - 1, (0, 0))
    return lanes


def left_layout(shape: Sequence[int], bits: int) -> LinearLayout:
    """Where a left operand (rows, depth) of elements of so many bits lies in tensor memory: as many in a column as its
    32 bits hold, and its rows as a result's (PTX ISA, "Matrix A in tensor memory", and "Data path layout
    organization"). ValueError for one that does not."""
    rows, depth = shape
    together = COLUMN_BITS // bits
    if rows not in ROWS_OF_THREADS or depth % together or result_columns(shape) // together > COLUMNS:
        raise ValueError(f"tensor memory does not hold a left operand of {rows} x {depth} elements of {bits} bits")
    return LinearLayout.of(
        {
            PACKED: [(0, c) for c in powers(1, together)],
            ROW: _lanes(rows),
            COLUMN: [*((0, c) for c in powers(together, depth)), *((r, 0) for r in powers(LANES, rows))],
        },
        dict(zip(dim_names(2), shape)),
    )


@lru_cache(maxsize=256)
def row_layout(shape: tuple[int, ...], warps: int) -> LinearLayout:
    """A result or a left operand (rows, columns) in registers of `row_warps` of which each thread has a row, or of 64
    rows two threads, each every other `run_columns`. ValueError when rows and warps do not fit."""
    if len(shape) != 2 or shape[0] not in ROWS_OF_THREADS or warps != row_warps(shape[0]) or shape[1] < 2:
        raise ValueError(f"{warps} warps do not have rows of {'x'.join(map(str, shape))} in their threads")
    each = min(shape[0], LANES) // GROUP_WARPS
    columns, second = [(0, c) for c in powers(1, shape[1])], list[tuple[int, int]]()
    if each < WARP_LANES:
        second = [(0, run_columns(shape[1]))]
        columns.remove(second[0])
    return LinearLayout.of(
        {
            REGISTER: columns,
            LANE: [*((r, 0) for r in powers(1, each)), *second],
            WARP: [(r, 0) for r in powers(each, shape[0])],
        },
        dict(zip(dim_names(2), shape)),
    )


def row_part_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """The part of a result (rows, columns) in `row_layout` that a thread has in as many registers as a run's."""
    rows, columns = shape
    return rows, min(columns, RUN_COLUMNS * max(LANES // rows, 1))


def row_warps(rows: int) -> int:
    """How many warps have a result in `row_layout`: four for each block of 128 rows."""
    return GROUP_WARPS * row_blocks(rows)


def row_blocks(rows: int) -> int:
    """How many blocks of rows lie in columns of their own, one behind the other."""
    return max(rows // LANES, 1)


def result_columns(shape: Sequence[int]) -> int:
    """How many columns a result (rows, columns) takes, or a left operand of 32 bits."""
    rows, columns = shape
    return row_blocks(rows) * columns


def allocated_columns(shape: Sequence[int], count: int = 1) -> int:
    """How many columns are allocated for so many results."""
    wanted = max(count * result_columns(shape), FEWEST_COLUMNS)
    return 1 << (wanted - 1).bit_length()


def part_shape(shape: tuple[int, int], warps: int) -> tuple[int, int]:
    """The part of a result (rows, columns) that so many warps load at a time: of all lanes, and so many columns that a
    thread has no more registers of it than of a run."""
    rows, columns = shape
    return min(rows, LANES), min(columns, RUN_COLUMNS * max(warps // GROUP_WARPS, 1))


def run_columns(columns: int) -> int:
    """How many columns side by side each of two groups of four warps, or of two threads with a row, has of a result
    with so many."""
    return min(RUN_COLUMNS, columns // 2)


def are_loaded_by(shape: Sequence[int], warps: int) -> bool:
    """Whether `register_layout` has a layout of a result (rows, columns) for so many warps."""
    rows, columns = shape
    fewest = {GROUP_WARPS: 1, 2 * GROUP_WARPS: 2 * FRAGMENT_COLUMNS}.get(warps)
    held = rows % LANES == 0 or rows == HALF_LANES
    return held and fewest is not None and columns >= fewest


@lru_cache(maxsize=256)
def register_layout(shape: tuple[int, ...], warps: int) -> LinearLayout:
    """A result (rows, columns) in registers of 4 or 8 warps, of which each loads what it reaches: the fragments of
    mma.sync, 16 rows below the other, of all columns; of 8 warps the second four have every other 32 columns, so that
    warps share parts of 64 alike. ValueError when rows and warps do not fit."""
    if len(shape) != 2:
        raise ValueError(f"tensor memory holds matrices, not tiles of rank {len(shape)}")
    rows, columns = shape
    if (rows % LANES and rows != HALF_LANES) or warps not in (GROUP_WARPS, 2 * GROUP_WARPS):
        raise ValueError(f"{warps} warps do not share {rows} rows of tensor memory")
    each = min(rows, LANES) // GROUP_WARPS
    below = [(r, 0) for r in powers(FRAGMENT_LANES, each)]
    beyond = [(r, 0) for r in powers(LANES, rows)]
    across = [(0, c) for c in powers(FRAGMENT_COLUMNS, columns)]
    second: list[tuple[int, int]] = []
    if warps > GROUP_WARPS:
        if not across:
            raise ValueError(f"{warps} warps do not share {columns} columns of tensor memory")
        second = [(0, run_columns(columns))]
        across.remove(second[0])
    return LinearLayout.of(
        {
            REGISTER: [(0, 1), (8, 0), *across, *below, *beyond],
            LANE: [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)],
            WARP: [(each, 0), (2 * each, 0), *second],
        },
        dict(zip(dim_names(2), shape)),
    )


# -- descriptors ------------------------------------------------------------------------------------------------------


def shared_operand(
    layout: LinearLayout, side: str, atom: MmaAtom, element_bytes: int, transposed_atoms: tuple[int, ...]
) -> SharedOperand | str:
    """How an operand (side "a": rows x depth, "b": depth x columns) in this layout is read, or why it cannot be."""
    return wgmma.shared_operand(layout, side, share_of(atom), element_bytes, transposed_atoms)


def fields(operand: SharedOperand) -> int:
    """The descriptor of an operand at address 0: leading and stride in 16 bytes at bits 16 and 32, the version, and
    the swizzle at bit 61."""
    return _MODES[operand.swizzle] << 61 | _VERSION | operand.stride // 16 << 32 | operand.leading // 16 << 16


def instruction(kind: str, atom: MmaAtom, transposed: tuple[bool, bool]) -> int:
    """The instruction descriptor: types, which operands are MN-major, and the shape. Sums of bytes wrap, as those of
    `mma.sync` and wgmma without `.satfinite`: the bit that has them saturate (3) is not set."""
    operands, (m, n) = _OPERANDS[kind], (atom.m, atom.n)
    found = _RESULTS[atom.d] << 4 | operands[atom.a] << 7 | operands[atom.b] << 10
    return found | transposed[0] << 15 | transposed[1] << 16 | n // 8 << 17 | m // 16 << 24
