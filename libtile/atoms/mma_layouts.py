# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which layouts a matrix product wants: the instruction, the grid of warps, and the fragments of the operands.

Instructions that multiply operands in registers come in families (`targets.toml`). What each of them wants is in the
module here of the family's name, and how it is spelled in the one in `codegen`.

Warps tile the rows and columns of the result, then batches; the rest is repeated over registers. Tiles smaller than an
atom hold copies of rows and columns, and the product pads k with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from libtile.atoms import mma_block_scale
from libtile.atoms.mma_moves import NOWHERE, Grid, Moves, choose_grid, powers, tile_layout
from libtile.atoms.mma_sync import COLUMNS, TRANSPOSED_COLUMNS
from libtile.atoms.operand_types import accumulator_type, packed_elements, ptx_type, widens_to
from libtile.atoms.shared_accesses import WORD_BYTES
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.diagnostics import LoweringError
from libtile.support.records import dataclass
from libtile.targets import MmaAtom, Target, mma_families


class Family(Protocol):
    """What is asked of the module of a family of instructions."""

    def choose(self, target: Target, types: tuple[str, str, str], shape: tuple[int, int, int]) -> MmaAtom | None:
        """The instruction for PTX's names of the types of A, B and D and for a product of m, n and k; None for none."""

    def extents(self, atom: MmaAtom) -> tuple[int, int]:
        """Rows and columns of the result that one warp computes with one instruction."""

    def fragments(
        self, atom: MmaAtom, grid: Grid, shapes: Sequence[Sequence[int]], columns: int
    ) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
        """The layouts of A, B and C for an atom and for so many warps along batches, rows and columns, which have so
        many columns each side by side."""


def family(name: str) -> Family:
    """What a family of instructions wants, by its name in `targets.toml`."""
    return cast(Family, import_module(f"libtile.atoms.{name}"))


def fragments(
    atom: MmaAtom, grid: Grid, shapes: Sequence[Sequence[int]], columns: int = COLUMNS
) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
    """The layouts of A, B and C for an atom and for so many warps along batches, rows and columns, which have so many
    columns each side by side."""
    return family(atom.family).fragments(atom, grid, shapes, columns)


@dataclass(frozen=True)
class DotLayouts:
    """How a product is computed: the layouts of the operands and of the accumulator, which the result keeps.

    Operands of other element types than the atom's are converted to these (`multiplied_element`). `grid` is how many
    warps lie along batches, rows and columns. Without an `atom` the product is made of fused multiply-adds, whose
    operands go through shared memory in any layout.
    """

    a: LinearLayout
    b: LinearLayout
    c: LinearLayout
    atom: MmaAtom | None
    grid: Grid


@dataclass(frozen=True)
class ScaledLayouts:
    """The layouts of the operands, the accumulator (which the result keeps), and the two tiles of factors."""

    dot: DotLayouts
    lhs_scale: LinearLayout
    rhs_scale: LinearLayout


def busy_warps(c: LinearLayout) -> int:
    """Warps that compute what no other one does, by the layout of the result."""
    return 1 << sum(any(vector) for vector in c.basis(WARP))


def dot_layouts(
    a_shape: Sequence[int],
    b_shape: Sequence[int],
    a_element: str,
    b_element: str,
    acc_element: str,
    target: Target,
    warps: int,
    *,
    whole_rows: bool = False,
    signed_a: bool = True,
    signed_b: bool = True,
    by_columns: bool = False,
) -> DotLayouts:
    """How to compute a (m x k) times b (k x n), both with a batch dimension before these or without.

    With `whole_rows` each warp has all columns of its rows, if there are rows enough to keep all warps busy: then the
    result is another such product's left operand without leaving its thread, and a reduction along its rows needs no
    other warp. B lies in memory `by_columns` if its columns are side by side there. LoweringError for element types
    that cannot be multiplied.
    """
    c_shape = (*a_shape[:-1], b_shape[-1])
    shapes = (tuple(a_shape), tuple(b_shape), c_shape)
    acc = accumulator_type(acc_element)
    pairs = [(ptx_type(a_element, signed_a), ptx_type(b_element, signed_b))]
    if wide := widens_to(a_element) and widens_to(b_element):
        pairs.append((wide, wide))  # their products are f16's where the target has no atom for them
    shape = (c_shape[-2], c_shape[-1], a_shape[-1])
    for types in pairs:
        if not all((*types, acc)):
            continue
        for wants in map(family, mma_families()):
            atom = wants.choose(target, (*types, acc), shape)
            if atom is not None:
                rows, columns = wants.extents(atom)
                grid = choose_grid(c_shape, rows, columns, warps, whole_rows)
                transposes = by_columns and target.has("ldmatrix_bytes") and packed_elements(atom.b) == WORD_BYTES
                if transposes and columns < TRANSPOSED_COLUMNS <= c_shape[-1] // grid[2]:
                    columns = TRANSPOSED_COLUMNS
                return DotLayouts(*wants.fragments(atom, grid, shapes, columns), atom, grid)
    if acc_element not in ("f16", "bf16", "f32", "f64") or "i8" in (a_element, b_element):
        raise LoweringError(f"a product of {a_element} and {b_element} into {acc_element} on {target.name}")
    return _scalar_layouts(shapes, acc_element, target, warps)


def scaled_layouts(
    lhs: Sequence[int],
    rhs: Sequence[int],
    lhs_scale: Sequence[int],
    rhs_scale: Sequence[int],
    target: Target,
    warps: int,
    elements: tuple[str, str, str] = ("", "", ""),
    packed: bool = False,
) -> ScaledLayouts:
    """How to compute a scaled product of tiles of these shapes and element types (of A, B and of the factors); a thread
    has the factors that it needs. Where no instruction takes them, operands are multiplied as f16, which all values of
    the formats that can be scaled are. Those that are `packed` lie two to a byte along k, and are for instructions."""
    if len(lhs) == 2 and all(elements):
        types = ptx_type(elements[0], True), ptx_type(elements[1], True), "f32"
        shape = lhs[0], rhs[1], lhs[1] * (2 if packed else 1)
        atom = mma_block_scale.choose_scaled(target, types, shape, elements[2], lhs_scale[1])
        if atom is not None and mma_block_scale.shares_bytes(atom) == packed:
            c_shape = (lhs[0], rhs[1])
            grid = choose_grid(c_shape, *mma_block_scale.extents(atom), warps, False)
            made = fragments(atom, grid, (tuple(lhs), tuple(rhs), c_shape))
            return ScaledLayouts(
                DotLayouts(*made, atom, grid), *mma_block_scale.factors(atom, grid, lhs_scale, rhs_scale)
            )
    found = dot_layouts(lhs, rhs, "f16", "f16", "f32", target, warps)
    return ScaledLayouts(found, factors(found.c, lhs_scale, -1), factors(found.c, rhs_scale, -2))


def scale_layouts(
    atom: MmaAtom, grid: Grid, c: LinearLayout, lhs_scale: Sequence[int], rhs_scale: Sequence[int]
) -> tuple[LinearLayout, LinearLayout]:
    """Where the factors of A and of B lie for a scaled product by an atom and with an accumulator of this layout."""
    if atom.family == mma_block_scale.FAMILY:
        return mma_block_scale.factors(atom, grid, lhs_scale, rhs_scale)
    return factors(c, lhs_scale, -1), factors(c, rhs_scale, -2)


def factors(c: LinearLayout, shape: Sequence[int], depth_dim: int) -> LinearLayout:
    """All factors, in registers, of the rows (depth_dim -1) or columns (-2) of a thread's part of the accumulator."""
    rank = len(shape)
    depth = rank + depth_dim

    def along_lines(vector: Sequence[int]) -> tuple[int, ...]:
        return tuple(0 if d == depth else step for d, step in enumerate(vector))

    blocks = [tuple(1 << i if d == depth else 0 for d in range(rank)) for i in range(shape[depth].bit_length() - 1)]
    bases = {name: [along_lines(v) for v in c.basis(name)] for name in (REGISTER, LANE, WARP)}
    bases[REGISTER] = [*blocks, *(v for v in bases[REGISTER] if any(v))]
    return LinearLayout.of(bases, dict(zip(c.out_dims, shape)))


# -- products of single elements ------------------------------------------------------------------------------------


def _scalar_layouts(shapes: Sequence[tuple[int, ...]], element: str, target: Target, warps: int) -> DotLayouts:
    """Each thread computes a box of up to 8 x 8 elements of the result, boxes lie side by side."""
    a, b, c = shapes
    rows, columns = c[-2:]
    batches = c[0] if len(c) == 3 else 1
    threads = warps * target.warp_size
    each = max(rows * columns * batches // threads, 1)
    across = min(columns, 8 if each >= 64 else 4 if each >= 4 else each)
    down = min(rows, 8 if each >= 64 else max(min(each // across, 4), 1))
    lanes_across = min(columns // across, 8)
    lanes_down = min(rows // down, 32 // lanes_across)
    lanes_across = min(columns // across, 32 // lanes_down)
    moves: Moves = [(2, d) for d in powers(1, across)] + [(1, d) for d in powers(1, down)]
    lanes: Moves = [(2, d) for d in powers(across, across * lanes_across)]
    lanes += [(1, d) for d in powers(down, down * lanes_down)]
    left_lanes = 5 - len(lanes)
    on_warps: Moves = []
    reached = [1, down * lanes_down, across * lanes_across]
    sizes = (batches, rows, columns)
    for _ in range(left_lanes + warps.bit_length() - 1):
        dim = next((d for d in (1, 2, 0) if reached[d] < sizes[d]), None)
        on_warps.append((2, NOWHERE) if dim is None else (dim, reached[dim]))
        if dim is not None:
            reached[dim] *= 2
    rest: Moves = [(d, s) for d in (2, 1, 0) for s in powers(reached[d], sizes[d])]
    layout = tile_layout(c, moves + rest, lanes + on_warps[:left_lanes], on_warps[left_lanes:])
    layouts = [_rows_of_16_bytes(s, element, target, warps) for s in (a, b)]
    return DotLayouts(layouts[0], layouts[1], layout, None, (1, 1, warps))


def _rows_of_16_bytes(shape: tuple[int, ...], element: str, target: Target, warps: int) -> LinearLayout:
    """Consecutive elements in a thread, then in lanes, then in warps."""
    rank = len(shape)
    moves: Moves = [(3 - rank + d, s) for d in reversed(range(rank)) for s in powers(1, shape[d])]
    vector = min((16 // STORAGE_BYTES[element]).bit_length() - 1, len(moves))
    lanes, on_warps = target.warp_size.bit_length() - 1, warps.bit_length() - 1
    copies: Moves = [(2, NOWHERE)] * (lanes + on_warps)
    threads = [*moves[vector:], *copies][: lanes + on_warps]
    return tile_layout(shape, moves[:vector] + moves[vector + lanes + on_warps :], threads[:lanes], threads[lanes:])
