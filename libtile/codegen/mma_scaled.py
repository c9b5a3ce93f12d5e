# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of operands whose blocks along k have scale factors (Tile IR specification, "mmaf_scaled").

Elements of 8 bits and less are f16, exactly, and so are the factors no part of the tensor cores' products: those of one
block are summed first, and then scaled, in f32. A factor of f8E8M0FNU is between 2^-127 and 2^127, and the product of
two leaves f32's range while the scaled sum is an ordinary number. Each is therefore split into two powers of about half
its exponent; sums are multiplied by the first halves and then by the second ones, which loses nothing on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from libtile.codegen import floats
from libtile.codegen.builder import KernelBuilder, Value, float_constant, integer
from libtile.codegen.convert_layout import convert_all
from libtile.codegen.llvm_types import FLOAT, I32
from libtile.codegen.mma import DotLayouts, Place, Product, by_place, dot_layouts, in_element
from libtile.codegen.narrow_floats import float_of
from libtile.codegen.tile import Tile
from libtile.layouts import LANE, REGISTER, WARP, LinearLayout
from libtile.targets import Target

MULTIPLIED = "f16"
"""The element type in which operands are multiplied: all values of the formats that can be scaled are f16."""

_BIAS = 127
_NAN_CODE = 0xFF
_FRACTION_BITS = 23


@dataclass(frozen=True)
class ScaledLayouts:
    """The layouts of the operands, the accumulator (which the result keeps), and the two tiles of factors."""

    dot: DotLayouts
    lhs_scale: LinearLayout
    rhs_scale: LinearLayout


def scaled_layouts(
    lhs: Sequence[int],
    rhs: Sequence[int],
    lhs_scale: Sequence[int],
    rhs_scale: Sequence[int],
    target: Target,
    warps: int,
) -> ScaledLayouts:
    """How to compute a scaled product of tiles of these shapes; a thread has the factors that it needs."""
    found = dot_layouts(lhs, rhs, MULTIPLIED, MULTIPLIED, "f32", target, warps)
    return ScaledLayouts(found, _factors_of(found.c, lhs_scale, -1), _factors_of(found.c, rhs_scale, -2))


def _factors_of(c: LinearLayout, shape: Sequence[int], depth_dim: int) -> LinearLayout:
    """All factors, in registers, of the rows (depth_dim -1) or columns (-2) of a thread's part of the accumulator."""
    rank = len(shape)
    depth = rank + depth_dim

    def along_lines(vector: Sequence[int]) -> tuple[int, ...]:
        return tuple(0 if d == depth else step for d, step in enumerate(vector))

    blocks = [tuple(1 << i if d == depth else 0 for d in range(rank)) for i in range(shape[depth].bit_length() - 1)]
    bases = {name: [along_lines(v) for v in c.basis(name)] for name in (REGISTER, LANE, WARP)}
    bases[REGISTER] = [*blocks, *(v for v in bases[REGISTER] if any(v))]
    return LinearLayout.of(bases, dict(zip(c.out_dims, shape)))


def dot_scaled(b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, lhs_scale: Tile, rhs_scale: Tile) -> Tile:
    """lhs (m x k) times rhs (k x n) plus acc in f32, with factors lhs_scale (m x k/s) and rhs_scale (k/s x n).

    The result is in the accumulator's layout of `scaled_layouts`; operands in other layouts are converted. All threads
    of the block must come here.
    """
    warps = b.threads // b.target.warp_size
    layouts = scaled_layouts(lhs.shape, rhs.shape, lhs_scale.shape, rhs_scale.shape, b.target, warps)
    assert layouts.dot.atom is not None  # every target multiplies f16
    wanted = [layouts.dot.a, layouts.dot.b, layouts.dot.c, layouts.lhs_scale, layouts.rhs_scale]
    lhs, rhs, acc, lhs_scale, rhs_scale = convert_all(b, [lhs, rhs, acc, lhs_scale, rhs_scale], wanted)
    product = Product(b, layouts.dot.atom, (MULTIPLIED, MULTIPLIED), lhs, rhs, acc, MULTIPLIED)
    rows, columns = _factors(b, lhs_scale), _factors(b, rhs_scale)
    depth, count = lhs.shape[-1], lhs_scale.shape[-1]
    # One atom at a time, so that few sums are alive beside the totals.
    for block in range(count):
        for atom in product.atoms():
            totals = {place: product.results[place] for place in product.places(atom)}
            product.results |= dict.fromkeys(totals, float_constant(FLOAT, 0.0))
            for k in range(block * depth // count, (block + 1) * depth // count, layouts.dot.atom.k):
                product.multiply(atom, k)
            for place, total in totals.items():
                g, m, n = place
                factors = rows[g, m, block], columns[g, block, n]
                product.results[place] = _scaled_sum(b, product.results[place], *factors, total)
    return product.result()


Factor = tuple[Value, ...]
"""Numbers whose product is the factor."""


def _factors(b: KernelBuilder, scale: Tile) -> dict[Place, Factor]:
    places = by_place(scale)
    if scale.element == "f8E8M0FNU":
        return {place: _halves(b, value) for place, value in places.items()}
    values = in_element(b, scale, "f32")
    return {place: (value,) for place, value in by_place(values).items()}


def _halves(b: KernelBuilder, code: Value) -> Factor:
    """Two powers of two that give one of f8E8M0FNU: the exponents are its half, rounded down, and the rest."""
    exponent = b.cast("zext", code, I32)
    total = b.add(exponent, integer(I32, _BIAS))
    first = b.binary("lshr", total, integer(I32, 1))
    second = b.binary("sub", total, first)
    low, high = (float_of(b, b.binary("shl", e, integer(I32, _FRACTION_BITS))) for e in (first, second))
    is_nan = b.compare("eq", exponent, integer(I32, _NAN_CODE))
    return b.select(is_nan, float_constant(FLOAT, float("nan")), low), high


def _scaled_sum(b: KernelBuilder, part: Value, row: Factor, column: Factor, total: Value) -> Value:
    """The sum of a block's products times the factors of its row and column, added to the total with one rounding."""
    # The lower half of one with the upper half of the other: both exponents are between -127 and 127.
    *early, last = (floats.mul(b, r, c) for r, c in zip(row, reversed(column)))
    for factor in early:
        part = floats.mul(b, part, factor)
    return floats.fma(b, part, last, total)
