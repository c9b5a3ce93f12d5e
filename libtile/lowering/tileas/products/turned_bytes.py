# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of bytes whose right operand does not lie along k in memory become those of their transposes, before layouts
are chosen.

`ldmatrix` transposes bytes by blocks of 16 rows and 16 columns. Of a left operand these are the registers that an
instruction reads, in its order; of a right one those of two instructions, mixed, so that each is moved once more. A
left operand that lies along k is a right one at no cost.
"""

from __future__ import annotations

from libtile.dialects.nv_tileaa.collectives import DotOp
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.ir.places import ops_of
from libtile.ir.tile_form import shape_of
from libtile.lowering.tileas.products.product_forms import transposed
from libtile.lowering.to_tileas.accesses import contiguous_dim
from libtile.lowering.to_tileas.types import element_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.targets import Target

LEFT_ROWS = 16
"""Of the instructions that multiply bytes."""


def turn_products_of_bytes(function: FuncOp, gpu: Target) -> None:
    """Turn those products of a function that a loop adds up, where the target's read registers."""
    if not gpu.has("ldmatrix_bytes") or gpu.has("tcgen05"):
        return
    for op in ops_of(function, DotOp):
        if _is_better_turned(op):
            transposed(op)


def _is_better_turned(product: DotOp) -> bool:
    a, b = element_of(product.a), element_of(product.b)
    if STORAGE_BYTES[a] != 1 or STORAGE_BYTES[b] != 1 or len(shape := shape_of(product.result.type)) != 2:
        return False
    return shape[1] >= LEFT_ROWS and contiguous_dim(product.a) == 1 and contiguous_dim(product.b) == 1
