# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of operands whose blocks along k have scale factors (Tile IR specification, "mmaf_scaled").

Elements of 8 bits and less are f16, exactly, and so are the factors no part of the tensor cores' products: those of one
block are summed first, and then scaled, in f32. A factor of f8E8M0FNU is between 2^-127 and 2^127, and the product of
two leaves f32's range while the scaled sum is an ordinary number. Each is therefore split into two powers of about half
its exponent; sums are multiplied by the first halves and then by the second ones, which loses nothing on the way.
"""

from __future__ import annotations

from libtile.atoms.operand_types import multiplied_element
from libtile.codegen import floats
from libtile.codegen.builder import KernelBuilder, Value, float_constant, integer
from libtile.codegen.llvm_types import FLOAT, I32
from libtile.codegen.mma_sync import Product
from libtile.codegen.narrow_floats import float_of
from libtile.codegen.places import Place, by_place, in_element
from libtile.codegen.tile import Tile
from libtile.targets import MmaAtom

_BIAS = 127
_NAN_CODE = 0xFF
_FRACTION_BITS = 23


def dot_scaled(
    b: KernelBuilder, lhs: Tile, rhs: Tile, acc: Tile, lhs_scale: Tile, rhs_scale: Tile, atom: MmaAtom
) -> Tile:
    """lhs (m x k) times rhs (k x n) plus acc in f32, with factors lhs_scale (m x k/s) and rhs_scale (k/s x n).

    The operands are in the layouts that `mma_layouts.scaled_layouts` says; the result is in the accumulator's.
    """
    product = Product(b, atom, lhs, rhs, acc, multiplied_element(lhs.element, atom.a))
    rows, columns = _factors(b, lhs_scale), _factors(b, rhs_scale)
    depth, count = lhs.shape[-1], lhs_scale.shape[-1]
    # One atom at a time, so that few sums are alive beside the totals.
    for block in range(count):
        for part in product.atoms():
            totals = {place: product.results[place] for place in product.places(part)}
            product.results |= dict.fromkeys(totals, float_constant(FLOAT, 0.0))
            for k in range(block * depth // count, (block + 1) * depth // count, atom.k):
                product.multiply(part, k)
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
