# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-select-tma-stores`: which tiles that agents compute are stored by TMA.

A store of a tile in the region of an agent that all its threads run, in no loop or branch, gets an atom of TMA with its
box, and takes the tile in the layout in which it was computed: threads write it to shared memory, from where one of
them copies it (`lower-tma-load-store-to-async`). It lies in the stages of a pipeline that are free by then. Otherwise
`not_tma` on the store says why not, and threads store it themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.async_products import AsyncDotOp
from libtile.dialects.nv_tileas.memory import TiledStoreOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.dialects.nv_tileas.tensor_memory import AsyncDotIntoOp
from libtile.dialects.nv_tileas.tiles import ConvertLayoutOp
from libtile.layouts import LANE, WARP
from libtile.lowering.discardable import NOT_TMA
from libtile.lowering.tileas.access_reasons import tensor_map_obstacle
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.free_stages import FreeStages
from libtile.lowering.tileas.shared_memory import tile_bytes
from libtile.lowering.tileas.tma_tiles import TmaTile, Unfit, described_tile
from libtile.lowering.tileas.view_accesses import view_access
from libtile.lowering.to_tileas.types import layout_of
from libtile.targets import target
from libtile.targets.tensor_map import MAX_BOX

MIN_BYTES = 1024
"""Of a tile that is worth the way through shared memory and the wait at the end of a kernel."""


@dataclass(frozen=True)
class SelectTmaStoresPass(ModulePass):
    """Choose which tiles that agents compute are stored by TMA."""

    name = "tileas-select-tma-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            spec = inner.kernel_spec if isinstance(inner, FuncOp) else None
            if spec is not None and spec.target is not None and target(spec.target).has("tma"):
                assert isinstance(inner, FuncOp)
                select_tma_stores(inner)


def select_tma_stores(function: FuncOp) -> None:
    """Choose for one function."""
    for switch in function.body.block.ops:
        if not isinstance(switch, AgentSwitchOp):
            continue
        free = FreeStages(function)
        rows = _rows_of_products(switch)
        for region, one in zip(switch.regions, switch.elected):
            if one:
                continue
            for op in list(region.walk()):
                if isinstance(op, TiledStoreOp) and op.atom is None:
                    try:
                        _store_by_tma(op, _fit(function, op, region.block, free, rows))
                    except Unfit as reason:
                        op.attributes[NOT_TMA] = StringAttr(str(reason))
            drop_unused(region.block)


def _rows_of_products(switch: AgentSwitchOp) -> int:
    """Rows of the largest product that agents issue at once: those of a box of what is stored, as in the reference
    assembler's descriptors, so that warpgroups can store on their own."""
    found = [op.atom.instruction.m for op in switch.walk() if isinstance(op, AsyncDotOp | AsyncDotIntoOp)]
    return max(found, default=MAX_BOX)


def _fit(function: FuncOp, op: TiledStoreOp, block: Block, free: FreeStages, rows: int) -> TmaTile:
    """How TMA stores a tile; Unfit where it does not."""
    view = view_access(op)
    if view is None:
        raise Unfit("it is not of a tiled view of a tensor")
    if (reason := tensor_map_obstacle(op, view, store=True)) is not None:
        raise Unfit(reason)
    tile = described_tile(function, op, "it ", rows=rows)
    if (size := tile_bytes(tile.type)) < MIN_BYTES:
        raise Unfit(f"a tile of {size} bytes is stored by threads")
    if op.parent is not block:
        raise Unfit("TMA stores only what agents compute behind their loops")
    if free.take(op, size) is None:
        raise Unfit(f"no pipeline has stages that are free for {size} bytes")
    return tile


def _store_by_tma(op: TiledStoreOp, tile: TmaTile) -> None:
    op.properties["atom"] = tile.atom
    op.properties["allow_tma"] = UnitAttr()
    made = op.value.owner
    if isinstance(made, ConvertLayoutOp) and _is_whole(made):
        op.operands[1] = made.source


def _is_whole(op: Operation) -> bool:
    """Whether each thread has a part of its own of the tile that is converted."""
    unused = layout_of(op.operands[0]).free_bits()
    return not unused.get(LANE, 0) and not unused.get(WARP, 0)
