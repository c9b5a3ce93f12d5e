# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which layouts a matrix product wants: the tensor-core atom, the grid of warps, and the fragments of the operands.

All mma.sync atoms with 8 columns share one structure (PTX ISA, "Matrix Fragments for mma.m16n8k*" and "m8n8k4"). With
p the number of elements in a 32-bit register (1 for f64), a lane's bits and registers move

    A    registers k = 1 .. p/2,  lane bits 0, 1 k = p, 2p,  lane bits 2-4 m = 1, 2, 4,  registers m = 8, k = 4p ..
    B    registers k = 1 .. p/2,  lane bits 0, 1 k = p, 2p,  lane bits 2-4 n = 1, 2, 4,  registers k = 4p ..
    C    register n = 1,          lane bits 0, 1 n = 2, 4,   lane bits 2-4 m = 1, 2, 4,  register m = 8

Warps tile the rows and columns of the result, then batches; the rest is repeated over registers. Tiles smaller than an
atom hold copies of rows and columns, and the product pads k with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.layouts.builders import dim_names
from libtile.numerics.elements import ELEMENTS, STORAGE_BYTES
from libtile.support.diagnostics import LoweringError
from libtile.targets import MmaAtom, Target

ATOM_COLUMNS = 8

_ACCUMULATORS = {"f16": "f16", "f32": "f32", "f64": "f64", "i32": "s32"}


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
    grid: tuple[int, int, int]


@dataclass(frozen=True)
class ScaledLayouts:
    """The layouts of the operands, the accumulator (which the result keeps), and the two tiles of factors."""

    dot: DotLayouts
    lhs_scale: LinearLayout
    rhs_scale: LinearLayout


def busy_warps(c: LinearLayout) -> int:
    """Warps that compute what no other one does, by the layout of the result."""
    return 1 << sum(any(vector) for vector in c.basis(WARP))


Moves = list[tuple[int, int]]
"""(dimension, distance) for each bit of a place; the dimension is 0 batch, 1 rows, 2 columns."""


_NOWHERE = 1 << 30
"""A distance that leaves every tile: the bit holds copies."""


def packed_elements(ptx: str) -> int:
    """Elements of a type, by PTX's name, in one register of a fragment."""
    return max(4 // STORAGE_BYTES[_element_of(ptx)], 1)


def _element_of(ptx: str) -> str:
    """The element type with PTX's name; ValueError for a name of none."""
    if ptx in ("s8", "u8"):
        return "i8"
    found = next((name for name, element in ELEMENTS.items() if ptx and element.ptx == ptx), None)
    if found is None:
        raise ValueError(f"no element type is called {ptx!r} in PTX")
    return found


def _powers(start: int, end: int) -> list[int]:
    """start, 2 start, 4 start, ... below end."""
    found = []
    while start < end:
        found.append(start)
        start *= 2
    return found


def _layout(shape: Sequence[int], registers: Moves, lanes: Moves, warps: Moves) -> LinearLayout:
    """The layout of a tile of rank 2 or 3; what leaves the tile is no register, and copies in lanes and warps."""
    box = (1, *shape) if len(shape) == 2 else tuple(shape)

    def vector(move: tuple[int, int]) -> tuple[int, ...]:
        dim, distance = move
        moved = tuple(distance if d == dim and distance < box[dim] else 0 for d in range(3))
        return moved[3 - len(shape) :]

    kept = [v for v in map(vector, registers) if any(v)]
    bases = {REGISTER: kept, LANE: [vector(m) for m in lanes], WARP: [vector(m) for m in warps]}
    return LinearLayout.of(bases, dict(zip(dim_names(len(shape)), shape)))


def _warps(grid: tuple[int, int, int], rows: int, *, a: bool = False, b: bool = False) -> Moves:
    """The warp's number counts columns, then rows, then batches; along what an operand lacks it moves nothing."""
    batches, down, across = grid
    moves: Moves = [(2, _NOWHERE if a else d) for d in _powers(ATOM_COLUMNS, ATOM_COLUMNS * across)]
    moves += [(1, _NOWHERE if b else d) for d in _powers(rows, rows * down)]
    return moves + [(0, d) for d in _powers(1, batches)]


def fragments(
    atom: MmaAtom, grid: tuple[int, int, int], shapes: Sequence[Sequence[int]]
) -> tuple[LinearLayout, LinearLayout, LinearLayout]:
    """The layouts of A, B and C for an atom and for so many warps along batches, rows and columns."""
    packed = packed_elements(atom.a)
    a_shape, b_shape, c_shape = shapes
    batches, down, across = grid
    most = _NOWHERE
    k_low, k_high = _powers(1, packed), _powers(4 * packed, most)
    m_high, n_high = _powers(atom.m * down, most), _powers(ATOM_COLUMNS * across, most)
    upper = [8] if atom.m == 16 else []
    batch: Moves = [(0, d) for d in _powers(batches, most)]

    def moves(dim: int, distances: Sequence[int]) -> Moves:
        return [(dim, d) for d in distances]

    a = _layout(
        a_shape,
        moves(2, k_low) + moves(1, upper) + moves(2, k_high) + moves(1, m_high) + batch,
        moves(2, [packed, 2 * packed]) + moves(1, [1, 2, 4]),
        _warps(grid, atom.m, a=True),
    )
    b = _layout(
        b_shape,
        moves(1, k_low) + moves(1, k_high) + moves(2, n_high) + batch,
        moves(1, [packed, 2 * packed]) + moves(2, [1, 2, 4]),
        _warps(grid, atom.m, b=True),
    )
    c = _layout(
        c_shape,
        moves(2, [1]) + moves(1, upper) + moves(2, n_high) + moves(1, m_high) + batch,
        moves(2, [2, 4]) + moves(1, [1, 2, 4]),
        _warps(grid, atom.m),
    )
    return a, b, c


def _grid(c_shape: Sequence[int], rows: int, warps: int, whole_rows: bool) -> tuple[int, int, int]:
    """Warps along batches, rows and columns: as many with work of their own as can be, then (if wanted) such that a
    warp has all columns of its rows, then those that read least."""
    batches = c_shape[0] if len(c_shape) == 3 else 1
    down, across = max(c_shape[-2] // rows, 1), max(c_shape[-1] // ATOM_COLUMNS, 1)
    candidates = [
        (g, m, warps // g // m) for g in _powers(1, warps + 1) for m in _powers(1, warps // g + 1)
    ]  # fmt: skip

    def order(grid: tuple[int, int, int]) -> tuple[int, bool, float, int]:
        g, m, n = grid
        busy = min(g, batches) * min(m, down) * min(n, across)
        # Batches share no operands; elements of a and b that a warp reads, for each of its batches.
        read = max(batches / g, 1) * (max(c_shape[-2] / m, rows) + max(c_shape[-1] / n, ATOM_COLUMNS))
        return -busy, whole_rows and n > 1, read, -m

    return min(candidates, key=order)


def _choose_atom(target: Target, a: str, b: str, acc: str, rows: int, depth: int) -> MmaAtom | None:
    """The atom for PTX's type names: the smallest depth that covers the tile's, or the largest."""
    found = [atom for atom in target.mma(a, b, acc) if not atom.kind]
    tall = [atom for atom in found if atom.m == 16]
    if tall and (rows >= 16 or len(tall) == len(found)):
        found = tall
    elif found and len(tall) < len(found):
        found = [atom for atom in found if atom.m != 16]
    covering = [atom for atom in found if atom.k >= depth]
    if covering:
        return min(covering, key=lambda atom: atom.k)
    return max(found, key=lambda atom: atom.k, default=None)


def ptx_type(element: str, signed: bool) -> str:
    """PTX's name of an operand's element type; empty for one that no instruction multiplies."""
    if element == "i8":
        return "s8" if signed else "u8"
    return ELEMENTS[element].ptx


def accumulator_type(element: str) -> str:
    """PTX's name of an accumulator's element type; empty for one that nothing is added to."""
    return _ACCUMULATORS.get(element, "")


def widens_to(element: str) -> str:
    """PTX's name of the type that all values of an element type are also of, and that every target multiplies; empty
    where there is none."""
    return "f16" if element == "f16" or ELEMENTS[element].widens_to_half else ""


def multiplied_element(element: str, ptx: str) -> str:
    """The element type that an operand is converted to for an atom whose operand has a PTX type: its own, or a wider
    one that has all its values."""
    return element if ptx in (ptx_type(element, True), ptx_type(element, False)) else _element_of(ptx)


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
) -> DotLayouts:
    """How to compute a (m x k) times b (k x n), both with a batch dimension before these or without.

    With `whole_rows` each warp has all columns of its rows, if there are rows enough to keep all warps busy: then the
    result is another such product's left operand without leaving its thread, and a reduction along its rows needs no
    other warp. LoweringError for element types that cannot be multiplied.
    """
    c_shape = (*a_shape[:-1], b_shape[-1])
    shapes = (tuple(a_shape), tuple(b_shape), c_shape)
    acc = accumulator_type(acc_element)
    pairs = [(ptx_type(a_element, signed_a), ptx_type(b_element, signed_b))]
    if wide := widens_to(a_element) and widens_to(b_element):
        pairs.append((wide, wide))  # their products are f16's where the target has no atom for them
    for types in pairs:
        atom = _choose_atom(target, *types, acc, c_shape[-2], a_shape[-1]) if all((*types, acc)) else None
        if atom is not None:
            chosen = _grid(c_shape, atom.m, warps, whole_rows)
            return DotLayouts(*fragments(atom, chosen, shapes), atom, chosen)
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
) -> ScaledLayouts:
    """How to compute a scaled product of tiles of these shapes; a thread has the factors that it needs. All values of
    the formats that can be scaled are f16, and are multiplied as such."""
    found = dot_layouts(lhs, rhs, "f16", "f16", "f32", target, warps)
    return ScaledLayouts(found, factors(found.c, lhs_scale, -1), factors(found.c, rhs_scale, -2))


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
    moves: Moves = [(2, d) for d in _powers(1, across)] + [(1, d) for d in _powers(1, down)]
    lanes: Moves = [(2, d) for d in _powers(across, across * lanes_across)]
    lanes += [(1, d) for d in _powers(down, down * lanes_down)]
    left_lanes = 5 - len(lanes)
    on_warps: Moves = []
    reached = [1, down * lanes_down, across * lanes_across]
    sizes = (batches, rows, columns)
    for _ in range(left_lanes + warps.bit_length() - 1):
        dim = next((d for d in (1, 2, 0) if reached[d] < sizes[d]), None)
        on_warps.append((2, _NOWHERE) if dim is None else (dim, reached[dim]))
        if dim is not None:
            reached[dim] *= 2
    rest: Moves = [(d, s) for d in (2, 1, 0) for s in _powers(reached[d], sizes[d])]
    layout = _layout(c, moves + rest, lanes + on_warps[:left_lanes], on_warps[left_lanes:])
    layouts = [_rows_of_16_bytes(s, element, target, warps) for s in (a, b)]
    return DotLayouts(layouts[0], layouts[1], layout, None, (1, 1, warps))


def _rows_of_16_bytes(shape: tuple[int, ...], element: str, target: Target, warps: int) -> LinearLayout:
    """Consecutive elements in a thread, then in lanes, then in warps."""
    rank = len(shape)
    moves: Moves = [(3 - rank + d, s) for d in reversed(range(rank)) for s in _powers(1, shape[d])]
    vector = min((16 // STORAGE_BYTES[element]).bit_length() - 1, len(moves))
    lanes, on_warps = target.warp_size.bit_length() - 1, warps.bit_length() - 1
    copies: Moves = [(2, _NOWHERE)] * (lanes + on_warps)
    threads = [*moves[vector:], *copies][: lanes + on_warps]
    return _layout(shape, moves[:vector] + moves[vector + lanes + on_warps :], threads[:lanes], threads[lanes:])
