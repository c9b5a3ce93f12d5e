# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wgmma.mma_async: which shapes and types there are, which layouts it wants, and how descriptors say them.

Four warps (a warpgroup) multiply 64 rows of A, in registers or in shared memory, with columns of B in shared memory.
The fragments are those of mma.sync with 16 rows for each warp (PTX ISA, "Register Fragments and Shared Memory Matrix
Layouts"), so that a tile's layouts come from the same bits: lanes and registers within 16 rows, warps along the rows.

An operand in shared memory is contiguous along k ("K-major") or along the rows or columns of the result ("MN-major",
`transposed`). It is made of R rows of S bytes, after which the pattern of a swizzle of S bytes begins again: 8, or 4
where it exchanges atoms of 32 bytes in place of 16, which only tcgen05 reads, and only MN-major,

    K-major,  swizzle S    row r, byte b along k     (r % 8) S + b + (r / 8) stride
    K-major,  none         row r, byte b along k     (r % 8) 16 + b % 16 + (b / 16) leading + (r / 8) stride
    MN-major, swizzle S    k, byte b along MN        (k % R) S + b % S + (b / S) leading + (k / R) stride
    MN-major, none         k, byte b along MN        (k % 8) 16 + b % 16 + (b / 16) stride + (k / 8) leading

and then the swizzle moves the atoms (`RowSwizzle`; PTX ISA, "Strides" and "Matrix descriptor format"). `shared_operand`
looks for the descriptor that says where a layout has its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import xor

from libtile.atoms.mma_moves import powers
from libtile.layouts import LANE, OFFSET, REGISTER, WARP, LinearLayout
from libtile.layouts.builders import dim_names
from libtile.layouts.row_swizzles import CHUNK, SWIZZLES, RowSwizzle
from libtile.support.records import dataclass
from libtile.targets import MmaAtom, Target

FAMILY = "wgmma"
ROWS = 64
"""Rows of one instruction."""
GROUP_WARPS = 4
"""Warps of a warpgroup."""
WARP_ROWS = ROWS // GROUP_WARPS
_PAIRED = (2, 20, 4, 1, 8, 32)
"""For each bit of the number of an instruction's row the tile's row, where rows lie in pairs."""
_MODES = {RowSwizzle(0): 0, RowSwizzle(128): 1, RowSwizzle(64): 2, RowSwizzle(32): 3}
_FIELD = 1 << 14
"""What the fields of a descriptor are below, in 16 bytes."""


def find(target: Target, a: str, b: str, d: str, rows: int, columns: int, depth: int) -> MmaAtom | None:
    """The widest instruction that a product of a tile of rows x depth and one of depth x columns is made of, for PTX's
    names of the types; None where there is none, or the tile is smaller."""
    family = target.wgmma(a, b, d)
    if family is None or rows % ROWS or depth % family.k:
        return None
    fitting = [n for n in family.columns if columns % n == 0]
    return MmaAtom(ROWS, fitting[-1], family.k, a, b, d, family=FAMILY, since=family.since) if fitting else None


def transposed_atoms(target: Target, atom: MmaAtom) -> tuple[int, ...]:
    """The bytes of the atoms of swizzles under which operands in shared memory may be MN-major; none where they may
    not."""
    family = target.wgmma(atom.a, atom.b, atom.d)
    return () if family is None else family.transposed


def accumulator_registers(atom: MmaAtom) -> int:
    """32-bit registers of a thread for the result: halves lie two in one."""
    return atom.n // (4 if atom.d == "f16" else 2)


# -- registers --------------------------------------------------------------------------------------------------------


def _rows_and_columns(
    shape: Sequence[int], warps: int, low: Sequence[int], lanes: Sequence[int], high: Sequence[int]
) -> LinearLayout:
    rows, _ = shape
    if rows % (WARP_ROWS * warps) or warps % GROUP_WARPS:
        raise ValueError(f"{warps} warps do not share {rows} rows by {WARP_ROWS}")
    return LinearLayout.of(
        {
            REGISTER: [
                *((0, c) for c in low),
                (8, 0),
                *((0, c) for c in high),
                *((r, 0) for r in powers(WARP_ROWS * warps, rows)),
            ],
            LANE: [*((0, c) for c in lanes), (1, 0), (2, 0), (4, 0)],
            WARP: [(r, 0) for r in powers(WARP_ROWS, WARP_ROWS * warps)],
        },
        dict(zip(dim_names(2), shape)),
    )


def accumulator_layout(shape: Sequence[int], warps: int) -> LinearLayout:
    """The result of a tile (rows, columns) by so many warps, of which each has 16 rows of every 16 * warps, with all
    their columns. ValueError when rows and warps do not fit."""
    return _rows_and_columns(shape, warps, [1], [2, 4], powers(8, shape[1]))


def column_groups(rows: int, warps: int) -> int:
    """Among how many warpgroups the columns of a result are shared, of all there are: those for which it has no rows of
    their own."""
    return max(warps // GROUP_WARPS // (rows // ROWS), 1) if rows % ROWS == 0 < rows else 1


def shared_layout(shape: Sequence[int], warps: int) -> LinearLayout:
    """The result of a tile (rows, columns) by so many warps, in which warpgroups share columns where there are not
    rows for all of them: each has as many neighbours. ValueError when tile and warps do not fit."""
    rows, columns = shape
    groups = column_groups(rows, warps)
    alone = accumulator_layout((rows, columns // groups), warps // groups)
    if groups == 1 or columns % groups:
        return accumulator_layout(shape, warps)
    bases = {name: list(vectors) for name, vectors in alone.bases}
    bases[WARP] += [(0, c) for c in powers(columns // groups, columns)]
    return LinearLayout.of(bases, dict(zip(dim_names(2), shape)))


def a_layout(shape: Sequence[int], warps: int, element_bits: int) -> LinearLayout:
    """A (rows, depth) in registers; ValueError when rows and warps do not fit."""
    packed = 32 // element_bits
    return _rows_and_columns(shape, warps, powers(1, packed), [packed, 2 * packed], powers(4 * packed, shape[1]))


def in_pairs(layout: LinearLayout) -> LinearLayout:
    """A layout of A or of the result of which each thread has rows in pairs, r and r + 1, in place of r and r + 8.

    Threads that read A to registers from shared memory, where it is contiguous along its rows, read a pair at once. No
    two threads of half a warp meet in banks then, under a swizzle of 128 bytes and with elements of 4: for t of 4
    depths the swizzle exchanges chunks of 16 bytes by t, so that rows 2, and 4 and 16 at once, of the other lanes fill
    the 128 bytes. The result's rows are columns of what is stored; t counts rows 2 and 4 of that, and the same lanes
    do not meet there either."""
    rows = layout.out_dims[-2]

    def moved(vector: tuple[int, ...]) -> tuple[int, ...]:
        row = vector[-2]
        low = reduce(xor, (to for bit, to in enumerate(_PAIRED) if row >> bit & 1), 0)
        return (*vector[:-2], row // ROWS * ROWS | low, vector[-1])

    if layout.out_size(rows) % ROWS:
        raise ValueError(f"{layout.out_size(rows)} rows are not those of instructions")
    bases = {name: [moved(v) for v in vectors] for name, vectors in layout.bases}
    return LinearLayout.of(bases, {name: layout.out_size(name) for name in layout.out_dims})


def lies_in_pairs(layout: LinearLayout, plain: LinearLayout) -> bool:
    """Whether a layout is a plain one with its rows in pairs."""
    return plain.shape[-2] % ROWS == 0 and layout == in_pairs(plain)


# -- shared memory ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SharedOperand:
    """How the instruction finds an operand in shared memory: the fields of its descriptor, and the layout behind them.

    `leading` and `stride` are bytes. `outer` is the dimension of the layout that is not k.
    """

    layout: LinearLayout
    element_bytes: int
    outer: int
    transposed: bool
    swizzle: RowSwizzle
    leading: int
    stride: int

    @property
    def fields(self) -> int:
        """The descriptor of an operand at address 0 (PTX ISA, "Matrix descriptor format")."""
        return _MODES[self.swizzle] << 62 | self.stride // CHUNK << 32 | self.leading // CHUNK << 16

    @property
    def alignment(self) -> int:
        """Bytes of the address of the whole tile: where the pattern of the swizzle begins again."""
        return max(self.swizzle.repeats, 128)

    def start(self, outer: int, k: int) -> int:
        """Where the part from (outer, k) on begins, in bytes from the tile's start; both are multiples of what one
        instruction takes. ValueError where a descriptor cannot begin."""
        at = _offset(self.layout, self.outer, outer, k) * self.element_bytes
        if self.swizzle.span and at % self.swizzle.repeats >= self.swizzle.span:
            raise ValueError(f"element ({outer}, {k}) lies at byte {at}, within a pattern of the swizzle")
        return at


def _offset(layout: LinearLayout, outer_dim: int, outer: int, k: int) -> int:
    place = {f"dim{outer_dim}": outer, f"dim{1 - outer_dim}": k}
    return _inverse(layout)(**place)[OFFSET]


@lru_cache(maxsize=256)
def _inverse(layout: LinearLayout) -> LinearLayout:
    return layout.inverse()


@lru_cache(maxsize=256)
def shared_operand(
    layout: LinearLayout, side: str, atom: MmaAtom, element_bytes: int, transposed_atoms: tuple[int, ...]
) -> SharedOperand | str:
    """How an operand (side "a": rows x depth, "b": depth x columns) in this layout is read by an instruction, or why it
    cannot be. It may be MN-major under swizzles with atoms of `transposed_atoms` bytes, if there are any."""
    outer_dim = 0 if side == "a" else 1
    if len(layout.shape) != 2 or layout.in_dims != (OFFSET,):
        return f"its layout in shared memory is not one of offsets of a matrix: {layout.shape}"
    outer, depth = (atom.m if side == "a" else atom.n), atom.k
    if layout.shape[outer_dim] % outer or layout.shape[1 - outer_dim] % depth:
        return f"it is smaller than the {outer} x {depth} of one instruction"
    refused = "its layout in shared memory is none that a descriptor says"
    for transposed in (False, True):
        atoms = transposed_atoms if transposed else (CHUNK,)
        for swizzle in reversed(SWIZZLES):
            if not transposed and swizzle.atom not in atoms:
                continue
            found = _derived(layout, outer_dim, outer, depth, element_bytes, transposed, swizzle)
            if found is None:
                continue
            if swizzle.atom in atoms:
                return found
            refused = f"products of {atom.a} and {atom.b} read operands that are contiguous along k only"
            if atoms:
                refused += f", or exchanged by {' or '.join(map(str, atoms))} bytes"
    return refused


def _derived(
    layout: LinearLayout, outer_dim: int, outer: int, depth: int, size: int, transposed: bool,
    swizzle: RowSwizzle,
) -> SharedOperand | None:  # fmt: skip
    """The descriptor of this kind whose elements lie where the layout has them; None when there is none."""

    def at(out: int, k: int) -> int:
        return _offset(layout, outer_dim, out, k) * size if out < outer and k < depth else 0

    per = (swizzle.span or CHUNK) // size
    # Where the next panel, and the next rows, lie: for what is beyond one instruction any number does.
    if transposed:
        beside, below = at(per, 0), at(0, swizzle.rows)
        leading, stride = (beside, below) if swizzle.span else (below, beside)
    else:
        leading, stride = (CHUNK if swizzle.span else at(0, per)), at(swizzle.rows, 0)
    made = SharedOperand(layout, size, outer_dim, transposed, swizzle, leading, stride)
    if any(x % CHUNK or x // CHUNK >= _FIELD for x in (leading, stride)):
        return None
    places = [(x, 0) for x in powers(1, outer)] + [(0, k) for k in powers(1, depth)]
    plain = [_before_swizzle(made, *place) for place in places]
    # Distances that are different bits add as they xor, and then the basis says where every element is.
    disjoint = sum(plain) == _or(plain) and all(x and x & (x - 1) == 0 for x in plain)
    if not disjoint or any(swizzle.moved(x) != at(*place) for x, place in zip(plain, places)):
        return None
    return made


def _or(values: Sequence[int]) -> int:
    found = 0
    for value in values:
        found |= value
    return found


def _before_swizzle(operand: SharedOperand, outer: int, k: int) -> int:
    """The byte of an element of one instruction, by the table above."""
    size, swizzled, rows = operand.element_bytes, bool(operand.swizzle.span), operand.swizzle.rows
    span = operand.swizzle.span or CHUNK
    row, byte = (k, outer * size) if operand.transposed else (outer, k * size)
    down, across = operand.stride, operand.leading
    if operand.transposed and not swizzled:
        down, across = across, down
    if swizzled and not operand.transposed:
        return row % rows * span + byte + row // rows * down
    return row % rows * span + byte % span + byte // span * across + row // rows * down
