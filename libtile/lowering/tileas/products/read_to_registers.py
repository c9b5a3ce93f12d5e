# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which operand of a product threads read to registers: one that the target's asynchronous products do not read from
shared memory as it lies in memory, before layouts are chosen."""

from __future__ import annotations

from libtile.atoms import wgmma
from libtile.atoms.operand_types import accumulator_type, ptx_type
from libtile.dialects.nv_tileaa.collectives import DotOp, ScaledDotOp
from libtile.ir.tile_form import shape_of
from libtile.lowering.to_tileas.accesses import contiguous_dim
from libtile.lowering.to_tileas.types import element_of
from libtile.numerics.elements import STORAGE_BYTES
from libtile.targets import Target

WORD_BYTES = 4
"""Of elements that lie in registers as they do in memory, whichever way tiles are contiguous."""


def read_to_registers(product: DotOp | ScaledDotOp, gpu: Target) -> str | None:
    """The operand, "a" or "b", that is not contiguous along k where the other one is, and whose rows, or columns, are
    those of whole instructions; None for products whose operands may lie so in shared memory, are narrower than words,
    or are computed."""
    if isinstance(product, ScaledDotOp):
        return None
    a, b, c = (element_of(v) for v in (product.a, product.b, product.c))
    family = gpu.wgmma(ptx_type(a, True), ptx_type(b, True), accumulator_type(c))
    if family is None or family.transposed or STORAGE_BYTES[a] != WORD_BYTES:
        return None
    along = contiguous_dim(product.a), contiguous_dim(product.b)
    side = "b" if along == (1, 1) else "a" if along == (0, 0) else None
    rows, columns = shape_of(product.result.type)[-2:]
    return None if (columns if side == "b" else rows) % wgmma.ROWS else side
