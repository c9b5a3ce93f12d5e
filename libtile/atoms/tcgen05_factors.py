# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tcgen05.mma with block_scale: which instruction takes a product, and where its scale factors lie.

Blocks of elements along k have a factor each, a byte. Of 128 rows of A, or columns of B ("lines"), the factors of four
blocks lie in four columns of tensor memory: those of a line side by side in a 32-bit word, lines 0 to 31 in the lanes
of the first column, 32 to 63 in the second one, and so on, all of it once for each quarter of the lanes (PTX ISA,
"Scale factor A layout in Tensor Memory", "Scale factor B layout"). `tcgen05.cp.32x128b.warpx4` copies these 512 bytes
from shared memory, where each of 32 rows of 16 bytes becomes a lane. More lines lie in the columns behind, and then
more blocks.

An instruction takes one, two or four bytes of a word, from the one on that its descriptor and the upper bits of the
addresses name. Operands of 4 bits lie two to a byte along k in shared memory, the first one in the lower bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from libtile.atoms import tcgen05
from libtile.atoms.mma_moves import powers
from libtile.atoms.tcgen05 import COLUMN, LANES, PACKED, ROW, WARP_LANES
from libtile.layouts import OFFSET, LinearLayout
from libtile.layouts.builders import dim_names
from libtile.support.records import replace
from libtile.targets import MmaAtom, Target, Tcgen05Family

WORD_BLOCKS = 4
"""Blocks whose factors share a word of a column."""
CHUNK_BYTES = LANES * WORD_BLOCKS
CHUNK_COLUMNS = LANES // WARP_LANES
"""Of tensor memory, for the factors of 128 lines and four blocks."""
ROW_BITS = 128
"""Of a lane in a copy of the shape 32x128b."""
SHARED_BITS = 4
"""Elements of so many bits lie two to a byte."""

_OPERANDS = {
    "mxf8f6f4": {"e4m3": 0, "e5m2": 1},
    "mxf4": {"e2m1": 1},
    "mxf4nvf4": {"e2m1": 1},
}
_FACTORS = {"f8E4M3FN": 0, "f8E8M0FNU": 1}


def find(target: Target, a: str, b: str, factors: str, shape: tuple[int, int, int], blocks: int) -> MmaAtom | None:
    """The widest instruction that a product of this shape (rows, columns, depth) is made of, for PTX's names of the
    operands' types, the factors' element type and so many blocks along k; None where there is none, factors do not fill
    columns, or tensor memory does not hold the result and them."""
    rows, columns, depth = shape
    family = _family(target, a, b, factors, depth, blocks)
    if family is None or depth % family.k or rows % LANES or columns % LANES or blocks % WORD_BLOCKS:
        return None
    if wanted_columns(shape, blocks) > tcgen05.COLUMNS:
        return None
    fitting = [n for n in family.columns if columns % n == 0]
    return MmaAtom(LANES, fitting[-1], family.k, a, b, family.d, family=tcgen05.FAMILY, since=family.since)


def _family(target: Target, a: str, b: str, factors: str, depth: int, blocks: int) -> Tcgen05Family | None:
    return target.tcgen05_scaled(a, b, factors, depth // blocks) if blocks else None


def listed(target: Target, atom: MmaAtom) -> MmaAtom | None:
    """An instruction as the target lists it, with the first target that has it; None where it does not."""
    types = atom.a, atom.b, atom.d, atom.k
    family = next((f for f in target.tcgen05_families if f.block and (f.a, f.b, f.d, f.k) == types), None)
    return None if family is None else replace(atom, since=family.since)


def kind(target: Target, atom: MmaAtom, factors: str, block: int) -> str:
    """The qualifier of the instruction. KeyError for an atom that the target does not have with such factors."""
    family = target.tcgen05_scaled(atom.a, atom.b, factors, block)
    if family is None:
        raise KeyError(f"{target.name} has no {atom} with a factor of {factors} for {block} elements")
    return family.kind


def shares_bytes(atom: MmaAtom) -> bool:
    """Whether operands lie two to a byte."""
    return atom.a in _OPERANDS["mxf4"]


def in_bytes(atom: MmaAtom) -> MmaAtom:
    """The instruction as one of operands whose elements are what shares a byte along k."""
    return replace(atom, k=atom.k * SHARED_BITS // 8) if shares_bytes(atom) else atom


def instruction(kind: str, atom: MmaAtom, transposed: tuple[bool, bool], factors: str, first: int) -> int:
    """The instruction descriptor: types, which operands are MN-major, the shape, the factors' type and the byte of
    their words that is the first one's."""
    operands = _OPERANDS[kind]
    found = first << 4 | operands[atom.a] << 7 | operands[atom.b] << 10 | transposed[0] << 15 | transposed[1] << 16
    return found | atom.n // 8 << 17 | _FACTORS[factors] << 23 | atom.m // LANES << 27 | first << 29


# -- tensor memory ----------------------------------------------------------------------------------------------------


def layout(shape: Sequence[int]) -> LinearLayout:
    """Where factors (lines, blocks) lie in tensor memory; ValueError for those that fill no columns."""
    lines, blocks = shape
    if lines % LANES or blocks % WORD_BLOCKS:
        raise ValueError(f"factors of {lines} lines and {blocks} blocks do not fill columns of tensor memory")
    quarters = [(0, 0)] * (LANES // WARP_LANES).bit_length()
    return LinearLayout.of(
        {
            PACKED: [(0, b) for b in powers(1, WORD_BLOCKS)],
            ROW: [*((x, 0) for x in powers(1, WARP_LANES)), *quarters[1:]],
            COLUMN: [*((x, 0) for x in powers(WARP_LANES, lines)), *((0, b) for b in powers(WORD_BLOCKS, blocks))],
        },
        dict(zip(dim_names(2), shape)),
    )


def columns_of(lines: int, blocks: int) -> int:
    """How many columns factors take."""
    return lines // LANES * (blocks // WORD_BLOCKS) * CHUNK_COLUMNS


def column(lines: int, line: int, block: int) -> int:
    """The column, behind the first one, from which on an instruction finds the factors of the lines from `line` on, and
    of the blocks from `block` on."""
    return (block // WORD_BLOCKS * (lines // LANES) + line // LANES) * CHUNK_COLUMNS


def wanted_columns(shape: tuple[int, int, int], blocks: int) -> int:
    """How many columns a result and the factors of a step of a product (rows, columns, depth) take."""
    rows, columns, _ = shape
    return tcgen05.result_columns((rows, columns)) + columns_of(rows, blocks) + columns_of(columns, blocks)


# -- shared memory ----------------------------------------------------------------------------------------------------


def shared_layout(shape: Sequence[int]) -> LinearLayout:
    """Factors (lines, blocks) in such pieces in shared memory, those of more blocks one behind the other."""
    lines, blocks = shape
    piece = [*((0, b) for b in powers(1, WORD_BLOCKS)), *((x, 0) for x in powers(WARP_LANES, LANES))]
    piece += [(x, 0) for x in powers(1, WARP_LANES)]
    more = [*((0, b) for b in powers(WORD_BLOCKS, blocks)), *((x, 0) for x in powers(LANES, lines))]
    return LinearLayout.of({OFFSET: [*piece, *more]}, dict(zip(dim_names(2), shape)))


def fills_chunks(shared: LinearLayout) -> bool:
    """Whether factors (lines, blocks) of this layout in shared memory lie there in pieces of 512 bytes as copies to
    tensor memory take them: a word of four blocks, lines 32 apart in 16 bytes, and then 32 lines."""
    if shared.in_dims != (OFFSET,) or len(shared.shape) != 2 or not shared.is_invertible:
        return False
    if any(n % least for n, least in zip(shared.shape, (LANES, WORD_BLOCKS))):
        return False
    piece = [tuple(v) for v in shared_layout((LANES, WORD_BLOCKS)).basis(OFFSET)]
    basis = [tuple(v) for v in shared.basis(OFFSET)]
    return basis[: len(piece)] == piece and all(sum(1 for x in v if x) == 1 for v in basis[len(piece) :])


def chunks(shared: LinearLayout) -> list[tuple[int, int]]:
    """(offset in shared memory, first column in tensor memory) of each piece of factors (lines, blocks)."""
    lines, blocks = shared.shape
    places = shared.inverse()
    return [
        (places(dim0=line, dim1=block)[OFFSET], column(lines, line, block))
        for block in range(0, blocks, WORD_BLOCKS)
        for line in range(0, lines, LANES)
    ]


UNIT = 16
"""Bytes that descriptors count in."""
DESCRIPTOR = 16 // UNIT << 16 | 128 // UNIT << 32 | 1 << 46
"""The descriptor of such a piece at address 0: rows of 16 bytes, without a swizzle, and 8 of them 128 bytes apart."""
