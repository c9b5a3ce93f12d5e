# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which descriptors of a product's operands are made where they are used.

The descriptor of a tile in the only stage of a pipeline never changes, so that those of all its parts are computed in
front of the loop around a product and take two registers each there. Those of a right operand, and of a left one of
many parts, are rematerialized: a word of each is computed at its use. Where there are several stages a turn computes
its descriptors anyhow.
"""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from libtile.atoms import wgmma
from libtile.dialects.interfaces import first_name
from libtile.dialects.nv_tileas.async_products import AsyncDotOp, matrix_shape
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.pipeline import RegionOp
from libtile.dialects.nv_tileas.types import PipelineIteratorType, PipelineType
from libtile.ir.places import ops_of
from libtile.ir.tile_form import layout_of
from libtile.layouts import WARP

MOST_HELD = 16
"""Parts of a left operand whose descriptors are held in registers."""


def rematerialize_descriptors(function: Operation) -> None:
    """Say on the products of a function which of their descriptors are made where they are used."""
    for op in ops_of(function, AsyncDotOp):
        for side, value in (("a", op.a), ("b", op.b)):
            name = f"rematerialized_{side}"
            op.properties.pop(name, None)
            if _stays_in_place(value) and (side == "b" or _parts(op) > MOST_HELD):
                op.properties[name] = UnitAttr()


def _stays_in_place(value: SSAValue) -> bool:
    """Whether a value is a buffer in the only stage of a pipeline."""
    held = first_name(value)
    region = held.block.parent_op() if isinstance(held, BlockArgument) else None
    if not isinstance(region, RegionOp):
        return False
    iterator = region.iterator.type
    pipeline = iterator.pipeline if isinstance(iterator, PipelineIteratorType) else None
    return isinstance(pipeline, PipelineType) and pipeline.stages == 1


def _parts(op: AsyncDotOp) -> int:
    """How many parts of its left operand each warpgroup has instructions of a product read."""
    accumulator = layout_of(op.c.type)
    assert isinstance(accumulator, LayoutAttr)  # as the verifier has it
    warps = 1 << len(accumulator.layout.basis(WARP))
    rows, _ = matrix_shape(op.c.type)
    groups = warps // wgmma.GROUP_WARPS // wgmma.column_groups(rows, warps)
    outer, depth = matrix_shape(op.a.type)
    return outer // (wgmma.ROWS * groups) * (depth // op.atom.instruction.k)
