# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-select-tma-stores`: which tiles that agents compute are stored by TMA.

A store of a tile in the region of an agent that all its threads run, in no branch, gets an atom of TMA with its box,
and takes the tile in the layout in which it was computed: threads write it to shared memory, from where one of them
copies it (`lower-tma-load-store-to-async`). Behind the agent's loops it lies in the stages of a pipeline that are free
by then, in a loop over tiles in buffers of its own, as a whole or in parts (`staging`). Otherwise `not_tma` on the
store says why not, and threads store it themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.async_products import AsyncDotOp
from libtile.dialects.nv_tileas.memory import TiledStoreOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.dialects.nv_tileas.tensor_memory import AsyncDotIntoOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import set_operand
from libtile.ir.places import ops_in, ops_of
from libtile.lowering.discardable import NOT_TMA
from libtile.lowering.tileas.cleanup import drop_unused
from libtile.lowering.tileas.copies.tma_tiles import TmaTile, Unfit
from libtile.lowering.tileas.memory.free_stages import FreeStages
from libtile.lowering.tileas.memory.shared_memory import tile_bytes
from libtile.lowering.tileas.memory.staging import (
    STAGING,
    choices,
    conversions_in_front,
    loop_over_tiles,
    room_beside_pipelines,
    storable_tile,
    stored_by_tma,
    ways_to_stage,
)
from libtile.support.records import dataclass
from libtile.targets import Target, target
from libtile.targets.tensor_map import MAX_BOX


@dataclass(frozen=True)
class SelectTmaStoresPass(ModulePass):
    """Choose which tiles that agents compute are stored by TMA."""

    name = "tileas-select-tma-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            spec = inner.kernel_spec if isinstance(inner, FuncOp) else None
            if spec is not None and spec.target is not None and target(spec.target).has("tma"):
                assert isinstance(inner, FuncOp)
                select_tma_stores(inner, target(spec.target))


def select_tma_stores(function: FuncOp, gpu: Target) -> None:
    """Choose for one function."""
    for switch in ops_in(function.body.block):
        if not isinstance(switch, AgentSwitchOp):
            continue
        free = FreeStages(function)
        rows = rows_of_products(switch)
        for region, one in zip(switch.regions, switch.elected):
            if one:
                continue
            again: list[TmaTile] = []
            for op in ops_of(region, TiledStoreOp):
                if op.atom is not None:
                    continue
                try:
                    tile = storable_tile(function, op, rows)
                    if op.parent is region.block:
                        _store_by_tma(op, _behind_loops(op, tile, free))
                    elif loop_over_tiles(op) is not None:
                        again.append(tile)
                    else:
                        raise Unfit("TMA stores only what agents compute behind their loops, or for each tile of one")
                except Unfit as reason:
                    op.attributes[NOT_TMA] = StringAttr(str(reason))
            _stage_in_loops(function, gpu, again)
            drop_unused(region.block)


def rows_of_products(switch: AgentSwitchOp) -> int:
    """Rows of the largest product that agents issue at once: those of a box of what is stored, as in the reference
    assembler's descriptors, so that warpgroups can store on their own."""
    found = [op.atom.instruction.m for op in ops_of(switch, AsyncDotOp, AsyncDotIntoOp)]
    return max(found, default=MAX_BOX)


def _behind_loops(op: TiledStoreOp, tile: TmaTile, free: FreeStages) -> TmaTile:
    """The tile, which lies in stages that are free, as a whole or part by part; Unfit where there are none."""
    for way in ways_to_stage(tile):
        if free.take(op, tile_bytes(way.type), way.buffers) is not None:
            if len(way.corners) > 1:
                op.attributes[STAGING] = way.attribute
            return tile
    raise Unfit(f"no pipeline has stages that are free for {tile_bytes(tile.type)} bytes or parts of them")


def _stage_in_loops(function: FuncOp, gpu: Target, tiles: Sequence[TmaTile]) -> None:
    """Choose how tiles are staged that are stored in loops over tiles."""
    gone = {op for tile in tiles for op in conversions_in_front(tile.access)}
    room = room_beside_pipelines(function, gpu, gone) if tiles else 0
    found = choices([ways_to_stage(tile) for tile in tiles])
    chosen = next((choice for size, choice in found if size <= room), None)
    for number, tile in enumerate(tiles):
        if chosen is None:
            reason = f"pipelines leave {max(room, 0)} bytes of shared memory, and the tiles take {found[-1][0]}"
            tile.access.attributes[NOT_TMA] = StringAttr(reason)
        else:
            tile.access.attributes[STAGING] = chosen[number].attribute
            _store_by_tma(tile.access, tile)


def _store_by_tma(op: Operation, tile: TmaTile) -> None:
    assert isinstance(op, TiledStoreOp)
    op.properties["atom"] = tile.atom
    op.properties["allow_tma"] = UnitAttr()
    set_operand(op, "value", stored_by_tma(op))
