# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`view-memref-accesses`: accesses to boxes of a memref become accesses through a tiled view of it.

`nv_tileaa.tiled_load` and its kin take a memref too: the indices are then those of the box's first element. That is a
tile of a view whose tiles begin at every element (`traversal_strides` of 1), by which the tile gets its layout.
Programs that come from Tile IR have views from the start.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, ModuleOp, i64
from xdsl.ir import Attribute, Operation, SSAValue

from libtile.dialects.nv_tileaa.attributes import TilingAttr
from libtile.dialects.nv_tileaa.memory import MemoryOp, TiledAtomicRmwOp, TiledLoadOp, TiledStoreOp
from libtile.dialects.nv_tileaa.pointers import BlockTileOp
from libtile.dialects.nv_tileaa.types import MemRefType, TiledViewType
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import set_operand
from libtile.ir.places import ops_of
from libtile.ir.tile_form import build, shape_of
from libtile.support.records import dataclass

ACCESSES = (TiledLoadOp, TiledStoreOp, TiledAtomicRmwOp)
"""Ops that access a box of a memref. What else takes a memref names single elements."""


@dataclass(frozen=True)
class ViewMemRefAccessesPass(ModulePass):
    """Give accesses to boxes of memrefs a tiled view."""

    name = "view-memref-accesses"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for access in ops_of(op, *ACCESSES):
            _view(access)


def _view(access: MemoryOp) -> None:
    base = access.accessed
    shape = shape_of(access.value_type)
    if isinstance(base.type, MemRefType) and len(shape) == base.type.rank and all(shape):
        view = _view_of(base, base.type, shape, access)
        set_operand(access, "base", view)


def _view_of(base: SSAValue, type_: MemRefType, shape: tuple[int, ...], before: Operation) -> SSAValue:
    """A view of a memref with a tile at every element, in front of an op."""
    tiling = TilingAttr(traversal_strides=(1,) * len(shape))
    groups: list[Attribute] = [DenseArrayBase.from_list(i64, [dim]) for dim in range(len(shape))]
    made = build(
        BlockTileOp.name,
        [base],
        [TiledViewType(type_, shape, tiling)],
        {"tileSizes": DenseArrayBase.from_list(i64, list(shape)), "dimGroups": ArrayAttr(groups)},
        location=before.location,
    )
    block = before.parent
    assert block is not None  # an access stands in a function
    block.insert_op_before(made, before)
    return made.results[0]
