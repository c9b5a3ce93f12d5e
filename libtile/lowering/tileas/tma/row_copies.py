# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows that a tile of numbers chooses, by TMA (modes gather4 and scatter4), where a program asks for it.

Threads load chosen rows by 16 bytes each into the registers that want them, and store them from there; through TMA
they would go by shared memory as well, and a barrier object or group be waited for at once. So they do that unless a
hint of the access (`allow_tma = true`) says otherwise. An access that does not fit keeps its reason (`not_tma`).
"""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, UnitAttr

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.types import TiledViewType
from libtile.dialects.nv_tileas.memory import TiledLoadOp, TiledStoreOp
from libtile.dialects.nv_tileas.pipeline import AgentSwitchOp
from libtile.ir.places import ops_of
from libtile.lowering.discardable import NOT_TMA
from libtile.targets import Target


def choose_row_copies(function: FuncOp, gpu: Target) -> None:
    """Give accesses to chosen rows that ask for TMA its atom, in code that all threads of the tile block run."""
    if ops_of(function, AgentSwitchOp):
        return
    for op in ops_of(function):
        if not isinstance(op, TiledLoadOp | TiledStoreOp) or op.atom is not None or not _asks(op):
            continue
        from libtile.lowering.tileas.copies.tma_tiles import Unfit, described_tile

        mode = "gather4" if isinstance(op, TiledLoadOp) else "scatter4"
        try:
            if not gpu.has(f"tma_{mode}"):
                raise Unfit(f"{gpu.name} has no {mode}")
            if op.semantic != "weak":
                raise Unfit("memory semantic must be weak for TMA operations")
            tile = described_tile(function, op, "it ", by_rows=True)
        except Unfit as reason:
            op.attributes[NOT_TMA] = StringAttr(str(reason))
            continue
        op.properties["atom"] = tile.atom
        op.properties["allow_tma"] = UnitAttr()


def _asks(op: TiledLoadOp | TiledStoreOp) -> bool:
    view, hints = op.view.type, op.hints
    if not isinstance(view, TiledViewType) or view.layout.sparse_dim is None or not isinstance(hints, DictionaryAttr):
        return False
    allowed = hints.data.get("allow_tma")
    return isinstance(allowed, IntegerAttr) and bool(allowed.value.data)
