# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which operand of a product threads read to registers: one that the target's asynchronous products do not read from
shared memory as it lies in memory, before layouts are chosen."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from libtile.atoms import wgmma
from libtile.atoms.operand_types import accumulator_type, ptx_type
from libtile.dialects.nv_tileaa.collectives import DotOp, ScaledDotOp
from libtile.dialects.nv_tileaa.memory import TiledLoadOp
from libtile.dialects.nv_tileaa.pointers import FpToFpOp
from libtile.dialects.nv_tileaa.shapes import ExpandDimsOp, PermuteOp, ViewOp, integers_of
from libtile.ir.tile_form import shape_of
from libtile.lowering.to_tileas.accesses import access
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
    along = _contiguous_dim(product.a), _contiguous_dim(product.b)
    side = "b" if along == (1, 1) else "a" if along == (0, 0) else None
    rows, columns = shape_of(product.result.type)[-2:]
    return None if (columns if side == "b" else rows) % wgmma.ROWS else side


def _contiguous_dim(value: SSAValue) -> int | None:
    """The dimension along which an operand is contiguous in memory, of those with more than one element; None for what
    is not a loaded tile, renamed and rounded at most."""
    op, shape = value.owner, shape_of(value.type)
    if not isinstance(op, Operation):
        return None
    if isinstance(op, TiledLoadOp):
        _, fastest, _ = access(op)
        return _wide(shape).index(fastest) if shape[fastest] != 1 else None
    if not isinstance(op, FpToFpOp | ViewOp | ExpandDimsOp | PermuteOp):
        return None
    dim, before = _contiguous_dim(op.source), shape_of(op.source.type)
    if dim is None:
        return None
    if isinstance(op, PermuteOp):
        order = integers_of(op.permutation)
        return _wide(shape).index(order.index(_wide(before)[dim]))
    return dim if [n for n in before if n != 1] == [n for n in shape if n != 1] else None


def _wide(shape: tuple[int, ...]) -> list[int]:
    return [d for d, n in enumerate(shape) if n != 1]
